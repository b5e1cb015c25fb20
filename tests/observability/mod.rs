//! Alerts, dashboard and runbooks: they use only metrics, labels and values that exist, and agree
//! with each other.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod alerts;
mod dashboard;
mod metrics;
mod promql;
mod promtool;
mod runbooks;

use std::fs;
use std::path::{Path, PathBuf};

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn read(relative: &str) -> String {
    fs::read_to_string(path(relative)).unwrap()
}
