//! Claims, slices and classes of devices, and indexes that find them without a scan.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use rustc_hash::FxHashMap;

use super::Cluster;
use super::device_shapes::{NodeShapes, texts_of, texts_of_claim};
use super::object::Indexed;
use super::object_state::ObjectState;
use super::short_set::ShortSet;
use super::storage::{Name, Namespaced};
use super::texts::Texts;
use api::device::{
    AllocatedState, Allocation, ChangeLog, Device, DeviceClass, DeviceDescription, DeviceTaintRule,
    NodeScope, PoolKey, ResourceClaim, ResourceSlice,
};
use api::{ObjectKey, Pod, Time, Uid};

/// Prefix of the implicit extended resource of a DeviceClass, followed by the name of the class.
const IMPLICIT_PREFIX: &str = "deviceclass.resource.kubernetes.io/";
/// The number of descriptions up to which unused ones are kept.
const DESCRIPTIONS_MIN: usize = 1024;

/// Claims, slices and classes of devices.
#[derive(Debug, Clone, Default)]
pub(super) struct Devices {
    pub(super) claims: Namespaced<Arc<ResourceClaim>>,
    claims_by_uid: HashMap<Uid, ShortSet<Name>>,
    claim_log: ChangeLog<Uid>,
    /// Claims that a scheduler created for extended resources, by the UID of the controller.
    extended_claims: HashMap<Uid, ShortSet<Name>>,
    pub(super) allocated: AllocatedState,
    pub(super) classes: BTreeMap<Arc<str>, Arc<DeviceClass>>,
    /// The classes of an extended resource, the newest first.
    class_names: HashMap<Arc<str>, BTreeSet<ClassRank>>,
    taint_rules: BTreeMap<Arc<str>, Arc<DeviceTaintRule>>,
    pub(super) pools: DevicePools,
    pub(super) shapes: NodeShapes,
}

/// Creation, the newest first, and name of a class.
type ClassRank = (Reverse<Option<Time>>, Arc<str>);

impl Devices {
    /// Adds or removes a claim, slice, class or taint rule; ignores other objects.
    pub(super) fn set(&mut self, object: Indexed<'_>) {
        let Indexed { key, state, is_there } = object;
        match state {
            ObjectState::ResourceClaim(claim) => self.set_claim(key, object.present(claim)),
            ObjectState::ResourceSlice(slice) => self.set_slice(&key.name, object.present(slice)),
            ObjectState::DeviceClass(class) => self.set_class(&key.name, object.present(class)),
            ObjectState::DeviceTaintRule(rule) if is_there => {
                self.taint_rules.insert(key.name.clone(), rule.clone());
            }
            ObjectState::DeviceTaintRule(_) => drop(self.taint_rules.remove(&key.name)),
            _ => {}
        }
    }

    fn set_slice(&mut self, name: &Arc<str>, slice: Option<Arc<ResourceSlice>>) {
        let (mut pools, mut nodes) = (BTreeSet::new(), BTreeSet::new());
        if let Some(old) = self.pools.slice(name) {
            if slice.as_ref() == Some(old) {
                return;
            }
            add_nodes(old, &mut nodes);
            pools.insert(old.pool.key.clone());
        }
        if let Some(slice) = &slice {
            self.note_attributes(&slice.devices);
            pools.insert(slice.pool.key.clone());
        }
        self.pools.set_slice(name, slice);
        for key in pools {
            self.reshape_pool(&key, nodes.clone());
        }
    }

    fn set_claim(&mut self, key: &ObjectKey, claim: Option<Arc<ResourceClaim>>) {
        let ObjectKey { namespace, name, .. } = key;
        let key: Name = (namespace.clone(), name.clone());
        let mut pools = BTreeSet::new();
        let old = self.claims.remove(namespace, name);
        let claims = self.claims_by_uid.len();
        if let Some(old) = &old
            && claim.as_ref().is_none_or(|claim| claim.uid != old.uid)
        {
            self.claim_log.push(old.uid.clone(), claims);
        }
        if let Some(claim) = &claim {
            self.claim_log.push(claim.uid.clone(), claims);
        }
        if let Some(old) = old {
            remove_uid(&mut self.claims_by_uid, &old.uid, &key);
            if let Some(owner) = extended_owner(&old) {
                remove_uid(&mut self.extended_claims, owner, &key);
            }
            if let Some(allocation) = &old.allocation {
                self.allocated.remove(allocation);
                pools.extend(pools_of(allocation));
            }
        }
        if let Some(claim) = claim {
            self.claims_by_uid.entry(claim.uid.clone()).or_default().insert(key.clone());
            if let Some(owner) = extended_owner(&claim) {
                self.extended_claims.entry(owner.clone()).or_default().insert(key);
            }
            if let Some(allocation) = &claim.allocation {
                self.allocated.add(allocation);
                pools.extend(pools_of(allocation));
            }
            self.note_names(texts_of_claim(&claim.spec));
            self.note_constraints(&claim.spec);
            self.claims.insert(namespace, name, claim);
        }
        pools.iter().for_each(|key| self.reallocate_pool(key));
    }

