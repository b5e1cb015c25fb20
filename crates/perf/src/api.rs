//! Requests to the API server, for objects of any kind as JSON.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow};
use futures::Stream;
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::discovery::{ApiResource, Scope};
use kube::core::{GroupVersionKind, WatchEvent};
use kube::{Client, Config, discovery};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A client with the rights of an administrator.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    kinds: Arc<Mutex<HashMap<(String, String), Kind>>>,
}

/// A kind of object, as the API server serves it.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    resource: ApiResource,
    namespaced: bool,
}

/// Where an object is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    kind: Kind,
    namespace: Option<String>,
}

/// A list of objects.
#[derive(Debug, Deserialize)]
pub(crate) struct List<T> {
    pub(crate) metadata: ListMeta,
    pub(crate) items: Vec<T>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMeta {
    pub(crate) resource_version: String,
}

/// An object of which only the name is read.
#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    pub(crate) metadata: NamedMeta,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NamedMeta {
    pub(crate) name: String,
}

/// Whether the API server rejects fields that it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fields {
    /// It drops them.
    Any,
    /// It rejects them.
    Known,
}

impl Kind {
    /// Whether its objects belong to namespaces.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.namespaced
    }

    /// Returns the place of its objects in a namespace, which kinds without namespaces ignore.
    pub(crate) fn within(&self, namespace: &str) -> Place {
        let namespace = self.namespaced.then(|| namespace.to_owned());
        Place { kind: self.clone(), namespace }
    }

    /// Returns the place of all its objects.
    pub(crate) fn everywhere(&self) -> Place {
        Place { kind: self.clone(), namespace: None }
    }
}

impl Place {
    fn path(&self) -> String {
        let ApiResource { group, api_version, plural, .. } = &self.kind.resource;
        let prefix = if group.is_empty() { "/api" } else { "/apis" };
        match &self.namespace {
            Some(namespace) => format!("{prefix}/{api_version}/namespaces/{namespace}/{plural}"),
            None => format!("{prefix}/{api_version}/{plural}"),
        }
    }
}

impl Api {
    /// Connects with the credentials of a kubeconfig.
    pub(crate) async fn connect(kubeconfig: &Path) -> anyhow::Result<Self> {
        let name = || kubeconfig.display().to_string();
        let file = Kubeconfig::read_from(kubeconfig).with_context(name)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(file, &options).await.with_context(name)?;
        let client = Client::try_from(config).with_context(name)?;
        Ok(Self { client, kinds: Arc::default() })
    }

