//! The report on a simulated cluster: text tables, coloured on a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::cluster::{
    EvictedPod, LeftPod, LeftState, PlacedDevice, Placement, Simulation, WorkloadOutcome,
};
use crate::explain::{Explanation, Ranked, Verdict};
use crate::table::{Cell, Colour, Column, Table, Tone, amount};
use crate::{NodeUsage, Usage};

/// Resources with their own column; the last column lists the others.
const USUAL: [&str; 3] = ["cpu", "memory", "pods"];

/// The amount of detail in a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Detail {
    /// The default columns.
    #[default]
    Usual,
    /// More columns, and all names.
    Wide,
}

/// The layout of a report.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The amount of detail.
    pub detail: Detail,
    /// Whether tables are shown in full.
    pub is_whole: bool,
    /// Whether the summary comes last instead of first.
    pub ends_with_summary: bool,
    /// Whether tables are coloured.
    pub colour: Colour,
}

impl Layout {
    /// Returns the layout for standard output. Wide tables are shown in full.
    pub fn of_stdout(detail: Detail, is_whole: bool) -> Self {
        Self {
            detail,
            is_whole: is_whole || detail == Detail::Wide,
            ends_with_summary: crate::table::ends_in_view(),
            colour: Colour::of_stdout(),
        }
    }

    /// Adds a section with a table of the first rows.
    fn section<T>(
        &self,
        text: &mut String,
        title: &str,
        rows: &[T],
        of: impl FnOnce(&[T]) -> Table,
    ) {
        if rows.is_empty() {
            return;
        }
        let (shown, more) = crate::table::cut(rows.len(), self.is_whole);
        *text += &format!("\n{title}\n{}{more}", of(&rows[..shown]).render(self.colour));
    }

    /// Returns the text with the summary in its place.
    pub fn with_summary(&self, summary: &str, text: &str) -> String {
        match self.ends_with_summary {
            true => format!("{}\n{summary}", text.trim_start_matches('\n')),
            false => format!("{summary}{text}"),
        }
    }
}

/// Number of node names listed per rejection.
const NAMED: usize = 5;

/// The usage in percent from which a node is coloured.
const FULL: f64 = 90.0;

/// Renders a simulation.
pub fn simulation(simulation: &Simulation, layout: Layout) -> String {
    let Layout { detail, colour, .. } = layout;
    let mut text = String::new();
    let workloads: Vec<_> =
        simulation.workloads.iter().filter(|own| is_shown(own, detail)).collect();
    layout.section(&mut text, "WORKLOADS, number of pods", &workloads, self::workloads);
    layout.section(&mut text, "PLACED", &simulation.placed, |pods| placed(pods, detail));
    layout.section(&mut text, "EVICTED to make room", &simulation.evicted, |pods| {
        evicted(pods, detail)
    });
    layout.section(&mut text, "LEFT PENDING", &simulation.left, |pods| left(pods, detail));
    layout.section(
        &mut text,
        "NODES, requested of allocatable after the run",
        &simulation.nodes,
        |rows| nodes(rows, &simulation.total, detail),
    );
    for explanation in &simulation.explanations {
        text += "\n";
        text += &explain(explanation, detail, colour);
    }
    layout.with_summary(&summary(simulation), &text)
}

fn summary(simulation: &Simulation) -> String {
    let summary = simulation.summary;
    let evictions = match summary.evicted {
        0 => String::new(),
        number => format!(", {} evicted", counted(number, "pod")),
    };
    let mut text = format!(
        "{}: {} placed, {} left pending{}. {}, {} running before.\n",
        counted(summary.pending, "pending pod"),
        summary.placed,
        summary.left,
        evictions,
        counted(summary.nodes, "node"),
        counted(summary.running, "pod"),
    );
    let names = simulation.scheduler_names.join(", ");
    text += &format!("Scheduled the pods of {names} (seed {}).", simulation.seed);
    if summary.of_other_schedulers > 0 {
        let others = counted(summary.of_other_schedulers, "pending pod");
        text += &format!(" Left {others} to other schedulers.");
    }
    if summary.ended > 0 {
        text += &format!(" Left out {} that ended.", counted(summary.ended, "pod"));
    }
    text += "\n";
    if !simulation.other_kinds.is_empty() {
        let kinds =
            simulation.other_kinds.iter().map(|(kind, number)| format!("{kind} ({number})"));
        text += &format!("No plugin reads: {}.\n", kinds.collect::<Vec<_>>().join(", "));
    }
    text
}

/// Whether to list the workload: one whose pods all ran before is of interest only in detail.
fn is_shown(workload: &WorkloadOutcome, detail: Detail) -> bool {
    workload.placed + workload.left > 0 || detail == Detail::Wide && workload.wanted > 0
}

