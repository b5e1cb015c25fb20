//! A plugin that panics costs one attempt of one pod.

use engine::Outcome;
use engine::cycle::Form;
use framework::{
    ActionType, Answer, BindStep, Binding, PermitVerdict, Pod, PostFilterResult, PreBindPreFlight,
    PreBindStep, PreFilterResult, Status,
};
use testkit::pod;

use crate::harness::*;

/// Panics over pods that carry the name of the point as label.
fn trap(pod: &Pod, point: &str) {
    assert_ne!(pod.labels.get("trap"), Some(point), "the trap snaps");
}

fn wants(pod: &Pod, point: &str) -> bool {
    pod.labels.get("trap") == Some(point)
}

/// A plugin with every point, each of them a trap.
fn careless() -> Fake {
    fake("Careless")
        .pre_enqueue(|pod, _| {
            trap(pod, "PreEnqueue");
            yes()
        })
        .pre_filter(|pod| {
            trap(pod, "PreFilter");
            Ok(PreFilterResult::default())
        })
        .filter(|pod, _| {
            trap(pod, "Filter");
            if wants(pod, "PostFilter") { no("full") } else { yes() }
        })
        .post_filter(|pod, _, _| {
            trap(pod, "PostFilter");
            PostFilterResult { status: no("no help"), ..PostFilterResult::default() }
        })
        .pre_score(|pod| {
            trap(pod, "PreScore");
            yes()
        })
        .score(|pod, _| {
            trap(pod, "Score");
            Ok(if wants(pod, "Normalize") { 77 } else { 0 })
        })
        .normalize(|scores| {
            assert_ne!(scores[0], 77, "the trap snaps");
            yes()
        })
        .reserve(|pod, _| {
            trap(pod, "Reserve");
            if wants(pod, "Unreserve") { Status::error("undo") } else { yes() }
        })
        .unreserve(|pod, _| trap(pod, "Unreserve"))
        .permit(|pod, _| {
            trap(pod, "Permit");
            PermitVerdict::Allow
        })
        .pre_flight(|pod| {
            trap(pod, "PreFlight");
            PreBindPreFlight::Run { allow_parallel: false }
        })
        .pre_bind(|pod, _| {
            trap(pod, "PreBind");
            PreBindStep::Done(yes())
        })
        .bind(|pod, node| {
            trap(pod, "Bind");
            BindStep::Bind(Binding {
                pod: pod.key.clone(),
                uid: pod.uid.clone(),
                node: node.into(),
            })
        })
        .post_bind(|pod, _| trap(pod, "PostBind"))
}

const ERROR: &str = "error backoff";
const POINTS: [(&str, &str, &str); 13] = [
    ("PreEnqueue", "gated", ""),
    ("PreFilter", ERROR, "running PreFilter plugin \"Careless\": "),
    ("Filter", ERROR, "running \"Careless\" filter plugin: "),
    ("PostFilter", "unschedulable", "0/3 nodes are available: 3 full. "),
    ("PreScore", ERROR, "running PreScore plugin \"Careless\": "),
    ("Score", ERROR, "running Score plugins: plugin \"Careless\" failed with: "),
    ("Normalize", ERROR, "running Normalize on Score plugins: plugin \"Careless\" failed with: "),
    ("Reserve", ERROR, "running Reserve plugin \"Careless\": "),
    ("Unreserve", ERROR, "running Reserve plugin \"Careless\": undo"),
    ("Permit", ERROR, "running Permit plugin \"Careless\": "),
    ("PreFlight", ERROR, "running PreBindPreFlight \"Careless\": "),
    ("PreBind", ERROR, "running PreBind plugin \"Careless\": "),
    ("Bind", ERROR, "running Bind plugin \"Careless\": "),
];

#[track_caller]
fn check_costs_one_attempt(point: &str, place: &str, text: &str, form: Form) {
    let mut setup = Setup::new([careless()]);
    setup.form = form;
    let mut world = setup.nodes(&["a", "b", "c"]);
    world.pod(pod("p").label("trap", point).priority(9));
    world.pod(pod("other"));
    world.try_attempt();
    let place_after = world.place("p");
    world.run();
    assert_eq!((place_after, world.place("other")), (place, "placed"), "{point}");
    let panics = &world.probe.panics;
    assert!(!panics.is_empty() && panics.iter().all(|name| name == "Careless"), "{point}");
    assert!(world.probe.open().is_empty(), "{point} left {:?} open", world.probe.open());
    match world.condition("p") {
        None => assert_eq!(place, "gated"),
        Some(condition) => {
            let mut text = text.to_owned();
            if point != "Unreserve" {
                text += "plugin \"Careless\" panicked: assertion";
            }
            let message = condition.split_once(": ").unwrap().1;
            assert!(message.starts_with(&text), "{point}: {message}");
        }
    }
    world.update("p", |pod| drop(pod.metadata.labels.remove("trap")));
    world.run_for(15);
    assert_eq!(world.place("p"), "placed", "{point}: it is tried again");
}

