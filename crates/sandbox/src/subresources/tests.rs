//! Subresources and reviews as clients see them.

use framework::Time;
use serde_json::{Value, json};

use super::{Route, serve};
use crate::api::{Request, User};
use crate::object::{condition_status, put, text};
use crate::resources::{
    CLUSTERROLEBINDINGS, PODDISRUPTIONBUDGETS, PODS, REPLICASETS, Resource,
    SELFSUBJECTACCESSREVIEWS, SELFSUBJECTREVIEWS, SELFSUBJECTRULESREVIEWS, SERVICEACCOUNTS,
    SUBJECTACCESSREVIEWS, TOKENREVIEWS,
};
use crate::status::Status;
use crate::store::{DeleteOptions, Store};

const NOW: Time = Time::from_secs(1_000_000);

fn route(resource: &'static Resource, namespace: &str, name: &str, subresource: &str) -> Route {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    Route { resource, namespace, name, subresource: subresource.to_owned() }
}

fn store() -> Store {
    Store::new(1, NOW)
}

/// Where a request goes to.
#[derive(Clone, Copy)]
struct Target<'a> {
    resource: &'static Resource,
    name: &'a str,
    subresource: &'a str,
}

impl<'a> Target<'a> {
    const fn of(resource: &'static Resource, name: &'a str, subresource: &'a str) -> Self {
        Self { resource, name, subresource }
    }
}

/// POSTs `body`, and returns the body of the answer or the error.
fn post(store: &mut Store, target: Target<'_>, body: &Value) -> Result<Value, Status> {
    call(store, "POST", target, body, User::admin())
}

fn call(
    store: &mut Store,
    method: &str,
    target: Target<'_>,
    body: &Value,
    user: User,
) -> Result<Value, Status> {
    let Target { resource, name, subresource } = target;
    let request = Request { user, ..Request::new(method, "/", body.to_string()) };
    let namespace = if resource.namespaced { "default" } else { "" };
    let response = serve(store, &route(resource, namespace, name, subresource), &request, NOW)?;
    Ok(serde_json::from_slice(&response.body).unwrap())
}

fn add_pod(store: &mut Store, name: &str, change: impl FnOnce(&mut Value)) {
    let pod = json!({"metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "pause"}]}});
    store.create(PODS, pod, NOW).unwrap();
    let change = |pod: &mut Value| {
        change(pod);
        Ok(())
    };
    store.modify(PODS, "default", name, NOW, change).unwrap();
}

fn pod<'a>(store: &'a Store, name: &str) -> &'a Value {
    store.get(PODS, "default", name).unwrap()
}

fn binding(name: &str) -> Value {
    json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}})
}

#[test]
fn binding_sets_the_node_of_the_pod() {
    let mut store = store();
    add_pod(&mut store, "p", |pod| {
        put(pod, &["status", "nominatedNodeName"], json!("n2"));
        put(pod, &["metadata", "annotations", "kept"], json!("1"));
    });
    let mut wanted = binding("p");
    put(&mut wanted, &["metadata", "annotations", "added"], json!("2"));
    let answer = post(&mut store, Target::of(PODS, "p", "binding"), &wanted).unwrap();
    assert_eq!((&answer["status"], &answer["code"]), (&json!("Success"), &json!(201)));
    let pod = pod(&store, "p");
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert_eq!(condition_status(pod, "PodScheduled"), "True");
    assert_eq!(pod["status"].get("nominatedNodeName"), None);
    assert_eq!(pod["metadata"]["annotations"], json!({"kept": "1", "added": "2"}));
    assert_eq!(pod["metadata"]["generation"], 1);
}

#[test]
fn legacy_binding_names_the_pod_in_its_body() {
    let mut store = store();
    add_pod(&mut store, "p", |_| {});
    post(&mut store, Target::of(crate::resources::BINDINGS, "", ""), &binding("p")).unwrap();
    assert_eq!(pod(&store, "p")["spec"]["nodeName"], "n1");
}

