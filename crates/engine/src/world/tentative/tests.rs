//! Nested savepoints of a world with nominations, evictions and a plugin that reserves, against
//! what it showed before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use framework::{
    Attempt, AttemptMut, Bind, BindStep, Code, Command, EventResource, Handle, NominatedPods,
    NominatingInfo, Plugin, QueueSort, QueuedEntity, Registry, Reserve, Time,
};
use proptest::prelude::*;
use serde_json::json;
use testkit::{node, pod};

use super::*;
use crate::change;
use crate::ports::Ports;
use crate::profile::{PluginRef, Profiles, SchedulerProfile};
use crate::queue::QueueConfig;
use crate::world::LogEntry;

const NODES: usize = 3;
/// Number of pods that the plugin lets reserve on a node.
const ROOM: usize = 2;

/// Pods with reservations, by UID.
type Ledger = Arc<Mutex<BTreeMap<Uid, String>>>;

/// Reserves room, and asks to activate a pod whenever it is called.
struct Rooms(Ledger);

impl QueueSort for Rooms {
    fn less(&self, _: &QueuedEntity, _: &QueuedEntity, _: &Handle<'_>) -> bool {
        false
    }
}

impl Bind for Rooms {
    fn bind(&self, _: &Attempt<'_>, _: &str) -> BindStep {
        BindStep::Skip
    }
}

impl Reserve for Rooms {
    fn reserve(&self, attempt: AttemptMut<'_>, node: &str) -> Status {
        attempt.handle.command(Command::Activate(vec![attempt.pod.key.clone()]));
        let mut ledger = self.0.lock().unwrap();
        if ledger.values().filter(|own| *own == node).count() == ROOM {
            return Status::unschedulable("full");
        }
        ledger.insert(attempt.pod.uid.clone(), node.to_owned());
        Status::success()
    }

    fn unreserve(&self, attempt: AttemptMut<'_>, _: &str) {
        self.0.lock().unwrap().insert(attempt.pod.uid.clone(), "Unreserve ran".to_owned());
    }

    fn undo_reserve(&self, attempt: AttemptMut<'_>, _: &str) {
        attempt.handle.command(Command::Activate(vec![attempt.pod.key.clone()]));
        self.0.lock().unwrap().remove(&attempt.pod.uid);
    }
}

fn profiles(ledger: &Ledger) -> Profiles {
    let plugin = Plugin::new("Rooms", Rooms(ledger.clone())).queue_sort().bind().reserve().build();
    let mut registry = Registry::new();
    registry.register("Rooms", move |_| Ok(plugin.clone())).unwrap();
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        ..SchedulerProfile::default()
    };
    Profiles::build(&[profile], &[PluginRef::new("Rooms", 0)], &registry, false).unwrap()
}

/// A world, and what it has beside the cluster.
struct Fixture {
    world: World,
    ledger: Ledger,
    /// The pods without a node.
    pending: Vec<Arc<Pod>>,
}

/// A pod of the fixture. The first is evicted, a budget counts it.
fn pod_of(number: usize) -> Pod {
    pod(&format!("p{number}")).label("app", "web").cpu("100m").host_port(80).build()
}

impl Fixture {
    /// Three nodes with pods 0 to 5, of which 4 and 5 are assumed. Pods 6 to 11 are pending, 6 to 9
    /// nominated.
    fn new() -> Self {
        let ledger = Ledger::default();
        let world = World::new(profiles(&ledger), QueueConfig::default());
        let pending = (6..12).map(|number| Arc::new(pod_of(number))).collect();
        let mut own = Self { world, ledger, pending };
        for number in 0..NODES {
            own.apply(change::Change::Node(node(&format!("n{number}")).build()));
        }
        let budget = json!({
            "metadata": { "namespace": "default", "name": "b" },
            "spec": { "selector": { "matchLabels": { "app": "web" } } },
            "status": { "disruptionsAllowed": 3 },
        });
        let budget = testkit::object(EventResource::PodDisruptionBudget, budget);
        own.apply(change::Change::Object(Box::new(budget)));
        for number in 0..6 {
            let node = format!("n{}", number % NODES);
            let pod = Pod { node_name: Some(node.as_str().into()), ..pod_of(number) };
            match number {
                0..4 => own.apply(change::Change::Pod(Box::new(pod))),
                _ => drop(own.world.assume(&pod_of(number), &node.into()).unwrap()),
            }
        }
        own.world.begin_eviction(&pod_of(0));
        for (number, pod) in own.pending.iter().enumerate().take(4) {
            let node = format!("n{}", number % NODES);
            own.world.nominator.add(pod.clone(), &NominatingInfo::Override(node.into()));
        }
        own.world.commands.push(Command::Activate(Vec::new()));
        own
    }

