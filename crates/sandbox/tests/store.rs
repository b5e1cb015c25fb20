//! The store as a client sees it: lists, watches, writes and deletions.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use framework::Time;
use loadmaster_sandbox::api::{Answer, Frames, Request, Response, WatchId};
use loadmaster_sandbox::resources::{CONFIGMAPS, NAMESPACES, NODES, PODS};
use loadmaster_sandbox::store::{DeleteOptions, Store};
use serde_json::{Value, json};

const NOW: Time = Time::from_secs(1_700_000_000);
const CONFIGMAPS_PATH: &str = "/api/v1/namespaces/default/configmaps";

fn store() -> Store {
    Store::new(7, NOW)
}

fn at(seconds: i64) -> Time {
    Time::from_secs(1_700_000_000 + seconds)
}

/// Sends a request of the administrator.
fn send(store: &mut Store, method: &str, target: &str, body: &Value) -> Response {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut request = Request::new(method, target, body);
    if method == "PATCH" {
        request.content_type = "application/merge-patch+json".to_owned();
    }
    match store.serve(&request, NOW) {
        Answer::Whole(response) => response,
        Answer::Watch(_) => panic!("{method} {target} opened a watch"),
    }
}

fn body(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

fn get(store: &mut Store, target: &str) -> Value {
    let response = send(store, "GET", target, &Value::Null);
    assert_eq!(response.status, 200, "{target}: {:?}", response.body);
    body(&response)
}

fn open_watch(store: &mut Store, target: &str) -> WatchId {
    match store.serve(&Request::new("GET", target, ""), NOW) {
        Answer::Watch(id) => id,
        Answer::Whole(response) => panic!("{target}: {:?}", response.body),
    }
}

/// Returns type and name of each event; only the type of a bookmark or an error.
fn events(frames: &Frames) -> Vec<String> {
    let event = |line: &[u8]| {
        let frame: Value = serde_json::from_slice(line).unwrap();
        let kind = frame["type"].as_str().unwrap().to_owned();
        let name = frame["object"]["metadata"]["name"].as_str();
        name.map_or(kind.clone(), |name| format!("{kind} {name}"))
    };
    frames.lines.iter().map(|line| event(line)).collect()
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

fn create_configmaps(store: &mut Store, names: &[&str]) {
    for name in names {
        store.create(CONFIGMAPS, json!({"metadata": {"name": name}}), NOW).unwrap();
    }
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "w"}},
        "spec": {"containers": [{"name": "c", "image": "pause"}]},
    })
}

fn bind(store: &mut Store, name: &str) {
    let change = |pod: &mut Value| {
        pod["spec"]["nodeName"] = json!("n0");
        Ok(())
    };
    store.modify(PODS, "default", name, NOW, change).unwrap();
}

#[test]
fn new_store_has_the_objects_of_every_cluster() {
    let mut store = store();
    let namespaces = get(&mut store, "/api/v1/namespaces");
    assert_eq!(names(&namespaces), ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let classes = get(&mut store, "/apis/scheduling.k8s.io/v1/priorityclasses");
    assert_eq!(names(&classes), ["system-cluster-critical", "system-node-critical"]);
    let roles = get(&mut store, "/apis/rbac.authorization.k8s.io/v1/clusterroles");
    assert!(names(&roles).contains(&"cluster-admin"));
    let flow_control = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let levels = get(&mut store, &format!("{flow_control}/prioritylevelconfigurations"));
    let schemas = get(&mut store, &format!("{flow_control}/flowschemas"));
    assert_eq!(schemas["items"].as_array().map(Vec::len), Some(13));
    for schema in schemas["items"].as_array().unwrap() {
        let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap();
        assert!(names(&levels).contains(&level), "{level}");
    }
}

#[test]
fn unauthorized_requests_are_refused_first() {
    let mut store = store();
    let mut request = Request::new("GET", "/api/v1/nodes/n0", "");
    request.user.name = "bob".to_owned();
    request.user.groups.clear();
    let Answer::Whole(response) = store.serve(&request, NOW) else { panic!("a watch") };
    assert_eq!(response.status, 403);
    assert_eq!(
        body(&response)["message"],
        "nodes \"n0\" is forbidden: User \"bob\" cannot get resource \"nodes\" in API group \"\" \
         at the cluster scope"
    );
    request.path = "/apis".to_owned();
    let Answer::Whole(response) = store.serve(&request, NOW) else { panic!("a watch") };
    assert_eq!(response.status, 403);
}

#[test]
fn pages_of_a_list_show_one_state() {
    let mut store = store();
    create_configmaps(&mut store, &["b", "d", "f", "h"]);
    let first = get(&mut store, &format!("{CONFIGMAPS_PATH}?limit=1"));
    let version = first["metadata"]["resourceVersion"].clone();
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["b"], &json!(3)));

    create_configmaps(&mut store, &["a", "e"]);
    store.delete(CONFIGMAPS, "default", "f", &DeleteOptions::default(), NOW).unwrap();
    let patch = json!({"data": {"k": "new"}});
    send(&mut store, "PATCH", &format!("{CONFIGMAPS_PATH}/h"), &patch);

    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = get(&mut store, &format!("{CONFIGMAPS_PATH}?continue={token}"));
    assert_eq!(names(&rest), ["d", "f", "h"]);
    assert_eq!(rest["items"][2]["data"], Value::Null);
    assert_eq!(rest["metadata"]["resourceVersion"], version);
    let now = get(&mut store, CONFIGMAPS_PATH);
    assert_eq!(names(&now), ["a", "b", "d", "e", "h"]);
}

