//! Changes with which a PodGroup starts. Each is tried with all its pods together.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Change;
use framework::{Level, Node, NodeBits, NodeIx, Pod, PodGroupKey, PodGroupSource, Uid};

use super::pools::{capacity, new_node_like};
use super::size;
use super::taints::uncordoned;
use crate::answer::{PodGroupAnswer, Suggestion};
use crate::lab::Lab;
use crate::pod_group::{Trials, fitting, try_by_levels, try_together};

/// Number of kinds of nodes that are tried.
const KINDS: usize = 6;
/// Number of nodes that a suggestion adds or opens.
const NODES: usize = 64;
/// Number of domains with cordoned nodes, and of other PodGroups, that are tried.
const OTHERS: usize = 16;

/// A PodGroup of which too few pods fit.
pub(crate) struct WaitingGroup<'a> {
    pub(crate) key: &'a PodGroupKey,
    pub(crate) pending: &'a [Arc<Pod>],
    pub(crate) answer: &'a PodGroupAnswer,
    pub(crate) trials: &'a Trials,
}

/// Where the pods of the group are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place<'a> {
    Anywhere,
    /// In the domain of this name.
    Domain(&'a str),
    /// By the levels that the group asks for.
    ByLevels,
}

impl Place<'_> {
    /// Returns the place for the end of a sentence.
    fn text(self) -> String {
        match self {
            Self::Anywhere | Self::ByLevels => String::new(),
            Self::Domain(name) => format!(" in {name}"),
        }
    }
}

/// Finds changes with which enough pods of the group fit, the smallest first.
pub(crate) fn of_group(lab: &mut Lab<'_>, group: &WaitingGroup<'_>) -> Vec<Suggestion> {
    let mut suggestions = Vec::new();
    suggestions.extend(group.lower_min_count(lab));
    suggestions.extend(group.open_nodes(lab));
    suggestions.extend(group.end_other(lab));
    suggestions.extend(group.without_topology(lab));
    suggestions.extend(group.more_nodes(lab));
    suggestions.sort_by(|a, b| a.size.total_cmp(&b.size));
    suggestions
}

