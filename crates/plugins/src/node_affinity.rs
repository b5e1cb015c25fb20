//! NodeAffinity: `spec.nodeSelector`, node affinity, and the added affinity of a profile.

use framework::{
    ActionType, Attempt, AttemptMut, ClusterEvent, Dependence, EventForPod, EventResource, Filter,
    FilterScope, HintResult, NodeBits, NodeFields, NodeIx, NodeNameRestriction, NodeSelector,
    NodeView, NormalizeScore, PerNode, Plugin, PluginArgs, Pod, PreFilter, PreFilterResult,
    PreScore, PreferredSchedulingTerms, QueueingHint, Score, ScoreScope, SelectorError, Status,
    Verdicts, api,
};
use serde::{Deserialize, Serialize};

use crate::args::decode_strictly;
use crate::hint;
use crate::node_sets::{NodeSums, labelled, retain_matching, retain_required, retain_selected};
use crate::normalize::default_normalize;

/// Plugin name.
pub const NAME: &str = "NodeAffinity";

const REASON_POD: &str = "node(s) didn't match Pod's node affinity/selector";
const REASON_ADDED: &str = "node(s) didn't match scheduler-enforced node affinity";
const REASON_CONFLICT: &str = "pod affinity terms conflict";

/// `NodeAffinityArgs`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Args {
    added_affinity: Option<api::NodeAffinity>,
}

/// The NodeAffinity plugin.
#[derive(Debug, Default)]
pub struct NodeAffinity {
    added_required: Option<NodeSelector>,
    added_preferred: Option<PreferredSchedulingTerms>,
}

/// Makes the plugin from `NodeAffinityArgs`.
///
/// # Errors
/// The arguments do not decode, or a term of `addedAffinity` is invalid.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
    Ok(Plugin::new(NAME, NodeAffinity::new(args)?)
        .pre_filter()
        .filter()
        .pre_score()
        .score()
        .normalize_score()
        .on_with_hint(
            ClusterEvent::new(EventResource::Node, nodes),
            NodeAffinity::after_node_change,
        )
        .build())
}

/// Construction of the plugin and its one-node rule.
impl NodeAffinity {
    fn new(args: &PluginArgs) -> Result<Self, String> {
        let added = decode_strictly::<Args>(args)?.added_affinity.unwrap_or_default();
        let required = added.required.as_ref();
        let preferred = added.preferred.as_deref().filter(|terms| !terms.is_empty());
        let path = |field| format!("addedAffinity.{field}DuringSchedulingIgnoredDuringExecution");
        let text = |error: SelectorError| error.to_string();
        Ok(Self {
            added_required: required
                .map(|selector| NodeSelector::compile_strict(selector, &path("required")))
                .transpose()
                .map_err(text)?,
            added_preferred: preferred
                .map(|terms| PreferredSchedulingTerms::compile(terms, &path("preferred")))
                .transpose()
                .map_err(text)?,
        })
    }

    fn added_matches(&self, node: &impl NodeFields) -> bool {
        let required = self.added_required.as_ref();
        required.is_none_or(|required| required.matches(node).unwrap_or(false))
    }

    fn after_node_change(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.nodes()?;
        let Some(new) = new else { return Ok(QueueingHint::Skip) };
        let affinity = &event.pod.spec.required_node_affinity;
        let text = |error: SelectorError| error.to_string();
        if !self.added_matches(new) || !affinity.matches(new).map_err(text)? {
            return Ok(QueueingHint::Skip);
        }
        let Some(old) = old else { return Ok(QueueingHint::Queue) };
        // Rule node-affinity-added-affinity-hint of docs/differences.toml: check `addedAffinity` on
        // the old node too.
        let matched = affinity.matches(old).map_err(text)? && self.added_matches(old);
        Ok(hint::queue_if(!matched))
    }

