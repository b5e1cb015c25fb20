//! The answer about a PodGroup: how many of its pods fit together, and what is missing.

mod domains;
mod list;
mod trial;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{PlacedPod, Pod, PodGroup, PodGroupKey, PodGroupSource, PodKey};

use crate::answer::{PendingCause, PodGroupAnswer, PodGroupMember};
use crate::group::waiting;
use crate::help::{self, WaitingGroup};
use crate::lab::Lab;
use crate::now::{Findings, NOW};

use self::domains::Sought;
pub use self::list::list_pod_groups;
pub(crate) use self::trial::{Trials, Tried, fitting, try_by_levels, try_together};

/// Number of pods that a cause names.
const NAMES: usize = 10;
/// Number of members that are placed to search for help for the next one.
const PLACED_FOR_HELP: usize = 512;

/// Answers why the pods of a PodGroup wait. Of two PodGroups of this name, that of
/// `scheduling.k8s.io` is meant. Returns `None` if there is neither a PodGroup nor a pod of it.
pub fn explain_pod_group(lab: &mut Lab<'_>, namespace: &str, name: &str) -> Option<PodGroupAnswer> {
    let keys = [PodGroupSource::Kubernetes, PodGroupSource::Coscheduling]
        .map(|source| PodGroupKey { source, ..PodGroupKey::new(namespace, name) });
    let (key, Assessed { mut answer, trials, pending }) =
        keys.iter().find_map(|key| Some((key, assess_by_key(lab, key)?)))?;
    answer.causes = match &trials {
        Trials::Anywhere(tried) => causes_with_help(lab, tried),
        Trials::InDomains(_) | Trials::ByLevels { .. } | Trials::Nowhere(_) => {
            causes(trials.best())
        }
    };
    answer.notes.extend(ignored_topology(lab, key, &trials, &pending));
    if answer.state == UNSCHEDULABLE {
        let waiting = WaitingGroup { key, pending: &pending, answer: &answer, trials: &trials };
        answer.help = help::of_group(lab, &waiting);
    }
    Some(answer)
}

/// Says that the group asks for one domain of a topology, and that its pods are placed anywhere.
fn ignored_topology(
    lab: &Lab<'_>,
    key: &PodGroupKey,
    trials: &Trials,
    pending: &[Arc<Pod>],
) -> Option<String> {
    let topology = domains::topology_of(lab.cluster(), key)?;
    let is_ignored = matches!(trials, Trials::Anywhere(_)) && !pending.is_empty();
    is_ignored.then(|| {
        format!(
            "the PodGroup asks for one domain of {topology}, which the scheduler ignores: the gate \
             TopologyAwareWorkloadScheduling is off"
        )
    })
}

/// Returns one sentence about the PodGroup of a pod.
pub(crate) fn summary_of(lab: &mut Lab<'_>, pod: &Pod) -> Option<String> {
    let key = pod.pod_group()?;
    let answer = assess_by_key(lab, &key)?.answer;
    Some(format!("the pod belongs to PodGroup {}: {}", answer.group, answer.summary))
}

const UNSCHEDULABLE: &str = "unschedulable";

/// What is known about a group without a search for help.
struct Assessed {
    answer: PodGroupAnswer,
    trials: Trials,
    pending: Vec<Arc<Pod>>,
}

fn assess_by_key(lab: &mut Lab<'_>, key: &PodGroupKey) -> Option<Assessed> {
    let own = waiting(lab).into_iter().filter(|pod| pod.pod_group().as_ref() == Some(key));
    let pending = own.collect();
    assess(lab, key, pending)
}

/// Tries the pods of a group that have no node. Returns `None` if there is neither a PodGroup nor a
/// pod of it.
fn assess(lab: &mut Lab<'_>, key: &PodGroupKey, pending: Vec<Arc<Pod>>) -> Option<Assessed> {
    let known = lab.cluster().pod_group(key).cloned();
    let placed = placed_members(lab, key);
    let pending = in_order_of_attempts(lab, key, pending);
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
        pending_seconds: lab.seconds_of_wait(key),
        condition: known.as_ref().and_then(|known| condition_of(known)),
        ..PodGroupAnswer::default()
    };
    if !lab.engine().profiles().schedules_groups() {
        "isNotDecided".clone_into(&mut answer.state);
        "the gate GenericWorkload is off".clone_into(&mut answer.summary);
        answer.members = placed;
        return Some(Assessed { answer, trials: Trials::Anywhere(Vec::new()), pending });
    }
    // A trial of a pod leaves out its nomination.
    let nominated = nodes_of_nominations(lab, &pending);
    let trials = Trials::of(lab, key, &pending);
    let best = trials.best();
    answer.fit = fitting(best);
    let needed = usize::try_from(min_count).unwrap_or(usize::MAX);
    answer.shortfall = needed.saturating_sub(answer.placed + answer.fit);
    answer.topology = domains::of(lab.cluster(), key, &trials, &pending);
    let sought = Sought { pending: &pending, needed: needed.saturating_sub(answer.placed) };
    answer.levels = domains::levels(lab.cluster(), key, &trials, sought);
    (answer.state, answer.summary) = match waits_for(lab, &answer, &pending, &nominated) {
        Some((state, summary)) => (state.to_owned(), summary),
        None => state_of(&answer, needed, &trials),
    };
    answer.members = placed;
    answer.members.extend(best.iter().map(Tried::member));
    Some(Assessed { answer, trials, pending })
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
    let placed: Vec<_> = match cluster.pod_group_state(key) {
        Some(state) => state.scheduled().map(|member| cluster.pod(member)).collect(),
        // The engine counts no members while the gate is off.
        None => {
            cluster.pods().filter(|placed| placed.pod.pod_group().as_ref() == Some(key)).collect()
        }
    };
    let member = |placed: &PlacedPod| PodGroupMember {
        pod: placed.pod.key.name.to_string(),
        state: "placed".to_owned(),
        node: Some(cluster.node_name(placed.node).to_string()),
        reason: None,
    };
    let mut members: Vec<_> = placed.into_iter().map(member).collect();
    members.sort_by(|a, b| a.pod.cmp(&b.pod));
    members
}

