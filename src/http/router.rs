//! The routes of the endpoints.

use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use jiff::Timestamp;
use serde_json::json;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;
use tracing::{info, trace};

use super::access::Access;
use super::connection::Handling;
use super::health::Endpoint;
use super::{App, explain, profiling, resources, statusz, what_if};
use crate::config;
use crate::logs::Verbosity;
use crate::metrics;

/// Maximum size of the body of a request, in bytes.
const MAX_BODY: usize = 16 * 1024;
/// Maximum time between two parts of the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(32);

/// Creates the router of all endpoints, behind authentication and authorization.
pub(super) fn router(mut app: App, access: &Access) -> Router {
    app.configz = config::redacted(app.configz);
    let mut router = [Endpoint::Healthz, Endpoint::Livez, Endpoint::Readyz]
        .into_iter()
        .fold(Router::new(), with_health)
        .route("/metrics", get(show_metrics).delete(reset_metrics).layer(compressed()))
        .route("/metrics/slis", get(show_slis).delete(reset_slis).layer(compressed()))
        .route("/metrics/resources", get(resources::show).layer(compressed()))
        .route("/configz", get(show_configuration))
        .merge(std::mem::take(&mut app.routes).with_state(()));
    if app.events.is_some() {
        router = with_what_if(with_explanations(router));
    } else if app.explainer.has_role() {
        router = with_pods(router);
    }
    if let Some(flagz) = app.flagz.clone() {
        let show = async move |headers: HeaderMap| flagz.page().answer(&headers);
        router = router.route("/flagz", get(show));
    }
    if let Some(started) = app.statusz {
        let paths = paths(&app);
        let show = async move |headers: HeaderMap| {
            statusz::page(&started, Timestamp::now(), paths.clone()).answer(&headers)
        };
        router = router.route("/statusz", get(show));
    }
    if let Some(verbosity) = app.verbosity.clone() {
        let set = async move |level: String| set_verbosity(&verbosity, &level);
        router = router.route("/debug/flags/v", put(set).fallback(unsupported_method));
        router = profiling::with_profiling(router);
    }
    access
        .guard(router.fallback(not_found).layer(DefaultBodyLimit::max(MAX_BODY)))
        .layer(middleware::map_response(not_cached))
        .layer(middleware::from_fn(log_access))
        .layer(middleware::from_fn(keep_open))
        .layer(RequestBodyTimeoutLayer::new(BODY_TIMEOUT))
        .with_state(app)
}

/// Adds the explanations of pods.
fn with_pods(router: Router<App>) -> Router<App> {
    router.route("/explain/pods/{namespace}/{name}", get(explain::pod).layer(compressed()))
}

/// Adds the explanations of decisions.
fn with_explanations(router: Router<App>) -> Router<App> {
    with_pods(router)
        .route("/explain/groups/{namespace}/{name}", get(explain::group).layer(compressed()))
        .route("/explain/podgroups/{namespace}/{name}", get(explain::pod_group).layer(compressed()))
        .route("/explain/nodes", get(explain::nodes).layer(compressed()))
        .route("/explain/nodes/{name}", get(explain::node).layer(compressed()))
        .route("/explain/cluster", get(explain::cluster).layer(compressed()))
        .route("/explain/pods", get(explain::pods).layer(compressed()))
        .route("/explain/groups", get(explain::groups).layer(compressed()))
        .route("/explain/podgroups", get(explain::pod_groups).layer(compressed()))
        .route("/explain/quotas", get(explain::quotas).layer(compressed()))
        .route("/explain/names", get(explain::names).layer(compressed()))
        .route("/explain/decisions", get(explain::decisions).layer(compressed()))
}

/// Adds trials of changes, and moves that make room.
fn with_what_if(router: Router<App>) -> Router<App> {
    let own = Router::new()
        .route("/whatif/v1", post(what_if::ask).layer(compressed()))
        .route("/whatif/v1/room/pods/{namespace}/{name}", get(what_if::room).layer(compressed()))
        .route("/whatif/v1/room/largest/{most}", get(what_if::shapes).layer(compressed()))
        .route("/whatif/v1/emptynodes", get(what_if::empty_nodes).layer(compressed()))
        .route("/whatif/v1/openapi.json", get(what_if::openapi));
    router.merge(own.layer(DefaultBodyLimit::max(what_if::MAX_BODY)))
}

