//! The HTTPS API of an agent. `openapi.json` describes it.
//!
//! Authentication and authorization work as for the endpoints: a caller needs the verb of the
//! request, in lower case, on its path as a nonResourceURL.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use supercluster::message::{
    self, CommitAnswer, CommitListRequest, MAX_LIST, Refusal, RefusalCode, Request, SampleAnswer,
    SampleListRequest, SampleOutcome, SampleRequest, SampleResponse, Snapshot, Versioned,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::super::messages::{AgentStatus, DelegatesQuery, DeletionRequest, ROOT, StrategyList};
use super::{AgentEvent, Shared, Started};
use crate::scheduling_loop::{EventSender, LoopEvent};

/// The document that describes the API.
const OPENAPI: &str = include_str!("openapi.json");
/// Maximum size of the body of a request in bytes: a pod is at most 1.5 MiB, and the copies of
/// objects that it names 1 MiB.
const MAX_BODY: usize = 4 * 1024 * 1024;
/// Maximum number of samples that are taken or wait.
const MAX_SAMPLES: usize = 1024;
/// Maximum number of commits, seals and deletions that are under way.
const MAX_COMMITS: usize = 2048;
/// Maximum number of callers that wait for changes of delegates, or renew leases.
const MAX_LISTS: usize = 64;
/// Time after which a sample is not worth waiting for.
const SAMPLE_DEADLINE: Duration = Duration::from_secs(5);
/// Time after which the answer to a commit or a seal counts as lost. Its caller asks what became of
/// it.
const COMMIT_DEADLINE: Duration = Duration::from_secs(45);

/// The data that the handlers share.
pub(super) struct Api {
    events: EventSender<AgentEvent>,
    shared: Arc<Shared>,
    samples: Arc<Semaphore>,
    commits: Arc<Semaphore>,
    lists: Semaphore,
}

impl Api {
    pub(super) fn new(events: EventSender<AgentEvent>, shared: Arc<Shared>) -> Self {
        Self {
            events,
            shared,
            samples: Arc::new(Semaphore::new(MAX_SAMPLES)),
            commits: Arc::new(Semaphore::new(MAX_COMMITS)),
            lists: Semaphore::new(MAX_LISTS),
        }
    }

    /// Returns what the agent knows since its start; an error until then.
    fn started(&self) -> Result<&Started, Failure> {
        self.shared.started.get().ok_or(Failure::NotReady)
    }

    /// Looks for the objects that the pod names, and asks the loop for a sample.
    async fn sample(
        &self,
        request: SampleRequest,
    ) -> Result<Result<Arc<SampleResponse>, Refusal>, Failure> {
        if let Ok(started) = self.started() {
            let (namespace, pod) = (&request.pod.pod.key.namespace, &request.pod.object);
            let missing = started.references.missing(namespace, pod, &request.copies).await;
            if let Some(missing) = missing {
                return Ok(Ok(Arc::new(started.no_node(missing))));
            }
        }
        match self.ask(Request::Sample(Arc::new(request)), SAMPLE_DEADLINE).await? {
            message::Response::Sample(answer) => Ok(answer),
            _ => Err(Failure::Confused),
        }
    }

    /// Asks the loop.
    async fn ask(
        &self,
        request: Request,
        deadline: Duration,
    ) -> Result<message::Response, Failure> {
        let (reply, answer) = oneshot::channel();
        self.events.send(LoopEvent::Own(AgentEvent::Call(request, reply)));
        match tokio::time::timeout(deadline, answer).await {
            Ok(Ok(response)) => Ok(response),
            // The loop has ended, or has dropped the request.
            Ok(Err(_)) => Err(Failure::NotReady),
            Err(_) => Err(Failure::TimedOut(deadline)),
        }
    }
}

impl Started {
    /// The answer to a sample request if no node of the cluster can take the pod. No commit can
    /// rest on it.
    fn no_node(&self, reason: String) -> SampleResponse {
        let incarnation = self.incarnation.clone();
        SampleResponse {
            cluster: self.cluster.clone(),
            snapshot: Snapshot { incarnation, taken_ms: 0, revision: 0 },
            nodes: Vec::new(),
            score_weight: 0,
            total_nodes: 0,
            looked_at: 0,
            reason: Some(reason),
        }
    }
}

