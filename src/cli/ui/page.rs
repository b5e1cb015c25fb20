//! The page and its files.
//!
//! The address has a token, which the first request exchanges for a cookie, so that the token stays
//! in no history. Requests for another host name are refused, so that no other page can reach this
//! one by a name that it controls.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use explain::DecisionsAnswer;
use framework::PodKey;
use futures::stream;
use serde::Deserialize;
use serde_json::json;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use super::answers::Answers;

const COOKIE: &str = "loadmaster-ui";
const HTML: &str = include_str!("assets/index.html");
const STYLE: &str = include_str!("assets/style.css");
const SCRIPTS: [(&str, &str); 11] = [
    ("/app.js", include_str!("assets/app.js")),
    ("/decisions.js", include_str!("assets/decisions.js")),
    ("/dom.js", include_str!("assets/dom.js")),
    ("/heatmap.js", include_str!("assets/heatmap.js")),
    ("/lists.js", include_str!("assets/lists.js")),
    ("/quotas.js", include_str!("assets/quotas.js")),
    ("/room.js", include_str!("assets/room.js")),
    ("/search.js", include_str!("assets/search.js")),
    ("/table.js", include_str!("assets/table.js")),
    ("/views.js", include_str!("assets/views.js")),
    ("/whatif.js", include_str!("assets/whatif.js")),
];
/// Time between two questions for new decisions.
const POLL: Duration = Duration::from_secs(2);
/// Time between two such questions after one without an answer.
const POLL_AFTER_ERROR: Duration = Duration::from_secs(10);
/// Maximum size of a change in bytes, as the scheduler has it.
const MAX_CHANGE: usize = 8 * 1024 * 1024;
const NO_TOKEN: &str =
    "This page needs its token: open the address that `loadmaster ui` printed.\n";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page.
#[derive(Clone)]
pub(super) struct Page {
    answers: Answers,
    address: SocketAddr,
    token: String,
}

impl Page {
    pub(super) const fn new(answers: Answers, address: SocketAddr, token: String) -> Self {
        Self { answers, address, token }
    }

    /// Returns the address with the token.
    pub(super) fn address(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }

    /// Returns the name of the cookie. Cookies do not know ports, and two pages may be open.
    fn cookie(&self) -> String {
        format!("{COOKIE}-{}", self.address.port())
    }

    pub(super) fn router(self) -> Router {
        let compressed = CompressionLayer::new().quality(CompressionLevel::Fastest);
        let mut router = Router::new()
            .route("/style.css", get(async || typed("text/css; charset=utf-8", STYLE)))
            .route("/explain/{*path}", get(answer).layer(compressed.clone()))
            .route("/room/{namespace}/{name}", get(room).layer(compressed.clone()))
            .route("/whatif", post(what_if).layer(compressed))
            .layer(DefaultBodyLimit::max(MAX_CHANGE))
            .route("/source", get(source))
            .route("/decisions", get(decisions));
        for (path, text) in SCRIPTS {
            router = router
                .route(path, get(async move || typed("text/javascript; charset=utf-8", text)));
        }
        let guard = middleware::from_fn_with_state(self.clone(), guard);
        router
            .layer(guard)
            .route("/", get(start))
            .layer(middleware::from_fn_with_state(self.clone(), check_host))
            .layer(middleware::map_response(protected))
            .with_state(self)
    }

    fn is_known(&self, request: &Request) -> bool {
        let cookies = request.headers().get_all(header::COOKIE).iter();
        let mut cookies =
            cookies.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split("; "));
        let own = (self.cookie(), self.token.as_str());
        cookies.any(|cookie| {
            cookie.split_once('=').is_some_and(|(name, value)| (name, value) == (&*own.0, own.1))
        })
    }
}

#[derive(Debug, Deserialize)]
struct Start {
    token: Option<String>,
}

/// Exchanges the token for a cookie, or shows the page.
async fn start(State(page): State<Page>, Query(query): Query<Start>, request: Request) -> Response {
    match query.token {
        Some(token) if token == page.token => {
            let cookie = format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", page.cookie());
            let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_owned())];
            (StatusCode::SEE_OTHER, headers).into_response()
        }
        _ if page.is_known(&request) => typed("text/html; charset=utf-8", HTML),
        _ => (StatusCode::UNAUTHORIZED, NO_TOKEN).into_response(),
    }
}

