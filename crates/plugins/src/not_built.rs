//! Plugins that are not built yet: they stand in under their real names and are honest about it.
//!
//! A stand-in implements every extension point of the plugin, so that profiles are expanded as they
//! will be. It rejects, in PreFilter, the pods whose placement the plugin would decide, and has
//! nothing to say about all others. Preferences are left aside: [`ignored_preferences`] names them.

use framework::{
    ActionType, Cluster, ClusterEvent, Code, CycleState, EventObjects, EventResource,
    ExtensionPoint, Filter, Handle, NodeBits, NodeIx, NodeView, NominatingInfo, Permit,
    PermitVerdict, PlacedPod, Plugin, PluginBuilder, Pod, PodAffinity, PodAffinityTerm, PostFilter,
    PostFilterResult, PreBind, PreBindInput, PreBindPreFlight, PreBindStep, PreEnqueue, PreFilter,
    PreFilterResult, PreScore, QueueingHint, Reserve, Score, Status, Verdicts, api,
};

use crate::catalogue::Entry;
use crate::hint;

const HARD_SPREAD: &str = "DoNotSchedule";
const SOFT_SPREAD: &str = "ScheduleAnyway";

const NO_PREEMPTION: &str = "preemption: plugin DefaultPreemption is not built yet.";

/// A plugin that is not built yet.
#[derive(Debug)]
pub struct NotBuilt {
    name: &'static str,
    need: Need,
}

/// Tells what of a pod would need the plugin, if anything.
type Need = fn(&Pod, &Cluster) -> Option<&'static str>;

/// The stand-in for the plugin of a catalogue entry.
pub fn plugin(entry: &Entry) -> Plugin {
    let need: Need = match entry.name {
        "PodTopologySpread" => hard_spread,
        "InterPodAffinity" => required_pod_affinity,
        "VolumeBinding" => claims,
        "VolumeRestrictions" => exclusive_disks,
        "DynamicResources" => resource_claims,
        _ => |_, _| None,
    };
    let builder = Plugin::new(entry.name, NotBuilt { name: entry.name, need }).no_events();
    let builder = entry.points.iter().copied().fold(builder, extend);
    if entry.name == "InterPodAffinity" {
        let changes = ActionType::DELETE | ActionType::UPDATE_POD_LABEL;
        let pods = ClusterEvent::new(EventResource::Pod, changes);
        let losses = ActionType::DELETE | ActionType::UPDATE_NODE_LABEL;
        let nodes = ClusterEvent::new(EventResource::Node, losses);
        return builder
            .on_with_hint(pods, NotBuilt::after_pod_change)
            .on_with_hint(nodes, NotBuilt::after_node_change)
            .build();
    }
    builder.build()
}

fn extend(builder: PluginBuilder<NotBuilt>, point: ExtensionPoint) -> PluginBuilder<NotBuilt> {
    match point {
        ExtensionPoint::PreEnqueue => builder.pre_enqueue(),
        ExtensionPoint::PreFilter => builder.pre_filter(),
        ExtensionPoint::Filter => builder.filter(),
        ExtensionPoint::PostFilter => builder.post_filter(),
        ExtensionPoint::PreScore => builder.pre_score(),
        ExtensionPoint::Score => builder.score(),
        ExtensionPoint::Reserve => builder.reserve(),
        ExtensionPoint::Permit => builder.permit(),
        ExtensionPoint::PreBind => builder.pre_bind(),
        ExtensionPoint::QueueSort
        | ExtensionPoint::Bind
        | ExtensionPoint::PostBind
        | ExtensionPoint::PlacementGenerate
        | ExtensionPoint::PlacementScore => builder,
    }
}

/// The preferences of a pod that have no effect until their plugins are built.
pub fn ignored_preferences(pod: &Pod) -> impl Iterator<Item = &'static str> {
    let soft =
        |constraint: &api::TopologySpreadConstraint| constraint.when_unsatisfiable == SOFT_SPREAD;
    let prefers = |affinity: &Option<PodAffinity>| {
        let preferred = affinity.as_ref().and_then(|affinity| affinity.preferred.as_ref().ok());
        preferred.is_some_and(|terms| !terms.is_empty())
    };
    let spec = &pod.spec;
    [
        (
            spec.topology_spread_constraints.iter().any(soft),
            "ScheduleAnyway topology spread constraints",
        ),
        (prefers(&spec.pod_affinity), "preferred pod affinity"),
        (prefers(&spec.pod_anti_affinity), "preferred pod anti-affinity"),
    ]
    .into_iter()
    .filter_map(|(present, what)| present.then_some(what))
}

