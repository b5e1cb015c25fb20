//! Trials of changes over HTTP, with the scheduling loop played by the test.

use dry_run::Limit;
use engine::ports::Ports;
use engine::{Change, Engine, Input};
use framework::Time;
use futures::FutureExt;
use rustls::pki_types::CertificateDer;
use serde_json::Value;
use testkit::{PodBuilder, node, pod};

use super::*;
use crate::config::{self, Gates};
use crate::http::testing::access_by;
use crate::scheduling_loop::{Copied, Question};
use crate::what_if::{Options, Trial};

const PATH: &str = "/whatif/v1";
const HEAD: &str = "apiVersion: whatif.loadmaster.io/v1\nkind: Changes\n";

fn trial() -> Trial {
    Trial {
        config: config::defaults(&Gates::default()),
        registry: Arc::new(plugins::registry()),
        gates: Gates::default(),
        adaptive_sampling: false,
        every_scheduler: false,
    }
}

/// Two nodes, `web` with two pods on the first, and a pod that fits nowhere.
fn engine() -> Engine {
    engine_with([owned("web-a").on("n1"), owned("web-b").on("n1"), pod("large").cpu("9")])
}

/// A pod of the ReplicaSet `web`.
fn owned(name: &str) -> PodBuilder {
    pod(name).cpu("600m").label("app", "web").label("pod-template-hash", "5d9f").with(|pod| {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9f", "controller": true}]);
        pod.metadata.owner_references = serde_json::from_value(owner).unwrap();
    })
}

/// Two nodes with 2 CPUs each, and these pods.
fn engine_with<const N: usize>(pods: [PodBuilder; N]) -> Engine {
    let mut engine = Engine::new(engine_config().unwrap());
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    for name in ["n1", "n2"] {
        let own = node(name).allocatable("cpu", "2").allocatable("memory", "4Gi");
        engine.step(
            Input::Change(Change::Node(own.allocatable("pods", "9").build())),
            Time::ZERO,
            ports,
        );
    }
    for pod in pods {
        engine.step(Input::Change(Change::Pod(Box::new(pod.build()))), Time::ZERO, ports);
    }
    engine.take_effects();
    engine
}

