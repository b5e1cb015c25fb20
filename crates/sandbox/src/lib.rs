//! A Kubernetes API in memory: enough of an API server for schedulers, controllers and kubectl,
//! with small controllers and kubelets beside it.
//!
//! [`store::Store`] is a value without I/O: requests in, answers and watch events out, time as an
//! argument. With the feature `http` it gets a face of HTTPS.

pub mod api;
pub mod authorization;
pub mod controllers;
mod custom;
pub mod defaults;
mod discovery;
mod events;
pub mod faults;
#[cfg(feature = "http")]
pub mod http;
mod informer;
mod known_fields;
pub mod kubelet;
mod metadata;
mod object;
mod openapi;
pub mod patch;
pub mod priority;
mod protobuf;
#[cfg(test)]
mod recorded;
pub mod resources;
mod route;
mod selector;
pub mod status;
mod storage_protection;
pub mod store;
mod subresources;
pub mod table;
pub mod validate;