    fn apply(&mut self, change: change::Change) {
        self.with(|world, cx| drop(world.apply(change, cx)));
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut World, &mut Context<'_>) -> T) -> T {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        call(&mut self.world, &mut Context::alone(Time::ZERO, ports))
    }

    /// Returns all that a savepoint can change, by name.
    fn observed(&self) -> BTreeMap<String, String> {
        let mut observed = observed(&self.world);
        observed.insert("ledger".to_owned(), format!("{:?}", self.ledger.lock().unwrap()));
        observed.insert("journal".to_owned(), self.world.journal.len().to_string());
        observed
    }
}

fn observed(world: &World) -> BTreeMap<String, String> {
    let mut observed = BTreeMap::new();
    let mut note = |name: String, value: String| drop(observed.insert(name, value));
    let cluster = world.cluster();
    for node in cluster.nodes().iter() {
        let node = cluster.node(node);
        let pods = node.placed().map(|(ix, pod)| (ix, &pod.uid, world.is_assumed(&pod.uid)));
        let pods: Vec<_> = pods.collect();
        let ports = node.has_port_conflict(&pod_of(0).spec.host_ports[0]);
        let sums = (node.requested(), node.pod_count(), ports, node.generation());
        note(format!("node {}", node.name()), format!("{pods:?} {sums:?}"));
        let nominated = world.nominator().nominated_to(node.name());
        let nominated: Vec<_> = nominated.iter().map(|pod| &pod.uid).collect();
        note(format!("nominated {}", node.name()), format!("{nominated:?}"));
    }
    for number in 0..12 {
        let uid = &pod_of(number).uid;
        let placement = world.placement(uid);
        let node = world.nominator().node_of(uid);
        note(format!("pod {number}"), format!("{placement:?} {node:?}"));
        if let Some(placement) = placement {
            let budgets = cluster.disruption_budgets_of(placement.ix);
            let left: Vec<_> = budgets.map(|(_, budget)| budget.disruptions_left()).collect();
            note(format!("budgets {number}"), format!("{left:?}"));
        }
    }
    let entries: Vec<LogEntry> = world.log().since(0).unwrap().collect();
    note("log".to_owned(), format!("{} {entries:?}", world.log().state()));
    let mut commands = Vec::new();
    let _ = world.commands().find_map(|command| -> Option<()> {
        commands.push(format!("{command:?}"));
        None
    });
    note("commands".to_owned(), commands.join(", "));
    note("assumed".to_owned(), world.assumed_count().to_string());
    observed
}

