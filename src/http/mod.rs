//! The HTTPS endpoints of kube-scheduler: health, metrics, configuration, log level.
//!
//! [`bind`] binds the port and loads the certificate before the daemon starts anything else. [`serve`]
//! then serves requests. `/metrics/resources`, `/statusz`, `/flagz` and `/debug/pprof` do
//! not exist (404). There is no authentication: clients on
//! other hosts can only access the paths of `--authorization-always-allow-paths`.

mod access;
mod health;
mod router;
mod serving;
mod tls;

use std::sync::Arc;

use serde_json::Value;

pub use health::Health;
pub use serving::{Listener, Serving, ServingError, bind, serve};
pub use tls::{Certificate, TlsError, TlsVersion, UnknownTlsVersion};

use crate::logs::Verbosity;
use crate::metrics::Metrics;

/// The state behind the endpoints.
#[derive(Debug, Clone)]
pub struct App {
    /// Served at `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Served at `/livez`, `/readyz` and `/healthz`.
    pub health: Arc<Health>,
    /// The configuration with defaults, served at `/configz`.
    pub configz: Value,
    /// Changed by `PUT /debug/flags/v`; `None` if `enableProfiling` is off.
    pub verbosity: Option<Verbosity>,
}

#[cfg(test)]
mod tests;
