//! Tests of the whole queue.

mod classes;
mod harness;
mod transitions;

pub(crate) use self::harness::profiles;
