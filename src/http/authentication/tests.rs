//! Tests of the authenticators.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::http::{HeaderName, HeaderValue};
use rcgen::{DnType, ExtendedKeyUsagePurpose, date_time_ymd};
use serde_json::{Value, json};

use super::super::reviews::Reviews;
use super::super::testing::{
    ApiServer, Authority, Folder, TTL, authentication_options, credentials, params,
};
use super::client_certificate::ClientAuthorities;
use super::request_header::RequestHeader;
use super::*;
use crate::api_client::ApiClient;
use crate::metrics::{DelegatedAuth, Metrics};

fn headers(given: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn bearer(token: &str) -> HeaderMap {
    headers(&[("Authorization", &format!("Bearer {token}"))])
}

/// Answers like an API server that knows the token `good`.
fn review(_path: &str, body: &Value) -> (u16, Value) {
    let status = match body["spec"]["token"].as_str() {
        Some("good") => json!({"authenticated": true, "user": {
            "username": "system:serviceaccount:monitoring:prometheus",
            "uid": "u1",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
        }}),
        Some("unknown") => json!({"user": {}}),
        _ => json!({"user": {}, "error": "invalid bearer token"}),
    };
    (201, json!({"spec": body["spec"], "status": status}))
}

struct Setup {
    server: ApiServer,
    users: Authority,
    proxies: Authority,
    authenticator: Authenticator,
    /// Keeps the channel open.
    _trust: watch::Sender<Trust>,
}

fn authorities(authority: &Authority) -> ClientAuthorities {
    ClientAuthorities::from_pem(authority.pem().as_bytes()).unwrap()
}

impl Setup {
    async fn new(answer: impl Fn(&str, &Value) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let server = ApiServer::start(answer);
        let (users, proxies) = (Authority::new("users"), Authority::new("proxies"));
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let names = RequestHeaderNames {
            allowed: list(&["front-proxy-client"]),
            username: list(&["X-Remote-User", "X-Other-User"]),
            uid: list(&["X-Remote-Uid"]),
            group: list(&["X-Remote-Group"]),
            extra_prefix: list(&["X-Remote-Extra-"]),
        };
        let (sender, trust) = watch::channel(Trust {
            clients: Some(authorities(&users)),
            proxies: Some(RequestHeader { authorities: authorities(&proxies), names }),
        });
        let tokens = TokenReviewer::new(server.reviews(), TTL);
        let authenticator = Authenticator { trust, tokens };
        Self { server, users, proxies, authenticator, _trust: sender }
    }

    async fn user(
        &self,
        certificates: &[CertificateDer<'static>],
        headers: &HeaderMap,
    ) -> Result<User, String> {
        let user = self.authenticator.authenticate(certificates, headers).await;
        user.map_err(|error| error.to_string())
    }
}

#[tokio::test]
async fn caller_without_credentials_is_anonymous() {
    let setup = Setup::new(review).await;
    for headers in [
        headers(&[]),
        headers(&[("Authorization", "Basic YTpi")]),
        headers(&[("Authorization", "Bearer ")]),
        headers(&[("Authorization", "Bearer")]),
        headers(&[("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")]),
    ] {
        let user = setup.user(&[], &headers).await.unwrap();
        assert_eq!(user.name, "system:anonymous", "{headers:?}");
        assert_eq!(user.groups, ["system:unauthenticated"]);
    }
    assert!(setup.server.requests().is_empty());
}

#[tokio::test]
async fn client_certificate_names_user_and_groups() {
    let setup = Setup::new(review).await;
    let mut params = params("jane", &["dev", "ops"]);
    params.distinguished_name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "u7");
    let (certificate, _) = setup.users.issue_with(params);
    let user = setup.user(&certificate, &headers(&[])).await.unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "u7"));
    assert_eq!(user.groups, ["dev", "ops", "system:authenticated"]);
    let id = &user.extra["authentication.kubernetes.io/credential-id"][0];
    assert!(id.starts_with("X509SHA256=") && id.len() == 75, "{id}");
}

