//! The HTTPS clients of agents.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context;
use client::{Method, Reply};
use futures::future::join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use supercluster::message::{
    self, Diagnosis, DiagnosisRequest, MAX_LIST, Request, Response, SampleAnswer,
    SampleListResponse, SampleRequest, SealOutcome, SealRequest, Versioned,
};

use super::super::messages::{DelegateList, DeletionOutcome, DeletionRequest, ROOT};
use super::clusters::Member;
use crate::api_client::{APPLICATION_JSON, ApiClient, Credentials, JsonRequest};
use crate::metrics::{MemberMetrics, RestClient};

/// Time to wait for the answer to a commit, a seal or a deletion. The scheduler asks what became of a commit long
/// before; its answer may still come.
const TIMEOUT: Duration = Duration::from_secs(50);
/// Time to wait for the answer to a question about nodes.
const DIAGNOSIS_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to wait for the answer to a renewal.
const RENEW_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which a list of delegates waits for changes.
const LIST_WAIT: Duration = Duration::from_secs(10);
/// Time to wait for a list of delegates.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of bytes of an answer. The longest ones are pages of delegates with their statuses.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// Maximum number of bytes of the requests of a list that has more than one.
const MAX_BODY: usize = 1024 * 1024;
/// Maximum number of bytes of an error that is shown.
const MAX_SHOWN: usize = 300;

