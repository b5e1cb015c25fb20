//! Histograms: observations counted by size.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Instrument;

/// Observations counted in buckets, with their sum.
#[derive(Debug)]
pub struct Histogram {
    name: Arc<str>,
    help: Arc<str>,
    /// Upper bounds, ascending and finite; a bound belongs to its bucket.
    bounds: Arc<[f64]>,
    /// Observations in each bucket alone; the last one is for what exceeds all bounds.
    counts: Box<[AtomicU64]>,
    /// The bits of the sum.
    sum: AtomicU64,
}

/// The content of a histogram at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistogramSnapshot {
    /// Upper bound of each bucket, ascending, with the number of observations up to it.
    pub buckets: Vec<(f64, u64)>,
    /// Number of all observations.
    pub count: u64,
    /// Sum of all observations.
    pub sum: f64,
}

impl Histogram {
    /// Returns a histogram that is exported as `name`, with buckets up to each of `bounds`. The
    /// order of the bounds does not matter; bounds that are not finite are left out, since a bucket
    /// for everything exists anyway.
    pub fn new(name: &str, help: &str, bounds: &[f64]) -> Arc<Self> {
        Arc::new(Self::unshared(name, help, bounds))
    }

    pub(super) fn unshared(name: &str, help: &str, bounds: &[f64]) -> Self {
        let mut bounds: Vec<f64> =
            bounds.iter().copied().filter(|bound| bound.is_finite()).collect();
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        Self::with_bounds(name.into(), help.into(), bounds.into())
    }

    fn with_bounds(name: Arc<str>, help: Arc<str>, bounds: Arc<[f64]>) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { name, help, bounds, counts, sum: AtomicU64::new(0_f64.to_bits()) }
    }

    /// Counts one observation.
    pub fn observe(&self, value: f64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound);
        let bucket = bucket.unwrap_or(self.bounds.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let add = |sum: u64| Some((f64::from_bits(sum) + value).to_bits());
        // The closure always returns a value, so the update cannot fail.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Returns the counts and the sum. The total is the sum of the buckets, also while another
    /// thread counts.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut count = 0;
        let mut cumulative = Vec::with_capacity(self.counts.len());
        for bucket in &self.counts {
            count += bucket.load(Ordering::Relaxed);
            cumulative.push(count);
        }
        let buckets = self.bounds.iter().copied().zip(cumulative).collect();
        HistogramSnapshot { buckets, count, sum: f64::from_bits(self.sum.load(Ordering::Relaxed)) }
    }
}

impl Instrument for Histogram {
    fn name(&self) -> &str {
        &self.name
    }

    fn help(&self) -> &str {
        &self.help
    }

    fn blank(&self) -> Self {
        Self::with_bounds(self.name.clone(), self.help.clone(), self.bounds.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observation_counts_in_every_bucket_that_reaches_it() {
        let histogram = Histogram::new("h", "Help.", &[10.0, 1.0, f64::INFINITY, 1.0]);
        [0.5, 1.0, 1.5, 100.0].into_iter().for_each(|value| histogram.observe(value));
        let expected =
            HistogramSnapshot { buckets: vec![(1.0, 2), (10.0, 3)], count: 4, sum: 103.0 };
        assert_eq!(histogram.snapshot(), expected);
    }

    #[test]
    fn nan_is_counted_in_no_finite_bucket() {
        let histogram = Histogram::new("h", "Help.", &[1.0]);
        histogram.observe(f64::NAN);
        let snapshot = histogram.snapshot();
        assert_eq!((snapshot.buckets, snapshot.count), (vec![(1.0, 0)], 1));
    }
}