#[tokio::test]
async fn invalid_client_certificate_is_rejected_unless_the_token_is_good() {
    let setup = Setup::new(review).await;
    let mut expired = params("jane", &["system:masters"]);
    expired.not_before = date_time_ymd(2020, 1, 1);
    expired.not_after = date_time_ymd(2020, 12, 31);
    let mut early = params("jane", &[]);
    early.not_before = date_time_ymd(4000, 1, 1);
    early.not_after = date_time_ymd(4001, 1, 1);
    let mut server = params("jane", &[]);
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let cases = [
        (setup.users.issue_with(expired).0, "expired"),
        (setup.users.issue_with(early).0, "not valid yet"),
        (setup.users.issue_with(server).0, "client"),
        (Authority::new("users").issue("jane", &["system:masters"]), "UnknownIssuer"),
        (vec![CertificateDer::from(vec![1, 2, 3])], "cannot be decoded"),
    ];
    for (certificate, expected) in cases {
        let error = setup.user(&certificate, &headers(&[])).await.unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
        let user = setup.user(&certificate, &bearer("good")).await.unwrap();
        assert_eq!(user.name, "system:serviceaccount:monitoring:prometheus");
    }
}

#[tokio::test]
async fn certificate_without_authorities_is_ignored() {
    let setup = Setup::new(review).await;
    setup._trust.send_replace(Trust::default());
    let certificate = setup.users.issue("jane", &["system:masters"]);
    let user = setup.user(&certificate, &headers(&[])).await.unwrap();
    assert_eq!(user.name, "system:anonymous");
}

#[tokio::test]
async fn certificate_of_a_removed_authority_is_rejected() {
    let setup = Setup::new(review).await;
    let certificate = setup.users.issue("jane", &[]);
    assert_eq!(setup.user(&certificate, &headers(&[])).await.unwrap().name, "jane");
    let clients = Some(authorities(&Authority::new("new")));
    setup._trust.send_replace(Trust { clients, proxies: None });
    setup.user(&certificate, &headers(&[])).await.unwrap_err();
}

#[tokio::test]
async fn front_proxy_passes_on_a_user() {
    let setup = Setup::new(review).await;
    let proxy = setup.proxies.issue("front-proxy-client", &[]);
    let given = headers(&[
        ("X-Remote-User", ""),
        ("X-Other-User", "jane"),
        ("X-Remote-Uid", "u7"),
        ("X-Remote-Group", "dev"),
        ("X-Remote-Group", "ops"),
        ("X-Remote-Extra-Example.com%2FScope", "a"),
        ("X-Remote-Extra-Example.com%2FScope", "b"),
    ]);
    let user = setup.user(&proxy, &given).await.unwrap();
    let expected = User {
        name: "jane".to_owned(),
        uid: "u7".to_owned(),
        groups: ["dev", "ops", "system:authenticated"].map(str::to_owned).to_vec(),
        extra: BTreeMap::from([(
            "example.com/scope".to_owned(),
            vec!["a".to_owned(), "b".to_owned()],
        )]),
    };
    assert_eq!(user, expected);
}

#[tokio::test]
async fn headers_of_other_clients_are_ignored() {
    let setup = Setup::new(review).await;
    let given = headers(&[("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")]);
    let user = setup.users.issue("jane", &[]);
    assert_eq!(setup.user(&user, &given).await.unwrap().name, "jane");
    let other_name = setup.proxies.issue("other", &[]);
    let error = setup.user(&other_name, &given).await.unwrap_err();
    assert!(error.contains("x509: subject with cn=other is not in the allowed list"), "{error}");
    let stranger = Authority::new("proxies").issue("front-proxy-client", &[]);
    setup.user(&stranger, &given).await.unwrap_err();
}

#[tokio::test]
async fn every_proxy_is_allowed_if_none_is_named() {
    let setup = Setup::new(review).await;
    let username = vec!["X-Remote-User".to_owned()];
    let names = RequestHeaderNames { username, ..RequestHeaderNames::default() };
    let proxies = Some(RequestHeader { authorities: authorities(&setup.proxies), names });
    setup._trust.send_replace(Trust { clients: None, proxies });
    let proxy = setup.proxies.issue("any", &[]);
    let user = setup.user(&proxy, &headers(&[("X-Remote-User", "jane")])).await.unwrap();
    assert_eq!(user.name, "jane");
}

#[tokio::test]
async fn anonymous_user_of_a_proxy_stays_unauthenticated() {
    let setup = Setup::new(review).await;
    let proxy = setup.proxies.issue("front-proxy-client", &[]);
    let given = headers(&[("X-Remote-User", "system:anonymous")]);
    assert!(setup.user(&proxy, &given).await.unwrap().groups.is_empty());
}

