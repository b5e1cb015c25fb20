//! How good a node is for a pod, and which of its devices is best.

use framework::MAX_NODE_SCORE;

use crate::args::{FullNode, GpuShareArgs, Strategy};
use crate::demand::{Demand, Shape, WHOLE};
use crate::devices::Devices;
use crate::workload::{EVERY_TASK, ModelIx, Reach, Workload};

/// Parts of a score point. Nodes are compared in these, so that nodes with the same points after
/// rounding still differ.
pub(crate) const FINE: i64 = 1_000_000;

/// Finest score: just less than the best, which normalising gives to one node alone.
const FINEST: i64 = MAX_NODE_SCORE * FINE - 1;

/// Points of a node whose room gets neither more nor less fragmented.
const UNCHANGED: i64 = MAX_NODE_SCORE / 2;

/// Change of fragmentation, in thousandths of a device, that is worth half of the points there are
/// between [`UNCHANGED`] and either end. Around no change, a point is 40 thousandths.
const HALFWAY: i64 = 2000;

/// Gain of a placement that cannot be: it comes to no points.
const IMPOSSIBLE: i64 = i64::MIN / MAX_NODE_SCORE;

/// What is left of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) devices: Devices,
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) model: ModelIx,
    /// What the workload can use of the devices; see [`Judge::usable`].
    pub(crate) usable: i64,
}

/// A pod put on a node, in thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    /// How good that is, in parts of a point: the more the better.
    pub(crate) score: i64,
    /// The device for a pod that wants a part of one; `None` for the best fit.
    pub(crate) device: Option<usize>,
}

/// Compares nodes, and devices of a node.
#[derive(Debug)]
pub(crate) struct Judge {
    strategy: Strategy,
    workload: Workload,
    full_milli_cpu: i64,
    full_gpu_milli: i64,
}

impl Judge {
    /// # Errors
    /// What of the workload cannot be read.
    pub(crate) fn new(args: &GpuShareArgs) -> Result<Self, String> {
        let FullNode { cpus, gpus } = args.full_node;
        Ok(Self {
            strategy: args.strategy,
            workload: Workload::new(&args.workload)?,
            full_milli_cpu: i64::from(cpus) * 1000,
            full_gpu_milli: i64::from(gpus) * i64::from(WHOLE),
        })
    }

    /// The GPU model with this name.
    pub(crate) fn model(&self, name: Option<&str>) -> ModelIx {
        self.workload.model(name)
    }

    /// What the workload can use of a room as it is; nothing where the strategy does not ask.
    pub(crate) fn usable(&self, room: &Room, reach: &mut Reach) -> i64 {
        match self.strategy {
            Strategy::BestFit => 0,
            Strategy::FragmentationGradient => {
                self.workload.reach(room.model, room.milli_cpu, room.memory, reach);
                self.workload.usable(room.model, reach, &room.devices)
            }
        }
    }

    /// The best way to put the pod into a room it fits.
    pub(crate) fn place(&self, room: &Room, shape: Shape, reach: &mut Reach) -> Placement {
        let fit = self.fit(room, shape);
        match self.strategy {
            Strategy::BestFit => Placement { score: fit, device: None },
            Strategy::FragmentationGradient => {
                let (gain, device) = self.gain(room, shape, reach);
                Placement { score: points(gain) * FINE + fit / MAX_NODE_SCORE, device }
            }
        }
    }

    /// How little CPU and GPU is left behind the pod, from 0 to [`FINEST`].
    fn fit(&self, room: &Room, shape: Shape) -> i64 {
        let part = |left: i64, full: i64| left.clamp(0, full) * (MAX_NODE_SCORE / 2 * FINE) / full;
        let milli_cpu = room.milli_cpu.saturating_sub(shape.milli_cpu);
        let gpu_milli = room.devices.total().saturating_sub(shape.gpu_milli());
        let left = part(milli_cpu, self.full_milli_cpu) + part(gpu_milli, self.full_gpu_milli);
        (FINEST - left).max(0)
    }

    /// How much less room is fragmented with the pod than without, in thousandths times weight, and
    /// the device for which that holds: of several, the fullest.
    ///
    /// Fragmented is what is free less what is usable. The pod takes `shape.gpu_milli()` of the
    /// former in any case; the latter is worked out anew for what changes.
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
                // `max_by_key` would take the last of equals.
                let better = |a: (i64, _), b: (i64, _)| if b.0 > a.0 { b } else { a };
                devices.candidates(milli).map(with).reduce(better).unwrap_or((IMPOSSIBLE, None))
            }
        }
    }
}

/// Points for a gain, from 0 to 99: steepest around none, and never at an end, like the sigmoid of
/// the paper, but made of whole numbers.
fn points(gain: i64) -> i64 {
    let gain = gain.clamp(IMPOSSIBLE, -IMPOSSIBLE);
    let change = (gain * UNCHANGED).div_euclid(HALFWAY * EVERY_TASK + gain.abs());
    (UNCHANGED + change).clamp(0, MAX_NODE_SCORE - 1)
}

/// Turns scores in parts of a point into points. The best gets one more, so that it is the best
/// also after rounding; there is always one left.
pub(crate) fn normalize(scores: &mut [i64]) {
    let best = scores.iter().copied().max();
    for score in scores {
        *score = *score / FINE + i64::from(Some(*score) == best);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_grow_with_the_gain_and_never_reach_an_end() {
        let gains = [-1_000_000, -2000, -41, -40, -1, 0, 39, 41, 2000, 6000, 1_000_000];
        let expected = [0, 25, 48, 49, 49, 50, 50, 51, 75, 87, 99];
        assert_eq!(gains.map(|gain| points(gain * EVERY_TASK)), expected);
        assert_eq!([i64::MIN, IMPOSSIBLE, i64::MAX].map(points), [0, 0, 99]);
    }

    #[test]
    fn the_best_alone_gets_a_point_more() {
        let mut scores = [FINEST, 70 * FINE, 70 * FINE + 5, 0, 70 * FINE + 4];
        normalize(&mut scores[1..]);
        assert_eq!(scores[1..], [70, 71, 0, 70]);
        normalize(&mut scores[..1]);
        assert_eq!(scores[0], MAX_NODE_SCORE);
        normalize(&mut []);
    }
}
