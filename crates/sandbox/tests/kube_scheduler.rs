//! The requests of kube-scheduler 1.36, from its start to a preemption, with its user and its
//! roles.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use framework::Time;
use loadmaster_sandbox::api::{Answer, Frames, Request, Response, User, WatchId};
use loadmaster_sandbox::resources::{NODES, PODS};
use loadmaster_sandbox::store::Store;
use serde_json::{Value, json};

const NOW: Time = Time::from_secs(1_700_000_000);
const ACCEPT: &str = "application/json";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// The kinds that its informers watch with the default feature gates.
const WATCHED: [&str; 18] = [
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/api/v1/pods?fieldSelector=status.phase%21%3DFailed%2Cstatus.phase%21%3DSucceeded",
    "/api/v1/replicationcontrollers",
    "/api/v1/services",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/resource.k8s.io/v1/resourceclaims",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/storage.k8s.io/v1/csidrivers",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/csistoragecapacities",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/volumeattachments",
];

fn store() -> Store {
    let mut store = Store::new(1, NOW);
    let node = json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}});
    store.create(NODES, node, NOW).unwrap();
    for name in ["placed", "waiting"] {
        let pod = json!({"metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "pause"}]}});
        store.create(PODS, pod, NOW).unwrap();
    }
    store
}

fn request(method: &str, target: &str, content_type: &str, body: &Value) -> Request {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut request = Request::new(method, target, body);
    request.accept = ACCEPT.to_owned();
    request.content_type = content_type.to_owned();
    request.user = User::new("system:kube-scheduler", ["system:authenticated"]);
    request
}

fn answer(store: &mut Store, request: &Request) -> Response {
    match store.serve(request, NOW) {
        Answer::Whole(response) => response,
        Answer::Watch(_) => panic!("{} opened a watch", request.path),
    }
}

/// Sends a request, checks the status of the answer, and returns its object.
fn send(store: &mut Store, method: &str, target: &str, status: u16, body: &Value) -> Value {
    let content_type = match method {
        "PATCH" => "application/strategic-merge-patch+json",
        _ => "application/json",
    };
    let response = answer(store, &request(method, target, content_type, body));
    assert_eq!(response.status, status, "{method} {target}: {:?}", response.body);
    assert_eq!(response.content_type, "application/json");
    serde_json::from_slice(&response.body).unwrap()
}

fn watch(store: &mut Store, target: &str, parameters: &str) -> WatchId {
    let separator = if target.contains('?') { '&' } else { '?' };
    let target = format!("{target}{separator}{parameters}");
    match store.serve(&request("GET", &target, "", &Value::Null), NOW) {
        Answer::Watch(id) => id,
        Answer::Whole(response) => panic!("{target}: {:?}", response.body),
    }
}

fn events(frames: &Frames) -> Vec<Value> {
    frames.lines.iter().map(|line| serde_json::from_slice(line).unwrap()).collect()
}

#[test]
fn kube_scheduler_can_start() {
    let mut store = store();
    let authentication =
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    send(&mut store, "GET", authentication, 404, &Value::Null);
    let group = send(&mut store, "GET", "/apis/events.k8s.io/v1", 200, &Value::Null);
    assert_eq!(group["kind"], "APIResourceList");

    let review = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1",
        "spec": {"token": "stranger"}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let answer = send(&mut store, "POST", reviews, 201, &review);
    assert_ne!(answer["status"]["authenticated"], true);
    let review = json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "spec": {"user": "somebody", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}});
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = send(&mut store, "POST", reviews, 201, &review);
    assert_eq!(answer["status"]["allowed"], false);
}

#[test]
fn roles_for_one_name_allow_lists_and_watches_of_that_name() {
    let mut store = store();
    let configmaps = "/api/v1/namespaces/kube-system/configmaps";
    let selected = "fieldSelector=metadata.name%3Dextension-apiserver-authentication";
    watch(&mut store, configmaps, &format!("watch=true&{selected}"));
    send(&mut store, "GET", &format!("{configmaps}?{selected}"), 200, &Value::Null);
    for other in ["", "?fieldSelector=metadata.name%3Dother", "?fieldSelector=metadata.name!%3Dx"] {
        send(&mut store, "GET", &format!("{configmaps}{other}"), 403, &Value::Null);
    }
    let refusal = send(
        &mut store,
        "GET",
        &format!("{configmaps}?fieldSelector=metadata.name%3Dother"),
        403,
        &Value::Null,
    );
    assert_eq!(
        refusal["message"],
        "configmaps \"other\" is forbidden: User \"system:kube-scheduler\" cannot list resource \
         \"configmaps\" in API group \"\" in the namespace \"kube-system\""
    );
}

#[test]
fn every_informer_can_stream_its_list() {
    let mut store = store();
    for target in WATCHED {
        let streamed = "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan\
                        &sendInitialEvents=true&timeoutSeconds=400&watch=true";
        let watch = watch(&mut store, target, streamed);
        let events = events(&store.frames(watch, NOW));
        let (mark, added) = events.split_last().unwrap();
        assert!(added.iter().all(|event| event["type"] == "ADDED"), "{target}");
        let annotations = &mark["object"]["metadata"]["annotations"];
        assert_eq!(annotations["k8s.io/initial-events-end"], "true", "{target}");
    }
}

