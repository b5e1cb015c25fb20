//! The report on a trace: outcomes of the pods, and the allocation at some points of the run.

use dry_run::table::{Colour, Column, Table};
use serde::Serialize;

use super::allocation::{Grid, GridPoint, Spread, summarise};
use super::waiting::{State, Waiting, over_time};
use crate::trace::Trace;
use crate::{Course, Tally};

/// Points of arrived GPU demand, in percent of the capacity, at which the allocation is printed.
/// The end of the run is printed too.
const MARKS: [u32; 2] = [50, 100];

/// Distance between points of the plot, in percent of arrived demand.
const STEP: u32 = 1;

/// The report on the runs of a trace. Its JSON form is an interface: fields are added, never
/// renamed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Arrivals {
    /// The mode, for example `replay`.
    pub mode: String,
    /// Number of nodes.
    pub nodes: usize,
    /// The outcomes of the pods, for each seed.
    pub runs: Vec<Run>,
    /// The allocation at some points of the run.
    pub allocation: Vec<Mark>,
    /// The maximum allocation after any arrival of any run.
    pub peak: Peak,
    /// How long the pods of a replay waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// The state of a replay over time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub over_time: Vec<State>,
    /// How GPUs were counted.
    pub note: &'static str,
}

/// The outcomes of the pods in one run.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// The number of pods by outcome.
    #[serde(flatten)]
    pub tally: Tally,
}

/// The state at one point of the run, in percent of the capacity.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// Arrived GPU demand.
    pub arrived_percent: f64,
    /// Number of runs that reached this point.
    pub runs: usize,
    /// Allocated CPU.
    pub cpu: Range,
    /// Allocated memory.
    pub memory: Range,
    /// Allocated GPU.
    pub gpu: Range,
}

/// The maximum allocation of each resource, in percent of the capacity.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are the resources")]
pub struct Peak {
    pub cpu: f64,
    pub memory: f64,
    pub gpu: f64,
}

impl Peak {
    fn of(courses: &[Course]) -> Self {
        let samples = courses.iter().flat_map(|course| &course.samples);
        samples.map(|sample| sample.allocated).fold(Self::default(), |peak, share| Self {
            cpu: peak.cpu.max(share.cpu),
            memory: peak.memory.max(share.memory),
            gpu: peak.gpu.max(share.gpu),
        })
    }
}

/// Mean, minimum and maximum over the runs.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are what the type says")]
pub struct Range {
    pub mean: f64,
    pub min: f64,
    pub max: f64,
}

impl From<Spread> for Range {
    fn from(Spread { mean, min, max }: Spread) -> Self {
        Self { mean, min, max }
    }
}

impl From<&GridPoint> for Mark {
    fn from(point: &GridPoint) -> Self {
        Self {
            arrived_percent: point.arrived,
            runs: point.runs,
            cpu: point.cpu.into(),
            memory: point.memory.into(),
            gpu: point.gpu.into(),
        }
    }
}

/// Returns the points of the plot.
pub fn curve(courses: &[Course]) -> Vec<GridPoint> {
    let end = courses.iter().filter_map(|course| course.samples.last()).map(|last| last.arrived);
    let end = end.fold(0.0, f64::max).ceil();
    // The cast saturates; realistic percentages are far smaller.
    let grid = Grid { step: STEP, end: end as u32 };
    let samples: Vec<_> = courses.iter().map(|course| &course.samples).collect();
    summarise(&samples, grid)
}

impl Arrivals {
    /// Summarises the runs of a trace with the plot `curve`; `note` says how GPUs were counted.
    pub fn of(
        mode: String,
        trace: &Trace,
        courses: &[Course],
        curve: &[GridPoint],
        note: &'static str,
    ) -> Self {
        let runs = courses.iter().map(|course| Run { seed: course.seed, tally: course.tally });
        let replayed = courses.iter().find(|course| !course.moments.is_empty());
        Self {
            mode,
            nodes: trace.nodes.len(),
            runs: runs.collect(),
            allocation: marks(curve).map(Mark::from).collect(),
            peak: Peak::of(courses),
            waiting: replayed.map(|course| {
                Waiting::of(course.waits.clone(), &course.moments, course.last_arrival)
            }),
            over_time: replayed.map_or_else(Vec::new, |course| over_time(&course.moments)),
            note,
        }
    }

    /// Renders the report as text.
    pub fn render(&self, colour: Colour) -> String {
        let mut text = format!("{} on {} nodes\n\nPODS\n", self.mode, self.nodes);
        text += &self.tallies().render(colour);
        if let Some(waiting) = &self.waiting {
            text += &format!("{}\n", waiting.sentence());
        }
        text += "\nALLOCATED, % of capacity";
        if self.runs.len() > 1 {
            text += &format!(": mean over {} seeds (least-most)", self.runs.len());
        }
        text += "\n";
        text += &self.marks().render(colour);
        let Peak { cpu, memory, gpu } = self.peak;
        text += &format!("At most at any time: GPU {gpu:.2}, CPU {cpu:.2}, memory {memory:.2}.\n");
        text + "\n" + self.note + "\n"
    }

    fn tallies(&self) -> Table {
        let has_moves = self.runs.iter().any(|run| run.tally.moves > 0);
        let headers = ["SEED", "ARRIVED", "AT ONCE", "AFTER WAITING", "NEVER"].into_iter();
        let headers = headers.chain(has_moves.then_some("MOVES"));
        let mut table = Table::new(headers.map(Column::numbers));
        for Run { seed, tally } in &self.runs {
            let Tally { arrived, at_once, after_waiting, never, moves } = tally;
            let numbers = [arrived, at_once, after_waiting, never].map(ToString::to_string);
            let moves = has_moves.then(|| moves.to_string());
            table.row([seed.to_string()].into_iter().chain(numbers).chain(moves));
        }
        table
    }

    fn marks(&self) -> Table {
        let several = self.runs.len() > 1;
        let headers = ["ARRIVED GPU DEMAND"].into_iter().chain(several.then_some("RUNS"));
        let headers = headers.chain(["GPU", "CPU", "MEMORY"]).map(Column::numbers);
        let mut table = Table::new(headers);
        for mark in &self.allocation {
            let range = |range: Range| match self.runs.len() {
                1 => format!("{:.2}", range.mean),
                _ => format!("{:.2} ({:.2}-{:.2})", range.mean, range.min, range.max),
            };
            let arrived = format!("{:.0}", mark.arrived_percent);
            let runs = several.then(|| mark.runs.to_string());
            let shares = [mark.gpu, mark.cpu, mark.memory].map(range);
            table.row([arrived].into_iter().chain(runs).chain(shares));
        }
        table
    }
}

/// Returns the printed points: the marks that the run reached, and its end.
fn marks(curve: &[GridPoint]) -> impl Iterator<Item = &GridPoint> {
    let last = curve.len().saturating_sub(1);
    let is_mark = |arrived: f64| MARKS.iter().any(|mark| f64::from(*mark) == arrived);
    let kept = move |(index, point): &(usize, &GridPoint)| *index == last || is_mark(point.arrived);
    curve.iter().enumerate().filter(kept).map(|(_, point)| point)
}