    fn set_class(&mut self, name: &Arc<str>, class: Option<Arc<DeviceClass>>) {
        if let Some(old) = self.classes.remove(name)
            && let Some(resource) = &old.extended_resource_name
            && let Some(rivals) = self.class_names.get_mut(resource)
        {
            rivals.remove(&rank(&old));
            if rivals.is_empty() {
                self.class_names.remove(resource);
            }
        }
        if let Some(class) = class {
            if let Some(resource) = &class.extended_resource_name {
                self.class_names.entry(resource.clone()).or_default().insert(rank(&class));
            }
            self.note_names(texts_of(&class.selectors));
            self.classes.insert(name.clone(), class);
        }
    }
}

/// Returns the pools of the devices of an allocation.
fn pools_of(allocation: &Allocation) -> impl Iterator<Item = PoolKey> {
    let ids = allocation.results.iter().map(|result| &result.id);
    ids.map(|id| PoolKey { driver: id.driver.clone(), pool: id.pool.clone() })
}

/// Adds the nodes that a slice or its devices name.
fn add_nodes(slice: &ResourceSlice, nodes: &mut BTreeSet<Arc<str>>) {
    nodes.extend(Place::all(slice).into_iter().filter_map(|place| match place {
        Place::Node(node) => Some(node),
        Place::AnyNode => None,
    }));
}

fn remove_uid(index: &mut HashMap<Uid, ShortSet<Name>>, uid: &Uid, key: &Name) {
    if let Some(names) = index.get_mut(uid) {
        names.remove(key);
        if names.is_empty() {
            index.remove(uid);
        }
    }
}

/// Returns the UID of the pod for whose extended resources a scheduler created the claim.
fn extended_owner(claim: &ResourceClaim) -> Option<&Uid> {
    let owner = claim.controller.as_ref()?;
    claim.is_for_extended_resources.then_some(&owner.uid)
}

/// Returns the rank of a class among those of one extended resource; the lowest wins.
fn rank(class: &DeviceClass) -> ClassRank {
    (Reverse(class.created), class.name.clone())
}

/// The slices of one pool.
#[derive(Debug, Clone, Default)]
pub(super) struct PoolSlices {
    slices: BTreeMap<Arc<str>, Arc<ResourceSlice>>,
}

impl PoolSlices {
    /// Returns the slices by name.
    pub(super) fn slices(&self) -> impl Iterator<Item = &Arc<ResourceSlice>> {
        self.slices.values()
    }

    /// Returns whether the slices are one complete generation without contradictions.
    fn is_sound(&self) -> bool {
        let Some(first) = self.slices.values().next() else { return true };
        let (mut names, mut sets) = (HashSet::default(), HashMap::default());
        let slices = || self.slices.values();
        let is_complete = i64::try_from(self.slices.len()) == Ok(first.pool.slice_count)
            && slices().all(|slice| slice.pool == first.pool);
        let are_sets_distinct = slices()
            .flat_map(|slice| &slice.shared_counters)
            .all(|set| sets.insert(&set.name, set).is_none());
        let is_sound = |device: &Device| {
            device.consumes_counters.iter().all(|consumption| {
                sets.get(&consumption.set).is_some_and(|set| {
                    consumption.counters.iter().all(|(counter, _)| set.has(counter))
                })
            })
        };
        is_complete
            && are_sets_distinct
            && slices()
                .flat_map(|slice| &slice.devices)
                .all(|device| names.insert(&device.name) && is_sound(device))
    }
}

