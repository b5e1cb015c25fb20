//! The HTTPS clients of agents.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context;
use control::{Method, Reply};
use futures::future::join_all;
use http_body_util::{BodyExt, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use supercluster::message::{
    self, CommitAnswer, CommitRequest, DelegateList, Diagnosis, DiagnosisRequest, MAX_LIST,
    Request, Response, SampleAnswer, SampleOutcome, SampleRequest, SealOutcome, SealRequest,
    Versioned,
};

use super::super::messages::{DeletionOutcome, DeletionRequest, ROOT};
use super::clusters::Member;
use crate::api_client::{APPLICATION_JSON, ApiClient, Credentials, JsonRequest, Lines};
use crate::metrics::{MemberMetrics, RestClient};

/// Time to wait for the answer to a commit, a seal or a deletion. The scheduler asks what became of
/// a commit long before; its answer may still come.
const TIMEOUT: Duration = Duration::from_secs(50);
/// Time to wait for the answer to a question about nodes.
const DIAGNOSIS_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to wait for the answer to a renewal.
const RENEW_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which a list of delegates waits for changes.
const LIST_WAIT: Duration = Duration::from_secs(10);
/// Time to wait for a list of delegates.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of bytes of an answer. The longest ones are pages of delegates with their
/// statuses.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// Maximum number of bytes of the requests of a list that has more than one.
const MAX_BODY: usize = 1024 * 1024;
/// Maximum number of bytes of an error that is shown.
const MAX_SHOWN: usize = 300;

/// The agents by index of their members. A member that has left keeps its agent, because commits
/// may be under way.
#[derive(Clone, Default)]
pub(super) struct Agents(Arc<RwLock<Vec<Place>>>);

struct Place {
    agent: AgentClient,
    metrics: MemberMetrics,
    is_member: bool,
    is_draining: bool,
    /// Grows when the connection is replaced and when the member leaves.
    connection: u64,
}

impl Agents {
    /// Sets the agent of a member, and returns its index and the number of its connection.
    pub(super) fn set(&self, agent: AgentClient, metrics: MemberMetrics) -> (usize, u64) {
        let mut places = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match places.iter_mut().enumerate().find(|(_, place)| place.agent.name == agent.name) {
            Some((ix, place)) => {
                (place.agent, place.metrics, place.is_member) = (agent, metrics, true);
                place.connection += 1;
                (ix, place.connection)
            }
            None => {
                places.push(Place {
                    agent,
                    metrics,
                    is_member: true,
                    is_draining: false,
                    connection: 0,
                });
                (places.len() - 1, 0)
            }
        }
    }

    /// Notes that a cluster is not a member any more.
    pub(super) fn remove(&self, member: usize) {
        let mut places = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get_mut(member) {
            place.is_member = false;
            place.connection += 1;
            place.metrics.left();
        }
    }

    /// Sets whether pods that may be replaced leave the member.
    pub(super) fn set_draining(&self, member: usize, is_draining: bool) {
        let mut places = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get_mut(member) {
            place.is_draining = is_draining;
        }
    }

    /// Whether pods that may be replaced leave the member.
    pub(super) fn is_draining(&self, member: usize) -> bool {
        self.read().get(member).is_some_and(|place| place.is_draining)
    }

    /// Returns the agent of this index, and the metrics of its member.
    pub(super) fn get(&self, member: usize) -> (AgentClient, MemberMetrics) {
        let places = self.read();
        (places[member].agent.clone(), places[member].metrics.clone())
    }

    /// Returns the agents of the members.
    pub(super) fn members(&self) -> Vec<AgentClient> {
        let places = self.read();
        places.iter().filter(|place| place.is_member).map(|place| place.agent.clone()).collect()
    }

    /// Returns the index of the member of this name.
    pub(super) fn named(&self, name: &str) -> Option<usize> {
        self.read().iter().position(|place| place.is_member && *place.agent.name == *name)
    }

    /// Whether a connection is still the one of its member.
    pub(super) fn is_current(&self, member: usize, connection: u64) -> bool {
        self.read().get(member).is_some_and(|place| place.connection == connection)
    }

    /// Returns the number of indexes.
    pub(super) fn len(&self) -> usize {
        self.read().len()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<Place>> {
        // No code that holds the lock panics.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The agent of one member. Clones share its connection.
#[derive(Clone)]
pub(super) struct AgentClient {
    /// Name of the member.
    pub(super) name: Arc<str>,
    client: ApiClient,
    sample_timeout: Duration,
}

impl AgentClient {
    /// Connects with the first request.
    pub(super) async fn new(
        member: &Member,
        sample_timeout: Duration,
        metrics: RestClient,
    ) -> anyhow::Result<Self> {
        let context = || format!("clusters: {}", member.name);
        let credentials = Credentials::of_files(member.files()).await.with_context(context)?;
        // An agent that does not answer makes one member unavailable, and not this scheduler. A
        // standby, or one that was restarted, answers 503; without a new connection it would be
        // asked for ever.
        let client = ApiClient::of_replicas(&credentials, "supercluster", metrics);
        let client = client.with_context(context)?.with_max_response(MAX_ANSWER);
        Ok(Self { name: member.name.as_str().into(), client, sample_timeout })
    }

    /// Sends a request of the scheduler. An error means that there is no answer.
    pub(super) async fn call(&self, request: &Request) -> Result<Response, String> {
        match request {
            Request::Sample(sample) => {
                let answer = OnceLock::new();
                let taken = |_, own| drop(answer.set(own));
                self.samples(std::slice::from_ref(sample), taken).await;
                answer.into_inner().unwrap_or_else(|| Err("no answer".to_owned()))
            }
            Request::Commit(commit) => {
                let answer = OnceLock::new();
                let taken = |_, own| drop(answer.set(own));
                self.commits(std::slice::from_ref(commit), taken).await;
                answer.into_inner().unwrap_or_else(|| Err("no answer".to_owned()))
            }
            Request::Seal(seal) => self.seal(seal).await.map(Response::Seal),
            Request::Diagnose(request) => {
                self.diagnose(request).await.map(Ok).map(Response::Diagnose)
            }
            Request::Renew(renew) => {
                let renewed = success(self.post("renewals", renew, RENEW_TIMEOUT).await?);
                renewed.map(Ok).map(Response::Renew)
            }
        }
    }

    /// Sends several sample requests in as few messages as their size allows, and passes on the
    /// answer to each as soon as it comes, with its place. An error means that there is no answer.
    pub(super) async fn samples(
        &self,
        requests: &[Arc<SampleRequest>],
        answered: impl Fn(usize, Result<Response, String>),
    ) {
        let read = |SampleAnswer { index, outcome }| match outcome {
            SampleOutcome::Sample(sample) => (index, Response::Sample(Ok(sample))),
            SampleOutcome::Refusal(refusal) => (index, Response::Sample(Err(refusal))),
        };
        self.ask_each("sample-lists", self.sample_timeout, requests, read, answered).await;
    }

    /// The same for commit requests.
    pub(super) async fn commits(
        &self,
        requests: &[Arc<CommitRequest>],
        answered: impl Fn(usize, Result<Response, String>),
    ) {
        let read = |CommitAnswer { index, outcome }| (index, Response::Commit(outcome));
        self.ask_each("commit-lists", TIMEOUT, requests, read, answered).await;
    }

    async fn ask_each<R: Serialize, A: DeserializeOwned>(
        &self,
        name: &str,
        timeout: Duration,
        requests: &[Arc<R>],
        read: impl Fn(A) -> (usize, Response),
        answered: impl Fn(usize, Result<Response, String>),
    ) {
        let lists = match lists_of(requests) {
            Ok(lists) => lists,
            Err(error) => {
                return (0..requests.len()).for_each(|place| answered(place, Err(error.clone())));
            }
        };
        let mut first = 0;
        let sent = lists.iter().map(|list| {
            let begin = first;
            first += list.len();
            let (read, answered) = (&read, &answered);
            async move {
                let mut open: BTreeSet<usize> = (0..list.len()).collect();
                let taken = |line| {
                    let (index, answer) = read(line);
                    if open.remove(&index) {
                        answered(begin + index, Ok(answer));
                    }
                };
                let ended = tokio::time::timeout(timeout, self.ask_list(name, list, taken)).await;
                let error = match ended {
                    Ok(Ok(())) => "its agent gave no answer".to_owned(),
                    Ok(Err(error)) => error,
                    Err(_) => format!("its agent gave no answer within {timeout:?}"),
                };
                open.into_iter().for_each(|index| answered(begin + index, Err(error.clone())));
            }
        });
        join_all(sent.collect::<Vec<_>>()).await;
    }

    /// Sends requests in one message, and passes on each line of the answer.
    async fn ask_list<A: DeserializeOwned>(
        &self,
        name: &str,
        requests: &[Box<RawValue>],
        mut taken: impl FnMut(A),
    ) -> Result<(), String> {
        let body = body_of(&List { requests })?;
        let response = self.client.post(&format!("{ROOT}/{name}"), body).await;
        let response = response.map_err(|text| unreachable_text(&text))?;
        let status = response.status().as_u16();
        let (mut lines, mut body) =
            (Lines::default(), Limited::new(response.into_body(), MAX_ANSWER));
        if status != 200 {
            let body =
                body.collect().await.map_err(|error| unreachable_text(&error.to_string()))?;
            let (retry_after, body) = (None, body.to_bytes().into());
            return success(control::Response { status, retry_after, body });
        }
        let mut failed = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| unreachable_text(&error.to_string()))?;
            let Ok(chunk) = frame.into_data() else { continue };
            lines.push(&chunk, |line| match message::decode(line) {
                Ok(answer) => taken(answer),
                Err(error) => failed = Some(unreadable_text(&error)),
            });
        }
        failed.map_or(Ok(()), Err)
    }

    /// Asks which nodes can take a pod, and why the others cannot.
    pub(super) async fn diagnose(&self, request: &DiagnosisRequest) -> Result<Diagnosis, String> {
        success(self.post("diagnoses", request, DIAGNOSIS_TIMEOUT).await?)
    }

    /// Asks what became of a commit.
    pub(super) async fn seal(&self, seal: &SealRequest) -> Result<SealOutcome, String> {
        success(self.post("seals", seal, TIMEOUT).await?)
    }

    /// Deletes the delegate of a pod.
    pub(super) async fn delete(
        &self,
        deletion: &DeletionRequest,
    ) -> Result<DeletionOutcome, String> {
        success(self.post("deletions", deletion, TIMEOUT).await?)
    }

    /// Lists the delegates that have changed. Waits for a change if there is none.
    pub(super) async fn delegates(
        &self,
        incarnation: &str,
        after: u64,
    ) -> Result<DelegateList, String> {
        let wait = LIST_WAIT.as_millis();
        let query: String = url_encoded(&[
            ("incarnation", incarnation),
            ("after", &after.to_string()),
            ("waitMs", &wait.to_string()),
        ]);
        let request = JsonRequest {
            method: Method::Get,
            path: format!("{ROOT}/delegates?{query}"),
            content_type: APPLICATION_JSON,
            body: Vec::new(),
            timeout: LIST_TIMEOUT,
        };
        success(answer(self.client.request(request).await)?)
    }

    async fn post<T: Serialize + Sync>(
        &self,
        name: &str,
        message: &T,
        timeout: Duration,
    ) -> Result<control::Response, String> {
        let request = JsonRequest {
            method: Method::Post,
            path: format!("{ROOT}/{name}"),
            content_type: APPLICATION_JSON,
            body: body_of(message)?,
            timeout,
        };
        answer(self.client.request(request).await)
    }
}

/// Several requests of one kind, as JSON.
#[derive(Serialize)]
struct List<'a> {
    requests: &'a [Box<RawValue>],
}

/// Divides requests into lists that are not too long.
fn lists_of<T: Serialize>(requests: &[Arc<T>]) -> Result<Vec<Vec<Box<RawValue>>>, String> {
    let (mut lists, mut sum): (Vec<Vec<Box<RawValue>>>, _) = (Vec::new(), 0);
    for request in requests {
        let text =
            serde_json::value::to_raw_value(&**request).map_err(|error| error.to_string())?;
        let size = text.get().len();
        match lists.last_mut() {
            Some(list) if sum + size <= MAX_BODY && list.len() < MAX_LIST => {
                sum += size;
                list.push(text);
            }
            _ => {
                sum = size;
                lists.push(vec![text]);
            }
        }
    }
    Ok(lists)
}

fn body_of<T: Serialize>(message: &T) -> Result<Vec<u8>, String> {
    serde_json::to_vec(&Versioned::new(message)).map_err(|error| error.to_string())
}

fn unreachable_text(reason: &str) -> String {
    format!("its agent cannot be reached: {reason}")
}

fn unreadable_text(reason: &str) -> String {
    format!("its agent gave an answer that cannot be read: {reason}")
}

/// Asks for the query parameters in the notation of forms.
fn url_encoded(pairs: &[(&str, &str)]) -> String {
    let encode = |text: &str| {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let pairs = pairs.iter().map(|(key, value)| format!("{key}={}", encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn answer(reply: Reply) -> Result<control::Response, String> {
    match reply {
        Reply::Answered(response) => Ok(response),
        Reply::Rejected(text) | Reply::NotSent(text) | Reply::Lost(text) => {
            Err(unreachable_text(&text))
        }
    }
}

fn success<T: DeserializeOwned>(response: control::Response) -> Result<T, String> {
    match response.status {
        200 => decode(&response),
        status => {
            let text: String = response.error_message().chars().take(MAX_SHOWN).collect();
            Err(format!("its agent answered with status {status}: {text}"))
        }
    }
}

fn decode<T: DeserializeOwned>(response: &control::Response) -> Result<T, String> {
    message::decode(&response.body).map_err(|error| unreadable_text(&error))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Mutex;

    use axum::Router;
    use axum::extract::ConnectInfo;
    use axum::http::StatusCode;
    use axum::routing::post;
    use axum_server::tls_rustls::RustlsConfig;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use serde_json::json;
    use supercluster::message::{
        CommitKey, CommitOutcome, CommitTarget, PodObject, Refusal, RefusalCode, Snapshot,
        TryNumber,
    };

    use super::super::outbox::tests::sample_request;
    use super::*;
    use crate::metrics::Metrics;

    /// The trouble of an agent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Trouble {
        None,
        Hangs,
        SpeaksAnotherVersion,
        SpeaksNonsense,
        AnswersOthers,
        SaysTooMuch,
        HasAnExpiredCertificate,
    }

    async fn answer(trouble: Trouble) -> String {
        match trouble {
            Trouble::Hangs => std::future::pending().await,
            Trouble::SpeaksAnotherVersion => {
                json!({"apiVersion": "supercluster.loadmaster.io/v9"}).to_string()
            }
            Trouble::AnswersOthers => {
                let outcome = SampleOutcome::Refusal(Refusal::new(RefusalCode::Failed, "text"));
                json!(Versioned::new(SampleAnswer { index: 7, outcome })).to_string()
            }
            Trouble::SaysTooMuch => format!("{{\"reason\": {:?}", "x".repeat(MAX_ANSWER)),
            Trouble::None | Trouble::SpeaksNonsense | Trouble::HasAnExpiredCertificate => {
                "<html>".to_owned()
            }
        }
    }

    /// Starts an agent with this trouble and these routes, and returns its client.
    async fn agent(folder: &std::path::Path, trouble: Trouble, routes: Router) -> AgentClient {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        if trouble == Trouble::HasAnExpiredCertificate {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let authority = folder.join(format!("{trouble:?}.crt"));
        std::fs::write(&authority, certificate.pem()).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let tls = RustlsConfig::from_config(Arc::new(tls));
        let server = axum_server::from_tcp_rustls(listener, tls).unwrap();
        let routes = routes.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(server.serve(routes));
        let member = json!({"name": "eu", "server": format!("https://{address}"),
            "certificateAuthority": authority});
        let member: Member = serde_json::from_value(member).unwrap();
        let metrics = Metrics::new().rest_client();
        let timeout = match trouble {
            Trouble::Hangs => Duration::from_millis(500),
            _ => Duration::from_secs(30),
        };
        AgentClient::new(&member, timeout, metrics).await.unwrap()
    }

    fn commit(number: u16) -> Arc<CommitRequest> {
        let number = TryNumber { attempt: 1, candidate: number };
        Arc::new(CommitRequest {
            key: CommitKey { pod: "u".into(), number },
            snapshot: Snapshot { incarnation: "i".into(), taken_ms: 0, revision: 0 },
            pod: PodObject::from_json(json!({"metadata": {"name": "p"}})).unwrap(),
            target: CommitTarget { node: "n".into(), best_of_at_least: None },
            origin: None,
            terms: None,
            copies: Arc::from([]),
        })
    }

    /// Returns the answers to three commits by place, from an agent that answers with this text.
    async fn commits(
        folder: &std::path::Path,
        status: u16,
        text: String,
    ) -> BTreeMap<usize, Result<String, String>> {
        let answer = (StatusCode::from_u16(status).unwrap(), text);
        let routes = Router::new()
            .route(&format!("{ROOT}/commit-lists"), post(move || std::future::ready(answer)));
        let client = agent(folder, Trouble::None, routes).await;
        let answers = Mutex::new(BTreeMap::new());
        let requests: Vec<_> = (0..3).map(commit).collect();
        let taken = |place, answer: Result<Response, String>| {
            let answer = answer.map(|answer| format!("{answer:?}"));
            assert!(answers.lock().unwrap().insert(place, answer).is_none(), "answered twice");
        };
        client.commits(&requests, taken).await;
        answers.into_inner().unwrap()
    }

    #[tokio::test]
    async fn every_commit_of_a_list_has_its_own_answer_or_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let line = |index: usize, text: &str| {
            let outcome = CommitOutcome::Rejected(Refusal::new(RefusalCode::Busy, text));
            let line = serde_json::to_string(&Versioned::new(CommitAnswer { index, outcome }));
            line.unwrap() + "\n"
        };
        let text = [line(2, "late"), line(0, "early"), line(0, "again"), line(7, "none")].concat();
        let answers = commits(folder.path(), 200, text).await;
        assert!(answers[&0].as_ref().unwrap().contains("early"), "{answers:?}");
        assert!(answers[&2].as_ref().unwrap().contains("late"), "{answers:?}");
        assert_eq!(answers[&1], Err("its agent gave no answer".to_owned()));
        let text = line(1, "good") + "<html>\n";
        let answers = commits(folder.path(), 200, text).await;
        assert!(answers[&1].is_ok() && answers.len() == 3, "{answers:?}");
        let error = answers[&0].as_ref().unwrap_err();
        assert!(error.starts_with("its agent gave an answer that cannot be read"), "{error}");
        let answers = commits(folder.path(), 429, String::new()).await;
        assert_eq!(answers.len(), 3);
        let error = answers[&2].as_ref().unwrap_err();
        assert!(error.starts_with("its agent answered with status 429"), "{error}");
    }

    #[tokio::test]
    async fn agent_that_is_not_ready_is_left_for_a_new_connection() {
        let folder = tempfile::tempdir().unwrap();
        let peers: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let seen = peers.clone();
        let standby_then_leader = move |ConnectInfo(peer): ConnectInfo<SocketAddr>| {
            let mut peers = seen.lock().unwrap();
            peers.push(peer);
            let status = if peers.len() == 1 { 503 } else { 429 };
            std::future::ready(StatusCode::from_u16(status).unwrap())
        };
        let routes = Router::new().route(&format!("{ROOT}/seals"), post(standby_then_leader));
        let agent = agent(folder.path(), Trouble::None, routes).await;
        let seal = SealRequest { key: commit(0).key.clone() };
        for status in [503, 429, 429] {
            let error = agent.seal(&seal).await.unwrap_err();
            assert!(error.contains(&format!("status {status}")), "{error}");
        }
        let peers = peers.lock().unwrap();
        assert_ne!(peers[0], peers[1], "the next request has another connection");
        assert_eq!(peers[1], peers[2]);
    }

    #[tokio::test]
    async fn trouble_of_an_agent_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let request = Request::Sample(sample_request());
        for (trouble, expected) in [
            (Trouble::Hangs, "its agent gave no answer within 500ms"),
            (Trouble::SpeaksAnotherVersion, "supercluster.loadmaster.io/v9"),
            (Trouble::SpeaksNonsense, "its agent gave an answer that cannot be read"),
            (Trouble::AnswersOthers, "its agent gave no answer"),
            (Trouble::SaysTooMuch, "length limit exceeded"),
            (Trouble::HasAnExpiredCertificate, "certificate expired"),
        ] {
            let path = format!("{ROOT}/sample-lists");
            let routes =
                Router::new().route(&path, post(async move || answer(trouble).await + "\n"));
            let agent = agent(folder.path(), trouble, routes).await;
            let error = agent.call(&request).await.unwrap_err();
            assert!(error.contains(expected), "{trouble:?}: {error}");
        }
    }
}
