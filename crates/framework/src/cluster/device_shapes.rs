//! Nodes whose devices look alike.
//!
//! The search for devices on a node depends on what the devices are and on which of them are in
//! use, not on their names. Nodes with equal devices have one *shape*, and share the answer whether
//! a claim fits. A shape follows the changes of slices and allocations of its node alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::devices::{Devices, PoolSlices};
use super::{Cluster, DeviceShape, NodeIx};
use crate::device::{
    Attribute, AttributeRule, ClaimSpec, CounterConsumption, CounterSet, Device, DeviceDescription,
    DeviceSelector, DeviceTaint, DeviceUse, NodeScope, PoolKey, PoolUse,
};

/// What the search reads of a device.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SearchedDevice {
    /// Without the attributes that no selector names.
    description: DeviceDescription,
    consumes_counters: Box<[CounterConsumption]>,
    taints: Box<[DeviceTaint]>,
    has_binding_conditions: bool,
    is_spoilt: bool,
    allocations: Option<DeviceUse>,
}

/// What the search reads of a pool with devices of one node.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PoolShape {
    counter_sets: Box<[CounterSet]>,
    devices: Box<[SearchedDevice]>,
}

/// The pools of a node in the order of the search.
type NodeShape = Arc<[Arc<PoolShape>]>;

/// The number of the latest shape in any cluster. A copy of a cluster changes on its own; the
/// answers that a plugin keeps for a shape stay true in both.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// The place of nodes that are compared with no other.
const ALONE: u32 = u32::MAX;

/// The shapes of all nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeShapes {
    /// The identifiers of attributes of devices, and whether a selector or constraint names them.
    attributes: BTreeMap<Arc<str>, bool>,
    /// The shapes of the pools whose slices are all for one node, and that are complete.
    pools: HashMap<PoolKey, Arc<PoolShape>>,
    /// The shapes that nodes have.
    shapes: HashMap<NodeShape, Members>,
    /// The shape of each place; place 0 is that of nodes without devices. Places of shapes that no
    /// node has are reused.
    places: Vec<DeviceShape>,
    free: Vec<u32>,
    /// The places of nodes with devices; their shape, unless they are compared with no other.
    nodes: HashMap<Arc<str>, (u32, Option<NodeShape>)>,
    /// The nodes whose place has changed since [`Cluster`] took it into its column.
    moved: Vec<Arc<str>>,
    /// The place of each node, by [`NodeIx::index`].
    column: Vec<u32>,
}

/// The nodes of a shape.
#[derive(Debug, Clone, Copy)]
struct Members {
    place: u32,
    count: usize,
}

impl NodeShapes {
    /// Sets the shape of a node with devices; `None` for one that is compared with no other.
    fn set_node(&mut self, node: &Arc<str>, shape: Option<NodeShape>) {
        self.remove_node(node);
        let place = shape.as_ref().map_or(ALONE, |shape| self.place_of(shape));
        self.nodes.insert(node.clone(), (place, shape));
    }

    /// Takes in that a node has no devices.
    fn remove_node(&mut self, node: &Arc<str>) {
        self.moved.push(node.clone());
        if let Some((place, Some(old))) = self.nodes.remove(node)
            && let Some(members) = self.shapes.get_mut(&old)
        {
            members.count -= 1;
            if members.count == 0 {
                self.shapes.remove(&old);
                self.free.push(place);
            }
        }
    }

    /// Counts a node of this shape; returns the place of the shape.
    fn place_of(&mut self, shape: &NodeShape) -> u32 {
        if let Some(members) = self.shapes.get_mut(shape) {
            members.count += 1;
            return members.place;
        }
        let number = DeviceShape(LATEST.fetch_add(1, Ordering::Relaxed) + 1);
        if self.places.is_empty() {
            self.places.push(DeviceShape(0));
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(number);
            u32::try_from(self.places.len() - 1).expect("fewer than 2^32 shapes")
        });
        self.places[place as usize] = number;
        self.shapes.insert(shape.clone(), Members { place, count: 1 });
        place
    }

    /// Returns the place of a node.
    fn place(&self, node: &str) -> u32 {
        self.nodes.get(node).map_or(0, |(place, _)| *place)
    }

    /// Adds a row for a node.
    pub(super) fn add_row(&mut self, row: NodeIx, node: &str) {
        if self.column.len() <= row.index() {
            self.column.resize(row.index() + 1, 0);
        }
        self.column[row.index()] = self.place(node);
    }

    /// Takes the places that have changed into the column of the nodes.
    pub(super) fn update_column(&mut self, rows: &HashMap<Arc<str>, NodeIx>) {
        for node in std::mem::take(&mut self.moved) {
            if let Some(row) = rows.get(&node) {
                self.column[row.index()] = self.place(&node);
            }
        }
    }
}

