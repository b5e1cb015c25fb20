//! The HTTPS endpoints of kube-scheduler: health, metrics, configuration, log level.
//!
//! [`bind`] takes the port and the certificate before anything else is started, [`serve`] answers.
//! `/metrics/resources`, `/metrics/slis`, `/statusz`, `/flagz` and `/debug/pprof` are not built yet
//! and answer 404, and `DELETE /metrics` 405. Nor is authentication: callers from other hosts only
//! get the paths that are allowed to everybody.

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

/// What the endpoints show and change.
#[derive(Debug, Clone)]
pub struct App {
    /// Shown at `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Shown at `/livez`, `/readyz` and `/healthz`.
    pub health: Arc<Health>,
    /// The configuration in effect, shown at `/configz`.
    pub configz: Value,
    /// Changed by `PUT /debug/flags/v`; none where `enableProfiling` is off.
    pub verbosity: Option<Verbosity>,
}

#[cfg(test)]
mod tests;
