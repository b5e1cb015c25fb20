//! Watches over plugins: who panicked, and who took longer than a decision can wait.
//!
//! The engine goes on either way; this is how people get to know the name.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use engine::ports::{Count, Probe, Span};
use framework::{Code, PluginName};

/// A call into a plugin that takes this long holds up every other pod noticeably.
const SLOW: Duration = Duration::from_secs(1);

/// A probe that measures calls into plugins and remembers the ones that misbehaved.
#[derive(Debug, Default)]
pub struct Watchdog {
    /// Starts of the spans that are open; they nest.
    open: Vec<Instant>,
    offences: BTreeMap<PluginName, Offences>,
}

/// What one plugin did wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offences {
    /// Panics; each cost one attempt of one pod.
    pub panics: u64,
    /// Calls that took a second or longer.
    pub slow_calls: u64,
    /// The longest of them.
    pub slowest: Duration,
}

impl Watchdog {
    /// The plugins that misbehaved.
    pub fn offences(&self) -> impl Iterator<Item = (&PluginName, &Offences)> {
        self.offences.iter()
    }

    /// How often any of them misbehaved.
    pub fn total(&self) -> u64 {
        self.offences.values().map(|seen| seen.panics + seen.slow_calls).sum()
    }

    fn ended(&mut self, span: Span<'_>, took: Duration) {
        let (Span::Plugin(_, plugin) | Span::Hint(plugin, _)) = span else { return };
        if took >= SLOW {
            let offences = self.offences.entry(plugin.clone()).or_default();
            offences.slow_calls += 1;
            offences.slowest = offences.slowest.max(took);
        }
    }
}

impl Probe for Watchdog {
    #[expect(clippy::disallowed_methods, reason = "durations are what this is for")]
    fn start(&mut self, _span: Span<'_>) {
        self.open.push(Instant::now());
    }

    fn stop(&mut self, span: Span<'_>, _code: Code) {
        if let Some(started) = self.open.pop() {
            self.ended(span, started.elapsed());
        }
    }

    fn count(&mut self, count: Count<'_>) {
        if let Count::Panic { plugin } = count {
            self.offences.entry(plugin.clone()).or_default().panics += 1;
        }
    }
}

impl fmt::Display for Offences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let panics = (self.panics > 0).then(|| format!("panicked {} times", self.panics));
        let slow = (self.slow_calls > 0).then(|| {
            let slowest = self.slowest.as_secs_f64();
            format!("was slow {} times, {slowest:.1} s at the worst", self.slow_calls)
        });
        f.write_str(&panics.into_iter().chain(slow).collect::<Vec<_>>().join(", and "))
    }
}

#[cfg(test)]
mod tests {
    use framework::ExtensionPoint;

    use super::*;

    #[test]
    fn only_slow_calls_and_panics_are_remembered() {
        let mut watchdog = Watchdog::default();
        let (quick, slow): (PluginName, PluginName) = ("Quick".into(), "Slow".into());
        let span = |name| Span::Plugin(ExtensionPoint::Filter, name);
        watchdog.start(span(&quick));
        watchdog.stop(span(&quick), Code::Success);
        watchdog.ended(span(&slow), Duration::from_secs(3));
        watchdog.ended(span(&slow), Duration::from_millis(1500));
        watchdog.ended(Span::Algorithm, Duration::from_secs(60));
        watchdog.count(Count::Panic { plugin: &slow });
        let seen: Vec<_> =
            watchdog.offences().map(|(name, seen)| format!("{name} {seen}")).collect();
        assert_eq!(seen, ["Slow panicked 1 times, and was slow 2 times, 3.0 s at the worst"]);
    }
}
