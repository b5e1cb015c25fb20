//! The answer about a PodGroup: how many of its pods fit together, and what is missing.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Change, Trial};
use framework::{Level, Pod, PodGroup, PodGroupKey, PodGroupSource, PodKey};

use crate::answer::{PendingCause, PodGroupAnswer, PodGroupMember, Suggestion};
use crate::help;
use crate::lab::Lab;
use crate::now::{Findings, NOW};

/// Number of pods that a cause names.
const NAMES: usize = 10;
/// Number of members that are placed to search for help for the next one.
const PLACED_FOR_HELP: usize = 512;

/// A pending member, and the trial of it beside the members before it.
struct Tried {
    pod: Arc<Pod>,
    /// The node that it would get, or why it gets none.
    outcome: Result<Arc<str>, String>,
}

/// Answers why the pods of a PodGroup wait. Of two PodGroups of this name, that of
/// `scheduling.k8s.io` is meant. Returns `None` if there is neither a PodGroup nor a pod of it.
pub fn explain_pod_group(lab: &mut Lab<'_>, namespace: &str, name: &str) -> Option<PodGroupAnswer> {
    let keys = [PodGroupSource::Kubernetes, PodGroupSource::Coscheduling]
        .map(|source| PodGroupKey { source, ..PodGroupKey::new(namespace, name) });
    keys.iter().find_map(|key| explain(lab, key))
}

/// Returns one sentence about the PodGroup of a pod.
pub(crate) fn summary_of(lab: &mut Lab<'_>, pod: &Pod) -> Option<String> {
    let key = pod.pod_group()?;
    let answer = explain(lab, &key)?;
    Some(format!("the pod belongs to PodGroup {}: {}", answer.group, answer.summary))
}

fn explain(lab: &mut Lab<'_>, key: &PodGroupKey) -> Option<PodGroupAnswer> {
    let known = lab.cluster().pod_group(key).cloned();
    let placed = placed_members(lab, key);
    let pending = pending_members(lab, key);
    if known.is_none() && placed.is_empty() && pending.is_empty() {
        return None;
    }
    let min_count = known.as_ref().map_or(0, |known| known.min_count());
    let mut answer = PodGroupAnswer {
        as_of: NOW.to_owned(),
        group: key.to_string(),
        api_group: api_group(key).to_owned(),
        exists: known.is_some(),
        min_count,
        pods: placed.len() + pending.len(),
        placed: placed.len(),
        condition: known.as_ref().and_then(|known| condition_of(known)),
        ..PodGroupAnswer::default()
    };
    if !lab.engine().profiles().schedules_groups() {
        "isNotDecided".clone_into(&mut answer.state);
        "the gate GenericWorkload is off".clone_into(&mut answer.summary);
        answer.members = placed;
        return Some(answer);
    }
    let tried = try_together(lab, pending);
    answer.fit = tried.iter().filter(|own| own.outcome.is_ok()).count();
    let needed = usize::try_from(min_count).unwrap_or(usize::MAX);
    answer.shortfall = needed.saturating_sub(answer.placed + answer.fit);
    (answer.state, answer.summary) = state_of(&answer, needed);
    answer.causes = causes(lab, &tried);
    if answer.state == "unschedulable" {
        answer.help.extend(lower_min_count(lab, key, &answer));
    }
    answer.members = placed;
    answer.members.extend(tried.iter().map(Tried::member));
    Some(answer)
}

const fn api_group(key: &PodGroupKey) -> &'static str {
    match key.source {
        PodGroupSource::Kubernetes => "scheduling.k8s.io",
        PodGroupSource::Coscheduling => "scheduling.x-k8s.io",
    }
}

fn condition_of(group: &PodGroup) -> Option<String> {
    let condition = group.condition.as_ref()?;
    let message = match condition.message.is_empty() {
        true => String::new(),
        false => format!(": {}", condition.message),
    };
    Some(format!("{}{message}", condition.reason))
}

fn placed_members(lab: &Lab<'_>, key: &PodGroupKey) -> Vec<PodGroupMember> {
    let cluster = lab.cluster();
    let own = cluster.pods().filter(|placed| placed.pod.pod_group().as_ref() == Some(key));
    let mut members: Vec<_> = own
        .map(|placed| PodGroupMember {
            pod: placed.pod.key.name.to_string(),
            state: "placed".to_owned(),
            node: Some(cluster.node_name(placed.node).to_string()),
            reason: None,
        })
        .collect();
    members.sort_by(|a, b| a.pod.cmp(&b.pod));
    members
}

/// Returns the pods without a node in the order in which an attempt tries them.
fn pending_members(lab: &Lab<'_>, key: &PodGroupKey) -> Vec<Arc<Pod>> {
    let engine = lab.engine();
    let queued = engine.queue().members_of(key);
    let order: BTreeMap<&PodKey, usize> =
        queued.iter().enumerate().map(|(place, own)| (&own.pod.key, place)).collect();
    let own = engine.pending().filter(|pod| pod.pod_group().as_ref() == Some(key));
    let own = own.filter(|pod| engine.world().placed(&pod.uid).is_none());
    let mut pods: Vec<Arc<Pod>> = own.cloned().collect();
    pods.sort_by_key(|pod| order.get(&pod.key).copied().unwrap_or(usize::MAX));
    pods
}

