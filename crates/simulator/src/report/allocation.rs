//! The allocated share of a cluster while pods arrive, and its plot.
//!
//! A [`Meter`] follows one run and returns a [`Sample`] after every arrival. [`summarise`] maps the
//! samples of several runs to a [`Grid`] and computes mean, minimum and maximum over the runs.
//! [`plot`] draws the result. All functions are pure. Shares are percentages of the capacity of the
//! cluster.

use super::svg::{Plot, Series, Unit};
use crate::trace::Amounts;

/// The note for GPU shares that are counted per device.
pub const DEVICES_NOTE: &str = "GPU is accounted for by device: a pod that wants a part of a GPU fits on \
    one device, and a pod that wants several takes whole ones.";

/// The note for GPU shares that are summed per node.
pub const FRAGMENTATION_NOTE: &str = "GPU is summed per node: room left over on several devices \
     of a node counts as one piece. Fragmentation inside a node does not show, so these shares do \
     not compare with those of schedulers that place on single devices.";

/// Shares of the three resources, in percent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Shares {
    /// CPU.
    pub cpu: f64,
    /// Memory.
    pub memory: f64,
    /// GPU.
    pub gpu: f64,
}

impl Shares {
    /// Returns `part` as a share of `whole`, resource by resource. The share of a resource without
    /// capacity is 0.
    pub fn of(part: Amounts, whole: Amounts) -> Self {
        Self {
            cpu: percent(part.cpu_milli, whole.cpu_milli),
            memory: percent(part.memory_mib, whole.memory_mib),
            gpu: percent(part.gpu_milli, whole.gpu_milli),
        }
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// The state of a cluster after an arrival.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// GPU demand of all arrived pods, in percent of the GPU capacity.
    pub arrived: f64,
    /// The allocated shares, in percent of the capacity.
    pub allocated: Shares,
}

/// Counts demand and allocation of one run. Amounts are integers, so the counts are exact until a
/// sample is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meter {
    capacity: Amounts,
    arrived: Amounts,
    allocated: Amounts,
}

impl Meter {
    /// Creates a meter for an empty cluster with this capacity.
    pub fn new(capacity: Amounts) -> Self {
        Self { capacity, arrived: Amounts::default(), allocated: Amounts::default() }
    }

    /// Records the arrival of a pod.
    pub fn arrive(&mut self, demand: Amounts) {
        self.arrived = self.arrived.plus(demand);
    }

    /// Records the placement of a pod.
    pub fn allocate(&mut self, demand: Amounts) {
        self.allocated = self.allocated.plus(demand);
    }

    /// Records the departure of a placed pod.
    pub fn release(&mut self, demand: Amounts) {
        self.allocated = self.allocated.minus(demand);
    }

    /// Returns the current state.
    pub fn sample(&self) -> Sample {
        Sample {
            arrived: Shares::of(self.arrived, self.capacity).gpu,
            allocated: Shares::of(self.allocated, self.capacity),
        }
    }
}

/// Points on the axis of arrived demand, in percent: 0, `step`, 2 `step`, and so on up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Distance between two points; 0 counts as 1.
    pub step: u32,
    /// Maximum of the points.
    pub end: u32,
}

impl Grid {
    /// Returns the points.
    pub fn points(self) -> impl Iterator<Item = f64> {
        (0..=self.end).step_by(self.step.max(1) as usize).map(f64::from)
    }
}

/// Mean, minimum and maximum of a number over several runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

impl Spread {
    /// Computes the spread of these values; `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (mut count, mut sum) = (0.0, 0.0);
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            count += 1.0;
            sum += value;
            min = f64::min(min, value);
            max = f64::max(max, value);
        }
        // Rounding may move the mean of equal values beyond them.
        (count > 0.0).then(|| Self { mean: f64::min(max, f64::max(min, sum / count)), min, max })
    }
}

/// The state of several runs at one point of the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GridPoint {
    /// Arrived GPU demand in percent of the GPU capacity.
    pub arrived: f64,
    /// Number of runs that reached this point.
    pub runs: usize,
    /// Allocated CPU in percent.
    pub cpu: Spread,
    /// Allocated memory in percent.
    pub memory: Spread,
    /// Allocated GPU in percent.
    pub gpu: Spread,
}

