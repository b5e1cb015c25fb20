//! Stand-ins for plugins of Kubernetes that are not implemented.
//!
//! A stand-in has the name and the extension points of its plugin, so that profiles resolve as in
//! kube-scheduler. Its PreFilter rejects the pods that need the plugin and returns Skip for all
//! other pods.

use framework::{
    Code, CycleState, DryRun, ExtensionPoint, Filter, Handle, NodeBits, NodeIx, NodeView, Permit,
    PermitVerdict, Plugin, PluginBuilder, Pod, PostFilter, PostFilterResult, PreBind, PreBindInput,
    PreBindPreFlight, PreBindStep, PreEnqueue, PreFilter, PreFilterResult, PreScore, Reserve,
    Score, Status, Verdicts,
};

use crate::catalogue::Entry;

/// The stand-in for a plugin that is not implemented.
#[derive(Debug)]
pub struct NotBuilt {
    name: &'static str,
    need: Need,
}

/// Returns the reason a pod needs the plugin, if it does.
type Need = fn(&Pod) -> Option<&'static str>;

/// Makes the stand-in for the plugin of a catalogue entry.
pub fn plugin(entry: &Entry) -> Plugin {
    let need: Need = match entry.name {
        "DynamicResources" => resource_claims,
        _ => |_| None,
    };
    let builder = Plugin::new(entry.name, NotBuilt { name: entry.name, need }).no_events();
    let builder = entry.points.iter().copied().fold(builder, extend);
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

fn resource_claims(pod: &Pod) -> Option<&'static str> {
    (!pod.spec.resource_claims.is_empty()).then_some("the pod has resource claims")
}

impl NotBuilt {
    fn verdict(&self, pod: &Pod) -> Status {
        match (self.need)(pod) {
            Some(need) => {
                Status::unresolvable(format!("plugin {} is not built yet, and {need}", self.name))
            }
            None => Status::success(),
        }
    }
}

impl PreEnqueue for NotBuilt {
    fn pre_enqueue(&self, _pod: &Pod, _handle: &Handle<'_>) -> Status {
        Status::success()
    }
}

impl PreFilter for NotBuilt {
    fn pre_filter(
        &self,
        _state: &mut CycleState,
        pod: &Pod,
        _handle: &Handle<'_>,
    ) -> Result<PreFilterResult, Status> {
        self.verdict(pod).ok()?;
        Err(Status::skip())
    }
}

/// Repeats the check of PreFilter, for profiles that disable PreFilter.
impl Filter for NotBuilt {
    fn filter(
        &self,
        _state: &CycleState,
        pod: &Pod,
        _node: &NodeView<'_>,
        _handle: &Handle<'_>,
    ) -> Status {
        self.verdict(pod)
    }

    fn filter_set(
        &self,
        _state: &CycleState,
        pod: &Pod,
        _handle: &Handle<'_>,
        nodes: &mut NodeBits,
    ) -> Result<(), Status> {
        if !self.verdict(pod).is_success() {
            nodes.clear();
        }
        Ok(())
    }

    fn explain_set(
        &self,
        _state: &CycleState,
        pod: &Pod,
        _handle: &Handle<'_>,
        rejected: &NodeBits,
        verdicts: &mut Verdicts,
    ) {
        verdicts.record_all(rejected, self.verdict(pod));
    }
}

impl PostFilter for NotBuilt {
    fn post_filter(
        &self,
        _state: &mut CycleState,
        _pod: &Pod,
        _verdicts: &Verdicts,
        _dry_run: &mut dyn DryRun,
        _handle: &Handle<'_>,
    ) -> PostFilterResult {
        Status::with_reasons(Code::Unschedulable, Vec::new()).into()
    }
}

impl PreScore for NotBuilt {
    fn pre_score(
        &self,
        _state: &mut CycleState,
        _pod: &Pod,
        _handle: &Handle<'_>,
        _nodes: &[NodeIx],
    ) -> Status {
        Status::skip()
    }
}

/// Returns score 0: PreFilter rejects the pods that the plugin would score.
impl Score for NotBuilt {
    fn score(
        &self,
        _state: &CycleState,
        _pod: &Pod,
        _node: &NodeView<'_>,
        _handle: &Handle<'_>,
    ) -> Result<i64, Status> {
        Ok(0)
    }

    fn score_set(
        &self,
        _state: &CycleState,
        _pod: &Pod,
        _handle: &Handle<'_>,
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
        _handle: &Handle<'_>,
    ) -> Status {
        Status::success()
    }

    fn unreserve(&self, _state: &mut CycleState, _pod: &Pod, _node: &str, _handle: &Handle<'_>) {}
}

impl Permit for NotBuilt {
    fn permit(
        &self,
        _state: &mut CycleState,
        _pod: &Pod,
        _node: &str,
        _handle: &Handle<'_>,
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
        _handle: &Handle<'_>,
    ) -> PreBindPreFlight {
        PreBindPreFlight::Skip { allow_parallel: true }
    }

    fn pre_bind(
        &self,
        _state: &mut CycleState,
        _pod: &Pod,
        _node: &str,
        _handle: &Handle<'_>,
        _input: PreBindInput<'_>,
    ) -> PreBindStep {
        PreBindStep::Done(Status::success())
    }
}

#[cfg(test)]
mod tests;
