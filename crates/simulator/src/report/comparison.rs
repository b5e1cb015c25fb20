//! The comparison of one input under several configurations.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use table::{Cell, Colour, Column, Table, Tone};

use super::arrivals::Arrivals;
use crate::Tally;
use crate::cluster::{Simulation, Summary};

/// Maximum number of listed pods on a terminal; JSON lists all.
const LISTED: usize = 50;

/// The comparison of runs of a cluster dump. Its JSON form is an interface: fields are added, never
/// renamed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// One entry per configuration, in the order of the command line.
    pub configurations: Vec<Compared>,
    /// Pods that are not placed on the same node everywhere.
    pub differing: Vec<DifferingPod>,
}

/// The result under one configuration.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// The configuration file.
    pub configuration: String,
    /// Numbers of nodes and pods.
    pub summary: Summary,
    /// Requested share of each resource, in percent.
    pub utilisation: BTreeMap<String, f64>,
    /// Number of nodes without pods.
    pub empty_nodes: usize,
}

/// A pod and its node under each configuration, in their order; `None` if it stays pending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DifferingPod {
    /// `namespace/name`.
    pub pod: String,
    /// The nodes.
    pub nodes: Vec<Option<String>>,
}

impl Comparison {
    /// Compares simulations of one input.
    pub fn of(simulations: &[(String, Simulation)]) -> Self {
        let mut nodes: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
        for (place, (_, simulation)) in simulations.iter().enumerate() {
            for pod in &simulation.placed {
                let name = format!("{}/{}", pod.namespace, pod.name);
                let places = nodes.entry(name).or_insert_with(|| vec![None; simulations.len()]);
                places[place] = Some(pod.node.clone());
            }
        }
        let differs = |nodes: &[Option<String>]| nodes.windows(2).any(|pair| pair[0] != pair[1]);
        let differing = nodes.into_iter().filter(|(_, nodes)| differs(nodes));
        Self {
            configurations: simulations.iter().map(Compared::of).collect(),
            differing: differing.map(|(pod, nodes)| DifferingPod { pod, nodes }).collect(),
        }
    }

    /// Renders the comparison as text: numbers side by side, then the pods that differ.
    pub fn render(&self, colour: Colour) -> String {
        let mut text = self.numbers().render(colour);
        text += &match self.differing.len() {
            0 => "\nEvery pod gets the same node.\n".to_owned(),
            number => format!("\nPLACED DIFFERENTLY: {number}\n"),
        };
        if !self.differing.is_empty() {
            text += &self.pods().render(colour);
        }
        if let Some(more) = self.differing.len().checked_sub(LISTED).filter(|more| *more > 0) {
            text += &format!("and {more} more; -o json has all of them\n");
        }
        text
    }

    fn columns(&self, first: &str) -> Vec<Column> {
        let names = self.configurations.iter().map(|compared| compared.configuration.as_str());
        [Column::words(first)].into_iter().chain(names.map(Column::numbers)).collect()
    }

    fn numbers(&self) -> Table {
        let mut table = Table::new(self.columns(""));
        let mut row = |name: &str, value: &dyn Fn(&Compared) -> String| {
            let values = self.configurations.iter().map(value);
            table.row([name.to_owned()].into_iter().chain(values));
        };
        row("placed", &|compared| compared.summary.placed.to_string());
        row("left pending", &|compared| compared.summary.left.to_string());
        row("evicted", &|compared| compared.summary.evicted.to_string());
        row("empty nodes", &|compared| compared.empty_nodes.to_string());
        let resources = self.configurations.iter().flat_map(|compared| compared.utilisation.keys());
        let resources: BTreeSet<&String> = resources.collect();
        for resource in resources {
            row(&format!("{resource} requested, %"), &|compared| {
                let share = compared.utilisation.get(resource).copied().unwrap_or_default();
                format!("{share:.1}")
            });
        }
        table
    }

    fn pods(&self) -> Table {
        let mut table = Table::new(self.columns("POD"));
        for DifferingPod { pod, nodes } in self.differing.iter().take(LISTED) {
            let node = |node: &Option<String>| match node {
                Some(node) => Cell::from(node),
                None => Cell::toned("pending", Tone::Bad),
            };
            table.row([Cell::from(pod)].into_iter().chain(nodes.iter().map(node)));
        }
        table
    }
}

impl Compared {
    fn of((configuration, simulation): &(String, Simulation)) -> Self {
        Self {
            configuration: configuration.clone(),
            summary: simulation.summary,
            utilisation: simulation
                .total
                .iter()
                .filter_map(|(resource, usage)| Some((resource.clone(), usage.percent()?)))
                .collect(),
            empty_nodes: simulation.nodes.iter().filter(|node| node.pods() == 0.0).count(),
        }
    }
}

/// The runs of a trace under several configurations, by file.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct TraceComparison(pub Vec<(String, Arrivals)>);

impl TraceComparison {
    /// Renders numbers side by side: means over the seeds.
    pub fn render(&self, colour: Colour) -> String {
        let names = self.0.iter().map(|(name, _)| name.as_str());
        let columns = [Column::words("")].into_iter().chain(names.map(Column::numbers));
        let mut table = Table::new(columns.collect::<Vec<_>>());
        let mut row = |name: &str, value: &dyn Fn(&Arrivals) -> String| {
            let values = self.0.iter().map(|(_, arrivals)| value(arrivals));
            table.row([name.to_owned()].into_iter().chain(values));
        };
        row("placed at once", &|arrivals| mean(arrivals, |tally| tally.at_once));
        row("after waiting", &|arrivals| mean(arrivals, |tally| tally.after_waiting));
        row("never", &|arrivals| mean(arrivals, |tally| tally.never));
        let marks = self.0.iter().map(|(_, arrivals)| arrivals.allocation.len()).max().unwrap_or(0);
        for place in 0..marks {
            let arrived = self.0.iter().find_map(|(_, arrivals)| arrivals.allocation.get(place));
            let arrived = arrived.map_or(0.0, |mark| mark.arrived_percent);
            row(&format!("GPU allocated at {arrived:.0} %"), &|arrivals| {
                let mark = arrivals.allocation.get(place);
                mark.map_or_else(String::new, |mark| format!("{:.2}", mark.gpu.mean))
            });
        }
        table.render(colour)
    }
}

fn mean(arrivals: &Arrivals, of: impl Fn(&Tally) -> usize) -> String {
    let sum: usize = arrivals.runs.iter().map(|run| of(&run.tally)).sum();
    let mean = sum as f64 / arrivals.runs.len().max(1) as f64;
    format!("{mean:.1}")
}
