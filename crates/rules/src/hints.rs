//! The events that wake a pod which a rule rejected.
//!
//! An event wakes the pod if it changes what a rule reads, and all rules let the pod onto a node
//! with the change. Rules that read the time are asked again at each step.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use cel::Expression;
use framework::{
    Cluster, Command, EventForPod, Handle, HintResult, Node, NodeIx, Pod, QueueingHint, Template,
    Time, Timer, WallOffset,
};

use crate::facts::{SOURCES, Source};
use crate::plugin::{NAME, Rules, Waiting};
use crate::prepared::Prepared;
use crate::rule_set::Rule;

/// Maximum number of nodes of a domain that a hint looks at.
const DOMAIN_MAX: usize = 256;

impl Rules {
    /// Wakes a pod after a change of a node.
    pub(crate) fn after_node(&self, event: EventForPod<'_>) -> HintResult {
        let (old, Some(new)) = event.objects.nodes()? else { return Ok(QueueingHint::Skip) };
        let prepared = self.prepare(event.pod, event.handle);
        let moved = |key: &str| old.is_none_or(|old| old.labels.get(key) != new.labels.get(key));
        if prepared.domain_keys().any(moved) && old.is_some() {
            return Ok(QueueingHint::Queue);
        }
        let touched = prepared.applying_filters().any(|rule| {
            old.is_none_or(|old| rule.expressions().any(|own| touches_node(own, old, new)))
        });
        let cluster = event.handle.cluster;
        let node = cluster.node_named(&new.name);
        let fits = |node| prepared.verdict(event.pod, &cluster.node(node)).is_success();
        Ok(QueueingHint::queue_if(touched && node.is_some_and(fits)))
    }

    /// Wakes a pod after a change of a pod: itself, or one that rules count.
    pub(crate) fn after_pod(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.pods()?;
        let changed = new.or(old).ok_or("the event has no pod")?;
        let prepared = self.prepare(event.pod, event.handle);
        if changed.uid == event.pod.uid {
            let (Some(old), Some(new)) = (old, new) else { return Ok(QueueingHint::Skip) };
            // The rules that apply to the pod may be others now.
            let touched = prepared
                .rules
                .filters
                .iter()
                .flat_map(Rule::expressions)
                .any(|own| touches_pod(own, old, new));
            return Ok(QueueingHint::queue_if(touched));
        }
        let Some(node) = &changed.node_name else { return Ok(QueueingHint::Skip) };
        let cluster = event.handle.cluster;
        let Some(node) = cluster.node_named(node) else { return Ok(QueueingHint::Skip) };
        let selected =
            |query: &framework::PodQuery| old.into_iter().chain(new).any(|pod| query.matches(pod));
        let fits = |node: NodeIx| prepared.verdict(event.pod, &cluster.node(node)).is_success();
        for key in prepared.domains_counting(selected) {
            if in_domain(cluster, key, node, &fits) {
                return Ok(QueueingHint::Queue);
            }
        }
        let counts = prepared.counts_usage() || prepared.counts_on_node(selected);
        Ok(QueueingHint::queue_if(counts && fits(node)))
    }

    /// Wakes a pod after a change of the labels of its namespace.
    pub(crate) fn after_namespace(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.typed::<framework::Namespace>()?;
        let own = event.objects.others()?;
        let Some(object) = own.1.or(own.0) else { return Ok(QueueingHint::Skip) };
        let is_own = object.name() == &event.pod.key.namespace;
        let changed = old.map(|old| &old.labels) != new.map(|new| &new.labels);
        let reads = self.rules(event.handle.cluster).filter_reading.namespace;
        Ok(QueueingHint::queue_if(is_own && changed && reads))
    }

    /// Wakes a pod if new rules let it onto a node.
    pub(crate) fn after_reload(&self, event: EventForPod<'_>) -> HintResult {
        let prepared = self.prepare(event.pod, event.handle);
        let cluster = event.handle.cluster;
        let mut nodes = cluster.nodes().iter();
        let fits = |node| prepared.verdict(event.pod, &cluster.node(node)).is_success();
        Ok(QueueingHint::queue_if(nodes.any(fits)))
    }

    /// Asks for a call at the next step of `now()`.
    pub(crate) fn wait_for_step(&self, pod: &Pod, handle: &Handle<'_>, prepared: &Prepared) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(pod.uid.clone(), Waiting { pod: pod.key.clone(), now: prepared.now });
        set_timer(handle, prepared);
    }
}

