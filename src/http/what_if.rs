//! `/whatif/`: what a change of the cluster does to its pods. `what_if.json` describes it.
//!
//! A caller needs permission for the path, and `list` on all pods and nodes, of which the answer
//! has names. One question of this kind or of `/explain/` is worked on at a time.

use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use dry_run::Limit;
use dry_run::what_if::WhatIf;
use serde::Deserialize;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::App;
use super::access::ResourceAccess;
use super::authentication::User;
use super::explain::{Refusal, attributes, copy, of_all_pods, permit, respond, turn};
use crate::what_if::{self, Options, Trial};

/// Maximum size of a change in bytes: a thousand pods of 8 KiB.
pub(super) const MAX_BODY: usize = 8 * 1024 * 1024;
/// Time after which a dry run makes no further attempt.
const LIMIT: Duration = Duration::from_secs(20);

/// The document that describes the endpoint.
const OPENAPI: &str = include_str!("what_if.json");

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
    query: Result<Query<WhatIfQuery>, axum::extract::rejection::QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let asked = async {
        permit(&access, &user, attributes("list", "pods", "", ""), of_all_pods).await?;
        permit(&access, &user, attributes("list", "nodes", "", ""), of_all_pods).await?;
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

async fn answer(app: &App, query: WhatIfQuery, text: String) -> Result<WhatIf, Refusal> {
    let trial = app.explainer.trial.clone();
    let trial =
        trial.ok_or(Refusal::Off("this scheduler tries no changes: it runs without --whatif"))?;
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

/// Shows the document that describes the endpoint.
pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}