/// Tries the pods one after the other, each beside those that fit before it.
fn try_together(lab: &mut Lab<'_>, pods: Vec<Arc<Pod>>) -> Vec<Tried> {
    lab.suppose(|supposed| {
        let tried = pods.into_iter().map(|pod| {
            let outcome = match supposed.place_member(&pod) {
                Some(Trial::Fits { node, .. }) => Ok(supposed.cluster().node_name(node).clone()),
                Some(Trial::Rejected(fit)) => Err(fit.message()),
                Some(Trial::Gated(status) | Trial::Failed(status)) => Err(status.message()),
                Some(Trial::Preempts(_)) => Err("it fits only after evictions".to_owned()),
                None => Err("no profile is responsible for the pod".to_owned()),
            };
            Tried { pod, outcome }
        });
        tried.collect()
    })
}

impl Tried {
    fn member(&self) -> PodGroupMember {
        let state = if self.outcome.is_ok() { "fits" } else { "doesNotFit" };
        PodGroupMember {
            pod: self.pod.key.name.to_string(),
            state: state.to_owned(),
            node: self.outcome.as_ref().ok().map(ToString::to_string),
            reason: self.outcome.as_ref().err().cloned(),
        }
    }
}

fn state_of(answer: &PodGroupAnswer, needed: usize) -> (String, String) {
    let PodGroupAnswer { exists, pods, placed, fit, shortfall, .. } = answer;
    let (state, summary) = if !exists {
        ("waitsForPodGroup", format!("{pods} pods wait, and the PodGroup does not exist"))
    } else if *placed >= needed {
        let waiting = pods - placed;
        let others = match waiting {
            0 => String::new(),
            _ => format!("; of {waiting} that wait {fit} fit now"),
        };
        ("running", format!("{placed} pods have a node, and {needed} are needed{others}"))
    } else if *pods < needed {
        ("waitsForPods", format!("{needed} pods are needed, and {pods} exist"))
    } else if *shortfall == 0 {
        let waits = "the group waits for its next attempt";
        ("fits", format!("{} pods fit together, {needed} are needed: {waits}", placed + fit))
    } else {
        let with_node = match placed {
            0 => String::new(),
            _ => format!(" beside {placed} that have a node"),
        };
        let text = format!(
            "{needed} pods are needed, and {fit} fit together{with_node}: room for {shortfall} is missing"
        );
        ("unschedulable", text)
    };
    (state.to_owned(), summary)
}

/// Returns why pods do not fit, each with the smallest change that helps the first of them beside
/// the pods that fit.
fn causes(lab: &mut Lab<'_>, tried: &[Tried]) -> Vec<PendingCause> {
    let mut causes: BTreeMap<&str, (PendingCause, &Arc<Pod>)> = BTreeMap::new();
    for own in tried {
        let Err(reason) = &own.outcome else { continue };
        let (cause, _) = causes.entry(reason).or_insert_with(|| {
            (PendingCause { cause: reason.clone(), ..PendingCause::default() }, &own.pod)
        });
        cause.count += 1;
        if cause.pods.len() < NAMES {
            cause.pods.push(own.pod.key.to_string());
        }
    }
    let mut causes: Vec<_> = causes.into_values().collect();
    causes.sort_by_key(|(cause, _)| Reverse(cause.count));
    let placed = tried.iter().filter_map(|own| {
        let node = own.outcome.as_ref().ok()?.clone();
        Some(Pod { node_name: Some(node), ..Pod::clone(&own.pod) })
    });
    let placed: Vec<Pod> = placed.take(PLACED_FOR_HELP + 1).collect();
    if causes.is_empty() || placed.len() > PLACED_FOR_HELP {
        return causes.into_iter().map(|(cause, _)| cause).collect();
    }
    placed.iter().for_each(|pod| lab.put_back(pod));
    let with_help = causes.into_iter().map(|(cause, first)| {
        lab.renew();
        let findings = Findings::of(lab, first);
        let help = findings.and_then(|findings| help::search(lab, &findings).into_iter().next());
        PendingCause { help: help.map(|help| help.text), ..cause }
    });
    let with_help = with_help.collect();
    for own in tried.iter().filter(|own| own.outcome.is_ok()) {
        lab.take_off(&own.pod);
        lab.put_back(&own.pod);
    }
    with_help
}

/// Returns the lower minCount with which the group starts.
fn lower_min_count(
    lab: &Lab<'_>,
    key: &PodGroupKey,
    answer: &PodGroupAnswer,
) -> Option<Suggestion> {
    let count = answer.placed + answer.fit;
    let is_mutable = key.source == PodGroupSource::Coscheduling
        || lab.engine().profiles().level().is_at_least(Level::V1_37);
    if answer.fit == 0 || !is_mutable {
        return None;
    }
    let (field, patch) = match key.source {
        PodGroupSource::Kubernetes => {
            let patch = format!(
                "{{\"spec\":{{\"schedulingPolicy\":{{\"gang\":{{\"minCount\":{count}}}}}}}}}"
            );
            ("minCount", patch)
        }
        PodGroupSource::Coscheduling => {
            ("minMember", format!("{{\"spec\":{{\"minMember\":{count}}}}}"))
        }
    };
    let resource = format!("podgroups.{}", answer.api_group);
    Some(Suggestion {
        text: format!(
            "lower {field} from {} to {count}, if the job can work with {count} pods",
            answer.min_count
        ),
        effect: format!("the group starts with {count} pods"),
        evicts: Vec::new(),
        kind: "minCount".to_owned(),
        size: 0.0,
        command: Some(format!(
            "kubectl patch {resource} {} -n {} --type merge -p '{patch}'",
            key.name, key.namespace
        )),
        changes: Vec::<Change>::new(),
    })
}