    /// Returns the kind of an object.
    pub(crate) async fn kind_of(&self, object: &Value) -> anyhow::Result<Kind> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        self.kind(text("apiVersion"), text("kind")).await
    }

    /// Returns a kind in this version, or else in the version that the API server prefers or the
    /// most stable one that has it: the files of scheduler_perf use no field in which the versions
    /// of a kind differ.
    pub(crate) async fn kind(&self, api_version: &str, kind: &str) -> anyhow::Result<Kind> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.kinds.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let wanted = GroupVersionKind::gvk(group, version, kind);
        let found = match discovery::pinned_kind(&self.client, &wanted).await {
            Ok(found) => Some(found),
            Err(_) if group.is_empty() => None,
            Err(_) => {
                let group = discovery::group(&self.client, group).await.ok();
                group.and_then(|group| {
                    // The preferred version may lack the kind, as v1 of scheduling.k8s.io does.
                    group.recommended_kind(kind).or_else(|| {
                        let mut kinds = group.resources_by_stability().into_iter();
                        kinds.find(|(resource, _)| resource.kind == kind)
                    })
                })
            }
        };
        let (resource, capabilities) = found.with_context(|| {
            format!("the API server does not serve the kind {kind} of {api_version}")
        })?;
        let found = Kind { resource, namespaced: capabilities.scope == Scope::Namespaced };
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kinds.entry(key).or_insert(found).clone())
    }

    /// Reads the object of this name.
    pub(crate) async fn get(&self, place: &Place, object: &Value) -> anyhow::Result<Value> {
        let name = object["metadata"]["name"].as_str().context("the template has no name")?;
        let path = format!("{}/{name}", place.path());
        let current = self.client.request(Request::get(&path).body(Vec::new())?).await;
        current.with_context(|| format!("cannot read {path}"))
    }

    /// Creates an object.
    pub(crate) async fn create(
        &self,
        place: &Place,
        mut object: Value,
        fields: Fields,
    ) -> anyhow::Result<()> {
        object["apiVersion"] = json!(place.kind.resource.api_version);
        let path = with_fields(place.path(), fields);
        self.send(Method::POST, &path, "application/json", &object)
            .await
            .with_context(|| format!("cannot create {}", described(&object, place)))
    }

    /// Replaces an object, or a subresource of it.
    pub(crate) async fn update(
        &self,
        place: &Place,
        mut object: Value,
        subresource: Option<&str>,
    ) -> anyhow::Result<()> {
        object["apiVersion"] = json!(place.kind.resource.api_version);
        let name = object["metadata"]["name"].as_str().context("the template has no name")?;
        let path = match subresource {
            None => format!("{}/{name}", place.path()),
            Some(subresource) => format!("{}/{name}/{subresource}", place.path()),
        };
        self.send(Method::PUT, &with_fields(path, Fields::Known), "application/json", &object)
            .await
            .with_context(|| format!("cannot update {}", described(&object, place)))
    }

    /// Merges a patch into the status of an object.
    pub(crate) async fn patch_status(
        &self,
        place: &Place,
        name: &str,
        status: Value,
    ) -> anyhow::Result<()> {
        let path = format!("{}/{name}/status", place.path());
        let patch = json!({ "status": status });
        self.send(Method::PATCH, &path, "application/merge-patch+json", &patch)
            .await
            .with_context(|| format!("cannot write the status of {path}"))
    }

    /// Deletes an object; without `grace`, after the time that it allows itself. An object that
    /// does not exist is no error.
    pub(crate) async fn delete(
        &self,
        place: &Place,
        name: &str,
        grace: Option<u32>,
    ) -> anyhow::Result<()> {
        let path = format!("{}/{name}", place.path());
        let deleted = self.send(Method::DELETE, &path, "application/json", &deletion(grace)).await;
        found(deleted).with_context(|| format!("cannot delete {path}"))
    }

    /// Deletes all objects of a place with these labels.
    pub(crate) async fn delete_all(
        &self,
        place: &Place,
        labels: &BTreeMap<String, String>,
        grace: Option<u32>,
    ) -> anyhow::Result<()> {
        let path = format!("{}?labelSelector={}", place.path(), selector(labels));
        let deleted = self.send(Method::DELETE, &path, "application/json", &deletion(grace)).await;
        found(deleted).with_context(|| format!("cannot delete {path}"))
    }

    /// Lists the objects of a place with these labels.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        place: &Place,
        labels: &BTreeMap<String, String>,
    ) -> anyhow::Result<List<T>> {
        let path = format!("{}?labelSelector={}", place.path(), selector(labels));
        let request = Request::get(&path).body(Vec::new())?;
        let list = self.client.request(request).await;
        list.with_context(|| format!("cannot list {path}"))
    }

    /// Watches the objects of a place from a version on.
    pub(crate) async fn watch<T>(
        &self,
        place: &Place,
        version: &str,
    ) -> anyhow::Result<impl Stream<Item = kube::Result<WatchEvent<T>>> + use<T>>
    where
        T: Clone + DeserializeOwned + 'static,
    {
        let path = format!("{}?watch=true&resourceVersion={version}", place.path());
        let request = Request::get(&path).body(Vec::new())?;
        let events = self.client.request_events(request).await;
        events.with_context(|| format!("cannot watch {path}"))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &Value,
    ) -> anyhow::Result<()> {
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.body(serde_json::to_vec(body)?)?;
        match self.client.request_text(request).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) => {
                Err(anyhow!(Refused(status.code, status.message.clone())))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The answer of the API server to a request that it does not carry out.
#[derive(Debug)]
struct Refused(u16, String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.1)
    }
}

impl std::error::Error for Refused {}

/// Whether the API server refused a request because the object exists.
pub(crate) fn is_conflict(error: &anyhow::Error) -> bool {
    const CONFLICT: u16 = 409;
    error.downcast_ref::<Refused>().is_some_and(|refused| refused.0 == CONFLICT)
}

fn found(outcome: anyhow::Result<()>) -> anyhow::Result<()> {
    const NOT_FOUND: u16 = 404;
    outcome.or_else(|error| match error.downcast_ref::<Refused>() {
        Some(Refused(NOT_FOUND, _)) => Ok(()),
        _ => Err(error),
    })
}

fn deletion(grace: Option<u32>) -> Value {
    let mut options = json!({ "propagationPolicy": "Background" });
    if let Some(seconds) = grace {
        options["gracePeriodSeconds"] = seconds.into();
    }
    options
}

fn with_fields(path: String, fields: Fields) -> String {
    match fields {
        Fields::Any => path,
        Fields::Known => format!("{path}?fieldValidation=Strict"),
    }
}

/// Returns labels as a query value. Labels of the files need no escapes but those of `/` and `=`.
fn selector(labels: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}%3D{value}")).collect();
    pairs.join("%2C").replace('/', "%2F")
}

fn described(object: &Value, place: &Place) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match &place.namespace {
        Some(namespace) => format!("{} {namespace}/{name}", place.kind.resource.kind),
        None => format!("{} {name}", place.kind.resource.kind),
    }
}
