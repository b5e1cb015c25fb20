//! The report on the effects of a change: text tables.

use std::collections::BTreeSet;

use crate::Usage;
use crate::table::{Cell, Column, Table, Tone, amount};
use crate::what_if::{Sides, WhatIf};

use super::cluster::{Detail, Layout, counted};

/// Resources that are listed even if neither side requests them.
const USUAL: [&str; 3] = ["cpu", "memory", "pods"];

/// Renders the effects of a change.
pub fn what_if(answer: &WhatIf, layout: Layout) -> String {
    let Layout { detail, colour, .. } = layout;
    let mut text = String::new();
    let lists = [
        ("MOVED", moved(answer)),
        ("PLACED because of the change", placed(answer)),
        ("PENDING because of the change", pending(answer, detail)),
        ("EVICTED because of the change", evicted(answer, detail)),
        ("REMOVED by workloads with fewer replicas", scaled_down(answer)),
        ("LOST, no controller makes them again", lost(answer)),
        ("UPGRADE, node by node", upgrade(answer)),
        ("QUOTAS, before > after", quotas(answer)),
        ("PODDISRUPTIONBUDGETS IN THE WAY of evictions all at once", budgets(answer)),
    ];
    for (title, List { columns, rows }) in lists {
        if rows.is_empty() {
            continue;
        }
        let (shown, more) = crate::table::cut(rows.len(), layout.is_whole);
        let mut table = Table::new(columns);
        for row in rows.into_iter().take(shown) {
            table.row(row);
        }
        text += &format!("\n{title}\n{}{more}", table.render(colour));
    }
    text += "\nUTILISATION, requested of allocatable\n";
    text += &utilisation(answer).render(colour);
    layout.with_summary(&summary(answer), &text)
}

fn summary(answer: &WhatIf) -> String {
    let summary = answer.summary;
    let Sides { before, after } = summary.nodes;
    let nodes = if before == after {
        counted(after, "node")
    } else {
        format!("{} instead of {before}", counted(after, "node"))
    };
    let mut text = format!(
        "The change moves {}, places {}, leaves {} pending and evicts {}.\n",
        counted(summary.moved, "pod"),
        summary.placed,
        summary.pending,
        summary.evicted,
    );
    text += &format!(
        "{nodes}, {} with a node instead of {} (seed {}).",
        counted(summary.running.after, "pod"),
        summary.running.before,
        answer.seed
    );
    let others = [
        (summary.scaled_down, "removed by workloads with fewer replicas"),
        (summary.lost, "lost"),
        (summary.waiting_for_upgrade, "without a node while one is upgraded"),
        (
            summary.gone_with_nodes,
            "gone with the nodes (DaemonSets, static pods, pods being deleted)",
        ),
        (summary.pending_anyway, "pending with and without the change"),
        (summary.evicted_anyway, "evicted with and without the change"),
        (summary.placed_elsewhere, "of the pending pods placed elsewhere than without the change"),
    ];
    for (number, what) in others.into_iter().filter(|(number, _)| *number > 0) {
        text += &format!("\n{} {what}.", counted(number, "pod"));
    }
    text + "\n"
}