fn workloads(workloads: &[&WorkloadOutcome]) -> Table {
    let words = ["KIND", "NAMESPACE", "NAME"].map(Column::words);
    let numbers = ["WANTED", "RUNNING", "PLACED", "PENDING"].map(Column::numbers);
    let mut table = Table::new(words.into_iter().chain(numbers));
    for own in workloads {
        let words = [Cell::from(own.kind), Cell::from(&own.namespace), Cell::from(&own.name)];
        let numbers = [own.wanted, own.running, own.placed].map(|number| number.to_string().into());
        let tone = if own.left > 0 { Tone::Bad } else { Tone::Plain };
        let left = Cell::toned(own.left.to_string(), tone);
        table.row(words.into_iter().chain(numbers).chain([left]));
    }
    table
}

/// Returns a number with its noun.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn placed(pods: &[Placement], detail: Detail) -> Table {
    let columns = [Column::words("NAMESPACE"), Column::words("POD"), Column::words("NODE")];
    let has_devices = pods.iter().any(|pod| !pod.devices.is_empty());
    let column = has_devices.then(|| Column::words("DEVICES"));
    let columns = columns.into_iter().chain(further_columns(detail)).chain(column);
    let mut table = Table::new(columns);
    for pod in pods {
        let cells = [&pod.namespace, &pod.name, &pod.node].map(Cell::from);
        let further = further_cells(detail, &pod.scheduler_name, pod.priority, pod.attempts);
        let devices = has_devices.then(|| Cell::from(devices(&pod.devices)));
        table.row(cells.into_iter().chain(further).chain(devices));
    }
    table
}

/// Lists devices as `driver/pool/device`.
fn devices(devices: &[PlacedDevice]) -> String {
    let names = devices
        .iter()
        .map(|PlacedDevice { driver, pool, device, .. }| format!("{driver}/{pool}/{device}"));
    names.collect::<Vec<_>>().join(" ")
}

fn evicted(pods: &[EvictedPod], detail: Detail) -> Table {
    let names = ["NAMESPACE", "POD", "NODE", "FOR"].map(Column::words);
    let priority = (detail == Detail::Wide).then(|| Column::numbers("PRIORITY"));
    let mut table = Table::new(names.into_iter().chain(priority));
    for pod in pods {
        let names = [&pod.namespace, &pod.name, &pod.node, &pod.preemptor].map(Cell::from);
        let priority = (detail == Detail::Wide).then(|| pod.priority.to_string().into());
        table.row(names.into_iter().chain(priority));
    }
    table
}

fn left(pods: &[LeftPod], detail: Detail) -> Table {
    let first = [Column::words("NAMESPACE"), Column::words("POD"), Column::words("STATE")];
    let columns = first.into_iter().chain(further_columns(detail)).chain([Column::words("REASON")]);
    let mut table = Table::new(columns);
    for pod in pods {
        let tone = match pod.state {
            LeftState::Gated | LeftState::Terminating | LeftState::Evicted => Tone::Odd,
            LeftState::Unschedulable | LeftState::Failed | LeftState::Untried => Tone::Bad,
        };
        let state = Cell::toned(pod.state.name(), tone);
        let cells = [Cell::from(&pod.namespace), Cell::from(&pod.name), state];
        let further = further_cells(detail, &pod.scheduler_name, pod.priority, pod.attempts);
        table.row(cells.into_iter().chain(further).chain([Cell::from(&pod.reason)]));
    }
    table
}

fn further_columns(detail: Detail) -> Vec<Column> {
    match detail {
        Detail::Usual => Vec::new(),
        Detail::Wide => {
            vec![
                Column::words("SCHEDULER"),
                Column::numbers("PRIORITY"),
                Column::numbers("ATTEMPTS"),
            ]
        }
    }
}

fn further_cells(detail: Detail, scheduler: &str, priority: i32, attempts: u32) -> Vec<Cell> {
    match detail {
        Detail::Usual => Vec::new(),
        Detail::Wide => {
            vec![scheduler.into(), priority.to_string().into(), attempts.to_string().into()]
        }
    }
}

fn nodes(nodes: &[NodeUsage], total: &BTreeMap<String, Usage>, detail: Detail) -> Table {
    let mut columns = vec![Column::words("NODE")];
    for name in ["CPU", "MEMORY", "PODS"] {
        columns.extend([Column::numbers(name), Column::numbers("%")]);
    }
    columns.push(Column::words("OTHERS"));
    if detail == Detail::Wide {
        columns.push(Column::words("ZONE"));
    }
    columns.push(Column::words("REMARKS"));
    let mut table = Table::new(columns);
    for node in nodes {
        let mut cells = vec![Cell::from(&node.name)];
        cells.extend(usage_cells(&node.resources));
        if detail == Detail::Wide {
            cells.push(Cell::from(&node.zone));
        }
        cells.push(Cell::toned(remarks(node), Tone::Odd));
        table.row(cells);
    }
    let total = [Cell::from("total")].into_iter().chain(usage_cells(total));
    table.row(total);
    table
}