/// The slices of all pools, and the index from nodes to the pools that they may use.
#[derive(Debug, Clone, Default)]
pub struct DevicePools {
    pools: FxHashMap<PoolKey, PoolSlices>,
    /// The pool of each slice.
    pool_of: HashMap<Arc<str>, PoolKey>,
    /// The pools that name this node, and in how many slices.
    of_node: FxHashMap<Arc<str>, BTreeMap<PoolKey, usize>>,
    /// The pools that do not name their nodes, and in how many slices.
    of_any_node: BTreeMap<PoolKey, usize>,
    /// The pools whose slices are not one complete generation without contradictions.
    unsound: BTreeSet<PoolKey>,
    /// The unsound pools that have shared counters.
    unsound_with_counters: BTreeSet<PoolKey>,
    /// One description for all devices that look alike.
    descriptions: HashSet<Arc<DeviceDescription>>,
    /// The number of descriptions at which unused ones are dropped.
    sweep_at: usize,
    /// The names of drivers, devices, attributes and capacities, and versions.
    texts: Texts,
    log: ChangeLog<PoolKey>,
}

/// Where a slice can be used.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Node(Arc<str>),
    AnyNode,
}

impl Place {
    /// Returns the places of a slice, each once.
    fn all(slice: &ResourceSlice) -> BTreeSet<Self> {
        let place = |scope: &NodeScope| match scope {
            NodeScope::Node(name) => Some(Self::Node(name.clone())),
            NodeScope::All | NodeScope::Selector(_) => Some(Self::AnyNode),
            NodeScope::PerDevice | NodeScope::None => None,
        };
        match &slice.scope {
            NodeScope::PerDevice => {
                slice.devices.iter().filter_map(|device| place(&device.scope)).collect()
            }
            scope => place(scope).into_iter().collect(),
        }
    }
}

impl DevicePools {
    /// Adds the nodes that the slices of a pool, or their devices, name.
    pub fn add_nodes_of(&self, pool: &PoolKey, nodes: &mut BTreeSet<Arc<str>>) {
        self.slices(pool).for_each(|slice| add_nodes(slice, nodes));
    }

    /// Returns the slices of a pool if they are one complete generation without contradictions.
    pub(super) fn sound_slices(&self, pool: &PoolKey) -> Option<&PoolSlices> {
        self.pools.get(pool).filter(|_| self.is_sound(pool))
    }

    /// Returns whether the slices of a pool are one complete generation without contradictions: the
    /// names of devices and counter sets are unique, and all counters are defined.
    pub fn is_sound(&self, pool: &PoolKey) -> bool {
        !self.unsound.contains(pool)
    }

    /// Lets a slice share the texts and descriptions that many slices have. A slice that is equal
    /// to the known one of its name becomes that one.
    pub(super) fn share(&mut self, name: &str, slice: &mut Arc<ResourceSlice>) {
        if let Some(known) = self.slice(name).filter(|known| *known == slice) {
            *slice = known.clone();
            return;
        }
        let slice = Arc::make_mut(slice);
        self.texts.share(&mut slice.pool.key.driver);
        for device in &mut slice.devices {
            self.texts.share(&mut device.name);
            self.intern(&mut device.description);
        }
    }

    fn set_slice(&mut self, name: &Arc<str>, slice: Option<Arc<ResourceSlice>>) {
        self.remove_slice(name);
        if let Some(slice) = slice {
            self.index(&slice, true);
            let key = slice.pool.key.clone();
            self.pool_of.insert(name.clone(), key.clone());
            self.pools.entry(key.clone()).or_default().slices.insert(name.clone(), slice);
            self.touch(key);
        }
    }

    fn remove_slice(&mut self, name: &str) {
        let Some(key) = self.pool_of.remove(name) else { return };
        let Some(pool) = self.pools.get_mut(&key) else { return };
        if let Some(old) = pool.slices.remove(name) {
            if pool.slices.is_empty() {
                self.pools.remove(&key);
            }
            self.index(&old, false);
            drop(old);
            self.touch(key);
        }
    }

    /// Adds a slice to the indexes of pools, or removes it.
    fn index(&mut self, slice: &ResourceSlice, add: bool) {
        let key = &slice.pool.key;
        for place in Place::all(slice) {
            match place {
                Place::AnyNode => count(&mut self.of_any_node, key, add),
                Place::Node(node) => {
                    let pools = self.of_node.entry(node.clone()).or_default();
                    count(pools, key, add);
                    if pools.is_empty() {
                        self.of_node.remove(&node);
                    }
                }
            }
        }
    }

