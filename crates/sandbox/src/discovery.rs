//! Discovery and health: the paths that lead to no resource.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::api::{Request, Response};
use crate::openapi;
use crate::resources::{Resource, Subresource};
use crate::status::Status;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const HEALTH: [&str; 3] = ["healthz", "livez", "readyz"];

/// Answers a request for a path that leads to no resource. `resources` are the served ones.
///
/// # Errors
/// 405 for other methods than GET, 406 if the form in `Accept` is not offered.
pub(crate) fn serve(
    request: &Request,
    resources: &[&'static Resource],
) -> Result<Response, Status> {
    let segments: Vec<&str> =
        request.path.split('/').filter(|segment| !segment.is_empty()).collect();
    if request.method != "GET" {
        return Err(Status::method_not_allowed());
    }
    let document = match segments.as_slice() {
        [] => Some(paths(resources)),
        ["version"] => Some(version()),
        ["api"] if wants_aggregated(request) => return Ok(aggregated(resources, true)),
        ["apis"] if wants_aggregated(request) => return Ok(aggregated(resources, false)),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": []})),
        ["apis"] => Some(group_list(resources)),
        ["apis", group] => group_document(resources, group),
        ["api", version] => resource_list(resources, "", version),
        ["apis", group, version] => resource_list(resources, group, version),
        ["openapi", rest @ ..] => return Ok(openapi::serve(rest, request, resources)),
        [health, ..] if HEALTH.contains(health) => return Ok(healthy(health, request)),
        _ => None,
    };
    Ok(document.map_or_else(not_found, |document| json_response(&document)))
}

/// Returns the answer with a JSON document.
pub(crate) fn json_response(document: &Value) -> Response {
    Response {
        status: 200,
        content_type: "application/json",
        retry_after: None,
        warnings: Vec::new(),
        body: document.to_string().into(),
    }
}

/// Returns the answer for an unknown path.
pub(crate) fn not_found() -> Response {
    Response { status: 404, ..text("404 page not found\n".to_owned()) }
}

fn text(body: String) -> Response {
    Response {
        content_type: "text/plain; charset=utf-8",
        body: body.into(),
        ..json_response(&json!(0))
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35", "gitVersion": "v1.36.2",
        "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none, Loadmaster sandbox", "compiler": "rustc", "platform": "linux/amd64",
    })
}

fn paths(resources: &[&'static Resource]) -> Value {
    let groups = groups(resources).into_iter().filter(|group| !group.is_empty());
    let groups = groups.map(|group| format!("/apis/{group}"));
    let paths = ["/api", "/api/v1", "/apis"].map(str::to_owned).into_iter().chain(groups);
    let others = ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];
    json!({"paths": paths.chain(others.map(str::to_owned)).collect::<Vec<_>>()})
}

fn healthy(endpoint: &str, request: &Request) -> Response {
    if request.parameter("verbose").is_none() {
        return text("ok".to_owned());
    }
    text(format!("[+]ping ok\n{endpoint} check passed\n"))
}

/// Returns the served groups in order.
fn groups(resources: &[&'static Resource]) -> Vec<&'static str> {
    let mut groups = Vec::new();
    for resource in resources {
        if !groups.contains(&resource.group) {
            groups.push(resource.group);
        }
    }
    groups
}

fn resources_of<'a>(
    resources: &'a [&'static Resource],
    group: &'a str,
) -> impl Iterator<Item = &'static Resource> + 'a {
    resources.iter().copied().filter(move |resource| resource.group == group)
}