/// Maps one run to the grid: each point gets the state after the last arrival not beyond it.
///
/// The allocation before the first arrival is 0. A run covers the points up to the first one at or
/// after its last sample; further points are left out. A drawing up to 130 %, for example, ends
/// slightly below 130 % and covers that point too. `samples` are in the order of arrival.
pub fn resample(samples: &[Sample], grid: Grid) -> Vec<Shares> {
    let Some(last) = samples.last() else { return Vec::new() };
    let mut shares = Vec::new();
    let (mut next, mut now) = (0, Shares::default());
    for point in grid.points() {
        while let Some(sample) = samples.get(next).filter(|sample| sample.arrived <= point) {
            now = sample.allocated;
            next += 1;
        }
        shares.push(now);
        if point >= last.arrived {
            break;
        }
    }
    shares
}

/// Returns mean, minimum and maximum over the runs at each point of the grid that a run reaches.
pub fn summarise<S: AsRef<[Sample]>>(runs: &[S], grid: Grid) -> Vec<GridPoint> {
    let runs: Vec<Vec<Shares>> = runs.iter().map(|run| resample(run.as_ref(), grid)).collect();
    let point = |(ix, arrived)| {
        let reached: Vec<Shares> = runs.iter().filter_map(|run| run.get(ix)).copied().collect();
        let over = |share: fn(&Shares) -> f64| Spread::of(reached.iter().map(share));
        Some(GridPoint {
            arrived,
            runs: reached.len(),
            cpu: over(|shares| shares.cpu)?,
            memory: over(|shares| shares.memory)?,
            gpu: over(|shares| shares.gpu)?,
        })
    };
    grid.points().enumerate().map_while(point).collect()
}