async fn ask_at(
    server: &Server,
    path: &str,
    caller: &[CertificateDer<'static>],
    body: &str,
) -> (u16, Value) {
    let asking = server.request_as(Method::POST, path, caller.to_vec(), body);
    answered(server, &engine(), asking).await
}

/// Returns the answer to a request while the scheduling loop copies this engine.
async fn answered(
    server: &Server,
    engine: &Engine,
    asking: impl Future<Output = (StatusCode, HeaderMap, String)>,
) -> (u16, Value) {
    let answering = async {
        loop {
            let LoopEvent::Question(Question::Copy(base, receiver)) = server.next_event().await
            else {
                panic!("another question");
            };
            let now = Time::from_secs(60);
            let mut cluster = base.map_or_else(Default::default, ::explain::ClusterCopy::since);
            while !cluster.advance(engine, now) {}
            receiver.send(Copied { cluster, now, leads: true }).unwrap();
        }
    };
    let (status, _, body) = tokio::select! {
        answer = asking => answer,
        () = answering => unreachable!(),
    };
    (status.as_u16(), serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

fn server() -> (Server, Vec<CertificateDer<'static>>) {
    let (authority, metrics) = (Authority::new("users"), Arc::<Metrics>::default());
    let access = access(&authority, &metrics);
    let server = Server::answering(Health::default(), &access, metrics, Some(trial()));
    server.health.set_handlers_synced();
    let admin = authority.issue("admin", &["system:masters"]);
    (server, admin)
}

async fn ask(body: &str) -> (u16, Value) {
    let (server, admin) = server();
    ask_at(&server, PATH, &admin, body).await
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|own| own["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn drained_pods_of_the_live_state_move_and_nothing_else_happens() {
    let (status, answer) = ask(&format!("{HEAD}drain: [n1]\n")).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(names(&answer["moved"]), ["web-a", "web-b"], "{answer}");
    assert_eq!(
        (&answer["moved"][0]["to"], &answer["moved"][0]["cause"]),
        (&json!("n2"), &json!("drained"))
    );
    assert_eq!(answer["summary"]["pendingAnyway"], 1);
    assert_eq!((&answer["nodes"], &answer["lost"]), (&Value::Null, &json!([])));
}

#[tokio::test]
async fn list_of_pods_is_answered_like_a_dry_run() {
    let own = |name: &str, cpu: &str| {
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": cpu}}}]}})
    };
    let body =
        json!({"apiVersion": "v1", "kind": "PodList", "items": [own("a", "1500m"), own("b", "3")]});
    let (status, answer) = ask(&body.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    let expected = json!([{"namespace": "default", "name": "a", "node": "n2", "isNew": true}]);
    assert_eq!(answer["placed"], expected);
    assert_eq!(names(&answer["pending"]), ["b"]);
    assert!(
        answer["pending"][0]["reason"].as_str().unwrap().contains("Insufficient cpu"),
        "{answer}"
    );
}

#[tokio::test]
async fn deployment_that_only_its_pods_show_is_scaled_and_another_configuration_counts() {
    let scale = "scale: [{kind: Deployment, namespace: default, name: web, replicas: 3}]\n";
    let most = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
                - pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n  \
                plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}}\n";
    let (server, admin) = server();
    let mut nodes = Vec::new();
    for body in [format!("{HEAD}{scale}"), format!("{HEAD}{scale}---\n{most}")] {
        let (status, answer) = ask_at(&server, "/whatif/v1?nodes=true", &admin, &body).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["nodes"]["before"].as_array().map(Vec::len), Some(2));
        nodes.push(answer["placed"][0]["node"].clone());
    }
    assert_eq!(nodes, ["n2", "n1"]);
}

#[tokio::test]
async fn faults_of_a_change_are_named() {
    let rows = [
        ("", 400, "no object"),
        ("apiVersion: [", 400, "the change"),
        ("apiVersion: whatif.loadmaster.io/v9\nkind: Changes\n", 400, "expected Changes of"),
        (
            &format!("{HEAD}drain: [n1]\nuncordon: [n1]\n"),
            400,
            "uncordon[0]: node \"n1\": uncordon contradicts drain[0]",
        ),
        (&format!("{HEAD}drain: [n9]\n"), 400, "drain[0]: there is no node \"n9\""),
        (&format!("{HEAD}drian: [n1]\n"), 400, "unknown field `drian`"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containrs: []}\n",
            400,
            "containrs",
        ),
        (&format!("{HEAD}addNodes: [{{like: n1, count: 5001}}]\n"), 400, "more than 5000 nodes"),
        (
            &format!("{HEAD}scale: [{{kind: Deployment, name: web, replicas: 2000000000}}]\n"),
            400,
            "more than 10000 pods",
        ),
        (
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: x}\nspec: {replicas: 2000000000, selector: {}, template: {spec: {containers: [{name: c, image: i}]}}}\n",
            413,
            "more than 10000 pods",
        ),
    ];
    let (server, admin) = server();
    for (body, expected, text) in rows {
        let (status, answer) = ask_at(&server, PATH, &admin, body).await;
        assert_eq!(status, expected, "{body}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(text), "{body}: {answer}");
    }
    let (status, answer) = ask_at(&server, PATH, &admin, &"# ".repeat(5 * 1024 * 1024)).await;
    assert_eq!(
        (status, answer["message"].as_str().unwrap().contains("8388608 bytes")),
        (413, true)
    );
    let (status, _) = ask_at(&server, "/whatif/v1?sead=1", &admin, HEAD).await;
    assert_eq!(status, 400, "an unknown parameter");
    let thing = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\n";
    let (_, answer) = ask_at(&server, PATH, &admin, thing).await;
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("1 Thing of the change has no effect"), "{warnings}");
    let (status, answer) = ask_at(&server, PATH, &admin, &format!("{HEAD}cordon: [n1]\n")).await;
    assert_eq!(status, 200, "questions go on being answered: {answer}");
}

#[tokio::test]
async fn caller_that_may_not_list_all_pods_learns_nothing() {
    let (authority, metrics) = (Authority::new("users"), Arc::<Metrics>::default());
    let viewer = authority.issue("viewer", &["viewers"]);
    let access = access_by(&authority, &metrics, |spec| {
        let (path, resource) = (&spec["nonResourceAttributes"], &spec["resourceAttributes"]);
        let may_ask = path["path"] == PATH && path["verb"] == "post";
        let may_read = resource["resource"] == "nodes" || resource["namespace"] == "default";
        spec["user"] == "viewer" && (may_ask || may_read)
    });
    let server = Server::answering(Health::default(), &access, metrics, Some(trial()));
    server.health.set_handlers_synced();
    let mut answers = Vec::new();
    for body in
        [format!("{HEAD}drain: [n1]\n"), format!("{HEAD}drain: [n9]\n"), "nonsense".to_owned()]
    {
        answers.push(ask_at(&server, PATH, &viewer, &body).await);
    }
    assert_eq!(answers[0].0, 403, "{:?}", answers[0]);
    assert!(answers.iter().all(|own| *own == answers[0]), "{answers:?}");
    assert_eq!(ask_at(&server, PATH, &[], HEAD).await.0, 403, "an anonymous caller");
}

