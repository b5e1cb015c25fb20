//! Tests of the whole queue.

mod answers;
mod harness;
mod order_by_quota;
mod transitions;

pub(crate) use self::harness::{REPORTS, profiles, profiles_at};
