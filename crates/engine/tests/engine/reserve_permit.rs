//! Assume, Reserve, Permit, and pods that wait in Permit.

use std::time::Duration;

use engine::{EffectKind, Outcome};
use framework::{AttemptMut, Code, Command, PermitVerdict, Plugin, Reserve, Status, Uid};
use testkit::pod;

use crate::harness::*;

const MINUTE: u64 = 60;

fn waits(name: &'static str, timeout: Duration) -> Fake {
    fake(name).no_events().permit(move |pod, _| match pod.labels.get("waits") {
        Some(_) => PermitVerdict::Wait { timeout, reason: "patience".to_owned() },
        None => PermitVerdict::Allow,
    })
}

/// Allows or rejects, as `Gate`, what the label of a pod says.
fn porter() -> Fake {
    fake("Porter").permit(|pod, handle| {
        let plugin = "Gate".into();
        if let Some(uid) = pod.labels.get("allow") {
            handle.command(Command::Allow { pod: Uid::from(uid), plugin });
        } else if let Some(uid) = pod.labels.get("reject") {
            let message = "go away".to_owned();
            handle.command(Command::Reject { pod: Uid::from(uid), plugin, message });
        }
        PermitVerdict::Allow
    })
}

#[test]
fn assumed_pod_takes_its_room_at_once() {
    let mut world = Setup::new([fit()]).nodes(&["a"]);
    assert_eq!(world.schedule(pod("p").cpu("5")), Outcome::Assumed("a".into()));
    assert_eq!((world.place("p"), world.node_of("p").as_deref()), ("assumed", Some("a")));
    let outcome = world.schedule(pod("q").cpu("5"));
    let message = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(outcome, Outcome::Unschedulable(message.to_owned()));
}

#[test]
fn failed_reserve_unreserves_all_plugins_in_reverse_order() {
    type Row = (fn() -> Status, &'static str, &'static [&'static str], &'static str);
    // Answer of the second plugin, condition, rejectors, place.
    let rows: [Row; 4] = [
        (
            || no("taken"),
            "Unschedulable: 0/1 nodes are available: 1 taken.",
            &["Second"],
            "unschedulable",
        ),
        (
            || never("taken"),
            "Unschedulable: 0/1 nodes are available: 1 taken.",
            &["Second"],
            "unschedulable",
        ),
        (
            || Status::error("x"),
            "SchedulerError: running Reserve plugin \"Second\": x",
            &[],
            "error backoff",
        ),
        (Status::skip, "SchedulerError: running Reserve plugin \"Second\": ", &[], "error backoff"),
    ];
    for (answer, condition, rejectors, place) in rows {
        let mut world = world([
            fake("First").reserve(|_, _| yes()),
            fake("Second").no_events().reserve(move |_, _| answer()),
            fake("Third").reserve(|_, _| yes()),
        ]);
        world.schedule(pod("p"));
        let expected = [
            "Reserve First p on a",
            "Reserve Second p on a",
            "Unreserve Third p on a",
            "Unreserve Second p on a",
            "Unreserve First p on a",
        ];
        assert_eq!(world.log.take(), expected);
        assert_eq!(world.condition("p").as_deref(), Some(condition));
        assert_eq!(world.rejectors("p"), rejectors);
        assert_eq!(world.place("p"), place);
        assert_eq!((world.node_of("p"), world.engine.binding_count()), (None, 0), "forgotten");
    }
}

#[test]
fn pending_status_of_reserve_is_recorded_as_pending() {
    let slow = fake("Slow").no_events().reserve(|_, _| status(Code::Pending, "soon"));
    let mut world = world([slow]);
    world.schedule(pod("p"));
    let (_, queued) = world.engine.queue().get(&key("p")).unwrap();
    assert_eq!(
        (queued.history.pending_plugins.len(), queued.history.unschedulable_plugins.len()),
        (1, 1)
    );
}

#[test]
fn permit_rejection_unreserves_and_forgets_the_pod() {
    type Row = (fn() -> Status, &'static str, &'static str);
    let rows: [Row; 3] = [
        (|| no("busy"), "Unschedulable: 0/1 nodes are available: 1 busy.", "unschedulable"),
        (|| Status::error("x"), "SchedulerError: running Permit plugin \"B\": x", "error backoff"),
        (Status::skip, "SchedulerError: running Permit plugin \"B\": ", "error backoff"),
    ];
    for (answer, condition, place) in rows {
        let mut world = world([
            fake("Ledger").reserve(|_, _| yes()),
            waits("A", Duration::from_secs(5)),
            fake("B").no_events().permit(move |_, _| PermitVerdict::Reject(answer())),
            fake("C").permit(|_, _| PermitVerdict::Allow),
        ]);
        world.schedule(pod("p").label("waits", "yes"));
        let expected = [
            "Reserve Ledger p on a",
            "Permit A p on a",
            "Permit B p on a",
            "Unreserve Ledger p on a",
        ];
        assert_eq!(world.log.take(), expected);
        assert_eq!((world.condition("p").as_deref(), world.place("p")), (Some(condition), place));
        assert_eq!((world.node_of("p"), world.engine.waiting_pods().len()), (None, 0));
    }
}

#[test]
fn waiting_pod_stays_assumed_and_is_nominated_to_its_node() {
    let mut world = world([waits("Gate", Duration::from_secs(30))]);
    let outcome = world.schedule(pod("p").label("waits", "yes"));
    assert_eq!(outcome, Outcome::Assumed("a".into()));
    assert_eq!(world.place("p"), "assumed");
    let waiting = world.engine.waiting_pods().values().next().unwrap();
    assert_eq!(waiting.pod.node_name.as_deref(), Some("a"));
    let patches = world.patches("p");
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].nominated_node_name.as_deref(), Some("a"));
    assert!(patches[0].condition.is_none());
    assert!(world.engine.queue().is_in_flight(&Uid::from("uid-p")), "events still count");
}

