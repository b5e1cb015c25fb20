//! A standby that takes over from a leader that was killed.

use client::Request;
use client::scheduler::{Fencing, Hold, RequestSource};

use super::take_bind;
use super::world::World;

/// A world in which the leader was killed with a bind of `web` on the way, and the standby has the
/// Lease but has not sent a patch. Returns the bind, too.
pub(super) fn takeover(fencing: Fencing) -> (World, Request) {
    let mut world = World::with_fencing(2, fencing);
    world.create_pod("first");
    world.run(0);
    world.run(1);
    world.create_pod("web");
    let (_, bind) = take_bind(&mut world, 0);
    world.replicas.remove(0);
    lead(&mut world);
    (world, bind)
}

/// Lets the only replica win the election.
pub(super) fn lead(world: &mut World) {
    while !world.replicas[0].scheduler.may_act(world.now) {
        assert!(elect(world).is_empty());
    }
}

/// Answers the next requests of the election, when they are due. Returns the other requests.
pub(super) fn elect(world: &mut World) -> Sent {
    let (mut election, mut others) = requests(world);
    if election.is_empty() {
        world.now = world.replicas[0].scheduler.next_deadline().unwrap();
        world.tick(0);
        (election, others) = requests(world);
    }
    for (source, request) in &election {
        world.exchange(0, *source, request);
    }
    others
}

pub(super) type Sent = Vec<(RequestSource, Request)>;

/// Takes the requests of the only replica: those of the election, and status patches.
pub(super) fn requests(world: &mut World) -> (Sent, Sent) {
    let requests = world.take_requests(0).into_iter();
    let requests = requests.filter(|(source, _)| *source != RequestSource::EventRecorder);
    requests.partition(|(source, _)| *source == RequestSource::LeaderElector)
}

pub(super) fn hold(world: &World) -> Option<Hold> {
    world.replicas[0].scheduler.hold(world.now)
}
