//! How long a search for devices may take.

use framework::Time;

/// Maximum number of steps of the search for devices on one node. A step is one device considered
/// for one request, or the evaluation of selectors at a cost of eight units of CEL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Budget(pub u64);

impl Budget {
    /// Steps that stand for one second of the time limit of kube-scheduler.
    pub const STEPS_PER_SECOND: u64 = 20_000;
    /// The budget if there is no time limit, so that a search ends in any case.
    pub const UNLIMITED: Self = Self(50_000_000);

    /// Returns the budget for a time limit in milliseconds; 0 means none.
    pub const fn of_millis(millis: u64) -> Self {
        match millis {
            0 => Self::UNLIMITED,
            millis => Self(millis.saturating_mul(Self::STEPS_PER_SECOND).div_ceil(1000)),
        }
    }
}

/// The cost of evaluations, in the units of CEL, that counts as one step.
const COST_PER_STEP: u64 = 8;

/// The steps that are left to a search.
#[derive(Debug)]
pub(crate) struct StepsLeft {
    left: u64,
    /// The cost that is not a whole step yet.
    cost: u64,
}

/// Too many steps were taken.
#[derive(Debug)]
pub(crate) struct OutOfSteps;

impl StepsLeft {
    pub(crate) const fn of(budget: Budget) -> Self {
        Self { left: budget.0, cost: 0 }
    }

    /// Takes some steps.
    pub(crate) fn take(&mut self, steps: u64) -> Result<(), OutOfSteps> {
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or(0);
        left.map_or(Err(OutOfSteps), |_| Ok(()))
    }

    /// Takes the steps for evaluations of this cost.
    pub(crate) fn take_cost(&mut self, cost: u64) -> Result<(), OutOfSteps> {
        self.cost = self.cost.saturating_add(cost);
        let steps = self.cost / COST_PER_STEP;
        self.cost %= COST_PER_STEP;
        self.take(steps)
    }

    /// Returns the steps that were taken of a budget.
    pub(crate) const fn taken_of(&self, budget: Budget) -> u64 {
        budget.0.saturating_sub(self.left)
    }
}

/// How long a search may take: its own budget, and what is left for long searches.
#[derive(Debug)]
pub struct Limits<'a> {
    /// The steps that the search may take at most.
    pub budget: Budget,
    /// The steps that all long searches share.
    pub long: &'a mut LongSearches,
}

/// The steps that searches may take beyond [`FREE`](Self::FREE) each. All pods share them, and they
/// come back with time, so that claims that take long on every node, in every attempt, leave most
/// of the time to the pods of others. kube-scheduler has no such limit.
#[derive(Debug, Clone)]
pub struct LongSearches {
    left: u64,
    /// When `left` was true.
    at: Time,
}

impl Default for LongSearches {
    fn default() -> Self {
        Self { left: Self::MOST, at: Time::ZERO }
    }
}

impl LongSearches {
    /// The steps of a search that count for nobody.
    pub const FREE: u64 = 250;
    /// The most steps that can be left: five searches that take as long as kube-scheduler allows by
    /// default.
    const MOST: u64 = 50 * Budget::STEPS_PER_SECOND;
    /// The steps to compile a byte of a selector.
    const PER_BYTE: u64 = 10;
    /// The steps that come back in a second.
    const PER_SECOND: u64 = 1_000_000;

    /// Gives back what is due at a time.
    pub fn refill(&mut self, now: Time) {
        let due = now.since(self.at).as_nanos() * u128::from(Self::PER_SECOND) / 1_000_000_000;
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        if due > 0 {
            *self = Self { left: self.left.saturating_add(due).min(Self::MOST), at: now };
        }
    }

    /// Returns the part of the budget that a search may take now.
    pub(crate) fn limit(&self, budget: Budget) -> Budget {
        budget.min(Budget(self.left + Self::FREE))
    }

    /// Takes the steps to compile a selector of this length in bytes, if so many are left.
    pub const fn take_text(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub((bytes as u64).saturating_mul(Self::PER_BYTE));
        if let Some(left) = left {
            self.left = left;
        }
        left.is_some()
    }

    /// Takes the steps of a search.
    pub(crate) const fn take(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps.saturating_sub(Self::FREE));
    }
}
