//! Tables of several runs: conflicts beside the formula, and the quality of samples.

use std::fmt::Write as _;

use serde_json::{Value, json};
use supercluster::simulation::Report;

use crate::{Args, ShapeName, load};

/// Pods per second.
const LOADS: [f64; 7] = [100.0, 200.0, 400.0, 800.0, 1_200.0, 1_600.0, 2_400.0];
/// The load from which on a run has the number of pods that is asked for. A run with a lower load
/// has more, because fewer of them meet a conflict: with 40 conflicts a share is off by 16 % by
/// chance.
const ENOUGH_AT: f64 = 1_600.0;
/// The load at which H is fitted.
const FITTED_AT: f64 = 400.0;
/// Numbers of schedulers, and of commit candidates.
const SCHEDULERS: [u32; 2] = [1, 3];
const CANDIDATES: [u32; 3] = [1, 2, 3];

/// The runs of a load with one number of schedulers, by number of candidates.
struct Point {
    load: f64,
    schedulers: u32,
    reports: Vec<Report>,
}

impl Point {
    /// The share of decisions whose first candidate meets a conflict, `1 - exp(-m / H)`.
    fn formula(&self, h: f64) -> f64 {
        1.0 - (-self.reports[0].others_in_window / h).exp()
    }
}

/// Runs several loads with 1 and 3 schedulers and 1 to 3 commit candidates, and prints the share of
/// decisions that failed beside the formula: `p1 = 1 - exp(-m / H)` with H fitted at one load and
/// one scheduler, and `pK = p1^K`.
pub(crate) fn conflicts(args: &Args) -> anyhow::Result<()> {
    let run = |load: f64, schedulers, candidates| {
        let pods = args.pods.saturating_mul((ENOUGH_AT / load).ceil().max(1.0) as u32);
        let (load, shape) = (Some(load), ShapeName::Exclusive);
        load::run(&Args { load, pods, schedulers, candidates, shape, ..args.clone() })
    };
    let mut points = Vec::new();
    for schedulers in SCHEDULERS {
        for load in LOADS {
            let reports = CANDIDATES.map(|candidates| run(load, schedulers, candidates)).into();
            points.push(Point { load, schedulers, reports });
        }
    }
    let is_fitted = |point: &&Point| point.load == FITTED_AT && point.schedulers == 1;
    let fitted = points.iter().find(is_fitted).map(|point| &point.reports[0]);
    let h = fitted.map_or(f64::NAN, |one| -one.others_in_window / (1.0 - one.conflict_share).ln());
    println!("H = {h:.0}, fitted at {FITTED_AT} pods/s and one scheduler");
    println!("| load | schedulers | m | p1 | formula | off by | p2 | p1^2 | p3 | p1^3 |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut lines = Vec::new();
    for point in &points {
        let Point { load, schedulers, reports } = point;
        let (formula, one) = (point.formula(h), &reports[0]);
        let p1 = one.conflict_share;
        print!(
            "| {load} | {schedulers} | {:.1} | {:.2} % | {:.2} % | {:+.0} % |",
            one.others_in_window,
            p1 * 100.0,
            formula * 100.0,
            (formula / p1 - 1.0) * 100.0,
        );
        for (candidates, report) in CANDIDATES.iter().zip(reports) {
            let share = report.conflict_share;
            if *candidates > 1 {
                let power = p1.powf(f64::from(*candidates));
                print!(" {:.3} % | {:.3} % |", share * 100.0, power * 100.0);
            }
            lines.push(json!({"load": load, "schedulers": schedulers, "candidates": candidates,
                "m": report.others_in_window, "share": share,
                "formula": formula.powf(f64::from(*candidates))}));
        }
        println!();
    }
    write_lines(args, &lines)?;
    let last = points.last().and_then(|point| point.reports.last());
    println!("{}", serde_json::to_string(&last)?);
    Ok(())
}

/// Runs several strategies and shares, and prints regrets and conflicts.
pub(crate) fn quality(args: &Args) -> anyhow::Result<()> {
    let one_node = 10_000_u32.div_ceil(args.nodes);
    let mut shares = vec![one_node, 50, 100, 200, 400, 1_000];
    shares.sort_unstable();
    shares.dedup();
    let mut runs: Vec<(&str, u32)> = Vec::new();
    for strategy in ["random", "round-robin"] {
        runs.extend(shares.iter().map(|share| (strategy, *share)));
    }
    runs.extend([("all", 10_000), ("best", one_node), ("best", 200)]);
    println!("| strategy | share bp | regret | regret at commit | p1 | pK | conflicts / commits |");
    println!("|---|---|---|---|---|---|---|");
    let mut lines = Vec::new();
    let mut last = None;
    for (strategy, share_bp) in runs {
        let report = load::run(&Args { strategy: strategy.to_owned(), share_bp, ..args.clone() });
        println!(
            "| {strategy} | {share_bp} | {:.2} | {:.2} | {:.2} % | {:.3} % | {} / {} |",
            report.regret_mean,
            report.commit_regret_mean,
            report.first_conflict_share * 100.0,
            report.conflict_share * 100.0,
            report.conflicts,
            report.commits,
        );
        lines.push(json!({"strategy": strategy, "share_bp": share_bp,
            "regret": report.regret_mean, "commit_regret": report.commit_regret_mean,
            "p1": report.first_conflict_share, "pk": report.conflict_share}));
        last = Some(report);
    }
    write_lines(args, &lines)?;
    println!("{}", serde_json::to_string(&last)?);
    Ok(())
}

fn write_lines(args: &Args, lines: &[Value]) -> anyhow::Result<()> {
    let Some(path) = &args.lines else { return Ok(()) };
    let mut text = String::new();
    for line in lines {
        writeln!(text, "{line}")?;
    }
    std::fs::write(path, text)?;
    Ok(())
}
