//! PreEnqueue: plugins that keep an entity out of the active queue.

use framework::{Code, ExtensionPoint, Pod, PreEnqueue, QueuedEntity, QueuedPod};

use super::plugins::Plugins;
use crate::plugin_call::call_plugin;
use crate::ports::Span;
use crate::profile::Named;

/// Runs the PreEnqueue plugins for each pod. Returns whether every pod passes all of them.
///
/// The plugin that gated the entity last runs first, then the others in the order of the profile.
/// The first plugin that does not return Success gates the entity and is added to its rejectors. An
/// entity that passes keeps its rejectors.
pub(super) fn passes(entity: &mut QueuedEntity, plugins: &mut Plugins<'_>) -> bool {
    let last_gate = entity.history_mut().gating_plugin.take();
    let Some(profile) = plugins.profiles.get(entity.scheduler_name()) else { return true };
    if profile.pre_enqueue.is_empty() {
        return true;
    }
    let gated_last = |plugin: &&Named<dyn PreEnqueue>| Some(&plugin.name) == last_gate.as_ref();
    let gate_of = |queued: &QueuedPod, plugins: &mut Plugins<'_>| {
        let first = profile.pre_enqueue.iter().filter(gated_last);
        let others = profile.pre_enqueue.iter().filter(|plugin| !gated_last(plugin));
        let point = ExtensionPoint::PreEnqueue.into();
        plugins.probe.start(Span::Point(point, &profile.scheduler_name));
        let gate = first.chain(others).find(|plugin| !plugin_passes(plugin, &queued.pod, plugins));
        // kube-scheduler reports this extension point as a success in every case.
        plugins.probe.stop(Span::Point(point, &profile.scheduler_name), Code::Success);
        gate
    };
    let gate = entity.pods().iter().find_map(|queued| gate_of(queued, plugins));
    if let Some(plugin) = gate {
        let history = entity.history_mut();
        history.unschedulable_plugins.insert(plugin.name.clone());
        history.gating_plugin = Some(plugin.name.clone());
    }
    gate.is_none()
}

/// Runs one plugin. A panic gates the pod.
fn plugin_passes(plugin: &Named<dyn PreEnqueue>, pod: &Pod, plugins: &mut Plugins<'_>) -> bool {
    let handle = plugins.handle;
    let status = call_plugin(ExtensionPoint::PreEnqueue, &plugin.name, plugins.probe, || {
        plugin.plugin.pre_enqueue(pod, &handle)
    });
    status.is_ok_and(|status| status.is_success())
}
