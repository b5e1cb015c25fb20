//! The budget of the search for other orders, which all groups share.

use std::time::Duration;

use framework::Time;

/// How long the scheduler searches for an order in which the members of a group fit, if they do not
/// in the order of the queue. A step is a decision about one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSearch {
    /// Maximum number of steps of one attempt; 0 for the order of the queue alone.
    pub steps_per_attempt: u32,
    /// Maximum number of steps that all groups can have saved up.
    pub steps: u32,
    /// Number of steps that all groups get in a second.
    pub steps_per_second: u32,
}

impl Default for GroupSearch {
    /// At 20 us a step one attempt takes 20 ms more at most, and all groups together 1 % of the
    /// time.
    fn default() -> Self {
        Self { steps_per_attempt: 1024, steps: 4096, steps_per_second: 512 }
    }
}

/// The steps that all groups have left.
#[derive(Debug)]
pub(crate) struct SearchBudget {
    limits: GroupSearch,
    left: u32,
    /// Until when steps were added; `None` before the first use.
    filled: Option<Time>,
}

/// The steps of one attempt.
#[derive(Debug)]
pub(super) struct Steps {
    left: u32,
    used: u32,
    /// Whether a step was asked for that is not left.
    is_spent: bool,
    /// Whether other groups have used steps that the attempt could have.
    is_short: bool,
}

impl SearchBudget {
    pub(crate) const fn new(limits: GroupSearch) -> Self {
        Self { limits, left: limits.steps, filled: None }
    }

    /// Whether any other order is tried at all.
    pub(super) const fn is_open(&self) -> bool {
        self.limits.steps_per_attempt > 0
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, now: Time) -> Steps {
        self.fill(now);
        let wanted = self.limits.steps_per_attempt;
        let left = self.left.min(wanted);
        Steps { left, used: 0, is_spent: false, is_short: left < wanted }
    }

    /// Ends an attempt.
    pub(super) const fn end(&mut self, steps: &Steps) {
        self.left = self.left.saturating_sub(steps.used);
    }

    /// Adds the steps of the time since the last call. Less than a step is left for the next one.
    fn fill(&mut self, now: Time) {
        let filled = *self.filled.get_or_insert(now);
        let passed = now.since(filled);
        let per_second = u128::from(self.limits.steps_per_second);
        let added = passed.as_millis() * per_second / 1000;
        if added == 0 {
            return;
        }
        let added = u32::try_from(added).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(added).min(self.limits.steps);
        self.filled = Some(if self.left == self.limits.steps {
            now
        } else {
            let took = u128::from(added) * 1000 / per_second;
            filled + Duration::from_millis(u64::try_from(took).unwrap_or(u64::MAX))
        });
    }
}

impl Steps {
    /// Returns the steps of a pass without a limit.
    pub(super) const fn unlimited() -> Self {
        Self { left: u32::MAX, used: 0, is_spent: false, is_short: false }
    }

    /// Takes a step. Returns false if none is left.
    pub(super) const fn take(&mut self) -> bool {
        if self.left == 0 {
            self.is_spent = true;
            return false;
        }
        self.left -= 1;
        self.used += 1;
        true
    }

    /// Whether the search ended because no step was left.
    pub(super) const fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// Whether more steps are there later.
    pub(super) const fn is_short(&self) -> bool {
        self.is_short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> SearchBudget {
        SearchBudget::new(GroupSearch { steps_per_attempt: 3, steps: 4, steps_per_second: 2 })
    }

    fn steps_at(budget: &mut SearchBudget, millis: u64) -> u32 {
        let mut steps = budget.begin(Time::from_secs(1) + Duration::from_millis(millis));
        while steps.take() {}
        budget.end(&steps);
        steps.used
    }

    #[test]
    fn groups_share_steps_that_come_back_with_time() {
        let mut budget = budget();
        assert_eq!(steps_at(&mut budget, 0), 3, "the steps of one attempt");
        assert_eq!(steps_at(&mut budget, 0), 1, "what is left for all");
        assert_eq!(steps_at(&mut budget, 499), 0);
        assert_eq!(steps_at(&mut budget, 600), 1);
        assert_eq!(steps_at(&mut budget, 1000), 1, "the rest of a step is kept");
        assert_eq!(steps_at(&mut budget, 60_000), 3);
        assert_eq!(steps_at(&mut budget, 60_000), 1, "no more than four are saved up");
    }

    #[test]
    fn attempt_that_got_fewer_steps_than_it_may_have_is_short() {
        let mut budget = budget();
        let now = Time::from_secs(1);
        let mut steps = budget.begin(now);
        assert!(!steps.is_short() && steps.take() && !steps.is_spent());
        budget.end(&steps);
        steps_at(&mut budget, 0);
        let mut steps = budget.begin(now);
        assert!(steps.is_short() && !steps.take() && steps.is_spent());
    }
}