/// The shapes of all nodes, for searches on many of them.
#[derive(Debug, Clone, Copy)]
pub struct DeviceShapes<'a> {
    column: &'a [u32],
    shapes: &'a [DeviceShape],
}

impl DeviceShapes<'_> {
    /// Returns the shape of a node and the place of the shape, which is less than the number of
    /// shapes that nodes have had at one time; `None` for a node that is compared with no other.
    #[inline]
    pub fn of(&self, node: NodeIx) -> Option<(usize, DeviceShape)> {
        let place = self.column.get(node.index()).copied().unwrap_or(0);
        if place == 0 {
            return Some((0, DeviceShape(0)));
        }
        let place = place as usize;
        Some((place, *self.shapes.get(place)?))
    }
}

impl Devices {
    /// Notes the attributes of new devices.
    pub(super) fn note_attributes(&mut self, devices: &[Device]) {
        for (name, _) in devices.iter().flat_map(|device| &device.description.attributes) {
            let id = identifier(name);
            if !self.shapes.attributes.contains_key(id) {
                let is_named = self.is_named(id);
                self.shapes.attributes.insert(id.into(), is_named);
            }
        }
    }

    /// Returns whether a selector or constraint of a class or claim names the attribute.
    fn is_named(&self, id: &str) -> bool {
        let classes = self.classes.values();
        let claims = self.claims.values();
        classes.flat_map(|class| texts_of(&class.selectors)).any(|text| names(text, id))
            || claims.flat_map(|claim| texts_of_claim(&claim.spec)).any(|text| names(text, id))
    }

    /// Notes the attributes that a class or claim names. All shapes change if one was not named
    /// before.
    pub(super) fn note_names<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        let mut is_new = false;
        for id in texts.flat_map(words) {
            if let Some(is_named @ false) = self.shapes.attributes.get_mut(id) {
                *is_named = true;
                is_new = true;
            }
        }
        if is_new {
            let pools: Vec<_> = self.pools.pools().into_iter().cloned().collect();
            for key in pools {
                self.reshape_pool(&key, BTreeSet::new());
            }
        }
    }

    /// Computes the shape of a pool again, and that of the nodes that it concerns, besides `nodes`,
    /// which it concerned before.
    pub(super) fn reshape_pool(&mut self, key: &PoolKey, mut nodes: BTreeSet<Arc<str>>) {
        self.pools.add_nodes_of(key, &mut nodes);
        let allocations = self.allocated.pool(key);
        let attributes = &self.shapes.attributes;
        let slices = self.pools.sound_slices(key).filter(|_| nodes.len() == 1);
        let shape = slices.and_then(|slices| pool_shape(slices, allocations, attributes));
        match shape {
            Some(shape) => drop(self.shapes.pools.insert(key.clone(), Arc::new(shape))),
            None => drop(self.shapes.pools.remove(key)),
        }
        for node in nodes {
            let pools = self.pools.pools_naming(&node).map(|key| self.shapes.pools.get(key));
            let shape: Option<NodeShape> = pools.map(|shape| shape.cloned()).collect();
            match shape {
                Some(shape) if shape.is_empty() => self.shapes.remove_node(&node),
                shape => self.shapes.set_node(&node, shape),
            }
        }
    }
}

/// Returns the texts of selectors.
pub(super) fn texts_of(selectors: &[DeviceSelector]) -> impl Iterator<Item = &str> {
    selectors.iter().filter_map(|selector| match selector {
        DeviceSelector::Cel(text) => Some(&**text),
        DeviceSelector::Unknown => None,
    })
}

/// Returns the texts of a claim that can name attributes.
pub(super) fn texts_of_claim(spec: &ClaimSpec) -> impl Iterator<Item = &str> {
    let bodies = spec.requests.iter().flat_map(|request| request.bodies());
    let constraints = spec.constraints.iter().filter_map(|constraint| match &constraint.rule {
        AttributeRule::Match(name) | AttributeRule::Distinct(name) => Some(&**name),
        AttributeRule::Unknown => None,
    });
    bodies.flat_map(|body| texts_of(&body.selectors)).chain(constraints)
}

/// Returns the words of an expression. The name of an attribute that is read by name is one.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
}