#[test]
fn expired_token_comes_with_one_for_the_inconsistent_rest() {
    let mut store = store();
    create_configmaps(&mut store, &["a", "b", "c"]);
    let first = get(&mut store, &format!("{CONFIGMAPS_PATH}?limit=1"));
    let token = first["metadata"]["continue"].as_str().unwrap();
    create_configmaps(&mut store, &["d"]);
    store.compact();

    let target = format!("{CONFIGMAPS_PATH}?limit=1&continue={token}");
    let expired = send(&mut store, "GET", &target, &Value::Null);
    let status = body(&expired);
    assert_eq!((expired.status, &status["reason"]), (410, &json!("Expired")));
    let fresh = status["metadata"]["continue"].as_str().unwrap();
    let rest = get(&mut store, &format!("{CONFIGMAPS_PATH}?continue={fresh}"));
    assert_eq!(names(&rest), ["b", "c", "d"]);
}

#[test]
fn lists_follow_the_rules_of_resource_versions() {
    let mut store = store();
    create_configmaps(&mut store, &["a"]);
    let old = store.resource_version();
    create_configmaps(&mut store, &["b"]);
    let ahead = store.resource_version() + 10;
    let table = [
        (String::new(), 200, 2),
        ("resourceVersion=0".to_owned(), 200, 2),
        ("resourceVersion=0&limit=1".to_owned(), 200, 2),
        (format!("resourceVersion={old}"), 200, 2),
        (format!("resourceVersion={old}&limit=5"), 200, 1),
        (format!("resourceVersion={old}&resourceVersionMatch=Exact"), 200, 1),
        (format!("resourceVersion={old}&resourceVersionMatch=NotOlderThan"), 200, 2),
        (format!("resourceVersion={ahead}"), 504, 0),
        ("resourceVersionMatch=Exact".to_owned(), 422, 0),
        ("resourceVersion=0&resourceVersionMatch=Exact".to_owned(), 422, 0),
        (format!("resourceVersion={old}&resourceVersionMatch=Newest"), 422, 0),
        ("resourceVersion=x".to_owned(), 422, 0),
    ];
    for (query, status, count) in table {
        let response = send(&mut store, "GET", &format!("{CONFIGMAPS_PATH}?{query}"), &Value::Null);
        assert_eq!(response.status, status, "{query}");
        let items = body(&response)["items"].as_array().map_or(0, Vec::len);
        assert_eq!(items, count, "{query}");
    }
    store.compact();
    let target = format!("{CONFIGMAPS_PATH}?resourceVersion={old}&resourceVersionMatch=Exact");
    assert_eq!(send(&mut store, "GET", &target, &Value::Null).status, 410);
}

