//! `--find`: pods of a recording by what happened to them. Nothing is decided again.

use std::process::ExitCode;

use dry_run::table::{Colour, Column, Table};
use framework::Time;

use super::Args;
use super::lives::{Life, Lives, duration_text};
use super::moment::Moment;
use super::query::{Query, State};
use super::run::Run;
use crate::cli::print;

/// Prints the pods that the query selects.
///
/// # Errors
/// The recording cannot be read.
pub(super) fn find(runs: &[Run], query: &Query, args: &Args) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    for run in runs {
        let (lives, notes) = lives_of(run, args.until.as_ref())?;
        let found: Vec<&Life> =
            lives.pods().iter().filter(|life| selects(query, life, lives.end)).collect();
        text += &format!("run {}: {} of {} pods\n", run.name(), found.len(), lives.pods().len());
        for note in notes {
            text += &format!("  note: {note}\n");
        }
        if !found.is_empty() {
            let columns = [
                Column::words("POD"),
                Column::words("ARRIVED"),
                Column::words("WAITED"),
                Column::numbers("ATTEMPTS"),
                Column::words("OUTCOME"),
            ];
            let mut table = Table::new(columns);
            let (shown, more) = dry_run::table::cut(found.len(), args.all);
            for life in found.into_iter().take(shown) {
                table.row([
                    life.pod.to_string(),
                    life.arrived.floor_to_second().to_string(),
                    if life.is_ours { duration_text(life.waited(lives.end)) } else { "-".into() },
                    life.attempts.to_string(),
                    outcome(life),
                ]);
            }
            text += &(table.render(Colour::of_stdout()) + &more);
        }
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns what happened to the pods of a run, and notes about what could not be read.
pub(super) fn lives_of(run: &Run, until: Option<&Moment>) -> anyhow::Result<(Lives, Vec<String>)> {
    let profiles = run.setup.configuration["profiles"].as_array();
    let names = profiles.into_iter().flatten();
    let names = names.filter_map(|profile| profile["schedulerName"].as_str().map(str::to_owned));
    let mut lives = Lives::of(names.collect(), run.has_beginning());
    let notes = run.operations(until, |at, operation| {
        lives.step(at, &operation);
        true
    })?;
    Ok((lives, notes))
}

fn selects(query: &Query, life: &Life, end: Time) -> bool {
    if !query.names(&life.pod) {
        return false;
    }
    match query.state {
        State::Pending if query.has_limit() => life.is_ours && query.takes(life.waited(end)),
        State::Pending => life.is_pending(),
        State::Bound => life.is_ours && life.bound.is_some() && query.takes(life.waited(end)),
        State::Preempted => life.preempted.as_ref().is_some_and(|(at, _)| {
            let since = life.bound.as_ref().map_or(life.arrived, |(at, _)| *at);
            query.takes(at.since(since))
        }),
        State::Failed => {
            life.first_failure.is_some_and(|first| query.takes(life.end_of_wait(end).since(first)))
        }
    }
}

fn outcome(life: &Life) -> String {
    let bound =
        life.bound.as_ref().map(|(at, node)| format!("on {node} since {}", at.floor_to_second()));
    let preempted = life
        .preempted
        .as_ref()
        .map(|(at, preemptor)| format!("evicted for {preemptor} at {}", at.floor_to_second()));
    let ended = life.ended.map(|at| format!("gone at {}", at.floor_to_second()));
    let failures = match life.failures {
        0 => None,
        1 => Some("1 attempt found no node".to_owned()),
        failures => Some(format!("{failures} attempts found no node")),
    };
    let pending = life.is_pending().then(|| "pending".to_owned());
    let parts = [pending, failures, bound, preempted, ended];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
