//! The reports on room for a pending pod, and on nodes that can be emptied: text tables.

use super::cluster::{Layout, counted};
use crate::make_room::{EmptyNodes, Outcome, Room, RoomMove, ShapesRoom};
use crate::table::{self, Cell, Column, Table};

/// Renders the plan, and which pods are not moved.
pub fn make_room(room: &Room, layout: Layout) -> String {
    let mut text = String::new();
    if !room.moves.is_empty() {
        text += &format!("\nMOVES, one after the other\n{}", moves(&room.moves, layout));
    }
    if !room.members.is_empty() {
        text += &format!("\nMEMBERS\n{}", members(room, layout));
    }
    if !room.kept.is_empty() && room.outcome != Outcome::Fits {
        text += &format!("\nNOT MOVED\n{}", kept(room, layout));
    }
    layout.with_summary(&summary(room), &text)
}

fn summary(room: &Room) -> String {
    let Room { namespace, name, node, reason, is_certain, is_group, .. } = room;
    let kind = if *is_group { "PodGroup " } else { "" };
    let pod = format!("{kind}{namespace}/{name}");
    let on = node.as_deref().map(|node| format!(" on {node}")).unwrap_or_default();
    let mut text = match room.outcome {
        Outcome::Fits => format!("{pod} fits{on} without a move.\n"),
        Outcome::Plan => {
            let moves = counted(room.moves.len(), "move");
            format!("{pod} fits{on} after {moves}, at a cost of {}.\n", cost(room.cost.0))
        }
        Outcome::NoPlan => format!("No moves were found after which {pod} fits.\n"),
        Outcome::Undecided => {
            format!("{pod} cannot be decided: {}.\n", reason.as_deref().unwrap_or_default())
        }
    };
    text += match (room.outcome, is_certain) {
        (Outcome::Plan | Outcome::NoPlan, false) if *is_group => {
            "Plans for a PodGroup are not compared with all others.\n"
        }
        (Outcome::Plan, true) => "No other moves cost less.\n",
        (Outcome::NoPlan, true) => "There are none within the limit of moves.\n",
        (Outcome::Plan | Outcome::NoPlan, false) => {
            "The search ended early: there may be others.\n"
        }
        _ => "",
    };
    text
}

fn moves(moves: &[RoomMove], layout: Layout) -> String {
    let words = ["NAMESPACE", "POD", "FROM", "TO"].map(Column::words);
    let mut table = Table::new(words.into_iter().chain([Column::numbers("COST")]));
    let (shown, more) = table::cut(moves.len(), layout.is_whole);
    for own in &moves[..shown] {
        let words = [&own.namespace, &own.name, &own.from, &own.to].map(Cell::from);
        table.row(words.into_iter().chain([Cell::from(cost(own.cost.0))]));
    }
    format!("{}{more}", table.render(layout.colour))
}

fn members(room: &Room, layout: Layout) -> String {
    let mut table = Table::new(["POD", "NODE"].map(Column::words));
    let (shown, more) = table::cut(room.members.len(), layout.is_whole);
    for own in &room.members[..shown] {
        table.row([&own.name, &own.node].map(Cell::from));
    }
    format!("{}{more}", table.render(layout.colour))
}

/// Renders which shapes fit, and after which moves.
pub fn shapes(found: &ShapesRoom, layout: Layout) -> String {
    let numbers = ["MOVES", "COST"].map(Column::numbers);
    let words = ["LIKE", "REQUESTS", "OUTCOME", "NODE"].map(Column::words);
    let columns = [Column::numbers("PODS")].into_iter().chain(words).chain(numbers);
    let mut table = Table::new(columns);
    for own in &found.shapes {
        let room = &own.room;
        let requests: Vec<String> =
            own.requests.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        let outcome = match (room.outcome, room.is_certain) {
            (Outcome::Fits, _) => "fits",
            (Outcome::Plan, _) => "fits after moves",
            (Outcome::NoPlan, true) => "fits after no moves",
            (Outcome::NoPlan, false) => "no moves found in time",
            (Outcome::Undecided, _) => "cannot be decided",
        };
        let words = [
            format!("{}/{}", room.namespace, room.name),
            requests.join(","),
            outcome.to_owned(),
            room.node.clone().unwrap_or_default(),
        ];
        let row = [own.pods.to_string()].into_iter().chain(words);
        let row = row.chain([room.moves.len().to_string(), cost(room.cost.0)]);
        table.row(row.map(Cell::from));
    }
    let fitting = found.shapes.iter().filter(|own| own.room.node.is_some()).count();
    let fitting = counted(fitting, "shape");
    let summary = format!("{fitting} of {} fit, each as if it were alone.\n", found.shapes.len());
    layout.with_summary(
        &summary,
        &format!("\nSHAPES, the largest first\n{}", table.render(layout.colour)),
    )
}

fn kept(room: &Room, layout: Layout) -> String {
    let mut table = Table::new([Column::numbers("PODS"), Column::words("BECAUSE THE POD")]);
    for (reason, pods) in &room.kept {
        table.row([Cell::from(pods.to_string()), Cell::from(&**reason)]);
    }
    table.render(layout.colour)
}

/// Returns a cost in moves of a new pod of a ReplicaSet.
fn cost(thousandths: u64) -> String {
    format!("{}.{:02}", thousandths / 1000, thousandths % 1000 / 10)
}

/// Renders the nodes that can be emptied, their moves, and what keeps the others.
pub fn empty_nodes(found: &EmptyNodes, layout: Layout) -> String {
    let mut text = String::new();
    if !found.nodes.is_empty() {
        text += &format!("\nEMPTIED, one after the other\n{}", emptied(found, layout));
    }
    let all: Vec<RoomMove> = found.nodes.iter().flat_map(|own| own.moves.clone()).collect();
    if !all.is_empty() {
        text += &format!("\nMOVES, one after the other\n{}", moves(&all, layout));
    }
    if !found.staying.is_empty() {
        text += &format!("\nNOT EMPTIED\n{}", staying(found, layout));
    }
    let mut summary = format!(
        "{} can be emptied with {}.\n",
        counted(found.nodes.len(), "node"),
        counted(all.len(), "move")
    );
    if !found.is_complete {
        summary += "The search ended early: there may be others.\n";
    }
    layout.with_summary(&summary, &text)
}

fn emptied(found: &EmptyNodes, layout: Layout) -> String {
    let numbers = ["PODS", "COST"].map(Column::numbers);
    let mut table = Table::new([Column::words("NODE")].into_iter().chain(numbers));
    let (shown, more) = table::cut(found.nodes.len(), layout.is_whole);
    for own in &found.nodes[..shown] {
        let (pods, cost) = (own.moves.len().to_string(), cost(own.cost.0));
        table.row([Cell::from(&own.name), Cell::from(pods), Cell::from(cost)]);
    }
    format!("{}{more}", table.render(layout.colour))
}

fn staying(found: &EmptyNodes, layout: Layout) -> String {
    let mut table = Table::new(["NODE", "POD", "BECAUSE THE POD"].map(Column::words));
    let (shown, more) = table::cut(found.staying.len(), layout.is_whole);
    for own in &found.staying[..shown] {
        table.row([Cell::from(&own.name), Cell::from(&own.pod), Cell::from(&*own.reason)]);
    }
    format!("{}{more}", table.render(layout.colour))
}
