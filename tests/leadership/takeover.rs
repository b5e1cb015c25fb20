//! What a new leader does before its first decision, and beside the first ones.

use std::time::Duration;

use control::scheduler::{FenceLimits, Fencing, Hold, Relist, TakeoverNotice};
use control::{Reply, Request, Response};

use super::killed::{Sent, elect, hold, lead, requests, takeover};
use super::world::World;

/// The standby proves that its caches are current, and fences the pods that are left. Returns these
/// patches.
fn catch_up(world: &mut World) -> Sent {
    world.tick(0);
    let (_, probes) = requests(world);
    for (source, probe) in &probes {
        world.exchange(0, *source, probe);
    }
    assert_eq!(hold(world), Some(Hold::CatchingUp), "the watch has not shown the patch");
    world.learn(0);
    world.tick(0);
    requests(world).1
}

fn refused() -> Reply {
    let body = b"a webhook says no".to_vec();
    Reply::Answered(Response { status: 403, retry_after: None, body })
}

/// A standby that has the Lease of a leader that was killed with a backlog of pods, of which at
/// most `first` and in all `most` are fenced. Returns it with binds of the killed leader for all of
/// these pods.
fn backlog(pods: usize, limits: FenceLimits) -> (World, Vec<Request>) {
    let mut world = World::with_fencing(2, Fencing::Bounded(limits));
    world.create_pod("first");
    world.run(0);
    world.run(1);
    (0..pods).for_each(|number| world.create_pod(&format!("web-{number:03}")));
    let mut binds = Vec::new();
    while world.schedule_one(0) {
        let requests = world.take_requests(0).into_iter().map(|(_, request)| request);
        binds.extend(requests.filter(|request| request.path.ends_with("/binding")));
    }
    assert_eq!(binds.len(), pods);
    world.replicas.remove(0);
    lead(&mut world);
    (world, binds)
}

fn name_in(request: &Request) -> &str {
    request.path.split('/').nth(6).unwrap()
}

#[test]
fn pods_are_fenced_once_the_caches_are_current_and_hold_up_the_first_decision() {
    let limits = FenceLimits { first: 3, ..FenceLimits::default() };
    let (mut world, binds) = backlog(5, limits);
    let fences = catch_up(&mut world);
    // The pod that was patched to prove that the caches are current needs no other patch.
    let names: Vec<&str> = fences.iter().map(|(_, fence)| name_in(fence)).collect();
    assert_eq!(names, ["web-001", "web-002", "web-003"]);
    assert_eq!(hold(&world), Some(Hold::Fencing));
    assert!(!world.schedule_one(0));
    for (source, fence) in &fences {
        world.exchange(0, *source, fence);
    }
    assert_eq!(hold(&world), None);
    let statuses: Vec<u16> = binds.iter().map(|bind| world.send(bind)).collect();
    assert_eq!(statuses, [409, 409, 409, 409, 201], "the last pod was not fenced");
    world.run(0);
    assert!((0..5).all(|number| world.is_bound(&format!("web-{number:03}"))));
}

#[test]
fn pod_that_a_fence_finds_bound_is_known_before_the_first_decision() {
    let (mut world, binds) = backlog(3, FenceLimits::default());
    let fences = catch_up(&mut world);
    assert_eq!(world.send(&binds[1]), 201);
    for (source, fence) in &fences {
        world.exchange(0, *source, fence);
    }
    let (_, reads) = requests(&mut world);
    for (source, read) in &reads {
        world.exchange(0, *source, read);
    }
    assert_eq!(hold(&world), Some(Hold::Fencing), "the watch has not shown the bind");
    world.learn(0);
    assert_eq!(hold(&world), None);
}

#[test]
fn fences_without_an_answer_hold_up_decisions_for_less_than_a_second() {
    let (mut world, binds) = backlog(3, FenceLimits::default());
    let fences = catch_up(&mut world);
    assert_eq!(fences.len(), 2);
    let begun = world.now;
    while hold(&world) == Some(Hold::Fencing) {
        elect(&mut world);
    }
    assert_eq!(world.now.since(begun), Duration::from_millis(750));
    let failed: Vec<_> = world.replicas[0].scheduler.take_failed_calls().collect();
    assert!(failed.iter().any(|call| call.action == "stopping earlier binds of"), "{failed:?}");
    let completed =
        world.replicas[0].scheduler.take_takeover_notices().into_iter().find_map(|it| match it {
            TakeoverNotice::Completed { fenced, unanswered, .. } => Some((fenced, unanswered)),
            _ => None,
        });
    assert_eq!(completed, Some((2, 2)));
    // A fence that is carried out later still stops an earlier bind.
    let (source, fence) = &fences[0];
    world.exchange(0, *source, fence);
    assert_eq!([1, 2].map(|bind| world.send(&binds[bind])), [409, 201]);
}

