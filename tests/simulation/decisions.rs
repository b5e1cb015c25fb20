//! Invariants of decisions, on the cluster as the engine knows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use control::scheduler::Scheduler;
use engine::cycle::Form;
use engine::ports::Ports;
use engine::queue::Place;
use engine::{Attempt, Engine, Evaluation, Input, Outcome};
use framework::storage::PersistentVolumeClaim;
use framework::{Pod, Time};
use serde_json::json;

use super::extender::Extender;
use super::oracle::{Oracle, Related, gives_volumes, needs_devices, read_pod};
use super::patience::PENDING_TEXT;
use super::preemptions::Pauses;
use super::rules::{Checked, rule};
use super::server::DEFAULT;
use super::trouble::needs_extender;

/// The end of the error for a pool of devices some of whose slices are absent.
const BEING_UPDATED: &str = "is currently being updated";

/// Returns the highest priority of the pods that are ready for an attempt.
pub(crate) fn highest_priority(engine: &Engine) -> Option<i32> {
    let ready = engine.queue().entities().filter(|(place, _)| *place == Place::Active);
    ready.map(|(_, entity)| entity.priority()).max()
}

/// Checks a decision against the state of the engine when it was made. `highest` is the [highest
/// priority](highest_priority) of the pods that could have been tried. With `may_fail` an extender
/// has failed.
pub(crate) fn after_decision(
    engine: &Engine,
    attempt: &Attempt,
    highest: Option<i32>,
    may_fail: bool,
) -> Checked {
    let Attempt { pod, outcome } = attempt;
    if pod.pod_group().is_some() {
        return after_group(attempt);
    }
    rule(Some(pod.priority()) >= highest, || format!("{} is tried out of turn", pod.key))?;
    match outcome {
        Outcome::Assumed(node) => {
            let is_open = pod.spec.scheduling_gates.is_empty() && !pod.terminating;
            rule(is_open, || format!("{} is gated or being deleted, and put on {node}", pod.key))
        }
        Outcome::Unschedulable(text) | Outcome::Repeated(text) => is_counted(engine, pod, text),
        Outcome::Error(_) if may_fail => Ok(()),
        // A claim for all devices has to wait until the driver has published the whole pool, as in
        // kube-scheduler.
        Outcome::Error(text) if needs_devices(pod) && text.ends_with(BEING_UPDATED) => Ok(()),
        Outcome::Error(text) => Err(format!("the attempt for {} fails: {text}", pod.key)),
        Outcome::Skipped => Ok(()),
    }
}

/// Texts of errors that are right about groups: their pods do not go together, or others have bound
/// pods in several domains of the topology.
const GROUP_ERRORS: [&str; 2] = [
    "all pods in a single pod group should have the same",
    "cannot determine domain for already scheduled pods",
];

/// Checks the outcome of the first pod of a group.
fn after_group(Attempt { pod, outcome }: &Attempt) -> Checked {
    match outcome {
        Outcome::Error(text) => rule(GROUP_ERRORS.iter().any(|own| text.contains(own)), || {
            format!("the group of {} fails: {text}", pod.key)
        }),
        Outcome::Unschedulable(text) | Outcome::Repeated(text) => {
            rule(!text.is_empty(), || format!("{} is rejected without a reason", pod.key))
        }
        Outcome::Assumed(_) | Outcome::Skipped => Ok(()),
    }
}

/// Checks that a pod is put on a node that takes it, as far as the attempt has changed nothing
/// else.
pub(crate) fn is_taken(engine: &Engine, related: &Related, attempt: &Attempt) -> Checked {
    let Attempt { pod, outcome: Outcome::Assumed(node) } = attempt else { return Ok(()) };
    let is_taken = Oracle::of_engine(engine, related).takes(node, pod);
    rule(is_taken, || format!("{} is put on {node}, which does not take it", pod.key))
}

/// Checks that the text has the number of nodes. A plugin that rejects a pod on its chosen node
/// speaks of one.
fn is_counted(engine: &Engine, pod: &Pod, text: &str) -> Checked {
    let count = match text.contains(PENDING_TEXT) {
        true => 1,
        false => engine.cluster().node_count(),
    };
    let is_counted = match count {
        0 => text.starts_with("no nodes available"),
        _ => text.starts_with(&format!("0/{count} nodes are available")),
    };
    rule(is_counted, || format!("of {count} nodes, {} is told {text:?}", pod.key))
}

/// Where the text begins that says what preemption has found. Victims that are equally important
/// are chosen in the order in which their pods came, which a new engine does not know.
const PLACEMENT: &str = "found a potential placement";