#[test]
fn watch_resumes_where_a_list_or_another_watch_ended() {
    let mut store = store();
    create_configmaps(&mut store, &["a"]);
    let list = get(&mut store, CONFIGMAPS_PATH);
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let watch =
        open_watch(&mut store, &format!("{CONFIGMAPS_PATH}?watch=1&resourceVersion={version}"));
    assert_eq!(events(&store.frames(watch, NOW)), Vec::<String>::new());
    create_configmaps(&mut store, &["b"]);
    assert_eq!(events(&store.frames(watch, NOW)), ["ADDED b"]);
    let change = |object: &mut Value| {
        object["data"] = json!({"k": "v"});
        Ok(())
    };
    store.modify(CONFIGMAPS, "default", "a", NOW, change).unwrap();
    store.delete(CONFIGMAPS, "default", "b", &DeleteOptions::default(), NOW).unwrap();
    assert_eq!(events(&store.frames(watch, NOW)), ["MODIFIED a", "DELETED b"]);

    let all =
        open_watch(&mut store, &format!("{CONFIGMAPS_PATH}?watch=1&resourceVersion={version}"));
    assert_eq!(events(&store.frames(all, NOW)), ["ADDED b", "MODIFIED a", "DELETED b"]);
    store.close(watch);
    assert!(store.frames(watch, NOW).ended);
}

#[test]
fn watch_from_a_compacted_version_ends_with_an_expired_frame() {
    let mut store = store();
    let version = store.resource_version();
    create_configmaps(&mut store, &["a"]);
    store.compact();
    let watch =
        open_watch(&mut store, &format!("{CONFIGMAPS_PATH}?watch=1&resourceVersion={version}"));
    let frames = store.frames(watch, NOW);
    assert!(frames.ended);
    let frame: Value = serde_json::from_slice(&frames.lines[0]).unwrap();
    let current = store.resource_version();
    assert_eq!(
        frame,
        json!({"type": "ERROR", "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("too old resource version: {version} ({current})"),
            "reason": "Expired", "code": 410,
        }})
    );
}

#[test]
fn lagging_watch_cache_shows_an_older_state_to_those_who_accept_it() {
    let mut store = store();
    create_configmaps(&mut store, &["a"]);
    let cached = store.resource_version();
    create_configmaps(&mut store, &["b"]);
    let latest = store.resource_version();
    let mut ask = |query: String, cached| {
        let request = Request::new("GET", &format!("{CONFIGMAPS_PATH}?{query}"), "");
        match store.serve_with_cache(&request, cached, NOW) {
            Answer::Whole(response) => (response.status, body(&response), None),
            Answer::Watch(watch) => (200, Value::Null, Some(watch)),
        }
    };
    let (_, list, _) = ask("limit=1&resourceVersion=0".to_owned(), cached);
    assert_eq!(
        (names(&list), &list["metadata"]["resourceVersion"]),
        (vec!["a"], &json!(cached.to_string()))
    );
    let (_, list, _) = ask(String::new(), cached);
    assert_eq!(names(&list), ["a", "b"]);
    let (status, error, _) = ask(format!("resourceVersion={latest}"), cached);
    assert_eq!((status, &error["reason"]), (504, &json!("Timeout")));
    let initial = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    assert_eq!(ask(initial.to_owned(), cached).0, 504);
    // The watch of a client that another server has shown more.
    let (_, _, ahead) = ask(format!("watch=true&resourceVersion={latest}"), cached);
    let (_, _, behind) = ask(format!("watch=true&resourceVersion={}", cached - 1), cached);
    let (ahead, behind) = (ahead.unwrap(), behind.unwrap());
    create_configmaps(&mut store, &["c"]);
    assert_eq!(events(&store.frames_of_cache(ahead, cached, NOW)), Vec::<String>::new());
    assert_eq!(events(&store.frames_of_cache(behind, cached, NOW)), ["ADDED a"]);
    assert_eq!(events(&store.frames_of_cache(behind, latest, NOW)), ["ADDED b"]);
    assert_eq!(events(&store.frames_of_cache(ahead, latest, NOW)), Vec::<String>::new());
    assert_eq!(events(&store.frames(ahead, NOW)), ["ADDED c"]);
}

