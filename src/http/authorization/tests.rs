//! Tests of the authorizers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::testing::{ApiServer, TTL};
use super::*;

/// Answers like an API server on which the group `monitoring` may read the metrics.
fn review(path: &str, body: &Value) -> (u16, Value) {
    assert_eq!(path, "/apis/authorization.k8s.io/v1/subjectaccessreviews");
    let spec = &body["spec"];
    let groups = spec["groups"].as_array().unwrap();
    let asked = &spec["nonResourceAttributes"];
    let status = match spec["user"].as_str() {
        Some("banned") => json!({"allowed": true, "denied": true, "reason": "banned"}),
        _ if groups.contains(&json!("monitoring"))
            && *asked == json!({"path": "/metrics", "verb": "get"}) =>
        {
            json!({"allowed": true, "reason": "RBAC: allowed"})
        }
        _ => json!({"allowed": false}),
    };
    (201, json!({"spec": spec, "status": status}))
}

fn authorizer(server: &ApiServer, unauthorized_ttl: Duration) -> Authorizer {
    let paths = ["/healthz", "/readyz", "/livez"].map(str::to_owned);
    Authorizer {
        always_allow: AlwaysAllowPaths::new(&paths),
        reviewer: SubjectAccessReviewer::new(server.reviews(), TTL, unauthorized_ttl),
    }
}

fn user(name: &str, groups: &[&str]) -> User {
    User {
        name: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..User::default()
    }
}

#[tokio::test]
async fn masters_and_allowed_paths_need_no_review() {
    let server = ApiServer::start(review);
    let authorizer = authorizer(&server, TTL);
    let admin = user("admin", &["system:masters", "system:authenticated"]);
    let anonymous = user("system:anonymous", &["system:unauthenticated"]);
    for (user, path) in [(&admin, "/configz"), (&anonymous, "/healthz"), (&anonymous, "/livez")] {
        let decision = authorizer.authorize(user, "get", path).await;
        assert_eq!(decision, Ok(Decision::Allowed), "{path}");
    }
    assert!(server.requests().is_empty());
    let decision = authorizer.authorize(&anonymous, "get", "/readyz/shutdown").await;
    assert_eq!(decision, Ok(Decision::NoOpinion(String::new())));
}

#[tokio::test]
async fn api_server_decides_on_user_groups_and_extra() {
    let server = ApiServer::start(review);
    let authorizer = authorizer(&server, TTL);
    let mut caller = user("jane", &["monitoring"]);
    caller.uid = "u7".to_owned();
    caller.extra = BTreeMap::from([("scope".to_owned(), vec!["a".to_owned()])]);
    for (verb, path, expected) in [
        ("get", "/metrics", Decision::Allowed),
        ("delete", "/metrics", Decision::NoOpinion(String::new())),
        ("get", "/configz", Decision::NoOpinion(String::new())),
    ] {
        assert_eq!(authorizer.authorize(&caller, verb, path).await, Ok(expected));
    }
    let expected = json!({
        "user": "jane", "uid": "u7", "groups": ["monitoring"], "extra": {"scope": ["a"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    });
    assert_eq!(server.requests()[0]["spec"], expected);
    let banned = user("banned", &["monitoring"]);
    let decision = authorizer.authorize(&banned, "get", "/metrics").await;
    assert_eq!(decision, Ok(Decision::Denied("banned".to_owned())));
}

#[tokio::test]
async fn decisions_are_cached_for_their_time() {
    let server = ApiServer::start(review);
    let authorizer = authorizer(&server, Duration::ZERO);
    for _ in 0..3 {
        authorizer.authorize(&user("jane", &["monitoring"]), "get", "/metrics").await.unwrap();
    }
    assert_eq!(server.requests().len(), 1);
    for _ in 0..3 {
        authorizer.authorize(&user("jane", &[]), "get", "/metrics").await.unwrap();
    }
    assert_eq!(server.requests().len(), 4, "refusals are not cached here");
}

#[tokio::test]
async fn missing_permission_for_reviews_is_named() {
    let message = "subjectaccessreviews.authorization.k8s.io is forbidden: User \"loadmaster\" \
                   cannot create resource \"subjectaccessreviews\"";
    let server = ApiServer::start(move |_, _| {
        (403, json!({"kind": "Status", "code": 403, "message": message}))
    });
    let decision = authorizer(&server, TTL).authorize(&user("jane", &[]), "get", "/metrics").await;
    assert!(decision.unwrap_err().to_string().starts_with(message));
}

#[test]
fn path_with_a_star_allows_its_prefix() {
    let paths = AlwaysAllowPaths::new(&["/healthz".into(), "metrics/*".into()]);
    let allowed = ["/healthz", "/metrics/", "/metrics/slis"];
    allowed.into_iter().for_each(|path| assert!(paths.allow(path), "{path}"));
    let refused = ["/healthz/ping", "/metrics", "/"];
    refused.into_iter().for_each(|path| assert!(!paths.allow(path), "{path}"));
}
