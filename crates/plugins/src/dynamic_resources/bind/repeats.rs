//! When a write is repeated whose answer was lost.

use std::time::Duration;

use framework::{Answer, Time};

/// Maximum number of requests of one write.
const MAX_REQUESTS: u32 = 8;
/// The pause before the first repeat. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The time after the first request of a write after which it is not repeated. Each request may
/// wait for its answer for more than a minute.
const LAST_REPEAT: Duration = Duration::from_mins(2);

/// The repeats of one write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeats {
    /// When the first request was sent.
    since: Time,
    count: u32,
}

impl Repeats {
    /// Returns the repeats of a write that is sent for the first time.
    pub(super) const fn none(now: Time) -> Self {
        Self { since: now, count: 0 }
    }

    /// Whether the write was repeated, so that an earlier request may have been carried out.
    pub(super) const fn has_any(self) -> bool {
        self.count > 0
    }

    /// Counts a repeat and returns when it is due; `None` if the write is not repeated after this
    /// answer.
    ///
    /// After a lost answer, a request that the server did not take is repeated, too: the outcome of
    /// the earlier one is known only when the server answers again.
    pub(super) fn after(&mut self, answer: &Answer, now: Time) -> Option<Time> {
        let is_open = match answer {
            Answer::Unknown(_) => true,
            Answer::Error(_) | Answer::Throttled(_) => self.has_any(),
            _ => false,
        };
        let at = now + FIRST_PAUSE * 2_u32.pow(self.count);
        if !is_open || self.count + 1 >= MAX_REQUESTS || at > self.since + LAST_REPEAT {
            return None;
        }
        self.count += 1;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_secs(1_000);

    fn lost() -> Answer {
        Answer::Unknown("lost".to_owned())
    }

    /// Returns the pauses in milliseconds before the repeats of a write that gets these answers,
    /// each after `wait`.
    fn pauses(answers: &[Answer], wait: Duration) -> Vec<u128> {
        let (mut repeats, mut now) = (Repeats::none(START), START);
        let mut pauses = Vec::new();
        for answer in answers {
            now = now + wait;
            let Some(at) = repeats.after(answer, now) else { break };
            pauses.push(at.since(now).as_millis());
            now = at;
        }
        pauses
    }

    #[test]
    fn pauses_double_and_end_after_eight_requests_or_two_minutes() {
        let all = [100, 200, 400, 800, 1_600, 3_200, 6_400];
        // How long each request waits for its answer, and the number of repeats.
        for (seconds, repeats) in [(0, 7), (15, 7), (16, 6), (30, 3), (75, 1), (121, 0)] {
            let found = pauses(&vec![lost(); 20], Duration::from_secs(seconds));
            assert_eq!(found, all[..repeats], "{seconds} seconds");
        }
    }

    #[test]
    fn request_that_the_server_did_not_take_is_repeated_after_a_lost_one_only() {
        let (not_sent, later) =
            (Answer::Error("refused".into()), Answer::Throttled("later".into()));
        let rows = [
            (vec![not_sent.clone(), lost()], 0),
            (vec![later.clone(), lost()], 0),
            (vec![lost(), not_sent.clone(), later, not_sent], 4),
            (vec![lost(), Answer::Conflict("newer".into()), lost()], 1),
            (vec![lost(), Answer::Gone("gone".into()), lost()], 1),
            (vec![lost(), Answer::Forbidden("no".into()), lost()], 1),
            (vec![lost(), Answer::ok(), lost()], 1),
        ];
        for (answers, repeats) in rows {
            assert_eq!(pauses(&answers, Duration::ZERO).len(), repeats, "{answers:?}");
        }
    }
}
