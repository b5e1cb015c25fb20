//! The HTTPS endpoints of kube-scheduler: health, metrics, configuration, flags, log level.
//!
//! [`bind`] binds the port and loads the certificate before the daemon starts anything else.
//! [`serve`] then serves requests to callers that [`Access`] lets through.

mod acceptor;
mod access;
mod authentication;
mod authorization;
mod connection;
mod explain;
mod files;
mod flagz;
mod health;
mod profiling;
mod resources;
mod review_cache;
mod reviews;
mod router;
mod serving;
mod statusz;
#[cfg(test)]
mod testing;
mod tls;
mod what_if;
mod zpages;

use std::sync::Arc;

use axum::Router;
use serde_json::Value;

pub use self::explain::{ExplainPod, Explainer};
pub(crate) use self::explain::{LIST, MAX_LIST};
pub use access::{Access, AccessError};
pub use authentication::{
    AuthenticationOptions, PROXIED_AUTHORIZATION, RequestHeaderNames, TrustError,
};
pub use authorization::AuthorizationOptions;
pub use files::ReadError;
pub use flagz::Flagz;
pub use health::Health;
pub use serving::{Listener, Serving, ServingError, bind, serve};
pub use statusz::Started;
pub use tls::{
    Certificate, CipherSuite, Curve, KeyPairFiles, NamedCertificate, Tls, TlsError, TlsVersion,
    UnknownTlsVersion,
};

use crate::logs::Verbosity;
use crate::metrics::Metrics;
use crate::scheduling_loop::EventSender;

/// The state behind the endpoints.
#[derive(Debug, Clone)]
pub struct App {
    /// Served at `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Served at `/livez`, `/readyz` and `/healthz`.
    pub health: Arc<Health>,
    /// The configuration in effect, served at `/configz` without its secrets.
    pub configz: Value,
    /// The level that is followed and what chose it, served at `/configz` beside the configuration.
    pub level: Value,
    /// The flags, served at `/flagz`; `None` if the gate ComponentFlagz is off.
    pub flagz: Option<Flagz>,
    /// The start of the process, for `/statusz`; `None` if the gate ComponentStatusz is off.
    pub statusz: Option<Started>,
    /// The scheduling loop, whose cache `/metrics/resources` shows; `None` in roles without one.
    pub events: Option<EventSender>,
    /// Answers `/explain/`, in roles with a scheduling loop.
    pub explainer: Explainer,
    /// Changed by `PUT /debug/flags/v`; `None` if `enableProfiling` is off, and then there is no
    /// `/debug/pprof/` either.
    pub verbosity: Option<Verbosity>,
    /// Further routes of a role, behind the same authentication and authorization.
    pub routes: Router,
}

#[cfg(test)]
mod tests;
