//! Conflicts and regrets of a scheduler over many clusters.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Plot, Series, Style};

/// A line of `examples/supercluster --curve`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Conflicts {
    /// Pods per second.
    load: f64,
    schedulers: u32,
    candidates: u32,
    /// Share of the decisions of which every candidate met a conflict.
    share: f64,
    /// What the formula says.
    formula: f64,
}

/// A line of `examples/supercluster --quality`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Regret {
    strategy: String,
    /// Nodes wanted of each cluster, in basis points.
    share_bp: u32,
    /// Points of the score.
    regret: f64,
}

/// Place of the colour of formulas.
const GREY: usize = 4;

/// Returns the plot of conflicts against the load, with the formula beside them.
pub(super) fn conflicts(lines: &[Conflicts]) -> Plot {
    let mut measured: BTreeMap<(u32, u32), Vec<(f64, f64)>> = BTreeMap::new();
    let mut formulas: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    // A share of 0 is not on a logarithmic axis.
    for own in lines.iter().filter(|own| own.share > 0.0) {
        let key = (own.candidates, own.schedulers);
        measured.entry(key).or_default().push((own.load, own.share * 100.0));
    }
    for own in lines.iter().filter(|own| own.schedulers == 1) {
        formulas.entry(own.candidates).or_default().push((own.load, own.formula * 100.0));
    }
    let mut series = Vec::new();
    for (place, ((candidates, schedulers), points)) in measured.into_iter().enumerate() {
        let name = format!("K = {candidates}, S = {schedulers}");
        let colour = Some(place + usize::from(place >= GREY));
        series.push(Series { name, points, style: Style::Single, colour });
    }
    for (candidates, points) in formulas {
        let least = series.iter().flat_map(|own| &own.points).map(|point| point.1);
        let least = least.fold(f64::INFINITY, f64::min);
        // Far below what can be measured, it would only make the rest small.
        let points = points.into_iter().filter(|point| point.1 >= least / 3.0).collect();
        let name = format!("formula, K = {candidates}");
        series.push(Series { name, points, style: Style::Formula, colour: Some(GREY) });
    }
    let axes = ("pods per second", "% of decisions without a commit");
    Plot { file: "clusters-conflicts.svg", axes, series }
}

/// Returns the plot of regrets against the share of the nodes that samples have.
pub(super) fn regrets(lines: &[Regret]) -> Plot {
    let mut by_strategy: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for own in lines.iter().filter(|own| own.regret > 0.0) {
        let points = by_strategy.entry(&own.strategy).or_default();
        points.push((f64::from(own.share_bp) / 100.0, own.regret));
    }
    let series = by_strategy.into_iter().map(|(strategy, points)| Series {
        name: strategy.to_owned(),
        points,
        style: Style::Joined,
        colour: None,
    });
    let axes = ("% of the nodes of each cluster", "points of regret");
    Plot { file: "clusters-regret.svg", axes, series: series.collect() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::read;

    const CONFLICTS: &str = include_str!("../../docs/clusters-conflicts.jsonl");
    const REGRETS: &str = include_str!("../../docs/clusters-regret.jsonl");
    const DOCUMENT: &str = include_str!("../../docs/lab/clusters.md");

    /// The plots of the document.
    pub(crate) fn documented() -> [Plot; 2] {
        [conflicts(&read(CONFLICTS).unwrap()), regrets(&read(REGRETS).unwrap())]
    }

    /// The cells of the row of the document that begins with these.
    fn row(begin: &str) -> Vec<&'static str> {
        let line = DOCUMENT.lines().find(|line| line.starts_with(begin));
        let line = line.unwrap_or_else(|| panic!("no row begins with {begin}"));
        line.trim_matches('|').split('|').map(str::trim).collect()
    }

    #[test]
    fn first_candidates_meet_as_many_conflicts_as_the_formula_says() {
        let lines: Vec<Conflicts> = read(CONFLICTS).unwrap();
        let first: Vec<&Conflicts> = lines.iter().filter(|own| own.candidates == 1).collect();
        assert!(first.len() >= 14, "one and three schedulers");
        for own in first {
            let off = own.formula / own.share - 1.0;
            assert!(off.abs() < 0.15, "{off}: {own:?}");
        }
    }

    #[test]
    fn document_has_the_figures_of_the_plots() {
        let lines: Vec<Conflicts> = read(CONFLICTS).unwrap();
        for own in lines.iter().filter(|own| own.candidates == 1) {
            let begin = format!("| {} | {} |", own.load, own.schedulers);
            let cells = row(&begin);
            let shown = format!("{:.2} %", own.share * 100.0);
            assert_eq!(cells[3], shown, "{own:?}");
            assert_eq!(cells[4], format!("{:.2} %", own.formula * 100.0), "{own:?}");
        }
        for own in read::<Regret>(REGRETS).unwrap() {
            let place =
                ["random", "round-robin", "best"].iter().position(|name| *name == own.strategy);
            // The strategy `all` has no share.
            let Some(place) = place else { continue };
            let begin = format!("| {} % |", f64::from(own.share_bp) / 100.0);
            let cells = row(&begin);
            assert_eq!(cells[place + 1], format!("{:.2}", own.regret), "{own:?}");
        }
    }
}
