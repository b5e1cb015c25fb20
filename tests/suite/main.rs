//! The integration tests of Loadmaster, in one binary.

#[path = "../cli/mod.rs"]
mod cli;
#[cfg(feature = "sandbox")]
#[path = "../e2e/mod.rs"]
mod e2e;
#[path = "../golden/mod.rs"]
mod golden;
#[cfg(feature = "sandbox")]
#[path = "../leadership/mod.rs"]
mod leadership;
#[path = "../manifests/mod.rs"]
mod manifests;
#[path = "../observability/mod.rs"]
mod observability;
#[path = "../placements/mod.rs"]
mod placements;
#[cfg(feature = "sandbox")]
#[path = "../radius/mod.rs"]
mod radius;
#[path = "../rankings/mod.rs"]
mod rankings;
#[path = "../release/mod.rs"]
mod release;
#[path = "../victims/mod.rs"]
mod victims;
#[cfg(feature = "sandbox")]
#[path = "../wake_ups/mod.rs"]
mod wake_ups;
#[cfg(feature = "sandbox")]
#[path = "../waves/mod.rs"]
mod waves;

#[cfg(feature = "sandbox")]
mod encodings;
mod golden_corpus;
mod plugins;
#[cfg(feature = "sandbox")]
mod replica;