#[test]
fn watch_reports_only_the_namespace_and_the_selection() {
    let mut store = store();
    let target = "/api/v1/namespaces/default/pods?watch=1&labelSelector=app%3Dw\
                  &fieldSelector=spec.nodeName%3D";
    let watch = open_watch(&mut store, target);
    store.create(PODS, pod("p"), NOW).unwrap();
    let mut elsewhere = pod("q");
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    store.create(PODS, elsewhere, NOW).unwrap();
    let mut other = pod("r");
    other["metadata"]["labels"] = json!({});
    store.create(PODS, other, NOW).unwrap();
    assert_eq!(events(&store.frames(watch, NOW)), ["ADDED p"]);

    bind(&mut store, "p");
    assert_eq!(events(&store.frames(watch, NOW)), ["DELETED p"]);
    store.delete(PODS, "default", "p", &DeleteOptions::with_grace(0), NOW).unwrap();
    assert_eq!(events(&store.frames(watch, NOW)), Vec::<String>::new());
    let label = json!({"metadata": {"labels": {"app": "w"}}});
    send(&mut store, "PATCH", "/api/v1/namespaces/default/pods/r", &label);
    assert_eq!(events(&store.frames(watch, NOW)), ["ADDED r"]);
}

#[test]
fn bookmarks_are_sent_once_a_minute_and_at_the_end() {
    let mut store = store();
    let target = "/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds=100";
    let watch = open_watch(&mut store, target);
    assert_eq!(events(&store.frames(watch, at(59))), Vec::<String>::new());
    assert_eq!(events(&store.frames(watch, at(60))), ["BOOKMARK"]);
    assert_eq!(events(&store.frames(watch, at(61))), Vec::<String>::new());
    let last = store.frames(watch, at(100));
    assert_eq!((events(&last), last.ended), (vec!["BOOKMARK".to_owned()], true));
}

#[test]
fn streaming_list_needs_its_match_rule_and_an_existing_version() {
    let mut store = store();
    let ahead = store.resource_version() + 1;
    let base = "/api/v1/nodes?watch=1&sendInitialEvents=true";
    let streamed = format!("{base}&resourceVersionMatch=NotOlderThan&resourceVersion={ahead}");
    let unmatched = "/api/v1/nodes?watch=1&resourceVersionMatch=NotOlderThan";
    for (target, status) in [(base, 422), (streamed.as_str(), 504), (unmatched, 422)] {
        assert_eq!(send(&mut store, "GET", target, &Value::Null).status, status, "{target}");
    }
}

#[test]
fn table_watch_sends_headers_once() {
    let mut store = store();
    store.create(PODS, pod("a"), NOW).unwrap();
    let mut request = Request::new("GET", "/api/v1/pods?watch=1&labelSelector=app", "");
    request.accept = "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned();
    let Answer::Watch(watch) = store.serve(&request, NOW) else { panic!("no watch") };
    let mut lines = store.frames(watch, NOW).lines;
    store.create(PODS, pod("b"), NOW).unwrap();
    lines.extend(store.frames(watch, NOW).lines);
    let frames: Vec<Value> =
        lines.iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
    let cells: Vec<_> =
        frames.iter().map(|frame| &frame["object"]["rows"][0]["cells"][0]).collect();
    assert_eq!(cells, [&json!("a"), &json!("b")]);
    let headers = |frame: &Value| !frame["object"]["columnDefinitions"].is_null();
    assert!(headers(&frames[0]) && !headers(&frames[1]));
}

#[test]
fn bound_pod_stays_until_its_kubelet_deletes_it_without_grace() {
    let mut store = store();
    store.create(PODS, pod("p"), NOW).unwrap();
    bind(&mut store, "p");
    let marked = store.delete(PODS, "default", "p", &DeleteOptions::default(), NOW).unwrap();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(marked["metadata"]["generation"], 2);
    let again = store.delete(PODS, "default", "p", &DeleteOptions::with_grace(60), at(1)).unwrap();
    assert_eq!(again["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"]);
    let sooner = store.delete(PODS, "default", "p", &DeleteOptions::with_grace(5), at(2)).unwrap();
    assert_eq!(sooner["metadata"]["deletionTimestamp"], json!(at(7).to_string()));
    store.delete(PODS, "default", "p", &DeleteOptions::with_grace(0), at(3)).unwrap();
    assert!(store.get(PODS, "default", "p").is_none());
}