/// A table that may be too long.
struct List {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl List {
    fn new(columns: &[&str], rows: impl Iterator<Item = Vec<Cell>>) -> Self {
        let columns = columns.iter().map(|name| match *name {
            "PRIORITY" | "PODS" | "ALLOWED" | "LEAVING" => Column::numbers(*name),
            name => Column::words(name),
        });
        Self { columns: columns.collect(), rows: rows.collect() }
    }
}

fn moved(answer: &WhatIf) -> List {
    let rows = answer.moved.iter().map(|pod| {
        let cells = [&pod.namespace, &pod.name, &pod.from, &pod.to].map(Cell::from);
        cells.into_iter().chain([pod.cause.name().into()]).collect()
    });
    List::new(&["NAMESPACE", "POD", "FROM", "TO", "CAUSE"], rows)
}

fn placed(answer: &WhatIf) -> List {
    let rows = answer.placed.iter().map(|pod| {
        let cells = [&pod.namespace, &pod.name, &pod.node].map(Cell::from);
        cells.into_iter().chain([novelty(pod.is_new)]).collect()
    });
    List::new(&["NAMESPACE", "POD", "NODE", "BEFORE"], rows)
}

fn novelty(is_new: bool) -> Cell {
    if is_new { "new" } else { "no node" }.into()
}

fn pending(answer: &WhatIf, detail: Detail) -> List {
    let is_wide = detail == Detail::Wide;
    let rows = answer.pending.iter().map(|pod| {
        let before = match &pod.from {
            Some(node) => node.into(),
            None => novelty(pod.is_new),
        };
        let mut cells = vec![Cell::from(&pod.namespace), Cell::from(&pod.name), before];
        cells.push(Cell::toned(pod.state.name(), Tone::Bad));
        cells.extend(is_wide.then(|| pod.priority.to_string().into()));
        cells.push(Cell::from(&pod.reason));
        cells
    });
    let mut columns = vec!["NAMESPACE", "POD", "BEFORE", "STATE"];
    columns.extend(is_wide.then_some("PRIORITY"));
    columns.push("REASON");
    List::new(&columns, rows)
}

fn evicted(answer: &WhatIf, detail: Detail) -> List {
    let is_wide = detail == Detail::Wide;
    let rows = answer.evicted.iter().map(|pod| {
        let cells = [&pod.namespace, &pod.name, &pod.node, &pod.preemptor].map(Cell::from);
        let priority = is_wide.then(|| pod.priority.to_string().into());
        cells.into_iter().chain(priority).collect()
    });
    let mut columns = vec!["NAMESPACE", "POD", "NODE", "FOR"];
    columns.extend(is_wide.then_some("PRIORITY"));
    List::new(&columns, rows)
}

fn scaled_down(answer: &WhatIf) -> List {
    let rows = answer.scaled_down.iter().map(|pod| {
        let node = pod.node.as_deref().unwrap_or("-");
        vec![Cell::from(&pod.namespace), Cell::from(&pod.name), node.into()]
    });
    List::new(&["NAMESPACE", "POD", "NODE"], rows)
}

fn lost(answer: &WhatIf) -> List {
    let rows = answer.lost.iter().map(|pod| {
        let cells = [&pod.namespace, &pod.name, &pod.node].map(Cell::from);
        cells.into_iter().chain([pod.cause.name().into()]).collect()
    });
    List::new(&["NAMESPACE", "POD", "NODE", "CAUSE"], rows)
}

fn upgrade(answer: &WhatIf) -> List {
    let rows = answer.upgrade.iter().map(|step| {
        let waiting = match step.waiting.as_slice() {
            [] => "-".to_owned(),
            [one] => one.clone(),
            [first, others @ ..] => format!("{first} and {} more", others.len()),
        };
        vec![Cell::from(&step.node), step.displaced.to_string().into(), waiting.into()]
    });
    List::new(&["NODE", "PODS", "WITHOUT A NODE MEANWHILE"], rows)
}

fn quotas(answer: &WhatIf) -> List {
    let rows = answer.quotas.iter().map(|Sides { before, after }| {
        let name = &after.resource;
        let change = |before: String, after: String| match before == after {
            true => Cell::from(after),
            false => Cell::from(format!("{before} > {after}")),
        };
        vec![
            Cell::from(&after.quota),
            Cell::from(name),
            change(amount(name, before.guaranteed), amount(name, after.guaranteed)),
            change(amount(name, before.used), amount(name, after.used)),
            change(before.pending.to_string(), after.pending.to_string()),
        ]
    });
    List::new(&["QUOTA", "RESOURCE", "GUARANTEED", "USED", "PENDING"], rows)
}

fn budgets(answer: &WhatIf) -> List {
    let rows = answer.budgets.iter().map(|budget| {
        let numbers = [budget.allowed.to_string().into(), budget.leaving.to_string().into()];
        [Cell::from(&budget.namespace), Cell::from(&budget.name)]
            .into_iter()
            .chain(numbers)
            .collect()
    });
    List::new(&["NAMESPACE", "BUDGET", "ALLOWED", "LEAVING"], rows)
}

fn utilisation(answer: &WhatIf) -> Table {
    let numbers = ["BEFORE", "%", "AFTER", "%"].map(Column::numbers);
    let mut table = Table::new([Column::words("RESOURCE")].into_iter().chain(numbers));
    let Sides { before, after } = &answer.utilisation;
    let further: BTreeSet<&str> = before.keys().chain(after.keys()).map(String::as_str).collect();
    let further = further.into_iter().filter(|name| !USUAL.contains(name));
    for name in USUAL.into_iter().chain(further) {
        let mut cells = vec![Cell::from(name)];
        for side in [before, after] {
            let usage = side.get(name).copied().unwrap_or_default();
            cells.extend(usage_cells(name, usage));
        }
        table.row(cells);
    }
    table
}

fn usage_cells(name: &str, usage: Usage) -> [Cell; 2] {
    let text = format!("{}/{}", amount(name, usage.requested), amount(name, usage.allocatable));
    let percent = usage.percent().map_or("-".to_owned(), |percent| format!("{percent:.1}"));
    [text.into(), percent.into()]
}
