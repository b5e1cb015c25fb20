//! What plugins are notified of outside attempts (timers, deleted and bound pods), the commands
//! that they give then, and the objects that they read decoded.

use framework::Attempt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{Change, EffectKind, Event};
use framework::*;
use serde::Deserialize;
use serde_json::json;
use testkit::pod;

use crate::harness::*;

const LISTENER: &str = "Listener";

/// Returns the commands that follow a notification.
type Reaction = fn(&Handle<'_>) -> Vec<Command>;

/// A plugin that logs its notifications and gives commands.
#[derive(Clone)]
struct Listener {
    log: Log,
    on_deletion: Reaction,
    on_timer: Reaction,
    on_bind: Reaction,
}

impl Listener {
    fn new() -> Self {
        let none: Reaction = |_| Vec::new();
        Self { log: Log::default(), on_deletion: none, on_timer: none, on_bind: none }
    }

    fn react(reaction: Reaction, handle: &Handle<'_>) {
        reaction(handle).into_iter().for_each(|command| handle.command(command));
    }

    /// Returns a world of nodes `a`, `b` and `c` with this plugin behind `plugins`.
    fn world(&self, plugins: impl IntoIterator<Item = Fake>) -> World {
        let plugin = Plugin::new(LISTENER, self.clone()).timer().pod_deleted().post_bind().build();
        Setup::new(plugins).plugin(plugin).nodes(&["a", "b", "c"])
    }
}

impl Timer for Listener {
    fn fire(&self, token: u64, handle: &Handle<'_>) {
        self.log.push(format!("timer {token} at {}", seconds(handle.now)));
        Self::react(self.on_timer, handle);
    }
}

impl PodDeleted for Listener {
    fn pod_deleted(&self, pod: &Pod, handle: &Handle<'_>) {
        self.log.push(format!("deleted {} {}", pod.key.name, pod.uid));
        Self::react(self.on_deletion, handle);
    }
}

impl PostBind for Listener {
    fn post_bind(&self, attempt: &Attempt<'_>, node: &str) {
        self.log.push(format!("bound {} to {node}", attempt.pod.key.name));
        Self::react(self.on_bind, attempt.handle);
    }
}

/// The time at which a world starts.
const START: Time = Time::from_secs(1000);

/// Returns the seconds since the start of the world.
fn seconds(time: Time) -> u64 {
    time.since(START).as_secs()
}

fn set_timer(at: Time, token: u64) -> Command {
    Command::SetTimer { plugin: LISTENER.into(), at, token }
}

fn after(handle: &Handle<'_>, seconds: u64) -> Time {
    handle.now + Duration::from_secs(seconds)
}

/// Deletes a placed pod, which the plugins are notified of.
fn delete_a_pod(world: &mut World) {
    world.pod(pod("gone").on("a"));
    world.delete("gone");
}

#[test]
fn timer_fires_once_at_its_time() {
    let on_deletion: Reaction = |handle| vec![set_timer(after(handle, 5), 7)];
    let listener = Listener { on_deletion, ..Listener::new() };
    let mut world = listener.world([fit()]);
    assert_eq!(world.engine.next_deadline(), None);
    delete_a_pod(&mut world);
    listener.log.take();
    let deadline = world.engine.next_deadline();
    assert_eq!(deadline.map(seconds), Some(5), "a command sets the deadline at once");
    world.pass(4);
    assert_eq!(listener.log.take(), [""; 0]);
    world.pass(1);
    assert_eq!(listener.log.take(), ["timer 7 at 5"]);
    world.pass(60);
    assert_eq!((listener.log.take().len(), world.engine.next_deadline()), (0, None));
}

#[test]
fn timer_that_sets_itself_again_is_periodic() {
    let again: Reaction = |handle| vec![set_timer(after(handle, 10), 1)];
    let listener = Listener { on_deletion: again, on_timer: again, ..Listener::new() };
    let mut world = listener.world([fit()]);
    delete_a_pod(&mut world);
    listener.log.take();
    world.pass(35);
    assert_eq!(listener.log.take(), ["timer 1 at 10", "timer 1 at 20", "timer 1 at 30"]);
}

#[test]
fn timers_fire_by_time_and_a_token_has_one_timer() {
    let on_deletion: Reaction = |handle| {
        let timers = [(9, 1), (3, 2), (5, 3), (6, 1)];
        timers.map(|(seconds, token)| set_timer(after(handle, seconds), token)).into()
    };
    let listener = Listener { on_deletion, ..Listener::new() };
    let mut world = listener.world([fit()]);
    delete_a_pod(&mut world);
    listener.log.take();
    world.pass(20);
    assert_eq!(listener.log.take(), ["timer 2 at 3", "timer 3 at 5", "timer 1 at 6"]);
}

#[test]
fn timer_in_the_past_fires_with_the_next_tick() {
    let on_deletion: Reaction = |_| vec![set_timer(Time::from_secs(1), 1)];
    let listener = Listener { on_deletion, ..Listener::new() };
    let mut world = listener.world([fit()]);
    delete_a_pod(&mut world);
    listener.log.take();
    assert!(world.engine.next_deadline().is_some_and(|due| due <= world.now));
    world.tick();
    assert_eq!(listener.log.take(), ["timer 1 at 0"]);
}

#[test]
fn timer_of_an_unknown_plugin_fires_nothing() {
    let on_deletion: Reaction =
        |handle| vec![Command::SetTimer { plugin: "Other".into(), at: after(handle, 1), token: 1 }];
    let listener = Listener { on_deletion, ..Listener::new() };
    let mut world = listener.world([fit()]);
    delete_a_pod(&mut world);
    listener.log.take();
    world.pass(2);
    assert_eq!((listener.log.take().len(), world.engine.next_deadline()), (0, None));
}

#[test]
fn command_of_a_timer_takes_effect() {
    let on_timer: Reaction = |_| vec![Command::Activate(vec![key("waits")])];
    let on_deletion: Reaction = |handle| vec![set_timer(after(handle, 5), 1)];
    let listener = Listener { on_deletion, on_timer, ..Listener::new() };
    let mut world = listener.world([fake("Full").no_events().filter(|_, _| no("full"))]);
    world.schedule(pod("waits"));
    delete_a_pod(&mut world);
    world.pass(4);
    assert_eq!(world.place("waits"), "unschedulable");
    world.pass(1);
    assert_eq!(world.place("waits"), "active");
}

#[test]
fn panic_in_a_notification_is_counted() {
    let panics: Reaction = |_| panic!("careless");
    let on_deletion: Reaction = |handle| {
        handle.command(set_timer(after(handle, 1), 1));
        panic!("careless")
    };
    let listener = Listener { on_deletion, on_timer: panics, on_bind: panics, log: Log::default() };
    let mut world = listener.world([fit()]);
    delete_a_pod(&mut world);
    assert_eq!(world.probe.panics, [LISTENER]);
    world.pass(1);
    assert_eq!(world.probe.panics, [LISTENER; 2], "the timer was set before the panic");
    world.pod(pod("p"));
    world.run();
    assert_eq!((world.place("p"), world.probe.panics.len()), ("placed", 3));
}

/// The timeout of a pod that waits in Permit.
const MINUTE: Duration = Duration::from_secs(60);

/// What happens to a pod until it is gone.
type Story = fn(&mut World);

#[test]
fn deleted_pod_is_reported_once() {
    let waits = || {
        fake("Gate").no_events().permit(|pod, _| match pod.labels.get("waits") {
            Some(_) => PermitVerdict::Wait { timeout: MINUTE, reason: "patience".to_owned() },
            None => PermitVerdict::Allow,
        })
    };
    let stories: [(&str, Story); 10] = [
        ("pending", |world| {
            world.pod(pod("p"));
            world.delete("p");
        }),
        ("gated", |world| {
            world.pod(pod("p").gate("hold"));
            world.delete("p");
        }),
        ("unschedulable", |world| {
            world.schedule(pod("p").cpu("99"));
            world.delete("p");
        }),
        ("placed by another scheduler", |world| {
            world.pod(pod("p").on("a").scheduler("other"));
            world.terminate("p");
            world.delete("p");
        }),
        ("bound", |world| {
            world.schedule(pod("p"));
            world.run();
            assert_eq!(world.place("p"), "placed");
            world.delete("p");
        }),
        ("assumed; the bind fails later", |world| {
            world.schedule(pod("p"));
            let (bind, _) = world.take_bind("p");
            world.delete("p");
            world.answer(bind, &Answer::Gone("not found".to_owned()));
        }),
        ("bound, but the watch never shows it", |world| {
            world.schedule(pod("p"));
            let (bind, _) = world.take_bind("p");
            world.answer(bind, &Answer::ok());
            world.delete("p");
        }),
        ("waiting in Permit", |world| {
            world.schedule(pod("p").label("waits", "yes"));
            world.terminate("p");
            world.delete("p");
        }),
        ("ended on its node", |world| {
            world.pod(pod("p").on("a"));
            world.update("p", |pod| pod.status.phase = "Succeeded".to_owned());
            world.update("p", |pod| drop(pod.metadata.labels.insert("l".into(), "v".into())));
            world.delete("p");
        }),
        ("failed while pending", |world| {
            world.pod(pod("p"));
            world.update("p", |pod| pod.status.phase = "Failed".to_owned());
            world.delete("p");
        }),
    ];
    for (name, story) in stories {
        let listener = Listener::new();
        let mut world = listener.world([fit(), gates(), waits()]);
        story(&mut world);
        world.run_for(120);
        assert_eq!(listener.log.take_of(&["deleted"]), ["deleted p uid-p"], "{name}");
        assert_eq!(world.engine.cluster().pod_count(), 0, "{name}");
    }
}

#[test]
fn replaced_pod_is_reported_and_its_replacement_is_not() {
    let listener = Listener::new();
    let mut world = listener.world([fit()]);
    world.pod(pod("p").uid("old"));
    world.pod(pod("p").uid("new"));
    assert_eq!(listener.log.take(), ["deleted p old"]);
    world.pod(pod("p").uid("newest").on("a"));
    assert_eq!(listener.log.take(), ["deleted p new"], "replaced by a placed pod");
}

#[test]
fn pods_that_the_scheduler_did_not_know_are_not_reported() {
    let listener = Listener::new();
    let mut world = listener.world([fit()]);
    world.pod(pod("other").scheduler("other"));
    world.delete("other");
    world.pod(pod("ended").on("a").with(|pod| pod.status.phase = "Succeeded".to_owned()));
    world.delete("ended");
    world.apply(Change::PodDeleted { key: key("unknown"), uid: "unknown".into() });
    assert_eq!(listener.log.take(), [""; 0]);
}

/// Records the CPU requested on node `a` whenever a pod is deleted.
struct Room(Arc<Mutex<Vec<i64>>>);

impl PodDeleted for Room {
    fn pod_deleted(&self, _: &Pod, handle: &Handle<'_>) {
        let node = handle.cluster.node_named("a").unwrap();
        self.0.lock().unwrap().push(handle.cluster.node(node).requested().milli_cpu);
    }
}

#[test]
fn deleted_placed_pod_takes_no_room_when_it_is_reported() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let plugin = Plugin::new("Room", Room(seen.clone())).pod_deleted().build();
    let mut world = Setup::new([fit()]).plugin(plugin).nodes(&["a"]);
    world.pod(pod("p").cpu("2").on("a"));
    world.delete("p");
    assert_eq!(*seen.lock().unwrap(), [0]);
}

