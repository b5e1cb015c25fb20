//! Nodes whose devices look alike.
//!
//! The search for devices on a node depends on what the devices are and on which of them are in
//! use, not on their names. Nodes with equal devices have one *shape*, and share the answer whether
//! a claim fits. A shape follows the changes of slices and allocations of its node alone.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use rustc_hash::FxHashMap;

use super::devices::{Devices, PoolSlices};
use super::{Cluster, DeviceShape, NodeIx};
use api::device::{
    Attribute, AttributeRule, ClaimSpec, CounterConsumption, CounterSet, Device, DeviceDescription,
    DeviceSelector, DeviceTaint, DeviceUse, NodeScope, Numbers, PoolKey,
};

/// The part of a device that the search reads, besides its allocations.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SearchedDevice {
    /// Without the attributes that no selector names.
    description: DeviceDescription,
    consumes_counters: Box<[CounterConsumption]>,
    taints: Box<[DeviceTaint]>,
    has_binding_conditions: bool,
    is_spoilt: bool,
}

/// The part of a pool with devices of one node that the search reads, besides their allocations.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PoolLook {
    counter_sets: Box<[CounterSet]>,
    devices: Box<[SearchedDevice]>,
    /// A device of each layout.
    examples: Box<[Arc<DeviceDescription>]>,
    /// For each attribute that constraints match, the number of its value on each device.
    values: Box<[Box<[u8]>]>,
}

/// The common part of descriptions that differ in values alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Layout {
    driver: Arc<str>,
    attributes: Box<[(Arc<str>, Discriminant<Attribute>)]>,
    capacity: Box<[Arc<str>]>,
    has_unreadable_attribute: bool,
}

impl Layout {
    fn of(description: &DeviceDescription) -> Self {
        let attributes = description.attributes.iter();
        Self {
            driver: description.driver.clone(),
            attributes: attributes.map(|(name, own)| (name.clone(), discriminant(own))).collect(),
            capacity: description.capacity.iter().map(|(name, _)| name.clone()).collect(),
            has_unreadable_attribute: description.has_unreadable_attribute,
        }
    }
}

/// The part of a pool with devices of one node that the search reads. An allocation changes it
/// without a look at what the devices are.
#[derive(Debug)]
struct PoolShape {
    /// One for all pools that look alike.
    look: Arc<PoolLook>,
    /// The allocated devices by their place in the pool.
    allocated: Box<[(usize, DeviceUse)]>,
}

impl PartialEq for PoolShape {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.look, &other.look) && self.allocated == other.allocated
    }
}

impl Eq for PoolShape {}

impl Hash for PoolShape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.look).hash(state);
        self.allocated.hash(state);
    }
}

/// The pools of a node in the order of the search.
type NodeShape = Arc<[Arc<PoolShape>]>;

/// The place of nodes that are compared with no other.
const ALONE: u32 = u32::MAX;

/// The shapes of all nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeShapes {
    /// The numbers of shapes. Answers that a plugin keeps for a shape are true for copies of the
    /// cluster, too.
    numbers: Numbers,
    /// The identifiers of attributes of devices, and whether a selector or constraint names them.
    attributes: BTreeMap<Arc<str>, bool>,
    /// The first attributes that constraints match, whose values are counted.
    matched: Vec<Arc<str>>,
    /// A device of each layout.
    examples: HashMap<Layout, Arc<DeviceDescription>>,
    /// The looks of pools.
    looks: HashSet<Arc<PoolLook>>,
    /// The number of looks at which unused ones are dropped.
    sweep_at: usize,
    /// The shapes of the pools whose slices are all for one node, and that are complete.
    pools: FxHashMap<PoolKey, Arc<PoolShape>>,
    /// The shapes that nodes have.
    shapes: FxHashMap<NodeShape, Members>,
    /// The shape of each place; place 0 is the place of nodes without devices. Places of shapes
    /// that no node has are reused.
    places: Vec<DeviceShape>,
    /// The pools of the nodes of each place.
    pools_of: Vec<Option<NodeShape>>,
    free: Vec<u32>,
    /// The places of nodes with devices, with their shape unless they are compared with no other
    /// node.
    nodes: FxHashMap<Arc<str>, (u32, Option<NodeShape>)>,
    /// The nodes whose place has changed since [`Cluster`] took it into its column.
    moved: Vec<Arc<str>>,
    /// The place of each node, by [`NodeIx::index`].
    column: Vec<u32>,
}

