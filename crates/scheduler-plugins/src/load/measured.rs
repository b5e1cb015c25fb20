//! What was measured on a node.

use framework::{Time, api, parse_resource_list};
use serde::Deserialize;

use super::source::{Operator, Resource};

/// What was measured on a node.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "Raw")]
pub(super) struct NodeMetrics {
    /// When the measurement ended.
    pub(super) taken: Time,
    pub(super) cpu: Option<Measured>,
    pub(super) memory: Option<Measured>,
}

/// What was measured of a resource.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    /// The average; the latest number if there is no average.
    pub(super) average: Level,
    /// The average or the latest number, whichever is listed last. TargetLoadPacking reads it.
    pub(super) last_listed: Option<Level>,
    /// The standard deviation as a share of the capacity.
    pub(super) deviation: f64,
}

/// A load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Level {
    /// Thousandths of a CPU, or bytes.
    Amount(i64),
    /// A share of the capacity.
    Share(f64),
}

impl Level {
    /// Returns the share of this capacity.
    pub(super) fn share_of(self, capacity: i64) -> f64 {
        match self {
            Self::Amount(amount) if capacity > 0 => amount as f64 / capacity as f64,
            Self::Amount(_) => 0.0,
            Self::Share(share) => share,
        }
    }

    /// Returns the amount of this capacity.
    pub(super) fn amount_of(self, capacity: i64) -> f64 {
        match self {
            Self::Amount(amount) => amount as f64,
            Self::Share(share) => share * capacity as f64,
        }
    }
}

/// An object of `metrics.k8s.io`, which has `usage`, or one of the other sources, which has
/// `metrics`.
#[derive(Debug, Deserialize)]
struct Raw {
    timestamp: String,
    #[serde(default)]
    usage: api::ResourceList,
    #[serde(default)]
    metrics: Vec<RawMetric>,
}

/// A number as a load-watcher has it.
#[derive(Debug, Deserialize)]
struct RawMetric {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    operator: String,
    /// In percent.
    value: f64,
}

impl TryFrom<Raw> for NodeMetrics {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        let taken = Time::parse_rfc3339(&raw.timestamp)
            .map_err(|problem| format!("timestamp: {problem}"))?;
        let mut problems = Vec::new();
        let usage = parse_resource_list(&raw.usage, "usage", &mut problems);
        if let Some(problem) = problems.first() {
            return Err(problem.to_string());
        }
        let used = |name: &str, amount: i64| {
            let level = Level::Amount(amount);
            let own = Measured { average: level, last_listed: Some(level), deviation: 0.0 };
            raw.usage.contains_key(name).then_some(own)
        };
        Ok(Self {
            taken,
            cpu: used("cpu", usage.milli_cpu).or_else(|| listed(&raw.metrics, Resource::Cpu)),
            memory: used("memory", usage.memory).or_else(|| listed(&raw.metrics, Resource::Memory)),
        })
    }
}

/// Returns what the list has of a resource. An average goes before other numbers, of which the last
/// one counts.
fn listed(metrics: &[RawMetric], resource: Resource) -> Option<Measured> {
    let mut found = None;
    let mut has_average = false;
    for RawMetric { kind, operator, value } in metrics {
        let Some(operator) = Operator::named(operator) else { continue };
        if Resource::named(kind) != Some(resource) {
            continue;
        }
        let share = value.max(0.0) / 100.0;
        let own = found.get_or_insert(Measured {
            average: Level::Share(0.0),
            last_listed: None,
            deviation: 0.0,
        });
        if matches!(operator, Operator::Average | Operator::Latest) {
            own.last_listed = Some(Level::Share(share));
        }
        match operator {
            Operator::Average => {
                own.average = Level::Share(share);
                has_average = true;
            }
            Operator::Deviation => own.deviation = share,
            Operator::Latest | Operator::Unnamed if !has_average => {
                own.average = Level::Share(share);
            }
            Operator::Latest | Operator::Unnamed => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(object: Value) -> NodeMetrics {
        NodeMetrics::deserialize(object).unwrap()
    }

    #[test]
    fn average_goes_before_the_latest_number() {
        let cpu = |rows: &[(&str, f64)]| {
            let rows = rows.iter().map(
                |(operator, value)| json!({"type": "CPU", "operator": operator, "value": value}),
            );
            read(json!({"timestamp": "2026-11-22T12:00:00Z", "metrics": rows.collect::<Vec<_>>()}))
                .cpu
        };
        let share = Level::Share;
        for (rows, average, last_listed, deviation) in [
            (vec![("AVG", 20.0), ("STD", 5.0), ("Latest", 30.0)], 0.2, Some(0.3), 0.05),
            (vec![("Latest", 30.0), ("AVG", 20.0)], 0.2, Some(0.2), 0.0),
            (vec![("", 40.0)], 0.4, None, 0.0),
            (vec![("STD", 5.0)], 0.0, None, 0.05),
            (vec![("AVG", -3.0)], 0.0, Some(0.0), 0.0),
        ] {
            let expected = Measured {
                average: share(average),
                last_listed: last_listed.map(share),
                deviation,
            };
            assert_eq!(cpu(&rows), Some(expected), "{rows:?}");
        }
        assert_eq!(cpu(&[("MAX", 20.0)]), None);
        assert_eq!(cpu(&[]), None);
    }

    #[test]
    fn usage_is_an_amount() {
        let metrics = read(json!({"timestamp": "2026-11-22T12:00:00Z",
            "usage": {"cpu": "1500000000n"}}));
        let cpu = metrics.cpu.unwrap();
        assert_eq!((cpu.average, metrics.memory), (Level::Amount(1500), None));
        assert_eq!(cpu.average.share_of(3000), 0.5);
        assert_eq!(Level::Share(0.25).amount_of(3000), 750.0);
    }
}
