//! Loadmaster: a Kubernetes scheduler that considers every node and can always say why.
//!
//! The scheduler itself is the deterministic [`engine`]; this package is everything around it:
//!
//! - [`cli`]: the command line; [`config`]: `KubeSchedulerConfiguration`.
//! - [`wire`]: Kubernetes objects in files, and back.
//! - [`drive`]: the engine against an API server; [`extender`]: extenders over HTTP.
//! - [`watchdog`]: which plugins misbehaved.
//!
//! Whoever writes plugins registers them and hands over to [`run_with`].

pub mod cli;
pub mod config;
pub mod drive;
pub mod extender;
pub mod http;
pub mod instruments;
pub mod logs;
pub mod metrics;
pub mod runtime;
pub mod watchdog;
pub mod wire;

use std::process::ExitCode;

use framework::Registry;

/// Runs the `loadmaster` command with the in-tree plugins and those in `registry`.
pub fn run_with(registry: Registry) -> ExitCode {
    let mut all = plugins::registry();
    match all.merge(registry) {
        Ok(()) => cli::run(all),
        Err(error) => {
            eprintln!("error: {error}: choose another name for the plugin");
            ExitCode::FAILURE
        }
    }
}

/// The code in the guide for plugin authors, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/plugins.md")]
struct PluginsGuide;
