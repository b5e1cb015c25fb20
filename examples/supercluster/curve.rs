//! Tables of several runs: conflicts beside the formula, and the quality of samples.

use std::fmt::Write as _;

use supercluster::simulation::Report;

use crate::{Args, ShapeName, load};

/// Pods per second.
const LOADS: [f64; 7] = [100.0, 200.0, 400.0, 800.0, 1_200.0, 1_600.0, 2_400.0];
/// The load at which H is fitted.
const FITTED_AT: usize = 2;

/// Runs several loads with 1 and 3 commit candidates, and prints the share of decisions that failed beside the
/// formula: `p1 = 1 - exp(-m / H)` with H fitted at one load, and `p3 = p1^3`.
pub(crate) fn conflicts(args: &Args) -> anyhow::Result<()> {
    let run = |load, candidates| {
        load::run(&Args {
            load: Some(load),
            candidates,
            shape: ShapeName::Exclusive,
            ..args.clone()
        })
    };
    let reports: Vec<(Report, Report)> =
        LOADS.iter().map(|load| (run(*load, 1), run(*load, 3))).collect();
    let fitted = &reports[FITTED_AT].0;
    let h = -fitted.others_in_window / (1.0 - fitted.conflict_share).ln();
    println!("H = {h:.0}, fitted at {} pods/s", LOADS[FITTED_AT]);
    println!("| load | window ms | m | p1 | formula | off by | p3 | p1^3 | bound/s |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut csv = "load,m,p1,p1_formula,p3,p1_cubed\n".to_owned();
    for (load, (one, three)) in LOADS.iter().zip(&reports) {
        let formula = 1.0 - (-one.others_in_window / h).exp();
        let (p1, p3, cubed) =
            (one.conflict_share, three.conflict_share, one.conflict_share.powi(3));
        println!(
            "| {load} | {:.1} | {:.1} | {:.2} % | {:.2} % | {:+.0} % | {:.3} % | {:.3} % | {:.0} |",
            one.window_ms,
            one.others_in_window,
            p1 * 100.0,
            formula * 100.0,
            (formula / p1 - 1.0) * 100.0,
            p3 * 100.0,
            cubed * 100.0,
            one.pods_per_s,
        );
        writeln!(csv, "{load},{},{p1},{formula},{p3},{cubed}", one.others_in_window)?;
    }
    write_csv(args, &csv)?;
    let last = reports.last().map(|(_, three)| three);
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
    let mut csv = "strategy,share_bp,regret,commit_regret,p1,pk\n".to_owned();
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
        writeln!(
            csv,
            "{strategy},{share_bp},{},{},{},{}",
            report.regret_mean,
            report.commit_regret_mean,
            report.first_conflict_share,
            report.conflict_share,
        )?;
        last = Some(report);
    }
    write_csv(args, &csv)?;
    println!("{}", serde_json::to_string(&last)?);
    Ok(())
}

fn write_csv(args: &Args, csv: &str) -> anyhow::Result<()> {
    if let Some(path) = &args.csv {
        std::fs::write(path, csv)?;
    }
    Ok(())
}
