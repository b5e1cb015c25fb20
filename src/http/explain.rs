//! `/explain/`: questions about pods, nodes, controllers and the cluster.
//!
//! A caller needs permission for the path, like for `/metrics`, and for what the answer shows:
//! `get` on the pod or node, `list` on pods. A pod that the caller may not read is answered like a
//! pod that does not exist.
//!
//! The scheduling loop only copies the cluster, in slices. Everything else is computed on a
//! separate thread, for one question at a time and for a limited time, in an engine that is kept
//! for a while for the next question.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::explain::{
    ClusterAnswer, CopiedNodes, Filter, Follower, GroupAnswer, Lab, NodeAnswer, PodAnswer,
    PodGroupAnswer, explain_cluster, explain_group, explain_node, explain_pod, explain_pod_group,
    explain_quotas, find_names, list_groups, list_nodes, list_pod_groups, list_pods,
};
use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::EngineConfig;
use framework::PodKey;
use futures::future::BoxFuture;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};
use tracing::error;

use super::App;
use super::access::ResourceAccess;
use super::authentication::User;
use crate::scheduling_loop::{Copied, EventSender};
use crate::what_if::Trial;

/// Maximum number of questions that are worked on or wait; further ones are refused.
const QUESTIONS: usize = 8;
/// Time after which no further trial is made.
const TRIALS_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for one answer, with the wait for earlier answers.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time for which the engine of the last question is kept.
const KEPT: Duration = Duration::from_mins(3);

/// Number of rows of a list, unless the question names it.
pub(crate) const LIST: usize = 200;
/// Maximum number of rows of a list.
pub(crate) const MAX_LIST: usize = 5_000;

const JSON: [(HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

/// Makes the configuration of an engine with separate plugins, so that trials cannot touch the
/// plugins of the scheduler.
type NewConfig = dyn Fn() -> Result<EngineConfig, String> + Send + Sync;

/// Answers questions about pods, and about a node for them, in a role other than the scheduler of
/// one cluster; `None` for a pod that it does not know, and an error for a node that it cannot ask
/// about.
pub type ExplainPod = Arc<
    dyn Fn(PodKey, Option<String>) -> BoxFuture<'static, Result<Option<Value>, String>>
        + Send
        + Sync,
>;

/// Answers questions, a few at a time.
#[derive(Clone)]
pub struct Explainer {
    new_config: Arc<NewConfig>,
    /// Questions that are worked on or wait.
    admitted: Arc<Semaphore>,
    /// The question that is worked on.
    working: Arc<Semaphore>,
    /// What answers leave out.
    notes: Arc<[String]>,
    kept: Arc<Kept>,
    /// Tries changes; `None` if the scheduler does not answer such questions.
    pub(super) trial: Option<Arc<Trial>>,
    /// Answers in place of the scheduling loop.
    role: Option<ExplainPod>,
}

/// The engine of the last question, so that the next one needs only what has changed since.
#[derive(Default)]
struct Kept(Mutex<Option<(Follower, AbortHandle)>>);

impl Kept {
    fn take(&self) -> Option<Follower> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.map(|(follower, release)| {
            release.abort();
            follower
        })
    }

    /// Returns what a copy for the engine compares with, and keeps the engine for another while.
    fn known(self: &Arc<Self>) -> Option<Arc<CopiedNodes>> {
        let follower = self.take()?;
        let known = follower.known().clone();
        self.put(follower);
        Some(known)
    }

    /// Keeps an engine until it is taken, or for a while.
    fn put(self: &Arc<Self>, follower: Follower) {
        let kept = self.clone();
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let release = tokio::spawn(async move {
            sleep(KEPT).await;
            // It takes milliseconds to free a large engine.
            spawn_blocking(move || kept.0.lock().unwrap_or_else(PoisonError::into_inner).take());
        });
        *place = Some((follower, release.abort_handle()));
    }
}

impl fmt::Debug for Explainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explainer").finish_non_exhaustive()
    }
}

impl Explainer {
    /// Creates an explainer whose engines have this configuration. `notes` say what its answers
    /// leave out.
    pub fn new(
        new_config: impl Fn() -> Result<EngineConfig, String> + Send + Sync + 'static,
        notes: Vec<String>,
    ) -> Self {
        Self {
            new_config: Arc::new(new_config),
            admitted: Arc::new(Semaphore::new(QUESTIONS)),
            working: Arc::new(Semaphore::new(1)),
            notes: notes.into(),
            kept: Arc::default(),
            trial: None,
            role: None,
        }
    }