/// The number of looks up to which unused ones are kept.
const LOOKS_MIN: usize = 1024;
/// The number of layouts of which all devices have the same example.
const EXAMPLES_MAX: usize = 1024;
/// The number of attributes whose values are counted.
const MATCHED_MAX: usize = 16;
/// The number of values of an attribute that a pool distinguishes; a missing attribute is one of
/// them.
const VALUES_MAX: usize = 32;

/// The nodes of a shape.
#[derive(Debug, Clone, Copy)]
struct Members {
    place: u32,
    count: usize,
}

impl NodeShapes {
    /// Returns the look that all pools share that look alike.
    fn intern(&mut self, look: PoolLook) -> Arc<PoolLook> {
        if let Some(known) = self.looks.get(&look) {
            return known.clone();
        }
        if self.looks.len() >= self.sweep_at {
            self.looks.retain(|known| Arc::strong_count(known) > 1);
            self.sweep_at = LOOKS_MIN.max(2 * self.looks.len());
        }
        let look = Arc::new(look);
        self.looks.insert(look.clone());
        look
    }

    /// Returns the look of a pool; `None` if a slice is not for one node by its name.
    fn look_of(&mut self, pool: &PoolSlices) -> Option<PoolLook> {
        let (mut devices, mut counter_sets) = (Vec::new(), Vec::new());
        for slice in pool.slices() {
            if !matches!(slice.scope, NodeScope::Node(_)) {
                return None;
            }
            counter_sets.extend(slice.shared_counters.iter().cloned());
            devices.extend(slice.devices.iter().map(|device| SearchedDevice {
                description: named_part(&device.description, &self.attributes),
                consumes_counters: device.consumes_counters.clone(),
                taints: device.taints.clone(),
                has_binding_conditions: !device.binding_conditions.is_empty(),
                is_spoilt: device.problem.is_some(),
            }));
        }
        let mut examples: Vec<Arc<DeviceDescription>> = Vec::new();
        for device in &devices {
            let example = self.example(&device.description);
            if !examples.iter().any(|known| Arc::ptr_eq(known, &example)) {
                examples.push(example);
            }
        }
        let in_pool = || pool.slices().flat_map(|slice| &slice.devices);
        let values = self.matched.iter().map(|attribute| {
            // If there are too many values, all devices have the same one, so that no value is
            // counted too low.
            value_numbers(in_pool(), attribute).unwrap_or_else(|| in_pool().map(|_| 1).collect())
        });
        Some(PoolLook {
            counter_sets: counter_sets.into(),
            values: values.collect(),
            devices: devices.into(),
            examples: examples.into(),
        })
    }

    /// Returns a description with the same layout.
    fn example(&mut self, description: &DeviceDescription) -> Arc<DeviceDescription> {
        if self.examples.len() >= EXAMPLES_MAX {
            self.examples.clear();
        }
        let example = self.examples.entry(Layout::of(description));
        example.or_insert_with(|| Arc::new(description.clone())).clone()
    }

    /// Sets the shape of a node with devices; `None` for one that is compared with no other.
    fn set_node(&mut self, node: &Arc<str>, shape: Option<NodeShape>) {
        self.remove_node(node);
        let place = shape.as_ref().map_or(ALONE, |shape| self.place_of(shape));
        self.nodes.insert(node.clone(), (place, shape));
    }

