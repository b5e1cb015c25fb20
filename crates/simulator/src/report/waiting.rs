//! How long the pods of a replay waited, and the state of the cluster over time.

use serde::Serialize;

use super::allocation::Shares;
use super::svg::{Plot, Series, Unit};
use dry_run::report::cluster::counted;

/// Maximum number of points of the state over time in a report.
const POINTS: u64 = 200;

/// The state of a replay after an arrival or a departure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Seconds since the first arrival.
    pub seconds: u64,
    /// The allocated shares, in percent of the capacity.
    pub allocated: Shares,
    /// Number of pods that have arrived and have no node.
    pub waiting: usize,
}

/// The wait of a pod that was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    /// The GPUs that it requests, in thousandths.
    pub gpu_milli: u64,
    /// The CPUs that it requests, in thousandths.
    pub cpu_milli: u64,
    /// Seconds between arrival and placement.
    pub seconds: u64,
}

/// The time between arrival and placement, of the pods that were placed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// Number of placed pods.
    pub placed: usize,
    /// Number of placed pods that waited for a second or longer.
    pub waited: usize,
    /// The median over the pods that waited, in seconds.
    pub median_seconds: u64,
    /// The time within which 95 % of the pods that waited were placed, in seconds.
    pub p95_seconds: u64,
    /// The longest time, in seconds.
    pub longest_seconds: u64,
    /// The maximum number of pods that waited at the same time, pods that were never placed
    /// included.
    pub most_at_once: usize,
    /// The mean over the tenth of the placed pods that request the most GPUs, in seconds.
    pub largest_tenth_mean_seconds: u64,
    /// The mean over all placed pods, in seconds.
    pub mean_seconds: u64,
    /// The mean share of the GPUs that was allocated up to the last arrival, in percent.
    pub mean_gpu_until_last_arrival: f64,
}

impl Waiting {
    /// Summarises the times of the placed pods, in seconds.
    pub fn of(mut waits: Vec<Wait>, moments: &[Moment], last_arrival: u64) -> Self {
        let placed = waits.len();
        waits.sort_unstable();
        let largest = &waits[placed - placed.div_ceil(10)..];
        let (largest_tenth_mean_seconds, mean_seconds) = (mean(largest), mean(&waits));
        let mut waits: Vec<u64> = waits.iter().map(|wait| wait.seconds).collect();
        waits.retain(|wait| *wait > 0);
        waits.sort_unstable();
        let at = |percent: usize| {
            let place = (waits.len() * percent).div_ceil(100).saturating_sub(1);
            waits.get(place).copied().unwrap_or_default()
        };
        Self {
            placed,
            waited: waits.len(),
            median_seconds: at(50),
            p95_seconds: at(95),
            longest_seconds: at(100),
            most_at_once: moments.iter().map(|moment| moment.waiting).max().unwrap_or_default(),
            largest_tenth_mean_seconds,
            mean_seconds,
            mean_gpu_until_last_arrival: mean_gpu(moments, last_arrival),
        }
    }

    /// Returns the summary as a sentence.
    pub fn sentence(&self) -> String {
        let Self { placed, waited, .. } = self;
        let most = counted(self.most_at_once, "pod");
        let times = match waited {
            0 => String::new(),
            _ => format!(
                ": half of them up to {}, 95 % up to {}, the longest {}",
                duration(self.median_seconds),
                duration(self.p95_seconds),
                duration(self.longest_seconds)
            ),
        };
        format!(
            "{waited} of {placed} placed pods waited{times}. At most {most} waited at once. The \
             mean over all is {}, over the tenth with the most GPUs {}. Up to the last arrival, \
             {:.2} % of the GPUs were allocated on average.",
            duration(self.mean_seconds),
            duration(self.largest_tenth_mean_seconds),
            self.mean_gpu_until_last_arrival
        )
    }
}

fn mean(waits: &[Wait]) -> u64 {
    let sum: u64 = waits.iter().map(|wait| wait.seconds).sum();
    sum / (waits.len() as u64).max(1)
}

/// Returns the mean share of allocated GPUs from the first to the last arrival.
fn mean_gpu(moments: &[Moment], last_arrival: u64) -> f64 {
    let during = moments.windows(2).map(|pair| {
        let seconds = pair[1].seconds.min(last_arrival).saturating_sub(pair[0].seconds);
        seconds as f64 * pair[0].allocated.gpu
    });
    during.sum::<f64>() / (last_arrival as f64).max(1.0)
}

/// Formats seconds like kubectl formats ages, with at most two units.
pub(super) fn duration(seconds: u64) -> String {
    let units = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = units.iter().position(|(number, _)| *number > 0).unwrap_or(units.len() - 1);
    let shown = units[first..].iter().take(2).enumerate();
    let shown = shown.filter(|(place, (number, _))| *place == 0 || *number > 0);
    shown.map(|(_, (number, unit))| format!("{number}{unit}")).collect()
}

/// The state at a time of the replay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Seconds since the first arrival.
    pub seconds: u64,
    /// Allocated CPU, in percent.
    pub cpu: f64,
    /// Allocated memory, in percent.
    pub memory: f64,
    /// Allocated GPU, in percent.
    pub gpu: f64,
    /// Number of pods that wait.
    pub waiting: usize,
}

