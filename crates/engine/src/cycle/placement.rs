//! Reserve, Permit and Unreserve for a pod on its chosen node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework::{
    Attempt, AttemptMut, Code, CycleState, ExtensionPoint, PermitVerdict, Pod, Status, WaitingPod,
};

use super::dry_run::depends_on_pods;
use crate::context::Context;
use crate::plugin_call::{HasCode, call_plugin};
use crate::ports::{Point, Span};
use crate::profile::Profile;
use crate::reserving::Reserving;
use crate::world::World;

/// Longest wait in Permit, whatever a plugin asks for.
const MAX_PERMIT_TIMEOUT: Duration = Duration::from_mins(15);

/// An assumed pod and its node.
pub(crate) struct Placement<'a> {
    pub(crate) world: &'a World,
    pub(crate) profile: &'a Profile,
    pub(crate) pod: &'a Arc<Pod>,
    pub(crate) node: &'a str,
    pub(crate) state: &'a mut CycleState,
}

impl Placement<'_> {
    /// Runs Reserve and Permit. Returns the waiting pod if some plugin asks to wait.
    ///
    /// # Errors
    /// A plugin rejects the pod or fails.
    pub(crate) fn reserve_and_permit(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Result<Option<WaitingPod>, Status> {
        let reserve = Span::Point(ExtensionPoint::Reserve.into(), &self.profile.scheduler_name);
        cx.probe.start(reserve);
        let reserved = self.reserve(cx);
        cx.probe.stop(reserve, reserved.code());
        reserved?;
        self.permit_reserved(cx)
    }

    /// Runs Permit for a pod whose Reserve has run. Returns the waiting pod if some plugin asks to
    /// wait.
    ///
    /// # Errors
    /// A plugin rejects the pod or fails.
    pub(crate) fn permit_reserved(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Result<Option<WaitingPod>, Status> {
        let permit = Span::Point(ExtensionPoint::Permit.into(), &self.profile.scheduler_name);
        cx.probe.start(permit);
        let permitted = self.permit(cx);
        let code = match &permitted {
            Ok(None) => Code::Success,
            Ok(Some(_)) => Code::Wait,
            Err(status) => status.code(),
        };
        cx.probe.stop(permit, code);
        permitted
    }

    fn reserve(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        self.reserving(cx).reserve(cx.probe)
    }

    /// Runs Unreserve in reverse order, also of plugins whose Reserve did not run.
    pub(crate) fn unreserve(&mut self, cx: &mut Context<'_>) {
        let span = Span::Point(Point::Unreserve, &self.profile.scheduler_name);
        cx.probe.start(span);
        self.reserving(cx).unreserve(cx.probe);
        cx.probe.stop(span, Code::Success);
    }

    fn reserving(&mut self, cx: &Context<'_>) -> Reserving<'_> {
        let Self { world, profile, pod, node, state } = self;
        Reserving { profile, pod, node, state, handle: world.handle(cx.now) }
    }

    /// Checks whether the node still exists and passes the filters that do not depend on the pods
    /// of a node. The pod holds its room on the node, so the other filters have nothing to decide.
    ///
    /// # Errors
    /// The reason why the node does not take the pod any more.
    pub(crate) fn still_passes(&self, cx: &mut Context<'_>) -> Result<(), String> {
        let Some(node) = self.world.cluster().node_named(self.node) else {
            return Err("the node is gone".to_owned());
        };
        let (handle, mut state) = (self.world.handle(cx.now), CycleState::new());
        for filter in &self.profile.filter {
            let name = &filter.name;
            if depends_on_pods(filter, &Attempt::new(&state, self.pod, &handle)) {
                continue;
            }
            let pre_filter = self.profile.pre_filter.iter().find(|plugin| plugin.name == *name);
            if let Some(plugin) = pre_filter {
                let answer = call_plugin(ExtensionPoint::PreFilter, name, cx.probe, || {
                    plugin.plugin.pre_filter(AttemptMut::new(&mut state, self.pod, &handle))
                });
                match answer.unwrap_or_else(Err) {
                    Ok(_) => {}
                    Err(status) if status.code() == Code::Skip => continue,
                    Err(status) if status.is_success() => {}
                    Err(status) => return Err(status.message()),
                }
            }
            let world = self.world.cluster().node(node);
            let status = call_plugin(ExtensionPoint::Filter, name, cx.probe, || {
                filter.plugin.filter(&Attempt::new(&state, self.pod, &handle), &world)
            })
            .unwrap_or_else(|status| status);
            if !status.is_success() {
                return Err(status.message());
            }
        }
        Ok(())
    }

    fn permit(&mut self, cx: &mut Context<'_>) -> Result<Option<WaitingPod>, Status> {
        let handle = self.world.handle(cx.now);
        let mut pending = BTreeMap::new();
        for plugin in &self.profile.permit {
            let verdict = call_plugin(ExtensionPoint::Permit, &plugin.name, cx.probe, || {
                plugin.plugin.permit(AttemptMut::new(self.state, self.pod, &handle), self.node)
            })
            .unwrap_or_else(PermitVerdict::Reject);
            match verdict {
                PermitVerdict::Allow => {}
                PermitVerdict::Wait { timeout, .. } => {
                    pending.insert(plugin.name.clone(), cx.now + timeout.min(MAX_PERMIT_TIMEOUT));
                }
                PermitVerdict::Reject(status) if status.is_rejection() => {
                    return Err(status.by(&plugin.name));
                }
                PermitVerdict::Reject(status) => {
                    let name = &plugin.name;
                    let text = format!("running Permit plugin {name:?}: {}", status.message());
                    return Err(Status::error(text).by(name));
                }
            }
        }
        let node = self.world.placed(&self.pod.uid).map(|placed| placed.node);
        Ok(node.filter(|_| !pending.is_empty()).map(|node| WaitingPod {
            pod: self.pod.clone(),
            node,
            since: cx.now,
            pending,
        }))
    }
}
