//! VolumeRestrictions: rejects nodes where the pod would share a volume that allows one user. Disks
//! of some in-tree plugins allow one user per node; ReadWriteOncePod claims allow one pod in the
//! cluster.

mod disks;
mod hints;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{
    ActionType, Attempt, AttemptMut, Cluster, ClusterEvent, CycleState, Dependence, EventResource,
    Filter, FilterScope, NodeBits, NodeView, Plugin, PluginArgs, Pod, PodVolume, PreFilter,
    PreFilterExtensions, PreFilterResult, Status, Verdicts,
};

use crate::lookup;

/// Plugin name.
pub const NAME: &str = "VolumeRestrictions";

const REASON_DISK: &str = "node(s) had no available disk";
const REASON_READ_WRITE_ONCE_POD: &str = "node(s) unavailable due to PersistentVolumeClaim with \
     ReadWriteOncePod access mode already in-use by another pod";

/// The VolumeRestrictions plugin.
#[derive(Debug)]
struct VolumeRestrictions;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    let event = ClusterEvent::new;
    Ok(Plugin::new(NAME, VolumeRestrictions)
        .pre_filter()
        .pre_filter_extensions()
        .filter()
        .on_with_hint(
            event(EventResource::Pod, ActionType::DELETE),
            VolumeRestrictions::after_pod_deletion,
        )
        .on(event(EventResource::Node, ActionType::ADD))
        .on_with_hint(
            event(EventResource::PersistentVolumeClaim, ActionType::ADD),
            VolumeRestrictions::after_claim_addition,
        )
        .build())
}

/// The cycle state of PreFilter: the ReadWriteOncePod claims of the pod.
#[derive(Debug, Clone)]
struct PreFilterState {
    names: Arc<BTreeSet<Arc<str>>>,
    /// How many of the claims other pods use, on any node.
    in_use: i64,
}

impl PreFilterState {
    fn new(pod: &Pod, cluster: &Cluster) -> Result<Self, Status> {
        let namespace = &pod.key.namespace;
        let mut names = BTreeSet::new();
        for name in pod.spec.volumes.iter().filter_map(PodVolume::named_claim) {
            let claim = lookup::claim(cluster, namespace, name).map_err(Status::unresolvable)?;
            if claim.is_for_one_pod() {
                names.insert(name.clone());
            }
        }
        let used = |name: &&Arc<str>| cluster.is_claim_in_use(namespace, name);
        let in_use = count(names.iter().filter(used));
        Ok(Self { names: Arc::new(names), in_use })
    }

    fn of_cycle(state: &CycleState) -> Result<&Self, Status> {
        state.read().ok_or_else(no_data)
    }

    /// Returns how many volumes of another pod use one of the claims. As in Kubernetes, the
    /// namespace of that pod is ignored.
    fn shared_with(&self, other: &Pod) -> i64 {
        let claims = other.spec.volumes.iter().filter_map(PodVolume::named_claim);
        count(claims.filter(|name| self.names.contains(*name)))
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> i64 {
    items.map(|_| 1).sum()
}

fn no_data() -> Status {
    Status::error(r#"cannot read "PreFilterVolumeRestrictions" from cycleState"#)
}

impl PreFilter for VolumeRestrictions {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let AttemptMut { state, pod, handle, .. } = attempt;
        let claims = PreFilterState::new(pod, handle.cluster)?;
        let has_disks = pod.spec.volumes.iter().any(|volume| volume.disk().is_some());
        if !has_disks && claims.in_use == 0 {
            return Err(Status::skip());
        }
        state.write(claims);
        Ok(PreFilterResult::default())
    }
}

impl PreFilterExtensions for VolumeRestrictions {
    fn add_pod(&self, attempt: AttemptMut<'_>, other: &Pod, _: &NodeView<'_>) -> Status {
        change(attempt.state, |claims| claims.in_use += claims.shared_with(other))
    }

    fn remove_pod(&self, attempt: AttemptMut<'_>, other: &Pod, _: &NodeView<'_>) -> Status {
        change(attempt.state, |claims| claims.in_use -= claims.shared_with(other))
    }
}

fn change(state: &mut CycleState, change: impl FnOnce(&mut PreFilterState)) -> Status {
    match state.read_mut() {
        Some(claims) => {
            change(claims);
            Status::success()
        }
        None => no_data(),
    }
}

impl Filter for VolumeRestrictions {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        if node.pods().any(|other| disks::conflict(attempt.pod, other)) {
            return Status::unschedulable(REASON_DISK);
        }
        match PreFilterState::of_cycle(attempt.state) {
            Ok(claims) if claims.in_use > 0 => Status::unschedulable(REASON_READ_WRITE_ONCE_POD),
            Ok(_) => Status::success(),
            Err(status) => status,
        }
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        match PreFilterState::of_cycle(attempt.state)?.in_use > 0 {
            true => nodes.clear(),
            false => disks::retain_free(attempt.pod, attempt.handle.cluster, nodes),
        }
        Ok(())
    }

    /// A claim for one pod that is in use, on any node, rejects every node.
    fn dependence(&self, attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        let scope = match PreFilterState::of_cycle(attempt.state) {
            Ok(claims) if claims.in_use == 0 => FilterScope::Node,
            _ => FilterScope::Cluster,
        };
        Some(Dependence::on(scope))
    }

    fn explain_set(&self, attempt: &Attempt<'_>, rejected: &NodeBits, verdicts: &mut Verdicts) {
        let mut free = rejected.clone();
        disks::retain_free(attempt.pod, attempt.handle.cluster, &mut free);
        let mut conflicting = rejected.clone();
        conflicting.subtract(&free);
        verdicts.record_all(&conflicting, Status::unschedulable(REASON_DISK));
        verdicts.record_all(&free, Status::unschedulable(REASON_READ_WRITE_ONCE_POD));
    }
}