/// Returns the versions of a group, the preferred one first.
fn versions_of(resources: &[&'static Resource], group: &str) -> Vec<&'static str> {
    let mut versions: Vec<&str> =
        resources_of(resources, group).map(|resource| resource.version).collect();
    versions.sort_by_key(|version| (Reverse(priority(version)), *version));
    versions.dedup();
    versions
}

/// Returns the rank of a version: `v2` before `v1` before `v1beta2` before `v1alpha1` before any
/// other form.
fn priority(version: &str) -> (u8, u32, u32) {
    let Some(numbered) = version.strip_prefix('v') else { return (0, 0, 0) };
    let stages = [(2, "beta"), (1, "alpha")];
    for (rank, stage) in stages {
        if let Some((major, minor)) = numbered.split_once(stage)
            && let (Ok(major), Ok(minor)) = (major.parse(), minor.parse())
        {
            return (rank, major, minor);
        }
    }
    numbered.parse().map_or((0, 0, 0), |major| (3, major, 0))
}

fn group_list(resources: &[&'static Resource]) -> Value {
    let groups = groups(resources).into_iter();
    let groups: Vec<Value> = groups.filter_map(|group| group_entry(resources, group)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn group_document(resources: &[&'static Resource], name: &str) -> Option<Value> {
    let mut group = group_entry(resources, name)?;
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

/// Returns a group with its versions; `None` for the core group, which `/api` lists.
fn group_entry(resources: &[&'static Resource], name: &str) -> Option<Value> {
    if name.is_empty() {
        return None;
    }
    let versions: Vec<Value> = versions_of(resources, name)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": name, "versions": versions, "preferredVersion": preferred}))
}

fn resource_list(resources: &[&'static Resource], group: &str, version: &str) -> Option<Value> {
    let of_version: Vec<&Resource> =
        resources_of(resources, group).filter(|resource| resource.version == version).collect();
    let entries = of_version.iter().flat_map(|resource| {
        let subresources = resource.subresources.iter();
        let subresources =
            subresources.map(|subresource| listed_subresource(resource, subresource));
        std::iter::once(listed(resource)).chain(subresources)
    });
    let mut list = json!({
        "kind": "APIResourceList", "groupVersion": of_version.first()?.api_version(),
        "resources": entries.collect::<Vec<_>>(),
    });
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

fn listed(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": resource.plural, "singularName": resource.singular, "kind": resource.kind,
        "namespaced": resource.namespaced, "verbs": resource.verbs(),
    });
    add_names(&mut entry, resource);
    entry
}

fn add_names(entry: &mut Value, resource: &Resource) {
    for (field, names) in
        [("shortNames", resource.short_names), ("categories", resource.categories)]
    {
        if !names.is_empty() {
            entry[field] = json!(names);
        }
    }
}

fn listed_subresource(resource: &Resource, subresource: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, subresource.name), "singularName": "",
        "namespaced": resource.namespaced, "verbs": subresource.verbs,
        "kind": kind_of(resource, subresource),
    });
    if !subresource.group.is_empty() {
        entry["group"] = subresource.group.into();
        entry["version"] = subresource.version.into();
    }
    entry
}

fn kind_of(resource: &Resource, subresource: &Subresource) -> &'static str {
    if subresource.kind.is_empty() { resource.kind } else { subresource.kind }
}

fn wants_aggregated(request: &Request) -> bool {
    let mut ranges = request.accept.split(',');
    let first = ranges.find(|range| {
        let parts: Vec<&str> = range.split(';').map(str::trim).collect();
        let plain = parts.len() == 1;
        let v2 = ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]
            .iter()
            .all(|part| parts.contains(part));
        parts[0] == "application/json" && (plain || v2)
    });
    first.is_some_and(|range| range.contains(';'))
}

/// Returns everything of the core group, or of all others, in one document.
fn aggregated(resources: &[&'static Resource], core: bool) -> Response {
    let groups = groups(resources).into_iter().filter(|group| group.is_empty() == core);
    let items: Vec<Value> = groups.map(|group| aggregated_group(resources, group)).collect();
    let document = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items,
    });
    Response { content_type: AGGREGATED, ..json_response(&document) }
}

fn aggregated_group(resources: &[&'static Resource], group: &str) -> Value {
    let version = |version: &str| {
        let of_version = resources_of(resources, group);
        let of_version = of_version.filter(|resource| resource.version == version);
        let entries: Vec<Value> = of_version.map(aggregated_resource).collect();
        json!({"version": version, "resources": entries, "freshness": "Current"})
    };
    let versions = versions_of(resources, group);
    let versions: Vec<Value> = versions.into_iter().map(version).collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let scope = if resource.namespaced { "Namespaced" } else { "Cluster" };
    // The API server leaves group and version out for built-in kinds.
    let (group, version) = match resource.custom {
        Some(_) => (resource.group, resource.version),
        None => ("", ""),
    };
    let mut entry = json!({
        "resource": resource.plural, "singularResource": resource.singular, "scope": scope,
        "responseKind": {"group": group, "version": version, "kind": resource.kind},
        "verbs": resource.verbs(),
    });
    add_names(&mut entry, resource);
    if !resource.subresources.is_empty() {
        let subresources = resource.subresources.iter().map(|subresource| {
            let kind = json!({"group": subresource.group, "version": subresource.version,
                "kind": kind_of(resource, subresource)});
            json!({"subresource": subresource.name, "responseKind": kind,
                "verbs": subresource.verbs})
        });
        entry["subresources"] = subresources.collect();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_are_preferred() {
        let resource = |version| &*Box::leak(Box::new(Resource::new("g", version, "p", "s", "K")));
        let versions = ["v1alpha1", "v1", "v1beta2", "v2", "other", "v1beta1"].map(resource);
        assert_eq!(
            versions_of(&versions, "g"),
            ["v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "other"]
        );
    }
}