#[test]
fn object_with_finalizers_is_removed_with_the_last_of_them() {
    let mut store = store();
    let object = json!({"metadata": {"name": "a", "finalizers": ["x.io/a"]}});
    store.create(CONFIGMAPS, object, NOW).unwrap();
    let target = format!("{CONFIGMAPS_PATH}/a");
    let deleted = send(&mut store, "DELETE", &target, &Value::Null);
    assert_eq!(body(&deleted)["kind"], "ConfigMap");
    assert!(store.get(CONFIGMAPS, "default", "a").is_some());
    send(&mut store, "PATCH", &target, &json!({"metadata": {"finalizers": null}}));
    assert!(store.get(CONFIGMAPS, "default", "a").is_none());
    assert_eq!(send(&mut store, "DELETE", &target, &Value::Null).status, 404);
}

#[test]
fn deletion_answers_with_a_status_or_the_object_by_kind() {
    let mut store = store();
    create_configmaps(&mut store, &["a"]);
    store.create(PODS, pod("p"), NOW).unwrap();
    let status = body(&send(&mut store, "DELETE", &format!("{CONFIGMAPS_PATH}/a"), &Value::Null));
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(status["details"]["kind"], "configmaps");
    let target = "/api/v1/namespaces/default/pods/p";
    assert_eq!(body(&send(&mut store, "DELETE", target, &Value::Null))["kind"], "Pod");
}

#[test]
fn namespace_is_deleted_with_its_content_and_admits_no_more() {
    let mut store = store();
    store.create(NAMESPACES, json!({"metadata": {"name": "ns"}}), NOW).unwrap();
    for name in ["bound", "waiting"] {
        let mut pod = pod(name);
        pod["metadata"]["namespace"] = json!("ns");
        store.create(PODS, pod, NOW).unwrap();
    }
    let change = |pod: &mut Value| {
        pod["spec"]["nodeName"] = json!("n0");
        Ok(())
    };
    store.modify(PODS, "ns", "bound", NOW, change).unwrap();
    let answer = body(&send(&mut store, "DELETE", "/api/v1/namespaces/ns", &Value::Null));
    assert_eq!(answer["status"]["phase"], "Terminating");
    assert!(store.get(PODS, "ns", "waiting").is_none());
    assert!(store.get(PODS, "ns", "bound").is_some());

    let mut late = pod("late");
    late["metadata"]["namespace"] = json!("ns");
    let refusal = store.create(PODS, late, NOW).unwrap_err();
    assert_eq!((refusal.code, refusal.reason), (403, "Forbidden"));
    assert!(refusal.message.ends_with("because it is being terminated"), "{refusal}");

    store.delete(PODS, "ns", "bound", &DeleteOptions::with_grace(0), NOW).unwrap();
    assert!(store.get(NAMESPACES, "", "ns").is_none());
    let mut lost = pod("lost");
    lost["metadata"]["namespace"] = json!("ns");
    assert_eq!(store.create(PODS, lost, NOW).unwrap_err().code, 404);
}

/// Returns paths and one object each of the kinds that relate pods to one another.
fn relating_objects() -> [(&'static str, Value); 5] {
    let workload = |selector: Value| {
        json!({
            "metadata": {"name": "w"},
            "spec": {
                "selector": selector,
                "template": {"metadata": {"labels": {"app": "w"}}, "spec": pod("w")["spec"]},
            },
        })
    };
    let (set, selector) = (json!({"app": "w"}), json!({"matchLabels": {"app": "w"}}));
    let mut stateful_set = workload(selector.clone());
    stateful_set["spec"]["serviceName"] = json!("w");
    let service = json!({"selector": set, "ports": [{"port": 80}]});
    [
        ("/api/v1/namespaces", json!({"metadata": {"name": "w"}})),
        (
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "w"}, "spec": service}),
        ),
        ("/api/v1/namespaces/default/replicationcontrollers", workload(set)),
        ("/apis/apps/v1/namespaces/default/replicasets", workload(selector)),
        ("/apis/apps/v1/namespaces/default/statefulsets", stateful_set),
    ]
}

