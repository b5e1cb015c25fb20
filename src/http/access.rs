//! Access of callers to the endpoints: who they are, and what they may read.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router, middleware};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{error, warn};

use super::acceptor::PeerCertificates;
use super::authentication::{
    AuthenticationOptions, Authenticator, TokenReviewer, TrustError, TrustSources, User,
};
use super::authorization::{
    AlwaysAllowPaths, AuthorizationOptions, Authorizer, Decision, SubjectAccessReviewer,
};
use super::reviews::{ReviewError, Reviews};
use crate::api_client::{ApiClient, ConnectError, Credentials};
use crate::metrics::{Authentication, Authorization, DelegatedAuth, Metrics};

/// An error of setting up authentication or authorization.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The kubeconfig for authentication cannot be used.
    #[error("failed to get delegated authentication kubeconfig: {0}")]
    Authentication(ConnectError),
    /// The kubeconfig for authorization cannot be used.
    #[error("failed to get delegated authorization kubeconfig: {0}")]
    Authorization(ConnectError),
    /// The trusted authorities cannot be loaded.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// Authentication and authorization of callers.
pub struct Access {
    gate: Arc<Gate>,
    sources: TrustSources,
}

/// The checks that decide about one request.
struct Gate {
    authenticator: Authenticator,
    authorizer: Authorizer,
    metrics: DelegatedAuth,
    refused: LogLimit,
    failed: LogLimit,
}

impl Access {
    /// Loads credentials and trusted authorities. Without credentials of their own, authentication
    /// and authorization use those of the pod's service account or, outside of a cluster, `own`:
    /// those of the scheduler.
    ///
    /// # Errors
    /// Credentials or authorities are invalid, or cannot be looked up although they must.
    pub async fn load(
        authentication: &AuthenticationOptions,
        authorization: &AuthorizationOptions,
        own: &Credentials,
        metrics: &Metrics,
    ) -> Result<Self, AccessError> {
        // Failing reviews do not make the scheduler unready, so that these clients have a status of
        // their own.
        let connect = async |kubeconfig: &Option<_>, component| {
            let credentials = review_credentials(kubeconfig.as_deref(), own).await?;
            ApiClient::new(&credentials, component, metrics.rest_client(), Arc::default())
        };
        let authenticating = connect(&authentication.kubeconfig, "authentication").await;
        let authenticating = authenticating.map_err(AccessError::Authentication)?;
        let authorizing = connect(&authorization.kubeconfig, "authorization").await;
        let authorizing = authorizing.map_err(AccessError::Authorization)?;
        let sources = TrustSources::load(authentication, &authenticating).await?;
        let metrics = metrics.delegated_auth();
        let authenticating =
            Reviews::new(authenticating, metrics.clone(), DelegatedAuth::token_review);
        let authorizing =
            Reviews::new(authorizing, metrics.clone(), DelegatedAuth::subject_access_review);
        let authenticator = Authenticator {
            trust: sources.subscribe(),
            tokens: TokenReviewer::new(authenticating, authentication.token_ttl),
        };
        let authorizer = Authorizer {
            always_allow: AlwaysAllowPaths::new(&authorization.always_allow_paths),
            reviewer: SubjectAccessReviewer::new(
                authorizing,
                authorization.authorized_ttl,
                authorization.unauthorized_ttl,
            ),
        };
        let (refused, failed) = (LogLimit::default(), LogLimit::default());
        let gate = Gate { authenticator, authorizer, metrics, refused, failed };
        Ok(Self { gate: Arc::new(gate), sources })
    }

    /// Lets only permitted requests through to the router.
    pub(super) fn guard<S: Clone + Send + Sync + 'static>(&self, router: Router<S>) -> Router<S> {
        let authenticate = middleware::from_fn_with_state(self.gate.clone(), authenticate);
        let authorize = middleware::from_fn_with_state(self.gate.clone(), authorize);
        let resources = Extension(ResourceAccess(self.gate.clone()));
        router.layer(resources).layer(authorize).layer(authenticate)
    }

    /// Follows the changes of the trusted authorities; never ends.
    pub(super) async fn follow(self) {
        self.sources.follow().await;
    }
}

/// Access of callers to resources of the API server, for endpoints that show parts of them.
#[derive(Clone)]
pub(super) struct ResourceAccess(Arc<Gate>);

impl ResourceAccess {
    /// Returns whether the user may do this with the resource.
    ///
    /// # Errors
    /// The API server did not review the access.
    pub(super) async fn permits(
        &self,
        user: &User,
        resource: ResourceAttributes,
    ) -> Result<bool, ReviewError> {
        let started = Instant::now();
        let decision = self.0.authorizer.authorize_resource(user, resource).await;
        let result = match &decision {
            Ok(Decision::Allowed) => Authorization::Allowed,
            Ok(Decision::Denied(_)) => Authorization::Denied,
            Ok(Decision::NoOpinion(_)) => Authorization::NoOpinion,
            Err(_) => Authorization::Error,
        };
        self.0.metrics.authorized(result, started.elapsed());
        Ok(decision? == Decision::Allowed)
    }
}