/// A step inside a savepoint.
#[derive(Debug, Clone)]
enum Step {
    /// A pod is assumed on a node, and reserved.
    Place {
        pod: usize,
        node: usize,
    },
    /// A pod is assumed on a node.
    Assume {
        pod: usize,
        node: usize,
    },
    Remove(usize),
    Savepoint {
        steps: Vec<Step>,
        kept: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let leaf = prop_oneof![
        (0..12_usize, 0..NODES).prop_map(|(pod, node)| Step::Place { pod, node }),
        (0..12_usize, 0..NODES).prop_map(|(pod, node)| Step::Assume { pod, node }),
        (0..12_usize).prop_map(Step::Remove),
    ];
    let step = leaf.prop_recursive(4, 50, 6, |inner| {
        (prop::collection::vec(inner, 0..6), any::<bool>())
            .prop_map(|(steps, kept)| Step::Savepoint { steps, kept })
    });
    prop::collection::vec(step, 0..16)
}

/// Carries out the steps. Returns false if an inner savepoint was undone and left a trace.
fn carry_out(world: &mut Tentative<'_>, steps: &[Step], cx: &mut Context<'_>) -> bool {
    let profile = world.profiles().iter().next().unwrap().clone();
    steps.iter().all(|step| match step {
        Step::Place { pod, node } => {
            let node: Arc<str> = format!("n{node}").into();
            world.tentatively(cx, |world, cx| {
                let Ok(assumed) = world.assume(&pod_of(*pod), &node) else {
                    return Ending::Undo(());
                };
                match world.reserve(&profile, assumed, &node, CycleState::new(), cx) {
                    Ok(()) => Ending::Keep(()),
                    Err(status) => {
                        assert_eq!(status.code(), Code::Unschedulable);
                        Ending::Undo(())
                    }
                }
            });
            true
        }
        Step::Assume { pod, node } => {
            let is_known = world.placed(&pod_of(*pod).uid).is_some();
            world.assume(&pod_of(*pod), &format!("n{node}").into()).is_err() == is_known
        }
        Step::Remove(pod) => {
            let is_known = world.placed(&pod_of(*pod).uid).is_some();
            world.remove(&pod_of(*pod).uid).is_some() == is_known
        }
        Step::Savepoint { steps, kept } => {
            let before = observed(world);
            let left_no_trace =
                world.tentatively(cx, |world, cx| match (carry_out(world, steps, cx), kept) {
                    (as_expected, true) => Ending::Keep(as_expected),
                    (as_expected, false) => Ending::Undo(as_expected),
                });
            left_no_trace && (*kept || observed(world) == before)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn undone_savepoint_leaves_no_trace(tried in steps(), later in steps()) {
        let mut fixture = Fixture::new();
        let before = fixture.observed();
        let ended = fixture.with(|world, cx| {
            world.tentatively(cx, |world, cx| Ending::Undo(carry_out(world, &tried, cx)))
        });
        prop_assert!(ended.value && ended.reservations.is_empty());
        prop_assert_eq!(fixture.observed(), before);
        // What follows is as if nothing had been tried.
        let mut fresh = Fixture::new();
        for own in [&mut fixture, &mut fresh] {
            own.with(|world, cx| {
                world.tentatively(cx, |world, cx| Ending::Keep(carry_out(world, &later, cx)));
            });
        }
        let without_generations = |own: &Fixture| {
            let observed = own.observed().into_iter();
            let node = |(name, value): (String, String)| match name.starts_with("node ") {
                true => (name, value.rsplit_once(", Some(").unwrap().0.to_owned()),
                false => (name, value),
            };
            observed.map(node).collect::<BTreeMap<_, _>>()
        };
        prop_assert_eq!(without_generations(&fixture), without_generations(&fresh));
    }
}

#[test]
fn kept_savepoint_returns_its_reservations_and_gives_their_commands() {
    let mut fixture = Fixture::new();
    let profile = fixture.world.profiles.iter().next().unwrap().clone();
    let ended = fixture.with(|world, cx| {
        world.tentatively(cx, |world, cx| {
            for number in [7, 8] {
                let node: Arc<str> = "n2".into();
                let assumed = world.assume(&pod_of(number), &node).unwrap();
                let reserved = world.reserve(&profile, assumed, &node, CycleState::new(), cx);
                assert!(reserved.is_ok());
            }
            assert!(world.remove(&pod_of(0).uid).is_some());
            Ending::Keep(())
        })
    });
    let reserved: Vec<_> = ended.reservations.iter().map(|own| &*own.pod.key.name).collect();
    assert_eq!(reserved, ["p7", "p8"]);
    assert!(fixture.world.is_assumed(&pod_of(7).uid));
    assert_eq!(fixture.ledger.lock().unwrap().len(), 2);
    assert_eq!(fixture.world.commands.len(), 3);
    // The eviction of a pod that is gone counts no longer.
    assert_eq!(fixture.observed()["budgets 1"], "[3]");
    assert_eq!(fixture.world.nominator.node_of(&pod_of(7).uid), None);
}

#[test]
fn rejected_reservation_leaves_its_plugins_as_they_were() {
    let mut fixture = Fixture::new();
    let profile = fixture.world.profiles.iter().next().unwrap().clone();
    let before = fixture.ledger.lock().unwrap().clone();
    fixture.with(|world, cx| {
        world.tentatively(cx, |world, cx| {
            let node: Arc<str> = "n0".into();
            for (number, fits) in [(7, true), (8, true), (9, false)] {
                let assumed = world.assume(&pod_of(number), &node).unwrap();
                let reserved = world.reserve(&profile, assumed, &node, CycleState::new(), cx);
                assert_eq!(reserved.is_ok(), fits);
            }
            Ending::Undo(())
        })
    });
    assert_eq!(*fixture.ledger.lock().unwrap(), before);
    assert_eq!(fixture.world.commands.len(), 1);
}
