//! Pods per second, sampled as scheduler_perf does.
//!
//! Every second the newly scheduled pods are counted. The first second in which a pod was scheduled
//! is no sample, because the pods may have been created at any time in it. A second without a pod
//! counts as part of the next sample, which then counts once for each of its seconds.

use std::time::Duration;

use serde::Serialize;

/// Time between samples.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// The samples of a measurement.
#[derive(Debug, Default)]
pub struct Samples {
    /// Time and number of scheduled pods at the last sample.
    last: Option<(Duration, usize)>,
    /// Number of intervals without a pod since then.
    skipped: usize,
    rates: Vec<f64>,
}

/// Throughput in pods per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Throughput {
    /// The mean of the samples.
    pub average: f64,
    /// The median.
    pub perc50: f64,
    /// The 90th percentile.
    pub perc90: f64,
    /// The 95th percentile.
    pub perc95: f64,
    /// The 99th percentile.
    pub perc99: f64,
}

impl Samples {
    /// Records how many pods have been scheduled `at` a time since the start.
    pub fn record(&mut self, at: Duration, scheduled: usize) {
        let Some((last, before)) = self.last else {
            self.last = (scheduled > 0).then_some((at, scheduled));
            return;
        };
        if scheduled <= before {
            self.skipped += 1;
            return;
        }
        let rate = (scheduled - before) as f64 / (at - last).as_secs_f64();
        self.rates.extend(std::iter::repeat_n(rate, self.skipped + 1));
        self.last = Some((at, scheduled));
        self.skipped = 0;
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.rates.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// Returns the throughput; `None` without a sample.
    pub fn throughput(&self) -> Option<Throughput> {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        let percentile = |percent: usize| {
            rates.get((rates.len() * percent).div_ceil(100).checked_sub(1)?).copied()
        };
        Some(Throughput {
            perc50: percentile(50)?,
            perc90: percentile(90)?,
            perc95: percentile(95)?,
            perc99: percentile(99)?,
            average: rates.iter().sum::<f64>() / rates.len() as f64,
        })
    }
}

impl Throughput {
    /// Returns the throughput of a measurement that is too short for samples: all its pods over all
    /// its time.
    pub fn overall(pods: usize, time: Duration) -> Option<Self> {
        let rate = pods as f64 / time.as_secs_f64();
        let all = Self { average: rate, perc50: rate, perc90: rate, perc95: rate, perc99: rate };
        (pods > 0 && rate.is_finite()).then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(scheduled: &[usize]) -> Samples {
        let mut samples = Samples::default();
        for (second, scheduled) in (1..).zip(scheduled) {
            samples.record(Duration::from_secs(second), *scheduled);
        }
        samples
    }

    #[test]
    fn first_second_with_a_pod_is_no_sample() {
        assert_eq!(samples(&[0, 0, 70]).throughput(), None);
        let throughput = samples(&[0, 70, 170, 370]).throughput().unwrap();
        assert_eq!(
            (throughput.average, throughput.perc50, throughput.perc99),
            (150.0, 100.0, 200.0)
        );
    }

    #[test]
    fn seconds_without_pods_lower_the_next_sample() {
        let samples = samples(&[10, 10, 10, 40]);
        assert_eq!(samples.rates, [10.0, 10.0, 10.0]);
    }

    #[test]
    fn percentiles_are_those_of_scheduler_perf() {
        let rates = (1..=20).map(f64::from).collect();
        let samples = Samples { rates, ..Samples::default() };
        let throughput = samples.throughput().unwrap();
        let percentiles =
            (throughput.perc50, throughput.perc90, throughput.perc95, throughput.perc99);
        assert_eq!(percentiles, (10.0, 18.0, 19.0, 20.0));
    }

    #[test]
    fn short_measurement_has_its_overall_rate() {
        let throughput = Throughput::overall(300, Duration::from_millis(500)).unwrap();
        assert_eq!(throughput.average, 600.0);
        assert_eq!(Throughput::overall(0, Duration::from_millis(500)), None);
        assert_eq!(Throughput::overall(5, Duration::ZERO), None);
    }
}
