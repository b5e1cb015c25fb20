//! Random input for everything that reads text or JSON from outside: it must neither panic nor
//! hang, and what it returns must not be larger than the input allows.
//!
//! Each target has a corpus of inputs, which are read as they are and with random edits. An input
//! that once failed stays in the corpus. `PROPTEST_CASES` is the number of edited inputs per
//! target. The targets of HTTP are in `src/http/tests/fuzz.rs`, beside the private parts that they
//! need.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod runner;
mod targets;