#[test]
fn panic_of_a_plugin_fails_only_its_attempt() {
    for (point, place, text) in POINTS {
        for form in [Form::Set, Form::OneNode] {
            check_costs_one_attempt(point, place, text, form);
        }
    }
}

#[test]
fn panic_in_post_bind_does_not_affect_the_bound_pod() {
    let mut world = world([careless()]);
    world.pod(pod("p").label("trap", "PostBind"));
    world.run();
    assert_eq!((world.place("p"), world.probe.panics.len()), ("placed", 1));
    assert!(world.probe.open().is_empty());
}

#[test]
fn panic_in_unreserve_does_not_stop_other_plugins() {
    let mut world = world([fake("First").reserve(|_, _| yes()), careless()]);
    world.schedule(pod("p").label("trap", "Unreserve"));
    assert!(world.log.take().contains(&"Unreserve First p on a".to_owned()));
    assert_eq!(world.node_of("p"), None);
}

#[test]
fn panic_on_a_nominated_pod_fails_only_the_attempt() {
    let plugin =
        fake("Careless").pre_filter(|_| Ok(PreFilterResult::default())).add_pod(|_, other, _| {
            trap(other, "AddPod");
            yes()
        });
    let mut world = world(held().into_iter().chain([plugin]));
    world.pod(pod("guest").label("held", "yes").label("trap", "AddPod").nominated("b"));
    world.run();
    let outcome = world.schedule(pod("p"));
    let text = "running AddPod on PreFilter plugin \"Careless\": plugin \"Careless\" panicked: ";
    assert!(matches!(&outcome, Outcome::Error(error) if error.starts_with(text)), "{outcome:?}");
    world.delete("guest");
    world.run_for(15);
    assert_eq!(world.place("p"), "placed");
}

#[test]
fn panic_in_a_hint_requeues_the_pod() {
    let plugin = fake("Careless")
        .filter(|pod, _| if pod.labels.get("trap").is_some() { no("held") } else { yes() })
        .on_with_hint(node_event(ActionType::ADD), |_, _| panic!("the trap snaps"));
    let mut world = world([plugin]);
    world.schedule(pod("p").label("trap", "hint"));
    world.node(testkit::node("new"));
    assert_ne!(world.place("p"), "unschedulable");
    assert_eq!(world.probe.panics, ["Careless"]);
}

#[test]
fn panic_in_queue_sort_does_not_stop_the_queue() {
    let sort = fake("Careless").queue_sort(|a, b| {
        trap(&a.pods()[0].pod, "QueueSort");
        a.history().timestamp < b.history().timestamp
    });
    let mut world = world([sort]);
    for name in ["p", "q", "r"] {
        world.pod(pod(name).label("trap", "QueueSort"));
    }
    world.run();
    assert_eq!(["p", "q", "r"].map(|name| world.place(name)), ["placed"; 3]);
    assert!(!world.probe.panics.is_empty());
}

#[test]
fn panic_in_a_later_pre_bind_step_fails_the_binding_cycle() {
    let plugin = fake("Careless").pre_bind(|_, input| match input {
        framework::PreBindInput::Start => PreBindStep::Write(framework::Write {
            api_version: "v1".into(),
            resource: "configmaps".into(),
            namespace: "default".into(),
            name: "x".into(),
            subresource: None,
            flow: "".into(),
            action: framework::WriteAction::MergePatch(serde_json::Value::Null),
        }),
        _ => panic!("the trap snaps"),
    });
    let mut world = world([plugin]);
    world.schedule(pod("p"));
    let write = world.take_write();
    world.answer(write, &Answer::ok());
    assert_eq!((world.place("p"), world.node_of("p")), (ERROR, None));
    assert_eq!(world.probe.panics, ["Careless"]);
}
