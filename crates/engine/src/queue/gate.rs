//! PreEnqueue: plugins that hold a pod back before it is even tried.

use framework::{Code, ExtensionPoint, Pod, PreEnqueue, QueuedPod};

use super::Context;
use crate::plugin_call::call_plugin;
use crate::ports::Span;
use crate::profile::Named;

/// Asks the PreEnqueue plugins; whether all let the pod pass.
///
/// The plugin that gated it last is asked first, then the others in the order of the profile. The
/// first that fails gates the pod and joins its rejectors; a pod that passes keeps its rejectors.
pub(super) fn opens(queued: &mut QueuedPod, cx: &mut Context<'_>) -> bool {
    let last_gate = queued.gating_plugin.take();
    let Some(profile) = cx.profiles.get(&queued.pod.spec.scheduler_name) else { return true };
    if profile.pre_enqueue.is_empty() {
        return true;
    }
    let gated_last = |plugin: &&Named<dyn PreEnqueue>| Some(&plugin.name) == last_gate.as_ref();
    let first = profile.pre_enqueue.iter().filter(gated_last);
    let others = profile.pre_enqueue.iter().filter(|plugin| !gated_last(plugin));

    cx.probe.start(Span::Point(ExtensionPoint::PreEnqueue, &profile.scheduler_name));
    let gate = first.chain(others).find(|plugin| !passes(plugin, &queued.pod, cx));
    // Like kube-scheduler, which reports this extension point as a success whatever comes of it.
    cx.probe.stop(Span::Point(ExtensionPoint::PreEnqueue, &profile.scheduler_name), Code::Success);

    if let Some(plugin) = gate {
        queued.unschedulable_plugins.insert(plugin.name.clone());
        queued.gating_plugin = Some(plugin.name.clone());
    }
    gate.is_none()
}

/// A plugin that panics gates the pod like one that fails.
fn passes(plugin: &Named<dyn PreEnqueue>, pod: &Pod, cx: &mut Context<'_>) -> bool {
    let handle = cx.handle;
    let status = call_plugin(ExtensionPoint::PreEnqueue, &plugin.name, cx.probe, || {
        plugin.plugin.pre_enqueue(pod, &handle)
    });
    status.is_ok_and(|status| status.is_success())
}
