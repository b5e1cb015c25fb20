//! Binding conditions.

use serde_json::json;

use super::world::*;
use crate::dynamic_resources::*;

fn device() -> Value {
    json!([{"name": "0", "bindsToNode": true,
        "bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}])
}

/// A pod that waits for the device of its claim on node a.
fn waiting() -> (World, Reservation) {
    let mut world = World::new([("resourceclaims", claim("c", 1))]);
    world.put("resourceslices", slice_with("a", &device()));
    let mut attempt = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    let step = world.write_all(&mut attempt);
    let PreBindStep::Wait { timeout, .. } = step else { panic!("{step:?}") };
    assert!(timeout <= Duration::from_mins(10) + Duration::from_nanos(1), "{timeout:?}");
    (world, attempt)
}

fn status(conditions: Value) -> Value {
    json!({"status": {"devices": [
        {"driver": "d", "pool": "a", "device": "0", "conditions": conditions},
    ]}})
}

fn message(step: PreBindStep) -> Option<String> {
    match step {
        PreBindStep::Done(status) => Some(status.message()),
        PreBindStep::Wait { .. } => None,
        PreBindStep::Write(write) => panic!("{write:?}"),
    }
}

#[test]
fn pod_waits_for_the_conditions_of_its_devices() {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "m \"x\""});
    let rows = [
        (json!([]), None),
        (json!([condition("attached", "False")]), None),
        (json!([condition("attached", "True")]), Some("")),
        (
            json!([condition("attached", "True"), condition("broken", "True")]),
            Some("device binding failed: claim=c, reason=R, message=\"m \\\"x\\\"\""),
        ),
    ];
    for (conditions, expected) in rows {
        let (mut world, mut attempt) = waiting();
        world.show("resourceclaims", "c", &status(conditions.clone()));
        let step = world.step(&mut attempt, PreBindInput::Changed);
        assert_eq!(message(step).as_deref(), expected, "{conditions}");
    }
}

#[test]
fn wait_is_reported_once_and_times_out() {
    let (mut world, mut attempt) = waiting();
    let commands = world.parts.commands.take();
    let events = commands.iter().filter_map(|command| match command {
        Command::Event(event) => Some((&*event.reason, event.note.as_str())),
        _ => None,
    });
    let note = "waiting for binding conditions for device on node a";
    assert_eq!(events.collect::<Vec<_>>(), [("BindingConditionsPending", note)]);
    world.parts.now = world.parts.now + Duration::from_mins(10);
    assert_eq!(message(world.step(&mut attempt, PreBindInput::Changed)), None);
    world.parts.now = world.parts.now + Duration::from_nanos(1);
    let step = world.step(&mut attempt, PreBindInput::Deadline);
    assert_eq!(message(step).as_deref(), Some("device binding timeout: claim=c"));
}

#[test]
fn failed_claim_is_deallocated_for_the_next_attempt() {
    let (mut world, mut attempt) = waiting();
    let broken = json!([{"type": "broken", "status": "True"}]);
    world.show("resourceclaims", "c", &status(broken));
    assert!(message(world.step(&mut attempt, PreBindInput::Changed)).is_some());
    world.unreserve(&mut attempt);
    world.write_commands();
    world.watch_claims();
    let pod = pod_using("p", &["c"]);
    assert_eq!(world.messages(&pod), [UNAVAILABLE, UNAVAILABLE]);
    let status = world.post_filter(&pod);
    assert_eq!(status.message(), "deallocation of ResourceClaim completed");
    world.write_commands();
    assert_eq!(world.claim("c")["status"], json!({}));
}

#[test]
fn without_the_gates_no_condition_counts() {
    let args = PluginArgs::new(json!({"filterTimeout": "10s"}));
    let mut world = World::with(args, [("resourceclaims", claim("c", 1))]);
    world.put("resourceslices", slice_with("a", &device()));
    assert_eq!(world.messages(&pod_using("p", &["c"])), ["cannot allocate all claims", ""]);
}