    /// Replaces the description by the one that all devices have that look alike.
    fn intern(&mut self, description: &mut Arc<DeviceDescription>) {
        if let Some(known) = self.descriptions.get(description) {
            *description = known.clone();
            return;
        }
        let texts = &mut self.texts;
        Arc::make_mut(description).texts_mut().for_each(|text| texts.share(text));
        if self.descriptions.len() >= self.sweep_at {
            self.descriptions.retain(|known| Arc::strong_count(known) > 1);
            self.sweep_at = DESCRIPTIONS_MIN.max(2 * self.descriptions.len());
        }
        self.descriptions.insert(description.clone());
    }

    fn touch(&mut self, key: PoolKey) {
        let pools = self.pools.len();
        self.log.push(key.clone(), pools);
        self.unsound.remove(&key);
        self.unsound_with_counters.remove(&key);
        let Some(pool) = self.pools.get_mut(&key) else { return };
        if !pool.is_sound() {
            if pool.slices().any(|slice| !slice.shared_counters.is_empty()) {
                self.unsound_with_counters.insert(key.clone());
            }
            self.unsound.insert(key);
        }
    }

    /// Returns the slice with this name.
    pub fn slice(&self, name: &str) -> Option<&Arc<ResourceSlice>> {
        self.pools.get(self.pool_of.get(name)?)?.slices.get(name)
    }

    /// Returns the slices of a pool, of any generation, by name.
    pub fn slices(&self, pool: &PoolKey) -> impl Iterator<Item = &Arc<ResourceSlice>> + Clone {
        self.pools.get(pool).into_iter().flat_map(|pool| pool.slices.values())
    }

    /// Returns all pools in order.
    pub fn pools(&self) -> Vec<&PoolKey> {
        let mut pools: Vec<_> = self.pools.keys().collect();
        pools.sort_unstable();
        pools
    }

    /// Returns the pools with a slice or device that names this node, in order.
    pub fn pools_naming(&self, node: &str) -> impl Iterator<Item = &PoolKey> {
        self.of_node.get(node).into_iter().flat_map(BTreeMap::keys)
    }

    /// Returns the pools with a slice or device for all nodes, or for nodes that match a selector,
    /// in order.
    pub fn pools_for_any_node(&self) -> impl Iterator<Item = &PoolKey> {
        self.of_any_node.keys()
    }

    /// Returns the pools with shared counters whose slices are not one complete generation without
    /// contradictions, in order.
    pub fn unsound_pools_with_counters(&self) -> impl Iterator<Item = &PoolKey> {
        self.unsound_with_counters.iter()
    }

    /// Returns the latest changes of slices by pool.
    pub const fn changes(&self) -> &ChangeLog<PoolKey> {
        &self.log
    }
}

fn count(pools: &mut BTreeMap<PoolKey, usize>, key: &PoolKey, add: bool) {
    if add {
        *pools.entry(key.clone()).or_default() += 1;
    } else if let Some(slices) = pools.get_mut(key) {
        *slices -= 1;
        if *slices == 0 {
            pools.remove(key);
        }
    }
}

/// Devices.
impl Cluster {
    /// Returns the ResourceClaim with this name.
    pub fn resource_claim(&self, namespace: &str, name: &str) -> Option<&Arc<ResourceClaim>> {
        self.devices.claims.get(namespace, name)
    }

    /// Returns the ResourceClaim with this UID.
    pub fn resource_claim_with_uid(&self, uid: &Uid) -> Option<&Arc<ResourceClaim>> {
        let mut names = self.devices.claims_by_uid.get(uid)?.iter();
        names.find_map(|(namespace, name)| self.resource_claim(namespace, name))
    }

    /// Returns the latest changes of ResourceClaims by UID.
    pub const fn resource_claim_changes(&self) -> &ChangeLog<Uid> {
        &self.devices.claim_log
    }

