//! The rules over all clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::bail;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::Value;

use super::trouble::Trouble;
use crate::pods::{NAMESPACE, NODE_MILLI_CPU, has_ended, most_free, problem_of_pending};
use crate::rules::{Delegate, Mark, Watcher, annotation, milli_cpu, node_of};

/// Time after trouble of its member in which a delegate may run although another one has taken its
/// place: its agent could not end it.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// A member as the rules see it.
pub(super) struct Seen {
    name: String,
    watcher: Watcher,
    client: Client,
}

/// What watches and lists show of all clusters.
pub(super) struct Rules {
    management: Client,
    members: Vec<Seen>,
    /// Delegates that ran beside an older one of their pod whose cluster was lost.
    beside: BTreeSet<String>,
}

/// What the members have shown.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) bound: usize,
    /// Pods whose first candidate of the first attempt was not the one.
    pub(super) tried_again: usize,
    /// Pods that had a second delegate.
    pub(super) moved: usize,
    /// Pods that had one while an agent in trouble could not end the first one.
    pub(super) beside: usize,
}

impl Rules {
    pub(super) async fn start(
        management: Client,
        members: &[(String, Client)],
    ) -> anyhow::Result<Self> {
        let mut seen = Vec::new();
        for (name, client) in members {
            let watcher = Watcher::start(client.clone()).await?;
            seen.push(Seen { name: name.clone(), watcher, client: client.clone() });
        }
        Ok(Self { management, members: seen, beside: BTreeSet::new() })
    }

    /// Fails if a rule is broken. `deleted` has the pods whose delegates were deleted in members.
    pub(super) async fn check(
        &mut self,
        deleted: &BTreeSet<String>,
        trouble: &Trouble,
        elapsed: Duration,
    ) -> anyhow::Result<()> {
        for (pod, delegates) in self.delegates()? {
            if delegates.len() < 2 {
                continue;
            }
            let (_, first) = &delegates[0];
            let text = || -> String {
                let all = delegates.iter().map(|(member, own)| {
                    format!(
                        "{} in {} (try {})",
                        own.uid, self.members[*member].name, own.mark.number
                    )
                });
                format!("{}: {}", first.name, all.collect::<Vec<_>>().join(", "))
            };
            let stays = delegates.iter().all(|(_, own)| !own.mark.may_be_replaced);
            if stays && !deleted.contains(&pod) {
                bail!("a pod that stays where it is was bound twice: {}", text());
            }
            let running = delegates.iter().filter(|(_, own)| own.runs).count();
            if running < 2 {
                continue;
            }
            // A delegate whose agent was in trouble may not have ended. The last one is the one
            // that counts.
            let older = &delegates[..delegates.len() - 1];
            let could_end = older.iter().filter(|(_, own)| own.runs).all(|(member, _)| {
                let troubled = trouble.troubled(*member);
                troubled.is_none_or(|last| elapsed.saturating_sub(last) > ENDS_WITHIN)
            });
            if could_end && self.both_run(&delegates).await {
                bail!("a pod runs twice: {}", text());
            }
            self.beside.insert(pod);
        }
        Ok(())
    }

    /// Returns the delegates of each pod that were ever bound, by the number of their try, with
    /// their members.
    fn delegates(&self) -> anyhow::Result<BTreeMap<String, Vec<(usize, Delegate)>>> {
        let mut found: BTreeMap<String, Vec<(usize, Delegate)>> = BTreeMap::new();
        for (member, seen) in self.members.iter().enumerate() {
            if let Err(error) = seen.watcher.check() {
                bail!("{}: {error:#}", seen.name);
            }
            for delegate in seen.watcher.delegates() {
                found.entry(delegate.mark.origin.clone()).or_default().push((member, delegate));
            }
        }
        for delegates in found.values_mut() {
            delegates.sort_by_key(|(_, own)| number_of(&own.mark));
        }
        Ok(found)
    }

    /// Whether two of these delegates run now: the watches of two clusters are not equally fast.
    async fn both_run(&self, delegates: &[(usize, Delegate)]) -> bool {
        let mut running = 0;
        for (member, delegate) in delegates {
            let pods: Api<Pod> = Api::namespaced(self.members[*member].client.clone(), NAMESPACE);
            let pod = pods.get_opt(&delegate.name).await.ok().flatten();
            let runs =
                |pod: &Pod| pod.metadata.uid.as_deref() == Some(&*delegate.uid) && !has_ended(pod);
            running += usize::from(pod.as_ref().is_some_and(runs));
        }
        running > 1
    }

    pub(super) fn counts(&self) -> anyhow::Result<Counts> {
        let delegates = self.delegates()?;
        let tried_again = |own: &&Vec<(usize, Delegate)>| own[0].1.mark.number != "1.0";
        Ok(Counts {
            bound: delegates.len(),
            tried_again: delegates.values().filter(tried_again).count(),
            moved: delegates.values().filter(|own| own.len() > 1).count(),
            beside: self.beside.len(),
        })
    }

