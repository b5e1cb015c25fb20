//! The devices of one node, and the choice of devices for a pod.

use std::fmt;
use std::str::FromStr;

use crate::demand::{Demand, WHOLE};

/// Maximum number of devices of a node. Further devices are ignored.
const DEVICES_MAX: i64 = 256;

/// The free amount of each device of a node, in thousandths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Devices {
    free: Vec<u32>,
    /// The largest free amount of a device.
    largest: u32,
    /// Number of unused devices.
    whole: u32,
}

impl Devices {
    /// Returns the unused devices of a node with this allocatable amount, in thousandths.
    pub(crate) fn unused(allocatable: i64) -> Self {
        let number = (allocatable / i64::from(WHOLE)).clamp(0, DEVICES_MAX);
        let mut devices = Self { free: vec![WHOLE; number as usize], ..Self::default() };
        devices.sum_up();
        devices
    }

    fn sum_up(&mut self) {
        self.largest = self.free.iter().copied().max().unwrap_or(0);
        self.whole = self.free.iter().map(|free| u32::from(*free == WHOLE)).sum();
    }

    /// Returns the free amount of each device.
    pub(crate) fn free(&self) -> &[u32] {
        &self.free
    }

    /// Returns the free amount of all devices together.
    pub(crate) fn total(&self) -> i64 {
        self.free.iter().map(|free| i64::from(*free)).sum()
    }

    /// Returns the number of unused devices.
    pub(crate) const fn whole(&self) -> u32 {
        self.whole
    }

    /// Returns whether the free devices satisfy the demand.
    #[inline]
    pub(crate) const fn fit(&self, demand: Demand) -> bool {
        match demand {
            Demand::Share(milli) => milli <= self.largest,
            Demand::Whole(devices) => devices <= self.whole,
        }
    }

    /// Returns whether the devices would satisfy the demand if all were unused.
    pub(crate) const fn could_fit(&self, demand: Demand) -> bool {
        demand.devices() as usize <= self.free.len()
    }

    /// Returns the devices that can provide a part, the fullest first. Devices with the same free
    /// amount are equivalent, so it returns one for each amount.
    pub(crate) fn candidates(&self, milli: u32) -> impl Iterator<Item = usize> {
        let first = self.tightest(milli);
        std::iter::successors(first, move |last| self.tightest(self.free[*last] + 1))
    }

    /// Returns the fullest device with at least this much free, the first of several.
    fn tightest(&self, milli: u32) -> Option<usize> {
        let enough = self.free.iter().enumerate().filter(|(_, free)| **free >= milli);
        enough.min_by_key(|(_, free)| **free).map(|(device, _)| device)
    }

    /// Chooses devices for a demand. For a part it takes `device` if given, else the fullest device
    /// that fits. For whole devices it takes the first unused ones.
    pub(crate) fn choose(&self, demand: Demand, device: Option<usize>) -> Option<Taken> {
        if !self.fit(demand) {
            return None;
        }
        Some(match demand {
            Demand::Share(milli) => Taken::one(device.or_else(|| self.tightest(milli))?),
            Demand::Whole(devices) => {
                let unused = self.free.iter().enumerate().filter(|(_, free)| **free == WHOLE);
                Taken(unused.map(|(device, _)| device).take(devices as usize).collect())
            }
        })
    }

    /// Returns whether `taken` names devices of this node, in the number of the demand.
    pub(crate) fn can_provide(&self, taken: &Taken, demand: Demand) -> bool {
        taken.0.len() == demand.devices() as usize
            && taken.0.is_sorted_by(|a, b| a < b)
            && taken.0.last().is_some_and(|last| *last < self.free.len())
    }

    /// Subtracts the demand from devices that [can provide](Self::can_provide) it. Free amounts do
    /// not become negative.
    pub(crate) fn take(&mut self, demand: Demand, taken: &Taken) {
        for device in &taken.0 {
            self.free[*device] = self.free[*device].saturating_sub(demand.of_each());
        }
        self.sum_up();
    }

