//! What Loadmaster says to an API server and to extenders, as state machines without I/O.
//!
//! Inputs and the time go in, outputs come out; whoever drives a machine opens the connections, sends the
//! requests and tells it what came back. The daemon does so over HTTP, the fault simulation against an
//! in-memory store under a virtual clock.
//!
//! - [`session`]: lists and watches one kind, and tells what changed.
//! - [`executor`]: carries out the effects of the engine, in order, with retries that are safe.
//! - [`recorder`]: writes events.
//! - [`extender`]: what is said to extenders.
//! - [`scheduler`]: the engine with executor and recorder: everything of the daemon but I/O.
//! - [`backoff`]: how long to wait before the next try.

pub mod backoff;
pub mod executor;
pub mod extender;
mod failure;
mod gate;
pub mod recorder;
mod request;
pub mod scheduler;
pub mod session;

pub use request::{Method, Recipient, Reply, Request, RequestId, Response};