#[test]
fn objects_that_relate_pods_are_created_relabelled_and_watched() {
    let mut store = store();
    for (path, object) in relating_objects() {
        let watch =
            open_watch(&mut store, &format!("{path}?watch=1&fieldSelector=metadata.name=w"));
        let created = send(&mut store, "POST", path, &object);
        assert_eq!(created.status, 201, "{path}: {:?}", body(&created));
        assert_eq!(body(&created)["spec"]["selector"], object["spec"]["selector"], "{path}");
        assert_eq!(events(&store.frames(watch, NOW)), ["ADDED w"], "{path}");
        let patch = json!({"metadata": {"labels": {"team": "b"}}});
        let labelled = send(&mut store, "PATCH", &format!("{path}/w"), &patch);
        assert_eq!(body(&labelled)["metadata"]["labels"]["team"], "b", "{path}");
        assert_eq!(events(&store.frames(watch, NOW)), ["MODIFIED w"], "{path}");
    }
    let namespace = get(&mut store, "/api/v1/namespaces/w");
    let labels = json!({"kubernetes.io/metadata.name": "w", "team": "b"});
    assert_eq!(namespace["metadata"]["labels"], labels);
}

#[test]
fn only_changes_count_versions_and_generations() {
    let mut store = store();
    store.create(PODS, pod("p"), NOW).unwrap();
    let target = "/api/v1/namespaces/default/pods/p";
    let before = store.resource_version();
    send(&mut store, "PATCH", target, &json!({"metadata": {"labels": {"app": "w"}}}));
    assert_eq!(store.resource_version(), before);
    let labelled = send(&mut store, "PATCH", target, &json!({"metadata": {"labels": {"b": "c"}}}));
    assert_eq!(body(&labelled)["metadata"]["generation"], 1);
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}]);
    let mut request = Request::new("PATCH", target, image.to_string());
    request.content_type = "application/json-patch+json".to_owned();
    let Answer::Whole(response) = store.serve(&request, NOW) else { panic!("a watch") };
    assert_eq!(body(&response)["metadata"]["generation"], 2);
    assert_eq!(store.resource_version(), before + 2);
}

#[test]
fn writes_for_another_object_or_version_are_refused() {
    let mut store = store();
    create_configmaps(&mut store, &["a"]);
    let target = format!("{CONFIGMAPS_PATH}/a");
    let modified = "the object has been modified";
    for (method, metadata, expected) in [
        ("PATCH", json!({"resourceVersion": "1"}), (409, modified)),
        (
            "PATCH",
            json!({"uid": "x"}),
            (422, "metadata.uid: Invalid value: \"x\": field is immutable"),
        ),
        ("PATCH", json!({"uid": "x", "resourceVersion": "1"}), (409, modified)),
        ("PUT", json!({"name": "a", "resourceVersion": "1"}), (409, modified)),
        ("PUT", json!({"name": "a", "uid": "x"}), (409, "UID in precondition: x")),
    ] {
        let write = json!({"metadata": metadata, "data": {"k": "v"}});
        let refusal = send(&mut store, method, &target, &write);
        let message = body(&refusal)["message"].as_str().unwrap().to_owned();
        assert_eq!(refusal.status, expected.0, "{method}: {message}");
        assert!(message.contains(expected.1), "{method}: {message}");
    }
    assert!(get(&mut store, &target).get("data").is_none());
}

#[test]
fn status_subresource_writes_only_the_status() {
    let mut store = store();
    store.create(PODS, pod("p"), NOW).unwrap();
    let target = "/api/v1/namespaces/default/pods/p";
    let both = json!({"status": {"phase": "Running"}, "metadata": {"labels": {"x": "y"}}});
    let main = body(&send(&mut store, "PATCH", target, &both));
    assert_eq!(
        (&main["status"]["phase"], &main["metadata"]["labels"]["x"]),
        (&json!("Pending"), &json!("y"))
    );
    let both = json!({"status": {"phase": "Running"}, "spec": {"nodeName": "n0"}});
    let status = body(&send(&mut store, "PATCH", &format!("{target}/status"), &both));
    assert_eq!(
        (&status["status"]["phase"], &status["spec"]["nodeName"]),
        (&json!("Running"), &Value::Null)
    );
}

#[test]
fn dry_run_changes_nothing() {
    let mut store = store();
    create_configmaps(&mut store, &["a"]);
    let version = store.resource_version();
    let b = json!({"metadata": {"name": "b"}});
    let patch = json!({"data": {"k": "v"}});
    let target = format!("{CONFIGMAPS_PATH}/a?dryRun=All");
    let created = send(&mut store, "POST", &format!("{CONFIGMAPS_PATH}?dryRun=All"), &b);
    let patched = send(&mut store, "PATCH", &target, &patch);
    let deleted = send(&mut store, "DELETE", &target, &Value::Null);
    assert_eq!([created.status, patched.status, deleted.status], [201, 200, 200]);
    assert_eq!(body(&patched)["data"]["k"], "v");
    assert_eq!(store.resource_version(), version);
}