/// Returns the credentials for reviews. kube-scheduler has none outside of a cluster without a
/// kubeconfig for this purpose, and then rejects every caller; the scheduler's own are more useful.
async fn review_credentials(
    kubeconfig: Option<&Path>,
    own: &Credentials,
) -> Result<Credentials, ConnectError> {
    match Credentials::load(kubeconfig, None).await {
        Ok(credentials) => Ok(credentials),
        Err(error) if kubeconfig.is_some() => Err(error),
        Err(ConnectError::NoConfiguration) => Ok(own.clone()),
        Err(err) => {
            warn!(%err, "Reviewing callers with the credentials of the scheduler");
            Ok(own.clone())
        }
    }
}

/// Authenticates a request and passes it on with its [`User`].
async fn authenticate(
    State(gate): State<Arc<Gate>>,
    Extension(PeerCertificates(certificates)): Extension<PeerCertificates>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let user = gate.authenticator.authenticate(&certificates, request.headers()).await;
    let result = match &user {
        Ok(user) => Authentication::Success(&user.name),
        Err(_) => Authentication::Error,
    };
    gate.metrics.authenticated(result, started.elapsed());
    match user {
        Ok(user) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        Err(err) => {
            if let Some(others) = gate.refused.admit() {
                warn!(%err, others, "Unable to authenticate the request");
            }
            rejection(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", None)
        }
    }
}

/// Passes an authenticated request on if its user may access its path.
async fn authorize(
    State(gate): State<Arc<Gate>>,
    Extension(user): Extension<User>,
    request: Request,
    next: Next,
) -> Response {
    let (verb, path) = (request.method().as_str().to_lowercase(), request.uri().path());
    let started = Instant::now();
    let decision = gate.authorizer.authorize(&user, &verb, path).await;
    let result = match &decision {
        Ok(Decision::Allowed) => Authorization::Allowed,
        Ok(Decision::Denied(_)) => Authorization::Denied,
        Ok(Decision::NoOpinion(_)) => Authorization::NoOpinion,
        Err(_) => Authorization::Error,
    };
    gate.metrics.authorized(result, started.elapsed());
    match decision {
        Ok(Decision::Allowed) => next.run(request).await,
        Ok(Decision::Denied(reason) | Decision::NoOpinion(reason)) => {
            forbidden(&user, &verb, path, &reason)
        }
        Err(err) => {
            if let Some(others) = gate.failed.admit() {
                error!(%err, others, user = user.name, path, "Unable to authorize the request");
            }
            let text = format!("Internal Server Error: {:?}: {err}\n", html_safe(path));
            (StatusCode::INTERNAL_SERVER_ERROR, [NOSNIFF, TEXT], text).into_response()
        }
    }
}

const NOSNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
const JSON: (HeaderName, &str) = (header::CONTENT_TYPE, "application/json");
const TEXT: (HeaderName, &str) = (header::CONTENT_TYPE, "text/plain; charset=utf-8");

fn forbidden(user: &User, verb: &str, path: &str, reason: &str) -> Response {
    let mut message = format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name);
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    let message = html_safe(&message);
    rejection(StatusCode::FORBIDDEN, "Forbidden", &message, Some(json!({})))
}

/// Returns the `Status` of a rejected request.
fn rejection(code: StatusCode, reason: &str, message: &str, details: Option<Value>) -> Response {
    let mut status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code.as_u16(),
    });
    if let Some(details) = details {
        status["details"] = details;
    }
    (code, [NOSNIFF, JSON], format!("{status}\n")).into_response()
}

/// Replaces the characters of HTML, as in kube-scheduler: the text contains what the caller sent.
fn html_safe(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Shortest time between two lines of the log about rejected requests.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Limits the lines of the log that callers can cause.
#[derive(Default)]
struct LogLimit(Mutex<Logged>);

#[derive(Default)]
struct Logged {
    last: Option<Instant>,
    /// Number of requests since then that have no line.
    others: u64,
}

impl LogLimit {
    /// Returns whether a request gets a line: the number of requests that got none before it.
    fn admit(&self) -> Option<u64> {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if logged.last.is_some_and(|last| now < last + LOG_INTERVAL) {
            logged.others += 1;
            return None;
        }
        logged.last = Some(now);
        Some(std::mem::take(&mut logged.others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_contain_no_markup_of_callers() {
        assert_eq!(html_safe("<a href=\"x\"> & </a>"), "&lt;a href=\"x\"&gt; &amp; &lt;/a&gt;");
    }
}