    /// Returns the faults that are left: pods that are neither placed nor explained, statuses that
    /// differ from their delegate's, delegates without a pod, nodes with too many pods.
    pub(super) async fn unsettled(&self) -> anyhow::Result<Vec<String>> {
        let all = ListParams::default();
        let originals: Api<Pod> = Api::namespaced(self.management.clone(), NAMESPACE);
        let originals = originals.list(&all).await?.items;
        let mut delegates: BTreeMap<(String, String), Pod> = BTreeMap::new();
        let (mut problems, mut free) = (Vec::new(), 0);
        for seen in &self.members {
            let nodes = Api::<Node>::all(seen.client.clone()).list(&all).await?.items;
            let pods: Api<Pod> = Api::namespaced(seen.client.clone(), NAMESPACE);
            let pods = pods.list(&all).await?.items;
            free = free.max(most_free(&nodes, &pods));
            let used = used_of(&pods);
            let full = used.iter().filter(|(_, used)| **used > NODE_MILLI_CPU);
            problems.extend(
                full.map(|(node, used)| format!("{node} of {} is asked for {used}m", seen.name)),
            );
            for pod in pods.into_iter().filter(|pod| Mark::of(pod).is_some()) {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                delegates.insert((seen.name.clone(), uid), pod);
            }
        }
        for pod in &originals {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            if pod.metadata.deletion_timestamp.is_some() {
                problems.push(format!("{name} is being deleted"));
                continue;
            }
            let Some((cluster, uid)) = placement_of(pod) else {
                if !has_ended(pod) {
                    let is_choosy = annotation(pod, "cluster-selector").is_some();
                    problems.extend(problem_of_pending(pod, if is_choosy { 0 } else { free }));
                }
                continue;
            };
            match delegates.remove(&(cluster.clone(), uid)) {
                Some(delegate) => {
                    let difference = difference(pod, &delegate)?;
                    problems.extend(difference.map(|what| format!("{name} in {cluster}: {what}")));
                }
                None => problems.push(format!("{name} has no delegate in {cluster}")),
            }
        }
        let left_over = delegates.iter().map(|((cluster, _), pod)| {
            format!(
                "{} in {cluster} is left over",
                pod.metadata.name.as_deref().unwrap_or_default()
            )
        });
        problems.extend(left_over);
        Ok(problems)
    }

    /// Returns the pods and delegates that exist.
    pub(super) async fn left(&self) -> anyhow::Result<Vec<String>> {
        let all = ListParams::default();
        let originals: Api<Pod> = Api::namespaced(self.management.clone(), NAMESPACE);
        let mut left = Vec::new();
        for pod in originals.list(&all).await?.items {
            let finalizers = pod.metadata.finalizers.unwrap_or_default().join(", ");
            left.push(format!("{} [{finalizers}]", pod.metadata.name.unwrap_or_default()));
        }
        for seen in &self.members {
            let pods: Api<Pod> = Api::namespaced(seen.client.clone(), NAMESPACE);
            let pods = pods.list(&all).await?.items;
            let delegates = pods.iter().filter(|pod| Mark::of(pod).is_some());
            left.extend(delegates.map(|pod| {
                format!("{} in {}", pod.metadata.name.as_deref().unwrap_or_default(), seen.name)
            }));
        }
        Ok(left)
    }
}

/// Returns the numbers of attempt and candidate.
fn number_of(mark: &Mark) -> (u32, u32) {
    let (attempt, candidate) = mark.number.split_once('.').unwrap_or_default();
    (attempt.parse().unwrap_or(0), candidate.parse().unwrap_or(0))
}

/// Returns the CPU that is asked for on each node.
fn used_of(pods: &[Pod]) -> BTreeMap<&str, u64> {
    let mut used = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !has_ended(pod)) {
        if let Some(node) = node_of(pod) {
            *used.entry(node).or_default() += milli_cpu(pod);
        }
    }
    used
}

/// Returns cluster and UID of the delegate of a pod.
fn placement_of(pod: &Pod) -> Option<(String, String)> {
    let placement: Value = serde_json::from_str(annotation(pod, "placement")?).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some((text(&placement["cluster"])?, text(&placement["committed"]["uid"])?))
}

/// Returns how the status of a pod differs from that of its delegate.
fn difference(original: &Pod, delegate: &Pod) -> anyhow::Result<Option<String>> {
    let (original, delegate) =
        (serde_json::to_value(&original.status)?, serde_json::to_value(&delegate.status)?);
    for field in ["phase", "reason", "podIP", "hostIP", "startTime", "containerStatuses"] {
        if original[field] != delegate[field] {
            return Ok(Some(format!(
                "{field} is {}, that of its delegate {}",
                original[field], delegate[field]
            )));
        }
    }
    let conditions = |status: &Value| -> BTreeSet<String> {
        let all = status["conditions"].as_array().into_iter().flatten();
        all.map(|own| format!("{} {}", own["type"], own["status"])).collect()
    };
    let (original, delegate) = (conditions(&original), conditions(&delegate));
    Ok((original != delegate).then(|| format!("conditions {original:?}, not {delegate:?}")))
}
