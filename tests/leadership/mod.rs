//! Replicas of the scheduler with leader election, under a virtual clock.
//!
//! Only the leader acts. [`control::leader_election`] has the tests of the election itself.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod killed;
mod strict_takeover;
mod takeover;
mod world;

use control::leader_election::{LEVEL_ANNOTATION, Notice, Outcome};
use control::scheduler::RequestSource;
use control::{Method, Reply, Request};
use framework::Level;
use serde_json::{Value, json};

use world::World;

fn is_of_election(source: &RequestSource) -> bool {
    *source == RequestSource::LeaderElector
}

/// Takes the one request of a leader that binds a pod.
fn take_bind(world: &mut World, leader: usize) -> (RequestSource, Request) {
    assert!(world.schedule_one(leader));
    let mut requests = world.take_requests(leader);
    requests.retain(|(_, request)| request.path.ends_with("/binding"));
    requests.pop().expect("the pod is bound")
}

#[test]
fn only_the_leader_schedules() {
    let mut world = World::new(2);
    world.create_pod("web");
    world.run(1);
    assert_eq!(world.lease()["spec"]["holderIdentity"], "b");
    assert!(world.is_bound("web"));
    world.create_pod("db");
    world.run(0);
    assert!(!world.is_bound("db"));
    assert!(!world.replicas[0].scheduler.can_schedule(world.now));
    world.run(1);
    assert!(world.is_bound("db"));
}

#[test]
fn standby_knows_the_cluster_when_it_takes_over() {
    let mut world = World::new(2);
    world.run(0);
    world.create_pod("web");
    // The leader is killed.
    let killed = world.replicas.remove(0);
    world.pass(30);
    assert_eq!(world.lease()["spec"]["holderIdentity"], "b");
    assert_eq!(world.lease()["spec"]["leaseTransitions"], 1);
    assert!(world.is_bound("web"));
    assert!(!killed.scheduler.may_act(world.now));
}

/// During an upgrade, replicas of two levels take over from each other. Each decides by its own
/// level, which its Lease names.
#[test]
fn replicas_of_different_levels_take_over_from_each_other() {
    for [first, second] in [[Level::V1_36, Level::V1_37], [Level::V1_37, Level::V1_36]] {
        let mut world = World::of_levels(&[first, second]);
        let leads = |world: &World, level: Level| {
            let annotation = &world.lease()["metadata"]["annotations"][LEVEL_ANNOTATION];
            assert_eq!(*annotation, level.to_string());
        };
        let fits = |level| level != Level::V1_36;
        world.create_resized();
        world.create_pod_of("web", "2");
        world.run(0);
        leads(&world, first);
        assert_eq!(world.is_bound("web"), fits(first), "{first}");
        // The leader is killed.
        world.replicas.remove(0);
        world.create_pod_of("db", "1");
        world.pass(30);
        leads(&world, second);
        assert_eq!(world.is_bound("web"), fits(first) || fits(second), "{first}, then {second}");
        // Beside the resized pod, there is room for 3 CPUs at 1.37, and for none at 1.36.
        assert_eq!(world.is_bound("db"), fits(second), "{first}, then {second}");
    }
}

#[test]
fn released_lease_is_taken_over_within_one_attempt() {
    let mut world = World::new(2);
    world.run(0);
    world.run(1);
    world.create_pod("web");
    world.replicas[0].scheduler.stop(world.now);
    world.run(0);
    assert_eq!(world.outcome(0), Some(Outcome::Stopped));
    assert_eq!(world.lease()["spec"]["holderIdentity"], "");
    let event = json!({ "type": "MODIFIED", "object": world.lease() }).to_string();
    world.replicas[1].scheduler.handle_lease_event(event.as_bytes(), world.now);
    world.run(1);
    assert!(world.is_bound("web"));
}

#[test]
fn leader_finishes_its_binds_before_it_releases_the_lease() {
    let mut world = World::leading();
    world.create_pod("web");
    let (source, bind) = take_bind(&mut world, 0);
    world.replicas[0].scheduler.stop(world.now);
    for _ in 0..10 {
        world.pass(2);
        assert_eq!(world.outcome(0), None);
        assert_eq!(world.lease()["spec"]["holderIdentity"], "a", "it renews meanwhile");
        assert!(world.replicas[0].scheduler.may_act(world.now));
    }
    world.exchange(0, source, &bind);
    assert!(world.is_bound("web"));
    world.run(0);
    assert_eq!(world.lease()["spec"]["holderIdentity"], "");
    assert_eq!(world.outcome(0), Some(Outcome::Stopped));
}

