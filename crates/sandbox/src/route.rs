//! Routes: the resource, object and subresource that a path names.

use percent_encoding::percent_decode_str;

use crate::custom::CustomResources;
use crate::resources::{self, NAMESPACES, Resource};

/// A resource, one of its objects, or a subresource of it. Absent parts are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) resource: &'static Resource,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

impl Route {
    /// Returns the route of a path; `None` if the path names no served resource.
    pub(crate) fn of(path: &str, custom: &CustomResources) -> Option<Self> {
        let segments: Vec<String> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
            .collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            ["api", version, rest @ ..] => Self::in_group("", version, rest, custom),
            ["apis", group, version, rest @ ..] => Self::in_group(group, version, rest, custom),
            _ => None,
        }
    }

    fn in_group(
        group: &str,
        version: &str,
        rest: &[&str],
        custom: &CustomResources,
    ) -> Option<Self> {
        let (namespace, rest) = match rest {
            ["namespaces", _, beneath] if NAMESPACES.subresource(beneath).is_some() => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let [plural, rest @ ..] = rest else { return None };
        let built_in = resources::in_all_versions().find(|resource| {
            resource.plural == *plural && resource.group == group && resource.version == version
        });
        let resource = built_in.or_else(|| custom.find(group, version, plural))?;
        let (name, subresource) = match rest {
            [] => ("", ""),
            [name] => (*name, ""),
            [name, subresource] => (*name, *subresource),
            _ => return None,
        };
        let misplaced = match resource.namespaced {
            true => namespace.is_empty() && !name.is_empty(),
            false => !namespace.is_empty(),
        };
        let unknown = !subresource.is_empty() && resource.subresource(subresource).is_none();
        if misplaced || unknown {
            return None;
        }
        Some(Self {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        })
    }

    /// Returns the verb of a request with this method; `None` if the route does not support the
    /// method.
    pub(crate) fn verb(&self, method: &str, watch: bool) -> Option<&'static str> {
        let verb = match (method, self.name.is_empty()) {
            ("GET", true) if watch => "watch",
            ("GET", true) => "list",
            ("GET", false) => "get",
            ("POST", true) => "create",
            ("POST", false) if !self.subresource.is_empty() => "create",
            ("PUT", false) => "update",
            ("PATCH", false) => "patch",
            ("DELETE", true) => "deletecollection",
            ("DELETE", false) => "delete",
            _ => return None,
        };
        let known = match self.resource.subresource(&self.subresource) {
            Some(subresource) => subresource.verbs,
            None => self.resource.verbs(),
        };
        known.contains(&verb).then_some(verb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_resources_objects_and_subresources() {
        let table = [
            ("/api/v1/pods", Some(("pods", "", "", ""))),
            ("/api/v1/namespaces/ns/pods", Some(("pods", "ns", "", ""))),
            ("/api/v1/namespaces/ns/pods/p", Some(("pods", "ns", "p", ""))),
            ("/api/v1/namespaces/ns/pods/p/binding", Some(("pods", "ns", "p", "binding"))),
            ("/api/v1/namespaces/ns", Some(("namespaces", "", "ns", ""))),
            ("/api/v1/namespaces/ns/status", Some(("namespaces", "", "ns", "status"))),
            ("/apis/apps/v1/replicasets/", Some(("replicasets", "", "", ""))),
            ("/api/v1/nodes/a%2Fb", Some(("nodes", "", "a/b", ""))),
            ("/api/v1/pods/p", None),
            ("/api/v1/namespaces/ns/nodes/n", None),
            ("/api/v1/namespaces/ns/pods/p/nope", None),
            ("/apis/apps/v2/replicasets", None),
            ("/apis/scheduling.k8s.io/v1alpha2/podgroups", Some(("podgroups", "", "", ""))),
            ("/apis/scheduling.k8s.io/v1alpha1/podgroups", None),
            ("/api/v1", None),
            ("/healthz", None),
        ];
        for (path, wanted) in table {
            let route = Route::of(path, &CustomResources::default());
            let found = route.as_ref().map(|route| {
                let Route { resource, namespace, name, subresource } = route;
                (resource.plural, namespace.as_str(), name.as_str(), subresource.as_str())
            });
            assert_eq!(found, wanted, "{path}");
        }
    }

    #[test]
    fn methods_map_to_supported_verbs() {
        let table = [
            ("GET", "/api/v1/pods", Some("list")),
            ("GET", "/api/v1/namespaces/ns/pods/p", Some("get")),
            ("POST", "/api/v1/namespaces/ns/pods/p/binding", Some("create")),
            ("GET", "/api/v1/namespaces/ns/pods/p/binding", None),
            ("POST", "/api/v1/nodes/n0", None),
            ("DELETE", "/api/v1/namespaces", None),
            ("DELETE", "/api/v1/nodes", Some("deletecollection")),
            ("GET", "/apis/authentication.k8s.io/v1/tokenreviews", None),
        ];
        for (method, path, verb) in table {
            let route = Route::of(path, &CustomResources::default()).unwrap();
            assert_eq!(route.verb(method, false), verb, "{method} {path}");
        }
    }
}
