//! Requests and watches through the router, without sockets.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, Request, Response, StatusCode};
use futures::StreamExt;
use http_body_util::BodyExt;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde_json::{Value, json};

use super::certificates::Certificates;
use super::cluster::Cluster;
use super::connection::Connection;
use super::{Options, Server, request};
use crate::faults::{Faults, Settings};
use crate::recorded;
use crate::resources::{NAMESPACES, SERVICEACCOUNTS};

const TOKEN: &str = "the-token";

fn connection(faults: &[&str]) -> Connection {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificates = Certificates::new(provider).unwrap();
    let settings = Settings::default();
    let settings = faults.iter().fold(settings, |settings, one| settings.with(one).unwrap());
    let faults = Faults::new(settings, 0);
    let cluster = Cluster::new(0, faults, certificates, TOKEN.to_owned());
    Connection { cluster, certificates: Arc::default(), cut: Arc::default() }
}

fn request(method: &str, target: &str, body: impl Into<Body>) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(target)
        .header("Authorization", format!("Bearer {TOKEN}"))
        .header("Content-Type", "application/json")
        .body(body.into())
        .unwrap()
}

async fn answer(connection: &Connection, request: Request<Body>) -> Response<Body> {
    request::answer(State(connection.clone()), request).await
}

async fn body(response: Response<Body>) -> Value {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

fn namespace(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string()
}

fn has_namespace(connection: &Connection, name: &str) -> bool {
    connection.cluster.with_store(|store, _| store.get(NAMESPACES, "", name).is_some())
}

/// Returns the same connection with a client certificate of the administrators that `authorities`
/// issued.
fn certified(connection: &Connection, authorities: &Connection) -> Connection {
    let issued = authorities.cluster.certificates().client("root", Some("system:masters"), None);
    let certificate = CertificateDer::from_pem_slice(issued.unwrap().certificate.as_bytes());
    Connection { certificates: Arc::new([certificate.unwrap()]), ..connection.clone() }
}

#[tokio::test]
async fn first_valid_credential_counts_and_no_credential_is_anonymous() {
    let plain = connection(&[]);
    let of_own = certified(&plain, &plain);
    let of_another = certified(&plain, &connection(&[]));
    for (connection, authorization, expected) in [
        (&plain, None, StatusCode::FORBIDDEN),
        (&plain, Some("Basic dGhlLXRva2Vu"), StatusCode::FORBIDDEN),
        (&plain, Some("Bearer wrong"), StatusCode::UNAUTHORIZED),
        (&plain, Some("bearer the-token"), StatusCode::OK),
        (&of_own, None, StatusCode::OK),
        (&of_own, Some("Bearer wrong"), StatusCode::OK),
        (&of_another, None, StatusCode::UNAUTHORIZED),
        (&of_another, Some("Bearer the-token"), StatusCode::OK),
    ] {
        let mut request = Request::get("/api/v1/nodes");
        if let Some(authorization) = authorization {
            request = request.header("Authorization", authorization);
        }
        let response = answer(connection, request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), expected, "{authorization:?}");
    }
}

/// A scheduler asks so about the callers of its port.
#[tokio::test]
async fn servers_may_have_the_token_of_the_administrator_reviewed() {
    let connection = connection(&[]);
    let review = async |path: &str, spec: Value| {
        let response =
            answer(&connection, request("POST", path, json!({"spec": spec}).to_string()));
        body(response.await).await["status"].take()
    };
    let tokens = "/apis/authentication.k8s.io/v1/tokenreviews";
    let stranger = review(tokens, json!({"token": "wrong"})).await;
    assert_eq!(stranger, json!({"user": {}, "error": "invalid bearer token"}));
    let known = review(tokens, json!({"token": TOKEN})).await;
    assert_eq!(known["authenticated"], true);
    assert_eq!(known["user"]["username"], "kubernetes-admin");

    let accesses = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let asked = json!({"verb": "get", "path": "/explain/cluster"});
    for (groups, allowed) in
        [(known["user"]["groups"].clone(), true), (json!(["system:authenticated"]), false)]
    {
        let spec = json!({
            "user": "kubernetes-admin", "groups": groups, "nonResourceAttributes": asked,
        });
        assert_eq!(review(accesses, spec).await["allowed"], allowed, "{groups}");
    }
}

#[tokio::test]
async fn bad_token_is_refused_as_recorded() {
    let Some(recorded) = recorded::dialogue("unauthorized") else { return };
    for path in ["/api/v1/nodes", "/version", "/readyz"] {
        let request = Request::get(path).header("Authorization", "Bearer wrong");
        let response = answer(&connection(&[]), request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(body(response).await, *recorded.response_body());
    }
}

#[tokio::test]
async fn anonymous_callers_read_version_and_health() {
    for (path, expected) in [
        ("/version", StatusCode::OK),
        ("/readyz", StatusCode::OK),
        ("/readyz/etcd", StatusCode::FORBIDDEN),
        ("/apis", StatusCode::FORBIDDEN),
    ] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        assert_eq!(answer(&connection(&[]), request).await.status(), expected, "{path}");
    }
}

