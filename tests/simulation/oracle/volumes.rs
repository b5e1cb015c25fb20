//! Whether the volumes of a pod are usable on a node, computed naively.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::storage::{PersistentVolume, PersistentVolumeClaim};
use framework::{Pod, PodVolume, PodVolumeSource};

use super::super::churn::nodes::ZONE;
use super::storage::Storage;
use super::{Oracle, Question};

/// Returns the names of the claims of a pod.
fn named_claims(pod: &Pod) -> BTreeSet<Arc<str>> {
    pod.spec.volumes.iter().filter_map(PodVolume::named_claim).cloned().collect()
}

impl Oracle<'_> {
    /// Returns the names of the ReadWriteOncePod claims of the pod.
    fn claims_for_one(&self, pod: &Pod) -> BTreeSet<Arc<str>> {
        let mut own = named_claims(pod);
        own.retain(|name| {
            let claim = self.related.storage.claim_named(pod, name);
            claim.is_some_and(|claim| claim.is_for_one_pod())
        });
        own
    }

    /// Whether a pod on the node has a claim of the same name as a ReadWriteOncePod claim in
    /// another namespace. As in Kubernetes, the pod is evicted for that, in vain.
    pub(crate) fn has_namesake_of_claim(&self, node: &str, pod: &Pod) -> bool {
        let own = self.claims_for_one(pod);
        let pods = self.places.iter().filter(|place| *place.node.name == *node);
        let mut strangers = pods
            .flat_map(|place| &place.pods)
            .filter(|other| other.key.namespace != pod.key.namespace);
        strangers.any(|other| !named_claims(other).is_disjoint(&own))
    }
}