/// Compresses responses with gzip if the caller accepts it. A scrape has many similar lines, so
/// that the fastest level reduces it to a tenth.
fn compressed() -> CompressionLayer {
    CompressionLayer::new().quality(CompressionLevel::Fastest)
}

/// Returns the first parts of the paths that `/statusz` lists, sorted. Like kube-scheduler it
/// leaves out `/debug` and itself.
fn paths(app: &App) -> Vec<&'static str> {
    let flagz = app.flagz.is_some().then_some("/flagz");
    let configz = ["/configz"].into_iter().chain(flagz);
    configz.chain(["/healthz", "/livez", "/metrics", "/readyz"]).collect()
}

/// Adds a health endpoint and the paths of its checks.
fn with_health(router: Router<App>, endpoint: Endpoint) -> Router<App> {
    let all = move |State(app): State<App>, Query(query): Query<Vec<(String, String)>>| async move {
        let verbose = query.iter().any(|(key, _)| key == "verbose");
        let exclude = query.into_iter().filter(|(key, _)| key == "exclude");
        let exclude = exclude.map(|(_, check)| check).collect();
        let (status, text) = endpoint.report(&app.health, verbose, exclude);
        plain(status, text)
    };
    let one = move |State(app): State<App>, Path(check): Path<String>| async move {
        match endpoint.report_one(&app.health, &check) {
            Some((status, text)) => plain(status, text),
            None => not_found_text(),
        }
    };
    let path = format!("/{}", endpoint.name());
    router.route(&path, get(all)).route(&format!("{path}/{{check}}"), get(one))
}

async fn show_metrics(State(app): State<App>) -> Response {
    exposition(app.metrics.render())
}

async fn reset_metrics(State(app): State<App>) -> Response {
    app.metrics.reset();
    metrics_reset()
}

async fn show_slis(State(app): State<App>) -> Response {
    exposition(app.health.slis().render())
}

async fn reset_slis(State(app): State<App>) -> Response {
    app.health.slis().reset();
    metrics_reset()
}

fn exposition(text: String) -> Response {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

fn metrics_reset() -> Response {
    plain(StatusCode::OK, "metrics reset\n".to_owned())
}

async fn show_configuration(State(app): State<App>) -> Response {
    let text = json!({"componentconfig": app.configz, "level": app.level}).to_string();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Sets the verbosity to a number, like klog.
fn set_verbosity(verbosity: &Verbosity, text: &str) -> Response {
    match text.parse::<u8>() {
        Ok(level) => {
            verbosity.set(level);
            info!(verbosity = level, "Changed the log level");
            let text = format!("successfully set klog.logging.verbosity to {level}");
            plain(StatusCode::OK, text)
        }
        Err(_) => {
            let text = format!(
                "failed set klog.logging.verbosity {text}: the body must be a number from 0 to 255"
            );
            plain(StatusCode::BAD_REQUEST, text)
        }
    }
}

async fn unsupported_method() -> Response {
    plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method".to_owned())
}

async fn not_found() -> Response {
    not_found_text()
}

fn not_found_text() -> Response {
    plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
}

pub(super) fn plain(status: StatusCode, text: String) -> Response {
    const HEADERS: [(HeaderName, &str); 2] = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, HEADERS, text).into_response()
}

async fn not_cached(mut response: Response) -> Response {
    let value = HeaderValue::from_static("no-cache, private");
    response.headers_mut().insert(header::CACHE_CONTROL, value);
    response
}

/// Keeps the connection open while a handler works on the request, for a profile longer than an
/// idle connection may live.
pub(super) async fn keep_open(request: Request, next: Next) -> Response {
    match request.extensions().get::<Handling>().cloned() {
        Some(handling) => handling.during(next.run(request)).await,
        None => next.run(request).await,
    }
}

async fn log_access(request: Request, next: Next) -> Response {
    let (verb, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    trace!(%verb, path, resp = response.status().as_u16(), "HTTP");
    response
}
