//! Draws the plots of docs/benchmarks.md from the lines that `examples/scale` and
//! `examples/supercluster` print: `make plots`.

mod clusters;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use clap::Parser;
use plotters::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Size of a plot in pixels.
const SIZE: (u32, u32) = (880, 420);
const COLOURS: [RGBColor; 7] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 95, 14),
    RGBColor(44, 140, 60),
    RGBColor(120, 80, 170),
    RGBColor(120, 120, 120),
    RGBColor(200, 60, 120),
    RGBColor(140, 110, 40),
];

/// Draws cost, throughput and memory against the number of nodes
#[derive(Parser)]
#[command(name = "plots")]
struct Args {
    /// Lines of `examples/scale`. Of several lines with equal shape and number of nodes the last
    /// counts
    #[arg(default_value = "docs/scale.jsonl")]
    lines: PathBuf,
    /// Lines of `examples/supercluster --curve`
    #[arg(long, default_value = "docs/clusters-conflicts.jsonl")]
    conflicts: PathBuf,
    /// Lines of `examples/supercluster --quality`
    #[arg(long, default_value = "docs/clusters-regret.jsonl")]
    regrets: PathBuf,
    /// Folder of the plots
    #[arg(long, default_value = "docs")]
    out: PathBuf,
}

/// A line of `examples/scale`, as far as it is drawn.
#[derive(Debug, Clone, Deserialize)]
struct Line {
    nodes: u32,
    shape: String,
    mean_us: f64,
    p50_us: f64,
    /// 0 with `--no-rankings`.
    ranked_share: f64,
    peak_rss_mib: f64,
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Measurements that belong together: dots that are joined.
    Joined,
    /// Single measurements: dots.
    Single,
    /// A formula: a thin line.
    Formula,
}

/// Points that belong together.
struct Series {
    name: String,
    /// In the order of the first coordinate.
    points: Vec<(f64, f64)>,
    style: Style,
    /// Place of its colour, if it is not the next one.
    colour: Option<usize>,
}

/// A plot with logarithmic axes.
struct Plot {
    file: &'static str,
    /// What the axes show.
    axes: (&'static str, &'static str),
    series: Vec<Series>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut all: Vec<Plot> = plots(&lines_of(&args.lines)?).into();
    all.push(clusters::conflicts(&lines_of(&args.conflicts)?));
    all.push(clusters::regrets(&lines_of(&args.regrets)?));
    for plot in all {
        let file = args.out.join(plot.file);
        draw(&plot, &file).map_err(|error| anyhow!("cannot draw {}: {error}", file.display()))?;
        println!("{}", file.display());
    }
    Ok(())
}

fn lines_of<T: DeserializeOwned>(file: &Path) -> anyhow::Result<Vec<T>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    read(&text).with_context(|| file.display().to_string())
}

fn read<T: DeserializeOwned>(text: &str) -> anyhow::Result<Vec<T>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let lines = lines.map(|(number, line)| {
        serde_json::from_str(line).with_context(|| format!("line {}", number + 1))
    });
    let lines = lines.collect::<anyhow::Result<Vec<T>>>()?;
    ensure!(!lines.is_empty(), "no lines");
    Ok(lines)
}

/// kube-scheduler 1.36 on the machine of our own figures, beside its own API server: milliseconds
/// for a plain pod; see docs/benchmarks.md. At 20,000 nodes it samples 5 % of them.
const KUBE_SCHEDULER_MS: [(f64, f64); 2] = [(1_000.0, 3.0), (20_000.0, 6.5)];
/// Pods per second of kube-scheduler 1.36 on that machine, for 20,000 pods.
const KUBE_SCHEDULER: [(f64, f64); 1] = [(5_000.0, 260.0)];
/// Published by the project dist-scheduler: kube-scheduler 1.32, which samples, on 32 cores with
/// kwok nodes.
const KUBE_SCHEDULER_PUBLISHED: [(f64, f64); 1] = [(100_000.0, 258.0)];
/// Published by the project dist-scheduler: 289 replicas on 8,670 cores.
const DIST_SCHEDULER: [(f64, f64); 1] = [(1_000_000.0, 14_000.0)];

fn plots(lines: &[Line]) -> [Plot; 3] {
    let mut cost = ranked(lines, "mean", |line| line.mean_us / 1e3);
    cost.extend(series(
        lines,
        "median",
        |line| line.shape == "mixed" && is_ranked(line),
        |line| line.p50_us / 1e3,
    ));
    cost.extend(series(
        lines,
        "every node looked at, mean",
        |line| !is_ranked(line),
        |line| line.mean_us / 1e3,
    ));
    cost.push(single("kube-scheduler 1.36, 5 % sampled at 20,000", &KUBE_SCHEDULER_MS));
    let mut throughput = ranked(lines, "in process, one thread", |line| 1e6 / line.mean_us);
    throughput.push(single("kube-scheduler 1.36, real API server", &KUBE_SCHEDULER));
    throughput.push(single("kube-scheduler 1.32, sampling, published", &KUBE_SCHEDULER_PUBLISHED));
    throughput.push(single("289 schedulers on 8,670 cores, published", &DIST_SCHEDULER));
    let memory = ranked(lines, "peak of the process", |line| line.peak_rss_mib);
    let plot = |file, axis, series| Plot { file, axes: ("nodes", axis), series };
    [
        plot("scale-cost.svg", "milliseconds a decision", cost),
        plot("scale-throughput.svg", "pods per second", throughput),
        plot("scale-memory.svg", "MiB", memory),
    ]
}