/// The decision for a pod: the total scores of the feasible nodes, and the text if there are none.
#[derive(Debug, PartialEq, Eq)]
struct Decision {
    totals: BTreeMap<Arc<str>, Option<i64>>,
    text: Option<String>,
}

impl Decision {
    /// Returns the decision; `None` if the pod belongs to another scheduler.
    fn of(evaluation: Evaluation, engine: &Engine) -> Self {
        let cluster = engine.cluster();
        let named = |(node, total)| (cluster.node_name(node).clone(), total);
        let known = |text: String| match text.split_once(PLACEMENT) {
            Some((before, _)) => format!("{before}{PLACEMENT}"),
            None => text,
        };
        Self {
            totals: evaluation.feasible.into_iter().map(named).collect(),
            text: evaluation.fit_error.map(|error| known(error.message())),
        }
    }

    fn on(pod: &Arc<Pod>, decider: &mut impl Evaluates, form: Form, now: Time) -> Option<Self> {
        let ports = &mut Ports { extenders: &mut Extender::default(), probe: &mut () };
        let evaluation = decider.evaluate(pod, form, now, ports)?;
        Some(Self::of(evaluation, decider.engine()))
    }
}

/// An engine, or the scheduler that owns it and may record it.
pub(crate) trait Evaluates {
    fn engine(&self) -> &Engine;

    fn evaluate(
        &mut self,
        pod: &Arc<Pod>,
        form: Form,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Option<Evaluation>;
}

impl Evaluates for Engine {
    fn engine(&self) -> &Engine {
        self
    }

    fn evaluate(
        &mut self,
        pod: &Arc<Pod>,
        form: Form,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Option<Evaluation> {
        let input = Input::Evaluate { pod: pod.clone(), form, start: None };
        self.step(input, now, ports).evaluation()
    }
}

impl Evaluates for Scheduler {
    fn engine(&self) -> &Engine {
        self.engine()
    }

    fn evaluate(
        &mut self,
        pod: &Arc<Pod>,
        form: Form,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Option<Evaluation> {
        self.evaluate(pod, form, now, ports)
    }
}

/// Checks that both forms of the plugins decide equally for every pod, and equally with `fresh`, a
/// new engine with the same nodes and placed pods, which has counted them from scratch. `fresh`
/// knows neither nominated pods nor preemptions without a binding. Pods with a node are decided as
/// if they had none.
///
/// `fresh` does not know which devices and volumes are assumed. A pod for each unbound claim shows
/// that no other volume is withheld. Pods that need the extender are left out while it does not
/// answer: a decision would try it again.
pub(crate) fn forms_agree(
    scheduler: &mut Scheduler,
    fresh: &mut Engine,
    related: &Related,
    now: Time,
) -> Checked {
    let engine = scheduler.engine();
    let placed = engine.cluster().pods().map(|placed| placed.pod.clone());
    let claimants = related.storage.unbound_claims().map(|claim| Arc::new(claimant(claim)));
    let pods: Vec<_> = placed.chain(engine.pending().cloned()).chain(claimants).collect();
    let nothing_is_nominated = engine.nominator().is_empty();
    let gives_volumes = gives_volumes(engine);
    let is_out = is_extender_out(engine);
    for pod in pods.into_iter().filter(|pod| !(is_out && needs_extender(pod))) {
        let decision = Decision::on(&pod, scheduler, Form::Set, now);
        let agrees = |other: Option<Decision>, who: &str| {
            rule(other == decision, || {
                format!("{}: the set form decides {decision:?}, {who} {other:?}", pod.key)
            })
        };
        let one_node = Decision::on(&pod, scheduler, Form::OneNode, now);
        agrees(one_node, "the one-node form")?;
        let is_known = nothing_is_nominated
            && !(gives_volumes && related.storage.has_unbound(&pod))
            && !needs_devices(&pod);
        if is_known && Pauses::of(&pod, scheduler.engine(), now).are_over() {
            agrees(Decision::on(&pod, fresh, Form::Set, now), "an engine that starts now")?;
        }
    }
    Ok(())
}

/// Whether the extender does not answer, as far as the engine knows.
pub(crate) fn is_extender_out(engine: &Engine) -> bool {
    engine.extender_outages().any(|(_, outage)| outage.is_some())
}

/// Returns a pod with this claim only.
fn claimant(claim: &PersistentVolumeClaim) -> Pod {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": &*claim.name}});
    read_pod(&json!({"spec": {"schedulerName": DEFAULT, "volumes": [volume]},
        "metadata": {"name": "claimant", "namespace": &*claim.namespace, "uid": "claimant"}}))
}