#[test]
fn permit_wait_times_out() {
    let second = Duration::from_secs(1);
    // Patience of the plugin, as the text says it.
    let rows = [
        (42 * second, "42s"),
        (5 * MINUTE as u32 * second, "5m0s"),
        (3600 * second, "15m0s"),
        (Duration::from_millis(1500), "1.5s"),
        (Duration::from_millis(20), "20ms"),
        (Duration::from_micros(1250), "1.25ms"),
    ];
    for (timeout, text) in rows {
        let mut world = world([waits("Gate", timeout)]);
        world.schedule(pod("p").label("waits", "yes"));
        let timeout = timeout.min(15 * 60 * second);
        world.pass_for(timeout - Duration::from_nanos(1));
        assert_eq!(world.place("p"), "assumed", "{text}");
        world.now = world.now + 7 * second;
        world.tick();
        let message = format!("rejected due to timeout after waiting {text} at plugin Gate");
        let condition = format!("Unschedulable: 0/1 nodes are available: 1 {message}.");
        assert_eq!(world.condition("p"), Some(condition), "however late the tick");
        assert_eq!(
            (world.place("p"), world.rejectors("p")),
            ("unschedulable", vec!["Gate".into()])
        );
        assert_eq!(world.node_of("p"), None);
    }
}

#[test]
fn shortest_permit_timeout_rejects_the_pod() {
    let mut world =
        world([waits("Gate", Duration::from_secs(30)), waits("Hurried", Duration::from_secs(10))]);
    world.schedule(pod("p").label("waits", "yes"));
    world.pass(40);
    let text = "rejected due to timeout after waiting 10s at plugin Hurried";
    let condition = world.condition("p").unwrap();
    assert!(condition.contains(text), "{condition}");
    assert_eq!(world.rejectors("p"), ["Hurried"]);
}

#[test]
fn waiting_pod_is_bound_when_all_plugins_allow_it() {
    let mut world = world([waits("Gate", Duration::from_secs(30)), porter()]);
    world.schedule(pod("p").label("waits", "yes"));
    assert!(world.open.iter().all(|effect| !matches!(effect.kind, EffectKind::Bind { .. })));
    world.schedule(pod("q").label("allow", "uid-p"));
    assert_eq!(world.engine.waiting_pods().len(), 0);
    assert!(!world.engine.queue().is_in_flight(&Uid::from("uid-p")), "nothing can help it now");
    world.run();
    assert_eq!((world.place("p"), world.place("q")), ("placed", "placed"));
    world.pass(60);
    assert_eq!(world.place("p"), "placed", "the timer is off");
}

#[test]
fn waiting_pod_waits_for_every_plugin() {
    let slow = Duration::from_secs(30);
    let mut world = world([waits("Gate", slow), waits("Other", slow), porter()]);
    world.schedule(pod("p").label("waits", "yes"));
    world.schedule(pod("q").label("allow", "uid-p"));
    assert_eq!(world.engine.waiting_pods().len(), 1, "Other has not allowed it");
    world.pass(30);
    let condition = world.condition("p").unwrap();
    assert!(condition.contains("after waiting 30s at plugin Other"), "{condition}");
}

