//! The HTTPS endpoints of kube-scheduler: health, metrics, configuration, log level.
//!
//! [`bind`] opens the port and loads the certificate before anything else starts; [`serve`] answers
//! requests. `/metrics/resources`, `/metrics/slis`, `/statusz`, `/flagz` and `/debug/pprof` are not
//! built and answer 404; `DELETE /metrics` answers 405. Callers are not authenticated, so callers
//! from other hosts may read only the allowed paths.

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

/// The state that the endpoints show and change.
#[derive(Debug, Clone)]
pub struct App {
    /// Metrics, for `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Health, for `/livez`, `/readyz` and `/healthz`.
    pub health: Arc<Health>,
    /// The configuration in effect, for `/configz`.
    pub configz: Value,
    /// Verbosity, for `PUT /debug/flags/v`; none if `enableProfiling` is off.
    pub verbosity: Option<Verbosity>,
}

#[cfg(test)]
mod tests;
