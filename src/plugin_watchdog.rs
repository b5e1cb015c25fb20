//! Detection of plugins that panic or block the scheduling loop.
//!
//! The engine survives both. The watchdog supplies the names of the plugins for the log.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use engine::ports::{Count, Probe, Span};
use framework::{Code, PluginName};

/// Duration from which a call into a plugin counts as slow. All other pods wait during the call.
const SLOW_CALL: Duration = Duration::from_secs(1);

/// A probe that measures calls into plugins and records panics and slow calls.
#[derive(Debug, Default)]
pub struct PluginWatchdog {
    /// Start times of the open spans, which are nested.
    open: Vec<Instant>,
    faults: BTreeMap<PluginName, PluginFaults>,
}

/// The faults of one plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PluginFaults {
    /// Number of panics. Each one failed a scheduling attempt of one pod.
    pub panics: u64,
    /// Number of calls that took a second or longer.
    pub slow_calls: u64,
    /// Duration of the longest slow call.
    pub slowest: Duration,
}

impl PluginWatchdog {
    /// Iterates over the plugins with faults.
    pub fn faults(&self) -> impl Iterator<Item = (&PluginName, &PluginFaults)> {
        self.faults.iter()
    }

    /// Returns the total number of faults.
    pub fn total(&self) -> u64 {
        self.faults.values().map(|faults| faults.panics + faults.slow_calls).sum()
    }

    fn record(&mut self, span: Span<'_>, took: Duration) {
        let (Span::Plugin(_, plugin) | Span::Call(_, plugin) | Span::Hint(plugin, _)) = span else {
            return;
        };
        if took >= SLOW_CALL {
            let faults = self.faults.entry(plugin.clone()).or_default();
            faults.slow_calls += 1;
            faults.slowest = faults.slowest.max(took);
        }
    }
}

impl Probe for PluginWatchdog {
    #[expect(clippy::disallowed_methods, reason = "the watchdog measures durations")]
    fn start(&mut self, _span: Span<'_>) {
        self.open.push(Instant::now());
    }

    fn stop(&mut self, span: Span<'_>, _code: Code) {
        if let Some(started) = self.open.pop() {
            self.record(span, started.elapsed());
        }
    }

    fn count(&mut self, count: Count<'_>) {
        if let Count::Panic { plugin } = count {
            self.faults.entry(plugin.clone()).or_default().panics += 1;
        }
    }
}

impl fmt::Display for PluginFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |count: u64| if count == 1 { "once".into() } else { format!("{count} times") };
        let panics = (self.panics > 0).then(|| format!("panicked {}", times(self.panics)));
        let slow_calls = (self.slow_calls > 0).then(|| {
            let slowest = self.slowest.as_secs_f64();
            format!("was slow {} (longest call {slowest:.1} s)", times(self.slow_calls))
        });
        f.write_str(&panics.into_iter().chain(slow_calls).collect::<Vec<_>>().join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use framework::ExtensionPoint;

    use super::*;

    #[test]
    fn watchdog_records_slow_calls_and_panics_only() {
        let mut watchdog = PluginWatchdog::default();
        let (quick, slow): (PluginName, PluginName) = ("Quick".into(), "Slow".into());
        let span = |name| Span::Plugin(ExtensionPoint::Filter.into(), name);
        watchdog.start(span(&quick));
        watchdog.stop(span(&quick), Code::Success);
        watchdog.record(span(&slow), Duration::from_secs(3));
        watchdog.record(span(&slow), Duration::from_millis(1500));
        watchdog.record(Span::Algorithm, Duration::from_secs(60));
        watchdog.count(Count::Panic { plugin: &slow });
        let faults: Vec<_> =
            watchdog.faults().map(|(plugin, faults)| format!("{plugin} {faults}")).collect();
        assert_eq!(faults, ["Slow panicked once and was slow 2 times (longest call 3.0 s)"]);
    }
}