#[test]
fn every_informer_can_list_and_watch() {
    let mut store = store();
    for target in WATCHED {
        let separator = if target.contains('?') { '&' } else { '?' };
        let first = format!("{target}{separator}limit=500&resourceVersion=0");
        let list = send(&mut store, "GET", &first, 200, &Value::Null);
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let parameters = format!(
            "allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds=400&watch=true"
        );
        let watch = watch(&mut store, target, &parameters);
        assert_eq!(store.frames(watch, NOW), Frames::default(), "{target}");
    }
}

#[test]
fn kube_scheduler_acquires_renews_and_releases_its_lease() {
    let mut store = store();
    let own = &format!("{LEASES}/kube-scheduler");
    send(&mut store, "GET", own, 404, &Value::Null);
    let lease = json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
        "spec": {"holderIdentity": "host_1", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "2026-11-21T20:00:00.000000Z",
            "renewTime": "2026-11-21T20:00:00.000000Z"}});
    let mut held = send(&mut store, "POST", LEASES, 201, &lease);
    let stale = held.clone();
    held["spec"]["renewTime"] = json!("2026-11-21T20:00:02.000001Z");
    let renewed = send(&mut store, "PUT", own, 200, &held);
    assert_eq!(renewed["spec"]["renewTime"], "2026-11-21T20:00:02.000001Z");
    send(&mut store, "PUT", own, 409, &stale);
    let mut released = renewed;
    released["spec"]["holderIdentity"] = json!("");
    released["spec"]["leaseDurationSeconds"] = json!(1);
    send(&mut store, "PUT", own, 200, &released);
    send(&mut store, "GET", &format!("{LEASES}/another"), 404, &Value::Null);
    send(&mut store, "DELETE", own, 403, &Value::Null);
}

#[test]
fn kube_scheduler_binds_a_pod() {
    let mut store = store();
    let seen = watch(&mut store, "/api/v1/pods", "resourceVersion=0&watch=true");
    store.frames(seen, NOW);
    let uid = store.get(PODS, "default", "placed").unwrap()["metadata"]["uid"].clone();
    let binding = json!({"metadata": {"name": "placed", "namespace": "default", "uid": uid},
        "target": {"kind": "Node", "name": "n1"}});
    let path = "/api/v1/namespaces/default/pods/placed/binding";
    send(&mut store, "POST", path, 201, &binding);
    let events = events(&store.frames(seen, NOW));
    assert_eq!(events[0]["type"], "MODIFIED");
    assert_eq!(events[0]["object"]["spec"]["nodeName"], "n1");
    send(&mut store, "POST", path, 409, &binding);
}

#[test]
fn kube_scheduler_reports_failures_nominates_and_preempts() {
    let mut store = store();
    let status = "/api/v1/namespaces/default/pods/waiting/status";
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available", "observedGeneration": 1, "lastProbeTime": null,
        "lastTransitionTime": "2026-11-21T20:00:00Z"});
    let patch = json!({"metadata": {"uid": uid(&store, "waiting")}, "status": {
        "$setElementOrder/conditions": [{"type": "PodScheduled"}],
        "conditions": [condition], "nominatedNodeName": "n1"}});
    let pod = send(&mut store, "PATCH", status, 200, &patch);
    assert_eq!(pod["status"]["conditions"], json!([condition]));
    assert_eq!(pod["status"]["nominatedNodeName"], "n1");

    let victim = "/api/v1/namespaces/default/pods/placed";
    let disrupted = json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True",
        "reason": "PreemptionByScheduler"}]}});
    send(&mut store, "PATCH", &format!("{victim}/status"), 200, &disrupted);
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    send(&mut store, "DELETE", victim, 200, &options);
    assert_eq!(store.get(PODS, "default", "placed"), None);

    let clear = json!({"status": {"nominatedNodeName": null}});
    let pod = send(&mut store, "PATCH", status, 200, &clear);
    assert_eq!(pod["status"].get("nominatedNodeName"), None);
    assert_eq!(pod["status"]["conditions"], json!([condition]));
}

fn uid(store: &Store, pod: &str) -> Value {
    store.get(PODS, "default", pod).unwrap()["metadata"]["uid"].clone()
}

#[test]
fn kube_scheduler_writes_events_and_series() {
    let mut store = store();
    let all = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "waiting.18a", "namespace": "default"},
        "eventTime": "2026-11-21T20:00:00.000001Z", "type": "Warning",
        "reason": "FailedScheduling", "action": "Scheduling", "note": "0/1 nodes are available",
        "reportingController": "default-scheduler", "reportingInstance": "default-scheduler-host",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "waiting",
            "uid": uid(&store, "waiting"), "apiVersion": "v1", "resourceVersion": "7"}});
    send(&mut store, "POST", all, 201, &event);
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-11-21T20:00:09.000000Z"}});
    let event = send(&mut store, "PATCH", &format!("{all}/waiting.18a"), 200, &series);
    assert_eq!(event["series"]["count"], 2);
    assert_eq!(event["note"], "0/1 nodes are available");

    let leading = json!({"metadata": {"name": "kube-scheduler.18a", "namespace": "kube-system"},
        "involvedObject": {"kind": "Lease", "namespace": "kube-system", "name": "kube-scheduler",
            "apiVersion": "coordination.k8s.io/v1"},
        "reason": "LeaderElection", "message": "host_1 became leader", "type": "Normal",
        "source": {"component": "default-scheduler"}, "reportingComponent": "default-scheduler",
        "firstTimestamp": "2026-11-21T20:00:00Z", "lastTimestamp": "2026-11-21T20:00:00Z",
        "count": 1});
    send(&mut store, "POST", "/api/v1/namespaces/kube-system/events", 201, &leading);
}
