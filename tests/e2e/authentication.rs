//! Callers of the endpoints: who they are, and what they may read.

use std::fs;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{Request, StatusCode};
use kube::client::Body;
use kube::config::AuthInfo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};

use super::cluster::{Cluster, run};
use super::daemon::{Daemon, folder};
use super::endpoints::Endpoints;
use super::wait::eventually;

/// An authority of certificates.
pub(super) type Authority = CertifiedIssuer<'static, KeyPair>;

type Answer = (StatusCode, String);

impl Daemon {
    /// Returns the endpoints for a caller with other credentials.
    fn for_caller(&self, caller: AuthInfo) -> Endpoints {
        Endpoints::at(self.port, caller)
    }
}

/// Asserts that the answer is a `Status` with this code and message.
#[track_caller]
fn assert_status(answer: Answer, code: u16, message: &str) {
    let (status, body) = answer;
    let body: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{status} {body}"));
    assert_eq!((status.as_u16(), &body["kind"]), (code, &json!("Status")));
    assert_eq!((&body["code"], &body["message"]), (&json!(code), &json!(message)));
}

fn certificate(certificate: &str, key: &str) -> AuthInfo {
    AuthInfo {
        client_certificate_data: Some(BASE64_STANDARD.encode(certificate)),
        client_key_data: Some(BASE64_STANDARD.encode(key).into()),
        ..AuthInfo::default()
    }
}

fn token(token: String) -> AuthInfo {
    AuthInfo { token: Some(token.into()), ..AuthInfo::default() }
}

/// Trusts the client certificates of the cluster instead of those of the tests.
const CLUSTER_AUTHORITIES: &str = "--client-ca-file=";

/// Starts a ready daemon with these flags.
async fn start(cluster: &Cluster, flags: &[&str]) -> Daemon {
    let daemon = Daemon::spawn_with(cluster, |_| {}, flags).await;
    daemon.ready().await;
    daemon
}

#[test]
fn anonymous_callers_can_only_read_the_health_checks() {
    run(async |cluster| {
        let daemon = Daemon::start(cluster).await;
        let anonymous = &daemon.probes;
        for path in ["/livez", "/healthz?verbose", "/readyz"] {
            assert_eq!(anonymous.get(path).await.unwrap().0, StatusCode::OK, "{path}");
        }
        for path in ["/metrics", "/readyz/shutdown", "/configz", "/nowhere"] {
            let message =
                format!("forbidden: User \"system:anonymous\" cannot get path \"{path}\"");
            assert_status(anonymous.get(path).await.unwrap(), 403, &message);
        }
    });
}

#[test]
fn service_accounts_read_what_they_are_permitted() {
    run(async |cluster| {
        cluster.add_caller("prometheus", &["/metrics", "/metrics/slis"]).await;
        let daemon = Daemon::start(cluster).await;
        let prometheus = daemon.for_caller(token(cluster.token_of("prometheus").await));
        let (status, text) = prometheus.get("/metrics").await.unwrap();
        assert_eq!(status, StatusCode::OK, "{text}");
        assert!(text.contains("scheduler_pending_pods"), "{text}");
        let user = format!("system:serviceaccount:{}:prometheus", cluster.name);
        let message = format!("forbidden: User \"{user}\" cannot get path \"/configz\"");
        assert_status(prometheus.get("/configz").await.unwrap(), 403, &message);
    });
}

#[test]
fn invalid_tokens_are_rejected_on_every_path() {
    run(async |cluster| {
        let daemon = Daemon::start(cluster).await;
        let stranger = daemon.for_caller(token("nobody-issued-this".to_owned()));
        for path in ["/metrics", "/livez", "/nowhere"] {
            assert_status(stranger.get(path).await.unwrap(), 401, "Unauthorized");
        }
        let line = daemon.log.line("Unable to authenticate the request").await;
        assert!(line.contains("invalid bearer token"), "{line}");
        assert!(!line.contains("nobody-issued-this"), "{line}");
    });
}

#[test]
fn deleted_service_account_loses_access_when_the_cache_expires() {
    run(async |cluster| {
        cluster.add_caller("prometheus", &["/metrics"]).await;
        let daemon = start(cluster, &["--authentication-token-webhook-cache-ttl=100ms"]).await;
        let prometheus = daemon.for_caller(token(cluster.token_of("prometheus").await));
        assert_eq!(prometheus.get("/metrics").await.unwrap().0, StatusCode::OK);
        cluster.remove_caller("prometheus").await;
        eventually("the token is rejected", async || {
            let (status, _) = prometheus.get("/metrics").await.unwrap();
            (status == StatusCode::UNAUTHORIZED).then_some(())
        })
        .await;
    });
}

#[test]
fn client_certificates_of_the_cluster_are_accepted_until_they_expire() {
    run(async |cluster| {
        let Some(server) = cluster.sandbox() else {
            return eprintln!("skipped: only the sandbox issues client certificates");
        };
        let daemon = start(cluster, &[CLUSTER_AUTHORITIES]).await;
        let admin = server.client_certificate("jane", Some("system:masters"), None).unwrap();
        let admin = daemon.for_caller(certificate(&admin.certificate, &admin.key));
        assert_eq!(admin.get("/configz").await.unwrap().0, StatusCode::OK);
        let lifetime = Some(Duration::from_secs(2));
        let brief = server.client_certificate("joe", Some("dev"), lifetime).unwrap();
        let brief = daemon.for_caller(certificate(&brief.certificate, &brief.key));
        let message = "forbidden: User \"joe\" cannot get path \"/configz\"";
        assert_status(brief.get("/configz").await.unwrap(), 403, message);
        eventually("the certificate has expired", async || {
            let (status, _) = brief.get("/livez").await.unwrap();
            (status == StatusCode::UNAUTHORIZED).then_some(())
        })
        .await;
    });
}

