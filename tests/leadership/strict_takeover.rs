//! What a new leader does before its first decision with `--strict-takeover`.

use std::time::Duration;

use control::scheduler::{Fencing, Hold, Relist};
use control::{Reply, Request, Response};

use super::killed::{elect, hold, requests};
use super::world::World;

fn takeover() -> (World, Request) {
    super::killed::takeover(Fencing::Strict)
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