    /// Subtracts the demand of a pod whose devices are unknown. It takes the devices that the
    /// plugin would choose if the pod fits, else the devices with the most free.
    pub(crate) fn take_any(&mut self, demand: Demand) {
        let taken = self.choose(demand, None).unwrap_or_else(|| {
            let mut order: Vec<usize> = (0..self.free.len()).collect();
            order.sort_by_key(|device| std::cmp::Reverse(self.free[*device]));
            order.truncate(demand.devices() as usize);
            Taken(order.into())
        });
        self.take(demand, &taken);
    }
}

/// Device numbers of a node, ascending. The text form is `0-2-3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken(Box<[usize]>);

impl Taken {
    fn one(device: usize) -> Self {
        Self([device].into())
    }

    /// Returns the device numbers.
    pub fn devices(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, device) in self.0.iter().enumerate() {
            let dash = if place == 0 { "" } else { "-" };
            write!(f, "{dash}{device}")?;
        }
        Ok(())
    }
}

impl FromStr for Taken {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split('-').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(free: &[u32]) -> Devices {
        let mut devices = Devices { free: free.to_vec(), ..Devices::default() };
        devices.sum_up();
        devices
    }

    #[test]
    fn part_comes_from_the_fullest_device_and_whole_devices_from_the_first_unused() {
        use Demand::{Share, Whole};
        let rows: [(&[u32], Demand, Option<&str>); 11] = [
            (&[1000, 1000], Share(300), Some("0")),
            (&[1000, 400, 500], Share(300), Some("1")),
            (&[1000, 400, 500], Share(450), Some("2")),
            (&[1000, 400, 400], Share(400), Some("1")),
            (&[200, 200], Share(300), None),
            (&[], Share(1), None),
            (&[1000, 1000], Whole(1), Some("0")),
            (&[999, 1000, 1, 1000, 1000], Whole(2), Some("1-3")),
            (&[999, 1000], Whole(2), None),
            (&[999], Whole(1), None),
            (&[1000; 3], Whole(u32::MAX), None),
        ];
        for (free, demand, expected) in rows {
            let chosen = devices(free).choose(demand, None).map(|taken| taken.to_string());
            assert_eq!(chosen.as_deref(), expected, "{demand:?} of {free:?}");
            assert_eq!(devices(free).fit(demand), expected.is_some(), "{demand:?} of {free:?}");
        }
    }

    #[test]
    fn candidates_differ_in_free_amount() {
        let devices = devices(&[1000, 400, 1000, 500, 400, 0]);
        assert!(devices.candidates(400).eq([1, 3, 0]));
        assert!(devices.candidates(401).eq([3, 0]));
        assert_eq!(devices.candidates(1001).count(), 0);
    }

    #[test]
    fn number_of_devices_is_limited() {
        assert_eq!(Devices::unused(i64::MAX).free().len(), 256);
        assert_eq!(Devices::unused(i64::MIN), Devices::unused(999));
        assert_eq!(Devices::unused(2999).free(), [1000, 1000]);
    }

    #[test]
    fn free_amounts_never_become_negative() {
        let mut devices = devices(&[100, 700]);
        devices.take_any(Demand::Share(900));
        assert_eq!((devices.free(), devices.total()), (&[100, 0][..], 100));
        devices.take_any(Demand::Whole(u32::MAX));
        assert_eq!(devices, self::devices(&[0, 0]));
    }

    #[test]
    fn taken_devices_round_trip_as_text() {
        let taken: Taken = "0-2-11".parse().unwrap();
        assert_eq!((taken.devices(), taken.to_string()), (&[0, 2, 11][..], "0-2-11".to_owned()));
        for text in ["", "-", "1-", "a", "-1", "1,2", "99999999999999999999"] {
            assert!(text.parse::<Taken>().is_err(), "{text}");
        }
        let four = devices(&[0; 4]);
        for (text, demand, expected) in [
            ("3", Demand::Share(1), true),
            ("4", Demand::Share(1), false),
            ("0-1", Demand::Share(1), false),
            ("0-1", Demand::Whole(2), true),
            ("1-0", Demand::Whole(2), false),
            ("1-1", Demand::Whole(2), false),
        ] {
            assert_eq!(
                four.can_provide(&text.parse().unwrap(), demand),
                expected,
                "{text} {demand:?}"
            );
        }
    }
}
