//! The objects that a pod names and that must exist in the member before a delegate is created.
//!
//! Only the metadata of objects is asked for. Claims are not looked at: the plugins of the profile name those that are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::api_client::ApiClient;

/// Time for which it is known that an object exists, or that it may not be read.
const KNOWN_FOR: Duration = Duration::from_secs(30);
/// Time for which it is known that an object is missing.
const MISSING_FOR: Duration = Duration::from_secs(2);
/// Maximum number of objects that are known.
const MAX_KNOWN: usize = 10_000;
/// Longest time for the objects of one pod. What is not known then does not hold the pod up.
const TIMEOUT: Duration = Duration::from_millis(500);

/// An object that a pod names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Reference {
    kind: Kind,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ServiceAccount,
    Secret,
    ConfigMap,
    PriorityClass,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.kind, self.name)
    }
}

impl Reference {
    fn path(&self, namespace: &str) -> String {
        let encode = |text: &str| {
            percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
                .to_string()
                // Both are common in names, and need no encoding.
                .replace("%2D", "-")
                .replace("%2E", ".")
        };
        let (namespace, name) = (encode(namespace), encode(&self.name));
        match self.kind {
            Kind::PriorityClass => format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}"),
            Kind::ServiceAccount => {
                format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}")
            }
            Kind::Secret => format!("/api/v1/namespaces/{namespace}/secrets/{name}"),
            Kind::ConfigMap => format!("/api/v1/namespaces/{namespace}/configmaps/{name}"),
        }
    }
}

/// Returns the objects that a pod names, without those that are optional.
fn references(pod: &Value) -> BTreeSet<Reference> {
    let mut found = BTreeSet::new();
    let spec = &pod["spec"];
    let mut add = |kind, holder: &Value, field: &str| {
        if let Some(name) = holder[field].as_str().filter(|name| !name.is_empty())
            && holder["optional"] != true
        {
            found.insert(Reference { kind, name: name.to_owned() });
        }
    };
    add(Kind::ServiceAccount, spec, "serviceAccountName");
    add(Kind::PriorityClass, spec, "priorityClassName");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for volume in list(&spec["volumes"]) {
        add(Kind::Secret, &volume["secret"], "secretName");
        add(Kind::ConfigMap, &volume["configMap"], "name");
        for source in list(&volume["projected"]["sources"]) {
            add(Kind::Secret, &source["secret"], "name");
            // It is created in every namespace.
            if source["configMap"]["name"] != "kube-root-ca.crt" {
                add(Kind::ConfigMap, &source["configMap"], "name");
            }
        }
    }
    let containers = ["containers", "initContainers"].map(|field| list(&spec[field]));
    for container in containers.iter().flatten() {
        for variable in list(&container["env"]) {
            add(Kind::Secret, &variable["valueFrom"]["secretKeyRef"], "name");
            add(Kind::ConfigMap, &variable["valueFrom"]["configMapKeyRef"], "name");
        }
        for source in list(&container["envFrom"]) {
            add(Kind::Secret, &source["secretRef"], "name");
            add(Kind::ConfigMap, &source["configMapRef"], "name");
        }
    }
    found
}

/// The check, with what is known.
#[derive(Clone)]
pub(super) struct References {
    client: ApiClient,
    known: Arc<Mutex<BTreeMap<String, (Instant, bool)>>>,
}

impl References {
    pub(super) fn new(client: ApiClient) -> Self {
        Self { client, known: Arc::default() }
    }

    /// Returns which objects that the pod names do not exist; `None` if all do, or it is not known.
    pub(super) async fn missing(&self, namespace: &str, pod: &Value) -> Option<String> {
        let looking = async {
            if !self.exists(&format!("/api/v1/namespaces/{namespace}")).await {
                return vec![format!("namespace {namespace:?}")];
            }
            let mut missing = Vec::new();
            for reference in references(pod) {
                if !self.exists(&reference.path(namespace)).await {
                    missing.push(reference.to_string());
                }
            }
            missing
        };
        let missing = tokio::time::timeout(TIMEOUT, looking).await.unwrap_or_default();
        (!missing.is_empty()).then(|| format!("it has no {}", missing.join(", no ")))
    }

    /// Whether the object exists. An object that may not be read counts as existing.
    async fn exists(&self, path: &str) -> bool {
        let now = Instant::now();
        if let Some((until, exists)) = self.lock().get(path)
            && *until > now
        {
            return *exists;
        }
        let Some(exists) = self.client.exists(path).await else { return true };
        let mut known = self.lock();
        if known.len() >= MAX_KNOWN {
            known.retain(|_, (until, _)| *until > now);
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
        }
        let until = now + if exists { KNOWN_FOR } else { MISSING_FOR };
        known.insert(path.to_owned(), (until, exists));
        exists
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (Instant, bool)>> {
        // No code that holds the lock panics.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_that_are_not_optional_are_found() {
        let pod = json!({"spec": {"serviceAccountName": "web", "priorityClassName": "high",
            "imagePullSecrets": [{"name": "pull"}],
            "volumes": [{"secret": {"secretName": "tls"}}, {"configMap": {"name": "c", "optional": true}},
                {"projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}},
                    {"configMap": {"name": "extra"}}, {"secret": {"name": "tls"}}]}}],
            "initContainers": [{"envFrom": [{"configMapRef": {"name": "init"}}]}],
            "containers": [{"env": [{"name": "A", "value": "x"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}},
                {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "o", "optional": true}}}]}]}});
        let found: Vec<String> = references(&pod).iter().map(ToString::to_string).collect();
        let expected = [
            "ServiceAccount \"web\"",
            "Secret \"key\"",
            "Secret \"tls\"",
            "ConfigMap \"extra\"",
            "ConfigMap \"init\"",
            "PriorityClass \"high\"",
        ];
        assert_eq!(found, expected);
        assert!(references(&json!({})).is_empty());
        let odd = Reference { kind: Kind::Secret, name: "a/../b".to_owned() };
        assert_eq!(odd.path("n-1"), "/api/v1/namespaces/n-1/secrets/a%2F..%2Fb");
    }
}
