//! The answer about the pods of one controller, and pending pods by cause.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{ControllerKind, Pod, Template};

use crate::answer::{GroupAnswer, GroupPod, PendingCause};
use crate::help;
use crate::lab::Lab;
use crate::now::{Findings, NOW};

/// Number of pods that a cause names.
const NAMES: usize = 10;
/// Number of templates of pending pods that one answer evaluates.
pub(crate) const TEMPLATES: usize = 128;
/// Labels that name the Job of a pod.
const JOB_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// Answers why some pods of a controller wait: a ReplicaSet, StatefulSet, ReplicationController or
/// Job of this name, or a Deployment, by the names of its ReplicaSets. Returns `None` if it has no
/// pod.
pub fn explain_group(lab: &mut Lab<'_>, namespace: &str, name: &str) -> Option<GroupAnswer> {
    let is_own = |pod: &Pod| *pod.key.namespace == *namespace && belongs(pod, name);
    let pending: Vec<Arc<Pod>> = waiting(lab).into_iter().filter(|pod| is_own(pod)).collect();
    let cluster = lab.cluster();
    let placed: Vec<_> = cluster.pods().filter(|placed| is_own(&placed.pod)).collect();
    let first = pending.first().or(placed.first().map(|placed| &placed.pod))?;
    let group = format!("{namespace}/{}", group_name(first, name));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for placed in &placed {
        *counts.entry(cluster.node_name(placed.node)).or_default() += 1;
    }
    let mut nodes: Vec<GroupPod> =
        counts.into_iter().map(|(node, count)| GroupPod { node: node.to_owned(), count }).collect();
    nodes.sort_by_key(|own| Reverse(own.count));
    let (pods, placed) = (placed.len() + pending.len(), placed.len());
    let evaluated = Templates::of(pending).evaluate(lab);
    let causes = evaluated.causes(lab);
    let notes = Vec::new();
    Some(GroupAnswer { as_of: NOW.to_owned(), group, pods, placed, causes, nodes, notes })
}

fn belongs(pod: &Pod, name: &str) -> bool {
    if JOB_LABELS.iter().any(|label| pod.labels.get(label) == Some(name)) {
        return true;
    }
    pod.controller
        .as_ref()
        .is_some_and(|controller| *controller.name == *name || deployment(pod) == Some(name))
}

/// Returns the Deployment of a pod: the name of its ReplicaSet without the hash.
pub(crate) fn deployment(pod: &Pod) -> Option<&str> {
    let controller = pod.controller.as_ref()?;
    let hash = pod.labels.get("pod-template-hash")?;
    let is_set = controller.kind == ControllerKind::ReplicaSet;
    controller.name.strip_suffix(hash)?.strip_suffix('-').filter(|_| is_set)
}

/// Returns kind and name of the controller of a pod: the Deployment in place of its ReplicaSet.
pub(crate) fn group_of(pod: &Pod) -> Option<(String, String)> {
    if let Some(name) = deployment(pod) {
        return Some(("Deployment".to_owned(), name.to_owned()));
    }
    let own = pod.controller.as_ref()?;
    let job = JOB_LABELS.iter().find_map(|label| pod.labels.get(label));
    let kind = if job == Some(&*own.name) { "Job".to_owned() } else { format!("{:?}", own.kind) };
    Some((kind, own.name.to_string()))
}

fn group_name(pod: &Pod, name: &str) -> String {
    match &pod.controller {
        Some(_) if deployment(pod) == Some(name) => format!("Deployment/{name}"),
        Some(controller) => format!("{:?}/{name}", controller.kind),
        None => format!("Job/{name}"),
    }
}

/// Returns the pending pods that have no node: assumed pods are pending until their bind is
/// confirmed.
pub(crate) fn waiting(lab: &Lab<'_>) -> Vec<Arc<Pod>> {
    let world = lab.engine().world();
    let pending = lab.engine().pending();
    pending.filter(|pod| world.placed(&pod.uid).is_none()).cloned().collect()
}

/// Pending pods by template.
pub(crate) struct Templates(Vec<Vec<Arc<Pod>>>);

/// Pending pods by template, with the findings about the first pod of each.
pub(crate) struct Evaluated {
    pub(crate) templates: Vec<(Findings, Vec<Arc<Pod>>)>,
    pub(crate) is_incomplete: bool,
}

