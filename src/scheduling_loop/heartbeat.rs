//! The heartbeat of the scheduling loop, by which others notice that it is stuck.

use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::ports::Span;
use framework::PluginName;
use tokio::time::MissedTickBehavior;
use tracing::{error, info, warn};

/// Time between two looks at the loop.
const TICK: Duration = Duration::from_secs(1);
/// Number of ticks without a turn after which the log names the culprit.
const SLOW: u32 = 10;
/// Number of ticks without a turn after which the loop counts as stuck.
const STUCK: u32 = 60;

/// The turns of the scheduling loop, and the calls into plugins that it waits for.
///
/// [`watch`](Self::watch) counts the seconds without a turn. It counts ticks of a task of this process and
/// reads no clock: after a pause of the whole process or machine it has missed its ticks like the loop its
/// turns, so that a pause is not taken for a stuck loop.
#[derive(Debug, Default)]
pub struct Heartbeat {
    turns: AtomicU64,
    ticks_without_turn: AtomicU32,
    /// The nested calls that the loop is in, and those of its tasks on other threads.
    calls: Mutex<Vec<PluginCall>>,
}

/// A call into a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PluginCall {
    plugin: PluginName,
    /// The extension point, or what else the plugin was asked for.
    point: &'static str,
}

impl fmt::Display for PluginCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin {:?} at {}", self.plugin, self.point)
    }
}

impl PluginCall {
    fn of(span: Span<'_>) -> Option<Self> {
        let (plugin, point) = match span {
            Span::Plugin(point, plugin) => (plugin, point.name()),
            Span::Call(purpose, plugin) => (plugin, purpose),
            Span::Hint(plugin, _) => (plugin, "QueueingHint"),
            Span::Attempt(_) | Span::Algorithm | Span::Point(..) | Span::Change => return None,
        };
        Some(Self { plugin: plugin.clone(), point })
    }
}

impl Heartbeat {
    /// Notes that the loop has made a turn, or waits for I/O within a time limit.
    pub fn beat(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the loop enters this span.
    pub fn enter(&self, span: Span<'_>) {
        if let Some(call) = PluginCall::of(span) {
            self.calls().push(call);
        }
    }

    /// Notes that the loop leaves this span. Tasks on other threads may have entered others since.
    pub fn leave(&self, span: Span<'_>) {
        let Some(call) = PluginCall::of(span) else { return };
        let mut calls = self.calls();
        if let Some(place) = calls.iter().rposition(|open| *open == call) {
            calls.remove(place);
        }
    }

    /// Counts the seconds without a turn, and logs the plugin that takes long. Never ends.
    pub async fn watch(&self) -> Infallible {
        let mut ticks = tokio::time::interval(TICK);
        // After a pause of the process there is one tick, not one for each second.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = self.turns.load(Ordering::Relaxed);
        loop {
            ticks.tick().await;
            let turns = self.turns.load(Ordering::Relaxed);
            let before = self.ticks_without_turn.load(Ordering::Relaxed);
            let ticks = if turns == seen { before.saturating_add(1) } else { 0 };
            seen = turns;
            self.ticks_without_turn.store(ticks, Ordering::Relaxed);
            self.log(before, ticks);
        }
    }

    fn log(&self, before: u32, ticks: u32) {
        let seconds = ticks;
        match ticks {
            0 if before >= SLOW => info!(seconds = before, "The scheduling loop goes on"),
            SLOW => {
                let culprit = self.culprit();
                warn!(seconds, culprit, "The scheduling loop is held up; all pods wait");
            }
            STUCK => {
                let culprit = self.culprit();
                error!(
                    seconds,
                    culprit,
                    "The scheduling loop is stuck, and /livez fails until it goes on: the kubelet \
                     restarts the pod. Repair or disable the plugin"
                );
            }
            _ => {}
        }
    }

    /// Checks that the loop makes turns.
    ///
    /// # Errors
    /// The loop is stuck; where.
    pub fn check(&self) -> Result<(), String> {
        let ticks = self.ticks_without_turn.load(Ordering::Relaxed);
        if ticks < STUCK {
            return Ok(());
        }
        Err(format!("the scheduling loop has made no turn for {ticks} s: {}", self.culprit()))
    }

    /// Returns where the loop is.
    pub(crate) fn culprit(&self) -> String {
        let call = self.calls().last().map(ToString::to_string);
        call.unwrap_or_else(|| "no call of a plugin".to_owned())
    }

    fn calls(&self) -> MutexGuard<'_, Vec<PluginCall>> {
        // No code that holds the lock panics.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework::ExtensionPoint;

    use super::*;

    /// Starts the watch of a heartbeat. The tests pause time.
    fn watched() -> Arc<Heartbeat> {
        let heartbeat = Arc::new(Heartbeat::default());
        let watching = heartbeat.clone();
        tokio::spawn(async move { watching.watch().await });
        heartbeat
    }

    async fn seconds(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn loop_without_turns_is_stuck_after_a_minute_until_its_next_turn() {
        let heartbeat = watched();
        for _ in 0..300 {
            seconds(1).await;
            heartbeat.beat();
        }
        seconds(59).await;
        assert_eq!(heartbeat.check(), Ok(()));
        seconds(3).await;
        assert!(heartbeat.check().unwrap_err().contains("made no turn for 6"));
        heartbeat.beat();
        seconds(2).await;
        assert_eq!(heartbeat.check(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn pause_of_the_process_is_not_a_stuck_loop() {
        let heartbeat = watched();
        seconds(1).await;
        // Time passes, but no task runs.
        tokio::time::advance(Duration::from_hours(8)).await;
        seconds(1).await;
        assert_eq!(heartbeat.check(), Ok(()));
    }

    #[test]
    fn innermost_call_is_the_culprit() {
        let heartbeat = Heartbeat::default();
        let (preemption, fit): (PluginName, PluginName) =
            ("DefaultPreemption".into(), "NodeResourcesFit".into());
        let outer = Span::Plugin(ExtensionPoint::PostFilter.into(), &preemption);
        let inner = Span::Plugin(ExtensionPoint::Filter.into(), &fit);
        for span in [Span::Algorithm, outer, inner] {
            heartbeat.enter(span);
        }
        assert_eq!(heartbeat.culprit(), "plugin \"NodeResourcesFit\" at Filter");
        heartbeat.leave(inner);
        assert_eq!(heartbeat.culprit(), "plugin \"DefaultPreemption\" at PostFilter");
        heartbeat.leave(outer);
        heartbeat.leave(Span::Algorithm);
        assert_eq!(heartbeat.culprit(), "no call of a plugin");
    }

    #[test]
    fn call_of_a_task_that_does_not_end_is_the_culprit() {
        let heartbeat = Heartbeat::default();
        let (slow, fast): (PluginName, PluginName) = ("Slow".into(), "Fast".into());
        let [slow, fast] =
            [&slow, &fast].map(|name| Span::Plugin(ExtensionPoint::Score.into(), name));
        // One task is in the slow plugin while another one ends it and calls the next.
        for span in [slow, slow, fast] {
            heartbeat.enter(span);
        }
        heartbeat.leave(slow);
        heartbeat.leave(fast);
        assert_eq!(heartbeat.culprit(), "plugin \"Slow\" at Score");
    }
}