/// Returns a new authority.
pub(super) fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Issues the client certificate of a user in a group.
pub(super) fn issue(authority: &Authority, user: &str, group: &str) -> AuthInfo {
    let (mut params, key) = (CertificateParams::default(), KeyPair::generate().unwrap());
    params.distinguished_name.push(DnType::CommonName, user);
    params.distinguished_name.push(DnType::OrganizationName, group);
    let pem = params.signed_by(&key, authority).unwrap().pem();
    certificate(&pem, &key.serialize_pem())
}

#[test]
fn client_certificates_are_verified_with_the_given_authorities() {
    run(async |cluster| {
        let (folder, trusted, stranger) = (folder(cluster), authority(), authority());
        let file = folder.join("ca.crt");
        fs::write(&file, trusted.pem()).unwrap();
        let daemon = start(cluster, &[&format!("--client-ca-file={}", file.display())]).await;
        let admin = daemon.for_caller(issue(&trusted, "jane", "system:masters"));
        assert_eq!(admin.get("/metrics").await.unwrap().0, StatusCode::OK);
        let other = daemon.for_caller(issue(&stranger, "jane", "system:masters"));
        assert_status(other.get("/livez").await.unwrap(), 401, "Unauthorized");

        fs::write(&file, stranger.pem()).unwrap();
        eventually("the other authority is trusted", async || {
            let (status, _) = other.get("/metrics").await.unwrap();
            (status == StatusCode::OK).then_some(())
        })
        .await;
        assert_status(admin.get("/livez").await.unwrap(), 401, "Unauthorized");
    });
}

#[test]
fn headers_are_accepted_from_front_proxies_only() {
    run(async |cluster| {
        let Some(server) = cluster.sandbox() else {
            return eprintln!("skipped: only the sandbox issues certificates of front proxies");
        };
        let daemon = start(cluster, &[CLUSTER_AUTHORITIES]).await;
        let proxy = server.front_proxy_certificate().unwrap();
        let proxy = certificate(&proxy.certificate, &proxy.key);
        let user = server.client_certificate("joe", None, None).unwrap();
        let user = certificate(&user.certificate, &user.key);
        for (caller, status) in [
            (proxy, StatusCode::OK),
            (user, StatusCode::FORBIDDEN),
            (AuthInfo::default(), StatusCode::FORBIDDEN),
        ] {
            let request = Request::get("/configz")
                .header("X-Remote-User", "jane")
                .header("X-Remote-Group", "system:masters")
                .body(Body::empty());
            let answer = daemon.for_caller(caller).send(request.unwrap()).await.unwrap();
            assert_eq!(answer.0, status, "{}", answer.1);
        }
    });
}

#[test]
fn missing_permissions_for_reviews_are_named() {
    run(async |cluster| {
        cluster.forbid_reviews().await;
        let daemon = start(cluster, &[CLUSTER_AUTHORITIES]).await;
        let line = daemon.log.line("Error looking up in-cluster authentication").await;
        assert!(line.contains("--role=extension-apiserver-authentication-reader"), "{line}");
        let caller = daemon.for_caller(token(cluster.scheduler_token().await));
        assert_status(caller.get("/metrics").await.unwrap(), 401, "Unauthorized");
        let line = daemon.log.line("Unable to authenticate the request").await;
        assert!(line.contains("cannot create resource \\\"tokenreviews\\\""), "{line}");
        let (status, text) = daemon.probes.get("/metrics").await.unwrap();
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(text.contains("cannot create resource \"subjectaccessreviews\""), "{text}");
    });
}

#[test]
fn required_lookup_of_authorities_ends_the_daemon_if_it_is_forbidden() {
    run(async |cluster| {
        cluster.forbid_reviews().await;
        let flags = [CLUSTER_AUTHORITIES, "--authentication-tolerate-lookup-failure=false"];
        let mut daemon = Daemon::spawn_with(cluster, |_| {}, &flags).await;
        assert_eq!(daemon.ended().await.code(), Some(1));
        let line = daemon.log.line("command failed").await;
        let text = "unable to load configmap based request-header-client-ca-file: ";
        assert!(line.contains(text), "{line}");
    });
}

#[test]
fn rotated_serving_certificate_is_served() {
    run(async |cluster| {
        let folder = folder(cluster);
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        let rotate = |authority: &Authority| {
            let own = KeyPair::generate().unwrap();
            let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
            fs::write(&certificate, params.signed_by(&own, authority).unwrap().pem()).unwrap();
            fs::write(&key, own.serialize_pem()).unwrap();
        };
        let (old, new) = (authority(), authority());
        rotate(&old);
        let flags = [
            format!("--tls-cert-file={}", certificate.display()),
            format!("--tls-private-key-file={}", key.display()),
        ];
        let daemon = start(cluster, &flags.each_ref().map(String::as_str)).await;
        let is_trusted = async |authority: &Authority| {
            Endpoints::verified(daemon.port, authority.der()).get("/livez").await.is_some()
        };
        assert!(is_trusted(&old).await && !is_trusted(&new).await);
        rotate(&new);
        eventually("the new certificate is served", async || is_trusted(&new).await.then_some(()))
            .await;
        assert!(!is_trusted(&old).await);
    });
}