#[test]
fn refused_bindings_have_the_texts_of_the_api_server() {
    let mut store = store();
    add_pod(&mut store, "bound", |pod| put(pod, &["spec", "nodeName"], json!("n0")));
    add_pod(&mut store, "gated", |pod| {
        put(pod, &["spec", "schedulingGates"], json!([{"name": "g"}]));
    });
    add_pod(&mut store, "ending", |pod| {
        put(pod, &["metadata", "deletionTimestamp"], json!("2026-01-01T00:00:00Z"));
        put(pod, &["metadata", "finalizers"], json!(["f"]));
    });
    add_pod(&mut store, "free", |_| {});
    let (uid, version) = {
        let metadata = &pod(&store, "free")["metadata"];
        (metadata["uid"].clone(), metadata["resourceVersion"].clone())
    };
    let conflict = |pod: &str, why: &str| {
        format!("Operation cannot be fulfilled on pods/binding {pod:?}: {why}")
    };
    let precondition = |what: &str, wanted: &str, found: &Value| {
        format!(
            "Operation cannot be fulfilled on pods \"free\": StorageError: invalid object, Code: \
             4, Key: /registry/pods/default/free, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {}",
            found.as_str().unwrap()
        )
    };
    let metadata = |field: &str| {
        json!({"metadata": {"name": "free", field: "1"},
        "target": {"name": "n1"}})
    };
    let table = [
        ("nope", binding("nope"), 404, "pods \"nope\" not found".to_owned()),
        (
            "bound",
            binding("bound"),
            409,
            conflict("bound", "pod bound is already assigned to node \"n0\""),
        ),
        (
            "gated",
            binding("gated"),
            409,
            conflict("gated", "pod gated has non-empty .spec.schedulingGates"),
        ),
        (
            "ending",
            binding("ending"),
            409,
            conflict("ending", "pod ending is being deleted, cannot be assigned to a host"),
        ),
        ("free", metadata("uid"), 409, precondition("UID", "1", &uid)),
        ("free", metadata("resourceVersion"), 409, precondition("ResourceVersion", "1", &version)),
        (
            "free",
            binding("other"),
            400,
            "name in URL does not match name in Binding object".to_owned(),
        ),
        (
            "free",
            json!({"target": {"kind": "Node"}}),
            500,
            "target.name: Required value".to_owned(),
        ),
        (
            "free",
            json!({"target": {"kind": "Minion", "name": "n1"}}),
            500,
            "target.kind: Unsupported value: \"Minion\": supported values: \"Node\"".to_owned(),
        ),
    ];
    for (name, body, code, message) in table {
        let status = post(&mut store, Target::of(PODS, name, "binding"), &body).unwrap_err();
        assert_eq!((status.code, status.message), (code, message), "{name}");
    }
    assert_eq!(text(pod(&store, "free"), "/spec/nodeName"), "");
}

#[test]
fn dry_run_of_a_binding_binds_nothing() {
    let mut store = store();
    add_pod(&mut store, "p", |_| {});
    let request = Request::new("POST", "/?dryRun=All", binding("p").to_string());
    serve(&mut store, &route(PODS, "default", "p", "binding"), &request, NOW).unwrap();
    assert_eq!(text(pod(&store, "p"), "/spec/nodeName"), "");
}

fn add_running_pod(store: &mut Store, name: &str, ready: &str) {
    add_pod(store, name, |pod| {
        put(pod, &["spec", "nodeName"], json!("n1"));
        put(pod, &["status", "phase"], json!("Running"));
        put(pod, &["status", "conditions"], json!([{"type": "Ready", "status": ready}]));
    });
}

fn add_budget(store: &mut Store, name: &str, status: Value) {
    let budget = json!({"metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    store.create(PODDISRUPTIONBUDGETS, budget, NOW).unwrap();
    let change = |budget: &mut Value| {
        put(budget, &["status"], status);
        Ok(())
    };
    store.modify(PODDISRUPTIONBUDGETS, "default", name, NOW, change).unwrap();
}

fn evict(store: &mut Store, pod: &str) -> Result<Value, Status> {
    post(store, Target::of(PODS, pod, "eviction"), &json!({"metadata": {"name": pod}}))
}

#[test]
fn eviction_is_charged_to_the_budget_and_deletes_gracefully() {
    let mut store = store();
    add_running_pod(&mut store, "p", "True");
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2,
        "desiredHealthy": 1});
    add_budget(&mut store, "b", status);
    evict(&mut store, "p").unwrap();
    let pod = pod(&store, "p");
    assert_eq!(condition_status(pod, "DisruptionTarget"), "True");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let status = &store.get(PODDISRUPTIONBUDGETS, "default", "b").unwrap()["status"];
    assert_eq!(status["disruptionsAllowed"], 0);
    assert_eq!(text(status, "/disruptedPods/p"), "1970-01-12T13:46:40Z");
}

