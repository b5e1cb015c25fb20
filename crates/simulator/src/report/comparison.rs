//! The comparison of one input under several configurations.

use std::collections::{BTreeMap, BTreeSet};

use dry_run::table::{Cell, Colour, Column, Table, Tone};
use serde::Serialize;

use super::arrivals::Arrivals;
use super::waiting::{Waiting, duration};
use crate::Tally;
use dry_run::NodeUsage;
use dry_run::cluster::{LeftPod, LeftState, Simulation, Summary};
use dry_run::report::cluster::Layout;

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
    /// Requested share of each resource on single nodes that have it, in percent.
    pub per_node: BTreeMap<String, Distribution>,
    /// Number of nodes without pods.
    pub empty_nodes: usize,
    /// Number of pods left pending by reason. A pod counts for each reason that some node has.
    pub pending_by: BTreeMap<String, usize>,
}

/// The distribution of a number over the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are what the type says")]
pub struct Distribution {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

impl Distribution {
    /// Returns the distribution of these numbers; `None` without a number.
    fn of(mut numbers: Vec<f64>) -> Option<Self> {
        numbers.sort_by(f64::total_cmp);
        let (least, most) = (*numbers.first()?, *numbers.last()?);
        let upper = numbers[numbers.len() / 2];
        let median = match numbers.len() % 2 {
            0 => f64::midpoint(numbers[numbers.len() / 2 - 1], upper),
            _ => upper,
        };
        Some(Self { least, median, most })
    }
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
            configurations: simulations
                .iter()
                .map(|(configuration, simulation)| Compared::of(configuration, simulation))
                .collect(),
            differing: differing.map(|(pod, nodes)| DifferingPod { pod, nodes }).collect(),
        }
    }

    /// Renders the comparison as text: numbers side by side as the summary, and the pods that
    /// differ.
    pub fn render(&self, layout: Layout) -> String {
        let text = match self.differing.len() {
            0 => "\nEvery pod gets the same node.\n".to_owned(),
            number => {
                let (shown, more) = dry_run::table::cut(number, layout.is_whole);
                let pods = self.pods(shown).render(layout.colour);
                format!("\nPLACED DIFFERENTLY: {number}\n{pods}{more}")
            }
        };
        layout.with_summary(&self.numbers().render(layout.colour), &text)
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
            row("  on a node: least/median/most", &|compared| {
                let of_nodes = compared.per_node.get(resource);
                of_nodes.map_or_else(String::new, |Distribution { least, median, most }| {
                    format!("{least:.1}/{median:.1}/{most:.1}")
                })
            });
        }
        let reasons = self.configurations.iter().flat_map(|compared| compared.pending_by.keys());
        let reasons: BTreeSet<&String> = reasons.collect();
        for reason in reasons {
            row(&format!("pending: {reason}"), &|compared| {
                compared.pending_by.get(reason).copied().unwrap_or_default().to_string()
            });
        }
        table
    }

    fn pods(&self, shown: usize) -> Table {
        let mut table = Table::new(self.columns("POD"));
        for DifferingPod { pod, nodes } in self.differing.iter().take(shown) {
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
    fn of(configuration: &str, simulation: &Simulation) -> Self {
        Self {
            configuration: configuration.to_owned(),
            summary: simulation.summary,
            utilisation: simulation
                .total
                .iter()
                .filter_map(|(resource, usage)| Some((resource.clone(), usage.percent()?)))
                .collect(),
            per_node: per_node(&simulation.nodes),
            empty_nodes: simulation.nodes.iter().filter(|node| node.pods() == 0.0).count(),
            pending_by: pending_by(&simulation.left),
        }
    }
}

/// Returns the distribution of the requested share of each resource over the nodes that have it.
fn per_node(nodes: &[NodeUsage]) -> BTreeMap<String, Distribution> {
    let mut shares: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (resource, usage) in nodes.iter().flat_map(|node| &node.resources) {
        shares.entry(resource.clone()).or_default().extend(usage.percent());
    }
    let of_nodes = |(resource, shares)| Some((resource, Distribution::of(shares)?));
    shares.into_iter().filter_map(of_nodes).collect()
}

fn pending_by(left: &[LeftPod]) -> BTreeMap<String, usize> {
    let mut numbers = BTreeMap::new();
    for pod in left {
        let reasons = match pod.state {
            LeftState::Unschedulable => reasons(&pod.reason),
            state => [state.name()].into(),
        };
        for reason in reasons {
            *numbers.entry(reason.to_owned()).or_insert(0) += 1;
        }
    }
    numbers
}

/// Returns the reasons in a message of kube-scheduler, such as
/// `0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were unschedulable. preemption: ...`,
/// without their numbers of nodes.
fn reasons(message: &str) -> BTreeSet<&str> {
    let Some((_, rest)) = message.split_once(" nodes are available: ") else {
        return [message].into();
    };
    let text = rest.split_once(". ").map_or(rest, |(text, _)| text).trim_end_matches('.');
    let mut reasons = BTreeSet::new();
    let (mut start, mut end) = (0, 0);
    // A comma separates two reasons if a number follows it.
    for part in text.split_inclusive(", ") {
        let begins = part.split(' ').next().is_some_and(|word| word.parse::<u64>().is_ok());
        if begins && end > start {
            reasons.insert(without_number(&text[start..end]));
            start = end;
        }
        end += part.len();
    }
    reasons.insert(without_number(&text[start..]));
    reasons
}

fn without_number(reason: &str) -> &str {
    let reason = reason.trim_end_matches(", ");
    match reason.split_once(' ') {
        Some((number, reason)) if number.parse::<u64>().is_ok() => reason,
        _ => reason,
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
                mark.map_or_else(String::new, |mark| match arrivals.runs.len() {
                    runs if mark.runs < runs => {
                        format!("{:.2} ({} of {runs} runs)", mark.gpu.mean, mark.runs)
                    }
                    _ => format!("{:.2}", mark.gpu.mean),
                })
            });
        }
        if self.0.iter().all(|(_, arrivals)| arrivals.waiting.is_some()) {
            let of = |arrivals: &Arrivals, value: fn(&Waiting) -> u64| {
                arrivals.waiting.as_ref().map_or_else(String::new, |own| duration(value(own)))
            };
            row("median wait", &|arrivals| of(arrivals, |own| own.median_seconds));
            row("longest wait", &|arrivals| of(arrivals, |own| own.longest_seconds));
            row("mean wait", &|arrivals| of(arrivals, |own| own.mean_seconds));
            row("mean wait, most GPUs", &|arrivals| {
                of(arrivals, |own| own.largest_tenth_mean_seconds)
            });
            row("mean GPU", &|arrivals| {
                let waiting = arrivals.waiting.as_ref();
                waiting.map_or_else(String::new, |own| {
                    format!("{:.2}", own.mean_gpu_until_last_arrival)
                })
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

#[cfg(test)]
mod tests {
    use dry_run::report::cluster::Detail;

    use super::*;

    #[test]
    fn reasons_are_taken_from_the_message() {
        let rows: [(&str, &[&str]); 4] = [
            (
                "0/12 nodes are available: 1 node(s) were unschedulable, 11 Insufficient nvidia.com/gpu. no new \
                 claims to deallocate, preemption: 0/12 nodes are available: 12 Preemption is not helpful.",
                &["Insufficient nvidia.com/gpu", "node(s) were unschedulable"],
            ),
            (
                "0/3 nodes are available: claim \"a\", of b, not found.",
                &["claim \"a\", of b, not found"],
            ),
            ("0/3 nodes are available: 3 one, two, 1 three.", &["one, two", "three"]),
            ("no nodes available to schedule pods", &["no nodes available to schedule pods"]),
        ];
        for (message, expected) in rows {
            assert_eq!(reasons(message), expected.iter().copied().collect(), "{message}");
        }
    }

    #[test]
    fn list_of_pods_is_cut_and_numbers_come_last_on_a_terminal() {
        let differing = |number| DifferingPod {
            pod: format!("x/p{number}"),
            nodes: vec![Some("a".to_owned()), None],
        };
        let configurations = Vec::new();
        let comparison = Comparison { configurations, differing: (0..52).map(differing).collect() };
        let usual = Layout {
            detail: Detail::Usual,
            is_whole: false,
            ends_with_summary: false,
            colour: Colour::Off,
        };
        let text = comparison.render(usual);
        assert!(text.contains("x/p49") && !text.contains("x/p50"), "{text}");
        assert!(text.ends_with("and 2 more; --all lists them\n"), "{text}");
        let whole = comparison.render(Layout { is_whole: true, ..usual });
        assert!(whole.contains("x/p51") && !whole.contains("--all"), "{whole}");
        let last = comparison.render(Layout { ends_with_summary: true, ..usual });
        assert!(last.starts_with("PLACED DIFFERENTLY: 52\n"), "{last}");
        let (_, numbers) = last.split_once("--all lists them\n").unwrap();
        assert!(numbers.contains("left pending"), "{last}");
    }

    #[test]
    fn distribution_has_the_middle_of_the_numbers() {
        let of = |numbers: &[f64]| Distribution::of(numbers.to_vec());
        let distribution = |least, median, most| Some(Distribution { least, median, most });
        assert_eq!(of(&[3.0, 1.0, 10.0]), distribution(1.0, 3.0, 10.0));
        assert_eq!(of(&[3.0, 1.0, 10.0, 4.0]), distribution(1.0, 3.5, 10.0));
        assert_eq!(of(&[]), None);
    }
}