#[test]
fn unknown_fields_are_refused_warned_of_or_dropped() {
    let mut store = store();
    let node = |name: &str| json!({"metadata": {"name": name}, "spec": {"unschedulabel": true}});
    let table = [("Strict", 400, 0), ("Warn", 201, 1), ("Ignore", 201, 0)];
    for (validation, code, warnings) in table {
        let target = format!("/api/v1/nodes?fieldValidation={validation}");
        let response = send(&mut store, "POST", &target, &node(&validation.to_lowercase()));
        assert_eq!((response.status, response.warnings.len()), (code, warnings), "{validation}");
    }
    let node = store.get(NODES, "", "warn").unwrap();
    assert_eq!(node["spec"]["unschedulabel"], Value::Null);
    let twice = r#"{"metadata": {"name": "twice", "name": "twice"}}"#;
    let request = Request::new("POST", "/api/v1/nodes?fieldValidation=Strict", twice);
    let Answer::Whole(response) = store.serve(&request, NOW) else { panic!("a watch") };
    assert!(body(&response)["message"].as_str().unwrap().contains("duplicate field"));
}

#[test]
fn generated_names_differ_and_equal_seeds_give_equal_stores() {
    let create = |store: &mut Store| {
        let object = json!({"metadata": {"generateName": "g-"}});
        store.create(CONFIGMAPS, object, NOW).unwrap()["metadata"]["name"].clone()
    };
    let (mut one, mut other) = (store(), store());
    let first = create(&mut one);
    assert_ne!(first, create(&mut one));
    assert_eq!(first, create(&mut other));
}