#[test]
fn eviction_against_the_budget_is_refused() {
    let mut store = store();
    add_running_pod(&mut store, "p", "True");
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1,
        "desiredHealthy": 1});
    add_budget(&mut store, "b", status);
    let refusal = evict(&mut store, "p").unwrap_err();
    assert_eq!(
        refusal.to_value(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "reason": "TooManyRequests", "code": 429,
            "details": {"causes": [{"reason": "DisruptionBudget",
                "message": "The disruption budget b needs 1 healthy pods and has 1 currently"}]}})
    );

    let stale = |budget: &mut Value| {
        put(budget, &["status", "observedGeneration"], json!(0));
        Ok(())
    };
    store.modify(PODDISRUPTIONBUDGETS, "default", "b", NOW, stale).unwrap();
    let refusal = evict(&mut store, "p").unwrap_err();
    assert_eq!(refusal.response().retry_after, Some(10));
    assert_eq!(
        refusal.details.unwrap().causes[0].message,
        "The disruption budget b is still being processed by the server."
    );
    assert!(pod(&store, "p")["metadata"].get("deletionTimestamp").is_none());
}

#[test]
fn eviction_of_pods_that_are_not_healthy_needs_no_budget() {
    let blocking = |healthy: i64| {
        json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": healthy,
            "desiredHealthy": 1})
    };
    // phase, ready, healthy pods of the budget, whether the pod may go
    let table = [
        ("Pending", "False", 0, true),
        ("Failed", "False", 0, true),
        ("Running", "False", 1, true),
        ("Running", "False", 0, false),
        ("Running", "True", 1, false),
    ];
    for (phase, ready, healthy, allowed) in table {
        let mut store = store();
        add_running_pod(&mut store, "p", ready);
        add_budget(&mut store, "b", blocking(healthy));
        let change = |pod: &mut Value| {
            put(pod, &["status", "phase"], json!(phase));
            Ok(())
        };
        store.modify(PODS, "default", "p", NOW, change).unwrap();
        assert_eq!(evict(&mut store, "p").is_ok(), allowed, "{phase} {ready} {healthy}");
    }
}

#[test]
fn pod_with_two_budgets_cannot_be_evicted() {
    let mut store = store();
    add_running_pod(&mut store, "p", "True");
    add_budget(&mut store, "a", json!({}));
    add_budget(&mut store, "b", json!({}));
    let refusal = evict(&mut store, "p").unwrap_err();
    assert_eq!(refusal.code, 500);
    assert!(refusal.message.starts_with("This pod has more than one PodDisruptionBudget"));
}

#[test]
fn scale_returns_and_sets_the_replicas() {
    let mut store = store();
    let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "pause"}]}}}});
    store.create(REPLICASETS, set, NOW).unwrap();
    let target = Target::of(REPLICASETS, "web", "scale");
    let mut scale = call(&mut store, "GET", target, &json!({}), User::admin()).unwrap();
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    assert_eq!(scale["status"]["selector"], "app=web");

    put(&mut scale, &["spec", "replicas"], json!(5));
    let answer = call(&mut store, "PUT", target, &scale, User::admin()).unwrap();
    assert_eq!(answer["spec"]["replicas"], 5);
    assert_eq!(store.get(REPLICASETS, "default", "web").unwrap()["metadata"]["generation"], 2);
    let stale = call(&mut store, "PUT", target, &scale, User::admin()).unwrap_err();
    assert_eq!(stale.code, 409);

    let patch = Request {
        content_type: "application/merge-patch+json".to_owned(),
        ..Request::new("PATCH", "/", r#"{"spec":{"replicas":-1}}"#)
    };
    let refusal = serve(&mut store, &route(REPLICASETS, "default", "web", "scale"), &patch, NOW);
    assert_eq!(refusal.unwrap_err().code, 422);
}

#[test]
fn requested_token_authenticates_its_service_account() {
    let mut store = store();
    store.create(SERVICEACCOUNTS, json!({"metadata": {"name": "robot"}}), NOW).unwrap();
    let target = Target::of(SERVICEACCOUNTS, "robot", "token");
    let answer = post(&mut store, target, &json!({"spec": {"expirationSeconds": 600}})).unwrap();
    assert_eq!(answer["status"]["expirationTimestamp"], "1970-01-12T13:56:40Z");
    let review = json!({"spec": {"token": answer["status"]["token"]}});
    let answer = post(&mut store, Target::of(TOKENREVIEWS, "", ""), &review).unwrap();
    assert_eq!(answer["status"]["authenticated"], true);
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:robot");

    let answer =
        post(&mut store, Target::of(TOKENREVIEWS, "", ""), &json!({"spec": {"token": "x"}}))
            .unwrap();
    assert_eq!(answer["status"].get("authenticated"), None);
    let refusal = post(&mut store, target, &json!({"spec": {"expirationSeconds": 60}}));
    assert_eq!(refusal.unwrap_err().code, 422);
}

