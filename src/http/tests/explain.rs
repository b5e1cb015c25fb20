//! Questions over HTTP, with the scheduling loop played by the test.

use engine::ports::Ports;
use engine::{Change, Engine, Input};
use framework::Time;
use futures::FutureExt;
use rustls::pki_types::CertificateDer;
use serde_json::Value;
use testkit::{node, pod};

use super::*;
use crate::http::testing::access_by;
use crate::scheduling_loop::{Copied, Question};

/// A scheduler with a pod `waits` that no node can take, in namespaces `default` and `secret`.
fn engine() -> Engine {
    let mut engine = Engine::new(engine_config().unwrap());
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    let small = node("n1").allocatable("cpu", "1").allocatable("memory", "1Gi");
    engine.step(
        Input::Change(Change::Node(small.allocatable("pods", "9").build())),
        Time::ZERO,
        ports,
    );
    for namespace in ["default", "secret"] {
        let waits = pod("waits").namespace(namespace).uid(namespace).cpu("1500m").build();
        engine.step(Input::Change(Change::Pod(Box::new(waits))), Time::ZERO, ports);
        engine.step(Input::Schedule, Time::from_secs(1), ports).attempt();
    }
    engine.take_effects();
    engine
}

/// Answers one question like the scheduling loop.
async fn answer_one(server: &Server, engine: &Engine) {
    let now = Time::from_secs(60);
    match server.next_event().await {
        LoopEvent::Question(Question::Copy(base, receiver)) => {
            let mut cluster = base.map_or_else(Default::default, ::explain::ClusterCopy::since);
            while !cluster.advance(engine, now) {}
            receiver.send(Copied { cluster, now, leads: true }).unwrap();
        }
        LoopEvent::Question(Question::Facts(pod, uid, receiver)) => {
            receiver.send(::explain::facts_by_uid(engine, &pod, &uid, now)).unwrap();
        }
        LoopEvent::Question(Question::Decisions(after, receiver)) => {
            receiver.send(::explain::decisions(engine, after, now)).unwrap();
        }
        other => panic!("{other:?}"),
    }
}