/// Returns the state at no more than some hundred times in equal distance: the last moment up to
/// each.
pub fn over_time(moments: &[Moment]) -> Vec<State> {
    let Some(end) = moments.last().map(|moment| moment.seconds) else { return Vec::new() };
    let step = end.div_ceil(POINTS).max(1);
    let mut states = Vec::new();
    let mut next = 0;
    for seconds in (0..=end.div_ceil(step)).map(|point| (point * step).min(end)) {
        while moments.get(next + 1).is_some_and(|moment| moment.seconds <= seconds) {
            next += 1;
        }
        let Moment { allocated: Shares { cpu, memory, gpu }, waiting, .. } = moments[next];
        states.push(State { seconds, cpu, memory, gpu, waiting });
    }
    states
}

/// Plots the allocation over time. `note` is printed below.
pub fn plot(title: String, moments: &[Moment], note: &'static str) -> Plot {
    let end = moments.last().map_or(0, |moment| moment.seconds);
    let (unit, seconds) =
        if end > 3 * 86_400 { (Unit::Days, 86_400.0) } else { (Unit::Hours, 3600.0) };
    let series = |name, of: fn(&State) -> f64| {
        let line = over_time(moments).into_iter();
        let line = line.map(|state| (state.seconds as f64 / seconds, of(&state))).collect();
        Series { name, line, band: Vec::new() }
    };
    let reach = end as f64 / seconds;
    Plot {
        title,
        subtitle: String::new(),
        x_label: "time since the first arrival",
        x_unit: unit,
        reach: if reach > 0.0 { reach } else { 1.0 },
        y_label: "allocated share of capacity",
        y_reach: y_reach(moments),
        series: vec![
            series("GPU", |state| state.gpu),
            series("CPU", |state| state.cpu),
            series("memory", |state| state.memory),
        ],
        diagonal: None,
        note,
    }
}

/// Returns the end of the y axis: a round percentage that no share exceeds.
fn y_reach(moments: &[Moment]) -> f64 {
    let shares = moments.iter().map(|moment| moment.allocated);
    let most =
        shares.fold(0.0, |most, Shares { cpu, memory, gpu }| cpu.max(memory).max(gpu).max(most));
    let ends = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
    ends.into_iter().find(|end| most <= *end).unwrap_or(100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(seconds: u64, gpu: f64, waiting: usize) -> Moment {
        Moment { seconds, allocated: Shares { gpu, ..Shares::default() }, waiting }
    }

    #[test]
    fn waits_are_summarised_over_the_pods_that_waited() {
        let wait = |seconds| Wait { gpu_milli: 1000, cpu_milli: 30 - seconds, seconds };
        let waits = [vec![wait(0); 10], (1..=20).rev().map(wait).collect()].concat();
        let moments = [moment(0, 50.0, 3), moment(4, 100.0, 1), moment(9, 0.0, 1)];
        let waiting = Waiting::of(waits, &moments, 8);
        let expected = Waiting {
            placed: 30,
            waited: 20,
            median_seconds: 10,
            p95_seconds: 19,
            longest_seconds: 20,
            most_at_once: 3,
            largest_tenth_mean_seconds: 0,
            mean_seconds: 7,
            mean_gpu_until_last_arrival: 75.0,
        };
        assert_eq!(waiting, expected);
        let one = Waiting { placed: 1, ..Waiting::default() };
        assert_eq!(Waiting::of(vec![wait(0)], &[], 0), one);
    }

    #[test]
    fn durations_have_two_units() {
        let rows =
            [(0, "0s"), (59, "59s"), (60, "1m"), (3725, "1h2m"), (90_000, "1d1h"), (86_460, "1d")];
        for (seconds, expected) in rows {
            assert_eq!(duration(seconds), expected);
        }
    }

    #[test]
    fn state_at_a_time_is_that_after_the_last_moment_before() {
        let moments =
            [moment(0, 10.0, 0), moment(3, 20.0, 1), moment(3, 30.0, 2), moment(5, 0.0, 0)];
        let found: Vec<_> = over_time(&moments).iter().map(|own| (own.seconds, own.gpu)).collect();
        assert_eq!(found, [(0, 10.0), (1, 10.0), (2, 10.0), (3, 30.0), (4, 30.0), (5, 0.0)]);
        let long = [moment(0, 1.0, 0), moment(1_000_003, 2.0, 0)];
        let found = over_time(&long);
        assert!(found.len() <= 202, "{}", found.len());
        assert_eq!(found.last().map(|own| (own.seconds, own.gpu)), Some((1_000_003, 2.0)));
        assert!(over_time(&[]).is_empty());
    }

    #[test]
    fn plot_over_time_has_hours_or_days() {
        for (end, expected) in [(7200, "1.0 h"), (864_000, "4 d")] {
            let svg = plot("t".to_owned(), &[moment(0, 0.0, 0), moment(end, 50.0, 0)], "n");
            let svg = svg.to_svg().unwrap();
            assert!(svg.lines().any(|line| line.trim() == expected), "{svg}");
        }
        assert_eq!(y_reach(&[moment(0, 1.5, 0), moment(1, 0.5, 0)]), 2.0);
        assert_eq!(y_reach(&[moment(0, 51.0, 0)]), 100.0);
    }
}
