//! The objects that a pod names and that must exist in its cluster. Claims are not among them: the
//! plugins of a profile name those that are missing.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use supercluster::message::CopyKind;

/// An object that a pod names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reference {
    kind: Kind,
    pub(super) name: String,
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
    /// Returns the kind if its objects can be copied.
    pub(super) const fn copy_kind(&self) -> Option<CopyKind> {
        match self.kind {
            Kind::Secret => Some(CopyKind::Secret),
            Kind::ConfigMap => Some(CopyKind::ConfigMap),
            Kind::ServiceAccount | Kind::PriorityClass => None,
        }
    }

    /// Returns its path in the API.
    pub(super) fn path(&self, namespace: &str) -> String {
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

/// Returns the objects that a pod names, without optional ones.
pub(super) fn references(pod: &Value) -> BTreeSet<Reference> {
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
    fn list(value: &Value) -> &[Value] {
        value.as_array().map_or(&[], Vec::as_slice)
    }
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
    for container in containers.into_iter().flatten() {
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
