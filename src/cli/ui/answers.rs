//! The answers that the page shows, of a scheduler, a dump or a recording.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use axum::extract::Query;
use axum::http::Uri;
use explain::Filter;
use framework::{PodKey, Registry};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::dump::Local;
use super::super::explain::{Dump, DumpGates, DumpSettings, Source, ask_async, escaped};
use super::super::replay::Moments;
use crate::http::{LIST, MAX_LIST};

/// Answers questions by the path that a scheduler has below `/explain/`.
#[derive(Clone)]
pub(super) enum Answers {
    /// Asks the scheduler with each question.
    Scheduler(Source),
    /// Answers one question at a time.
    Dump { text: String, dump: Arc<Mutex<Dump>> },
    /// Answers at a moment, which can be moved.
    Recording { text: String, moments: Arc<Mutex<Moments>> },
}

impl Answers {
    /// # Errors
    /// The recording cannot be read.
    pub(super) fn of_recording(path: &Path, registry: Registry) -> anyhow::Result<Self> {
        let moments = Arc::new(Mutex::new(Moments::open(path, registry)?));
        Ok(Self::Recording { text: format!("recording {}", path.display()), moments })
    }

    /// # Errors
    /// The dump cannot be read.
    pub(super) fn new(
        source: &Source,
        gates: &DumpGates,
        registry: Registry,
    ) -> anyhow::Result<Self> {
        let Some(Local { origins, level }) = source.local()? else {
            return Ok(Self::Scheduler(source.clone()));
        };
        let gates = gates.gates(level)?;
        let settings = DumpSettings { config: source.config.as_deref(), gates };
        let dump = Dump::read(&origins, settings, registry)?;
        let dump = Arc::new(Mutex::new(dump));
        Ok(Self::Dump { text: source.text(), dump })
    }

    /// Describes where the answers come from.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Scheduler(source) => source.text(),
            Self::Dump { text, .. } | Self::Recording { text, .. } => text.clone(),
        }
    }

    /// Whether there are new decisions over time.
    pub(super) const fn is_live(&self) -> bool {
        matches!(self, Self::Scheduler(_))
    }

    /// Returns the moment of a recording that is shown.
    pub(super) fn moment(&self) -> Option<Value> {
        let Self::Recording { moments, .. } = self else { return None };
        Some(moments.lock().unwrap_or_else(PoisonError::into_inner).place())
    }

    /// Returns what a change does, with the nodes, as JSON.
    ///
    /// # Errors
    /// There is no answer, for this reason.
    pub(super) async fn what_if(&self, change: Vec<u8>) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Scheduler(source) => {
                ask_async(source, "/whatif/v1?nodes=true", Some(change)).await
            }
            Self::Dump { dump, .. } => {
                let dump = dump.clone();
                let ask = move || {
                    let dump = dump.lock().unwrap_or_else(PoisonError::into_inner);
                    what_if_of_dump(&dump, change)
                };
                tokio::task::spawn_blocking(ask).await?
            }
            Self::Recording { moments, .. } => {
                let moments = moments.clone();
                let ask = move || {
                    let mut moments = moments.lock().unwrap_or_else(PoisonError::into_inner);
                    what_if_of_dump(moments.dump(), change)
                };
                tokio::task::spawn_blocking(ask).await?
            }
        }
    }

    /// Returns which moves make room for a pending pod, as JSON.
    ///
    /// # Errors
    /// There is no answer, for this reason.
    pub(super) async fn room(&self, pod: PodKey) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Scheduler(source) => {
                let (namespace, name) = (escaped(&pod.namespace), escaped(&pod.name));
                let path = format!("/whatif/v1/room/pods/{namespace}/{name}");
                ask_async(source, &path, None).await
            }
            Self::Dump { dump, .. } => {
                let dump = dump.clone();
                let ask =
                    move || json(&dump.lock().unwrap_or_else(PoisonError::into_inner).room(&pod)?);
                tokio::task::spawn_blocking(ask).await?
            }
            Self::Recording { moments, .. } => {
                let moments = moments.clone();
                let ask = move || {
                    let mut moments = moments.lock().unwrap_or_else(PoisonError::into_inner);
                    json(&moments.dump().room(&pod)?)
                };
                tokio::task::spawn_blocking(ask).await?
            }
        }
    }

    /// Returns an answer as JSON.
    ///
    /// # Errors
    /// There is no answer, for this reason.
    pub(super) async fn get(&self, path: String) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Scheduler(source) => ask_async(source, &format!("/explain/{path}"), None).await,
            Self::Dump { dump, .. } => {
                let dump = dump.clone();
                // A question that panicked has changed nothing that the next one reads.
                let ask = move || {
                    of_dump(&mut dump.lock().unwrap_or_else(PoisonError::into_inner), &path)
                };
                tokio::task::spawn_blocking(ask).await?
            }
            Self::Recording { moments, .. } => {
                let moments = moments.clone();
                let ask = move || {
                    let mut moments = moments.lock().unwrap_or_else(PoisonError::into_inner);
                    of_recording(&mut moments, &path)
                };
                tokio::task::spawn_blocking(ask).await?
            }
        }
    }
}

fn what_if_of_dump(dump: &Dump, change: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let text = String::from_utf8(change).context("the change is no UTF-8 text")?;
    json(&dump.what_if(text)?)
}

/// Answers at a moment. `moment?seconds=N` moves to another one first.
fn of_recording(moments: &mut Moments, path: &str) -> anyhow::Result<Vec<u8>> {
    match path.strip_prefix("moment?seconds=") {
        Some(seconds) => {
            moments.move_to(seconds.parse().context("the moment is no number of seconds")?)?;
            json(&moments.place())
        }
        None => of_dump(moments.dump(), path),
    }
}

/// The parameters of a question.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parameters {
    node: Option<String>,
    label: Option<String>,
    q: String,
    pending: bool,
    limit: Option<usize>,
}

impl Parameters {
    fn of(path: &str) -> anyhow::Result<Self> {
        let uri: Uri = format!("/{path}").parse().context("the question is no path")?;
        Ok(Query::try_from_uri(&uri).context("the parameters cannot be read")?.0)
    }

    fn filter(&self) -> Filter {
        let limit = self.limit.unwrap_or(LIST).min(MAX_LIST);
        Filter { words: self.q.clone(), pending: self.pending, limit }
    }
}

fn of_dump(dump: &mut Dump, path: &str) -> anyhow::Result<Vec<u8>> {
    let parameters = Parameters::of(path)?;
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    let node = parameters.node.clone();
    let parts: Vec<String> = path.split('/').map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts[..] {
        ["pods", namespace, name] => {
            json(&dump.pod(&PodKey::new(namespace, name), node.as_deref())?)
        }
        ["groups", namespace, name] => json(&dump.group(namespace, name)?),
        ["podgroups", namespace, name] => json(&dump.pod_group(namespace, name)?),
        ["nodes", name] => json(&dump.node(name)?),
        ["nodes"] => json(&dump.nodes(parameters.label.as_deref())),
        ["pods"] => json(&dump.pods(&parameters.filter())),
        ["groups"] => json(&dump.groups(&parameters.filter())),
        ["podgroups"] => json(&dump.pod_groups(&parameters.filter())),
        ["quotas"] => json(&dump.quotas()),
        ["names"] => json(&dump.names(&parameters.filter())),
        ["cluster"] => json(&dump.cluster()),
        _ => bail!("there is no answer at {path}"),
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn json(answer: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    Ok(serde_json::to_vec(answer)?)
}
