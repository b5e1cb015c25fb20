//! The heartbeat of the scheduling loop, and of other loops of the process, by which others notice
//! that one is stuck.

use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// The turns of the scheduling loop and of other loops, and the calls into plugins that the
/// scheduling loop waits for.
///
/// [`watch`](Self::watch) counts the seconds without a turn. It counts ticks of a task of this
/// process and reads no clock: after a pause of the whole process or machine it has missed its
/// ticks like the loop its turns, so that a pause is not taken for a stuck loop.
#[derive(Debug, Default)]
pub struct Heartbeat {
    turns: Turns,
    /// The nested calls that the loop is in, and the calls of its tasks on other threads.
    calls: Mutex<Vec<PluginCall>>,
    others: Mutex<Vec<Arc<LoopTurns>>>,
}

/// The turns of a loop.
#[derive(Debug, Default)]
struct Turns {
    made: AtomicU64,
    /// The turns at the last tick.
    seen: AtomicU64,
    ticks_without_turn: AtomicU32,
}

impl Turns {
    fn beat(&self) {
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a tick. Returns the number of ticks without a turn before it and with it.
    fn tick(&self) -> (u32, u32) {
        let made = self.made.load(Ordering::Relaxed);
        let before = self.ticks_without_turn();
        let is_held_up = self.seen.swap(made, Ordering::Relaxed) == made;
        let ticks = if is_held_up { before.saturating_add(1) } else { 0 };
        self.ticks_without_turn.store(ticks, Ordering::Relaxed);
        (before, ticks)
    }

    fn ticks_without_turn(&self) -> u32 {
        self.ticks_without_turn.load(Ordering::Relaxed)
    }
}

/// The turns of a loop beside the scheduling loop. A loop that is dropped is not watched any more.
#[derive(Debug)]
pub struct LoopTurns {
    name: &'static str,
    turns: Turns,
}

impl LoopTurns {
    /// Time within which the loop has to beat, also if it has nothing to do.
    pub const LONGEST_WAIT: Duration = Duration::from_secs(10);

    /// Notes that the loop has made a turn.
    pub fn beat(&self) {
        self.turns.beat();
    }
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
            Span::Attempt(..)
            | Span::Algorithm
            | Span::GroupAttempt(..)
            | Span::GroupAlgorithm
            | Span::Placement(_)
            | Span::Point(..)
            | Span::Change => return None,
        };
        Some(Self { plugin: plugin.clone(), point })
    }
}

impl Heartbeat {
    /// Notes that the loop has made a turn, or waits for I/O within a time limit.
    pub fn beat(&self) {
        self.turns.beat();
    }

    /// Watches another loop, which is called `name` in messages.
    pub fn of_loop(&self, name: &'static str) -> Arc<LoopTurns> {
        let turns = Arc::new(LoopTurns { name, turns: Turns::default() });
        self.others().push(turns.clone());
        turns
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
        self.turns.seen.store(self.turns.made.load(Ordering::Relaxed), Ordering::Relaxed);
        loop {
            ticks.tick().await;
            let (before, ticks) = self.turns.tick();
            self.log(before, ticks);
            self.others().retain(|other| {
                let (before, seconds) = other.turns.tick();
                log_other(other.name, before, seconds);
                Arc::strong_count(other) > 1
            });
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

    /// Checks that the loops make turns.
    ///
    /// # Errors
    /// A loop is stuck; where.
    pub fn check(&self) -> Result<(), String> {
        let ticks = self.turns.ticks_without_turn();
        if ticks >= STUCK {
            let culprit = self.culprit();
            return Err(format!("the scheduling loop has made no turn for {ticks} s: {culprit}"));
        }
        for other in self.others().iter() {
            let ticks = other.turns.ticks_without_turn();
            if ticks >= STUCK {
                return Err(format!("the loop of {} has made no turn for {ticks} s", other.name));
            }
        }
        Ok(())
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

    fn others(&self) -> MutexGuard<'_, Vec<Arc<LoopTurns>>> {
        // No code that holds the lock panics.
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log_other(name: &str, before: u32, seconds: u32) {
    match seconds {
        0 if before >= STUCK => info!(name, seconds = before, "A loop goes on"),
        STUCK => error!(
            name,
            seconds,
            "A loop is stuck, and /livez fails until it goes on: the kubelet restarts the pod"
        ),
        _ => {}
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
    async fn other_loop_that_makes_no_turn_is_stuck_until_it_ends() {
        let heartbeat = watched();
        let turns = heartbeat.of_loop("the mirror");
        for _ in 0..70 {
            seconds(1).await;
            heartbeat.beat();
            turns.beat();
        }
        assert_eq!(heartbeat.check(), Ok(()));
        for _ in 0..63 {
            seconds(1).await;
            heartbeat.beat();
        }
        assert!(
            heartbeat.check().unwrap_err().starts_with("the loop of the mirror has made no turn")
        );
        drop(turns);
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