/// Asks about moves of the pods of this engine.
async fn get_of(engine: &Engine, path: &str) -> (u16, Value) {
    let (server, admin) = server();
    answered(&server, engine, server.request_as(Method::GET, path, admin, "")).await
}

/// `web` with a pod on each node, another pod on the first, and a pod that needs a whole node.
fn fragmented() -> Engine {
    let local = json!({"emptyDir": {}});
    engine_with([
        owned("web-a").on("n1"),
        owned("web-b").on("n2"),
        owned("cache").volume(local).on("n2"),
        pod("whole").cpu("2"),
        pod("small").cpu("1"),
    ])
}

#[tokio::test]
async fn moves_make_room_for_a_pod_that_waits() {
    let engine = fragmented();
    let (status, room) = get_of(&engine, "/whatif/v1/room/pods/default/whole").await;
    assert_eq!((status, &room["outcome"], &room["node"]), (200, &json!("plan"), &json!("n1")));
    let expected =
        json!([{"namespace": "default", "name": "web-a", "from": "n1", "to": "n2", "cost": 1000}]);
    assert_eq!((&room["moves"], &room["isCertain"]), (&expected, &json!(true)), "{room}");
    assert_eq!(room["kept"], json!({"has local data: emptyDir or hostPath": 1}));
    let (_, room) = get_of(&engine, "/whatif/v1/room/pods/default/small").await;
    assert_eq!(room["outcome"], "fits", "{room}");
    let (_, room) = get_of(&engine, "/whatif/v1/room/pods/default/whole?mostMoves=0").await;
    assert_eq!((&room["outcome"], &room["isCertain"]), (&json!("noPlan"), &json!(true)));
    let (_, room) = get_of(&engine, "/whatif/v1/room/pods/default/whole?highestPriority=-1").await;
    assert_eq!(room["kept"]["has a higher priority than is moved"], 3, "{room}");
    for (name, expected) in [("web-a", 404), ("none", 404), ("whole?most=1", 400)] {
        let (status, answer) =
            get_of(&engine, &format!("/whatif/v1/room/pods/default/{name}")).await;
        assert_eq!(status, expected, "{name}: {answer}");
    }
}

#[tokio::test]
async fn largest_shapes_of_pods_that_wait_get_room() {
    let (status, found) = get_of(&fragmented(), "/whatif/v1/room/largest/5").await;
    let shapes = found["shapes"].as_array().unwrap();
    let row = |place: usize| {
        let own = &shapes[place];
        json!([own["requests"]["cpu"], own["pods"], own["room"]["outcome"]])
    };
    assert_eq!((status, shapes.len()), (200, 2), "{found}");
    assert_eq!([row(0), row(1)], [json!(["2", 1, "plan"]), json!(["1", 1, "fits"])]);
}

#[tokio::test]
async fn nodes_whose_pods_fit_elsewhere_are_named() {
    let (status, found) = get_of(&fragmented(), "/whatif/v1/emptynodes").await;
    assert_eq!((status, names(&found["nodes"])), (200, vec!["n1"]), "{found}");
    assert_eq!(found["nodes"][0]["moves"][0]["to"], "n2");
    assert_eq!((names(&found["staying"]), &found["isComplete"]), (vec!["n2"], &json!(true)));
}

#[tokio::test]
async fn moves_are_for_callers_that_may_list_all_pods_and_only_with_the_flag() {
    let (authority, metrics) = (Authority::new("users"), Arc::<Metrics>::default());
    let viewer = authority.issue("viewer", &["viewers"]);
    let access = access_by(&authority, &metrics, |spec| {
        let (path, resource) = (&spec["nonResourceAttributes"], &spec["resourceAttributes"]);
        path["verb"] == "get" || resource["namespace"] == "default"
    });
    let server = Server::answering(Health::default(), &access, metrics, Some(trial()));
    server.health.set_handlers_synced();
    let off = Server::new();
    off.health.set_handlers_synced();
    for path in ["/whatif/v1/room/pods/default/whole", "/whatif/v1/emptynodes"] {
        let (status, _, body) = server.request_as(Method::GET, path, viewer.clone(), "").await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {body}");
        let (status, _, body) = off.request(Method::GET, path, Admin, "").await;
        assert!(status == StatusCode::NOT_FOUND && body.contains("without --whatif"), "{body}");
    }
}

