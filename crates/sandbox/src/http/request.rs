//! One HTTP request: authentication, faults and the answer.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request as HttpRequest, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::connection::Connection;
use super::{fault_settings, watch};
use crate::api::{Answer, Request, Response, User, parse_query};
use crate::authorization;
use crate::faults::{Fate, Outcome, Refusal};
use crate::status::Status;

/// Maximum length of a body, the limit of the API server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

type HttpResponse = axum::http::Response<Body>;

/// Answers a request.
pub(super) async fn answer(
    State(connection): State<Connection>,
    request: HttpRequest<Body>,
) -> HttpResponse {
    match connection.read(request).await {
        Ok(request) => connection.answer(request).await,
        Err(status) => whole(status.response()),
    }
}

impl Connection {
    /// Decodes an HTTP request.
    async fn read(&self, request: HttpRequest<Body>) -> Result<Request, Status> {
        let (head, body) = request.into_parts();
        let user = self.user(&head.headers).ok_or_else(Status::unauthorized)?;
        let user = self.acting(user, &head.headers)?;
        Ok(Request {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            query: parse_query(head.uri.query().unwrap_or_default()),
            accept: text(&head.headers, ACCEPT),
            content_type: text(&head.headers, CONTENT_TYPE),
            body: read_body(body).await?,
            user,
        })
    }

    /// Authenticates a request: the first valid credential counts, a client certificate before a
    /// bearer token. Without credentials the caller is anonymous.
    fn user(&self, headers: &HeaderMap) -> Option<User> {
        let certificates = Some(&self.certificates).filter(|chain| !chain.is_empty());
        let token = bearer_token(headers);
        if certificates.is_none() && token.is_none() {
            return Some(User::anonymous());
        }
        certificates
            .and_then(|chain| self.cluster.user_of_certificates(chain))
            .or_else(|| self.cluster.user_of_token(token?))
    }

    /// Returns the impersonated user, or the user itself.
    fn acting(&self, user: User, headers: &HeaderMap) -> Result<User, Status> {
        let groups =
            headers.get_all("Impersonate-Group").iter().filter_map(|group| group.to_str().ok());
        let groups: Vec<String> = groups.map(str::to_owned).collect();
        match headers.get("Impersonate-User").and_then(|name| name.to_str().ok()) {
            Some(name) => self
                .cluster
                .with_store(|store, _| authorization::impersonate(store, &user, name, groups)),
            None if groups.is_empty() => Ok(user),
            None => Err(Status::bad_request("Impersonate-Group needs Impersonate-User beside it")),
        }
    }

    async fn answer(self, request: Request) -> HttpResponse {
        if request.path == fault_settings::PATH {
            return whole(fault_settings::answer(&self.cluster, &request));
        }
        let Fate { delay, outcome } = self.cluster.faults().fate(&request);
        if delay.is_zero() {
            return self.carry_out(outcome, &request);
        }
        // A request under way arrives although the client has gone meanwhile, so it has its own
        // task.
        let arrival = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            self.carry_out(outcome, &request)
        });
        let panicked = |_| whole(Status::internal("the request panicked".to_owned()).response());
        arrival.await.unwrap_or_else(panicked)
    }

    fn carry_out(&self, outcome: Outcome, request: &Request) -> HttpResponse {
        match outcome {
            Outcome::Served => self.serve(request),
            Outcome::Lost => {
                let answer = self.serve(request);
                self.cut.cut();
                answer
            }
            Outcome::Refused(refusal) => whole(self.refused(refusal, request).response()),
        }
    }

    /// Returns the status of a fault that refuses the request.
    fn refused(&self, refusal: Refusal, request: &Request) -> Status {
        match refusal {
            Refusal::Conflict => {
                let object = self.cluster.with_store(|store, _| store.object_at(&request.path));
                match object {
                    Some((resource, name)) => Status::modified(resource, &name),
                    None => Status::no_such_resource(),
                }
            }
            Refusal::TooManyRequests => {
                Status::too_many_requests("too many requests, please try again later", 1)
            }
            Refusal::InternalError => Status::internal("Internal error occurred: a sandbox fault"),
            Refusal::ServiceUnavailable => Status::unavailable("apiserver is shutting down"),
            Refusal::WebhookDown => Status::webhook_down(),
        }
    }

    fn serve(&self, request: &Request) -> HttpResponse {
        match self.cluster.guarded(|store, now| store.serve(request, now)) {
            Some(Answer::Whole(response)) => whole(response),
            Some(Answer::Watch(id)) => {
                let body = watch::body(self.cluster.clone(), id);
                let content_type = self.cluster.with_store(|store, _| store.watch_content_type(id));
                http_response(StatusCode::OK, content_type.unwrap_or("application/json"), body)
            }
            None => {
                let what = format!("{} {} panicked", request.method, request.path);
                whole(Status::internal(what).response())
            }
        }
    }
}

/// Returns the bearer token of a request; other schemes are not credentials.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Returns the body, if it is not too long.
async fn read_body(body: Body) -> Result<Bytes, Status> {
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::too_large(BODY_LIMIT)),
        Err(error) => Err(Status::bad_request(format!("cannot read the body: {error}"))),
    }
}

/// Returns all values of a list header.
fn text(headers: &HeaderMap, name: HeaderName) -> String {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.collect::<Vec<_>>().join(",")
}

fn http_response(status: StatusCode, content_type: &'static str, body: Body) -> HttpResponse {
    let mut response = HttpResponse::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn whole(answer: Response) -> HttpResponse {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = http_response(status, answer.content_type, Body::from(answer.body));
    let headers = response.headers_mut();
    if let Some(seconds) = answer.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    for warning in answer.warnings.iter().filter_map(|text| warning(text)) {
        headers.append(WARNING, warning);
    }
    response
}

/// Formats a warning like RFC 7234, with code 299 and no agent. Control characters are dropped.
fn warning(text: &str) -> Option<HeaderValue> {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted() {
        let value = warning("unknown field \"spec.\nbogus\"").unwrap();
        assert_eq!(value, r#"299 - "unknown field \"spec.bogus\"""#);
    }

    #[test]
    fn list_headers_are_joined() {
        let mut headers = HeaderMap::new();
        headers.append(ACCEPT, HeaderValue::from_static("application/json;as=Table"));
        headers.append(ACCEPT, HeaderValue::from_static("application/json"));
        assert_eq!(text(&headers, ACCEPT), "application/json;as=Table,application/json");
        assert_eq!(text(&headers, CONTENT_TYPE), "");
    }
}