fn hard_spread(pod: &Pod, _cluster: &Cluster) -> Option<&'static str> {
    let mut constraints = pod.spec.topology_spread_constraints.iter();
    let hard = constraints.any(|constraint| constraint.when_unsatisfiable == HARD_SPREAD);
    hard.then_some("the pod has DoNotSchedule topology spread constraints")
}

fn claims(pod: &Pod, _cluster: &Cluster) -> Option<&'static str> {
    let claimed = |volume: &api::Volume| {
        volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
    };
    let claims = pod.spec.volumes.iter().any(claimed);
    claims.then_some("the pod has persistent volume claims")
}

fn exclusive_disks(pod: &Pod, _cluster: &Cluster) -> Option<&'static str> {
    let exclusive = |volume: &api::Volume| {
        volume.gce_persistent_disk.is_some()
            || volume.aws_elastic_block_store.is_some()
            || volume.iscsi.is_some()
            || volume.rbd.is_some()
    };
    let disks = pod.spec.volumes.iter().any(exclusive);
    disks.then_some("the pod has volumes that may be in use elsewhere")
}

fn resource_claims(pod: &Pod, _cluster: &Cluster) -> Option<&'static str> {
    (!pod.spec.resource_claims.is_empty()).then_some("the pod has resource claims")
}

fn required_pod_affinity(pod: &Pod, cluster: &Cluster) -> Option<&'static str> {
    own_pod_affinity(pod).or_else(|| {
        let repelled =
            cluster.pods_with_required_anti_affinity().any(|placed| repels(placed, pod, cluster));
        repelled.then_some("a placed pod has required anti-affinity that may match the pod")
    })
}

fn own_pod_affinity(pod: &Pod) -> Option<&'static str> {
    let unreadable =
        |affinity: &PodAffinity| affinity.required.is_err() || affinity.preferred.is_err();
    let requires = |affinity: &PodAffinity| affinity.required.iter().any(|terms| !terms.is_empty());
    let (affinity, anti) = (pod.spec.pod_affinity.as_ref(), pod.spec.pod_anti_affinity.as_ref());
    if affinity.into_iter().chain(anti).any(unreadable) {
        Some("the pod has pod affinity terms that are invalid")
    } else if affinity.is_some_and(requires) {
        Some("the pod has required pod affinity")
    } else if anti.is_some_and(requires) {
        Some("the pod has required pod anti-affinity")
    } else {
        None
    }
}

/// The required anti-affinity terms of a pod.
fn anti_affinity_terms(pod: &Pod) -> impl Iterator<Item = &PodAffinityTerm> {
    let anti = pod.spec.pod_anti_affinity.iter();
    anti.filter_map(|anti| anti.required.as_ref().ok()).flatten()
}

/// Whether a term of `placed` may keep `pod` off some domain: the node must have the label of it.
fn repels(placed: &PlacedPod, pod: &Pod, cluster: &Cluster) -> bool {
    let node = cluster.node(placed.node);
    anti_affinity_terms(&placed.pod)
        .any(|term| node.label(&term.topology_key).is_some() && may_match(term, pod))
}

/// Whether the term may mean `pod`. The labels of its namespace are not known here, so that any
/// selector of namespaces counts as met.
fn may_match(term: &PodAffinityTerm, pod: &Pod) -> bool {
    let any_namespace = !term.namespace_selector.is_nothing();
    (any_namespace || term.namespaces.contains(&pod.key.namespace))
        && term.selector.matches(&pod.labels)
}

impl NotBuilt {
    fn verdict(&self, pod: &Pod, cluster: &Cluster) -> Status {
        match (self.need)(pod, cluster) {
            Some(need) => {
                Status::unresolvable(format!("plugin {} is not built yet, and {need}", self.name))
            }
            None => Status::success(),
        }
    }

    /// For InterPodAffinity: a pod that others keep out may come in when they go, or when its own
    /// labels change.
    fn after_pod_change(
        &self,
        pod: &Pod,
        objects: &EventObjects<'_>,
        _cluster: &Cluster,
    ) -> Result<QueueingHint, String> {
        if own_pod_affinity(pod).is_some() {
            return Ok(QueueingHint::Skip);
        }
        let (old, new) = hint::pods(objects)?;
        let repelled = |old: &Pod| anti_affinity_terms(old).any(|term| may_match(term, pod));
        let gone = new.is_none() && old.is_some_and(repelled);
        Ok(hint::queue_if(gone || hint::update_of(pod, objects)?.is_some()))
    }

