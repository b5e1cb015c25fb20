//! Counters that the devices of a pool share.

use foldhash::HashMap;
use framework::device::Device;

use crate::pools::{AllocatedInPool, Pool};

/// The counters of one pool, in billionths.
///
/// kube-scheduler 1.36 keeps one book for all pools of one name, so that a pool of another driver
/// is checked against the counters of the first one, and can be allocated beyond its own.
/// (difference: device-counters-by-driver)
#[derive(Debug)]
pub(crate) struct CounterBook<'a> {
    /// The number of each counter, by set and name.
    numbers: HashMap<(&'a str, &'a str), usize>,
    /// What allocated devices leave; may be negative.
    available: Vec<i128>,
    /// What picked devices consume.
    consumed: Vec<i128>,
}

impl<'a> CounterBook<'a> {
    /// Counts what the allocated devices of the pool consume, on whatever node they are.
    pub(crate) fn new(
        pool: &Pool<'a>,
        allocated: AllocatedInPool<'_>,
        counts: impl Fn(&str, AllocatedInPool<'_>) -> bool,
    ) -> Self {
        let mut book =
            Self { numbers: HashMap::default(), available: Vec::new(), consumed: Vec::new() };
        for set in &pool.counter_sets {
            for (name, amount) in &set.counters {
                book.numbers.insert((&*set.name, name), book.available.len());
                book.available.push(amount.nanos());
            }
        }
        book.consumed = vec![0; book.available.len()];
        if !allocated.is_empty() {
            let slices = pool.slices.iter().chain(&pool.elsewhere);
            for device in slices.flat_map(|slice| &slice.devices) {
                if !device.consumes_counters.is_empty() && counts(&device.name, allocated) {
                    for (number, amount) in book.consumption(device) {
                        let left = &mut book.available[number];
                        *left = left.saturating_sub(amount);
                    }
                }
            }
        }
        book
    }

    /// Returns the counters that a device consumes, by number.
    fn consumption(&self, device: &Device) -> Vec<(usize, i128)> {
        let sets = device.consumes_counters.iter();
        let counters = sets.flat_map(|own| {
            own.counters.iter().map(|(name, amount)| ((&*own.set, &**name), amount.nanos()))
        });
        counters.filter_map(|(key, amount)| Some((*self.numbers.get(&key)?, amount))).collect()
    }

    /// Consumes the counters of a device. Returns false, and consumes nothing, if any counter of
    /// the pool is then exceeded.
    pub(crate) fn consume(&mut self, device: &Device) -> bool {
        self.change(device, 1);
        let fits = self.consumed.iter().zip(&self.available).all(|(used, left)| used <= left);
        if !fits {
            self.give_back(device);
        }
        fits
    }

    /// Gives back what a device consumes.
    pub(crate) fn give_back(&mut self, device: &Device) {
        self.change(device, -1);
    }

    fn change(&mut self, device: &Device, sign: i128) {
        for (number, amount) in self.consumption(device) {
            let consumed = &mut self.consumed[number];
            *consumed = consumed.saturating_add(amount.saturating_mul(sign));
        }
    }
}
