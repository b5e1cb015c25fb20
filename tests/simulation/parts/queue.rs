//! The scheduling queue against a naive model.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use engine::ports::{Count, Probe};
use engine::queue::{Plugins, Queue, QueueConfig};
use engine::{ObjectEvent, Objects};
use fastrand::Rng;
use framework::{
    ActionType, Cluster, ClusterEvent, EventResource, Pod, PodKey, QueuedEntity, QueuedPod, Time,
};
use serde_json::json;
use testkit::{HandleParts, cluster, node, pod};

use super::super::rules::{Checked, rule};
use super::plugins::{REJECTORS, profiles};
use super::pods::Shape;
use super::queue_model::{Around, Model, same};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Returns the key of a pod. Each name is that of a pod in two namespaces.
fn key_of(name: &str) -> PodKey {
    match name {
        "a" => PodKey::new("default", "p"),
        "b" => PodKey::new("default", "q"),
        "c" => PodKey::new("other", "p"),
        _ => PodKey::new("other", "q"),
    }
}

/// Returns a pod with these properties.
fn pod_of(shape: Shape, name: &str, uid: u32) -> Arc<Pod> {
    let key = key_of(name);
    Arc::new(shape.of(&key.name, uid).namespace(&key.namespace).build())
}
/// Number of steps of a history.
const STEPS: u32 = 50;
/// Number of events that is more than the queue keeps for pods in flight.
const FLOOD: u32 = 4100;

/// A step of a history.
#[derive(Debug, Clone, Copy)]
enum Step {
    Add,
    Update,
    Delete,
    Pop,
    Fail,
    Permit,
    Outdated,
    Done,
    Retry,
    Notify,
    Activate,
    Wait,
    /// Pops and rejects again and again.
    Spin,
    /// Rejects pods that are alike together with their template.
    Crowd,
    /// Lets pods of one template be tried while they change and events come.
    Alike,
    /// Rejects a pod after several events.
    Race,
    /// Fails attempts with errors, again and again.
    Errors,
}

const ALL: [Step; 17] = [
    Step::Add,
    Step::Update,
    Step::Delete,
    Step::Pop,
    Step::Fail,
    Step::Permit,
    Step::Outdated,
    Step::Done,
    Step::Retry,
    Step::Notify,
    Step::Activate,
    Step::Wait,
    Step::Spin,
    Step::Crowd,
    Step::Alike,
    Step::Race,
    Step::Errors,
];

/// What the queue reports.
#[derive(Debug, Default)]
struct Log(Vec<String>);

impl Probe for Log {
    fn count(&mut self, count: Count<'_>) {
        if let Count::Incoming { queue, event } = count {
            self.0.push(format!("{queue} {event}"));
        }
    }
}

/// A popped pod, of the queue and of the model.
struct Popped {
    real: QueuedPod,
    model: QueuedPod,
}

/// A queue and its model, which take the same steps.
struct Pair<'r> {
    random: &'r mut Rng,
    trace: &'r mut Vec<String>,
    queue: Queue,
    model: Model,
    cluster: Cluster,
    now: Time,
    log: Log,
    uids: u32,
    living: BTreeMap<&'static str, (Arc<Pod>, Shape)>,
    /// The last pod of each name that is gone.
    gone: BTreeMap<&'static str, (Arc<Pod>, Shape)>,
    popped: Vec<Popped>,
}

/// Lives through a history of the queue.
pub(super) fn run(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let default = QueueConfig::default();
    let config = match random.u32(..8) {
        0 => QueueConfig { max_backoff: Duration::ZERO, ..default },
        1 => QueueConfig { initial_backoff: Duration::from_millis(1500), ..default },
        2 => QueueConfig { max_in_unschedulable: Duration::from_secs(20), ..default },
        3 => QueueConfig { max_backoff: Duration::from_secs(2), ..default },
        _ => default,
    };
    trace.push(format!("{config:?}"));
    let mut weights: Vec<u32> = ALL.iter().map(|_| [0, 1, 1, 3, 6][random.usize(..5)]).collect();
    // These take many steps each.
    weights[Step::Crowd as usize..].iter_mut().for_each(|own| *own = (*own).min(1));
    let mut pair = Pair {
        random,
        trace,
        queue: Queue::new(config),
        model: Model::new(config),
        cluster: cluster([node("n").build()], []),
        now: Time::from_nanos(1_000_400_000_000),
        log: Log::default(),
        uids: 0,
        living: BTreeMap::new(),
        gone: BTreeMap::new(),
        popped: Vec::new(),
    };
    for number in 0..STEPS {
        // Each history begins with some pods.
        let step = if number < 3 { Step::Add } else { pair.choose(&weights) };
        pair.take(step)?;
        pair.model.check(&pair.queue, pair.now)?;
        pair.model.check_incoming(&std::mem::take(&mut pair.log.0))?;
    }
    Ok(())
}