    /// Returns the ResourceClaims that a scheduler created for the extended resources of this pod,
    /// by name.
    pub fn extended_resource_claims_of(
        &self,
        pod: &Pod,
    ) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        let names = self.devices.extended_claims.get(&pod.uid).map(ShortSet::iter);
        let claims = names.into_iter().flatten();
        claims.filter_map(|(namespace, name)| self.resource_claim(namespace, name)).filter(
            |claim| {
                let owner = claim.controller.as_ref();
                owner.is_some_and(|owner| owner.name == pod.key.name && &*owner.kind == "Pod")
            },
        )
    }

    /// Returns the devices that are allocated according to the watched ResourceClaims.
    pub const fn allocated_devices(&self) -> &AllocatedState {
        &self.devices.allocated
    }

    /// Returns the DeviceClass with this name.
    pub fn device_class(&self, name: &str) -> Option<&Arc<DeviceClass>> {
        self.devices.classes.get(name)
    }

    /// Returns the DeviceClass that provides this extended resource. Of several classes that name
    /// one resource the newest provides it, of equally old ones the first by name. The others do
    /// not provide their implicit resource either.
    pub fn device_class_of_resource(&self, resource: &str) -> Option<&Arc<DeviceClass>> {
        let winner = |resource: &str| {
            let (_, name) = self.devices.class_names.get(resource)?.first()?;
            self.device_class(name)
        };
        let Some(name) = resource.strip_prefix(IMPLICIT_PREFIX) else { return winner(resource) };
        let class = self.device_class(name)?;
        let loses = class.extended_resource_name.as_ref().is_some_and(|explicit| {
            winner(explicit).is_some_and(|winner| winner.name != class.name)
        });
        (!loses).then_some(class)
    }

    /// Returns the DeviceTaintRules by name.
    pub fn device_taint_rules(&self) -> impl Iterator<Item = &Arc<DeviceTaintRule>> {
        self.devices.taint_rules.values()
    }

    /// Returns the ResourceSlices.
    pub const fn device_pools(&self) -> &DevicePools {
        &self.devices.pools
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::SetJson;
    use api::EventResource;

    fn set(cluster: &mut Cluster, kind: EventResource, name: &str, object: Option<Value>) {
        cluster.set_json(&kind, "", name, object.map(Arc::new));
    }

    fn slice(cluster: &mut Cluster, name: &str, pool: &str, scope: Value) {
        let mut spec = json!({
            "driver": "d", "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        });
        spec.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
        let object = json!({"metadata": {"name": name}, "spec": spec});
        set(cluster, EventResource::ResourceSlice, name, Some(object));
    }

    fn names<'a>(pools: impl Iterator<Item = &'a PoolKey>) -> Vec<&'a str> {
        pools.map(|key| &*key.pool).collect()
    }

    #[test]
    fn pools_are_found_by_the_nodes_of_their_slices_and_devices() {
        let mut cluster = Cluster::default();
        slice(&mut cluster, "s1", "p1", json!({"nodeName": "a"}));
        slice(&mut cluster, "s2", "p2", json!({"allNodes": true}));
        slice(&mut cluster, "s3", "p3", json!({"nodeSelector": {"nodeSelectorTerms": []}}));
        let counters = json!([{"name": "c", "counters": {"x": {"value": "1"}}}]);
        slice(&mut cluster, "s4", "p4", json!({"nodeName": "a", "sharedCounters": counters}));
        let devices = json!([{"name": "x", "nodeName": "a"}, {"name": "y", "nodeName": "a"},
            {"name": "z", "nodeName": "b"}]);
        let per_device = json!({"perDeviceNodeSelection": true, "devices": devices});
        slice(&mut cluster, "s5", "p5", per_device);
        let pools = cluster.device_pools();
        assert_eq!(names(pools.pools_naming("a")), ["p1", "p4", "p5"]);
        assert_eq!(names(pools.pools_naming("b")), ["p5"]);
        assert_eq!(names(pools.pools_for_any_node()), ["p2", "p3"]);
        assert_eq!(pools.unsound_pools_with_counters().count(), 0);
        let more = json!({"name": "x", "consumesCounters": [{"counterSet": "other"}]});
        slice(&mut cluster, "s6", "p4", json!({"nodeName": "a", "devices": [more]}));
        assert_eq!(names(cluster.device_pools().unsound_pools_with_counters()), ["p4"]);
        set(&mut cluster, EventResource::ResourceSlice, "s6", None);
        assert_eq!(cluster.device_pools().unsound_pools_with_counters().count(), 0);
        for name in ["s1", "s2", "s3", "s4", "s5"] {
            set(&mut cluster, EventResource::ResourceSlice, name, None);
        }
        let pools = cluster.device_pools();
        assert_eq!(pools.pools().len(), 0);
        assert_eq!(pools.pools_naming("a").count() + pools.pools_for_any_node().count(), 0);
    }

    #[test]
    fn changes_of_pools_are_reported_once_a_slice_differs() {
        let mut cluster = Cluster::default();
        slice(&mut cluster, "s1", "p1", json!({"nodeName": "a"}));
        let before = cluster.device_pools().changes().seen();
        slice(&mut cluster, "s1", "p1", json!({"nodeName": "a"}));
        assert!(cluster.device_pools().changes().is_at(&before));
        slice(&mut cluster, "s1", "p2", json!({"nodeName": "a"}));
        let pools = cluster.device_pools();
        assert_eq!(names(pools.changes().since(&before).unwrap()), ["p1", "p2"]);
        assert_eq!(pools.changes().since(&pools.changes().seen()).unwrap().count(), 0);
        for node in 0..2000 {
            slice(&mut cluster, "s1", "p2", json!({"nodeName": node.to_string()}));
        }
        assert!(cluster.device_pools().changes().since(&before).is_none());
    }

    #[test]
    fn devices_that_look_alike_share_a_description() {
        let mut cluster = Cluster::default();
        let device = |name: &str| json!({"name": name, "attributes": {"model": {"string": "m"}}});
        let devices = json!({"nodeName": "a", "devices": [device("x"), device("y")]});
        slice(&mut cluster, "s1", "p1", devices.clone());
        slice(&mut cluster, "s2", "p2", devices);
        let pools = cluster.device_pools();
        let [one, two] = ["s1", "s2"].map(|name| pools.slice(name).unwrap().clone());
        assert!(Arc::ptr_eq(&one.devices[0].description, &two.devices[1].description));
    }

    #[test]
    fn devices_of_allocated_claims_are_counted_until_they_are_deallocated() {
        let mut cluster = Cluster::default();
        let result = |device: &str, more: Value| {
            let mut json = json!({"request": "r", "driver": "d", "pool": "p", "device": device});
            json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json
        };
        let share = json!({"shareID": "s", "consumedCapacity": {"memory": "2"}});
        let results = [
            result("whole", json!({})),
            result("shared", share.clone()),
            result("shared", share),
            result("seen", json!({"adminAccess": true})),
        ];
        let claim = json!({"metadata": {"name": "c"},
            "status": {"allocation": {"devices": {"results": results}}}});
        let key = PoolKey { driver: "d".into(), pool: "p".into() };
        set(&mut cluster, EventResource::ResourceClaim, "c", Some(claim));
        let pool = cluster.allocated_devices().pool(&key).unwrap();
        assert_eq!(pool.len(), 2);
        assert_eq!(pool["whole"].dedicated, 1);
        assert_eq!((pool["shared"].shares, pool["shared"].dedicated), (2, 0));
        assert_eq!(pool["shared"].consumed["memory"], 4_000_000_000);
        set(&mut cluster, EventResource::ResourceClaim, "c", None);
        assert!(cluster.allocated_devices().is_empty());
    }

    #[test]
    fn newest_class_provides_an_extended_resource() {
        let mut cluster = Cluster::default();
        let class = |name: &str, created: &str| {
            json!({"metadata": {"name": name, "creationTimestamp": created},
                "spec": {"extendedResourceName": "example.com/gpu"}})
        };
        for (name, created) in [
            ("b", "2026-01-01T00:00:00Z"),
            ("a", "2026-01-01T00:00:00Z"),
            ("c", "2025-01-01T00:00:00Z"),
        ] {
            let object = Some(class(name, created));
            set(&mut cluster, EventResource::DeviceClass, name, object);
        }
        let provider = |cluster: &Cluster, resource: &str| {
            cluster.device_class_of_resource(resource).map(|class| class.name.to_string())
        };
        let implicit = |name: &str| format!("{IMPLICIT_PREFIX}{name}");
        assert_eq!(provider(&cluster, "example.com/gpu").as_deref(), Some("a"));
        assert_eq!(provider(&cluster, &implicit("a")).as_deref(), Some("a"));
        assert_eq!(provider(&cluster, &implicit("b")), None);
        set(&mut cluster, EventResource::DeviceClass, "a", None);
        assert_eq!(provider(&cluster, "example.com/gpu").as_deref(), Some("b"));
        assert_eq!(provider(&cluster, &implicit("b")).as_deref(), Some("b"));
    }
}