#[test]
fn waiting_pod_can_be_rejected_by_another_plugin() {
    let ledger = fake("Ledger").reserve(|_, _| yes());
    let mut world = world([ledger, waits("Gate", Duration::from_secs(30)), porter()]);
    world.schedule(pod("p").label("waits", "yes"));
    world.schedule(pod("q").label("reject", "uid-p"));
    let condition = "Unschedulable: 0/1 nodes are available: 1 go away.";
    assert_eq!(world.condition("p").as_deref(), Some(condition));
    assert_eq!((world.place("p"), world.rejectors("p")), ("unschedulable", vec!["Gate".into()]));
    assert!(world.log.take().contains(&"Unreserve Ledger p on a".to_owned()));
    world.schedule(pod("r").label("reject", "uid-p"));
    assert_eq!(world.events().iter().filter(|event| event.contains("go away")).count(), 1);
}

#[test]
fn rejected_waiting_pod_requeues_others_but_not_itself() {
    let plugins = [fit(), waits("Gate", Duration::from_secs(30)), porter()];
    let mut world = Setup::new(plugins).nodes(&["a"]);
    world.schedule(pod("p").cpu("8").label("waits", "yes"));
    world.schedule(pod("q").cpu("8"));
    assert_eq!(world.place("q"), "unschedulable");
    world.schedule(pod("r").label("reject", "uid-p"));
    assert_ne!(world.place("q"), "unschedulable");
    assert_eq!(world.place("p"), "unschedulable");
}

#[test]
fn deleting_a_waiting_pod_ends_its_wait() {
    for gone in [true, false] {
        let ledger = fake("Ledger").reserve(|_, _| yes());
        let plugins = [fit(), ledger, waits("Gate", Duration::from_secs(30))];
        let mut world = Setup::new(plugins).nodes(&["a"]);
        world.schedule(pod("p").cpu("8").label("waits", "yes"));
        world.schedule(pod("q").cpu("8"));
        if gone {
            world.delete("p")
        } else {
            world.terminate("p")
        }
        assert_eq!((world.engine.waiting_pods().len(), world.node_of("p")), (0, None));
        assert!(world.log.take().contains(&"Unreserve Ledger p on a".to_owned()));
        let condition = "Unschedulable: 0/1 nodes are available: 1 removed.";
        assert_eq!(world.condition("p").as_deref(), Some(condition));
        world.run_for(15);
        assert_eq!(world.place("q"), "placed");
        assert_eq!(world.place("p"), "nowhere", "it is not tried again");
    }
}

#[test]
fn activate_moves_pods_past_their_backoff() {
    let wake = fake("Wake").permit(|pod, handle| {
        if pod.labels.get("wakes").is_some() {
            handle.command(Command::Activate(vec![key("p"), key("stranger")]));
        }
        PermitVerdict::Allow
    });
    let mut world = Setup::new([fit(), wake]).nodes(&["a"]);
    world.schedule(pod("p").cpu("9"));
    assert_eq!(world.place("p"), "unschedulable");
    world.schedule(pod("q").label("wakes", "yes"));
    assert_eq!(world.place("p"), "active");
}

/// In Unreserve, rejects the pods that wait for `Gate`, and says who has no node yet.
struct Together;

impl Reserve for Together {
    fn reserve(&self, _: AttemptMut<'_>, _: &str) -> Status {
        Status::success()
    }

    fn unreserve(&self, attempt: AttemptMut<'_>, _: &str) {
        let AttemptMut { pod, handle, .. } = attempt;
        assert!(handle.cluster.pods().any(|placed| placed.pod.uid == pod.uid), "still assumed");
        assert!(!handle.waiting.contains_key(&pod.uid), "it waits no longer");
        let pending: Vec<&str> = handle.pending_in("default").map(|pod| &*pod.key.name).collect();
        let message = format!("pending: {}", pending.join(" "));
        for waiting in handle.waiting.keys() {
            let (pod, plugin) = (waiting.clone(), "Gate".into());
            handle.command(Command::Reject { pod, plugin, message: message.clone() });
        }
    }
}

#[test]
fn unreserve_can_reject_the_pods_that_wait() {
    let together = Plugin::new("Together", Together).reserve().build();
    let gate = waits("Gate", Duration::from_secs(30));
    let mut world = Setup::new([gate]).plugin(together).nodes(&["a"]);
    for name in ["p", "q", "r"] {
        world.schedule(pod(name).label("waits", "yes"));
        world.pass(1);
    }
    assert_eq!(world.engine.waiting_pods().len(), 3);
    world.delete("q");
    assert_eq!(world.engine.waiting_pods().len(), 0);
    for name in ["p", "r"] {
        let condition = world.condition(name).unwrap();
        assert_eq!(condition, "Unschedulable: 0/1 nodes are available: 1 pending: p r.");
        assert_eq!((world.node_of(name), world.rejectors(name)), (None, vec!["Gate".to_owned()]));
    }
}