fn event_about(name: &str, note: String) -> Command {
    Command::Event(PodEvent {
        pod: key(name),
        uid: Uid::from(&*format!("uid-{name}")),
        event_type: EventType::Warning,
        reason: "Unlucky".into(),
        action: "Wishing".into(),
        note,
    })
}

#[test]
fn event_command_becomes_an_event_of_the_scheduler_of_the_pod() {
    // The bound pod, a pending pod, and a pod that is gone.
    for name in ["p", "q", "gone"] {
        let on_bind: Reaction = match name {
            "p" => |_| vec![event_about("p", "é".repeat(600))],
            "q" => |_| vec![event_about("q", "é".repeat(600))],
            _ => |_| vec![event_about("gone", "é".repeat(600))],
        };
        let listener = Listener { on_bind, ..Listener::new() };
        let plugin = Plugin::new(LISTENER, listener).post_bind().build();
        let mut setup = Setup::new([fit(), gates()]).plugin(plugin);
        setup.scheduler_name = "custom";
        let mut world = setup.nodes(&["a"]);
        world.pod(pod("q").scheduler("custom").gate("hold"));
        world.pod(pod("p").scheduler("custom"));
        world.run();
        let events = world.history.iter().filter_map(|effect| match &effect.kind {
            EffectKind::Event(event) => Some(event),
            _ => None,
        });
        let events: Vec<&Event> = events.collect();
        let [scheduled, event] = events[..] else { panic!("{events:?}") };
        assert_eq!(&*scheduled.reason, "Scheduled");
        assert_eq!(
            (&event.regarding, &event.uid),
            (&key(name), &Uid::from(&*format!("uid-{name}")))
        );
        assert_eq!((event.event_type, event.related.as_ref()), (EventType::Warning, None));
        assert_eq!((&*event.reason, &*event.action), ("Unlucky", "Wishing"));
        assert!(event.note.len() <= 1024 && event.note.ends_with("é ..."), "the note is cut");
        assert_eq!(&*event.reporting_controller, "custom");
    }
}