impl Pair<'_> {
    fn choose(&mut self, weights: &[u32]) -> Step {
        let mut number = self.random.u32(..weights.iter().sum::<u32>().max(1));
        for (step, weight) in ALL.into_iter().zip(weights) {
            match number.checked_sub(*weight) {
                Some(rest) => number = rest,
                None => return step,
            }
        }
        Step::Pop
    }

    /// Calls into the queue, then into the model.
    fn on<T>(
        &mut self,
        real: impl FnOnce(&mut Queue, &mut Plugins<'_>) -> T,
        model: impl FnOnce(&mut Model, Around<'_>) -> T,
    ) -> Checked
    where
        T: PartialEq + Debug,
    {
        let parts = HandleParts { now: self.now, ..HandleParts::default() };
        let (profiles, handle) = (profiles(), parts.handle(&self.cluster));
        let got = real(&mut self.queue, &mut Plugins { profiles, handle, probe: &mut self.log });
        let expected = model(&mut self.model, Around { profiles, handle });
        rule(got == expected, || format!("{got:?} instead of {expected:?}"))
    }

    fn note(&mut self, step: impl Debug) {
        self.trace.push(format!("{} {step:?}", self.now));
    }

    fn take(&mut self, step: Step) -> Checked {
        match step {
            Step::Add => self.add(),
            Step::Update => self.update(),
            Step::Delete => self.delete(),
            Step::Pop => self.pop().map(drop),
            Step::Fail => self.fail(),
            Step::Permit | Step::Done => self.leave(step),
            Step::Outdated => self.outdated(),
            Step::Retry => self.retry(),
            Step::Notify => {
                let times = if self.random.u32(..400) == 0 { FLOOD } else { 1 };
                self.notify(times)
            }
            Step::Activate => self.activate(),
            Step::Wait => self.wait(),
            Step::Spin => self.spin(),
            Step::Crowd => self.crowd(),
            Step::Alike => self.alike(),
            Step::Race => self.race(),
            Step::Errors => self.errors(),
        }
    }

    fn add(&mut self) -> Checked {
        let name = NAMES[self.random.usize(..NAMES.len())];
        let back = self.gone.get(name).cloned().filter(|_| !self.living.contains_key(name));
        let (pod, shape) = match back.filter(|_| self.random.bool()) {
            Some(back) => back,
            None => {
                self.uids += 1;
                let others: Vec<Shape> = self.living.values().map(|(_, shape)| *shape).collect();
                let alike = self.random.choice(others).filter(|_| self.random.bool());
                let shape = alike.unwrap_or_else(|| Shape::random(self.random));
                (pod_of(shape, name, self.uids), shape)
            }
        };
        self.note(("add", name, &pod.uid, shape));
        self.living.insert(name, (pod.clone(), shape));
        self.on(
            |queue, plugins| queue.add(pod.clone(), plugins),
            |model, around| model.add(&pod, around),
        )
    }

    /// Returns a living pod.
    fn some_pod(&mut self) -> Option<(&'static str, Arc<Pod>, Shape)> {
        let names: Vec<&'static str> = self.living.keys().copied().collect();
        let name = self.random.choice(names)?;
        let (pod, shape) = self.living[name].clone();
        Some((name, pod, shape))
    }

    fn update(&mut self) -> Checked {
        let Some((name, pod, shape)) = self.some_pod() else { return Ok(()) };
        self.update_pod(name, &pod, shape)
    }

    fn update_pod(&mut self, name: &'static str, old: &Arc<Pod>, mut shape: Shape) -> Checked {
        shape.change(self.random);
        if self.random.u32(..8) == 0 {
            shape.change(self.random);
        }
        let uid = old.uid.to_string().parse().unwrap_or_default();
        let new = pod_of(shape, name, uid);
        self.note(("update", name, &new.uid, shape));
        self.living.insert(name, (new.clone(), shape));
        self.on(
            |queue, plugins| queue.update(old, new.clone(), plugins),
            |model, around| model.update(old, &new, around),
        )
    }

    fn delete(&mut self) -> Checked {
        let Some((name, pod, shape)) = self.some_pod() else { return Ok(()) };
        self.note(("delete", name));
        self.living.remove(name);
        self.gone.insert(name, (pod.clone(), shape));
        self.on(
            |queue, plugins| queue.delete(&pod, plugins),
            |model, around| model.delete(&pod, around),
        )
    }

    /// Returns whether a pod was popped.
    fn pop(&mut self) -> Result<bool, String> {
        let parts = HandleParts { now: self.now, ..HandleParts::default() };
        let (profiles, handle) = (profiles(), parts.handle(&self.cluster));
        let popped = self.queue.pop(&mut Plugins { profiles, handle, probe: &mut self.log });
        let popped = popped.map(|entity| match entity {
            QueuedEntity::Pod(queued) => queued,
            QueuedEntity::Group(_) => unreachable!("the model has no groups"),
        });
        self.trace.push(format!("pop {:?}", popped.as_ref().map(|popped| &popped.pod.uid)));
        let around = Around { profiles, handle };
        let expected = self.model.pop(popped.as_ref(), &self.queue, around)?;
        let Some((popped, expected)) = popped.zip(expected) else { return Ok(false) };
        same(&popped.pod.key, &popped, &expected)?;
        self.popped.push(Popped { real: popped, model: expected });
        Ok(true)
    }

    /// Takes a pod in flight, in its present version.
    fn some_popped(&mut self) -> Option<Popped> {
        let number = self.random.usize(..self.popped.len().max(1));
        let Popped { mut real, mut model } =
            (number < self.popped.len()).then(|| self.popped.remove(number))?;
        let known = self.living.values().find(|(pod, _)| pod.uid == real.pod.uid);
        if let Some((pod, _)) = known {
            real.pod = pod.clone();
            model.pod = pod.clone();
        }
        Some(Popped { real, model })
    }

    fn fail(&mut self) -> Checked {
        let Some(popped) = self.some_popped() else { return Ok(()) };
        let mut rejectors: Vec<&str> =
            REJECTORS.into_iter().filter(|_| self.random.u32(..3) == 0).collect();
        if self.random.bool() {
            rejectors = vec!["Fit"];
        }
        let pending = rejectors.first().copied().filter(|_| self.random.u32(..4) == 0);
        let of_template = pending.is_none() && !rejectors.is_empty() && self.random.u32(..3) > 0;
        self.fail_with(popped, &rejectors, pending, of_template)
    }

    fn fail_with(
        &mut self,
        popped: Popped,
        rejectors: &[&str],
        pending: Option<&str>,
        of_template: bool,
    ) -> Checked {
        self.note(("fail", &popped.real.pod.uid, rejectors, pending, of_template));
        let reject = |mut queued: QueuedPod| {
            queued.history.unschedulable_plugins =
                rejectors.iter().map(|name| (*name).into()).collect();
            queued.history.pending_plugins = pending.into_iter().map(Into::into).collect();
            queued.history.template_rejected = of_template;
            queued
        };
        let pod = popped.real.pod.clone();
        let may_look = self.queue.may_look(&popped.real.pod.uid, &popped.real.history, self.now);
        rule(may_look == self.model.may_look(&popped.model, self.now), || {
            format!("may be a look: {may_look}")
        })?;
        let is_look = may_look && !rejectors.is_empty() && self.random.bool();
        let (real, model) = (reject(popped.real), reject(popped.model));
        self.on(
            |queue, plugins| match is_look {
                true => queue.put_back_if_not_present(QueuedEntity::Pod(real), plugins),
                false => queue.add_unschedulable_if_not_present(QueuedEntity::Pod(real), plugins),
            },
            |queue, around| match is_look {
                true => queue.put_back(model, around),
                false => queue.fail(model, around),
            },
        )?;
        self.ended(&pod)
    }

    fn ended(&mut self, pod: &Pod) -> Checked {
        self.on(
            |queue, plugins| queue.attempt_ended(pod, plugins),
            |model, around| model.attempt_ended(pod, around),
        )
    }

    /// A pod waits in Permit, or has passed it.
    fn leave(&mut self, step: Step) -> Checked {
        let Some(popped) = self.some_popped() else { return Ok(()) };
        let pod = popped.real.pod.clone();
        self.note((step, &pod.uid));
        if matches!(step, Step::Done) {
            self.on(|queue, _| queue.done(&pod.uid), |model, _| model.done(&pod.uid))?;
        } else {
            self.popped.push(popped);
        }
        self.ended(&pod)
    }

    fn outdated(&mut self) -> Checked {
        let Some(Popped { real, model }) = self.some_popped() else { return Ok(()) };
        self.note(("outdated", &real.pod.uid));
        self.on(
            |queue, plugins| queue.add_outdated_if_not_present(QueuedEntity::Pod(real), plugins),
            |queue, around| queue.fail_outdated(model, around),
        )
    }

    fn retry(&mut self) -> Checked {
        let Some((name, pod, _)) = self.some_pod() else { return Ok(()) };
        self.note(("retry", name));
        self.on(
            |queue, plugins| queue.retry_after_error(&pod, plugins),
            |model, around| model.retry_after_error(&pod, around),
        )
    }

    /// Notifies the queue of the end of a pod whose room helps pods that `Fit` rejected.
    fn free_room(&mut self) -> Checked {
        let frees = pod("gone").on("n").label("frees", "yes").build();
        let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
        let event = ObjectEvent { event, objects: Objects::Pod(Some(Arc::new(frees)), None) };
        self.on(
            |queue, plugins| queue.move_all_to_active_or_backoff_queue(&event, &|_| true, plugins),
            |model, around| model.move_all(&event, &|_| true, around),
        )
    }

    fn notify(&mut self, times: u32) -> Checked {
        let event = self.some_event();
        let (kind, limit) = (self.random.u32(..6), self.random.i32(0..2));
        let name = NAMES[self.random.usize(..NAMES.len())];
        self.note(("notify", &event.event, times, kind, limit, name));
        let may_move = |pod: &Pod| match kind {
            0 => pod.priority() <= limit,
            1 => pod.key != key_of(name),
            _ => true,
        };
        for _ in 0..times {
            self.on(
                |queue, plugins| {
                    queue.move_all_to_active_or_backoff_queue(&event, &may_move, plugins)
                },
                |model, around| model.move_all(&event, &may_move, around),
            )?;
        }
        Ok(())
    }

    fn some_event(&mut self) -> ObjectEvent {
        use ActionType as A;
        let about_node = |action| {
            let other = Some(Arc::new(node("other").build()));
            let (old, new) = if action == A::DELETE { (other, None) } else { (None, other) };
            (EventResource::Node, action, Objects::Node(old, new))
        };
        let app = self.random.u32(..2).to_string();
        let assigned = pod("assigned").on("n").label("app", &app);
        let (resource, action, objects) = match self.random.u32(..11) {
            0 => {
                self.cluster.set_node(&node("bank").build());
                about_node(A::ADD)
            }
            1 => {
                self.cluster.remove_node("bank");
                about_node(A::DELETE)
            }
            2 => about_node(A::ADD),
            3 => about_node(A::UPDATE_NODE_TAINT),
            4 => about_node(A::UPDATE_NODE_LABEL),
            5 => about_node(A::UPDATE_NODE_CONDITION),
            6 => {
                let claim = testkit::object(EventResource::ResourceClaim, json!({}));
                let claim = Objects::Other(None, Some(Arc::new(claim)));
                (EventResource::ResourceClaim, A::UPDATE, claim)
            }
            7 => (
                EventResource::AssignedPod,
                A::ADD,
                Objects::Pod(None, Some(Arc::new(assigned.build()))),
            ),
            8 => (
                EventResource::AssignedPod,
                A::DELETE,
                Objects::Pod(Some(Arc::new(assigned.build())), None),
            ),
            _ => {
                let freed = Arc::new(assigned.label("frees", "yes").build());
                (EventResource::AssignedPod, A::DELETE, Objects::Pod(Some(freed), None))
            }
        };
        ObjectEvent { event: ClusterEvent::new(resource, action), objects }
    }

    fn activate(&mut self) -> Checked {
        let names: Vec<&str> = NAMES.into_iter().filter(|_| self.random.u32(..3) == 0).collect();
        self.note(("activate", &names));
        let keys: Vec<PodKey> = names.iter().map(|name| key_of(name)).collect();
        self.on(
            |queue, plugins| queue.activate(&keys, plugins),
            |model, around| model.activate(&keys, around),
        )
    }

    /// Lets time pass, often until something is due or just before it, and ticks.
    fn wait(&mut self) -> Checked {
        let due = self.queue.next_deadline().map(|due| due.since(self.now));
        let nanos = match (self.random.u32(..8), due) {
            (0 | 1, Some(due)) => due.as_nanos() as u64,
            (2, Some(due)) => (due.as_nanos() as u64).saturating_sub(1),
            (3, _) => self.random.u64(..30) * 1_000_000,
            (4 | 5, _) => self.random.u64(..4_000) * 1_000_000,
            (6, _) => self.random.u64(..40) * 1_000_000_000,
            _ => self.random.u64(200..400) * 1_000_000_000,
        };
        self.now = self.now + Duration::from_nanos(nanos);
        self.note("tick");
        self.on(Queue::tick, Model::tick)
    }

    /// Rejects pods as soon as they are popped.
    fn spin(&mut self) -> Checked {
        let rejector = ["Fit", "Deaf"][self.random.usize(..2)];
        let step = [0, 0, 3_000_000, 10_000_000][self.random.usize(..4)];
        self.note(("spin", rejector, step));
        for _ in 0..self.random.u32(10..24) {
            if !self.pop()? {
                break;
            }
            let popped = self.popped.pop().expect("it was popped just now");
            self.fail_with(popped, &[rejector], None, false)?;
            self.free_room()?;
            self.now = self.now + Duration::from_nanos(step);
            self.model.check(&self.queue, self.now)?;
        }
        Ok(())
    }

    /// Creates pods that are alike, and rejects each that is popped together with its template.
    fn crowd(&mut self) -> Checked {
        let shape = Shape::random(self.random).ungated();
        let names: Vec<&'static str> =
            NAMES.into_iter().filter(|_| self.random.u32(..4) > 0).collect();
        self.note(("crowd", &names, shape));
        for name in names {
            self.uids += 1;
            let pod = pod_of(shape, name, self.uids);
            self.living.insert(name, (pod.clone(), shape));
            self.on(
                |queue, plugins| queue.add(pod.clone(), plugins),
                |model, around| model.add(&pod, around),
            )?;
        }
        for _ in NAMES {
            if !self.pop()? {
                break;
            }
            let popped = self.popped.pop().expect("it was popped just now");
            self.fail_with(popped, &["Fit"], None, true)?;
            if self.random.bool() {
                self.now = self.now + Duration::from_millis(self.random.u64(..2_000));
            }
        }
        Ok(())
    }

    /// Creates and rejects pods that are alike. Then some of them are tried, changed and rejected,
    /// mostly together with their template.
    fn alike(&mut self) -> Checked {
        self.crowd()?;
        for _ in 0..self.random.u32(4..12) {
            match self.random.u32(..4) {
                0 => self.free_room()?,
                1 => drop(self.pop()?),
                2 => {
                    let uids: Vec<_> =
                        self.popped.iter().map(|own| own.real.pod.uid.clone()).collect();
                    let known = self.living.iter().find(|(_, (pod, _))| uids.contains(&pod.uid));
                    let known = known.map(|(name, (pod, shape))| (*name, pod.clone(), *shape));
                    if let Some((name, pod, shape)) = known {
                        self.update_pod(name, &pod, shape)?;
                    }
                }
                _ => {
                    let rejectors = [&["Fit"][..], &["Fit", "Claims"]][self.random.usize(..2)];
                    let shares = self.random.u32(..4) > 0;
                    if let Some(popped) = self.some_popped() {
                        self.fail_with(popped, rejectors, None, shares)?;
                    }
                }
            }
            self.model.check(&self.queue, self.now)?;
        }
        Ok(())
    }

    /// Rejects a pod by several plugins, after several events.
    fn race(&mut self) -> Checked {
        if !self.pop()? {
            return Ok(());
        }
        for _ in 0..self.random.u32(1..6) {
            match self.random.u32(..4) {
                0 => self.activate()?,
                _ => self.notify(1)?,
            }
        }
        let mut rejectors: Vec<&str> =
            REJECTORS.into_iter().filter(|_| self.random.bool()).collect();
        self.random.shuffle(&mut rejectors);
        let pending = rejectors.first().copied().filter(|_| self.random.u32(..4) > 0);
        let popped = self.popped.pop().expect("it was popped just now");
        self.fail_with(popped, &rejectors, pending, false)
    }

    /// Pops all pods and fails their attempts with errors, several times.
    fn errors(&mut self) -> Checked {
        let keys = NAMES.map(key_of);
        for _ in 0..self.random.u32(2..6) {
            self.on(
                |queue, plugins| queue.activate(&keys, plugins),
                |model, around| model.activate(&keys, around),
            )?;
            for _ in NAMES {
                if !self.pop()? {
                    break;
                }
                let popped = self.popped.pop().expect("it was popped just now");
                self.fail_with(popped, &[], None, false)?;
                self.now = self.now + Duration::from_millis(self.random.u64(..300));
                self.on(Queue::tick, Model::tick)?;
                self.model.check(&self.queue, self.now)?;
            }
        }
        Ok(())
    }
}