    /// Notes that a node has no devices.
    fn remove_node(&mut self, node: &Arc<str>) {
        self.moved.push(node.clone());
        if let Some((place, Some(old))) = self.nodes.remove(node)
            && let Some(members) = self.shapes.get_mut(&old)
        {
            members.count -= 1;
            if members.count == 0 {
                self.shapes.remove(&old);
                self.pools_of[place as usize] = None;
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
        let number = DeviceShape(self.numbers.next());
        if self.places.is_empty() {
            self.places.push(DeviceShape(0));
            self.pools_of.push(None);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(number);
            self.pools_of.push(None);
            u32::try_from(self.places.len() - 1).expect("fewer than 2^32 shapes")
        });
        self.places[place as usize] = number;
        self.pools_of[place as usize] = Some(shape.clone());
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
    pub(super) fn update_column(&mut self, row_of: impl Fn(&str) -> Option<NodeIx>) {
        for node in std::mem::take(&mut self.moved) {
            if let Some(row) = row_of(&node) {
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
    pools_of: &'a [Option<NodeShape>],
    matched: &'a [Arc<str>],
}

impl<'a> DeviceShapes<'a> {
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

    /// Returns the devices of the nodes of the shape at a place.
    pub fn devices(&self, place: usize) -> CountedDevices<'a> {
        let pools = self.pools_of.get(place).and_then(Option::as_deref).unwrap_or_default();
        CountedDevices { pools, matched: self.matched }
    }
}

/// The devices of a node, to be counted without a look at each of them.
#[derive(Debug, Clone, Copy)]
pub struct CountedDevices<'a> {
    pools: &'a [Arc<PoolShape>],
    matched: &'a [Arc<str>],
}

impl<'a> CountedDevices<'a> {
    /// Returns a description for each driver, with each set of names and types of attributes and of
    /// names of capacities that the devices have, apart from
    /// [hidden](Cluster::names_hidden_attribute) attributes.
    pub fn examples(&self) -> impl Iterator<Item = &'a Arc<DeviceDescription>> {
        self.pools.iter().flat_map(|pool| &pool.look.examples)
    }

    /// Returns how many devices are not allocated as a whole.
    pub fn free(&self) -> usize {
        self.pools.iter().map(|pool| pool.free()).sum()
    }

    /// Returns the descriptions of these devices, without [hidden](Cluster::names_hidden_attribute)
    /// attributes.
    pub fn descriptions(&self) -> impl Iterator<Item = &'a DeviceDescription> {
        self.pools.iter().flat_map(|pool| {
            let mut dedicated = pool.dedicated().peekable();
            let devices = pool.look.devices.iter().enumerate();
            let free = devices.filter(move |(place, _)| dedicated.next_if_eq(place).is_none());
            free.map(|(_, device)| &device.description)
        })
    }

    /// Returns how many of these devices may have one value of the attribute with this fully
    /// qualified name.
    pub fn most_alike(&self, attribute: &str) -> usize {
        let Some(number) = self.matched.iter().position(|own| **own == *attribute) else {
            return self.free();
        };
        self.pools.iter().map(|pool| pool.most_alike(number)).sum()
    }
}

impl PoolShape {
    /// Returns the places of the devices that are allocated as a whole.
    fn dedicated(&self) -> impl Iterator<Item = usize> {
        self.allocated.iter().filter(|(_, own)| own.dedicated > 0).map(|(place, _)| *place)
    }

    fn free(&self) -> usize {
        self.look.devices.len() - self.dedicated().count()
    }

    /// Returns how many free devices may have one value of an attribute.
    fn most_alike(&self, attribute: usize) -> usize {
        let Some(values) = self.look.values.get(attribute) else { return self.free() };
        let mut dedicated = self.dedicated().peekable();
        let mut counts = [0; VALUES_MAX];
        for (place, value) in values.iter().enumerate() {
            if dedicated.next_if_eq(&place).is_none() {
                counts[usize::from(*value)] += 1;
            }
        }
        counts[1..].iter().max().copied().unwrap_or(0)
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
            self.reshape_pools();
        }
    }

    /// Notes the attributes that the constraints of a claim match. All shapes change if one was not
    /// matched before.
    pub(super) fn note_constraints(&mut self, spec: &ClaimSpec) {
        let before = self.shapes.matched.len();
        for constraint in &spec.constraints {
            let matched = &mut self.shapes.matched;
            if let AttributeRule::Match(name) = &constraint.rule
                && matched.len() < MATCHED_MAX
                && !matched.contains(name)
            {
                matched.push(name.clone());
            }
        }
        if self.shapes.matched.len() > before {
            self.reshape_pools();
        }
    }

    fn reshape_pools(&mut self) {
        let pools: Vec<_> = self.pools.pools().into_iter().cloned().collect();
        pools.iter().for_each(|key| self.reshape_pool(key, BTreeSet::new()));
    }

    /// Computes the shape of a pool again, and the shapes of the nodes that it concerns, besides
    /// `nodes`, which it concerned before.
    pub(super) fn reshape_pool(&mut self, key: &PoolKey, mut nodes: BTreeSet<Arc<str>>) {
        self.pools.add_nodes_of(key, &mut nodes);
        let slices = self.pools.sound_slices(key).filter(|_| nodes.len() == 1);
        match slices.and_then(|slices| self.shapes.look_of(slices)) {
            Some(look) => {
                let look = self.shapes.intern(look);
                let allocated = self.allocated_places(key);
                let shape = Arc::new(PoolShape { look, allocated });
                self.shapes.pools.insert(key.clone(), shape);
            }
            None => drop(self.shapes.pools.remove(key)),
        }
        nodes.iter().for_each(|node| self.reshape_node(node));
    }

