//! The GPU demand of a pod.

use framework::{Pod, Resources};

/// The extended resource: thousandths of a device, summed over the devices.
pub const GPU_MILLI: &str = "alibabacloud.com/gpu-milli";

/// Thousandths in one device.
pub(crate) const WHOLE: u32 = 1000;

/// The GPU demand of a pod on one node.
///
/// It depends on the requested amount: less than 1000 is a part of one device, and n times 1000 is
/// n devices for exclusive use. The plugin does not place amounts in between. If another scheduler
/// has placed such a pod, its amount is rounded up to whole devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// A part of one device, in thousandths: 1 to 999.
    Share(u32),
    /// This number of devices: 1 or more.
    Whole(u32),
}

impl Demand {
    /// Returns the demand of a pod, or `None` if it requests no GPU.
    pub fn of(pod: &Pod) -> Option<Self> {
        Self::in_requests(&pod.requests.fit)
    }

    /// Returns the demand of a pod with these requests.
    pub(crate) fn in_requests(requests: &Resources) -> Option<Self> {
        let milli = u64::try_from(requests.scalar(GPU_MILLI)).ok().filter(|milli| *milli > 0)?;
        let devices = milli.div_ceil(u64::from(WHOLE));
        Some(match u32::try_from(milli) {
            Ok(milli) if milli < WHOLE => Self::Share(milli),
            _ => Self::Whole(u32::try_from(devices).unwrap_or(u32::MAX)),
        })
    }

    /// Returns the number of devices.
    pub const fn devices(self) -> u32 {
        match self {
            Self::Share(_) => 1,
            Self::Whole(devices) => devices,
        }
    }

    /// Returns the amount on each device, in thousandths.
    pub const fn of_each(self) -> u32 {
        match self {
            Self::Share(milli) => milli,
            Self::Whole(_) => WHOLE,
        }
    }

    /// Returns the total amount, in thousandths.
    pub const fn milli(self) -> i64 {
        self.devices() as i64 * self.of_each() as i64
    }
}

/// The requests of a pod that its score depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) demand: Option<Demand>,
}

impl Shape {
    pub(crate) fn of(pod: &Pod) -> Self {
        let Resources { milli_cpu, memory, .. } = pod.requests.fit;
        Self { milli_cpu, memory, demand: Demand::of(pod) }
    }

    /// Returns the total amount on all devices, in thousandths.
    pub(crate) const fn gpu_milli(self) -> i64 {
        match self.demand {
            Some(demand) => demand.milli(),
            None => 0,
        }
    }
}
