//! The protocols of an API client and of scheduler extenders, as state machines without I/O.
//!
//! A machine takes inputs together with the current time and returns outputs. Its driver opens the
//! connections, sends the requests and passes the replies back: the daemon over HTTP, the fault
//! simulation against an in-memory store under a virtual clock.
//!
//! - [`reflector`]: lists and watches one kind and reports what changed.
//! - [`api_dispatcher`]: turns effects of the engine into API calls, in order per object, with safe
//!   retries.
//! - [`event_recorder`]: writes events and their series.
//! - [`leader_election`]: competes for a Lease, so that one of several replicas acts.
//! - [`extender`]: the JSON messages of scheduler extenders.
//! - [`scheduler`]: the engine together with its API dispatcher and event recorder.
//! - [`backoff`]: delays between retries.
//! - [`TraceIds`]: which pods are traced.

pub mod api_dispatcher;
pub mod backoff;
pub mod event_recorder;
pub mod extender;
mod failed_call;
pub mod leader_election;
pub mod reflector;
mod request;
mod request_limiter;
pub mod scheduler;
mod takeover;
mod trace_ids;
mod window;

pub use failed_call::FailedCall;
pub use request::{
    Destination, Method, Reply, Request, RequestId, Response, Tried, collection_path, pod_path,
};
pub use request_limiter::TokenBucket;
pub use trace_ids::{TRACE_ID_ANNOTATION, TraceId, TraceIds};