impl Templates {
    pub(crate) fn of(pods: Vec<Arc<Pod>>) -> Self {
        let mut groups: Vec<Vec<Arc<Pod>>> = Vec::new();
        let mut known: std::collections::HashMap<Template, usize> = Default::default();
        for pod in pods {
            let place = match Template::describes(&pod) {
                true => *known.entry(Template::of(&pod)).or_insert(groups.len()),
                false => groups.len(),
            };
            match groups.get_mut(place) {
                Some(group) => group.push(pod),
                None => groups.push(vec![pod]),
            }
        }
        groups.sort_by_key(|group| Reverse(group.len()));
        Self(groups)
    }

    /// Evaluates the first pod of each template, the largest first.
    pub(crate) fn evaluate(self, lab: &mut Lab<'_>) -> Evaluated {
        let mut is_incomplete = self.0.len() > TEMPLATES;
        let mut templates = Vec::new();
        for pods in self.0.into_iter().take(TEMPLATES) {
            lab.renew();
            if lab.is_exhausted() {
                is_incomplete = true;
                break;
            }
            let findings = pods.first().and_then(|first| Findings::of(lab, first));
            templates.extend(findings.map(|findings| (findings, pods)));
        }
        Evaluated { templates, is_incomplete }
    }
}

impl Evaluated {
    /// Returns the causes, the most frequent first, each with the smallest change that helps its
    /// first pod.
    pub(crate) fn causes(&self, lab: &mut Lab<'_>) -> Vec<PendingCause> {
        let mut causes: BTreeMap<Vec<String>, (PendingCause, &Findings)> = BTreeMap::new();
        for (findings, pods) in &self.templates {
            let reasons = match waits_for_group(lab, findings) {
                Some(reason) => vec![reason],
                None => reasons_of(findings),
            };
            let cause = reasons.join(", ");
            let mut key = reasons;
            key.sort_unstable();
            let (own, _) = causes
                .entry(key)
                .or_insert_with(|| (PendingCause { cause, ..PendingCause::default() }, findings));
            own.count += pods.len();
            let room = NAMES.saturating_sub(own.pods.len());
            own.pods.extend(pods.iter().take(room).map(|pod| pod.key.to_string()));
        }
        let mut causes: Vec<_> = causes.into_values().collect();
        causes.sort_by_key(|(cause, _)| Reverse(cause.count));
        let with_help = causes.into_iter().map(|(cause, findings)| {
            lab.renew();
            let first = help::search(lab, findings).into_iter().next();
            PendingCause { help: first.map(|first| first.text), ..cause }
        });
        with_help.collect()
    }
}

/// Returns the reason of a pod that would fit alone, and that is decided with its PodGroup.
fn waits_for_group(lab: &Lab<'_>, findings: &Findings) -> Option<String> {
    let group = findings.pod.pod_group()?;
    let fits = !findings.evaluation.feasible.is_empty() && findings.gate.is_none();
    let waits = fits && lab.engine().profiles().schedules_groups();
    waits.then(|| format!("fits alone, and waits for its PodGroup {group}"))
}

/// Returns the reasons why a pod waits, the reason of the most nodes first: without counts of
/// nodes, so that pods with the same reasons are counted together.
fn reasons_of(findings: &Findings) -> Vec<String> {
    let evaluation = &findings.evaluation;
    let one = |text: String| vec![text];
    if let Some(gate) = &findings.gate {
        return one(format!("gated: {}", gate.message()));
    }
    if let Some(error) = &evaluation.error {
        return one(format!("error: {}", error.message()));
    }
    if !evaluation.feasible.is_empty() {
        return one("fits now, and waits for its next attempt".to_owned());
    }
    if findings.preemption().is_some() {
        return one("fits after evictions".to_owned());
    }
    let mut reasons: Vec<_> = evaluation.verdicts.reason_counts(1).into_iter().collect();
    reasons.sort_by_key(|(_, count)| Reverse(*count));
    match (reasons.is_empty(), findings.pre_filter()) {
        (true, Some(status)) => one(status.message()),
        (true, None) => one("no node".to_owned()),
        (false, _) => reasons.into_iter().map(|(reason, _)| reason.to_owned()).collect(),
    }
}
