//! Paths outside the resources: what the server is, whether it is well, and what it serves.

use serde_json::{Value, json};

use crate::api::{Request, Response};
use crate::openapi;
use crate::resources::{ALL, Resource, Subresource};
use crate::status::Status;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const HEALTH: [&str; 3] = ["healthz", "livez", "readyz"];

/// Answers a request for a path that is no resource.
///
/// # Errors
/// 405 for other methods than GET, 406 if the form asked for cannot be had.
pub(crate) fn serve(request: &Request) -> Result<Response, Status> {
    let segments: Vec<&str> =
        request.path.split('/').filter(|segment| !segment.is_empty()).collect();
    if request.method != "GET" {
        return Err(Status::method_not_allowed());
    }
    let document = match segments.as_slice() {
        [] => Some(paths()),
        ["version"] => Some(version()),
        ["api"] if wants_aggregated(request) => return Ok(aggregated(true)),
        ["apis"] if wants_aggregated(request) => return Ok(aggregated(false)),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": []})),
        ["apis"] => Some(group_list()),
        ["apis", group] => group_of(group),
        ["api", version] => resource_list("", version),
        ["apis", group, version] => resource_list(group, version),
        ["openapi", rest @ ..] => return openapi::serve(rest, request),
        [health, ..] if HEALTH.contains(health) => return Ok(healthy(health, request)),
        _ => None,
    };
    Ok(document.map_or_else(not_found, |document| json_response(&document)))
}

pub(crate) fn json_response(document: &Value) -> Response {
    Response {
        status: 200,
        content_type: "application/json",
        retry_after: None,
        warnings: Vec::new(),
        body: document.to_string().into(),
    }
}

/// The answer for a path that leads nowhere.
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

fn paths() -> Value {
    let groups = groups().into_iter().filter(|group| !group.is_empty());
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

/// Groups that are served, in order.
fn groups() -> Vec<&'static str> {
    let mut groups: Vec<&str> = ALL.iter().map(|resource| resource.group).collect();
    groups.dedup();
    groups
}

fn resources_of(group: &str) -> impl Iterator<Item = &'static Resource> {
    ALL.iter().copied().filter(move |resource| resource.group == group)
}

fn group_list() -> Value {
    let groups: Vec<Value> = groups().into_iter().filter_map(group_entry).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn group_of(name: &str) -> Option<Value> {
    let mut group = group_entry(name)?;
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

/// A group and its one version; the core group is listed elsewhere.
fn group_entry(name: &str) -> Option<Value> {
    let first = resources_of(name).next().filter(|_| !name.is_empty())?;
    let version = json!({"groupVersion": first.api_version(), "version": first.version});
    Some(json!({"name": name, "versions": [version], "preferredVersion": version}))
}

fn resource_list(group: &str, version: &str) -> Option<Value> {
    let resources: Vec<Value> = resources_of(group)
        .filter(|resource| resource.version == version)
        .flat_map(|resource| {
            let beneath = resource.subresources.iter();
            let beneath = beneath.map(|subresource| listed_subresource(resource, subresource));
            std::iter::once(listed(resource)).chain(beneath)
        })
        .collect();
    let first = resources_of(group).next().filter(|_| !resources.is_empty())?;
    let mut list = json!({
        "kind": "APIResourceList", "groupVersion": first.api_version(), "resources": resources,
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

/// Everything of the core group, or of all others, in one document.
fn aggregated(core: bool) -> Response {
    let groups = groups().into_iter().filter(|group| group.is_empty() == core);
    let items: Vec<Value> = groups.map(aggregated_group).collect();
    let document = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items,
    });
    Response { content_type: AGGREGATED, ..json_response(&document) }
}

fn aggregated_group(group: &str) -> Value {
    let resources: Vec<Value> = resources_of(group).map(aggregated_resource).collect();
    let version = resources_of(group).next().map(|resource| resource.version);
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({
        "metadata": metadata,
        "versions": [{"version": version, "resources": resources, "freshness": "Current"}],
    })
}

fn aggregated_resource(resource: &Resource) -> Value {
    let scope = if resource.namespaced { "Namespaced" } else { "Cluster" };
    let mut entry = json!({
        "resource": resource.plural, "singularResource": resource.singular, "scope": scope,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "verbs": resource.verbs(),
    });
    add_names(&mut entry, resource);
    if !resource.subresources.is_empty() {
        let beneath = resource.subresources.iter();
        let beneath = beneath.map(|subresource| {
            let kind = json!({"group": subresource.group, "version": subresource.version,
                "kind": kind_of(resource, subresource)});
            json!({"subresource": subresource.name, "responseKind": kind,
                "verbs": subresource.verbs})
        });
        entry["subresources"] = beneath.collect();
    }
    entry
}