fn names(text: &str, id: &str) -> bool {
    words(text).any(|word| word == id)
}

/// Returns the name of an attribute without its domain.
fn identifier(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, id)| id)
}

/// Returns the shape of a pool; `None` if a slice is not for one node by its name.
fn pool_shape(
    pool: &PoolSlices,
    allocations: Option<&PoolUse>,
    attributes: &BTreeMap<Arc<str>, bool>,
) -> Option<PoolShape> {
    let (mut devices, mut counter_sets) = (Vec::new(), Vec::new());
    for slice in pool.slices() {
        if !matches!(slice.scope, NodeScope::Node(_)) {
            return None;
        }
        counter_sets.extend(slice.shared_counters.iter().cloned());
        devices.extend(slice.devices.iter().map(|device| SearchedDevice {
            description: named_part(&device.description, attributes),
            consumes_counters: device.consumes_counters.clone(),
            taints: device.taints.clone(),
            has_binding_conditions: !device.binding_conditions.is_empty(),
            is_spoilt: device.problem.is_some(),
            allocations: allocations.and_then(|pool| pool.get(&device.name)).cloned(),
        }));
    }
    Some(PoolShape { counter_sets: counter_sets.into(), devices: devices.into() })
}

/// Returns the description without attributes that no selector names. Versions and values of
/// unknown types stay: if they cannot be read, every selector fails.
fn named_part(
    description: &DeviceDescription,
    named: &BTreeMap<Arc<str>, bool>,
) -> DeviceDescription {
    let is_kept = |name: &str, value: &Attribute| {
        matches!(value, Attribute::Version(_) | Attribute::Unsupported)
            || named.get(identifier(name)).copied().unwrap_or(true)
    };
    let attributes = description.attributes.iter().filter(|(name, value)| is_kept(name, value));
    DeviceDescription { attributes: attributes.cloned().collect(), ..description.clone() }
}

