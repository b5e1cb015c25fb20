//! scheduler_perf, the benchmark of kube-scheduler, for any scheduler.
//!
//! - [`workload`]: the files (`performance-config.yaml` and templates), with parameters resolved.
//! - [`runner`]: runs a workload against an API server, with a scheduler as a child process.
//! - [`throughput`]: pods per second, as scheduler_perf samples them.
//! - [`process`]: child processes, with their CPU time and memory.
//!
//! The opcodes are those of
//! <https://github.com/kubernetes/kubernetes/tree/master/test/integration/scheduler_perf>.

mod api;
mod devices;
mod objects;
mod pods;
pub mod process;
pub mod runner;
pub mod throughput;
pub mod workload;
