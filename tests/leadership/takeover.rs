//! What a new leader does before its first decision.

use std::time::Duration;

use client::scheduler::{Hold, Relist, RequestSource};
use client::{Reply, Request, Response};

use super::take_bind;
use super::world::World;

/// A world in which the leader was killed with a bind of `web` on the way, and the standby has the Lease
/// but has not sent a patch. Returns the bind, too.
fn takeover() -> (World, Request) {
    let mut world = World::new(2);
    world.create_pod("first");
    world.run(0);
    world.run(1);
    world.create_pod("web");
    let (_, bind) = take_bind(&mut world, 0);
    world.replicas.remove(0);
    while !world.replicas[0].scheduler.may_act(world.now) {
        assert!(elect(&mut world).is_empty());
    }
    (world, bind)
}

/// Answers the next requests of the election, when they are due. Returns the other requests.
fn elect(world: &mut World) -> Sent {
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

type Sent = Vec<(RequestSource, Request)>;

/// Takes the requests of the only replica: those of the election, and status patches.
fn requests(world: &mut World) -> (Sent, Sent) {
    let requests = world.take_requests(0).into_iter();
    let requests = requests.filter(|(source, _)| *source != RequestSource::EventRecorder);
    requests.partition(|(source, _)| *source == RequestSource::LeaderElector)
}

fn hold(world: &World) -> Option<Hold> {
    world.replicas[0].scheduler.hold(world.now)
}

#[test]
fn late_bind_of_a_killed_leader_is_refused_before_the_next_leader_decides() {
    let (mut world, bind) = takeover();
    assert_eq!(hold(&world), Some(Hold::Fencing));
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
    assert_eq!(hold(&world), None);
    assert_eq!(world.send(&bind), 409);
    world.run(0);
    assert!(world.is_bound("web"));
}

#[test]
fn bind_that_arrives_before_the_patch_is_seen_before_the_next_leader_decides() {
    let (mut world, bind) = takeover();
    world.tick(0);
    let (_, patches) = requests(&mut world);
    assert_eq!(world.send(&bind), 201);
    let (source, patch) = &patches[0];
    world.exchange(0, *source, patch);
    let (_, reads) = requests(&mut world);
    for (source, read) in &reads {
        world.exchange(0, *source, read);
    }
    world.learn(0);
    assert_eq!(hold(&world), Some(Hold::CatchingUp), "the bind may be older than the takeover");
    world.now = world.now + Duration::from_secs(5);
    world.tick(0);
    world.learn(0);
    assert_eq!(hold(&world), None);
    assert!(!world.schedule_one(0), "the pod is bound");
}

#[test]
fn pods_are_listed_again_if_the_watch_does_not_show_the_patch() {
    let (mut world, _) = takeover();
    world.tick(0);
    let (_, patches) = requests(&mut world);
    let (source, patch) = &patches[0];
    world.exchange(0, *source, patch);
    let scheduler = &mut world.replicas[0].scheduler;
    assert_eq!(scheduler.take_relists(), [Relist::Others]);
    scheduler.handle_relisted(Relist::Others);
    assert_eq!(hold(&world), Some(Hold::CatchingUp));
    world.now = world.now + Duration::from_secs(5);
    world.tick(0);
    assert_eq!(world.replicas[0].scheduler.take_relists(), [Relist::Pods]);
    // A list of many pods takes longer. Another request would start it over, for ever.
    let begun = world.now;
    while world.now.since(begun) < Duration::from_mins(1) {
        elect(&mut world);
        assert_eq!(world.replicas[0].scheduler.take_relists(), []);
    }
    assert_eq!(hold(&world), Some(Hold::CatchingUp));
}

#[test]
fn refused_patches_do_not_hold_up_other_pods() {
    let (mut world, _) = takeover();
    world.tick(0);
    let (_, patches) = requests(&mut world);
    let (source, patch) = &patches[0];
    let refused = Response { status: 403, retry_after: None, body: b"a webhook says no".to_vec() };
    world.reply(0, *source, patch, Reply::Answered(refused));
    assert_eq!(hold(&world), Some(Hold::CatchingUp), "no patch shows that the watch is current");
    world.now = world.now + Duration::from_secs(5);
    world.tick(0);
    world.learn(0);
    assert_eq!(hold(&world), None, "a new list does");
}

#[test]
fn patches_without_an_answer_are_given_up_after_a_minute() {
    let (mut world, _) = takeover();
    world.tick(0);
    requests(&mut world);
    let begun = world.now;
    while hold(&world) == Some(Hold::Fencing) {
        elect(&mut world);
    }
    assert_eq!(world.now.since(begun).as_secs(), 60);
    let failed: Vec<_> = world.replicas[0].scheduler.take_failed_calls().collect();
    assert!(failed.iter().any(|call| call.action == "stopping earlier binds of"), "{failed:?}");
}

#[test]
fn watch_has_to_show_the_version_in_which_a_bound_pod_was_read() {
    let (mut world, bind) = takeover();
    world.tick(0);
    let (_, patches) = requests(&mut world);
    assert_eq!(world.send(&bind), 201);
    world.learn(0);
    world.start("web");
    let (source, patch) = &patches[0];
    world.exchange(0, *source, patch);
    let (_, reads) = requests(&mut world);
    for (source, read) in &reads {
        world.exchange(0, *source, read);
    }
    world.now = world.now + Duration::from_secs(5);
    world.tick(0);
    assert_eq!(hold(&world), Some(Hold::CatchingUp), "the watch is older than the read");
    world.learn(0);
    assert_eq!(hold(&world), None);
}

#[test]
fn clean_takeover_patches_one_pod() {
    let mut world = World::new(2);
    world.create_pod("first");
    world.run(0);
    world.run(1);
    world.replicas[0].scheduler.stop(world.now);
    world.run(0);
    (0..5).for_each(|number| world.create_pod(&format!("web-{number}")));
    world.replicas.remove(0);
    world.now = world.replicas[0].scheduler.next_deadline().unwrap();
    world.tick(0);
    let mut patches = 0;
    while !world.is_bound("web-4") {
        for (source, request) in world.take_requests(0) {
            patches += usize::from(request.path.ends_with("/status"));
            world.exchange(0, source, &request);
        }
        world.learn(0);
        world.tick(0);
        world.schedule_one(0);
    }
    assert_eq!(patches, 1);
}

/// After a clean handover the first answer is enough, so that a pod may be chosen a node before the answer to its own
/// patch.
#[test]
fn bind_names_the_version_of_a_patch_that_no_watch_has_shown() {
    let mut world = World::new(2);
    world.create_pod("first");
    world.run(0);
    world.run(1);
    world.replicas[0].scheduler.stop(world.now);
    world.run(0);
    for namespace in ["default", "other"] {
        world.create_pod_in(namespace, "web");
    }
    world.replicas.remove(0);
    for _ in 0..10 {
        if !world.replicas[0].scheduler.may_act(world.now) {
            assert!(elect(&mut world).is_empty());
        }
    }
    world.tick(0);
    let (_, patches) = requests(&mut world);
    let [(source, early), (_, late)] = &patches[..] else { panic!("{patches:?}") };
    world.exchange(0, *source, early);
    world.learn(0);
    assert_eq!(hold(&world), None);
    assert!(world.schedule_one(0) && world.schedule_one(0));
    let (_, binds) = requests(&mut world);
    assert_eq!(binds.len(), 1, "the other pod is being patched: {binds:?}");
    world.exchange(0, *source, late);
    let (_, binds) = requests(&mut world);
    let [(_, bind)] = &binds[..] else { panic!("{binds:?}") };
    assert_eq!(bind.path.trim_end_matches("/binding"), late.path.trim_end_matches("/status"));
    assert_eq!(world.send(bind), 201);
}
