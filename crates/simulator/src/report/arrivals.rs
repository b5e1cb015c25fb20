//! The outcome of a trace: how the pods fared, and what was allocated at some points on the way.

use serde::Serialize;
use table::{Colour, Column, Table};

use super::allocation::{Grid, GridPoint, Spread, summarise};
use crate::trace::Trace;
use crate::{Course, Tally};

/// Arrived GPU demand, in percent of the capacity, at which numbers are printed; the end comes on top.
const MARKS: [u32; 2] = [50, 100];

/// Steps of the figure, in percent of arrived demand.
const STEP: u32 = 1;

/// Everything about the runs of a trace. Its JSON form is an interface: fields are added, never renamed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Arrivals {
    /// What was done, for example `replay`.
    pub mode: String,
    /// Nodes.
    pub nodes: usize,
    /// How the pods fared, for each seed.
    pub runs: Vec<Run>,
    /// What was allocated when so much had arrived.
    pub allocation: Vec<Mark>,
    /// The most that was allocated after any arrival of any run.
    pub peak: Peak,
    /// What must be known about the GPU figure.
    pub note: &'static str,
}

/// How the pods fared in one run.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// Numbers of pods.
    #[serde(flatten)]
    pub tally: Tally,
}

/// The state at one point on the way, in percent of what the cluster has.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// GPU demand that had arrived.
    pub arrived_percent: f64,
    /// Number of runs that got there.
    pub runs: usize,
    /// CPU allocated.
    pub cpu: Range,
    /// Memory allocated.
    pub memory: Range,
    /// GPU allocated.
    pub gpu: Range,
}

/// The most that was allocated of each resource, in percent of what the cluster has.
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

/// Mean, least and most over the runs.
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

/// The points of the figure.
pub fn curve(courses: &[Course]) -> Vec<GridPoint> {
    let end = courses.iter().filter_map(|course| course.samples.last()).map(|last| last.arrived);
    let end = end.fold(0.0, f64::max).ceil();
    // Saturates, and a figure of four thousand million percent is none.
    let grid = Grid { step: STEP, end: end as u32 };
    let samples: Vec<_> = courses.iter().map(|course| &course.samples).collect();
    summarise(&samples, grid)
}

impl Arrivals {
    /// Sums up the runs of a trace, whose figure is `curve`; `note` says how GPUs were counted.
    pub fn of(
        mode: String,
        trace: &Trace,
        courses: &[Course],
        curve: &[GridPoint],
        note: &'static str,
    ) -> Self {
        let runs = courses.iter().map(|course| Run { seed: course.seed, tally: course.tally });
        Self {
            mode,
            nodes: trace.nodes.len(),
            runs: runs.collect(),
            allocation: marks(curve).map(Mark::from).collect(),
            peak: Peak::of(courses),
            note,
        }
    }

    /// The summary as text.
    pub fn render(&self, colour: Colour) -> String {
        let mut text = format!("{} on {} nodes\n\nPODS\n", self.mode, self.nodes);
        text += &self.tallies().render(colour);
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
        let headers = ["SEED", "ARRIVED", "AT ONCE", "AFTER WAITING", "NEVER"];
        let mut table = Table::new(headers.map(Column::numbers));
        for Run { seed, tally } in &self.runs {
            let Tally { arrived, at_once, after_waiting, never } = tally;
            let numbers = [arrived, at_once, after_waiting, never].map(ToString::to_string);
            table.row([seed.to_string()].into_iter().chain(numbers));
        }
        table
    }

    fn marks(&self) -> Table {
        let headers = ["ARRIVED GPU DEMAND", "GPU", "CPU", "MEMORY"];
        let mut table = Table::new(headers.map(Column::numbers));
        for mark in &self.allocation {
            let range = |range: Range| match self.runs.len() {
                1 => format!("{:.2}", range.mean),
                _ => format!("{:.2} ({:.2}-{:.2})", range.mean, range.min, range.max),
            };
            let arrived = format!("{:.0}", mark.arrived_percent);
            table.row([arrived, range(mark.gpu), range(mark.cpu), range(mark.memory)]);
        }
        table
    }
}

/// The points worth a line: the marks that are reached, and the end.
fn marks(curve: &[GridPoint]) -> impl Iterator<Item = &GridPoint> {
    let last = curve.len().saturating_sub(1);
    let is_mark = |arrived: f64| MARKS.iter().any(|mark| f64::from(*mark) == arrived);
    let kept = move |(index, point): &(usize, &GridPoint)| *index == last || is_mark(point.arrived);
    curve.iter().enumerate().filter(kept).map(|(_, point)| point)
}
