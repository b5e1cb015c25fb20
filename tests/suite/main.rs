//! The integration tests of Loadmaster, in one binary.

#[path = "../cli/mod.rs"]
mod cli;
#[path = "../golden/mod.rs"]
mod golden;

mod golden_corpus;
mod plugins;