impl Question<'_> {
    /// Whether bound claims are usable here, others can get volumes, and no pod conflicts.
    pub(super) fn has_its_volumes(&self) -> bool {
        if self.pod.spec.volumes.is_empty() {
            return true;
        }
        let Some(claims) = self.usable_claims() else { return false };
        let (bound, unbound): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|claim| claim.is_fully_bound());
        bound.into_iter().all(|claim| self.can_use(claim))
            && self.can_get(unbound)
            && self.is_in_their_zones()
            && self.has_its_claims_for_itself()
            && self.has_its_disks_for_itself()
            && self.can_attach()
    }

    fn storage(&self) -> &Storage {
        &self.oracle.related.storage
    }

    /// Returns the claims of the pod, if all exist.
    fn usable_claims(&self) -> Option<Vec<&Arc<PersistentVolumeClaim>>> {
        let claims: Option<Vec<_>> = self.storage().claims_of(self.pod).collect();
        let volumes = self.pod.spec.volumes.iter();
        let with_claims = volumes.filter(|volume| volume.claim_name(&self.pod.key.name).is_some());
        let is_usable = |(volume, claim): (&PodVolume, &&Arc<PersistentVolumeClaim>)| {
            let is_own = claim.controller.as_ref() == Some(&self.pod.uid);
            !claim.lost
                && !claim.terminating
                && (is_own || volume.source != PodVolumeSource::Ephemeral)
        };
        claims.filter(|claims| with_claims.zip(claims).all(is_usable))
    }

    fn can_use(&self, claim: &PersistentVolumeClaim) -> bool {
        self.storage().volume_of(claim).is_some_and(|volume| self.is_reachable(volume))
    }

    fn is_reachable(&self, volume: &PersistentVolume) -> bool {
        let selector = volume.node_selector.as_ref();
        selector.is_none_or(|own| own.matches(&self.place.node).is_ok_and(|matches| matches))
    }

    /// Whether there are volumes for these claims, or they can be provisioned. The smallest claim
    /// chooses first.
    fn can_get(&self, mut claims: Vec<&Arc<PersistentVolumeClaim>>) -> bool {
        let waits = |claim: &PersistentVolumeClaim| {
            let class = self.storage().class_of(claim);
            claim.volume_name.is_none() && class.is_some_and(|own| own.waits_for_first_consumer())
        };
        if !claims.iter().all(|claim| waits(claim)) {
            return false;
        }
        claims.sort_by_key(|claim| claim.request);
        let mut taken = BTreeSet::new();
        claims.into_iter().all(|claim| match &claim.selected_node {
            Some(selected) => *selected == self.place.node.name && self.can_be_made(claim),
            None => match self.volume_for(claim, &taken) {
                Some(volume) => taken.insert(volume.name.clone()),
                None => self.can_be_made(claim),
            },
        })
    }

    /// Returns the smallest sufficient volume, or the one that is reserved for the claim, which
    /// then may use no other.
    fn volume_for(
        &self,
        claim: &PersistentVolumeClaim,
        taken: &BTreeSet<Arc<str>>,
    ) -> Option<&Arc<PersistentVolume>> {
        let holds = |volume: &&Arc<PersistentVolume>| {
            !taken.contains(&volume.name)
                && !volume.terminating
                && volume.class == claim.class
                && volume.capacity >= claim.request.unwrap_or_default()
                && volume.volume_mode == claim.volume_mode
        };
        let volumes = || self.storage().volumes.values().filter(holds);
        if let Some(reserved) = volumes().find(|volume| volume.is_for(claim)) {
            return Some(reserved).filter(|volume| self.is_reachable(volume));
        }
        let will_do = volumes().filter(|volume| {
            let selector = claim.selector.as_ref().map(|own| own.as_ref());
            volume.available
                && volume.claim_ref.is_none()
                && selector.is_none_or(|own| own.is_ok_and(|own| own.matches(&volume.labels)))
                && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
                && self.is_reachable(volume)
        });
        will_do.min_by_key(|volume| volume.capacity)
    }

    fn can_be_made(&self, claim: &PersistentVolumeClaim) -> bool {
        let labels = &self.place.node.labels;
        let Some(class) = self.storage().class_of(claim) else { return false };
        let has_room = || {
            let capacities = self.storage().capacities.values();
            let mut here = capacities.filter(|capacity| {
                let topology = capacity.node_topology.as_ref();
                capacity.class == class.name
                    && topology.is_some_and(|own| own.as_ref().is_ok_and(|own| own.matches(labels)))
            });
            here.any(|capacity| capacity.limit >= claim.request)
        };
        class.provisions()
            && class.allowed_topologies.matches(labels)
            && (!self.storage().reports_room(&class.provisioner) || has_room())
    }

    /// Whether the zone labels of volumes match those of the node, if it has any.
    fn is_in_their_zones(&self) -> bool {
        let Some(here) = self.place.node.labels.get(ZONE) else { return true };
        let named = self.pod.spec.volumes.iter().filter_map(PodVolume::named_claim);
        let claims = named.filter_map(|name| self.storage().claim_named(self.pod, name));
        let mut volumes = claims.filter_map(|claim| self.storage().volume_of(claim));
        volumes.all(|volume| {
            let zones = volume.labels.get(ZONE);
            zones.is_none_or(|zones| zones.split("__").any(|zone| zone == here))
        })
    }

    /// Whether no pod uses a ReadWriteOncePod claim of the pod. As in Kubernetes, additional and
    /// removed pods count by the names of their claims alone, and only if a claim is in use or the
    /// pod has a disk.
    fn has_its_claims_for_itself(&self) -> bool {
        let own = self.oracle.claims_for_one(self.pod);
        let users = self.oracle.placed.iter().filter(|other| {
            other.uid != self.pod.uid && other.key.namespace == self.pod.key.namespace
        });
        let used: BTreeSet<_> = users.flat_map(|other| named_claims(other)).collect();
        let in_use = own.intersection(&used).count();
        let has_disks = self.pod.spec.volumes.iter().any(|volume| volume.disk().is_some());
        if in_use == 0 && !has_disks {
            return true;
        }
        let shared = |pod: &Arc<Pod>| named_claims(pod).intersection(&own).count();
        let come: usize = self.guests_at(self.place).map(shared).sum();
        let gone = self.place.pods.iter().filter(|other| self.is_gone(other));
        in_use + come <= gone.map(shared).sum()
    }

    /// Whether disks are shared only by pods that all mount them read-only.
    fn has_its_disks_for_itself(&self) -> bool {
        let conflicts = |own: &PodVolume, other: &PodVolume| {
            let is_read = |volume: &PodVolume| match &volume.source {
                PodVolumeSource::InTree(in_tree) => in_tree.read_only,
                _ => false,
            };
            own.disk().is_some() && own.disk() == other.disk() && !(is_read(own) && is_read(other))
        };
        self.others_at(self.place).all(|other| {
            let volumes = &other.spec.volumes;
            !self.pod.spec.volumes.iter().any(|own| volumes.iter().any(|it| conflicts(own, it)))
        })
    }

    /// Whether the pod needs no further volume here, or the attach limit allows it.
    fn can_attach(&self) -> bool {
        let node = &self.place.node.name;
        self.storage().limits(node).all(|(driver, limit)| {
            let others = self.others_at(self.place);
            let mut used: BTreeSet<String> =
                others.flat_map(|other| self.storage().handles(other, driver)).collect();
            let wanted: BTreeSet<String> = self.storage().handles(self.pod, driver).collect();
            used.extend(self.storage().attached(node, driver));
            let new = wanted.difference(&used).count();
            new == 0 || used.len() + new <= limit
        })
    }
}
