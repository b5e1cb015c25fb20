//! A long run with churn: pods with labels of their own come, are bound and go, and memory has to
//! stay flat.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use plotters::prelude::*;

use crate::client::Admin;
use crate::cluster::{self, WAITING};
use crate::figures::Figure;
use crate::parts::now;
use crate::process::{Process, Sandbox};

const NODES: usize = 500;
/// Pods that come, and pods that go, per second.
const RATE: usize = 250;
/// Time from the creation of a pod to its deletion, in seconds.
const LIFETIME: usize = 4;
/// Minutes of the run, unless `SOAK_MINUTES` says otherwise.
const MINUTES: f64 = 10.0;
/// Share of the run in which caches and the allocator reach their size.
const WARM_UP: f64 = 0.25;
/// Size of the plot in pixels.
const PLOT: (u32, u32) = (880, 360);

/// The memory of the scheduler after some number of pods.
struct Sample {
    minute: f64,
    gone: usize,
    mib: f64,
}

/// Measures the resident set of the scheduler during churn, and draws it.
pub(crate) async fn soak() -> anyhow::Result<Vec<Figure>> {
    let minutes: f64 = match env::var("SOAK_MINUTES") {
        Ok(text) => text.parse().context("SOAK_MINUTES")?,
        Err(_) => MINUTES,
    };
    let namespace = cluster::pods(WAITING, 1);
    let sandbox = Sandbox::start(cluster::nodes(NODES).chain(namespace).collect())?;
    let admin = Admin::connect(&sandbox.kubeconfig).await?;
    let scheduler = Process::scheduler(&sandbox.kubeconfig)?;
    admin.until_all_are_bound().await?;
    let mut samples = Vec::new();
    let started = now();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    for second in 0.. {
        let minute = started.elapsed().as_secs_f64() / 60.0;
        if minute > minutes {
            break;
        }
        seconds.tick().await;
        admin.create_at_once(cluster::unique_pods(second * RATE..(second + 1) * RATE)).await?;
        if let Some(old) = second.checked_sub(LIFETIME) {
            admin.delete_pods(cluster::unique_names(old * RATE..(old + 1) * RATE)).await?;
        }
        let gone = second.saturating_sub(LIFETIME) * RATE;
        samples.push(Sample { minute, gone, mib: scheduler.rss_mib()? });
    }
    let picture = draw(&samples)?;
    eprintln!("soak: {}", picture.display());
    let warm = samples.iter().find(|sample| sample.minute >= minutes * WARM_UP);
    let (warm, last) = warm.zip(samples.last()).context("the run is too short")?;
    ensure!(last.gone > warm.gone, "the run is too short");
    let bytes = (last.mib - warm.mib) * 1024.0 * 1024.0 / (last.gone - warm.gone) as f64;
    Ok(vec![
        Figure::new("minutes", last.minute),
        Figure::new("pods that came and went", last.gone as f64),
        Figure::new("MiB after the first quarter", warm.mib),
        Figure::new("MiB at the end", last.mib),
        Figure::new("bytes per pod that is gone", bytes).with_target("< 2"),
    ])
}

/// Draws memory over time, and returns the file.
fn draw(samples: &[Sample]) -> anyhow::Result<PathBuf> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("soak.svg");
    let end = samples.last().map_or(1.0, |sample| sample.minute);
    let most = samples.iter().map(|sample| sample.mib).fold(0.0, f64::max);
    let points = samples.iter().map(|sample| (sample.minute, sample.mib));
    let plot = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let area = SVGBackend::new(&file, PLOT).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(16)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..end, 0.0..most * 1.25)?;
        chart
            .configure_mesh()
            .x_desc("minutes")
            .y_desc("resident set of the scheduler, MiB")
            .disable_x_mesh()
            .draw()?;
        chart.draw_series(LineSeries::new(points, &BLUE))?;
        area.present()?;
        Ok(())
    };
    plot().map_err(|error| anyhow!("cannot draw {}: {error}", file.display()))?;
    Ok(file)
}
