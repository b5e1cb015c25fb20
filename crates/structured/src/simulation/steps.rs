//! The steps that searches may take, against sums.

use std::time::Duration;

use fastrand::Rng;
use framework::Time;

use super::random::pick;
use crate::steps::StepsLeft;
use crate::{Budget, LongSearches};

/// The most steps that are left to all searches together.
const MOST: u64 = 1_000_000;
/// The steps of a search that count for none.
const FREE: u64 = 250;
/// The steps to compile a byte of a selector.
const PER_BYTE: u64 = 10;
/// The cost of evaluations that counts as one step.
const COST_PER_STEP: u64 = 8;

/// Takes steps and lets time pass. A step comes back in each microsecond, of which those since the
/// latest step that came back count.
pub(super) fn history(rng: &mut Rng) -> Result<(), String> {
    let mut long = LongSearches::default();
    let (mut left, mut now, mut open) = (MOST, Time::ZERO, 0);
    for _ in 0..20 {
        match rng.usize(..4) {
            0 => {
                let most = *pick(rng, &[800, 10_000, 100_000_000, 3_000_000_000]);
                let nanos = rng.u64(..most);
                now = now + Duration::from_nanos(nanos);
                long.refill(now);
                open += nanos;
                if open >= 1_000 {
                    left = (left + open / 1_000).min(MOST);
                    open = 0;
                }
            }
            1 => {
                let most = *pick(rng, &[30, 60_000]);
                let bytes = rng.usize(..most);
                let cost = PER_BYTE * bytes as u64;
                if long.take_text(bytes) != (cost <= left) {
                    return Err(format!("{bytes} bytes are compiled while {left} steps are left"));
                }
                left -= if cost <= left { cost } else { 0 };
            }
            _ => {
                let most = *pick(rng, &[300, 400_000]);
                let steps = rng.u64(..most);
                long.take(steps);
                left = left.saturating_sub(steps.saturating_sub(FREE));
            }
        }
        let limits = [Budget(FREE), Budget::UNLIMITED].map(|budget| long.limit(budget));
        let expected = [Budget(FREE), Budget(left + FREE)];
        if limits != expected {
            return Err(format!("searches may take {limits:?} steps instead of {expected:?}"));
        }
    }
    costs(rng)
}

/// Takes the steps of evaluations, and others.
fn costs(rng: &mut Rng) -> Result<(), String> {
    let budget = Budget(rng.u64(..60));
    let mut own = StepsLeft::of(budget);
    let (mut steps, mut cost) = (0, 0);
    for _ in 0..10 {
        let is_left = if rng.bool() {
            let more = rng.u64(..40);
            cost += more;
            own.take_cost(more).is_ok()
        } else {
            steps += 1;
            own.take(1).is_ok()
        };
        let taken = steps + cost / COST_PER_STEP;
        if (is_left, own.taken_of(budget)) != (taken <= budget.0, taken.min(budget.0)) {
            return Err(format!("{taken} steps of {budget:?} are {own:?}"));
        }
        if !is_left {
            break;
        }
    }
    Ok(())
}