impl WaitingGroup<'_> {
    /// Number of pods that have to fit beside those with a node.
    fn missing(&self) -> usize {
        usize::try_from(self.answer.min_count).unwrap_or(usize::MAX) - self.answer.placed
    }

    /// Returns the places where the pods may be, the one where most of them fit first.
    fn places(&self) -> Vec<Place<'_>> {
        match self.trials {
            Trials::Anywhere(_) => vec![Place::Anywhere],
            Trials::InDomains(domains) => {
                domains.iter().map(|own| Place::Domain(&own.name)).collect()
            }
            Trials::ByLevels { .. } => vec![Place::ByLevels],
            Trials::Nowhere(_) => Vec::new(),
        }
    }

    /// Returns the nodes of a place; of levels those of the closest domain of the narrowest first.
    fn nodes_of(&self, place: Place<'_>, lab: &Lab<'_>) -> Vec<NodeIx> {
        match (place, self.trials) {
            (Place::Domain(name), Trials::InDomains(domains)) => {
                let own = domains.iter().find(|own| *own.name == *name);
                own.map(|own| own.nodes.clone()).unwrap_or_default()
            }
            (Place::ByLevels, Trials::ByLevels { levels, .. }) => {
                let closest = levels.last().and_then(|level| level.domains.first());
                let first = closest.map(|own| own.nodes.clone()).unwrap_or_default();
                let known: NodeBits = first.iter().copied().collect();
                let others = lab.cluster().nodes().iter().filter(|node| !known.contains(*node));
                first.into_iter().chain(others).collect()
            }
            _ => lab.cluster().nodes().iter().collect(),
        }
    }

    /// Returns how many pods fit in a place after changes.
    fn fitting_after(&self, lab: &mut Lab<'_>, changes: &Changes<'_>, place: Place<'_>) -> usize {
        let Some(first) = self.pending.first() else { return 0 };
        if (lab.is_over())() {
            return 0;
        }
        lab.with(first, changes.of_nodes, |lab, _| {
            lab.suppose(|supposed| {
                changes.ended.iter().for_each(|uid| _ = supposed.remove(uid));
                let within = match place {
                    Place::Anywhere => None,
                    Place::ByLevels => {
                        return fitting(&try_by_levels(supposed, self.key, self.pending));
                    }
                    Place::Domain(name) => {
                        let domains = supposed.prospects(self.key, self.pending);
                        let domains = domains.ok().flatten().unwrap_or_default();
                        let own = domains.into_iter().find(|own| *own.placement.name == *name);
                        let nodes = own.map(|own| own.placement.nodes.clone()).unwrap_or_default();
                        Some(nodes.into_iter().collect::<NodeBits>())
                    }
                };
                fitting(&try_together(supposed, self.pending, within.as_ref()))
            })
        })
    }

    /// Returns the sentence about the group after a change.
    fn effect(&self, fit: usize, place: Place<'_>) -> String {
        format!("{} pods fit together{}", self.answer.placed + fit, place.text())
    }

    /// A lower minCount.
    fn lower_min_count(&self, lab: &Lab<'_>) -> Option<Suggestion> {
        let PodGroupAnswer { placed, fit, min_count, api_group, .. } = self.answer;
        let (count, key) = (placed + fit, self.key);
        let is_mutable = key.source == PodGroupSource::Coscheduling
            || lab.engine().profiles().level().is_at_least(Level::V1_37);
        if *fit == 0 || !is_mutable {
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
        let place = self.places().first().map_or_else(String::new, |place| place.text());
        Some(Suggestion {
            text: format!(
                "lower {field} from {min_count} to {count}, if the job can work with {count} pods"
            ),
            effect: format!("the group starts with {count} pods{place}"),
            evicts: Vec::new(),
            kind: "minCount".to_owned(),
            size: size::POD,
            command: Some(format!(
                "kubectl patch podgroups.{api_group} {} -n {} --type merge -p '{patch}'",
                key.name, key.namespace
            )),
            changes: Vec::new(),
        })
    }

    /// The end of cordons, of as few nodes of one place as possible.
    fn open_nodes(&self, lab: &mut Lab<'_>) -> Option<Suggestion> {
        let mut tried = 0;
        for place in self.places() {
            let is_closed = |node: &NodeIx| lab.cluster().node(*node).is_unschedulable();
            let closed: Vec<NodeIx> =
                self.nodes_of(place, lab).into_iter().filter(is_closed).take(NODES).collect();
            if closed.is_empty() {
                continue;
            }
            let opened: Vec<Node> = closed.iter().map(|node| uncordoned(lab, *node)).collect();
            let changes: Vec<Change> = opened.iter().cloned().map(Change::Node).collect();
            if let Some((count, fit)) = self.fewest(lab, &changes, place) {
                let names: Vec<&str> = opened[..count].iter().map(|node| &*node.name).collect();
                let (nodes, command) = (names.join(", "), names.join(" "));
                let text = match count {
                    1 => format!("lift the cordon of node {nodes}"),
                    _ => format!("lift the cordons of nodes {nodes}"),
                };
                return Some(Suggestion {
                    text,
                    effect: self.effect(fit, place),
                    evicts: Vec::new(),
                    kind: "cordon".to_owned(),
                    size: size::NODE_STATE,
                    command: Some(format!("kubectl uncordon {command}")),
                    changes: changes[..count].to_vec(),
                });
            }
            tried += 1;
            if tried == OTHERS {
                break;
            }
        }
        None
    }

    /// Returns how many of the first changes of nodes are needed, and the number of pods that fit
    /// then; `None` if all of them are not enough.
    fn fewest(
        &self,
        lab: &mut Lab<'_>,
        changes: &[Change],
        place: Place<'_>,
    ) -> Option<(usize, usize)> {
        let mut fitting = |count: usize| {
            let changes = Changes { of_nodes: &changes[..count], ended: &[] };
            self.fitting_after(lab, &changes, place)
        };
        let missing = self.missing();
        let mut found = (changes.len(), fitting(changes.len()));
        if found.1 < missing {
            return None;
        }
        let (mut too_few, mut enough) = (0, changes.len());
        while too_few + 1 < enough {
            let middle = usize::midpoint(too_few, enough);
            let fit = fitting(middle);
            if fit >= missing {
                (enough, found) = (middle, (middle, fit));
            } else {
                too_few = middle;
            }
        }
        Some(found)
    }

    /// The end of another PodGroup, the smallest that is enough.
    fn end_other(&self, lab: &mut Lab<'_>) -> Option<Suggestion> {
        let mut others: BTreeMap<PodGroupKey, Vec<(Arc<Pod>, NodeIx)>> = BTreeMap::new();
        for placed in lab.cluster().pods() {
            if let Some(key) = placed.pod.pod_group().filter(|key| key != self.key) {
                others.entry(key).or_default().push((placed.pod.clone(), placed.node));
            }
        }
        let mut others: Vec<_> = others.into_iter().collect();
        others.sort_by_key(|(_, pods)| pods.len());
        for (other, pods) in others.into_iter().take(OTHERS) {
            let ended: Vec<Uid> = pods.iter().map(|(pod, _)| pod.uid.clone()).collect();
            for place in self.places() {
                let nodes: NodeBits = self.nodes_of(place, lab).into_iter().collect();
                if !pods.iter().any(|(_, node)| nodes.contains(*node)) {
                    continue;
                }
                let changes = Changes { of_nodes: &[], ended: &ended };
                let fit = self.fitting_after(lab, &changes, place);
                if fit < self.missing() {
                    continue;
                }
                let delete = |(pod, _): &(Arc<Pod>, NodeIx)| {
                    let (key, uid) = (pod.key.clone(), pod.uid.clone());
                    Change::PodDeleted { key, uid }
                };
                return Some(Suggestion {
                    text: format!("the end of PodGroup {other}, which has {} pods", pods.len()),
                    effect: self.effect(fit, place),
                    evicts: Vec::new(),
                    kind: "podGroup".to_owned(),
                    size: size::OTHER_POD,
                    command: None,
                    changes: pods.iter().map(delete).collect(),
                });
            }
        }
        None
    }

    /// No constraint to one domain, and no levels.
    fn without_topology(&self, lab: &mut Lab<'_>) -> Option<Suggestion> {
        let text = match (&self.answer.topology, &self.answer.levels[..]) {
            (Some(topology), _) => {
                let key = &topology.key;
                format!("create the PodGroup again without its constraint to one domain of {key}")
            }
            (None, []) => return None,
            (None, _) => "ask for no levels of a topology".to_owned(),
        };
        let changes = Changes { of_nodes: &[], ended: &[] };
        let fit = self.fitting_after(lab, &changes, Place::Anywhere);
        (fit >= self.missing()).then(|| Suggestion {
            text,
            effect: format!("{}, in several domains", self.effect(fit, Place::Anywhere)),
            evicts: Vec::new(),
            kind: "topology".to_owned(),
            size: size::RULE,
            command: None,
            changes: Vec::new(),
        })
    }

    /// As few new nodes as possible, of a kind that the cluster has, in the place where most pods
    /// fit.
    fn more_nodes(&self, lab: &mut Lab<'_>) -> Option<Suggestion> {
        let place = self.places().into_iter().next()?;
        let label = match (place, &self.answer.topology) {
            (Place::Domain(name), Some(topology)) => Some((topology.key.as_str(), name)),
            _ => None,
        };
        for like in self.kinds(lab, place).into_iter().take(KINDS) {
            let make = |number: usize| {
                let name = format!("{}-new-{}", like.name, number + 1);
                Change::Node(new_node_like(like.clone(), &name, label))
            };
            let one = Changes { of_nodes: &[make(0)], ended: &[] };
            let with_one = self.fitting_after(lab, &one, place);
            let gain = with_one.saturating_sub(self.answer.fit);
            if gain == 0 {
                continue;
            }
            // A node may take more than its share of the pods that fit without it.
            let most = (self.missing() - self.answer.fit).div_ceil(gain).min(NODES);
            let changes: Vec<Change> = (0..most).map(make).collect();
            let Some((count, fit)) = self.fewest(lab, &changes, place) else { continue };
            let nodes = match count {
                1 => "another node".to_owned(),
                _ => format!("{count} more nodes"),
            };
            let (like, capacity) = (&like.name, capacity(&like.allocatable));
            return Some(Suggestion {
                text: format!("{nodes} like {like} ({capacity}){}", place.text()),
                effect: self.effect(fit, place),
                evicts: Vec::new(),
                kind: "node".to_owned(),
                size: size::NEW_NODE,
                command: None,
                changes: changes[..count].to_vec(),
            });
        }
        None
    }

    /// Returns one node of each kind: first the kinds of the place, those of most nodes first, then
    /// those of the other nodes.
    fn kinds(&self, lab: &Lab<'_>, place: Place<'_>) -> Vec<Node> {
        let cluster = lab.cluster();
        let nodes = self.nodes_of(place, lab);
        let own: NodeBits = nodes.iter().copied().collect();
        let mut kinds: BTreeMap<_, (bool, usize, NodeIx)> = BTreeMap::new();
        let others = cluster.nodes().iter().filter(|node| !own.contains(*node));
        for node in nodes.into_iter().chain(others) {
            let object = cluster.to_node(node);
            let all = &object.allocatable;
            let kind = (all.milli_cpu, all.memory, all.scalars.clone(), object.taints.clone());
            kinds.entry(kind).or_insert((own.contains(node), 0, node)).1 += 1;
        }
        let mut kinds: Vec<_> = kinds.into_values().collect();
        kinds.sort_by_key(|(is_own, count, node)| (!is_own, Reverse(*count), *node));
        kinds.into_iter().map(|(_, _, node)| cluster.to_node(node)).collect()
    }
}

/// Changes that are tried together.
struct Changes<'a> {
    of_nodes: &'a [Change],
    /// The pods that end.
    ended: &'a [Uid],
}