    /// Computes the shape of a pool again whose allocations have changed, and the shape of its
    /// node.
    pub(super) fn reallocate_pool(&mut self, key: &PoolKey) {
        let allocated = self.allocated_places(key);
        let Some(shape) = self.shapes.pools.get_mut(key) else { return };
        if shape.allocated == allocated {
            return;
        }
        *shape = Arc::new(PoolShape { look: shape.look.clone(), allocated });
        let mut nodes = BTreeSet::new();
        self.pools.add_nodes_of(key, &mut nodes);
        nodes.iter().for_each(|node| self.reshape_node(node));
    }

    /// Returns the allocated devices of a pool by their place.
    fn allocated_places(&self, key: &PoolKey) -> Box<[(usize, DeviceUse)]> {
        let Some(allocated) = self.allocated.pool(key) else { return Box::default() };
        let devices = self.pools.slices(key).flat_map(|slice| &slice.devices).enumerate();
        let places = devices.filter_map(|(place, device)| {
            allocated.get(&device.name).map(|own| (place, own.clone()))
        });
        places.collect()
    }

    /// Computes the shape of a node from the shapes of its pools.
    fn reshape_node(&mut self, node: &Arc<str>) {
        let pools = self.pools.pools_naming(node).map(|key| self.shapes.pools.get(key));
        let shape: Option<NodeShape> = pools.map(|shape| shape.cloned()).collect();
        match shape {
            Some(shape) if shape.is_empty() => self.shapes.remove_node(node),
            shape => self.shapes.set_node(node, shape),
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

/// Returns the number of the value that each device has for an attribute. Devices without the
/// attribute have the number 0. `None` if there are too many values.
fn value_numbers<'a>(
    devices: impl Iterator<Item = &'a Device>,
    attribute: &str,
) -> Option<Box<[u8]>> {
    let mut values: Vec<&Attribute> = Vec::new();
    let number = |device: &'a Device| {
        let Some(value) = device.description.attribute(attribute) else { return Some(0) };
        let known = values.iter().position(|known| *known == value);
        let place = known.unwrap_or_else(|| {
            values.push(value);
            values.len() - 1
        });
        u8::try_from(place + 1).ok().filter(|number| usize::from(*number) < VALUES_MAX)
    };
    devices.map(number).collect()
}

/// Returns the description without attributes that no selector names. Versions, lists and values of
/// unknown types stay: if they cannot be read, every selector fails.
fn named_part(
    description: &DeviceDescription,
    named: &BTreeMap<Arc<str>, bool>,
) -> DeviceDescription {
    let is_kept = |name: &str, value: &Attribute| {
        matches!(value, Attribute::Version(_) | Attribute::Unsupported)
            || value.is_list()
            || named.get(identifier(name)).copied().unwrap_or(true)
    };
    let attributes = description.attributes.iter().filter(|(name, value)| is_kept(name, value));
    DeviceDescription { attributes: attributes.cloned().collect(), ..description.clone() }
}

/// Nodes whose devices look alike.
impl Cluster {
    /// Returns the shapes of the devices of all nodes according to slices and watched claims. Nodes
    /// of one shape have the same devices in the same order with the same allocations, apart from
    /// names and from [hidden](Self::names_hidden_attribute) attributes. A node is compared with no
    /// other if a slice or device names it in a pool that is not its own, or if one of its pools is
    /// being updated or contradicts itself.
    ///
    /// Pools for all nodes, or for nodes that match a selector, do not belong to a shape.
    pub fn device_shapes(&self) -> DeviceShapes<'_> {
        let NodeShapes { column, places, pools_of, matched, .. } = &self.devices.shapes;
        DeviceShapes { column, shapes: places, pools_of, matched }
    }

    /// Returns whether a text names an attribute that shapes leave out, because no selector or
    /// constraint of a stored class or claim names it.
    pub fn names_hidden_attribute(&self, text: &str) -> bool {
        words(text).any(|id| self.devices.shapes.attributes.get(id) == Some(&false))
    }

    /// Returns the numbers of shapes, which tell whether answers for shapes belong to this cluster.
    pub fn device_shape_numbers(&self) -> &Numbers {
        &self.devices.shapes.numbers
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
    use crate::testing::SetJson;
    use api::EventResource;

    fn set(cluster: &mut Cluster, kind: EventResource, name: &str, object: Option<Value>) {
        cluster.set_json(&kind, "", name, object.map(Arc::new));
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
        cluster.device_shapes().of(node).map(|(_, shape)| shape)
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