    /// For InterPodAffinity: the domain of a term may be gone with the node or its label.
    fn after_node_change(
        &self,
        pod: &Pod,
        _objects: &EventObjects<'_>,
        _cluster: &Cluster,
    ) -> Result<QueueingHint, String> {
        Ok(hint::queue_if(own_pod_affinity(pod).is_none()))
    }
}

impl PreEnqueue for NotBuilt {
    fn pre_enqueue(&self, _pod: &Pod, _cluster: &Cluster) -> Status {
        Status::success()
    }
}

impl PreFilter for NotBuilt {
    fn pre_filter(
        &self,
        _state: &mut CycleState,
        pod: &Pod,
        cluster: &Cluster,
    ) -> Result<PreFilterResult, Status> {
        self.verdict(pod, cluster).ok()?;
        Err(Status::skip())
    }
}

/// Reached only in profiles that switch PreFilter off.
impl Filter for NotBuilt {
    fn filter(&self, _state: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        self.verdict(pod, node.cluster())
    }

    fn filter_set(
        &self,
        _state: &CycleState,
        pod: &Pod,
        cluster: &Cluster,
        nodes: &mut NodeBits,
    ) -> Result<(), Status> {
        if !self.verdict(pod, cluster).is_success() {
            nodes.clear();
        }
        Ok(())
    }

    fn explain_set(
        &self,
        _state: &CycleState,
        pod: &Pod,
        cluster: &Cluster,
        rejected: &NodeBits,
        verdicts: &mut Verdicts,
    ) {
        verdicts.record_all(rejected, self.verdict(pod, cluster));
    }
}

impl PostFilter for NotBuilt {
    fn post_filter(
        &self,
        _state: &mut CycleState,
        _pod: &Pod,
        _verdicts: &Verdicts,
        _handle: &mut Handle<'_>,
    ) -> PostFilterResult {
        let status = match self.name {
            "DefaultPreemption" => Status::unschedulable(NO_PREEMPTION),
            _ => Status::with_reasons(Code::Unschedulable, Vec::new()),
        };
        PostFilterResult { nominating: NominatingInfo::Noop, status }
    }
}

impl PreScore for NotBuilt {
    fn pre_score(
        &self,
        _state: &mut CycleState,
        _pod: &Pod,
        _cluster: &Cluster,
        _nodes: &[NodeIx],
    ) -> Status {
        Status::skip()
    }
}

/// Pods that the plugin would rate have been rejected or have their preferences left aside.
impl Score for NotBuilt {
    fn score(&self, _state: &CycleState, _pod: &Pod, _node: &NodeView<'_>) -> Result<i64, Status> {
        Ok(0)
    }

    fn score_set(
        &self,
        _state: &CycleState,
        _pod: &Pod,
        _cluster: &Cluster,
        _nodes: &[NodeIx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        scores.fill(0);
        Ok(())
    }
}

impl Reserve for NotBuilt {
    fn reserve(
        &self,
        _state: &mut CycleState,
        _pod: &Pod,
        _node: &str,
        _cluster: &Cluster,
    ) -> Status {
        Status::success()
    }

    fn unreserve(
        &self,
        _state: &mut CycleState,
        _pod: &Pod,
        _node: &str,
        _handle: &mut Handle<'_>,
    ) {
    }
}

impl Permit for NotBuilt {
    fn permit(
        &self,
        _state: &mut CycleState,
        _pod: &Pod,
        _node: &str,
        _handle: &mut Handle<'_>,
    ) -> PermitVerdict {
        PermitVerdict::Allow
    }
}

impl PreBind for NotBuilt {
    fn pre_flight(
        &self,
        _state: &CycleState,
        _pod: &Pod,
        _node: &str,
        _cluster: &Cluster,
    ) -> PreBindPreFlight {
        PreBindPreFlight::Skip { allow_parallel: true }
    }

    fn pre_bind(
        &self,
        _state: &mut CycleState,
        _pod: &Pod,
        _node: &str,
        _cluster: &Cluster,
        _input: PreBindInput<'_>,
    ) -> PreBindStep {
        PreBindStep::Done(Status::success())
    }
}

#[cfg(test)]
mod tests;
