//! Authorization by the address of the client: clients on this host may access all paths, others those
//! of `--authorization-always-allow-paths`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The paths that every client may access (`--authorization-always-allow-paths`).
#[derive(Debug, Clone)]
pub(super) struct AlwaysAllow(Arc<[String]>);

impl AlwaysAllow {
    pub(super) fn new(paths: &[String]) -> Self {
        Self(paths.iter().map(|path| path.trim_start_matches('/').to_owned()).collect())
    }

    /// Returns whether the path is allowed. An entry that ends with `*` allows all paths with that prefix.
    pub(super) fn allows(&self, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        self.0.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == allowed,
        })
    }
}

/// Passes a request on, or rejects it like an API server rejects an anonymous user.
pub(super) async fn authorize(
    State(always_allow): State<AlwaysAllow>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if client.ip().to_canonical().is_loopback() || always_allow.allows(path) {
        next.run(request).await
    } else {
        forbidden(&request.method().as_str().to_lowercase(), path)
    }
}

const NOSNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
const JSON: (HeaderName, &str) = (header::CONTENT_TYPE, "application/json");

fn forbidden(verb: &str, path: &str) -> Response {
    let message = format!("forbidden: User \"system:anonymous\" cannot {verb} path {path:?}");
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Forbidden",
        "details": {},
        "code": 403,
    });
    (StatusCode::FORBIDDEN, [NOSNIFF, JSON], format!("{status}\n")).into_response()
}