fn reader_of_pods(store: &mut Store) -> User {
    let role = json!({"metadata": {"name": "reader"},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
    store.create(crate::resources::CLUSTERROLES, role, NOW).unwrap();
    let binding = json!({"metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "reader"},
        "subjects": [{"kind": "User", "name": "bob"}]});
    store.create(CLUSTERROLEBINDINGS, binding, NOW).unwrap();
    User::new("bob", ["system:authenticated"])
}

#[test]
fn access_reviews_follow_rbac() {
    let mut store = store();
    let bob = reader_of_pods(&mut store);
    let pods = |verb: &str| json!({"resourceAttributes": {"verb": verb, "resource": "pods"}});
    let path = |path: &str| json!({"nonResourceAttributes": {"verb": "get", "path": path}});
    let table = [
        (pods("get"), true),
        (pods("delete"), false),
        (path("/healthz"), true),
        (path("/apis/apps/v1"), true),
        (path("/metrics"), false),
    ];
    for (mut spec, allowed) in table {
        let target = Target::of(SELFSUBJECTACCESSREVIEWS, "", "");
        let own = call(&mut store, "POST", target, &json!({"spec": spec}), bob.clone()).unwrap();
        assert_eq!(own["status"]["allowed"], allowed, "{spec}");
        spec["user"] = json!("bob");
        spec["groups"] = json!(["system:authenticated"]);
        let of_bob =
            post(&mut store, Target::of(SUBJECTACCESSREVIEWS, "", ""), &json!({"spec": spec}));
        assert_eq!(of_bob.unwrap()["status"]["allowed"], allowed, "{spec}");
    }
    let both = json!({"spec": {"user": "bob"}});
    assert_eq!(
        post(&mut store, Target::of(SUBJECTACCESSREVIEWS, "", ""), &both).unwrap_err().code,
        422
    );
}

#[test]
fn changed_roles_take_effect_at_once() {
    let mut store = store();
    let bob = reader_of_pods(&mut store);
    let question = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let target = Target::of(SELFSUBJECTACCESSREVIEWS, "", "");
    let answer = call(&mut store, "POST", target, &question, bob.clone()).unwrap();
    assert_eq!(answer["status"]["allowed"], true);
    store.delete(CLUSTERROLEBINDINGS, "", "reader", &DeleteOptions::default(), NOW).unwrap();
    let answer = call(&mut store, "POST", target, &question, bob).unwrap();
    assert_eq!(answer["status"]["allowed"], false);
}

#[test]
fn self_reviews_return_the_user_and_its_permissions() {
    let mut store = store();
    let bob = reader_of_pods(&mut store);
    let who =
        call(&mut store, "POST", Target::of(SELFSUBJECTREVIEWS, "", ""), &json!({}), bob.clone());
    assert_eq!(who.unwrap()["status"]["userInfo"]["username"], "bob");
    let question = json!({"spec": {"namespace": "default"}});
    let target = Target::of(SELFSUBJECTRULESREVIEWS, "", "");
    let rules = call(&mut store, "POST", target, &question, bob).unwrap();
    let rules = rules["status"]["resourceRules"].as_array().unwrap().clone();
    assert!(rules.contains(&json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})));
}

#[test]
fn logs_exist_once_containers_have_started() {
    let mut store = store();
    add_pod(&mut store, "p", |_| {});
    let log = |store: &mut Store, target: &str| {
        let request = Request::new("GET", target, "");
        serve(store, &route(PODS, "default", "p", "log"), &request, NOW)
    };
    assert_eq!(log(&mut store, "/").unwrap_err().code, 400);
    let start = |pod: &mut Value| {
        put(pod, &["status", "containerStatuses"], json!([{"name": "c"}]));
        Ok(())
    };
    store.modify(PODS, "default", "p", NOW, start).unwrap();
    assert!(log(&mut store, "/").unwrap().body.starts_with(b"c: "));
    assert_eq!(log(&mut store, "/?container=x").unwrap_err().code, 400);
}

#[test]
fn unsupported_methods_and_subresources_are_refused() {
    let mut store = store();
    for (method, name, subresource) in [("GET", "p", "binding"), ("POST", "p", "attach")] {
        let request = Request::new(method, "/", "");
        let refusal = serve(&mut store, &route(PODS, "default", name, subresource), &request, NOW);
        assert_eq!(refusal.unwrap_err().code, 405);
    }
}
