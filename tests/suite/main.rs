//! The integration tests of Loadmaster, in one binary.

#[path = "../cli/mod.rs"]
mod cli;
#[cfg(feature = "sandbox")]
#[path = "../e2e/mod.rs"]
mod e2e;
#[path = "../golden/mod.rs"]
mod golden;
#[path = "../manifests/mod.rs"]
mod manifests;
#[cfg(feature = "sandbox")]
#[path = "../wake_ups/mod.rs"]
mod wake_ups;

mod golden_corpus;
mod plugins;