/// The agents by index of their members. A member that has left keeps its agent, because commits may be under way.
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

    /// Takes in that a cluster is no member any more.
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
        // An agent that does not answer makes one member unavailable, and not this scheduler.
        let client = ApiClient::new(&credentials, "supercluster", metrics, Arc::default());
        let client = client.with_context(context)?.with_max_response(MAX_ANSWER);
        Ok(Self { name: member.name.as_str().into(), client, sample_timeout })
    }

    /// Sends a request of the scheduler. An error means that there is no answer.
    pub(super) async fn call(&self, request: &Request) -> Result<Response, String> {
        match request {
            Request::Sample(sample) => {
                let answer = self.samples(std::slice::from_ref(sample)).await.pop();
                answer.unwrap_or_else(|| Err("no answer".to_owned()))
            }
            Request::Commit(commit) => {
                success(self.post("commits", &**commit, TIMEOUT).await?).map(Response::Commit)
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

    /// Sends several sample requests in as few messages as their size allows. Returns the answers in their order.
    pub(super) async fn samples(
        &self,
        requests: &[Arc<SampleRequest>],
    ) -> Vec<Result<Response, String>> {
        let mut lists: Vec<(usize, Vec<Box<RawValue>>)> = vec![(0, Vec::new())];
        for request in requests {
            let text = match serde_json::value::to_raw_value(&**request) {
                Ok(text) => text,
                Err(error) => return vec![Err(error.to_string()); requests.len()],
            };
            let size = text.get().len();
            match lists.last_mut() {
                Some((sum, list))
                    if list.is_empty() || (*sum + size <= MAX_BODY && list.len() < MAX_LIST) =>
                {
                    *sum += size;
                    list.push(text);
                }
                _ => lists.push((size, vec![text])),
            }
        }
        let answers = lists.iter().map(|(_, list)| self.sample_list(list));
        join_all(answers).await.into_iter().flatten().collect()
    }

    async fn sample_list(&self, requests: &[Box<RawValue>]) -> Vec<Result<Response, String>> {
        #[derive(Serialize)]
        struct List<'a> {
            requests: &'a [Box<RawValue>],
        }
        let reply = self.post("sample-lists", &List { requests }, self.sample_timeout).await;
        let answers = reply.and_then(success::<SampleListResponse>).and_then(|list| {
            let count = list.answers.len();
            match count == requests.len() {
                true => Ok(list.answers),
                false => Err(format!("its agent gave {count} answers to {}", requests.len())),
            }
        });
        match answers {
            Err(error) => vec![Err(error); requests.len()],
            Ok(answers) => answers
                .into_iter()
                .map(|answer| match answer {
                    SampleAnswer::Sample(sample) => Ok(Response::Sample(Ok(sample))),
                    SampleAnswer::Refusal(refusal) => Ok(Response::Sample(Err(refusal))),
                })
                .collect(),
        }
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
    ) -> Result<client::Response, String> {
        let body =
            serde_json::to_vec(&Versioned::new(message)).map_err(|error| error.to_string())?;
        let request = JsonRequest {
            method: Method::Post,
            path: format!("{ROOT}/{name}"),
            content_type: APPLICATION_JSON,
            body,
            timeout,
        };
        answer(self.client.request(request).await)
    }
}

/// Asks for the query parameters in the notation of forms.
fn url_encoded(pairs: &[(&str, &str)]) -> String {
    let encode = |text: &str| {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let pairs = pairs.iter().map(|(key, value)| format!("{key}={}", encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn answer(reply: Reply) -> Result<client::Response, String> {
    match reply {
        Reply::Answered(response) => Ok(response),
        Reply::Rejected(text) | Reply::NotSent(text) | Reply::Lost(text) => {
            Err(format!("its agent cannot be reached: {text}"))
        }
    }
}

fn success<T: DeserializeOwned>(response: client::Response) -> Result<T, String> {
    match response.status {
        200 => decode(&response),
        status => {
            let text: String = response.error_message().chars().take(MAX_SHOWN).collect();
            Err(format!("its agent answered with status {status}: {text}"))
        }
    }
}

fn decode<T: DeserializeOwned>(response: &client::Response) -> Result<T, String> {
    message::decode(&response.body)
        .map_err(|error| format!("its agent gave an answer that cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use axum::Router;
    use axum::routing::post;
    use axum_server::tls_rustls::RustlsConfig;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use serde_json::json;
    use supercluster::message::PodObject;

    use super::*;
    use crate::metrics::Metrics;

    /// What is wrong with an agent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Trouble {
        Hangs,
        SpeaksAnotherVersion,
        SpeaksNonsense,
        SaysTooMuch,
        HasAnExpiredCertificate,
    }

    async fn answer(trouble: Trouble) -> String {
        match trouble {
            Trouble::Hangs => std::future::pending().await,
            Trouble::SpeaksAnotherVersion => {
                json!({"apiVersion": "supercluster.loadmaster.io/v9"}).to_string()
            }
            Trouble::SaysTooMuch => format!("{{\"reason\": {:?}", "x".repeat(MAX_ANSWER)),
            Trouble::SpeaksNonsense | Trouble::HasAnExpiredCertificate => "<html>".to_owned(),
        }
    }

    /// Starts an agent with this trouble, and returns its client.
    async fn agent(folder: &std::path::Path, trouble: Trouble) -> AgentClient {
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
        let routes =
            Router::new().route(&format!("{ROOT}/sample-lists"), post(move || answer(trouble)));
        let tls = RustlsConfig::from_config(Arc::new(tls));
        let server = axum_server::from_tcp_rustls(listener, tls).unwrap();
        tokio::spawn(server.serve(routes.into_make_service()));
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

    #[tokio::test]
    async fn trouble_of_an_agent_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let pod = PodObject::from_json(json!({"metadata": {"name": "p"}})).unwrap();
        let request = Request::Sample(Arc::new(SampleRequest {
            pod,
            scheduling_retry_count: 0,
            strategy: "random".into(),
            nodes_to_sample_bp: 200,
            max_nodes: None,
            node_labels: Vec::new(),
            copies: Vec::new(),
        }));
        for (trouble, expected) in [
            (Trouble::Hangs, "no response within 500ms"),
            (Trouble::SpeaksAnotherVersion, "supercluster.loadmaster.io/v9"),
            (Trouble::SpeaksNonsense, "its agent gave an answer that cannot be read"),
            (Trouble::SaysTooMuch, "length limit exceeded"),
            (Trouble::HasAnExpiredCertificate, "certificate expired"),
        ] {
            let error = agent(folder.path(), trouble).await.call(&request).await.unwrap_err();
            assert!(error.contains(expected), "{trouble:?}: {error}");
        }
    }
}
