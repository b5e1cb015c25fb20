//! Weeks of virtual time with churn, after which nothing is left of what came and went.
//!
//! Pods, nodes, namespaces, owners, Services, budgets, claims and volumes come and go, each with
//! names and labels that no other object has, and so do the events about them. Scheduler and
//! informers run under a virtual clock against the store of the sandbox. After each round the
//! [census] of every structure has to be the same as after the round before.
//!
//! ```text
//! cargo test --test soak                                      # a few days
//! SOAK_WEEKS=4 cargo test --test soak                         # weeks
//! ```

#![cfg(feature = "sandbox")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod census;
mod churn;
mod world;

use std::time::Duration;

use self::churn::Churn;
use self::world::World;

/// Number of batches per round.
const BATCHES: u32 = 6;
/// Pause between two batches of a round. A round takes about a day.
const PAUSE: Duration = Duration::from_hours(4);
/// Time after a round in which the last requests end, and the versions that they gave pods are
/// forgotten.
const REST: Duration = Duration::from_mins(2);
/// Rounds in which buffers and caches with a limit reach it.
const WARM_UP: u32 = 1;
const DAY: Duration = Duration::from_hours(24);

#[test]
fn nothing_is_left_of_objects_that_came_and_went() {
    let weeks: u32 = std::env::var("SOAK_WEEKS").map_or(0, |weeks| weeks.parse().unwrap());
    let (mut world, mut churn) = (World::new(), Churn::default());
    let mut before = None;
    for round in 0.. {
        for _ in 0..BATCHES {
            churn.batch(&mut world);
            world.pass(PAUSE);
        }
        churn.end(&mut world);
        world.pass(REST);
        world.assert_empty();
        let sizes = world.census();
        if round < WARM_UP {
            continue;
        }
        if let Some(before) = &before {
            census::assert_same(before, &sizes);
        }
        before = Some(sizes);
        let is_over = world.elapsed() >= DAY * 7 * weeks;
        if round > WARM_UP && is_over {
            break;
        }
    }
    let days = world.elapsed().as_secs() / DAY.as_secs();
    eprintln!("{days} days, {} pods, {} binds, {:?}", churn.pods(), world.binds(), world.replies());
    before.iter().flatten().filter(|(_, size)| **size > 0).for_each(|line| eprintln!("{line:?}"));
}