fn set_timer(handle: &Handle<'_>, prepared: &Prepared) {
    let next = prepared.now + prepared.rules.args.now_step_seconds;
    let wait = Time::from_secs(next).since(handle.wall_time());
    let at = handle.now + wait.max(Duration::from_millis(1));
    // Profiles share the timers of the plugin, and may have different steps.
    let token = prepared.rules.args.now_step_seconds.unsigned_abs();
    handle.command(Command::SetTimer { plugin: NAME.into(), at, token });
}

impl Timer for Rules {
    /// Wakes the pods that fit a node at this step and did not when the rules were last asked.
    fn fire(&self, token: u64, handle: &Handle<'_>) {
        let step = self.rules(handle.cluster).args.now_step_seconds.unsigned_abs();
        if token != step {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|uid, own| handle.pending.get(&own.pod).is_some_and(|pod| pod.uid == *uid));
        let mut answers: HashMap<(Template, i64), bool> = HashMap::new();
        let mut woken = Vec::new();
        let mut last = None;
        for own in waiting.values_mut() {
            let Some(pod) = handle.pending.get(&own.pod) else { continue };
            let prepared = self.prepare(pod, handle);
            let helps = answers
                .entry((Template::of(pod), own.now))
                .or_insert_with(|| self.step_helps(pod, handle, &prepared, own.now));
            if *helps {
                woken.push(own.pod.clone());
            }
            own.now = prepared.now;
            last = Some(prepared);
        }
        if let Some(prepared) = last {
            set_timer(handle, &prepared);
        }
        if !woken.is_empty() {
            handle.command(Command::Activate(woken));
        }
    }
}

impl Rules {
    /// Returns whether a node passes now that did not at the time `before`, in seconds.
    fn step_helps(&self, pod: &Pod, handle: &Handle<'_>, now: &Prepared, before: i64) -> bool {
        let wall_offset = WallOffset::between(handle.now, Time::from_secs(before));
        let before = self.prepare(pod, &Handle { wall_offset, ..*handle });
        handle.cluster.nodes().iter().any(|node| {
            let node = handle.cluster.node(node);
            now.verdict(pod, &node).is_success() && !before.verdict(pod, &node).is_success()
        })
    }
}

/// Returns whether one of the nodes in the domain of `node` fits.
fn in_domain(cluster: &Cluster, key: &str, node: NodeIx, fits: &impl Fn(NodeIx) -> bool) -> bool {
    let Some(topology) = cluster.topology(key) else { return false };
    let Some(domain) = topology.domain_of(node) else { return false };
    let nodes = topology.nodes(domain);
    nodes.len() > DOMAIN_MAX || nodes.iter().any(fits)
}

/// Returns whether an update of a node changes what an expression reads.
fn touches_node(expression: &Expression, old: &Node, new: &Node) -> bool {
    expression.reads().iter().any(|read| match SOURCES[read.fact] {
        Source::NodeLabels => match &read.key {
            Some(key) => old.labels.get(key) != new.labels.get(key),
            None => old.labels != new.labels,
        },
        Source::NodeTaints => old.taints != new.taints,
        Source::NodeUnschedulable => old.unschedulable != new.unschedulable,
        Source::NodeFeatures => old.declared_features != new.declared_features,
        Source::Allocatable | Source::Free => {
            (&old.allocatable, old.allowed_pods) != (&new.allocatable, new.allowed_pods)
        }
        Source::NodeField(pointer) => old.extra.get(pointer) != new.extra.get(pointer),
        Source::NodeMap(pointer) => {
            let kept = crate::reading::keyed(read);
            let pointer = kept.as_ref().map_or(pointer, |kept| &*kept.pointer);
            old.extra.get(pointer) != new.extra.get(pointer)
        }
        _ => false,
    })
}

/// Returns whether an update of a pod changes what an expression reads of the pod itself.
fn touches_pod(expression: &Expression, old: &Pod, new: &Pod) -> bool {
    expression.reads().iter().any(|read| match SOURCES[read.fact] {
        Source::PodLabels => match &read.key {
            Some(key) => old.labels.get(key) != new.labels.get(key),
            None => old.labels != new.labels,
        },
        Source::PodPriority => old.spec.priority != new.spec.priority,
        Source::PodTolerations => old.spec.tolerations != new.spec.tolerations,
        Source::Requests => old.requests.fit != new.requests.fit,
        Source::PodField(pointer) => old.extra.get(pointer) != new.extra.get(pointer),
        Source::PodMap(pointer) => {
            let kept = crate::reading::keyed(read);
            let pointer = kept.as_ref().map_or(pointer, |kept| &*kept.pointer);
            old.extra.get(pointer) != new.extra.get(pointer)
        }
        _ => false,
    })
}
