//! Loadmaster: a Kubernetes scheduler that considers every node and can always say why.
//!
//! The scheduler itself is the deterministic [`engine`]; this package is everything around it:
//!
//! - [`cli`]: the command line; [`config`]: `KubeSchedulerConfiguration`.
//! - [`wire`]: Kubernetes objects in files, and back; [`dump`]: the objects of a cluster in a file.
//! - [`runtime`]: the wiring of the daemon; [`scheduling_loop`]: the thread that owns the engine.
//! - [`informer`]: watches of the API server; [`feed`]: other sources of the objects that plugins
//!   read;
//!   [`api_client`]: requests to the API server; [`extender`]: scheduler extenders over HTTP.
//! - [`http`]: the HTTPS endpoints; [`metrics`]: Prometheus metrics; [`logs`]: log formats.
//! - [`traces`]: a trace of each pod for a collector of OpenTelemetry.
//! - [`parallelizer`]: the threads of a pass over many nodes.
//! - [`recorder`]: recordings of what enters and leaves the engine.
//! - [`supercluster`]: the agent of a cluster, and the scheduler over many.
//! - [`debugger`]: compares the cache with the API server and dumps it on SIGUSR2.
//! - [`observer`]: updates metrics and health; [`plugin_watchdog`]: detects faulty plugins;
//!   [`supervision`]: notices tasks that panic.
//! - [`what_if`]: what a change of a cluster does to its pods.
//!
//! Plugin authors register their plugins and call [`run_with`], or [`run_with_pipelines`] for those
//! of many clusters.

pub mod api_client;
pub mod cli;
pub mod clock;
pub mod config;
pub mod debugger;
pub mod dump;
pub mod extender;
pub mod feed;
pub mod http;
pub mod informer;
pub mod logs;
pub mod metrics;
pub mod observer;
pub mod parallelizer;
pub mod plugin_watchdog;
pub mod recorder;
pub mod runtime;
pub mod scheduling_loop;
pub mod supercluster;
pub mod supervision;
pub mod traces;
pub mod what_if;
pub mod wire;

use std::process::ExitCode;

use ::supercluster::registry::PipelineRegistry;
use framework::Registry;

/// Runs the `loadmaster` command with the in-tree plugins, those in `registry`, and those of
/// [`scheduler_plugins`], [`rules`] and [`reservation`], whose names plugins in `registry` may
/// take.
pub fn run_with(registry: Registry) -> ExitCode {
    run_with_pipelines(registry, &PipelineRegistry::new())
}

/// Runs the `loadmaster` command like [`run_with`], with these plugins of the pipelines of many
/// clusters.
pub fn run_with_pipelines(registry: Registry, pipelines: &PipelineRegistry) -> ExitCode {
    let mut all = plugins::registry();
    match all.merge(registry) {
        Ok(()) => {
            scheduler_plugins::add_to(&mut all);
            rules::add_to(&mut all);
            reservation::add_to(&mut all);
            cli::run(all, pipelines)
        }
        Err(error) => {
            eprintln!("error: {error}: choose another name for the plugin");
            ExitCode::FAILURE
        }
    }
}

/// The code in the guide for plugin authors, compiled and run.
#[cfg(doctest)]
mod plugins_guide {
    #[doc = include_str!("../docs/plugins.md")]
    struct FirstPlugin;

    #[doc = include_str!("../docs/plugins/nodes.md")]
    struct Nodes;

    #[doc = include_str!("../docs/plugins/facts.md")]
    struct Facts;

    #[doc = include_str!("../docs/plugins/binding.md")]
    struct Binding;

    #[doc = include_str!("../docs/plugins/clusters.md")]
    struct Clusters;
}