#[tokio::test]
async fn token_is_reviewed_once_while_it_is_cached() {
    let setup = Setup::new(review).await;
    for _ in 0..3 {
        let user = setup.user(&[], &bearer("good")).await.unwrap();
        assert_eq!(user.name, "system:serviceaccount:monitoring:prometheus");
        assert_eq!(user.uid, "u1");
        assert_eq!(user.groups, ["system:serviceaccounts", "system:authenticated"]);
        assert_eq!(user.extra.len(), 1);
    }
    assert_eq!(setup.server.requests().len(), 1);
    assert_eq!(setup.server.requests()[0]["spec"], json!({"token": "good"}));
}

#[tokio::test]
async fn rejected_token_is_reviewed_each_time() {
    let setup = Setup::new(review).await;
    for _ in 0..3 {
        let error = setup.user(&[], &bearer("bad")).await.unwrap_err();
        assert_eq!(error, "invalid bearer token");
    }
    assert_eq!(setup.server.requests().len(), 3);
    for _ in 0..3 {
        setup.user(&[], &bearer("unknown")).await.unwrap_err();
    }
    assert_eq!(setup.server.requests().len(), 4, "rejected without a reason: cached");
}

#[tokio::test]
async fn concurrent_callers_with_one_token_share_a_review() {
    let setup = Setup::new(review).await;
    let headers = bearer("good");
    let callers = (0..50).map(|_| setup.user(&[], &headers));
    let users = futures::future::join_all(callers).await;
    assert!(users.iter().all(Result::is_ok));
    assert_eq!(setup.server.requests().len(), 1);
}

#[tokio::test]
async fn temporary_failures_are_retried_and_permanent_ones_are_not() {
    let tries = Arc::new(AtomicUsize::new(0));
    let setup = Setup::new(move |path, body| match body["spec"]["token"].as_str() {
        Some("forbidden") => (403, json!({"kind": "Status", "code": 403, "message":
            "tokenreviews.authentication.k8s.io is forbidden: User \"loadmaster\" cannot create \
             resource \"tokenreviews\" in API group \"authentication.k8s.io\" at the cluster scope"
        })),
        _ => match tries.fetch_add(1, Ordering::Relaxed) {
            0 => (500, json!({})),
            1 => (503, json!({"kind": "Status", "details": {"retryAfterSeconds": 1}})),
            _ => review(path, body),
        },
    })
    .await;
    setup.user(&[], &bearer("good")).await.unwrap();
    assert_eq!(setup.server.requests().len(), 3);
    let error = setup.user(&[], &bearer("forbidden")).await.unwrap_err();
    assert!(error.contains("cannot create resource \"tokenreviews\""), "{error}");
    assert_eq!(setup.server.requests().len(), 4);
}

#[tokio::test]
async fn unreachable_api_server_is_an_error_at_once() {
    let mut setup = Setup::new(review).await;
    let nowhere = credentials("http://127.0.0.1:1");
    let metrics = Metrics::new();
    let client = ApiClient::new(&nowhere, "test", metrics.rest_client(), Arc::default()).unwrap();
    let reviews = Reviews::new(client, metrics.delegated_auth(), DelegatedAuth::token_review);
    setup.authenticator.tokens = TokenReviewer::new(reviews, TTL);
    let error = setup.user(&[], &bearer("good")).await.unwrap_err();
    assert!(error.contains("onnect"), "{error}");
    let text = metrics.render();
    let expected = "apiserver_delegated_authn_request_total{code=\"<error>\"} ";
    assert!(text.contains(expected), "{text}");
}

#[tokio::test]
async fn authorities_of_the_cluster_are_looked_up() {
    let (users, proxies) = (Authority::new("users"), Authority::new("proxies"));
    let data = json!({
        "client-ca-file": users.pem(),
        "requestheader-client-ca-file": proxies.pem(),
        "requestheader-allowed-names": "[\"front-proxy-client\"]",
        "requestheader-username-headers": "[\"X-Remote-User\"]",
        "requestheader-group-headers": "[\"X-Remote-Group\"]",
        "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
    });
    let server = ApiServer::start(move |path, _| match path {
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication" => {
            (200, json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data}))
        }
        _ => panic!("{path}"),
    });
    let sources = TrustSources::load(&authentication_options(), &server.client()).await.unwrap();
    let trust = sources.subscribe().borrow().clone();
    let given = headers(&[("X-Remote-User", "jane")]);
    let user = trust.authenticate(&users.issue("joe", &[]), &given).unwrap();
    assert_eq!(user.name, "joe");
    let proxy = proxies.issue("front-proxy-client", &[]);
    assert_eq!(trust.authenticate(&proxy, &given).unwrap().name, "jane");
}

