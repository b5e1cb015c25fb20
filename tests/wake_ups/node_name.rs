//! NodeName, which keeps no pod pending: a pod that names its node is not queued.

use super::objects::{create, node, pod};
use super::scenario::WAITING;
use super::world::World;

#[test]
fn pod_that_names_its_node_is_not_queued() {
    let mut world = World::new("", &[create(node("n")), create(pod(WAITING).on("m"))]);
    assert_eq!((world.place(WAITING), world.attempts(WAITING)), (None, 0));
    world.happens(&create(node("m")));
    world.settle();
    assert_eq!((world.place(WAITING), world.attempts(WAITING)), (None, 0));
}
