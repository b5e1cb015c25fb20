//! What is left of each node, and the books on devices that are given away.

use std::collections::BTreeMap;

use framework::{NodeIx, NodeView, Pod, Uid};

use crate::demand::{Demand, GPU_MILLI, Shape};
use crate::devices::{Devices, Taken};
use crate::judge::{Judge, Placement, Room};
use crate::workload::Reach;
use crate::{GPU_INDEX_FIELD, GPU_MODEL};

/// The generation of a row that must be worked out anew; no node has it.
const STALE: u64 = 0;

/// A node.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// The generation of the node that the rest was worked out for.
    generation: u64,
    /// New whenever the room may have changed, and unique among rows.
    pub(crate) version: u64,
    /// What is left.
    pub(crate) room: Room,
    /// Devices of pods that do not say it themselves (yet), by UID.
    bookings: BTreeMap<Uid, Taken>,
}

/// All nodes, by [`NodeIx::index`].
///
/// A pod that is on its way to a node has its devices in the books. The books forget it when its
/// annotation says the same, or when it has left the node: both are noticed when the row is next
/// worked out. That the number of a node is used again does no harm, as a UID is not.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    last_version: u64,
    what_if: Row,
    /// Room to work in.
    reach: Reach,
}

impl Rows {
    /// The row of the node as it is now, worked out anew if anything has changed there.
    #[inline]
    pub(crate) fn row(&mut self, node: &NodeView<'_>, judge: &Judge) -> &Row {
        let index = node.ix().index();
        match (node.generation(), self.rows.get(index)) {
            (Some(generation), Some(row)) if row.generation == generation => {}
            (Some(generation), _) => self.refresh(generation, node, judge),
            (None, _) => return self.what_if(node, judge),
        }
        &self.rows[index]
    }

    /// Writes into the books that the pod has these devices of the node.
    pub(crate) fn book(&mut self, node: NodeIx, pod: &Uid, taken: Taken) {
        let row = self.row_mut(node);
        row.bookings.insert(pod.clone(), taken);
        row.generation = STALE;
    }

    /// Strikes the pod off the books.
    pub(crate) fn unbook(&mut self, node: NodeIx, pod: &Uid) {
        let row = self.row_mut(node);
        row.bookings.remove(pod);
        row.generation = STALE;
    }

    /// The best way to put a pod on the node, which it fits.
    pub(crate) fn place(&mut self, node: &NodeView<'_>, shape: Shape, judge: &Judge) -> Placement {
        let mut reach = std::mem::take(&mut self.reach);
        let placement = judge.place(&self.row(node, judge).room, shape, &mut reach);
        self.reach = reach;
        placement
    }

    /// The best devices for a pod that is assumed on the node already, `None` if it does not fit
    /// beside the others there.
    pub(crate) fn choose(
        &mut self,
        node: &NodeView<'_>,
        pod: &Pod,
        judge: &Judge,
    ) -> Option<Taken> {
        let shape = Shape::of(pod);
        let demand = shape.demand?;
        let room = self.room_without(node, pod, judge);
        if !room.devices.fit(demand) {
            return None;
        }
        let device = judge.place(&room, shape, &mut self.reach).device;
        room.devices.choose(demand, device)
    }

    fn room_without(&mut self, node: &NodeView<'_>, pod: &Pod, judge: &Judge) -> Room {
        let others = node.pods().filter(|other| other.uid != pod.uid);
        let bookings = &self.row_mut(node.ix()).bookings;
        let devices = devices_left(node, others.map(AsRef::as_ref), bookings);
        let placed = &pod.requests.placed;
        let room = room(node, devices, placed.milli_cpu, placed.memory, judge);
        Room { usable: judge.usable(&room, &mut self.reach), ..room }
    }

    fn row_mut(&mut self, node: NodeIx) -> &mut Row {
        if self.rows.len() <= node.index() {
            self.rows.resize_with(node.index() + 1, Row::default);
        }
        &mut self.rows[node.index()]
    }

    fn refresh(&mut self, generation: u64, node: &NodeView<'_>, judge: &Judge) {
        self.last_version += 1;
        let version = self.last_version;
        let mut bookings = std::mem::take(&mut self.row_mut(node.ix()).bookings);
        let mut open = BTreeMap::new();
        for pod in node.pods() {
            if let Some((uid, taken)) = bookings.remove_entry(&pod.uid)
                && said_by(pod).as_ref() != Some(&taken)
            {
                open.insert(uid, taken);
            }
        }
        let room = self.worked_out(node, &open, judge);
        *self.row_mut(node.ix()) = Row { generation, version, room, bookings: open };
    }

    /// A node with pods added or taken away in thought is worked out each time.
    fn what_if(&mut self, node: &NodeView<'_>, judge: &Judge) -> &Row {
        let bookings = std::mem::take(&mut self.row_mut(node.ix()).bookings);
        self.what_if.room = self.worked_out(node, &bookings, judge);
        self.row_mut(node.ix()).bookings = bookings;
        &self.what_if
    }

    fn worked_out(
        &mut self,
        node: &NodeView<'_>,
        bookings: &BTreeMap<Uid, Taken>,
        judge: &Judge,
    ) -> Room {
        let devices = devices_left(node, node.pods().map(AsRef::as_ref), bookings);
        let room = room(node, devices, 0, 0, judge);
        Room { usable: judge.usable(&room, &mut self.reach), ..room }
    }
}

/// What is left of the node, and this much CPU and memory more.
fn room(node: &NodeView<'_>, devices: Devices, milli_cpu: i64, memory: i64, judge: &Judge) -> Room {
    let (has, used) = (node.allocatable(), node.requested());
    Room {
        devices,
        milli_cpu: has.milli_cpu.saturating_sub(used.milli_cpu).saturating_add(milli_cpu),
        memory: has.memory.saturating_sub(used.memory).saturating_add(memory),
        model: judge.model(node.label(GPU_MODEL)),
        usable: 0,
    }
}

/// What these pods leave of the devices.
///
/// Pods that neither the books nor their annotation give devices of this node come last, by UID:
/// they were placed by another scheduler, or by one that has been restarted before it could write.
fn devices_left<'a>(
    node: &NodeView<'_>,
    pods: impl Iterator<Item = &'a Pod>,
    bookings: &BTreeMap<Uid, Taken>,
) -> Devices {
    let mut devices = Devices::unused(node.scalar(GPU_MILLI).allocatable);
    let mut somewhere = Vec::new();
    for pod in pods {
        let Some(demand) = Demand::of(pod) else { continue };
        let taken = bookings.get(&pod.uid).cloned().or_else(|| said_by(pod));
        match taken.filter(|taken| devices.can_be(taken, demand)) {
            Some(taken) => devices.take(demand, &taken),
            None => somewhere.push((&pod.uid, demand)),
        }
    }
    somewhere.sort_unstable();
    somewhere.into_iter().for_each(|(_, demand)| devices.take_somewhere(demand));
    devices
}

/// The devices that the annotation of a placed pod names. On other pods it may be left from an
/// attempt that failed.
fn said_by(pod: &Pod) -> Option<Taken> {
    pod.node_name.as_ref()?;
    pod.extra.get(GPU_INDEX_FIELD)?.as_str()?.parse().ok()
}