    /// Returns the preferences that apply to the pod, the preferences of the profile first.
    fn preferences<'a>(
        &'a self,
        pod: &'a Pod,
    ) -> Result<impl Iterator<Item = &'a PreferredSchedulingTerms>, Status> {
        let own = match &pod.spec.preferred_node_affinity {
            Some(Ok(terms)) => Some(terms),
            Some(Err(error)) => return Err(Status::error(error.to_string())),
            None => None,
        };
        Ok(self.added_preferred.iter().chain(own))
    }
}

impl PreFilter for NodeAffinity {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let affinity = &attempt.pod.spec.required_node_affinity;
        let Some(selector) = affinity.selector() else {
            return match (affinity.labels(), &self.added_required) {
                (None, None) => Err(Status::skip()),
                _ => Ok(PreFilterResult::default()),
            };
        };
        match selector.node_names() {
            NodeNameRestriction::Unrestricted => Ok(PreFilterResult::default()),
            NodeNameRestriction::Names(names) => {
                Ok(PreFilterResult { node_names: Some(names.iter().cloned().collect()) })
            }
            NodeNameRestriction::Conflict => Err(Status::unresolvable(REASON_CONFLICT)),
        }
    }
}

impl Filter for NodeAffinity {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        if !self.added_matches(node) {
            return Status::unresolvable(REASON_ADDED);
        }
        if !attempt.pod.spec.required_node_affinity.matches(node).unwrap_or(false) {
            return Status::unresolvable(REASON_POD);
        }
        Status::success()
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        if let Some(required) = &self.added_required {
            retain_selected(required, attempt.handle.cluster, nodes);
        }
        retain_required(&attempt.pod.spec.required_node_affinity, attempt.handle.cluster, nodes);
        Ok(())
    }

    fn dependence(&self, _attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        Some(Dependence::on(FilterScope::Node).without_pods())
    }

    fn explain_set(&self, attempt: &Attempt<'_>, rejected: &NodeBits, verdicts: &mut Verdicts) {
        verdicts.record_all(rejected, Status::unresolvable(REASON_POD));
        if let Some(required) = &self.added_required {
            let mut added = rejected.clone();
            retain_selected(required, attempt.handle.cluster, &mut added);
            let mut others = rejected.clone();
            others.subtract(&added);
            verdicts.record_all(&others, Status::unresolvable(REASON_ADDED));
        }
    }
}

impl PreScore for NodeAffinity {
    fn pre_score(&self, attempt: AttemptMut<'_>, _nodes: &[NodeIx]) -> Status {
        match self.preferences(attempt.pod).map(|mut preferences| preferences.next()) {
            Ok(Some(_)) => Status::success(),
            Ok(None) => Status::skip(),
            Err(status) => status,
        }
    }
}

impl Score for NodeAffinity {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        Ok(self.preferences(attempt.pod)?.map(|preferences| preferences.score(node)).sum())
    }

    fn dependence(&self, _attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(Dependence::on(ScoreScope::Node).without_pods())
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: scores, .. } = scores;
        let Attempt { pod, handle, .. } = *attempt;
        let mut matched = NodeBits::default();
        let mut sums = NodeSums::new(nodes, scores);
        for preference in self.preferences(pod)?.flat_map(PreferredSchedulingTerms::terms) {
            let weight = preference.weight.into();
            if let Some(sets) = labelled(&preference.term, handle.cluster) {
                sets.into_iter().for_each(|set| sums.add(set, weight));
                continue;
            }
            matched.copy_from(handle.cluster.nodes());
            retain_matching(&preference.term, handle.cluster, &mut matched);
            sums.add_if(|node| matched.contains(node), weight);
        }
        Ok(())
    }
}

impl NormalizeScore for NodeAffinity {
    fn normalize_score(&self, _attempt: &Attempt<'_>, scores: PerNode<'_>) -> Status {
        default_normalize(scores.values, false);
        Status::success()
    }
}

#[cfg(test)]
mod tests;