#[tokio::test]
async fn authorities_of_callers_are_published() {
    let connection = connection(&[]);
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let config = body(answer(&connection, request("GET", path, "")).await).await;
    let certificates = connection.cluster.certificates();
    let (clients, proxies) =
        (certificates.cluster_authority(), certificates.front_proxy_authority());
    assert_eq!(config["data"]["client-ca-file"], clients.certificate);
    assert_eq!(config["data"]["requestheader-client-ca-file"], proxies.certificate);
    assert_eq!(config["data"]["requestheader-allowed-names"], r#"["front-proxy-client"]"#);
}

#[tokio::test]
async fn administrator_can_impersonate_a_user_with_fewer_permissions() {
    let connection = connection(&[]);
    for (headers, expected) in [
        (&[("Impersonate-User", "system:kube-scheduler")][..], StatusCode::OK),
        (&[("Impersonate-User", "jane")], StatusCode::FORBIDDEN),
        (&[("Impersonate-User", "jane"), ("Impersonate-Group", "system:masters")], StatusCode::OK),
        (&[("Impersonate-Group", "system:masters")], StatusCode::BAD_REQUEST),
    ] {
        let mut get = request("GET", "/api/v1/nodes", "");
        for (name, value) in headers {
            get.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        assert_eq!(answer(&connection, get).await.status(), expected, "{headers:?}");
    }
}

/// Connects to a server and returns its certificate, which its authority must have issued.
fn certificate_of(
    address: SocketAddr,
    authority: &CertificateDer<'static>,
) -> CertificateDer<'static> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone()).unwrap();
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    while client.is_handshaking() {
        client.complete_io(&mut socket).unwrap();
    }
    client.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn server_certificate_can_be_rotated() {
    let server = Server::start(Options::default()).await.unwrap();
    let authority = server.authority().certificate;
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    let certificate = || certificate_of(server.address(), &authority);
    let before = certificate();
    assert_eq!(certificate(), before);
    server.rotate_certificate().unwrap();
    assert_ne!(certificate(), before);
    server.stop().await;
}

#[tokio::test]
async fn issued_token_authenticates_its_account_until_it_expires() {
    let server = Server::start(Options::default()).await.unwrap();
    server.with_store(|store, now| {
        store.create(SERVICEACCOUNTS, json!({"metadata": {"name": "robot"}}), now).unwrap()
    });
    let token = server.token("default", "robot", Duration::from_secs(60)).unwrap();
    let user = server.cluster.user_of_token(&token).unwrap();
    assert_eq!(user.name, "system:serviceaccount:default:robot");
    let expired = server.token("default", "robot", Duration::ZERO).unwrap();
    assert_eq!(server.cluster.user_of_token(&expired), None);
    assert_eq!(server.token("default", "nobody", Duration::ZERO), None);
}

#[tokio::test]
async fn a_body_of_more_than_three_mebibytes_is_too_large() {
    let connection = connection(&[]);
    let long = vec![b' '; 3 * 1024 * 1024 + 1];
    let response = answer(&connection, request("POST", "/api/v1/namespaces", long)).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_lost_answer_was_carried_out() {
    let connection = connection(&["lost-answers=1"]);
    answer(&connection, request("POST", "/api/v1/namespaces", namespace("lost"))).await;
    assert!(has_namespace(&connection, "lost"));
    assert!(connection.cut.is_cut());
}

#[tokio::test]
async fn a_refused_request_was_not() {
    let connection = connection(&["throttling=1"]);
    let post = request("POST", "/api/v1/namespaces", namespace("refused"));
    let response = answer(&connection, post).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["Retry-After"], "1");
    assert!(!has_namespace(&connection, "refused"));
}

#[tokio::test]
async fn faults_change_at_run_time() {
    let connection = connection(&["errors=1"]);
    let put = request("PUT", "/sandbox/faults", r#"{"latency": "5ms", "conflicts": 0.5}"#);
    let response = answer(&connection, put).await;
    assert_eq!(response.status(), StatusCode::OK);
    let settings = body(response).await;
    assert_eq!((&settings["conflicts"], &settings["errors"]), (&json!(0.5), &json!(0.0)));
    let wrong = request("PUT", "/sandbox/faults", r#"{"errors": 2}"#);
    assert_eq!(answer(&connection, wrong).await.status(), StatusCode::BAD_REQUEST);
    let read = body(answer(&connection, request("GET", "/sandbox/faults", "")).await).await;
    assert_eq!(read, settings);
}

#[tokio::test]
async fn a_watch_says_what_changes_until_the_server_stops() {
    let connection = connection(&[]);
    let version = connection.cluster.with_store(|store, _| store.resource_version());
    let target = format!("/api/v1/namespaces?watch=true&resourceVersion={version}");
    let watch = answer(&connection, request("GET", &target, "")).await;
    let mut frames = watch.into_body().into_data_stream();
    for name in ["a", "b"] {
        answer(&connection, request("POST", "/api/v1/namespaces", namespace(name))).await;
        let frame: Bytes = frames.next().await.unwrap().unwrap();
        let event: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["metadata"]["name"], name);
    }
    connection.cluster.stopping.cancel();
    assert!(frames.next().await.is_none());
}
