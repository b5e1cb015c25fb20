//! The NodeMetrics of `metrics.k8s.io`.

use std::time::Duration;

use framework::{Pod, Time, api, parse_resource_list};
use serde::Deserialize;

/// What the metrics server measured on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Raw")]
pub struct NodeMetrics {
    /// When the measurement ended.
    pub taken: Time,
    /// How long it took.
    pub window: Duration,
    /// CPU usage during the window, in thousandths of a CPU.
    pub milli_cpu: i64,
}

#[derive(Debug, Deserialize)]
struct Raw {
    timestamp: String,
    window: String,
    usage: api::ResourceList,
}

impl TryFrom<Raw> for NodeMetrics {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        let at = |field: &'static str| move |problem: String| format!("{field}: {problem}");
        let taken = Time::parse_rfc3339(&raw.timestamp).map_err(at("timestamp"))?;
        let window = parse_duration(&raw.window).map_err(at("window"))?;
        if !raw.usage.contains_key("cpu") {
            return Err("usage: has no cpu".to_owned());
        }
        let mut problems = Vec::new();
        let usage = parse_resource_list(&raw.usage, "usage", &mut problems);
        match problems.first() {
            Some(problem) => Err(problem.to_string()),
            None => Ok(Self { taken, window, milli_cpu: usage.milli_cpu }),
        }
    }
}

impl NodeMetrics {
    /// Whether the measurement contains the whole usage of a pod: the pod ran before the window
    /// began. A pod that the kubelet has not started is not covered.
    pub(super) fn cover(&self, pod: &Pod) -> bool {
        pod.start_time.get().is_some_and(|started| self.taken.since(started) >= self.window)
    }
}

/// Parses a duration as Go prints it: `20s`, `1m0.5s`, `15.043s`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 7] = [
        ("ms", 1e-3),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ns", 1e-9),
        ("h", 3600.0),
        ("m", 60.0),
        ("s", 1.0),
    ];
    let invalid = || format!("cannot read {text:?} as a duration");
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit() && char != '.');
        let (number, unit) = rest.split_at(digits.ok_or_else(invalid)?);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let known = UNITS.iter().find(|(name, _)| unit.starts_with(name));
        let (name, factor) = known.ok_or_else(invalid)?;
        seconds += number * factor;
        rest = &unit[name.len()..];
    }
    match text.is_empty() {
        true => Err(invalid()),
        false => Duration::try_from_secs_f64(seconds).map_err(|_| invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_prints_them() {
        for (text, millis) in [
            ("20s", Some(20_000)),
            ("1m0.5s", Some(60_500)),
            ("1h2m3s", Some(3_723_000)),
            ("1.5ms", Some(1)),
            ("0s", Some(0)),
            ("", None),
            ("20", None),
            ("s", None),
            ("20 s", None),
        ] {
            let parsed = parse_duration(text).ok().map(|parsed| parsed.as_millis());
            assert_eq!(parsed, millis, "{text:?}");
        }
    }
}
