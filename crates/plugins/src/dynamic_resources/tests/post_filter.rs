//! PostFilter: what it frees, and its texts.

use framework::{AttemptMut, Code, Verdicts};
use serde_json::json;
use testkit::FakeDryRun;

use super::world::*;
use crate::dynamic_resources::*;

#[test]
fn pod_without_claims_has_nothing_to_deallocate() {
    let world = World::new([]);
    let status = world.post_filter(&pod("p", &json!({})));
    assert_eq!(status.message(), "no new claims to deallocate");
    let status = world.post_filter(&pod_using("p", &["absent"]));
    assert_eq!(status.message(), "no new claims to deallocate");
}

#[test]
fn missing_state_ends_post_filter_as_in_kube_scheduler() {
    let world = World::new([]);
    let point = world.plugin.post_filter.as_ref().unwrap();
    let (mut state, mut dry_run) =
        (CycleState::new(), FakeDryRun::new(&world.cluster, |_| Status::success()));
    let pod = pod("p", &json!({}));
    let handle = world.handle();
    let result = point.post_filter(
        AttemptMut::new(&mut state, &pod, &handle),
        &Verdicts::default(),
        &mut dry_run,
    );
    assert_eq!((result.status.code(), &*result.status.message()), (Code::Error, "not found"));
}

#[test]
fn claim_that_only_this_pod_may_use_is_deallocated() {
    let user = |name: &str| json!({"resource": "pods", "name": name, "uid": format!("uid-{name}")});
    let done = "deallocation of ResourceClaim completed";
    let left = "still not schedulable";
    let rows = [
        (json!([]), done, Value::Null),
        (json!([user("p")]), done, Value::Null),
        (json!([user("q")]), left, json!([user("q")])),
        // Another pod waits as well: an earlier release was refused.
        (json!([user("p"), user("q")]), left, json!([user("q")])),
    ];
    for (users, expected, users_left) in rows {
        let mut world = World::new([("resourceclaims", claim("c", 1))]);
        let mut attempt = world.reserve(&pod_using("x", &["c"]), "a").unwrap();
        world.write_all(&mut attempt);
        world.show("resourceclaims", "c", &json!({"status": {"reservedFor": users.clone()}}));
        assert_eq!(world.post_filter(&pod_using("p", &["c"])).message(), expected, "{users}");
        let writes = world.write_commands();
        assert_eq!(writes.len(), usize::from(users != users_left), "{users}");
        let status = &world.claim("c")["status"];
        assert_eq!(status["reservedFor"], users_left, "{users}");
        assert_eq!(status["allocation"].is_null(), expected == done);
    }
}

#[test]
fn pod_does_not_rely_on_a_claim_that_it_deallocates() {
    let mut world = World::new([("resourceclaims", claim("c", 1))]);
    let pod = pod_using("p", &["c"]);
    let mut attempt = world.reserve(&pod, "a").unwrap();
    world.write_all(&mut attempt);
    // The pod is bound to no node, and another plugin rejects node a. The deallocation is late.
    let status = world.post_filter(&pod);
    assert_eq!(status.message(), "deallocation of ResourceClaim completed");
    let mut attempt = world.reserve(&pod, "a").unwrap();
    let step = world.step(&mut attempt, PreBindInput::Start);
    assert!(matches!(step, PreBindStep::Wait { .. }), "{step:?}");
    world.write_commands();
    world.watch_claims();
    let PreBindStep::Done(status) = world.step(&mut attempt, PreBindInput::Changed) else {
        panic!("the claim is not allocated any more");
    };
    let text = "claim default/c got deallocated elsewhere in the meantime";
    assert_eq!(status.message(), text);
}

#[test]
fn claims_that_fit_no_node_are_left_alone() {
    let world = World::new([("resourceclaims", claim("c", 9))]);
    let status = world.post_filter(&pod_using("p", &["c"]));
    assert_eq!(status.message(), "still not schedulable");
    assert!(world.parts.commands.is_empty());
}