#[test]
fn stopped_standby_ends_at_once() {
    let mut world = World::new(2);
    world.run(0);
    world.run(1);
    world.replicas[1].scheduler.stop(world.now);
    assert_eq!(world.outcome(1), Some(Outcome::Stopped));
    let mut unsynced = World::unsynced(1, false);
    unsynced.replicas[0].scheduler.stop(unsynced.now);
    assert_eq!(unsynced.outcome(0), Some(Outcome::Stopped));
}

#[test]
fn requests_carry_the_end_of_the_authority() {
    let mut world = World::leading();
    world.create_pod("web");
    let authority = world.replicas[0].scheduler.leader_elector().unwrap().authority_ends_at();
    assert!(authority.is_some());
    let (_, bind) = take_bind(&mut world, 0);
    assert_eq!(bind.not_after, authority);
    world.pass(2);
    let renewed = world.replicas[0].scheduler.leader_elector().unwrap().authority_ends_at();
    assert!(renewed > authority, "later requests may be sent longer");
}

#[test]
fn leader_that_lost_the_lease_sends_nothing() {
    let mut world = World::leading();
    world.create_pod("web");
    world.create_pod("db");
    assert!(world.schedule_one(0));
    // It is paused before its request is sent.
    world.now = world.replicas[0].scheduler.leader_elector().unwrap().authority_ends_at().unwrap();
    assert!(!world.schedule_one(0), "even before its timers run");
    world.tick(0);
    assert_eq!(world.take_requests(0), []);
    assert_eq!(world.outcome(0), Some(Outcome::Lost));
    let notices = world.replicas[0].scheduler.take_notices();
    assert!(matches!(notices.last(), Some(Notice::StoppedLeading(_))), "{notices:?}");
    world.pass(60);
    assert!(!world.is_bound("web") && !world.is_bound("db"));
}

#[test]
fn reply_after_the_loss_causes_no_request() {
    let mut world = World::leading();
    world.create_pod("web");
    let (source, bind) = take_bind(&mut world, 0);
    world.now = world.replicas[0].scheduler.leader_elector().unwrap().authority_ends_at().unwrap();
    world.tick(0);
    // The unknown outcome of a bind is otherwise cleared up by a read.
    world.reply(0, source, &bind, Reply::Lost("timeout".to_owned()));
    world.tick(0);
    assert_eq!(world.take_requests(0), []);
}

#[test]
fn new_leader_is_announced_by_an_event() {
    let mut world = World::new(1);
    world.tick(0);
    let events = loop {
        let mut requests = world.take_requests(0);
        let election: Vec<_> =
            requests.extract_if(.., |(source, _)| is_of_election(source)).collect();
        if election.is_empty() {
            break requests;
        }
        for (source, request) in election {
            world.exchange(0, source, &request);
        }
    };
    let [(RequestSource::EventRecorder, request)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(request.method, Method::Post);
    assert_eq!(request.path, "/apis/events.k8s.io/v1/namespaces/kube-system/events");
    let event: Value = serde_json::from_slice(&request.body).unwrap();
    let uid = &world.lease()["metadata"]["uid"];
    assert_eq!(
        event["regarding"],
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "namespace": "kube-system", "name": "loadmaster", "uid": uid,
        })
    );
    assert_eq!((&event["reason"], &event["type"]), (&json!("LeaderElection"), &json!("Normal")));
    assert_eq!(event["note"], "a became leader");
    assert_eq!(event["reportingController"], "default-scheduler");
}

#[test]
fn replica_competes_once_it_has_synced() {
    let mut world = World::unsynced(1, false);
    world.tick(0);
    assert_eq!(world.take_requests(0), []);
    world.set_synced(0);
    world.tick(0);
    assert_eq!(world.take_requests(0).len(), 1);
}

#[test]
fn delayed_cache_is_filled_after_winning() {
    let mut world = World::unsynced(1, true);
    world.run(0);
    assert_eq!(world.lease()["spec"]["holderIdentity"], "a");
    assert!(world.replicas[0].scheduler.may_act(world.now));
    world.create_pod("web");
    world.run(0);
    assert!(!world.is_bound("web"));
    world.set_synced(0);
    world.run(0);
    assert!(world.is_bound("web"));
}