/// Returns the routes.
pub(super) fn routes(api: Api) -> Router {
    let path = |name: &str| format!("{ROOT}/{name}");
    Router::new()
        .route(&path("samples"), post(sample))
        .route(&path("sample-lists"), post(sample_list))
        .route(&path("diagnoses"), post(diagnose))
        .route(&path("commits"), post(commit))
        .route(&path("commit-lists"), post(commit_list))
        .route(&path("seals"), post(seal))
        .route(&path("renewals"), post(renew))
        .route(&path("deletions"), post(delete))
        .route(&path("delegates"), get(delegates))
        .route(&path("strategies"), get(strategies))
        .route(&path("status"), get(status))
        .route("/openapi/v3", get(openapi))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(Arc::new(api))
}

type Body = Result<Bytes, BytesRejection>;

async fn sample(State(api): State<Arc<Api>>, body: Body) -> Result<Response, Failure> {
    let _permit = api.samples.try_acquire().map_err(|_| Failure::TooMany)?;
    match api.sample(decode(body)?).await? {
        Ok(sample) => Ok(versioned(StatusCode::OK, &*sample)),
        Err(refusal) => {
            let status = match refusal.code {
                RefusalCode::Malformed => StatusCode::BAD_REQUEST,
                RefusalCode::NotReady => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            Ok(versioned(status, refusal))
        }
    }
}

/// Answers with a line for each sample, as soon as it is taken: a pod whose objects are looked for
/// long, or whose sample fails, holds up no other one.
async fn sample_list(State(api): State<Arc<Api>>, body: Body) -> Result<Response, Failure> {
    let SampleListRequest { requests } = decode(body)?;
    let permits = permits(&api.samples, requests.len())?;
    Ok(lines(requests, permits, move |index, request| {
        let api = api.clone();
        async move {
            let outcome = match api.sample(request).await {
                Ok(Ok(sample)) => SampleOutcome::Sample(sample),
                Ok(Err(refusal)) => SampleOutcome::Refusal(refusal),
                Err(failure) => SampleOutcome::Refusal(failure.refusal()),
            };
            Some(SampleAnswer { index, outcome })
        }
    }))
}

async fn diagnose(State(api): State<Arc<Api>>, body: Body) -> Result<Response, Failure> {
    let _permit = api.lists.try_acquire().map_err(|_| Failure::TooMany)?;
    let request = Request::Diagnose(Arc::new(decode(body)?));
    match api.ask(request, SAMPLE_DEADLINE).await? {
        message::Response::Diagnose(Ok(diagnosis)) => Ok(versioned(StatusCode::OK, diagnosis)),
        message::Response::Diagnose(Err(_)) => Err(Failure::NotReady),
        _ => Err(Failure::Confused),
    }
}

async fn commit(State(api): State<Arc<Api>>, body: Body) -> Result<Response, Failure> {
    let _permit = api.commits.try_acquire().map_err(|_| Failure::TooMany)?;
    let request = Request::Commit(Arc::new(decode(body)?));
    match api.ask(request, COMMIT_DEADLINE).await? {
        message::Response::Commit(outcome) => Ok(versioned(StatusCode::OK, outcome)),
        _ => Err(Failure::Confused),
    }
}

/// Answers with a line for each commit whose outcome is known, as soon as it is. The commits of a
/// caller that goes away are not begun any more.
async fn commit_list(State(api): State<Arc<Api>>, body: Body) -> Result<Response, Failure> {
    let CommitListRequest { requests } = decode(body)?;
    let permits = permits(&api.commits, requests.len())?;
    Ok(lines(requests, permits, move |index, request| {
        let api = api.clone();
        async move {
            let request = Request::Commit(Arc::new(request));
            match api.ask(request, COMMIT_DEADLINE).await {
                Ok(message::Response::Commit(outcome)) => Some(CommitAnswer { index, outcome }),
                // The caller asks what became of it.
                _ => None,
            }
        }
    }))
}

/// Returns permits for the requests of a list.
fn permits(semaphore: &Arc<Semaphore>, requests: usize) -> Result<OwnedSemaphorePermit, Failure> {
    if requests > MAX_LIST {
        return Err(Failure::Malformed(format!("requests: has more than {MAX_LIST} entries")));
    }
    let count = u32::try_from(requests).unwrap_or(u32::MAX);
    semaphore.clone().try_acquire_many_owned(count).map_err(|_| Failure::TooMany)
}

/// Answers with a line for each request of a list, as soon as it has an answer. Each request holds
/// a permit until then.
fn lines<R, A, F>(
    requests: Vec<R>,
    mut permits: OwnedSemaphorePermit,
    ask: impl Fn(usize, R) -> F,
) -> Response
where
    A: Serialize,
    F: Future<Output = Option<A>> + Send + 'static,
{
    let answers = requests.into_iter().enumerate().map(|(index, request)| {
        let (answer, permit) = (ask(index, request), permits.split(1));
        async move {
            let answer = answer.await;
            drop(permit);
            answer.as_ref().map(line).unwrap_or_default()
        }
    });
    let lines = answers.collect::<FuturesUnordered<_>>().ready_chunks(MAX_LIST);
    let lines = lines.map(|lines| Ok::<_, Infallible>(lines.concat()));
    ([LINES], axum::body::Body::from_stream(lines)).into_response()
}

/// Returns a message as a line.
fn line<T: Serialize>(message: &T) -> String {
    let text = serde_json::to_string(&Versioned::new(message));
    text.map(|text| text + "\n").unwrap_or_default()
}

async fn seal(State(api): State<Arc<Api>>, body: Body) -> Result<Response, Failure> {
    let _permit = api.commits.try_acquire().map_err(|_| Failure::TooMany)?;
    let request = Request::Seal(decode(body)?);
    match api.ask(request, COMMIT_DEADLINE).await? {
        message::Response::Seal(outcome) => Ok(versioned(StatusCode::OK, outcome)),
        _ => Err(Failure::Confused),
    }
}

async fn renew(State(api): State<Arc<Api>>, body: Body) -> Result<Response, Failure> {
    let _permit = api.lists.try_acquire().map_err(|_| Failure::TooMany)?;
    match api.ask(Request::Renew(decode(body)?), COMMIT_DEADLINE).await? {
        message::Response::Renew(Ok(renewed)) => Ok(versioned(StatusCode::OK, renewed)),
        message::Response::Renew(Err(refusal)) => {
            let status = match refusal.code {
                RefusalCode::Malformed => StatusCode::BAD_REQUEST,
                RefusalCode::NotReady => StatusCode::SERVICE_UNAVAILABLE,
                RefusalCode::Busy => StatusCode::TOO_MANY_REQUESTS,
                RefusalCode::OtherIncarnation => StatusCode::CONFLICT,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            Ok(versioned(status, refusal))
        }
        _ => Err(Failure::Confused),
    }
}

async fn delete(State(api): State<Arc<Api>>, body: Body) -> Result<Response, Failure> {
    let _permit = api.commits.try_acquire().map_err(|_| Failure::TooMany)?;
    let deletion: DeletionRequest = decode(body)?;
    let outcome = api.started()?.writes.delete_delegate(&deletion).await;
    Ok(versioned(StatusCode::OK, outcome.map_err(Failure::ApiServer)?))
}

async fn delegates(
    State(api): State<Arc<Api>>,
    Query(query): Query<DelegatesQuery>,
) -> Result<Response, Failure> {
    let _permit = api.lists.try_acquire().map_err(|_| Failure::TooMany)?;
    // Before that, a delegate that is not in the list may exist.
    api.shared.synced.get().ok_or(Failure::NotReady)?;
    let list = api.shared.delegates.list(&api.started()?.incarnation, &query).await;
    Ok(versioned(StatusCode::OK, list))
}

async fn strategies(State(api): State<Arc<Api>>) -> Result<Response, Failure> {
    let strategies = api.started()?.strategies.clone();
    Ok(versioned(StatusCode::OK, StrategyList { strategies }))
}

async fn status(State(api): State<Arc<Api>>) -> Result<Response, Failure> {
    let started = api.started()?;
    let status = AgentStatus {
        cluster: started.cluster.clone(),
        incarnation: started.incarnation.clone(),
        is_synced: api.shared.synced.get().is_some(),
        delegates: api.shared.delegates.len(),
    };
    Ok(versioned(StatusCode::OK, status))
}

async fn openapi() -> Response {
    ([JSON], OPENAPI).into_response()
}

const JSON: (HeaderName, &str) = (header::CONTENT_TYPE, "application/json");
/// Lines of JSON.
const LINES: (HeaderName, &str) = (header::CONTENT_TYPE, "application/x-ndjson");

/// Reads a message of this version.
fn decode<T: DeserializeOwned>(body: Body) -> Result<T, Failure> {
    let body = body.map_err(Failure::Body)?;
    message::decode(&body).map_err(Failure::Malformed)
}

fn versioned<T: Serialize>(status: StatusCode, message: T) -> Response {
    match serde_json::to_string(&Versioned::new(message)) {
        Ok(text) => (status, [JSON], text).into_response(),
        Err(error) => Failure::ApiServer(error.to_string()).into_response(),
    }
}

/// Why a request is not answered with a message. The answer is a `Status` of Kubernetes.
#[derive(Debug)]
enum Failure {
    /// The body cannot be read, or is too large.
    Body(BytesRejection),
    /// The body is not a message of this version.
    Malformed(String),
    /// The agent has not read its cluster yet.
    NotReady,
    /// Too many requests are under way.
    TooMany,
    /// The agent has not answered in time.
    TimedOut(Duration),
    /// The API server of the member refuses a write, or does not answer.
    ApiServer(String),
    /// The loop gave the answer to another request.
    Confused,
}

impl Failure {
    /// The answer to one of several requests.
    fn refusal(self) -> Refusal {
        let code = match self {
            Self::NotReady => RefusalCode::NotReady,
            _ => RefusalCode::Failed,
        };
        Refusal::new(code, self.status().2)
    }

    /// Returns the HTTP status, its reason, and a text for people.
    fn status(self) -> (StatusCode, &'static str, String) {
        match self {
            Self::Body(rejection) => match rejection.status() {
                StatusCode::PAYLOAD_TOO_LARGE => {
                    let text = format!("the body is longer than {MAX_BODY} bytes");
                    (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", text)
                }
                status => (status, "BadRequest", rejection.body_text()),
            },
            Self::Malformed(text) => (StatusCode::BAD_REQUEST, "BadRequest", text),
            Self::NotReady => {
                let text = "the agent has not read its cluster yet".to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", text)
            }
            Self::TooMany => {
                let text = "too many requests are under way".to_owned();
                (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", text)
            }
            Self::TimedOut(deadline) => {
                let text = format!("no answer within {deadline:?}");
                (StatusCode::GATEWAY_TIMEOUT, "Timeout", text)
            }
            Self::ApiServer(text) => (StatusCode::BAD_GATEWAY, "InternalError", text),
            Self::Confused => {
                let text = "the answer is one to another request".to_owned();
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", text)
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (code, reason, message) = self.status();
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "reason": reason, "message": message, "code": code.as_u16()});
        (code, [JSON], status.to_string()).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http_body_util::BodyExt;
    use serde_json::Value;
    use supercluster::message::{
        CommitKey, CommitOutcome, CommitRequest, CommitTarget, Committed, Conflict, ConflictCode,
        Copied, CopyKind, CopyName, Delegate, DelegateEvent, DelegateList, Diagnosis,
        DiagnosisRequest, FreeResources, GoneDelegate, LeaseTerms, NodeReason, NodeSample,
        PodObject, RenewRequest, RenewResponse, SealOutcome, SealRequest, Stamp, TryNumber,
    };

    use super::super::super::messages::{DeletionOutcome, EvictionRefusal};
    use super::*;

    #[tokio::test]
    async fn request_of_a_list_that_hangs_holds_only_its_own_permit() {
        let semaphore = Arc::new(Semaphore::new(MAX_LIST));
        let all = permits(&semaphore, MAX_LIST).unwrap();
        let hangs: Vec<bool> = (0..MAX_LIST).map(|index| index == 0).collect();
        let response = lines(hangs, all, |index, hangs| async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            let outcome = SampleOutcome::Refusal(Refusal::new(RefusalCode::Failed, "text"));
            Some(SampleAnswer { index, outcome })
        });
        let mut body = response.into_body();
        let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let answers = data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut places: Vec<usize> =
            answers.map(|line| message::decode::<SampleAnswer>(line).unwrap().index).collect();
        places.sort_unstable();
        assert_eq!(places, (1..MAX_LIST).collect::<Vec<_>>());
        assert_eq!(semaphore.available_permits(), MAX_LIST - 1);
        assert!(matches!(permits(&semaphore, MAX_LIST), Err(Failure::TooMany)));
        drop(body);
        assert_eq!(semaphore.available_permits(), MAX_LIST, "the caller has gone away");
    }

    /// The fields of a message with all its fields set, by the name of its schema.
    fn messages() -> Vec<(&'static str, Value)> {
        let key = CommitKey { pod: "u".into(), number: TryNumber { attempt: 1, candidate: 0 } };
        let snapshot = Snapshot { incarnation: "i".into(), taken_ms: 1, revision: 1 };
        let pod = PodObject::from_json(json!({"metadata": {"name": "p"}})).unwrap();
        let free =
            FreeResources { extended: [("gpu".into(), 1)].into(), ..FreeResources::default() };
        let node = NodeSample {
            name: "n".into(),
            score: 1,
            free: free.clone(),
            labels: [("a".into(), "b".into())].into(),
        };
        let committed = Committed {
            key: key.clone(),
            uid: "d".into(),
            node: "n".into(),
            fence_after_s: Some(1),
        };
        let terms = LeaseTerms { lease: "l".into(), fence_after_s: 1 };
        let stamp = Stamp { incarnation: "i".into(), taken_ms: 1 };
        let reason = NodeReason {
            reason: "Insufficient cpu".to_owned(),
            plugin: Some("NodeResourcesFit".into()),
            count: 1,
            nodes: vec!["m".into()],
        };
        let copy_name = CopyName { kind: CopyKind::ConfigMap, name: "c".into() };
        let copied = Copied {
            kind: CopyKind::Secret,
            name: "s".into(),
            type_: Some("Opaque".to_owned()),
            data: [("a".to_owned(), "MQ==".to_owned())].into(),
            binary_data: [("b".to_owned(), "MQ==".to_owned())].into(),
        };
        let sample = SampleResponse {
            cluster: "c".into(),
            snapshot: snapshot.clone(),
            nodes: vec![node.clone()],
            score_weight: 1,
            total_nodes: 1,
            looked_at: 1,
            reason: Some("text".to_owned()),
        };
        let refusal = Refusal::new(RefusalCode::Busy, "text");
        let conflict = Conflict { code: ConflictCode::Ports, message: "text".to_owned() };
        let event = DelegateEvent {
            uid: "e".into(),
            warning: true,
            reason: "BackOff".into(),
            message: "text".into(),
            component: "kubelet".into(),
            count: 1,
        };
        let delegate = Delegate {
            pod: "u".into(),
            number: key.number,
            namespace: "ns".into(),
            name: "p".into(),
            origin: Some("m".into()),
            uid: "d".into(),
            node: Some("n".into()),
            terminating: false,
            status: json!({}),
            events: vec![event.clone()],
        };
        let of = |mut message: Value| {
            message["apiVersion"] = json!(message::API_VERSION);
            message
        };
        vec![
            (
                "DiagnosisRequest",
                of(json!(DiagnosisRequest { pod: pod.clone(), node: Some("n".into()) })),
            ),
            (
                "Diagnosis",
                of(json!(Diagnosis {
                    cluster: "c".into(),
                    total_nodes: 2,
                    looked_at: 2,
                    fitting: 1,
                    fitting_nodes: vec!["n".into()],
                    reasons: vec![reason.clone()],
                })),
            ),
            ("NodeReason", json!(reason)),
            ("CopyName", json!(copy_name)),
            ("Copied", json!(copied)),
            ("Snapshot", json!(snapshot)),
            ("CommitKey", json!(key)),
            ("Committed", json!(committed)),
            ("LeaseTerms", json!(terms)),
            ("Stamp", json!(stamp)),
            (
                "RenewRequest",
                of(json!(RenewRequest { lease: "l".into(), heard: Some(stamp.clone()) })),
            ),
            ("RenewResponse", of(json!(RenewResponse { cluster: "c".into(), stamp }))),
            ("FreeResources", json!(free)),
            ("NodeSample", json!(node)),
            ("Delegate", json!(delegate)),
            ("DelegateEvent", json!(event)),
            (
                "SampleRequest",
                of(json!(SampleRequest {
                    pod: pod.clone(),
                    scheduling_retry_count: 1,
                    strategy: "all".into(),
                    nodes_to_sample_bp: 1,
                    max_nodes: Some(1),
                    node_labels: vec!["a".into()],
                    copies: vec![copy_name.clone()],
                })),
            ),
            ("SampleListRequest", of(json!(SampleListRequest { requests: Vec::new() }))),
            (
                "SampleAnswer",
                of(json!(SampleAnswer {
                    index: 0,
                    outcome: SampleOutcome::Refusal(refusal.clone()),
                })),
            ),
            ("SampleOutcome", json!(SampleOutcome::Sample(Arc::new(sample.clone())))),
            ("SampleOutcome", json!(SampleOutcome::Refusal(refusal.clone()))),
            ("SampleResponse", of(json!(sample))),
            (
                "CommitRequest",
                of(json!(CommitRequest {
                    key: key.clone(),
                    snapshot,
                    pod,
                    target: CommitTarget { node: "n".into(), best_of_at_least: Some(1) },
                    origin: Some("m".into()),
                    terms: Some(terms.clone()),
                    copies: Arc::from([Arc::new(copied.clone())]),
                })),
            ),
            ("CommitListRequest", of(json!(CommitListRequest { requests: Vec::new() }))),
            (
                "CommitAnswer",
                of(json!(CommitAnswer {
                    index: 0,
                    outcome: CommitOutcome::Committed(committed.clone()),
                })),
            ),
            ("CommitOutcome", of(json!(CommitOutcome::Committed(committed.clone())))),
            ("CommitOutcome", of(json!(CommitOutcome::Conflict(conflict)))),
            ("CommitOutcome", of(json!(CommitOutcome::Rejected(refusal.clone())))),
            ("SealRequest", of(json!(SealRequest { key }))),
            ("SealOutcome", of(json!(SealOutcome::Committed(committed)))),
            ("SealOutcome", of(json!(SealOutcome::Rejected(refusal.clone())))),
            ("Refusal", of(json!(refusal))),
            (
                "DeletionRequest",
                of(json!(DeletionRequest {
                    pod: "u".into(),
                    namespace: "ns".into(),
                    name: "p".into(),
                    delegate: Some("d".into()),
                    grace_period_seconds: Some(1),
                    evict: true,
                })),
            ),
            (
                "DeletionOutcome",
                of(json!(DeletionOutcome::Refused(EvictionRefusal { message: "text".to_owned() }))),
            ),
            (
                "DelegateList",
                of(json!(DelegateList {
                    incarnation: "i".into(),
                    revision: 1,
                    begins_anew: false,
                    more: false,
                    delegates: vec![Arc::new(delegate)],
                    gone: vec![GoneDelegate { pod: "u".into(), uid: "d".into() }],
                })),
            ),
            ("StrategyList", of(json!(StrategyList { strategies: Vec::new() }))),
            (
                "AgentStatus",
                of(json!(AgentStatus {
                    cluster: "c".into(),
                    incarnation: "i".into(),
                    is_synced: true,
                    delegates: 0,
                })),
            ),
        ]
    }

    #[test]
    fn document_describes_every_field_of_every_message() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let schemas = &document["components"]["schemas"];
        let mut documented = BTreeSet::new();
        for (name, message) in messages() {
            let properties = schemas[name]["properties"].as_object();
            let properties = properties.unwrap_or_else(|| panic!("{name} is not described"));
            for field in message.as_object().unwrap().keys() {
                assert!(properties.contains_key(field), "{name}: {field} is not described");
            }
            for field in schemas[name]["required"].as_array().unwrap() {
                assert!(message.get(field.as_str().unwrap()).is_some(), "{name}: {field}");
            }
            documented.insert(name);
        }
        let described: BTreeSet<&str> =
            schemas.as_object().unwrap().keys().map(|own| &**own).collect();
        let others: Vec<&&str> = described.difference(&documented).collect();
        assert_eq!(others, [&"Status"]);
    }

    #[tokio::test]
    async fn every_documented_path_is_served_and_says_that_the_agent_has_not_started() {
        let (events, _received) = crate::scheduling_loop::role_channel();
        let routes = routes(Api::new(events, Arc::default()));
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for method in operations.as_object().unwrap().keys() {
                let request = axum::http::Request::builder().uri(path);
                let request = request.method(method.to_uppercase().as_str());
                let request = request.body(axum::body::Body::from("{")).unwrap();
                let answer = tower::ServiceExt::oneshot(routes.clone(), request).await.unwrap();
                let expected = match (method.as_str(), path.as_str()) {
                    ("post", _) => StatusCode::BAD_REQUEST,
                    (_, "/openapi/v3") => StatusCode::OK,
                    _ => StatusCode::SERVICE_UNAVAILABLE,
                };
                assert_eq!(answer.status(), expected, "{method} {path}");
            }
        }
    }
}