/// Asks as this caller while the loop answers.
async fn ask(server: &Server, path: &str, caller: &[CertificateDer<'static>]) -> (u16, Value) {
    ask_about(&engine(), server, path, caller).await
}

async fn ask_about(
    engine: &Engine,
    server: &Server,
    path: &str,
    caller: &[CertificateDer<'static>],
) -> (u16, Value) {
    let answering = async {
        loop {
            answer_one(server, engine).await;
        }
    };
    let asking = server.request_as(Method::GET, path, caller.to_vec(), "");
    let (status, _, body) = tokio::select! {
        answer = asking => answer,
        () = answering => unreachable!(),
    };
    (status.as_u16(), serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

/// A server whose API server lets the user `viewer` ask, and read the pods of the namespace
/// `default`.
fn restricted() -> (Server, Vec<CertificateDer<'static>>) {
    let (authority, metrics) = (Authority::new("users"), Arc::<Metrics>::default());
    let viewer = authority.issue("viewer", &["viewers"]);
    let access = access_by(&authority, &metrics, |spec| {
        let (path, resource) =
            (&spec["nonResourceAttributes"]["path"], &spec["resourceAttributes"]);
        let may_ask = path.as_str().is_some_and(|path| path.starts_with("/explain/"));
        let may_read = resource["resource"] == "pods" && resource["namespace"] == "default";
        spec["user"] == "viewer" && (may_ask || may_read)
    });
    let server = Server::with_access(Health::default(), true, &access, metrics);
    server.health.set_handlers_synced();
    (server, viewer)
}

fn admin(server: &Server) -> Vec<CertificateDer<'static>> {
    server.authority.issue("admin", &["system:masters"])
}

#[tokio::test]
async fn pod_is_explained_with_its_history_and_what_would_help() {
    let server = Server::new();
    server.health.set_handlers_synced();
    let (status, answer) =
        ask(&server, "/explain/pods/default/waits?node=n1", &admin(&server)).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["facts"]["state"], "unschedulable");
    assert_eq!(answer["facts"]["history"][0]["rejections"][0]["reasons"][0], "Insufficient cpu");
    assert_eq!((&answer["now"]["asOf"], &answer["now"]["feasible"]), (&json!("now"), &json!(0)));
    assert_eq!(answer["node"]["rejecting"], json!(["NodeResourcesFit"]));
    assert!(
        answer["help"][0]["text"].as_str().unwrap().starts_with("request 500m less cpu"),
        "{answer}"
    );
    for (path, key) in [("/explain/nodes/n1", "node"), ("/explain/cluster", "pending")] {
        let (status, answer) = ask(&server, path, &admin(&server)).await;
        assert_eq!(status, 200, "{path}: {answer}");
        assert!(!answer[key].is_null(), "{path}: {answer}");
    }
}

#[tokio::test]
async fn latest_decisions_are_answered_by_number() {
    let server = Server::new();
    server.health.set_handlers_synced();
    let (_, all) = ask(&server, "/explain/decisions", &admin(&server)).await;
    let [_, decision] = &all["decisions"].as_array().unwrap()[..] else { panic!("{all}") };
    assert_eq!(
        (&decision["name"], &decision["attempt"]["outcome"]),
        (&json!("waits"), &json!("rejected"))
    );
    let path = format!("/explain/decisions?after={}", all["number"]);
    let (_, later) = ask(&server, &path, &admin(&server)).await;
    assert_eq!(later, json!({"number": all["number"], "decisions": []}));
}

#[tokio::test]
async fn kept_engine_notices_what_has_changed_since_the_last_question() {
    let (server, mut engine) = (Server::new(), engine());
    server.health.set_handlers_synced();
    let (admin, path) = (admin(&server), "/explain/pods/default/waits");
    let (_, first) = ask_about(&engine, &server, path, &admin).await;
    assert_eq!(first["now"]["feasible"], 0);
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    let large = node("n1").allocatable("cpu", "2").allocatable("memory", "1Gi");
    engine.step(
        Input::Change(Change::Node(large.allocatable("pods", "9").build())),
        Time::ZERO,
        ports,
    );
    let (_, second) = ask_about(&engine, &server, path, &admin).await;
    assert_eq!(second["now"]["feasible"], 1, "{second}");
    let secret: framework::Uid = "secret".into();
    let key = framework::PodKey::new("secret", "waits");
    engine.step(Input::Change(Change::PodDeleted { key, uid: secret }), Time::ZERO, ports);
    let (_, third) = ask_about(&engine, &server, "/explain/cluster", &admin).await;
    assert_eq!(third["pending"], 1, "{third}");
}

#[tokio::test]
async fn answers_say_what_they_leave_out() {
    let (authority, metrics) = (Authority::new("users"), Arc::<Metrics>::default());
    let access = access(&authority, &metrics);
    let notes = vec!["extenders were not asked".to_owned()];
    let explainer = Explainer::new(engine_config, notes.clone());
    let server = Server::of_parts(Health::default(), true, &access, metrics, explainer);
    server.health.set_handlers_synced();
    let admin = authority.issue("admin", &["system:masters"]);
    for path in ["pods/default/waits", "nodes/n1", "cluster"] {
        let (_, answer) = ask(&server, &format!("/explain/{path}"), &admin).await;
        assert_eq!(answer["notes"], json!(notes), "{path}: {answer}");
    }
}

#[tokio::test]
async fn pod_that_may_not_be_read_is_answered_like_an_unknown_one() {
    let (server, viewer) = restricted();
    let (status, answer) = ask(&server, "/explain/pods/default/waits", &viewer).await;
    assert_eq!(status, 200, "{answer}");
    let (status, forbidden) = ask(&server, "/explain/pods/secret/waits", &viewer).await;
    assert_eq!(status, 404, "{forbidden}");
    let (status, unknown) = ask(&server, "/explain/pods/default/never", &viewer).await;
    assert_eq!(status, 404, "{unknown}");
    let text =
        |answer: &Value, name: &str| answer["message"].as_str().unwrap().replace(name, "NAME");
    assert_eq!(text(&forbidden, "secret/waits"), text(&unknown, "default/never"));
    for path in [
        "/explain/cluster",
        "/explain/groups/secret/web",
        "/explain/podgroups/secret/gang",
        "/explain/podgroups/default/never",
        "/explain/podgroups",
        "/explain/quotas",
        "/explain/nodes/n1",
    ] {
        let (status, answer) = ask(&server, path, &viewer).await;
        assert!(matches!(status, 403 | 404), "{path}: {answer}");
    }
    let (status, _) = ask(&server, "/explain/pods/default/waits", &[]).await;
    assert_eq!(status, 403, "an anonymous caller");
}

#[tokio::test]
async fn questions_are_limited_and_need_synced_watches() {
    let server = Server::new();
    let path = "/explain/cluster";
    assert_eq!(server.get(path).await.0, 503, "not synced");
    server.health.set_handlers_synced();
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let mut asking = Box::pin(server.get(path));
        // The loop does not answer, so the questions wait.
        assert!(asking.as_mut().now_or_never().is_none());
        waiting.push(asking);
    }
    let admin = admin(&server);
    for _ in 8..1000 {
        let (status, headers, body) = server.request_as(Method::GET, path, admin.clone(), "").await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{body}");
        assert_eq!(headers[header::RETRY_AFTER], "1");
    }
    let asked = std::iter::from_fn(|| server.loop_events.try_recv().ok());
    assert_eq!(asked.count(), 1, "one question at a time reaches the loop");
    drop(waiting);
    let (status, _) = ask(&server, path, &admin).await;
    assert_eq!(status, 200, "questions that were given up are no longer in the way");
}

#[tokio::test]
async fn token_behind_the_proxy_of_the_api_server_has_a_header_of_its_own() {
    let server = crate::http::testing::ApiServer::start(|_, body| {
        let user = json!({"username": "jane"});
        let authenticated = body["spec"]["token"] == "secret";
        (201, json!({"spec": {}, "status": {"authenticated": authenticated, "user": user}}))
    });
    let tokens = crate::http::authentication::TokenReviewer::new(
        server.reviews(),
        crate::http::testing::TTL,
    );
    let mut headers = HeaderMap::new();
    headers.insert(PROXIED_AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
    assert_eq!(tokens.authenticate(&headers).await.unwrap().unwrap().name, "jane");
    headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer other"));
    assert!(tokens.authenticate(&headers).await.is_err(), "Authorization goes first");
}