/// Plots allocation over arrived demand. There is one line per resource, with a band from minimum
/// to maximum for several runs. The lines end at the last point that all runs reach: a mean over
/// fewer runs does not continue them. The diagonal shows the demand. `note` is printed below.
pub fn plot(title: String, points: &[GridPoint], note: &'static str) -> Plot {
    let runs = points.iter().map(|point| point.runs).max().unwrap_or_default();
    let common = points.iter().take_while(|point| point.runs == runs).count();
    let points = &points[..common];
    let reach = points.last().map_or(0.0, |point| point.arrived);
    let series = |name, of: fn(&GridPoint) -> Spread| {
        let spreads = points.iter().map(|point| (point.arrived, of(point)));
        let band = spreads.clone().filter(|_| runs > 1);
        Series {
            name,
            line: spreads.map(|(x, Spread { mean, .. })| (x, mean)).collect(),
            band: band.map(|(x, Spread { min, max, .. })| (x, min, max)).collect(),
        }
    };
    let subtitle = match runs {
        0 => "no data".to_owned(),
        1 => String::new(),
        _ => format!("mean of {runs} seeds, shaded from least to most"),
    };
    Plot {
        title,
        subtitle,
        x_label: "GPU demand arrived, as share of GPU capacity",
        x_unit: Unit::Percent,
        reach: reach.max(1.0),
        y_label: "allocated share of capacity",
        y_reach: 100.0,
        series: vec![
            series("GPU", |point| point.gpu),
            series("CPU", |point| point.cpu),
            series("memory", |point| point.memory),
        ],
        diagonal: Some("every requested GPU is placed"),
        note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(arrived: f64, gpu: f64) -> Sample {
        Sample { arrived, allocated: Shares { cpu: gpu / 2.0, memory: gpu / 4.0, gpu } }
    }

    fn gpus(shares: &[Shares]) -> Vec<f64> {
        shares.iter().map(|shares| shares.gpu).collect()
    }

    const TENS: Grid = Grid { step: 10, end: 40 };

    #[test]
    fn meter_counts_arrivals_allocations_and_releases() {
        let amounts =
            |cpu_milli, memory_mib, gpu_milli| Amounts { cpu_milli, memory_mib, gpu_milli };
        let mut meter = Meter::new(amounts(1000, 200, 4000));
        assert_eq!(meter.sample(), Sample::default());
        meter.arrive(amounts(500, 50, 1000));
        meter.allocate(amounts(500, 50, 1000));
        meter.arrive(amounts(100, 50, 1000));
        let expected = Shares { cpu: 50.0, memory: 25.0, gpu: 25.0 };
        assert_eq!(meter.sample(), Sample { arrived: 50.0, allocated: expected });
        meter.release(amounts(500, 50, 1000));
        assert_eq!(meter.sample(), Sample { arrived: 50.0, allocated: Shares::default() });
    }

    #[test]
    fn resource_without_capacity_has_share_zero() {
        let part = Amounts { gpu_milli: 5, ..Default::default() };
        assert_eq!(Shares::of(part, Amounts::default()), Shares::default());
    }

    #[test]
    fn grid_point_has_the_state_after_the_last_arrival_before_it() {
        let samples = [sample(4.0, 4.0), sample(10.0, 9.0), sample(10.0, 9.5), sample(35.0, 30.0)];
        assert_eq!(gpus(&resample(&samples, TENS)), [0.0, 9.5, 9.5, 9.5, 30.0]);
    }

    #[test]
    fn run_covers_the_point_after_its_last_sample() {
        assert_eq!(gpus(&resample(&[sample(19.9, 15.0)], TENS)), [0.0, 0.0, 15.0]);
        assert_eq!(gpus(&resample(&[sample(20.0, 15.0)], TENS)), [0.0, 0.0, 15.0]);
        assert_eq!(gpus(&resample(&[sample(99.0, 15.0)], TENS)), [0.0; 5]);
        assert_eq!(resample(&[], TENS), []);
    }

    #[test]
    fn runs_are_summarised_point_by_point() {
        let runs = [vec![sample(10.0, 10.0), sample(20.0, 16.0)], vec![sample(10.0, 8.0)]];
        let points = summarise(&runs, TENS);
        let seen: Vec<_> =
            points.iter().map(|point| (point.arrived, point.runs, point.gpu)).collect();
        let spread = |mean, min, max| Spread { mean, min, max };
        assert_eq!(
            seen,
            [
                (0.0, 2, spread(0.0, 0.0, 0.0)),
                (10.0, 2, spread(9.0, 8.0, 10.0)),
                (20.0, 1, spread(16.0, 16.0, 16.0)),
            ]
        );
        assert_eq!(points[1].cpu, spread(4.5, 4.0, 5.0));
        assert_eq!(points[1].memory, spread(2.25, 2.0, 2.5));
        assert_eq!(summarise::<Vec<Sample>>(&[], TENS), []);
    }

    #[test]
    fn mean_is_between_minimum_and_maximum() {
        assert_eq!(Spread::of([]), None);
        for count in 1..50 {
            let spread = Spread::of(vec![0.1; count]).expect("there are values");
            assert_eq!((spread.min, spread.mean, spread.max), (0.1, 0.1, 0.1), "{count} values");
        }
    }

    #[test]
    fn grid_with_step_zero_counts_by_ones() {
        let points: Vec<f64> = Grid { step: 0, end: 3 }.points().collect();
        assert_eq!(points, [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn lines_end_where_the_first_run_ends() {
        let runs = [vec![sample(10.0, 10.0), sample(40.0, 30.0)], vec![sample(10.0, 8.0)]];
        let plot = plot("openb".to_owned(), &summarise(&runs, TENS), "note");
        assert_eq!(plot.series[0].line, [(0.0, 0.0), (10.0, 9.0)]);
        assert_eq!(plot.reach, 10.0);
    }

    #[test]
    fn plot_has_title_labels_and_note() {
        let runs = [vec![sample(10.0, 10.0)], vec![sample(10.0, 8.0)]];
        let svg = |runs: &[Vec<Sample>]| {
            plot("openb".to_owned(), &summarise(runs, TENS), FRAGMENTATION_NOTE).to_svg().unwrap()
        };
        let both = svg(&runs);
        for text in ["mean of 2 seeds", "GPU", "CPU", "memory", "Fragmentation inside"] {
            assert!(both.contains(text), "{text} is missing in {both}");
        }
        assert!(!svg(&runs[..1]).contains("seeds"), "one run has no band");
        assert!(svg(&[]).contains("no data"));
    }
}