#[test]
fn orphans_lose_their_owner_and_stay() {
    let mut store = store();
    create_configmaps(&mut store, &["owner"]);
    let uid = store.get(CONFIGMAPS, "default", "owner").unwrap()["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
    let dependent = json!({"metadata": {"name": "dependent", "ownerReferences": [owner]}});
    store.create(CONFIGMAPS, dependent, NOW).unwrap();
    let target = format!("{CONFIGMAPS_PATH}/owner?propagationPolicy=Orphan");
    assert_eq!(send(&mut store, "DELETE", &target, &Value::Null).status, 200);
    let dependent = store.get(CONFIGMAPS, "default", "dependent").unwrap();
    assert!(dependent["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty));
}

#[test]
fn malformed_requests_are_refused_without_a_panic() {
    let mut store = store();
    let table = [
        ("POST", CONFIGMAPS_PATH, "[]", 400),
        ("POST", CONFIGMAPS_PATH, "{\"metadata\": 7}", 400),
        ("POST", CONFIGMAPS_PATH, "", 400),
        ("POST", CONFIGMAPS_PATH, "{\"metadata\": {\"name\": 7}}", 400),
        ("POST", CONFIGMAPS_PATH, "{\"metadata\": {\"name\": \"a\", \"namespace\": \"b\"}}", 400),
        ("POST", "/api/v1/configmaps", "{\"metadata\": {\"name\": \"a\"}}", 405),
        ("PUT", "/api/v1/nodes/n", "{\"metadata\": {\"name\": \"m\"}}", 404),
        ("PATCH", "/api/v1/nodes/n", "{}", 404),
        ("DELETE", "/api/v1/nodes/n", "[1]", 404),
        ("GET", "/api/v1/nodes?continue=%00", "", 400),
        ("GET", "/api/v1/nodes?limit=-3", "", 200),
        ("GET", "/api/v1/%ff", "", 404),
        ("BREW", "/api/v1/nodes", "", 405),
        ("GET", "/", "", 200),
        ("GET", "/nope", "", 404),
    ];
    for (method, target, body, status) in table {
        let Answer::Whole(response) = store.serve(&Request::new(method, target, body), NOW) else {
            panic!("{method} {target} opened a watch");
        };
        assert_eq!(response.status, status, "{method} {target} {body}: {:?}", response.body);
    }
}

#[test]
fn resize_changes_only_cpu_and_memory() {
    let mut store = store();
    let mut created = pod("p");
    let requests = |cpu: &str| json!({"requests": {"cpu": cpu, "memory": "1Gi"}});
    created["spec"]["containers"][0]["resources"] = requests("2");
    store.create(PODS, created, NOW).unwrap();
    let target = "/api/v1/namespaces/default/pods/p";

    let mut wanted = pod("p");
    wanted["metadata"]["labels"] = json!({"app": "other"});
    wanted["spec"]["containers"][0]["resources"] = requests("1");
    assert_eq!(send(&mut store, "PUT", target, &wanted).status, 422);
    assert_eq!(send(&mut store, "PUT", &format!("{target}/resize"), &wanted).status, 200);
    let stored = store.get(PODS, "default", "p").unwrap();
    assert_eq!(stored["spec"]["containers"][0]["resources"], requests("1"));
    assert_eq!(stored["metadata"]["labels"], json!({"app": "w"}));

    wanted["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = json!("1Gi");
    assert_eq!(send(&mut store, "PUT", &format!("{target}/resize"), &wanted).status, 422);
}

#[test]
fn pod_groups_are_served_in_both_versions() {
    const ALPHA: &str = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups";
    const BETA: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
    let mut store = store();
    let groups = get(&mut store, "/apis/scheduling.k8s.io");
    assert_eq!(
        groups["versions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|own| &own["version"])
            .collect::<Vec<_>>(),
        ["v1", "v1beta1", "v1alpha2"]
    );
    let listed = get(&mut store, "/apis/scheduling.k8s.io/v1alpha2");
    let listed: Vec<_> = listed["resources"].as_array().unwrap().iter().collect();
    assert_eq!(
        listed.iter().map(|own| &own["name"]).collect::<Vec<_>>(),
        ["podgroups", "podgroups/status"]
    );

    let watch = open_watch(&mut store, &format!("{ALPHA}?watch=true&allowWatchBookmarks=true"));
    store.frames(watch, NOW);
    let policy = json!({"gang": {"minCount": 2}});
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": policy, "disruptionMode": "PodGroup"},
    });
    let created = send(&mut store, "POST", ALPHA, &group);
    assert_eq!((created.status, &body(&created)["spec"]), (201, &group["spec"]));
    assert_eq!(send(&mut store, "POST", BETA, &group).status, 400);

    let condition = json!({"type": "PodGroupScheduled", "status": "False", "reason": "R"});
    let patch = json!({"status": {"conditions": [condition]}});
    let patched = send(&mut store, "PATCH", &format!("{ALPHA}/g/status"), &patch);
    assert_eq!(body(&patched)["apiVersion"], "scheduling.k8s.io/v1alpha2");
    let of_beta = get(&mut store, &format!("{BETA}/g"));
    assert_eq!(of_beta["apiVersion"], "scheduling.k8s.io/v1beta1");
    assert_eq!(of_beta["spec"]["disruptionMode"], json!({"all": {}}));
    assert_eq!(of_beta["spec"]["schedulingPolicy"], policy);
    assert_eq!(of_beta["status"]["conditions"], json!([condition]));
    assert_eq!(of_beta["metadata"]["generation"], 1);

    let replaced = body(&send(&mut store, "PUT", &format!("{ALPHA}/g"), &group));
    assert_eq!((&replaced["spec"], &replaced["status"]), (&group["spec"], &of_beta["status"]));
    let list = get(&mut store, ALPHA);
    assert_eq!(list["apiVersion"], "scheduling.k8s.io/v1alpha2");
    assert_eq!(list["items"][0]["spec"], group["spec"]);
    assert_eq!(list["items"][0].get("kind"), None);
    send(&mut store, "DELETE", &format!("{ALPHA}/g"), &Value::Null);
    let frames = store.frames(watch, NOW);
    assert_eq!(events(&frames), ["ADDED g", "MODIFIED g", "DELETED g"]);
    for line in &frames.lines {
        let frame: Value = serde_json::from_slice(line).unwrap();
        assert_eq!(frame["object"]["apiVersion"], "scheduling.k8s.io/v1alpha2");
        assert_eq!(frame["object"]["spec"], group["spec"]);
    }
    assert!(names(&get(&mut store, BETA)).is_empty());
}
