//! The scores of nodes and devices for a pod.

use framework::MAX_NODE_SCORE;

use crate::args::{FullNode, GpuShareArgs, Strategy};
use crate::demand::{Demand, Shape, WHOLE};
use crate::devices::Devices;
use crate::workload::{EVERY_TASK, ModelIx, Reach, Workload};

/// Parts of a score point. Nodes are compared in parts, so that nodes with equal rounded points
/// still differ.
pub(crate) const PARTS_PER_POINT: i64 = 1_000_000;

/// Maximum score in parts: just below the maximum score, which normalisation reserves for one node.
const MAX_SCORE_PARTS: i64 = MAX_NODE_SCORE * PARTS_PER_POINT - 1;

/// Points of a node whose fragmentation does not change.
const UNCHANGED: i64 = MAX_NODE_SCORE / 2;

/// Change of fragmentation, in thousandths of a device, that moves the score half of the way from
/// [`UNCHANGED`] to either end. Near zero, 40 thousandths are worth a point.
const HALFWAY: i64 = 2000;

/// Gain of an impossible placement; it scores no points.
const IMPOSSIBLE: i64 = i64::MIN / MAX_NODE_SCORE;

/// The free resources of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) devices: Devices,
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) model: ModelIx,
    /// The amount of the devices that the workload can use; see [`Scorer::usable`].
    pub(crate) usable: i64,
}

/// A hypothetical placement of a pod on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The score in parts of a point; higher is better.
    pub(crate) score: i64,
    /// The device for a pod that requests a part of one; `None` for best fit.
    pub(crate) device: Option<usize>,
}

/// A scorer of nodes and of the devices of a node.
#[derive(Debug)]
pub(crate) struct Scorer {
    strategy: Strategy,
    workload: Workload,
    full_milli_cpu: i64,
    full_gpu_milli: i64,
}

impl Scorer {
    /// Creates a scorer.
    ///
    /// # Errors
    /// The fields of the workload that cannot be read.
    pub(crate) fn new(args: &GpuShareArgs) -> Result<Self, String> {
        let FullNode { cpus, gpus } = args.full_node;
        Ok(Self {
            strategy: args.strategy,
            workload: Workload::new(&args.workload)?,
            full_milli_cpu: i64::from(cpus) * 1000,
            full_gpu_milli: i64::from(gpus) * i64::from(WHOLE),
        })
    }

    /// Returns the GPU model with this name.
    pub(crate) fn model(&self, name: Option<&str>) -> ModelIx {
        self.workload.model(name)
    }

    /// Returns the amount of the current devices that the workload can use; 0 for strategies that
    /// do not need it.
    pub(crate) fn usable(&self, room: &Room, reach: &mut Reach) -> i64 {
        match self.strategy {
            Strategy::BestFit => 0,
            Strategy::FragmentationGradient => {
                self.workload.reach(room.model, room.milli_cpu, room.memory, reach);
                self.workload.usable(room.model, reach, &room.devices)
            }
        }
    }

    /// Returns the best placement of a pod on a node that it fits.
    pub(crate) fn place(&self, room: &Room, shape: Shape, reach: &mut Reach) -> Placement {
        let fit = self.fit(room, shape);
        match self.strategy {
            Strategy::BestFit => Placement { score: fit, device: None },
            Strategy::FragmentationGradient => {
                let (gain, device) = self.gain(room, shape, reach);
                Placement { score: points(gain) * PARTS_PER_POINT + fit / MAX_NODE_SCORE, device }
            }
        }
    }

    /// Returns the score for the CPU and GPU left after the pod, from 0 to [`MAX_SCORE_PARTS`];
    /// less left is better.
    fn fit(&self, room: &Room, shape: Shape) -> i64 {
        let part = |left: i64, full: i64| {
            left.clamp(0, full) * (MAX_NODE_SCORE / 2 * PARTS_PER_POINT) / full
        };
        let milli_cpu = room.milli_cpu.saturating_sub(shape.milli_cpu);
        let gpu_milli = room.devices.total().saturating_sub(shape.gpu_milli());
        let left = part(milli_cpu, self.full_milli_cpu) + part(gpu_milli, self.full_gpu_milli);
        (MAX_SCORE_PARTS - left).max(0)
    }

