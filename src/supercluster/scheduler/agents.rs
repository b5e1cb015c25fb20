//! The HTTPS clients of agents.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context;
use client::{Method, Reply};
use serde::Serialize;
use serde::de::DeserializeOwned;
use supercluster::message::{
    Diagnosis, DiagnosisRequest, Refusal, Request, Response, SealOutcome, SealRequest, Versioned,
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
        let client = client.with_context(context)?;
        Ok(Self { name: member.name.as_str().into(), client, sample_timeout })
    }

    /// Sends a request of the scheduler. An error means that there is no answer.
    pub(super) async fn call(&self, request: &Request) -> Result<Response, String> {
        match request {
            Request::Sample(sample) => {
                let reply = self.post("samples", &**sample, self.sample_timeout).await?;
                if reply.status != 200
                    && let Ok(refusal) = decode::<Refusal>(&reply)
                {
                    return Ok(Response::Sample(Err(refusal)));
                }
                success(reply).map(Arc::new).map(Ok).map(Response::Sample)
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
    let message: Versioned<T> = serde_json::from_slice(&response.body)
        .map_err(|error| format!("its agent gave an answer that cannot be read: {error}"))?;
    message.into_message().map_err(|refusal| refusal.message)
}