#[test]
fn command_of_post_bind_takes_effect() {
    let on_bind: Reaction = |_| vec![Command::Activate(vec![key("waits")])];
    let listener = Listener { on_bind, ..Listener::new() };
    let full = fake("Full").no_events().filter(|pod, _| match &*pod.key.name {
        "waits" => no("full"),
        _ => yes(),
    });
    let mut world = listener.world([full]);
    world.schedule(pod("waits"));
    world.schedule(pod("p"));
    let (bind, _) = world.take_bind("p");
    assert_eq!((world.place("waits"), listener.log.take().len()), ("unschedulable", 0));
    world.answer(bind, &Answer::ok());
    assert_eq!(listener.log.take(), ["bound p to a"]);
    assert_eq!(world.place("waits"), "active");
}

const QUOTAS: &str = "quotas.v1.example.com";

/// The specification of a quota.
#[derive(Deserialize)]
struct Quota {
    nodes: Vec<String>,
}

/// Accepts the nodes that the quota of the pod's namespace names.
struct InQuota;

impl Filter for InQuota {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let namespace = &attempt.pod.key.namespace;
        match attempt.handle.cluster.decoded::<Quota>(QUOTAS, namespace, "quota") {
            Some(quota) if quota.nodes.iter().any(|name| **name == **node.name()) => yes(),
            Some(_) => no("not in the quota"),
            None => no("no quota"),
        }
    }
}

#[test]
fn plugin_reads_the_decoded_version_of_an_object() {
    let plugin = Plugin::new("InQuota", InQuota).filter().watch_as::<Quota>(QUOTAS).build();
    let mut world = Setup::new([]).plugin(plugin).nodes(&["a", "b"]);
    // The object, and where the next pod is placed.
    let rows = [
        (None, None),
        (Some(json!({ "nodes": ["b"] })), Some("b")),
        (Some(json!({ "nodes": ["a"] })), Some("a")),
        (Some(json!({ "nodes": "a" })), None),
        (Some(json!({ "nodes": ["b"] })), Some("b")),
        (None, None),
    ];
    for (row, (object, node)) in rows.into_iter().enumerate() {
        let kind = EventResource::Custom(QUOTAS.into());
        let key = ObjectKey::namespaced(kind, "default".into(), "quota".into());
        world.apply(Change::decode(key, object).unwrap());
        let name = format!("p{row}");
        world.pod(pod(&name).priority(i32::try_from(row).unwrap()));
        world.attempt();
        assert_eq!(world.node_of(&name).as_deref(), node, "row {row}");
    }
}