    /// Returns by how much the pod reduces the fragmented amount, in thousandths times weight, and
    /// the device for which this holds. Of several devices it returns the fullest.
    ///
    /// The fragmented amount is the free amount less the usable amount. The pod always takes
    /// `shape.gpu_milli()` of the free amount; the usable amount is recomputed for the changed
    /// devices.
    fn gain(&self, room: &Room, shape: Shape, reach: &mut Reach) -> (i64, Option<usize>) {
        let (workload, model, devices) = (&self.workload, room.model, &room.devices);
        let milli_cpu = room.milli_cpu.saturating_sub(shape.milli_cpu);
        let memory = room.memory.saturating_sub(shape.memory);
        workload.reach(model, milli_cpu, memory, reach);
        let reach = &*reach;
        let of_device = |free| workload.usable_of_device(model, reach, free);
        let of_unused = |unused| workload.usable_of_unused(model, reach, unused);
        let of_each: i64 = devices.free().iter().map(|free| of_device(*free)).sum();
        let gain = |usable: i64| shape.gpu_milli() * EVERY_TASK + usable - room.usable;
        match shape.demand {
            None => (gain(of_each + of_unused(devices.whole())), None),
            Some(Demand::Whole(taken)) => {
                let taken = taken.min(devices.whole());
                let usable = of_each - i64::from(taken) * of_device(WHOLE);
                (gain(usable + of_unused(devices.whole() - taken)), None)
            }
            Some(Demand::Share(milli)) => {
                let with = |device: usize| {
                    let free = devices.free()[device];
                    let usable = of_each - of_device(free) + of_device(free - milli);
                    let unused = devices.whole() - u32::from(free == WHOLE);
                    (gain(usable + of_unused(unused)), Some(device))
                };
                // `max_by_key` would return the last of equal elements.
                let better = |a: (i64, _), b: (i64, _)| if b.0 > a.0 { b } else { a };
                devices.candidates(milli).map(with).reduce(better).unwrap_or((IMPOSSIBLE, None))
            }
        }
    }
}

/// Returns the points for a gain, from 0 to 99. The curve is steepest at zero and never reaches its
/// limits, like the sigmoid of the paper, but uses integers only.
fn points(gain: i64) -> i64 {
    let gain = gain.clamp(IMPOSSIBLE, -IMPOSSIBLE);
    let change = (gain * UNCHANGED).div_euclid(HALFWAY * EVERY_TASK + gain.abs());
    (UNCHANGED + change).clamp(0, MAX_NODE_SCORE - 1)
}

/// Converts scores in parts of a point into points. The best node gets one extra point, so it is
/// best after rounding too; [`MAX_SCORE_PARTS`] leaves room for that point.
pub(crate) fn normalize(scores: &mut [i64]) {
    let best = scores.iter().copied().max();
    for score in scores {
        *score = *score / PARTS_PER_POINT + i64::from(Some(*score) == best);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_grow_with_the_gain_and_never_reach_the_limits() {
        let gains = [-1_000_000, -2000, -41, -40, -1, 0, 39, 41, 2000, 6000, 1_000_000];
        let expected = [0, 25, 48, 49, 49, 50, 50, 51, 75, 87, 99];
        assert_eq!(gains.map(|gain| points(gain * EVERY_TASK)), expected);
        assert_eq!([i64::MIN, IMPOSSIBLE, i64::MAX].map(points), [0, 0, 99]);
    }

    #[test]
    fn only_the_best_node_gets_an_extra_point() {
        let mut scores = [
            MAX_SCORE_PARTS,
            70 * PARTS_PER_POINT,
            70 * PARTS_PER_POINT + 5,
            0,
            70 * PARTS_PER_POINT + 4,
        ];
        normalize(&mut scores[1..]);
        assert_eq!(scores[1..], [70, 71, 0, 70]);
        normalize(&mut scores[..1]);
        assert_eq!(scores[0], MAX_NODE_SCORE);
        normalize(&mut []);
    }
}