/// Sorts pods in the order in which an attempt tries them.
fn in_order_of_attempts(
    lab: &Lab<'_>,
    key: &PodGroupKey,
    mut pods: Vec<Arc<Pod>>,
) -> Vec<Arc<Pod>> {
    let queued = lab.engine().queue().members_of(key);
    let order: BTreeMap<&PodKey, usize> =
        queued.iter().enumerate().map(|(place, own)| (&own.pod.key, place)).collect();
    pods.sort_by_key(|pod| order.get(&pod.key).copied().unwrap_or(usize::MAX));
    pods
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

/// Returns the nodes to which pods are nominated.
fn nodes_of_nominations(lab: &Lab<'_>, pods: &[Arc<Pod>]) -> BTreeSet<Arc<str>> {
    let nominator = lab.engine().nominator();
    pods.iter().filter_map(|pod| nominator.node_of(&pod.uid).cloned()).collect()
}

/// Returns the state and a sentence of a group that waits for something else than room: for a pod
/// with scheduling gates, or for the end of its victims.
fn waits_for(
    lab: &Lab<'_>,
    answer: &PodGroupAnswer,
    pending: &[Arc<Pod>],
    nominated: &BTreeSet<Arc<str>>,
) -> Option<(&'static str, String)> {
    let needed = usize::try_from(answer.min_count).unwrap_or(usize::MAX);
    if !answer.exists || answer.placed >= needed || answer.pods < needed {
        return None;
    }
    if let Some(gated) = pending.iter().find(|pod| !pod.spec.scheduling_gates.is_empty()) {
        let text = format!("the group waits for pod {}, which has scheduling gates", gated.key);
        return Some(("waitsForPods", text));
    }
    let cluster = lab.cluster();
    let on_them = nominated.iter().filter_map(|node| cluster.node_named(node));
    let on_them = on_them.flat_map(|node| cluster.node(node).pods());
    let is_ending = |pod: &&Arc<Pod>| pod.terminating || lab.engine().is_victim(&pod.uid);
    let ending = on_them.filter(is_ending).count();
    if answer.shortfall == 0 || ending == 0 {
        return None;
    }
    let nodes: Vec<String> = nominated.iter().map(ToString::to_string).collect();
    let text = format!("the group waits for the end of {} on {}", pods(ending), listed(&nodes));
    Some(("preempts", text))
}

/// Returns the first names, and how many more there are.
fn listed(names: &[String]) -> String {
    let first = names[..names.len().min(NAMES)].join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns a number of pods in words.
fn pods(count: usize) -> String {
    format!("{count} {}", if count == 1 { "pod" } else { "pods" })
}

/// Returns the verb after a number of pods.
const fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn state_of(answer: &PodGroupAnswer, needed: usize, trials: &Trials) -> (String, String) {
    let PodGroupAnswer { exists, pods: all, placed, fit, shortfall, .. } = answer;
    let wanted = format!("{} {} needed", pods(needed), are(needed));
    let (state, summary) = if !exists {
        let wait = if *all == 1 { "waits" } else { "wait" };
        ("waitsForPodGroup", format!("{} {wait}, and the PodGroup does not exist", pods(*all)))
    } else if *placed >= needed {
        let waiting = all - placed;
        let others = match waiting {
            0 => String::new(),
            _ => format!("; of {waiting} that wait {fit} fit now"),
        };
        let have = if *placed == 1 { "has" } else { "have" };
        let needed = format!("{needed} {} needed", are(needed));
        ("running", format!("{} {have} a node, and {needed}{others}", pods(*placed)))
    } else if *all < needed {
        let exist = if *all == 1 { "exists" } else { "exist" };
        ("waitsForPods", format!("{wanted}, and {all} {exist}"))
    } else if let Trials::Nowhere(reason) = trials {
        (UNSCHEDULABLE, format!("{wanted}: {reason}"))
    } else if *shortfall == 0 {
        let waits = "the group waits for its next attempt";
        let place = domains::place_that_takes_all(answer, needed);
        let together = placed + fit;
        let fit = if together == 1 { "fits" } else { "fit together" };
        let needed = format!("{needed} {} needed", are(needed));
        ("fits", format!("{} {fit}{place}, {needed}: {waits}", pods(together)))
    } else {
        let with_node = match placed {
            0 => String::new(),
            _ => format!(" beside {placed} that have a node"),
        };
        let place = domains::closest_place(answer);
        let text = format!(
            "{wanted}, and {fit} fit together{with_node}{place}: room for {shortfall} is missing"
        );
        (UNSCHEDULABLE, text)
    };
    (state.to_owned(), summary)
}

/// Returns why pods do not fit, the most frequent cause first.
fn causes(tried: &[Tried]) -> Vec<PendingCause> {
    causes_by_pod(tried).into_iter().map(|(cause, _)| cause).collect()
}

/// Returns the causes, each with the first pod.
fn causes_by_pod(tried: &[Tried]) -> Vec<(PendingCause, &Arc<Pod>)> {
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
    causes
}

/// Returns why pods do not fit, each with the smallest change that helps the first of them beside
/// the pods that fit.
fn causes_with_help(lab: &mut Lab<'_>, tried: &[Tried]) -> Vec<PendingCause> {
    let causes = causes_by_pod(tried);
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