fn remarks(node: &NodeUsage) -> String {
    let cordoned = node.unschedulable.then(|| "cordoned".to_owned());
    cordoned.into_iter().chain(node.taints.iter().cloned()).collect::<Vec<_>>().join(" ")
}

fn usage_cells(resources: &BTreeMap<String, Usage>) -> Vec<Cell> {
    let mut cells = Vec::new();
    for name in USUAL {
        let usage = resources.get(name).copied().unwrap_or_default();
        let [requested, allocatable] =
            [usage.requested, usage.allocatable].map(|number| amount(name, number));
        cells.push(format!("{requested}/{allocatable}").into());
        cells.push(percent_cell(usage));
    }
    let others = resources.iter().filter(|(name, usage)| is_listed(name, **usage));
    let others: Vec<String> = others.map(|(name, usage)| other(name, *usage)).collect();
    cells.push(others.join(" ").into());
    cells
}

/// Returns whether to list this resource. Storage is on every node, so it is listed only if a pod
/// requests it.
fn is_listed(name: &str, usage: Usage) -> bool {
    !USUAL.contains(&name) && (name != "ephemeral-storage" || usage.requested > 0.0)
}

fn other(name: &str, usage: Usage) -> String {
    format!("{name} {}/{}", amount(name, usage.requested), amount(name, usage.allocatable))
}

fn percent_cell(usage: Usage) -> Cell {
    match usage.percent() {
        None => Cell::from("-"),
        Some(percent) => {
            let tone = if percent >= FULL { Tone::Odd } else { Tone::Plain };
            Cell::toned(format!("{percent:.0}"), tone)
        }
    }
}

/// Renders the explanation of one pod.
pub fn explain(explanation: &Explanation, detail: Detail, colour: Colour) -> String {
    let mut text = format!("EXPLAINED {} (now, that is after the run)\n", explanation.pod);
    if let Some(node) = &explanation.node {
        let _ = writeln!(text, "The pod was placed on {node}. Evaluated without the pod there:");
    }
    if let Some(gate) = &explanation.gate {
        let _ = writeln!(text, "The pod is gated: {gate}. Evaluated without the gate:");
    }
    if let Some(error) = &explanation.error {
        let _ = writeln!(text, "The evaluation failed: {error}");
    }
    let _ = writeln!(
        text,
        "{} of {} can take it.",
        explanation.feasible,
        counted(explanation.nodes, "node")
    );
    if !explanation.verdicts.is_empty() {
        text += &verdicts(&explanation.verdicts, detail).render(colour);
    }
    if explanation.verdicts.iter().any(|verdict| !verdict.details.is_empty()) {
        text += "What the plugins found there:\n";
        text += &details(&explanation.verdicts, detail).render(colour);
    }
    if !explanation.best.is_empty() {
        text += "Best nodes, with the weighted score of each plugin:\n";
        text += &best(&explanation.best).render(colour);
    }
    text
}

fn verdicts(verdicts: &[Verdict], detail: Detail) -> Table {
    let mut table = Table::new([
        Column::numbers("NODES"),
        Column::words("PLUGIN"),
        Column::words("CODE"),
        Column::words("REASONS"),
        Column::words("NAMES"),
    ]);
    for verdict in verdicts {
        let reasons = verdict.reasons.join(", ");
        let names = names(&verdict.nodes, detail);
        let count = verdict.nodes.len().to_string();
        table.row([&count, &verdict.plugin, verdict.code, &reasons, &names]);
    }
    table
}

fn details(verdicts: &[Verdict], detail: Detail) -> Table {
    let mut table = Table::new([
        Column::numbers("NODES"),
        Column::words("PLUGIN"),
        Column::words("DETAIL"),
        Column::words("NAMES"),
    ]);
    for verdict in verdicts {
        for own in &verdict.details {
            let count = own.nodes.len().to_string();
            table.row([&count, &verdict.plugin, &own.text, &names(&own.nodes, detail)]);
        }
    }
    table
}

fn names(nodes: &[String], detail: Detail) -> String {
    let shown = if detail == Detail::Wide { nodes.len() } else { NAMED };
    let first = nodes.iter().take(shown).map(String::as_str).collect::<Vec<_>>().join(", ");
    match nodes.len().saturating_sub(shown) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn best(nodes: &[Ranked]) -> Table {
    let plugins = nodes.first().map_or(&[][..], |node| &node.scores);
    let columns = plugins.iter().map(|score| Column::numbers(&score.plugin));
    let mut table =
        Table::new([Column::words("NODE"), Column::numbers("TOTAL")].into_iter().chain(columns));
    for node in nodes {
        let total = node.total.map_or("-".to_owned(), |total| total.to_string());
        let scores = node.scores.iter().map(|score| score.score.to_string());
        table.row([node.node.clone(), total].into_iter().chain(scores));
    }
    table
}
