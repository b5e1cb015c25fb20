//! `/whatif/`: what a change of the cluster does to its pods, and which moves make room.
//! `what_if.json` describes it.
//!
//! A caller needs permission for the path, and `list` on all pods and nodes, of which the answer
//! has names. One question of this kind or of `/explain/` is worked on at a time.

use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, ExtensionRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use dry_run::Limit;
use dry_run::what_if::WhatIf;
use explain::Lab;
use framework::PodKey;
use make_room::Limits;
use make_room::report::{Asking, EmptyNodes, Options as MoveOptions, Room, ShapesRoom};
use serde::Deserialize;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::App;
use super::access::ResourceAccess;
use super::authentication::User;
use super::explain::{Refusal, admit, attributes, copy, of_all_pods, permit, respond, turn, work};
use crate::what_if::{self, Options, Trial};

/// Maximum size of a change in bytes: a thousand pods of 8 KiB.
pub(super) const MAX_BODY: usize = 8 * 1024 * 1024;
/// Time after which a dry run makes no further attempt.
const LIMIT: Duration = Duration::from_secs(20);

/// The document that describes the endpoint.
const OPENAPI: &str = include_str!("what_if.json");

const OFF: Refusal = Refusal::Off("this scheduler tries no changes: it runs without --whatif");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhatIfQuery {
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    nodes: bool,
    #[serde(default)]
    validate: Validate,
}

/// What happens to unknown fields of manifests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Validate {
    #[default]
    Strict,
    Ignore,
}

/// Answers what a change does.
pub(super) async fn ask(
    State(app): State<App>,
    Extension(user): Extension<User>,
    Extension(access): Extension<ResourceAccess>,
    query: Result<Query<WhatIfQuery>, QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let asked = async {
        permit_all(&access, &user).await?;
        let Query(query) = query.map_err(|error| Refusal::Invalid(error.body_text()))?;
        let body = body.map_err(|error| refused(&error))?;
        let text = String::from_utf8(body.into())
            .map_err(|_| Refusal::Invalid("the change is no UTF-8 text".to_owned()))?;
        answer(&app, query, text).await
    };
    respond(asked.await)
}

fn refused(error: &BytesRejection) -> Refusal {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return Refusal::TooLarge(format!("the change has more than {MAX_BODY} bytes"));
    }
    Refusal::Invalid(error.body_text())
}

/// Fails unless the caller may list all pods and nodes.
async fn permit_all(access: &ResourceAccess, user: &User) -> Result<(), Refusal> {
    permit(access, user, attributes("list", "pods", "", ""), of_all_pods).await?;
    permit(access, user, attributes("list", "nodes", "", ""), of_all_pods).await
}

async fn answer(app: &App, query: WhatIfQuery, text: String) -> Result<WhatIf, Refusal> {
    let trial = app.explainer.trial.clone().ok_or(OFF)?;
    let turn = turn(app).await?;
    let read = spawn_blocking(move || (Trial::read(text), turn)).await;
    let (change, turn) = read.map_err(|error| Refusal::Failed(error.to_string()))?;
    let change = change.map_err(Refusal::from)?;
    let copied = copy(app, None).await?;
    let end = Instant::now() + LIMIT;
    let options = Options {
        seed: query.seed,
        with_nodes: query.nodes,
        ignores_unknown: query.validate == Validate::Ignore,
        limit: Limit::new(move || Instant::now() >= end),
    };
    let working = spawn_blocking(move || {
        let _turn = turn;
        trial.answer(copied.cluster, &change, options)
    });
    let worked = working.await.map_err(|error| Refusal::Failed(error.to_string()))?;
    worked.map_err(Refusal::from)
}

impl From<what_if::Refusal> for Refusal {
    fn from(refusal: what_if::Refusal) -> Self {
        match refusal {
            what_if::Refusal::Invalid(message) => Self::Invalid(message),
            what_if::Refusal::TooLarge(message) => Self::TooLarge(message),
            what_if::Refusal::OutOfTime => {
                Self::TooLarge(format!("the dry run takes more than {} s", LIMIT.as_secs()))
            }
            what_if::Refusal::Failed(message) => Self::Failed(message),
        }
    }
}

/// How pods may be moved.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct MovesQuery {
    highest_priority: Option<i32>,
    most_moves: Option<usize>,
}

impl From<MovesQuery> for MoveOptions {
    fn from(query: MovesQuery) -> Self {
        let MoveOptions { highest_priority, limits } = Self::default();
        Self {
            highest_priority: query.highest_priority.unwrap_or(highest_priority),
            limits: Limits { moves: query.most_moves.unwrap_or(limits.moves), ..limits },
        }
    }
}

/// A question about moves of running pods.
pub(super) struct MovesQuestion {
    app: App,
    user: User,
    access: ResourceAccess,
    query: Result<Query<MovesQuery>, QueryRejection>,
}

impl FromRequestParts<App> for MovesQuestion {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let extension = |error: ExtensionRejection| error.into_response();
        let Extension(user) = Extension::from_request_parts(parts, app).await.map_err(extension)?;
        let Extension(access) =
            Extension::from_request_parts(parts, app).await.map_err(extension)?;
        let query = Query::from_request_parts(parts, app).await;
        Ok(Self { app: app.clone(), user, access, query })
    }
}

impl MovesQuestion {
    /// Answers in an engine that knows a copy of the cluster. The search ends early once the time
    /// for it is over.
    async fn answer<T: Send + 'static>(
        self,
        ask: impl FnOnce(Asking<'_>) -> T + Send + 'static,
    ) -> Result<(T, Vec<String>), Refusal> {
        let Self { app, user, access, query } = self;
        permit_all(&access, &user).await?;
        let Query(query) = query.map_err(|error| Refusal::Invalid(error.body_text()))?;
        let trial = app.explainer.trial.clone().ok_or(OFF)?;
        let admitted = admit(&app).await?;
        let ask = move |lab: &mut Lab<'_>| {
            lab.lend(|engine, now, is_over| {
                ask(Asking { engine, now, options: query.into(), is_over })
            })
        };
        let answer = work(&app, admitted, ask).await?;
        Ok((answer, trial.config.extenders_not_asked().into_iter().collect()))
    }
}

/// The number of shapes to make room for.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Shapes {
    most: usize,
}

/// Says which moves make room for one more pod of each of the largest shapes.
pub(super) async fn shapes(
    Path(Shapes { most }): Path<Shapes>,
    question: MovesQuestion,
) -> Response {
    let asked = async {
        let (found, warnings) =
            question.answer(move |asking| asking.room_for_largest(most)).await?;
        Ok(ShapesRoom { warnings, ..found })
    };
    respond(asked.await)
}

/// Says which moves make room for a pending pod, or for a PodGroup.
pub(super) async fn room(
    Path((namespace, name)): Path<(String, String)>,
    question: MovesQuestion,
) -> Response {
    let key = PodKey::new(&namespace, &name);
    let unknown = Refusal::Unknown(format!("a pod {key} without a node, or a PodGroup with one,"));
    let asked = async {
        let (room, warnings) = question.answer(move |asking| asking.room_for_pending(&key)).await?;
        let room = room.ok_or(unknown)?;
        Ok(Room { warnings, ..room })
    };
    respond(asked.await)
}

/// Says which nodes can be emptied.
pub(super) async fn empty_nodes(question: MovesQuestion) -> Response {
    let asked = async {
        let (found, warnings) = question.answer(|asking| asking.empty_nodes()).await?;
        Ok(EmptyNodes { warnings, ..found })
    };
    respond(asked.await)
}

/// Shows the document that describes the endpoint.
pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}