fn is_ranked(line: &Line) -> bool {
    line.ranked_share > 0.0
}

/// Returns a series for each of the shapes basic and mixed.
fn ranked(lines: &[Line], what: &str, value: impl Fn(&Line) -> f64) -> Vec<Series> {
    let drawn = |line: &Line| is_ranked(line) && ["basic", "mixed"].contains(&&*line.shape);
    series(lines, what, drawn, value)
}

/// Returns a series for each shape of the lines that are wanted.
fn series(
    lines: &[Line],
    what: &str,
    wanted: impl Fn(&Line) -> bool,
    value: impl Fn(&Line) -> f64,
) -> Vec<Series> {
    let mut shapes: BTreeMap<&str, BTreeMap<u32, f64>> = BTreeMap::new();
    for line in lines.iter().filter(|line| wanted(line)) {
        shapes.entry(&line.shape).or_default().insert(line.nodes, value(line));
    }
    let shapes = shapes.into_iter().map(|(shape, points)| Series {
        name: format!("{shape}, {what}"),
        points: points.into_iter().map(|(nodes, value)| (f64::from(nodes), value)).collect(),
        style: Style::Joined,
        colour: None,
    });
    shapes.collect()
}

fn single(name: &str, points: &[(f64, f64)]) -> Series {
    let (name, points) = (name.to_owned(), points.to_vec());
    Series { name, points, style: Style::Single, colour: None }
}

type DrawError = Box<dyn std::error::Error + Send + Sync>;

fn draw(plot: &Plot, file: &Path) -> Result<(), DrawError> {
    let points = || plot.series.iter().flat_map(|series| &series.points);
    let (across, values) = (limits(points().map(|point| point.0)), limits(points().map(|p| p.1)));
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(across.log_scale(), values.log_scale())?;
    chart
        .configure_mesh()
        .x_desc(plot.axes.0)
        .y_desc(plot.axes.1)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|value| format!("{value}"))
        .y_label_formatter(&|value| format!("{value}"))
        .draw()?;
    for (place, series) in plot.series.iter().enumerate() {
        let colour = COLOURS[series.colour.unwrap_or(place) % COLOURS.len()];
        let line = || LineSeries::new(series.points.iter().copied(), colour);
        if series.style == Style::Formula {
            let drawn = chart.draw_series(line())?.label(&series.name);
            drawn.legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour));
            continue;
        }
        if series.style == Style::Joined {
            chart.draw_series(line())?;
        }
        let dots = series.points.iter().map(|point| Circle::new(*point, 4, colour.filled()));
        let drawn = chart.draw_series(dots)?.label(&series.name);
        drawn.legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
    }
    let mut legend = chart.configure_series_labels();
    legend.position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.8));
    legend.border_style(RGBColor(200, 200, 200)).draw()?;
    area.present()?;
    Ok(())
}

/// Returns limits around all values, with room for the legend above.
fn limits(values: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(0.0, f64::max);
    let decade = |value: f64| 10_f64.powf(value);
    decade((least / 1.5).log10().floor())..decade((most * 1.5).log10().ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"
        {"nodes":5000,"shape":"mixed","mean_us":9.0,"p50_us":5.0,"ranked_share":1.0,"peak_rss_mib":70.0,"seed":0}
        {"nodes":5000,"shape":"mixed","mean_us":94.0,"p50_us":86.0,"ranked_share":0.0,"peak_rss_mib":69.0}
        {"nodes":100000,"shape":"mixed","mean_us":36.0,"p50_us":7.0,"ranked_share":1.0,"peak_rss_mib":499.0}
        {"nodes":5000,"shape":"mixed","mean_us":12.0,"p50_us":6.0,"ranked_share":1.0,"peak_rss_mib":87.0}"#;

    #[test]
    fn last_line_of_a_shape_and_number_of_nodes_is_drawn() {
        let [cost, ..] = plots(&read(LINES).unwrap());
        let named = |name: &str| cost.series.iter().find(|series| series.name == name).unwrap();
        assert_eq!(named("mixed, mean").points, [(5_000.0, 0.012), (100_000.0, 0.036)]);
        assert_eq!(named("mixed, every node looked at, mean").points, [(5_000.0, 0.094)]);
    }

    #[test]
    fn line_that_cannot_be_read_is_named() {
        let error = read::<Line>("{\"nodes\": 1}").unwrap_err();
        assert_eq!(error.to_string(), "line 1");
        assert!(read::<Line>("\n").is_err());
    }

    #[test]
    fn plots_are_svg_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut all: Vec<Plot> = plots(&read(LINES).unwrap()).into();
        all.extend(clusters::tests::documented());
        for plot in all {
            let file = folder.path().join(plot.file);
            draw(&plot, &file).unwrap();
            let text = std::fs::read_to_string(file).unwrap();
            assert!(text.starts_with("<svg") && text.contains(plot.axes.1), "{text}");
        }
    }
}
