//! Rules in the engine, beside the in-tree plugins.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod forms;
mod waking;
mod world;
