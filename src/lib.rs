//! Loadmaster: a Kubernetes scheduler that considers every node and can always say why.
//!
//! The scheduler itself is the deterministic [`engine`]; this package is everything around it:
//!
//! - [`cli`]: the command line.
//! - [`wire`]: Kubernetes objects in files, and back.
//! - [`trace`]: recorded clusters.
//! - [`simulate`]: the engine under virtual time, fed from either.
//! - [`report`]: what people read at the end.

pub mod cli;
pub mod config;
pub mod report;
pub mod simulate;
pub mod trace;
pub mod wire;

/// The code in the guide for plugin authors, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/plugins.md")]
struct PluginsGuide;
