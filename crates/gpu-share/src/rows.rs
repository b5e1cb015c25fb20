//! The free resources of each node, and the bookings of devices.

use std::collections::BTreeMap;

use framework::{NodeIx, NodeView, Pod, Uid};

use crate::demand::{Demand, GPU_MILLI, Shape};
use crate::devices::{Devices, Taken};
use crate::scorer::{Placement, Room, Scorer};
use crate::workload::Reach;
use crate::{GPU_INDEX_FIELD, GPU_MODEL};

/// The generation of a row that must be recomputed; no node has it.
const STALE: u64 = 0;

/// The cached state of a node.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// The generation of the node for which the row was computed.
    generation: u64,
    /// A number that changes whenever the free resources may have changed, unique among rows.
    pub(crate) version: u64,
    /// The free resources.
    pub(crate) room: Room,
    /// Devices of pods without an up-to-date annotation, by UID.
    bookings: BTreeMap<Uid, Taken>,
}

/// The rows of all nodes, by [`NodeIx::index`].
///
/// A pod that is being bound to a node has a booking for its devices. The booking is removed when
/// the annotation of the pod lists the same devices, or when the pod has left the node; the next
/// computation of the row checks both. Reuse of a node id is harmless, because the UIDs of pods are
/// not reused.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    last_version: u64,
    with_overlay: Row,
    /// A buffer.
    reach: Reach,
}

impl Rows {
    /// Returns the row of the node, recomputed if the node has changed.
    #[inline]
    pub(crate) fn row(&mut self, node: &NodeView<'_>, scorer: &Scorer) -> &Row {
        let index = node.ix().index();
        match (node.generation(), self.rows.get(index)) {
            (Some(generation), Some(row)) if row.generation == generation => {}
            (Some(generation), _) => self.refresh(generation, node, scorer),
            (None, _) => return self.with_overlay(node, scorer),
        }
        &self.rows[index]
    }

    /// Books these devices of the node for the pod.
    pub(crate) fn add_booking(&mut self, node: NodeIx, pod: &Uid, taken: Taken) {
        let row = self.row_mut(node);
        row.bookings.insert(pod.clone(), taken);
        row.generation = STALE;
    }

    /// Removes the booking of the pod.
    pub(crate) fn remove_booking(&mut self, node: NodeIx, pod: &Uid) {
        let row = self.row_mut(node);
        row.bookings.remove(pod);
        row.generation = STALE;
    }

    /// Returns the best placement of a pod on a node that it fits.
    pub(crate) fn place(
        &mut self,
        node: &NodeView<'_>,
        shape: Shape,
        scorer: &Scorer,
    ) -> Placement {
        let mut reach = std::mem::take(&mut self.reach);
        let placement = scorer.place(&self.row(node, scorer).room, shape, &mut reach);
        self.reach = reach;
        placement
    }

    /// Chooses the best devices for a pod that is already assumed on the node. Returns `None` if
    /// the pod does not fit beside the other pods.
    pub(crate) fn choose(
        &mut self,
        node: &NodeView<'_>,
        pod: &Pod,
        scorer: &Scorer,
    ) -> Option<Taken> {
        let shape = Shape::of(pod);
        let demand = shape.demand?;
        let room = self.room_without(node, pod, scorer);
        if !room.devices.fit(demand) {
            return None;
        }
        let device = scorer.place(&room, shape, &mut self.reach).device;
        room.devices.choose(demand, device)
    }

    fn room_without(&mut self, node: &NodeView<'_>, pod: &Pod, scorer: &Scorer) -> Room {
        let others = node.pods().filter(|other| other.uid != pod.uid);
        let bookings = &self.row_mut(node.ix()).bookings;
        let devices = devices_left(node, others.map(AsRef::as_ref), bookings);
        let placed = &pod.requests.placed;
        let room = room(node, devices, placed.milli_cpu, placed.memory, scorer);
        Room { usable: scorer.usable(&room, &mut self.reach), ..room }
    }

    fn row_mut(&mut self, node: NodeIx) -> &mut Row {
        if self.rows.len() <= node.index() {
            self.rows.resize_with(node.index() + 1, Row::default);
        }
        &mut self.rows[node.index()]
    }

    fn refresh(&mut self, generation: u64, node: &NodeView<'_>, scorer: &Scorer) {
        self.last_version += 1;
        let version = self.last_version;
        let mut bookings = std::mem::take(&mut self.row_mut(node.ix()).bookings);
        let mut open = BTreeMap::new();
        for pod in node.pods() {
            if let Some((uid, taken)) = bookings.remove_entry(&pod.uid)
                && annotated_devices(pod).as_ref() != Some(&taken)
            {
                open.insert(uid, taken);
            }
        }
        let room = self.compute(node, &open, scorer);
        *self.row_mut(node.ix()) = Row { generation, version, room, bookings: open };
    }

    /// Computes the row of a node with an overlay, on every call.
    fn with_overlay(&mut self, node: &NodeView<'_>, scorer: &Scorer) -> &Row {
        let bookings = std::mem::take(&mut self.row_mut(node.ix()).bookings);
        self.with_overlay.room = self.compute(node, &bookings, scorer);
        self.row_mut(node.ix()).bookings = bookings;
        &self.with_overlay
    }

    fn compute(
        &mut self,
        node: &NodeView<'_>,
        bookings: &BTreeMap<Uid, Taken>,
        scorer: &Scorer,
    ) -> Room {
        let devices = devices_left(node, node.pods().map(AsRef::as_ref), bookings);
        let room = room(node, devices, 0, 0, scorer);
        Room { usable: scorer.usable(&room, &mut self.reach), ..room }
    }
}

/// Returns the free resources of the node plus this much CPU and memory.
fn room(
    node: &NodeView<'_>,
    devices: Devices,
    milli_cpu: i64,
    memory: i64,
    scorer: &Scorer,
) -> Room {
    let (has, used) = (node.allocatable(), node.requested());
    Room {
        devices,
        milli_cpu: has.milli_cpu.saturating_sub(used.milli_cpu).saturating_add(milli_cpu),
        memory: has.memory.saturating_sub(used.memory).saturating_add(memory),
        model: scorer.model(node.label(GPU_MODEL)),
        usable: 0,
    }
}

/// Returns the devices with the demands of these pods subtracted.
///
/// Pods without a booking or an annotation for devices of this node come last, by UID. Another
/// scheduler placed them, or this scheduler was restarted before it wrote the annotation.
fn devices_left<'a>(
    node: &NodeView<'_>,
    pods: impl Iterator<Item = &'a Pod>,
    bookings: &BTreeMap<Uid, Taken>,
) -> Devices {
    let mut devices = Devices::unused(node.scalar(GPU_MILLI).allocatable);
    let mut somewhere = Vec::new();
    for pod in pods {
        let Some(demand) = Demand::of(pod) else { continue };
        let taken = bookings.get(&pod.uid).cloned().or_else(|| annotated_devices(pod));
        match taken.filter(|taken| devices.can_provide(taken, demand)) {
            Some(taken) => devices.take(demand, &taken),
            None => somewhere.push((&pod.uid, demand)),
        }
    }
    somewhere.sort_unstable();
    somewhere.into_iter().for_each(|(_, demand)| devices.take_any(demand));
    devices
}

/// Returns the devices in the annotation of a bound pod. The annotation of an unbound pod may be
/// left from a failed attempt.
fn annotated_devices(pod: &Pod) -> Option<Taken> {
    pod.node_name.as_ref()?;
    pod.extra.get(GPU_INDEX_FIELD)?.as_str()?.parse().ok()
}