    /// Lets a role answer questions about pods. It answers no others.
    pub fn with_role(self, role: ExplainPod) -> Self {
        Self { role: Some(role), ..self }
    }

    /// Whether a role answers questions about pods.
    pub(super) const fn has_role(&self) -> bool {
        self.role.is_some()
    }

    /// Answers at `/whatif/`, too.
    pub fn with_trial(self, trial: Trial) -> Self {
        Self { trial: Some(Arc::new(trial)), ..self }
    }
}

/// A reason for which there is no answer.
pub(super) enum Refusal {
    /// The object does not exist, or the caller may not read it.
    Unknown(String),
    Forbidden(String),
    /// The scheduler does not answer such questions.
    Off(&'static str),
    /// The question cannot be understood.
    Invalid(String),
    TooLarge(String),
    Busy,
    NotReady(&'static str),
    TimedOut,
    Failed(String),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (code, message) = match self {
            Self::Unknown(what) => (
                StatusCode::NOT_FOUND,
                format!("{what} is not known to this scheduler, or the caller may not read it"),
            ),
            Self::Forbidden(what) => (StatusCode::FORBIDDEN, what),
            Self::Off(reason) => (StatusCode::NOT_FOUND, reason.to_owned()),
            Self::Invalid(what) => (StatusCode::BAD_REQUEST, what),
            Self::TooLarge(what) => (StatusCode::PAYLOAD_TOO_LARGE, what),
            Self::Busy => (
                StatusCode::TOO_MANY_REQUESTS,
                "too many questions at once: try again in a moment".to_owned(),
            ),
            Self::NotReady(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason.to_owned()),
            Self::TimedOut => (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("no answer within {} s: the scheduler is busy", TIMEOUT.as_secs()),
            ),
            Self::Failed(reason) => {
                error!(err = reason, "Cannot answer a question");
                (StatusCode::INTERNAL_SERVER_ERROR, "the question cannot be answered".to_owned())
            }
        };
        let retry = (code == StatusCode::TOO_MANY_REQUESTS).then_some([(header::RETRY_AFTER, "1")]);
        (code, retry, JSON, json!({"message": message}).to_string()).into_response()
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct PodQuery {
    node: Option<String>,
}

/// Answers about one pod, and with `?node=NAME` about one node for it.
pub(super) async fn pod(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
    Path((namespace, name)): Path<(String, String)>,
    Query(query): Query<PodQuery>,
) -> Response {
    let unknown = || Refusal::Unknown(format!("pod {namespace}/{name}"));
    let asked = async {
        permit(&access, &user, attributes("get", "pods", &namespace, &name), unknown).await?;
        if let Some(role) = &app.explainer.role {
            let _admitted = admit_to_role(&app)?;
            let answering = role(PodKey::new(&namespace, &name), query.node);
            let answer = timeout(TIMEOUT, answering).await.map_err(|_| Refusal::TimedOut)?;
            let answer = answer.map_err(Refusal::Invalid)?;
            return answer.map(Answered::Role).ok_or_else(unknown);
        }
        let all = attributes("list", "pods", "", "");
        let sees_all = permits(&access, &user, all).await?;
        let admitted = admit(&app).await?;
        let copied = &admitted.copied;
        let key = PodKey::new(&namespace, &name);
        let known = copied.cluster.pod(&key).map(|pod| pod.uid.clone());
        let uid = known.ok_or_else(unknown)?;
        let facts = events(&app)?.facts(key, uid).await.ok_or_else(unknown)?;
        let notes = notes(&app, copied);
        let node = query.node;
        let answer = work(&app, admitted, move |lab| {
            let mut answer: PodAnswer = explain_pod(lab, facts, node.as_deref())?;
            answer.notes.extend(notes);
            if !sees_all {
                answer.restrict();
            }
            Some(answer)
        });
        let answer = answer.await?.ok_or_else(unknown)?;
        Ok(Answered::Scheduler(Box::new(answer)))
    };
    respond(asked.await)
}

/// An answer about a pod.
#[derive(Serialize)]
#[serde(untagged)]
enum Answered {
    Scheduler(Box<PodAnswer>),
    Role(Value),
}

/// Admits a question that needs no copy of the cluster, a few at a time.
fn admit_to_role(app: &App) -> Result<OwnedSemaphorePermit, Refusal> {
    if !app.health.is_synced() {
        return Err(Refusal::NotReady("the watches have not synced yet"));
    }
    app.explainer.admitted.clone().try_acquire_owned().map_err(|_| Refusal::Busy)
}

/// Answers about the pods of one controller.
pub(super) async fn group(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let unknown = format!("a pod of a controller {namespace}/{name}");
    let explain = move |lab: &mut Lab<'_>, namespace: &str| explain_group(lab, namespace, &name);
    of_namespace(&app, &user, &access, Namespaced { namespace, unknown, explain }).await
}

/// Answers about a PodGroup.
pub(super) async fn pod_group(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let unknown = format!("PodGroup {namespace}/{name}");
    let explain =
        move |lab: &mut Lab<'_>, namespace: &str| explain_pod_group(lab, namespace, &name);
    of_namespace(&app, &user, &access, Namespaced { namespace, unknown, explain }).await
}

/// A question about pods of one namespace.
struct Namespaced<E> {
    namespace: String,
    /// What the question is about, for a refusal.
    unknown: String,
    explain: E,
}

/// An answer about pods of one namespace.
trait OfNamespace: Serialize + Send + 'static {
    fn notes(&mut self) -> &mut Vec<String>;

    /// Removes what the caller may not read, which may list only the pods of the namespace.
    fn restrict(&mut self);
}

impl OfNamespace for GroupAnswer {
    fn notes(&mut self) -> &mut Vec<String> {
        &mut self.notes
    }

    fn restrict(&mut self) {
        Self::restrict(self);
    }
}

impl OfNamespace for PodGroupAnswer {
    fn notes(&mut self) -> &mut Vec<String> {
        &mut self.notes
    }

    fn restrict(&mut self) {
        Self::restrict(self);
    }
}

/// Answers a caller that may list the pods of a namespace.
async fn of_namespace<A: OfNamespace>(
    app: &App,
    user: &User,
    access: &ResourceAccess,
    question: Namespaced<impl FnOnce(&mut Lab<'_>, &str) -> Option<A> + Send + 'static>,
) -> Response {
    let Namespaced { namespace, unknown, explain } = question;
    let unknown = || Refusal::Unknown(unknown.clone());
    let asked = async {
        permit(access, user, attributes("list", "pods", &namespace, ""), unknown).await?;
        let sees_all = permits(access, user, attributes("list", "pods", "", "")).await?;
        let admitted = admit(app).await?;
        let (namespace, notes) = (namespace.clone(), app.explainer.notes.clone());
        let answer = work(app, admitted, move |lab| {
            let mut answer = explain(lab, &namespace)?;
            answer.notes().extend_from_slice(&notes);
            if !sees_all {
                answer.restrict();
            }
            Some(answer)
        });
        answer.await?.ok_or_else(unknown)
    };
    respond(asked.await)
}

/// Answers about one node.
pub(super) async fn node(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
    Path(name): Path<String>,
) -> Response {
    let unknown = || Refusal::Unknown(format!("node {name}"));
    let asked = async {
        permit(&access, &user, attributes("get", "nodes", "", &name), unknown).await?;
        permit(&access, &user, attributes("list", "pods", "", ""), of_all_pods).await?;
        let admitted = admit(&app).await?;
        let node = name.clone();
        let notes = app.explainer.notes.to_vec();
        let explain =
            move |lab: &mut Lab<'_>| Some(NodeAnswer { notes, ..explain_node(lab, &node)? });
        let answer = work(&app, admitted, explain);
        answer.await?.ok_or_else(unknown)
    };
    respond(asked.await)
}

#[derive(Debug, Deserialize)]
pub(super) struct NodesQuery {
    label: Option<String>,
}

/// Lists all nodes, and with `?label=KEY` their values of a label.
pub(super) async fn nodes(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
    Query(query): Query<NodesQuery>,
) -> Response {
    let list = move |lab: &mut Lab<'_>| list_nodes(lab.cluster(), query.label.as_deref());
    of_cluster(&app, &user, &access, list).await
}

/// The rows of a list. The JSON form of an answer that names no limit stays small.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListQuery {
    q: String,
    pending: bool,
    limit: Option<usize>,
}

impl From<ListQuery> for Filter {
    fn from(query: ListQuery) -> Self {
        let limit = query.limit.unwrap_or(LIST).min(MAX_LIST);
        Self { words: query.q, pending: query.pending, limit }
    }
}

/// Lists pods.
pub(super) async fn pods(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
    Query(query): Query<ListQuery>,
) -> Response {
    of_cluster(&app, &user, &access, move |lab| list_pods(lab, &query.into())).await
}

/// Lists controllers of pods.
pub(super) async fn groups(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
    Query(query): Query<ListQuery>,
) -> Response {
    of_cluster(&app, &user, &access, move |lab| list_groups(lab, &query.into())).await
}

/// Lists PodGroups.
pub(super) async fn pod_groups(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
    Query(query): Query<ListQuery>,
) -> Response {
    of_cluster(&app, &user, &access, move |lab| list_pod_groups(lab, &query.into())).await
}

/// Answers about quotas.
pub(super) async fn quotas(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
) -> Response {
    of_cluster(&app, &user, &access, |lab| explain_quotas(lab.cluster())).await
}

/// Finds names of pods, nodes and controllers.
pub(super) async fn names(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
    Query(query): Query<ListQuery>,
) -> Response {
    of_cluster(&app, &user, &access, move |lab| find_names(lab, &query.into())).await
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct DecisionsQuery {
    #[serde(default)]
    after: u64,
}

/// Returns the latest decisions. It copies nothing, so that a page may ask every second.
pub(super) async fn decisions(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
    Query(query): Query<DecisionsQuery>,
) -> Response {
    let asked = async {
        permit(&access, &user, attributes("list", "pods", "", ""), of_all_pods).await?;
        let _admitted = admit_to_role(&app)?;
        let decisions = timeout(TIMEOUT, events(&app)?.decisions(query.after)).await;
        let decisions = decisions.map_err(|_| Refusal::TimedOut)?;
        decisions.ok_or(Refusal::NotReady("the scheduler stops"))
    };
    respond(asked.await)
}

/// Answers about the cluster.
pub(super) async fn cluster(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
) -> Response {
    let notes = app.explainer.notes.to_vec();
    let explain = move |lab: &mut Lab<'_>| ClusterAnswer { notes, ..explain_cluster(lab) };
    of_cluster(&app, &user, &access, explain).await
}

/// Answers a caller that may list all nodes and pods.
async fn of_cluster<T: Serialize + Send + 'static>(
    app: &App,
    user: &User,
    access: &ResourceAccess,
    answer: impl FnOnce(&mut Lab<'_>) -> T + Send + 'static,
) -> Response {
    let asked = async {
        permit(access, user, attributes("list", "pods", "", ""), of_all_pods).await?;
        permit(access, user, attributes("list", "nodes", "", ""), of_all_pods).await?;
        let admitted = admit(app).await?;
        work(app, admitted, answer).await
    };
    respond(asked.await)
}

pub(super) fn of_all_pods() -> Refusal {
    Refusal::Forbidden(
        "the answer shows pods of all namespaces: it needs list on pods and nodes".into(),
    )
}

pub(super) fn respond(asked: Result<impl Serialize, Refusal>) -> Response {
    match asked.map(|answer| serde_json::to_vec(&answer)) {
        Ok(Ok(text)) => (JSON, text).into_response(),
        Ok(Err(error)) => Refusal::Failed(error.to_string()).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

pub(super) fn attributes(
    verb: &str,
    resource: &str,
    namespace: &str,
    name: &str,
) -> ResourceAttributes {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ResourceAttributes {
        verb: text(verb),
        resource: text(resource),
        version: text("v1"),
        namespace: text(namespace),
        name: text(name),
        ..ResourceAttributes::default()
    }
}

async fn permits(
    access: &ResourceAccess,
    user: &User,
    attributes: ResourceAttributes,
) -> Result<bool, Refusal> {
    access.permits(user, attributes).await.map_err(|error| Refusal::Failed(error.to_string()))
}

pub(super) async fn permit(
    access: &ResourceAccess,
    user: &User,
    attributes: ResourceAttributes,
    refusal: impl FnOnce() -> Refusal,
) -> Result<(), Refusal> {
    match permits(access, user, attributes).await? {
        true => Ok(()),
        false => Err(refusal()),
    }
}

fn notes(app: &App, copied: &Copied) -> Vec<String> {
    let standby = (!copied.leads).then(|| {
        "this replica does not lead: the history of attempts is that of the leader".to_owned()
    });
    app.explainer.notes.iter().cloned().chain(standby).collect()
}

/// Returns the scheduling loop. There are explanations only if there is one.
fn events(app: &App) -> Result<&EventSender, Refusal> {
    app.events.as_ref().ok_or(Refusal::NotReady("this role has no scheduling loop"))
}

/// Waits for the turn of a question, and copies the cluster.
pub(super) async fn admit(app: &App) -> Result<Admitted, Refusal> {
    let turn = turn(app).await?;
    let known = app.explainer.kept.known();
    Ok(Admitted { copied: copy(app, known).await?, _turn: turn })
}

/// Waits for the turn of a question.
pub(super) async fn turn(app: &App) -> Result<Turn, Refusal> {
    if !app.health.is_synced() {
        return Err(Refusal::NotReady("the watches have not synced yet"));
    }
    let admitted = app.explainer.admitted.clone().try_acquire_owned();
    let admitted = admitted.map_err(|_| Refusal::Busy)?;
    let working = timeout(TIMEOUT, app.explainer.working.clone().acquire_owned()).await;
    // The semaphore is never closed.
    let working = working.map_err(|_| Refusal::TimedOut)?;
    let working = working.map_err(|error| Refusal::Failed(error.to_string()))?;
    Ok(Turn { _permits: [admitted, working] })
}

/// Copies the cluster, or what differs from an earlier copy.
pub(super) async fn copy(app: &App, known: Option<Arc<CopiedNodes>>) -> Result<Copied, Refusal> {
    let copied = timeout(TIMEOUT, events(app)?.copy(known)).await;
    let copied = copied.map_err(|_| Refusal::TimedOut)?;
    copied.ok_or(Refusal::NotReady("the scheduler stops"))
}

/// The turn of a question. It lasts until its answer is complete, also if the caller goes away.
pub(super) struct Turn {
    _permits: [OwnedSemaphorePermit; 2],
}

/// A question whose turn it is.
pub(super) struct Admitted {
    copied: Copied,
    _turn: Turn,
}

/// Answers on a separate thread, in an engine that knows the copy.
pub(super) async fn work<T: Send + 'static>(
    app: &App,
    admitted: Admitted,
    answer: impl FnOnce(&mut Lab<'_>) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let Explainer { new_config, kept, .. } = app.explainer.clone();
    let working = spawn_blocking(move || {
        let Admitted { copied: Copied { mut cluster, now, .. }, _turn } = admitted;
        let waits = cluster.take_group_waits();
        let mut follower = match kept.take() {
            Some(follower) => follower,
            None => Follower::new(new_config()?),
        };
        // The engine is kept for longer than a copy may take.
        follower.follow(cluster, now).ok_or("the copy belongs to another engine")?;
        let end = Instant::now() + TRIALS_TIMEOUT;
        let is_over = || Instant::now() >= end;
        let lab = Lab::new(follower.engine(), now, &is_over);
        let answer = answer(&mut lab.with_group_waits(waits));
        // A panic leaves no engine behind.
        kept.put(follower);
        Ok::<T, String>(answer)
    });
    let worked = working.await.map_err(|error| Refusal::Failed(error.to_string()))?;
    worked.map_err(Refusal::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follower() -> Follower {
        let config = crate::config::defaults(&crate::config::Gates::default());
        let profiles = config.build_profiles(&plugins::registry()).unwrap();
        Follower::new(EngineConfig::new(profiles))
    }

    #[tokio::test(start_paused = true)]
    async fn engine_is_kept_for_a_while_after_each_question() {
        let kept = Arc::new(Kept::default());
        kept.put(follower());
        sleep(KEPT / 2).await;
        let taken = kept.take().expect("it is kept");
        sleep(KEPT).await;
        kept.put(taken);
        sleep(KEPT / 2).await;
        assert!(kept.0.lock().unwrap().is_some(), "the time of the first question does not count");
        sleep(KEPT).await;
        while kept.0.lock().unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    }
}