#[tokio::test]
async fn trials_are_off_unless_asked_for_and_limited_in_number() {
    let server = Server::new();
    server.health.set_handlers_synced();
    let (status, _, body) = server.request(Method::POST, PATH, Admin, HEAD).await;
    assert_eq!(
        (status, body.contains("without --whatif")),
        (StatusCode::NOT_FOUND, true),
        "{body}"
    );
    let (server, admin) = self::server();
    let (status, headers, body) =
        server.request_as(Method::GET, "/whatif/v1/openapi.json", admin.clone(), "").await;
    assert_eq!(
        (status, headers[header::CONTENT_TYPE].as_bytes()),
        (StatusCode::OK, &b"application/json"[..])
    );
    let document: Value = serde_json::from_str(&body).unwrap();
    assert!(document["paths"][PATH]["post"].is_object());
    let change = format!("{HEAD}cordon: [n1]\n");
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let mut asking = Box::pin(server.request_as(Method::POST, PATH, admin.clone(), &change));
        assert!(asking.as_mut().now_or_never().is_none());
        waiting.push(asking);
    }
    for _ in 8..1000 {
        let (status, headers, _) =
            server.request_as(Method::POST, PATH, admin.clone(), &change).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(headers[header::RETRY_AFTER], "1");
    }
    drop(waiting);
}

/// The fields of the answer and of the document that describes it.
#[test]
fn document_describes_the_answer() {
    let copy = ::explain::ClusterCopy::of(&engine(), Time::ZERO);
    let change = Trial::read(format!("{HEAD}drain: [n1]\nupgrade: [{{nodes: [n2]}}]\n")).unwrap();
    let options = Options { with_nodes: true, ..Options::default() };
    let answer = trial().answer(copy, &change, options).unwrap();
    let answer = serde_json::to_value(answer).unwrap();
    let document: Value = serde_json::from_str(include_str!("../what_if.json")).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let described = |schema: &str| keys(&document["components"]["schemas"][schema]["properties"]);
    let sorted = |mut keys: Vec<String>| {
        keys.sort();
        keys
    };
    assert_eq!(sorted(keys(&answer)), sorted(described("WhatIf")));
    assert_eq!(sorted(keys(&answer["summary"])), sorted(described("Summary")));
    assert_eq!(sorted(keys(&answer["nodes"]["after"][0])), sorted(described("Node")));
    assert_eq!(answer["quotas"], json!([]));
    let steps = &document["components"]["schemas"]["WhatIf"]["properties"]["upgrade"]["items"];
    assert_eq!(sorted(keys(&answer["upgrade"][0])), sorted(keys(&steps["properties"])));
}

#[tokio::test]
async fn document_describes_the_answers_about_moves() {
    let (_, room) = get_of(&fragmented(), "/whatif/v1/room/pods/default/whole").await;
    let (_, found) = get_of(&fragmented(), "/whatif/v1/emptynodes").await;
    let (_, shapes) = get_of(&fragmented(), "/whatif/v1/room/largest/1").await;
    let document: Value = serde_json::from_str(include_str!("../what_if.json")).unwrap();
    let keys = |value: &Value| {
        value.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>()
    };
    for (schema, answer) in [
        ("Room", &room),
        ("Move", &room["moves"][0]),
        ("ShapesRoom", &shapes),
        ("ShapeRoom", &shapes["shapes"][0]),
        ("EmptyNodes", &found),
        ("EmptyNode", &found["nodes"][0]),
        ("StayingNode", &found["staying"][0]),
    ] {
        let described = &document["components"]["schemas"][schema]["properties"];
        assert_eq!(keys(answer), keys(described), "{schema}");
    }
}

#[test]
fn dry_run_ends_when_its_time_is_over() {
    let copy = ::explain::ClusterCopy::of(&engine(), Time::ZERO);
    let change = Trial::read(format!("{HEAD}drain: [n1]\n")).unwrap();
    let options = Options { limit: Limit::new(|| true), ..Options::default() };
    let refused = trial().answer(copy, &change, options).unwrap_err();
    assert_eq!(refused.to_string(), "the dry run takes too long");
}
