//! Tests of the whole queue: single transitions, and random histories against a naive model.

mod classes;
mod harness;
mod model_based;
mod transitions;

pub(crate) use self::harness::profiles;