#[test]
fn refused_fences_hold_up_no_decision() {
    let (mut world, _) = backlog(3, FenceLimits::default());
    for (source, fence) in catch_up(&mut world) {
        world.reply(0, source, &fence, refused());
    }
    assert_eq!(hold(&world), None);
}

#[test]
fn pods_are_listed_again_after_a_second_if_no_patch_is_answered() {
    let (mut world, _) = takeover(Fencing::default());
    world.tick(0);
    let begun = world.now;
    assert_eq!(world.replicas[0].scheduler.take_relists(), [Relist::Others]);
    world.replicas[0].scheduler.handle_relisted(Relist::Others);
    let mut relists = Vec::new();
    while relists.is_empty() {
        elect(&mut world);
        relists = world.replicas[0].scheduler.take_relists();
    }
    assert_eq!((relists, world.now.since(begun).as_secs()), (vec![Relist::Pods], 1));
    world.replicas[0].scheduler.handle_relisted(Relist::Pods);
    world.tick(0);
    assert_eq!(hold(&world), Some(Hold::Fencing), "the pod may be bound all the same");
}

#[test]
fn list_of_other_kinds_that_takes_long_asks_for_no_list_of_pods() {
    let (mut world, _) = takeover(Fencing::default());
    world.tick(0);
    let (_, patches) = requests(&mut world);
    let (source, patch) = &patches[0];
    assert_eq!(world.replicas[0].scheduler.take_relists(), [Relist::Others]);
    world.exchange(0, *source, patch);
    world.learn(0);
    let begun = world.now;
    while world.now.since(begun) < Duration::from_mins(1) {
        elect(&mut world);
        assert_eq!(world.replicas[0].scheduler.take_relists(), []);
    }
    assert_eq!(hold(&world), Some(Hold::CatchingUp));
    world.replicas[0].scheduler.handle_relisted(Relist::Others);
    world.tick(0);
    assert_eq!(hold(&world), None, "the only pod is patched");
}

#[test]
fn large_backlog_is_fenced_beside_the_decisions_within_its_share() {
    let limits = FenceLimits { first: 2, most: 100, one_in: 10 };
    let (mut world, binds) = backlog(60, limits);
    for (source, fence) in catch_up(&mut world) {
        world.exchange(0, source, &fence);
    }
    assert_eq!(hold(&world), None);
    let notices = world.replicas[0].scheduler.take_takeover_notices();
    assert!(notices.contains(&TakeoverNotice::Began { pending: 60, may_have_crashed: true }));
    assert!(notices.contains(&TakeoverNotice::Fences { pending: 60, first: 2, later: 4 }));
    // No pod is tried meanwhile.
    let begun = world.now;
    let mut fenced = Vec::new();
    while world.now.since(begun) < Duration::from_secs(5) {
        for (source, fence) in elect(&mut world) {
            fenced.push(name_in(&fence).to_owned());
            world.exchange(0, source, &fence);
            world.learn(0);
        }
    }
    assert_eq!(fenced, ["web-003", "web-004", "web-005", "web-006"]);
    assert_eq!(world.send(&binds[6]), 409);
    let last = world.replicas[0].scheduler.take_takeover_notices().pop();
    assert!(matches!(last, Some(TakeoverNotice::LaterCompleted { fenced: 4, .. })), "{last:?}");
}

#[test]
fn pods_that_are_bound_meanwhile_are_not_fenced_beside_the_decisions() {
    let limits = FenceLimits { first: 2, most: 100, one_in: 2 };
    let (mut world, _) = backlog(20, limits);
    for (source, fence) in catch_up(&mut world) {
        world.exchange(0, source, &fence);
    }
    world.run(0);
    assert!((0..20).all(|number| world.is_bound(&format!("web-{number:03}"))));
    let begun = world.now;
    while world.now.since(begun) < Duration::from_secs(5) {
        let patches = elect(&mut world);
        assert_eq!(patches, [], "each bind was a fence");
    }
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

/// After a clean handover the first answer is enough, so that a pod may be chosen a node before the
/// answer to its own patch.
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
