//! The measurements as a table and as JSON.

use dry_run::table::{Cell, Colour, Column, Table, Tone};
use perf::runner::Measurement;
use perf::workload::Workload;
use serde::Serialize;

/// The results of all workloads.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(rename = "workloads")]
    pub(super) results: Vec<Result>,
}

/// The result of a workload.
#[derive(Debug, Serialize)]
pub(super) struct Result {
    name: String,
    threshold: Option<f64>,
    measurements: Vec<Compared>,
    error: Option<String>,
}

/// A measurement beside the threshold of the workload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Compared {
    #[serde(flatten)]
    measurement: Measurement,
    /// The average throughput in units of the threshold.
    threshold_ratio: Option<f64>,
}

impl Result {
    pub(super) fn new(workload: &Workload, outcome: anyhow::Result<Vec<Measurement>>) -> Self {
        let (measurements, error) = match outcome {
            Ok(measurements) => (measurements, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        let threshold = workload.threshold;
        let compared = |measurement: Measurement| {
            let average = measurement.throughput.map(|throughput| throughput.average);
            let threshold_ratio = average.zip(threshold).map(|(average, least)| average / least);
            Compared { measurement, threshold_ratio }
        };
        let measurements = measurements.into_iter().map(compared).collect();
        Self { name: workload.name.clone(), threshold, measurements, error }
    }
}

impl Report {
    /// Returns a sentence for each workload that failed or missed its threshold.
    pub(super) fn shortfalls(&self) -> Vec<String> {
        let of = |result: &Result| {
            let Result { name, threshold, measurements, error } = result;
            let failure = error.as_ref().map(|error| format!("{name}: {error}"));
            let misses = measurements.iter().filter_map(|Compared { measurement, .. }| {
                let least = (*threshold)?;
                let average = measurement.throughput.map_or(0.0, |own| own.average);
                let label = &measurement.label;
                (average < least).then(|| {
                    format!(
                        "{name}: {label}: {average:.1} pods/s miss the threshold of {least} pods/s"
                    )
                })
            });
            failure.into_iter().chain(misses).collect::<Vec<_>>()
        };
        self.results.iter().flat_map(of).collect()
    }

    /// Returns a line for each measurement, and one for each failed workload.
    pub(super) fn table(&self) -> String {
        let numbers = [
            "PODS",
            "PODS/S",
            "P50",
            "P90",
            "P95",
            "P99",
            "SAMPLES",
            "THRESHOLD",
            "RATIO",
            "CPU S",
            "MS/POD",
            "PEAK MIB",
        ];
        let columns = ["WORKLOAD", "MEASURED"].map(Column::words).into_iter();
        let mut table = Table::new(columns.chain(numbers.map(Column::numbers)));
        for result in &self.results {
            if result.error.is_some() {
                table.row([Cell::from(&result.name), Cell::toned("failed", Tone::Bad)]);
            }
            for compared in &result.measurements {
                table.row(row(result, compared));
            }
        }
        table.render(Colour::of_stdout())
    }
}

fn row(result: &Result, compared: &Compared) -> Vec<Cell> {
    let Compared { measurement, threshold_ratio } = compared;
    let mut cells = vec![
        Cell::from(&result.name),
        Cell::from(&measurement.label),
        Cell::from(measurement.pods.to_string()),
    ];
    let rates = measurement
        .throughput
        .map(|own| [own.average, own.perc50, own.perc90, own.perc95, own.perc99]);
    match rates {
        Some(rates) => cells.extend(rates.map(|rate| Cell::from(format!("{rate:.1}")))),
        None => cells.extend(["-"; 5].map(Cell::from)),
    }
    let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let tone = match threshold_ratio {
        Some(ratio) if *ratio < 1.0 => Tone::Bad,
        _ => Tone::Plain,
    };
    let ratio = optional(threshold_ratio.map(|ratio| format!("{ratio:.1}")));
    cells.extend([
        Cell::from(measurement.samples.to_string()),
        Cell::from(optional(result.threshold.map(|least| least.to_string()))),
        Cell::toned(ratio, tone),
        Cell::from(format!("{:.2}", measurement.cpu_seconds)),
        Cell::from(optional(measurement.cpu_milliseconds_per_pod.map(|own| format!("{own:.2}")))),
        Cell::from(format!("{:.0}", measurement.peak_mib)),
    ]);
    cells
}
