//! A Kubernetes API in memory: an API server for schedulers, controllers and kubectl, with small
//! controllers and kubelets.
//!
//! [`store::Store`] is a value without I/O: it takes requests with the time, and returns answers
//! and watch events. The feature `http` adds an HTTPS server.

mod admin_access;
pub mod api;
pub mod authentication;
pub mod authorization;
mod claim_status;
pub mod controllers;
mod conversion;
mod custom;
pub mod defaults;
pub mod devices;
mod discovery;
mod events;
pub mod faults;
mod flow_control;
#[cfg(feature = "http")]
pub mod http;
mod informer;
pub mod kubelet;
mod metadata;
mod object;
mod openapi;
pub mod patch;
pub mod protobuf;
#[cfg(test)]
mod recorded;
pub mod resources;
mod route;
mod selector;
pub mod status;
mod storage_protection;
pub mod store;
mod store_only;
mod subresources;
pub mod table;
mod unknown_fields;
pub mod validate;
