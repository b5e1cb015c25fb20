//! Log lines of failures that may repeat for hours.

use std::collections::BTreeMap;
use std::time::Duration;

use control::FailedCall;
use framework::{PodKey, Time};
use tracing::warn;

/// Number of failures of one kind that get a line of their own within [`WINDOW`].
const LINES: u64 = 10;
/// Time in which failures of one kind are counted together.
const WINDOW: Duration = Duration::from_secs(10);

/// Logs failures: the first ones of an action in a namespace, and then a line every ten seconds
/// with the number of the others. A webhook that is down for hours would otherwise write a line for
/// each pod and attempt.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    windows: BTreeMap<(&'static str, String), Window>,
    /// When the first window ends; not before.
    next_end: Option<Time>,
}

/// The failures of one action on the objects of one namespace.
#[derive(Debug)]
struct Window {
    ends_at: Time,
    lines: u64,
    /// Number of failures without a line, and object and error of the last one.
    others: u64,
    last: (String, String),
}

impl FailureLog {
    /// Logs a failed API call.
    pub(crate) fn log_call(&mut self, call: &FailedCall, now: Time) {
        let FailedCall { action, object, error } = call;
        if self.admits(action, object, error, now) {
            warn!(object, err = error, "{action} failed");
        }
    }

    /// Logs an attempt that ended with an error.
    pub(super) fn log_attempt(&mut self, pod: &PodKey, err: &str, now: Time) {
        if self.admits("scheduling", &pod.to_string(), err, now) {
            warn!(%pod, err, "Error scheduling pod; retrying");
        }
    }

    /// Returns whether a failure gets its own line, and counts it otherwise. The object is written
    /// as `namespace/name`.
    fn admits(&mut self, action: &'static str, object: &str, err: &str, now: Time) -> bool {
        self.end_windows(now);
        let namespace = object.rsplit_once('/').map_or("", |(namespace, _)| namespace);
        let window = self.windows.entry((action, namespace.to_owned()));
        let window = window.or_insert_with(|| Window {
            ends_at: now + WINDOW,
            lines: 0,
            others: 0,
            last: Default::default(),
        });
        let end = window.ends_at;
        self.next_end = Some(self.next_end.map_or(end, |next| next.min(end)));
        if window.lines < LINES {
            window.lines += 1;
            return true;
        }
        window.others += 1;
        window.last = (object.to_owned(), err.to_owned());
        false
    }

    /// Logs the numbers of failures whose time has ended. The kinds that go on get no further lines
    /// of their own.
    pub(crate) fn end_windows(&mut self, now: Time) {
        if self.next_end.is_none_or(|end| now < end) {
            return;
        }
        self.windows.retain(|(action, _), window| {
            if now < window.ends_at {
                return true;
            }
            let others = std::mem::take(&mut window.others);
            if others > 0 {
                let (object, err) = std::mem::take(&mut window.last);
                warn!(object, err, others, "{action} failed, like others in the last ten seconds");
            }
            window.ends_at = now + WINDOW;
            others > 0
        });
        self.next_end = self.windows.values().map(|window| window.ends_at).min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::captured;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// Adds failures of pods of a namespace.
    fn fail(log: &mut FailureLog, namespace: &str, number: u64, now: Time) {
        for pod in 0..number {
            let object = format!("{namespace}/p{pod}");
            let error = "the webhook is down".to_owned();
            log.log_call(&FailedCall { action: "binding", object, error }, now);
        }
    }

    #[test]
    fn failures_of_hours_take_one_line_in_ten_seconds() {
        let mut log = FailureLog::default();
        let text = captured(|| {
            for second in 0..3600 {
                fail(&mut log, "bad", 128, at(second));
            }
        });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 10 + 359, "{text}");
        assert!(
            lines[9].ends_with("\"binding failed\" err=\"the webhook is down\" object=\"bad/p9\"")
        );
        assert!(lines[10].ends_with(
            "\"binding failed, like others in the last ten seconds\" err=\"the webhook is down\" \
             object=\"bad/p127\" others=1270"
        ));
        assert!(lines[11].ends_with("others=1280"), "{}", lines[11]);
    }

    #[test]
    fn few_failures_have_a_line_each_and_trouble_elsewhere_hides_none() {
        let mut log = FailureLog::default();
        let text = captured(|| {
            fail(&mut log, "bad", 1000, at(0));
            fail(&mut log, "good", 10, at(1));
            log.log_attempt(&PodKey::new("bad", "p"), "an extender is down", at(1));
        });
        assert_eq!(text.matches("good/").count(), 10, "{text}");
        let attempt =
            "\"Error scheduling pod; retrying\" err=\"an extender is down\" pod=\"bad/p\"";
        assert!(text.contains(attempt), "{text}");
    }

    #[test]
    fn last_failures_are_counted_although_none_follow_and_then_all_get_lines_again() {
        let mut log = FailureLog::default();
        let text = captured(|| {
            fail(&mut log, "bad", 15, at(0));
            log.end_windows(at(9));
        });
        assert_eq!(text.lines().count(), 10, "{text}");
        let text = captured(|| log.end_windows(at(10)));
        assert!(text.trim_end().ends_with("others=5"), "{text}");
        assert_eq!(captured(|| log.end_windows(at(20))), "");
        assert_eq!((log.windows.len(), log.next_end), (0, None), "nothing is kept");
        let text = captured(|| fail(&mut log, "bad", 3, at(21)));
        assert_eq!(text.lines().count(), 3, "{text}");
    }
}
