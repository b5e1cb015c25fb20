//! A standby that takes over from a leader that was killed, with either kind of fencing.

use control::Request;
use control::scheduler::{Fencing, Hold, RequestSource};

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

#[test]
fn late_bind_of_a_killed_leader_is_refused_before_the_next_leader_decides() {
    for (fencing, held) in
        [(Fencing::default(), Hold::CatchingUp), (Fencing::Strict, Hold::Fencing)]
    {
        let (mut world, bind) = takeover(fencing);
        assert_eq!(hold(&world), Some(held));
        world.tick(0);
        let (_, patches) = requests(&mut world);
        assert_eq!(patches.len(), 1, "only the pending pod is patched");
        let (source, patch) = &patches[0];
        assert_eq!(patch.path, "/api/v1/namespaces/default/pods/web/status");
        assert!(!world.schedule_one(0));
        world.exchange(0, *source, patch);
        assert_eq!(hold(&world), Some(Hold::CatchingUp), "the watch has not shown the patch");
        assert!(!world.schedule_one(0));
        world.learn(0);
        world.tick(0);
        assert_eq!(hold(&world), None);
        assert_eq!(world.send(&bind), 409);
        world.run(0);
        assert!(world.is_bound("web"));
    }
}

/// Only a strict takeover fences a member that does not say yet that it is gated.
#[test]
fn members_of_groups_that_are_gated_get_no_fence() {
    for (fencing, fenced) in
        [(Fencing::default(), vec!["web"]), (Fencing::Strict, vec!["untold", "web"])]
    {
        let mut world = World::with_fencing(2, fencing);
        world.create_pod("first");
        world.create_member("told");
        world.pass(1);
        world.create_member("untold");
        take_bind_of(&mut world, "web");
        world.replicas.remove(0);
        lead(&mut world);
        let mut names = Vec::new();
        while hold(&world).is_some() {
            world.tick(0);
            for (source, request) in requests(&mut world).1 {
                names.push(request.path.split('/').nth(6).unwrap().to_owned());
                world.exchange(0, source, &request);
            }
            world.learn(0);
        }
        assert_eq!(names, fenced, "{fencing:?}");
    }
}

/// Creates a pod whose bind the leader sends.
fn take_bind_of(world: &mut World, pod: &str) {
    world.create_pod(pod);
    take_bind(world, 0);
}