async fn guard(State(page): State<Page>, request: Request, next: Next) -> Response {
    match page.is_known(&request) {
        true => next.run(request).await,
        false => (StatusCode::UNAUTHORIZED, NO_TOKEN).into_response(),
    }
}

async fn check_host(State(page): State<Page>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let port = page.address.port();
    let is_own = host.is_some_and(|host| is_own(host, port));
    match is_own {
        true => next.run(request).await,
        false => (StatusCode::MISDIRECTED_REQUEST, "This page is served for 127.0.0.1 only.\n")
            .into_response(),
    }
}

/// Whether this is a host name of the page.
fn is_own(host: &str, port: u16) -> bool {
    host == format!("127.0.0.1:{port}") || host == format!("localhost:{port}")
}

async fn protected(mut response: Response) -> Response {
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn source(State(page): State<Page>) -> Response {
    typed(
        "application/json",
        json!({
            "source": page.answers.text(),
            "moment": page.answers.moment(),
            "live": page.answers.is_live(),
        })
        .to_string(),
    )
}

/// Streams decisions: an event with the latest ones at first, and one whenever there are new ones.
/// The page ends the stream while it is hidden, and then the scheduler is not asked.
async fn decisions(State(page): State<Page>) -> Response {
    if !page.answers.is_live() {
        return StatusCode::NO_CONTENT.into_response();
    }
    let feed = DecisionFeed { answers: page.answers, after: 0, pause: Duration::ZERO };
    let stream = stream::unfold(feed, DecisionFeed::next);
    Sse::new(stream).keep_alive(KeepAlive::default()).into_response()
}

/// The decisions that a stream still has to show.
struct DecisionFeed {
    answers: Answers,
    /// Number of decisions that were shown.
    after: u64,
    /// Time until the next question.
    pause: Duration,
}

impl DecisionFeed {
    /// Waits for the next decisions.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            tokio::time::sleep(self.pause).await;
            self.pause = POLL;
            let asked = self.answers.get(format!("decisions?after={}", self.after)).await;
            let found = asked.and_then(|body| {
                let body = String::from_utf8(body)?;
                Ok((serde_json::from_str::<DecisionsAnswer>(&body)?, body))
            });
            match found {
                // A scheduler that has started again counts from zero.
                Ok((found, _)) if found.number < self.after => self.after = 0,
                Ok((found, _)) if found.decisions.is_empty() => {}
                Ok((found, body)) => {
                    let event = Event::default().event("decisions").data(body);
                    return Some((Ok(event), Self { after: found.number, ..self }));
                }
                Err(error) => {
                    let event = Event::default().event("trouble").data(one_line(&error));
                    return Some((Ok(event), Self { pause: POLL_AFTER_ERROR, ..self }));
                }
            }
        }
    }
}

fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").replace(['\n', '\r'], " ")
}

async fn answer(State(page): State<Page>, request: Request) -> Response {
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    let path = target.strip_prefix("/explain/").unwrap_or_default().to_owned();
    respond(page.answers.get(path).await)
}

async fn room(
    State(page): State<Page>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    respond(page.answers.room(PodKey::new(&namespace, &name)).await)
}

/// Tries a change. Pages of other ports of this host are the same site to the browser, which sends
/// them the cookie, so that the origin is checked.
async fn what_if(State(page): State<Page>, headers: HeaderMap, body: Bytes) -> Response {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let host = origin.and_then(|origin| origin.strip_prefix("http://"));
    if !host.is_some_and(|host| is_own(host, page.address.port())) {
        return (StatusCode::FORBIDDEN, "This page answers no other one.\n").into_response();
    }
    respond(page.answers.what_if(body.into()).await)
}

fn respond(answer: anyhow::Result<Vec<u8>>) -> Response {
    match answer {
        Ok(body) => typed("application/json", body),
        Err(error) => {
            let body = json!({"message": format!("{error:#}")}).to_string();
            (StatusCode::BAD_GATEWAY, typed("application/json", body)).into_response()
        }
    }
}

fn typed(content_type: &'static str, body: impl IntoResponse) -> Response {
    let name: HeaderName = header::CONTENT_TYPE;
    ([(name, content_type)], body).into_response()
}
