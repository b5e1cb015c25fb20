//! Dumps: the objects of a cluster that the tools read, without what may hold credentials.
//!
//! [`read`] lists each kind of the table in `kinds` in pages, leaves out of each object what no
//! tool reads (`redaction`), and renames on demand (`Anonymizer`). A dump is a List in JSON, one
//! object a line.

mod anonymizer;
mod kinds;
mod redaction;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ::kinds::Kind;
use http::StatusCode;
use serde_json::Value;
use thiserror::Error;

pub use self::anonymizer::Anonymizer;
use self::kinds::{complete, field_selector, is_needed};
use crate::api_client::{ApiClient, JSON, no_response, read_body};

/// Number of objects that are asked for at once, as by kubectl.
const PAGE: usize = 500;
/// Time for one page.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of lists of a kind that are begun because the server has forgotten where a page ends.
const LISTS: usize = 3;

/// Why a cluster cannot be dumped.
#[derive(Debug, Error)]
pub enum DumpError {
    /// A list was not answered.
    #[error("cannot list {kind}: {reason}")]
    List {
        /// The kind, as kubectl names it.
        kind: &'static str,
        /// The reason.
        reason: String,
    },
    /// A kind without which a dump is of no use cannot be read.
    #[error("cannot list {kind}, which every tool reads: {reason}")]
    Needed {
        /// The kind, as kubectl names it.
        kind: &'static str,
        /// The reason.
        reason: String,
    },
}

/// The objects of a cluster.
#[derive(Debug, Default)]
pub struct Dump {
    /// The objects as JSON, in the order of the table of kinds and of the server.
    pub objects: Vec<Box<str>>,
    /// Kinds that the cluster does not have.
    pub absent: Vec<&'static str>,
    /// Kinds that the caller may not list.
    pub forbidden: Vec<&'static str>,
}

impl Dump {
    /// Returns the dump as a List in JSON.
    pub fn text(&self) -> String {
        let mut text = "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n".to_owned();
        text += &self.objects.join(",\n");
        text + "\n]}\n"
    }

    /// Returns what is to be said about kinds that are left out.
    pub fn notes(&self) -> Vec<String> {
        let note = |kinds: &[&str], reason: &str| {
            (!kinds.is_empty()).then(|| format!("{reason}: {}", kinds.join(", ")))
        };
        let absent = note(&self.absent, "left out, because the cluster does not have them");
        let forbidden = note(&self.forbidden, "left out, because the caller may not list them");
        absent.into_iter().chain(forbidden).collect()
    }
}

/// Reads the objects of a cluster. Secrets and ConfigMaps are not asked for.
///
/// # Errors
/// The server does not answer, or the caller may not list nodes or pods.
pub async fn read(
    client: &ApiClient,
    mut anonymizer: Option<&mut Anonymizer>,
) -> Result<Dump, DumpError> {
    let mut dump = Dump::default();
    for kind in kinds::all() {
        match in_newest_version(client, kind, anonymizer.as_deref_mut()).await {
            Ok(mut objects) => dump.objects.append(&mut objects),
            Err(Failure::Failed(reason)) => {
                return Err(DumpError::List { kind: kind.resource, reason });
            }
            Err(Failure::Absent(reason) | Failure::Forbidden(reason)) if is_needed(kind) => {
                return Err(DumpError::Needed { kind: kind.resource, reason });
            }
            Err(Failure::Absent(_)) => dump.absent.push(kind.resource),
            Err(Failure::Forbidden(_)) => dump.forbidden.push(kind.resource),
            Err(Failure::Expired) => {
                let reason = "the server forgets where its pages end".to_owned();
                return Err(DumpError::List { kind: kind.resource, reason });
            }
        }
    }
    Ok(dump)
}

/// Why a kind was not read.
enum Failure {
    /// The server does not have the kind.
    Absent(String),
    Forbidden(String),
    /// The server no longer knows where the last page ended.
    Expired,
    Failed(String),
}

/// Reads the objects in the newest version in which the server has the kind.
async fn in_newest_version(
    client: &ApiClient,
    kind: &Kind,
    mut anonymizer: Option<&mut Anonymizer>,
) -> Result<Vec<Box<str>>, Failure> {
    if let Some(newer) = kind.newer() {
        let listed = of_kind(client, newer, anonymizer.as_deref_mut()).await;
        if !matches!(listed, Err(Failure::Absent(_))) {
            return listed;
        }
    }
    of_kind(client, kind, anonymizer).await
}

async fn of_kind(
    client: &ApiClient,
    kind: &Kind,
    mut anonymizer: Option<&mut Anonymizer>,
) -> Result<Vec<Box<str>>, Failure> {
    for _ in 1..LISTS {
        match list(client, kind, anonymizer.as_deref_mut()).await {
            Err(Failure::Expired) => {}
            listed => return listed,
        }
    }
    list(client, kind, anonymizer).await
}

async fn list(
    client: &ApiClient,
    kind: &Kind,
    mut anonymizer: Option<&mut Anonymizer>,
) -> Result<Vec<Box<str>>, Failure> {
    let (mut objects, mut next) = (Vec::new(), String::new());
    loop {
        let mut page = page(client, kind, &next).await?;
        next = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        let Value::Array(items) = page["items"].take() else { return Ok(objects) };
        for mut object in items {
            complete(kind, &mut object);
            redaction::redact(&mut object);
            if let Some(anonymizer) = anonymizer.as_deref_mut() {
                anonymizer.rename(&mut object);
            }
            objects.push(object.to_string().into());
        }
        if next.is_empty() {
            return Ok(objects);
        }
    }
}

async fn page(client: &ApiClient, kind: &Kind, next: &str) -> Result<Value, Failure> {
    let mut path = format!("{}?limit={PAGE}", kind.path());
    if let Some(selector) = field_selector(kind) {
        path += &format!("&fieldSelector={}", escaped(selector));
    }
    if !next.is_empty() {
        path += &format!("&continue={}", escaped(next));
    }
    let exchange = async {
        let response = client.get_as(&path, JSON).await.map_err(Failure::Failed)?;
        let status = response.status();
        let body = read_body(response.into_body()).await;
        Ok((status, body.map_err(|error| Failure::Failed(error.to_string()))?))
    };
    let waited = tokio::time::timeout(TIMEOUT, exchange).await;
    let (status, body) = waited.map_err(|_| Failure::Failed(no_response(TIMEOUT)))??;
    if status == StatusCode::OK {
        return serde_json::from_slice(&body).map_err(|error| Failure::Failed(error.to_string()));
    }
    let reason = message(&body).unwrap_or_else(|| status.to_string());
    Err(match status {
        StatusCode::NOT_FOUND => Failure::Absent(reason),
        StatusCode::FORBIDDEN => Failure::Forbidden(reason),
        StatusCode::GONE => Failure::Expired,
        _ => Failure::Failed(reason),
    })
}

/// Returns the message of a Status.
fn message(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    status["message"].as_str().map(str::to_owned)
}

fn escaped(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