#[tokio::test]
async fn changed_authorities_of_the_cluster_are_noticed() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let config_map = |authority: &Authority| json!({"data": {"client-ca-file": authority.pem()}});
    let events = Mutex::new(vec![
        json!({"type": "DELETED", "object": {}}),
        json!({"type": "MODIFIED", "object": config_map(&new)}),
        json!({"type": "ADDED", "object": {"data": {"client-ca-file": "invalid"}}}),
        json!({"type": "ADDED", "object": config_map(&old)}),
    ]);
    let first = config_map(&old);
    let server = ApiServer::start(move |path, _| match path {
        "/api/v1/namespaces/kube-system/configmaps" => match events.lock().unwrap().pop() {
            Some(event) => (200, event),
            None => (403, json!({"message": "is forbidden"})),
        },
        _ => (200, first.clone()),
    });
    let sources = TrustSources::load(&authentication_options(), &server.client()).await.unwrap();
    tokio::time::pause();
    let mut trust = sources.subscribe();
    let following = tokio::spawn(sources.follow());
    let trusts = |trust: &Trust, authority: &Authority| {
        trust.authenticate(&authority.issue("jane", &[]), &headers(&[])).is_ok()
    };
    assert!(trusts(&trust.borrow_and_update(), &old));
    let changed = trust.wait_for(|trust| trusts(trust, &new)).await.unwrap();
    assert!(!trusts(&changed, &old));
    drop(changed);
    while server.requests().len() < 6 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(trusts(&trust.borrow(), &new), "a deletion or a failure takes nothing back");
    following.abort();
}

#[tokio::test]
async fn missing_config_map_is_tolerated_and_a_forbidden_one_only_if_asked() {
    let required =
        AuthenticationOptions { tolerate_lookup_failure: false, ..authentication_options() };
    let server = ApiServer::start(|_, _| (404, json!({"message": "not found"})));
    TrustSources::load(&required, &server.client()).await.unwrap();

    let server = ApiServer::start(|_, _| (403, json!({"message": "is forbidden"})));
    TrustSources::load(&authentication_options(), &server.client()).await.unwrap();
    let error = TrustSources::load(&required, &server.client()).await.err().unwrap().to_string();
    let start = "unable to load configmap based request-header-client-ca-file: is forbidden \
                 (usually fixed by 'kubectl create rolebinding -n kube-system";
    assert!(error.starts_with(start), "{error}");

    let skipped = AuthenticationOptions { skip_lookup: true, ..required };
    TrustSources::load(&skipped, &server.client()).await.unwrap();
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn unreadable_config_map_is_an_error() {
    let required =
        AuthenticationOptions { tolerate_lookup_failure: false, ..authentication_options() };
    for (key, value, expected) in [
        ("client-ca-file", "nothing", "client-ca-file: data does not contain any valid PEM"),
        ("requestheader-allowed-names", "[", "requestheader-allowed-names: EOF"),
    ] {
        let data = json!({key: value});
        let server = ApiServer::start(move |_, _| (200, json!({"data": data})));
        let error = TrustSources::load(&required, &server.client()).await.err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn files_replace_the_authorities_of_the_cluster() {
    let folder = Folder::new();
    let (of_cluster, of_file) = (Authority::new("cluster"), Authority::new("file"));
    let data = json!({"client-ca-file": of_cluster.pem()});
    let server = ApiServer::start(move |_, _| (200, json!({"data": data})));
    let client_ca_file = Some(folder.write("ca.crt", &of_file.pem()));
    let options = AuthenticationOptions { client_ca_file, ..authentication_options() };
    let sources = TrustSources::load(&options, &server.client()).await.unwrap();
    let trust = sources.subscribe().borrow().clone();
    assert!(trust.authenticate(&of_file.issue("jane", &[]), &headers(&[])).is_ok());
    assert!(trust.authenticate(&of_cluster.issue("jane", &[]), &headers(&[])).is_err());

    folder.write("ca.crt", "nothing");
    let error = TrustSources::load(&options, &server.client()).await.err().unwrap().to_string();
    assert!(error.starts_with("--client-ca-file: error reading "), "{error}");
}