/// Nodes whose devices look alike.
impl Cluster {
    /// Returns the shapes of the devices of all nodes according to slices and watched claims. Nodes of
    /// one shape have the same devices in the same order with the same allocations, apart from names
    /// and from [hidden](Self::names_hidden_attribute) attributes. A node is compared with no other if
    /// devices are not of this node alone, or if one of its pools is being updated or contradicts
    /// itself.
    ///
    /// `None` if every node considers a pool that is not its own.
    pub fn device_shapes(&self) -> Option<DeviceShapes<'_>> {
        let Devices { pools, shapes, .. } = &self.devices;
        let is_shared = pools.pools_for_any_node().next().is_some()
            || pools.unsound_pools_with_counters().next().is_some();
        (!is_shared).then_some(DeviceShapes { column: &shapes.column, shapes: &shapes.places })
    }

    /// Returns whether a text names an attribute that shapes leave out, because no selector or
    /// constraint of a stored class or claim names it.
    pub fn names_hidden_attribute(&self, text: &str) -> bool {
        words(text).any(|id| self.devices.shapes.attributes.get(id) == Some(&false))
    }

    /// Returns the number of distinct shapes of nodes with devices.
    pub fn device_shape_count(&self) -> usize {
        self.devices.shapes.shapes.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::EventResource;

    fn set(cluster: &mut Cluster, kind: EventResource, name: &str, object: Option<Value>) {
        cluster.set_object(&kind, "", name, object.map(Arc::new));
    }

    fn slice(cluster: &mut Cluster, node: &str, model: &str) {
        let device = |number: usize| {
            json!({"name": format!("d{number}"), "attributes": {
                "model": {"string": model}, "uuid": {"string": format!("{node}-{number}")}}})
        };
        let spec = json!({"driver": "d", "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [device(0), device(1)]});
        let object = json!({"metadata": {"name": node}, "spec": spec});
        set(cluster, EventResource::ResourceSlice, node, Some(object));
    }

    fn class(cluster: &mut Cluster, expression: &str) {
        let object = json!({"metadata": {"name": "c"},
            "spec": {"selectors": [{"cel": {"expression": expression}}]}});
        set(cluster, EventResource::DeviceClass, "c", Some(object));
    }

    fn allocated(cluster: &mut Cluster, node: &str, device: &str) {
        let result = json!({"request": "r", "driver": "d", "pool": node, "device": device});
        let object = json!({"metadata": {"name": node},
            "status": {"allocation": {"devices": {"results": [result]}}}});
        set(cluster, EventResource::ResourceClaim, node, Some(object));
    }

    fn cluster(nodes: &[&str]) -> Cluster {
        let mut cluster = Cluster::default();
        for name in nodes {
            cluster.set_node(&crate::testing::node(name).build());
        }
        cluster
    }

    fn shape(cluster: &Cluster, node: &str) -> Option<DeviceShape> {
        let node = cluster.node_named(node).unwrap();
        cluster.device_shapes()?.of(node).map(|(_, shape)| shape)
    }

    #[test]
    fn nodes_with_equal_devices_have_one_shape() {
        let mut cluster = cluster(&["a", "b", "c"]);
        class(&mut cluster, "device.attributes['d'].model == 'm'");
        for (node, model) in [("a", "m"), ("b", "m"), ("c", "n")] {
            slice(&mut cluster, node, model);
        }
        let shape = |cluster: &Cluster, node: &str| shape(cluster, node).unwrap();
        assert_eq!(shape(&cluster, "a"), shape(&cluster, "b"));
        assert_ne!(shape(&cluster, "a"), shape(&cluster, "c"));
        let free = shape(&cluster, "a");
        allocated(&mut cluster, "a", "d0");
        assert_ne!(shape(&cluster, "a"), shape(&cluster, "b"));
        allocated(&mut cluster, "b", "d0");
        assert_eq!(shape(&cluster, "a"), shape(&cluster, "b"));
        for node in ["a", "b"] {
            set(&mut cluster, EventResource::ResourceClaim, node, None);
        }
        assert_eq!(shape(&cluster, "a"), shape(&cluster, "b"));
        assert_ne!(shape(&cluster, "a"), free, "numbers are not used again");
        assert_eq!(cluster.device_shape_count(), 2);
        for node in ["a", "b", "c"] {
            set(&mut cluster, EventResource::ResourceSlice, node, None);
        }
        assert_eq!(cluster.device_shape_count(), 0);
        assert_eq!(shape(&cluster, "a"), shape(&cluster, "c"));
    }

    #[test]
    fn attribute_distinguishes_nodes_once_a_selector_names_it() {
        let mut cluster = cluster(&["a", "b"]);
        slice(&mut cluster, "a", "m");
        slice(&mut cluster, "b", "m");
        assert_eq!(shape(&cluster, "a"), shape(&cluster, "b"));
        assert!(cluster.names_hidden_attribute("d/uuid"));
        class(&mut cluster, "device.attributes['d'].uuid == 'a-0'");
        assert!(!cluster.names_hidden_attribute("d/uuid"));
        assert_ne!(shape(&cluster, "a"), shape(&cluster, "b"));
    }

    #[test]
    fn nodes_that_share_devices_are_not_compared() {
        let mut cluster = cluster(&["a", "b", "c"]);
        slice(&mut cluster, "a", "m");
        let spec = json!({"driver": "d", "perDeviceNodeSelection": true,
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "x", "nodeName": "a"}, {"name": "y", "nodeName": "b"}]});
        let object = json!({"metadata": {"name": "s"}, "spec": spec});
        set(&mut cluster, EventResource::ResourceSlice, "s", Some(object));
        assert_eq!([shape(&cluster, "a"), shape(&cluster, "b")], [None, None]);
        assert!(shape(&cluster, "c").is_some());
        set(&mut cluster, EventResource::ResourceSlice, "s", None);
        assert!(shape(&cluster, "a").is_some());
    }

    #[test]
    fn node_has_its_shape_whether_its_slices_or_the_node_come_first() {
        let mut cluster = cluster(&["b"]);
        for node in ["a", "b"] {
            slice(&mut cluster, node, "m");
        }
        cluster.set_node(&crate::testing::node("a").build());
        let of_both = shape(&cluster, "a");
        assert_eq!(of_both, shape(&cluster, "b"));
        assert!(cluster.remove_node("b"));
        cluster.set_node(&crate::testing::node("empty").build());
        cluster.set_node(&crate::testing::node("b").build());
        assert_eq!(shape(&cluster, "empty"), Some(DeviceShape(0)));
        assert_eq!(shape(&cluster, "b"), of_both);
    }

    #[test]
    fn copies_of_a_cluster_number_new_shapes_apart() {
        let mut one = cluster(&["a"]);
        let mut other = one.clone();
        slice(&mut one, "a", "m");
        slice(&mut other, "a", "n");
        class(&mut one, "device.attributes['d'].model == 'm'");
        class(&mut other, "device.attributes['d'].model == 'm'");
        assert_ne!(shape(&one, "a"), shape(&other, "a"));
    }
}
