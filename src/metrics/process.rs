//! Metrics of the process, from `/proc`; absent on systems without it.

use std::fs;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, Metric, MetricFamily, MetricType};

/// Clock ticks per second in `/proc`: 100 on every architecture of Linux.
const TICKS: f64 = 100.0;

/// Collects the `process_` metrics at every scrape.
#[derive(Debug)]
pub(super) struct Process {
    sources: Vec<Source>,
    /// Descriptions, in the same order.
    descs: Vec<Desc>,
}

/// A metric of the process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    pub(super) name: &'static str,
    pub(super) kind: MetricType,
    help: &'static str,
    /// Reads the value, if the system tells it.
    read: fn() -> Option<f64>,
}

const METRICS: [Source; 9] = [
    Source {
        name: "process_cpu_seconds_total",
        kind: MetricType::COUNTER,
        help: "CPU time in user and system mode, in seconds.",
        read: cpu_seconds,
    },
    Source {
        name: "process_resident_memory_bytes",
        kind: MetricType::GAUGE,
        help: "Memory held in RAM.",
        read: || memory("VmRSS:"),
    },
    Source {
        name: "process_virtual_memory_bytes",
        kind: MetricType::GAUGE,
        help: "Address space in use.",
        read: || memory("VmSize:"),
    },
    Source {
        name: "process_virtual_memory_max_bytes",
        kind: MetricType::GAUGE,
        help: "Maximum address space.",
        read: || limit("Max address space"),
    },
    Source {
        name: "process_open_fds",
        kind: MetricType::GAUGE,
        help: "Open file descriptors.",
        read: open_files,
    },
    Source {
        name: "process_max_fds",
        kind: MetricType::GAUGE,
        help: "Maximum number of file descriptors.",
        read: || limit("Max open files"),
    },
    Source {
        name: "process_start_time_seconds",
        kind: MetricType::GAUGE,
        help: "Start of the process, in seconds since 1970.",
        read: start_time,
    },
    Source {
        name: "process_network_receive_bytes_total",
        kind: MetricType::COUNTER,
        help: "Bytes received over the network.",
        read: || network(0),
    },
    Source {
        name: "process_network_transmit_bytes_total",
        kind: MetricType::COUNTER,
        help: "Bytes sent over the network.",
        read: || network(8),
    },
];

impl Process {
    pub(super) fn new() -> Self {
        Self::of(METRICS.into())
    }

    /// Collects only the metric of this name.
    pub(super) fn only(name: &str) -> Self {
        Self::of(METRICS.into_iter().filter(|source| source.name == name).collect())
    }

    fn of(sources: Vec<Source>) -> Self {
        let desc = |&Source { name, help, .. }: &Source| {
            Desc::new(name.into(), help.into(), Vec::new(), Default::default())
        };
        let descs: Result<_, _> = sources.iter().map(desc).collect();
        Self { descs: descs.expect("names and help texts are valid constants"), sources }
    }
}

impl Process {
    /// Returns the metrics that are collected.
    pub(super) fn sources(&self) -> &[Source] {
        &self.sources
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.sources.iter().copied().filter_map(family).collect()
    }
}

fn family(Source { name, kind, help, read }: Source) -> Option<MetricFamily> {
    let value = read()?;
    let mut metric = Metric::default();
    if kind == MetricType::COUNTER {
        let mut counter = Counter::default();
        counter.set_value(value);
        metric.set_counter(counter);
    } else {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        metric.set_gauge(gauge);
    }
    let mut family = MetricFamily::default();
    family.set_name(name.into());
    family.set_help(help.into());
    family.set_field_type(kind);
    family.set_metric(vec![metric]);
    Some(family)
}

/// Returns field `number` of `/proc/self/stat`, counted from 1 as in proc(5).
fn stat(number: usize) -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, the command name, may contain spaces in its parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

fn cpu_seconds() -> Option<f64> {
    Some((stat(14)? + stat(15)?) / TICKS)
}

fn start_time() -> Option<f64> {
    let boot = number_after("/proc/stat", "btime")?;
    Some(boot + stat(22)? / TICKS)
}

fn memory(key: &str) -> Option<f64> {
    number_after("/proc/self/status", key).map(|kibibytes| kibibytes * 1024.0)
}

/// Returns the soft limit; the largest number without a limit, as in client_golang.
fn limit(key: &str) -> Option<f64> {
    let line = line_after("/proc/self/limits", key)?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        number => number.parse().ok(),
    }
}

fn open_files() -> Option<f64> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}

/// Returns the sum of a column over all interfaces but loopback.
fn network(column: usize) -> Option<f64> {
    let table = fs::read_to_string("/proc/self/net/dev").ok()?;
    let interfaces = table.lines().filter_map(|line| line.split_once(':'));
    let remote = interfaces.filter(|(name, _)| name.trim() != "lo");
    let bytes = remote.filter_map(|(_, columns)| columns.split_whitespace().nth(column));
    Some(bytes.filter_map(|bytes| bytes.parse::<f64>().ok()).sum())
}

fn number_after(file: &str, key: &str) -> Option<f64> {
    line_after(file, key)?.split_whitespace().next()?.parse().ok()
}

/// Returns the rest of the line that starts with `key`.
fn line_after(file: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn all_metrics_exist_on_linux() {
        let families = Process::new().collect();
        assert_eq!(families.len(), METRICS.len());
        let value = |name: &str| {
            let family = families.iter().find(|family| family.name() == name).unwrap();
            family.get_metric()[0].get_gauge().get_value()
        };
        assert!(value("process_resident_memory_bytes") > 100_000.0);
        assert!(value("process_resident_memory_bytes") < value("process_virtual_memory_bytes"));
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_start_time_seconds") > 1.6e9);
    }
}
