//! The HTTPS API of an agent, for callers with and without permission.

use http::{Method, Request, StatusCode};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::client::Body;
use kube::config::AuthInfo;
use serde_json::{Value, json};

use super::super::endpoints::Endpoints;
use super::super::wait::eventually;
use super::world::{Member, run};
use crate::manifests::find_all;

const VERSION: &str = "supercluster.loadmaster.io/v1alpha1";

/// A caller of an agent.
struct Caller(Endpoints);

impl Caller {
    fn with_token(member: &Member, token: String) -> Self {
        let token: AuthInfo = serde_json::from_value(json!({"token": token})).unwrap();
        Self(Endpoints::at(member.port, token))
    }

    async fn send(&self, method: Method, path: &str, body: String) -> (StatusCode, Value) {
        self.try_send(method, path, body).await.unwrap()
    }

    /// Returns the answer; none if the connection breaks.
    async fn try_send(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Option<(StatusCode, Value)> {
        let path =
            if path.starts_with('/') { path.to_owned() } else { format!("/{VERSION}/{path}") };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("Content-Type", "application/json");
        let answer = self.0.send(request.body(Body::from(body.into_bytes())).unwrap()).await;
        let (status, text) = answer?;
        Some((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.send(Method::GET, path, String::new()).await
    }

    /// Posts a message of the version.
    async fn post(&self, path: &str, mut message: Value) -> (StatusCode, Value) {
        if message.get("apiVersion").is_none() {
            message["apiVersion"] = VERSION.into();
        }
        self.send(Method::POST, path, message.to_string()).await
    }

    /// Posts a message that must be answered.
    async fn answer(&self, path: &str, message: Value) -> Value {
        let (status, answer) = self.post(path, message).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(answer["apiVersion"], VERSION);
        answer
    }
}

fn pod(name: &str, cpus: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
        "spec": {"schedulerName": "supercluster", "containers": [{"name": "c", "image": "pause",
            "resources": {"requests": {"cpu": cpus}}}]}})
}

fn sample(pod: &Value) -> Value {
    json!({"pod": pod, "strategy": "all", "nodesToSampleBp": 10_000})
}

fn commit(pod: &Value, sample: &Value, node: &str, attempt: u32) -> Value {
    let key = json!({"pod": pod["metadata"]["uid"], "attempt": attempt, "candidate": 0});
    json!({"key": key, "snapshot": sample["snapshot"], "pod": pod, "target": {"node": node}})
}

/// The permissions of callers in the chart.
fn caller_rules() -> Vec<PolicyRule> {
    let roles: Vec<ClusterRole> = find_all("tests/manifests/rendered/agent.yaml");
    let is_callers =
        |role: &&ClusterRole| role.metadata.name.as_deref() == Some("loadmaster-caller");
    roles.iter().find(is_callers).unwrap().rules.clone().unwrap()
}

#[test]
fn agent_answers_callers_with_the_role_of_the_chart_and_no_others() {
    run(1, async |world| {
        let member = &world.members[0];
        member.cluster.permit("caller", caller_rules()).await;
        member.cluster.permit("stranger", Vec::new()).await;
        let caller = Caller::with_token(member, member.cluster.token("caller"));
        let stranger = Caller::with_token(member, member.cluster.token("stranger"));
        let unknown = Caller::with_token(member, "no-such-token".to_owned());
        for (path, expected) in [
            ("strategies", json!(["all", "best", "random", "round-robin"])),
            ("status", Value::Bool(true)),
        ] {
            let (status, answer) = caller.get(path).await;
            assert_eq!(status, StatusCode::OK, "{answer}");
            let field = if path == "status" { "isSynced" } else { "strategies" };
            assert_eq!(answer[field], expected);
            assert_eq!(stranger.get(path).await.0, StatusCode::FORBIDDEN);
            assert_eq!(unknown.get(path).await.0, StatusCode::UNAUTHORIZED);
        }
        let (status, _) = stranger.post("commits", json!({})).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "before its body is read");
        assert_eq!(caller.get("/metrics").await.0, StatusCode::FORBIDDEN);
        let (status, document) = caller.get("/openapi/v3").await;
        assert_eq!((status, &document["openapi"]), (StatusCode::OK, &json!("3.0.3")));

        // What it cannot read.
        let (status, answer) = caller.post("seals", json!({"apiVersion": "v9", "key": {}})).await;
        assert_eq!((status, &answer["reason"]), (StatusCode::BAD_REQUEST, &json!("BadRequest")));
        let (status, _) = caller.send(Method::POST, "commits", "[".to_owned()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let unknown_strategy = json!({"pod": pod("a", "1"), "strategy": "x", "nodesToSampleBp": 1});
        let (status, refusal) = caller.post("samples", unknown_strategy).await;
        assert_eq!((status, &refusal["code"]), (StatusCode::BAD_REQUEST, &json!("Malformed")));

        // The agent does not read all of it, so that the connection may break before the answer is
        // read.
        let (status, answer) = eventually("a long body is refused", async || {
            caller.try_send(Method::POST, "commits", " ".repeat(5 << 20)).await
        })
        .await;
        assert_eq!((status, &answer["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!(413)));
    });
}

#[test]
fn foreign_pod_makes_a_commit_a_conflict_and_a_sealed_one_is_not_made() {
    run(1, async |world| {
        let member = &world.members[0];
        member.cluster.add_node("a", 4).await;
        member.cluster.permit("caller", caller_rules()).await;
        let caller = Caller::with_token(member, member.cluster.token("caller"));
        let (first, second, third) = (pod("first", "3"), pod("second", "1"), pod("third", "1"));
        let sampled = loop {
            let sampled = caller.answer("samples", sample(&first)).await;
            if sampled["nodes"][0]["name"] == "a" {
                break sampled;
            }
        };
        assert_eq!(sampled["nodes"][0]["free"]["milliCpu"], 4_000);

        // Another scheduler is faster. Its pod is seen a moment later.
        member.cluster.create_pod_on("foreign", "2", "a").await;
        loop {
            let now = caller.answer("samples", sample(&first)).await;
            if now["nodes"] == json!([]) {
                assert!(now["reason"].as_str().unwrap().contains("Insufficient cpu"), "{now}");
                break;
            }
        }
        let decided = commit(&first, &sampled, "a", 1);
        let conflict = caller.answer("commits", decided.clone()).await;
        assert_eq!(
            (&conflict["outcome"], &conflict["code"]),
            (&json!("conflict"), &json!("Resources"))
        );
        assert_eq!(caller.answer("commits", decided.clone()).await, conflict, "the same answer");
        let sealed = caller.answer("seals", json!({"key": decided["key"]})).await;
        assert_eq!(sealed["state"], "sealed");

        // A commit that is made, its repetition, and a seal that comes too late.
        let decided = commit(&second, &sampled, "a", 1);
        let committed = caller.answer("commits", decided.clone()).await;
        assert_eq!((&committed["outcome"], &committed["node"]), (&json!("committed"), &json!("a")));
        assert_eq!(caller.answer("commits", decided.clone()).await, committed);
        let sealed = caller.answer("seals", json!({"key": decided["key"]})).await;
        assert_eq!((&sealed["state"], &sealed["uid"]), (&json!("committed"), &committed["uid"]));

        // A commit that is sealed before it arrives.
        let decided = commit(&third, &sampled, "a", 1);
        let sealed = caller.answer("seals", json!({"key": decided["key"]})).await;
        assert_eq!(sealed["state"], "sealed");
        let late = caller.answer("commits", decided).await;
        assert_eq!((&late["outcome"], &late["code"]), (&json!("rejected"), &json!("Sealed")));

        // The delegate is listed, and deleted only for its own original.
        let listed = loop {
            let (_, listed) = caller.get("delegates?waitMs=2000").await;
            if listed["delegates"][0]["status"]["phase"] == "Running" {
                break listed;
            }
        };
        assert_eq!(listed["delegates"][0]["pod"], "uid-second");
        let deletion = |uid: &str| {
            json!({"pod": uid, "namespace": "shop", "name": "second",
            "gracePeriodSeconds": 0})
        };
        let other = caller.answer("deletions", deletion("uid-other")).await;
        assert_eq!(other["state"], "gone");
        assert!(
            member.cluster.pods.get_opt("second").await.unwrap().is_some(),
            "it is not its delegate"
        );
        assert_eq!(caller.answer("deletions", deletion("uid-second")).await["state"], "deleting");
        loop {
            if caller.answer("deletions", deletion("uid-second")).await["state"] == "gone" {
                break;
            }
        }
        assert!(member.cluster.pods.get_opt("second").await.unwrap().is_none());

        // A pod in a namespace that the member does not have.
        let mut homeless = pod("homeless", "1");
        homeless["metadata"]["namespace"] = "nowhere".into();
        let refused = caller.answer("commits", commit(&homeless, &sampled, "a", 1)).await;
        assert_eq!(refused["outcome"], "rejected", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("nowhere"), "{refused}");
    });
}
