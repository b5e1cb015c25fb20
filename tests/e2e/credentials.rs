//! Valid and invalid credentials: an invalid one ends the daemon with one line that says why.

use std::process::ExitStatus;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;

use super::cluster::run;
use super::daemon::{Daemon, Log, loadmaster};

#[test]
fn token_of_an_exec_plugin_is_sent() {
    run(async |cluster| {
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"token": cluster.scheduler_token().await},
        });
        let kubeconfig = cluster.kubeconfig_of(json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "echo",
            "args": [credential.to_string()],
            "interactiveMode": "Never",
        }}));
        let daemon = Daemon::spawn(cluster, &kubeconfig).await;
        daemon.ready().await;
    });
}

#[test]
fn rotated_token_is_read_again() {
    run(async |cluster| {
        cluster.add_node("a", 2).await;
        let folder = std::env::temp_dir().join(&cluster.name);
        std::fs::create_dir_all(&folder).unwrap();
        let token = folder.join("token");
        std::fs::write(&token, cluster.scheduler_token().await).unwrap();
        let kubeconfig = cluster.kubeconfig_of(json!({"tokenFile": token}));
        let daemon = Daemon::spawn(cluster, &kubeconfig).await;
        daemon.ready().await;

        cluster.recreate_scheduler_account().await;
        cluster.create_pod(&cluster.pod("web", 1)).await;
        let line = daemon.log.line("401 Unauthorized").await;
        assert!(line.contains("credentials"), "{line}");
        std::fs::write(&token, cluster.scheduler_token().await).unwrap();
        cluster.bound("web").await;
        daemon.ready().await;
        std::fs::remove_dir_all(folder).unwrap();
    });
}

#[test]
fn client_certificate_is_sent() {
    run(async |cluster| {
        let Some(identity) = cluster.scheduler_certificate().await else {
            return eprintln!("skipped: the authority of a cluster in use is unknown");
        };
        let kubeconfig = cluster.kubeconfig_of(json!({
            "client-certificate-data": BASE64_STANDARD.encode(identity.certificate),
            "client-key-data": BASE64_STANDARD.encode(identity.key),
        }));
        let daemon = Daemon::spawn(cluster, &kubeconfig).await;
        daemon.ready().await;
    });
}

/// Returns the only error of a log.
#[track_caller]
fn only_error(status: ExitStatus, log: &Log) -> String {
    assert_eq!(status.code(), Some(1));
    let errors: Vec<String> =
        log.lines("").into_iter().filter(|line| line.starts_with('E')).collect();
    let [error] = errors.try_into().unwrap();
    error
}

/// Starts `loadmaster run` with these arguments, which must fail at start.
#[track_caller]
fn refused(args: &[&str]) -> String {
    let output = loadmaster().args(args).arg("--secure-port=0").output().unwrap();
    let log = Log::from(&*String::from_utf8(output.stderr).unwrap());
    only_error(output.status, &log)
}

#[test]
fn missing_credentials_are_explained() {
    let error = refused(&[]);
    assert!(error.contains("give --kubeconfig FILE"), "{error}");
    assert!(error.contains("or run in a pod with a service account"), "{error}");
}

#[test]
fn missing_kubeconfig_is_named() {
    let error = refused(&["--kubeconfig=/nowhere/kubeconfig"]);
    assert!(error.contains("kubeconfig /nowhere/kubeconfig: no such file"), "{error}");
}

#[test]
fn rejected_token_ends_the_daemon() {
    run(async |cluster| {
        let kubeconfig = cluster.kubeconfig_of(json!({"token": "nobody-gave-this"}));
        let mut daemon = Daemon::spawn(cluster, &kubeconfig).await;
        let status = daemon.ended().await;
        daemon.log.line("command failed").await;
        let error = only_error(status, &daemon.log);
        assert!(error.contains("does not accept the credentials (401 Unauthorized)"), "{error}");
        assert!(error.contains("renew the token"), "{error}");
    });
}

#[test]
fn certificate_of_an_unknown_authority_is_not_trusted() {
    run(async |cluster| {
        let mut kubeconfig = cluster.scheduler_kubeconfig().await;
        for entry in &mut kubeconfig.clusters {
            let entry = entry.cluster.as_mut().unwrap();
            entry.insecure_skip_tls_verify = None;
            entry.certificate_authority = None;
            entry.certificate_authority_data = Some(BASE64_STANDARD.encode(stranger()));
        }
        let mut daemon = Daemon::spawn(cluster, &kubeconfig).await;
        let status = daemon.ended().await;
        daemon.log.line("command failed").await;
        let error = only_error(status, &daemon.log);
        assert!(error.contains("invalid peer certificate"), "{error}");
        assert!(error.contains("check certificate-authority"), "{error}");
    });
}

/// Returns the certificate of an authority that has signed nothing, as PEM.
fn stranger() -> String {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap());
    issuer.unwrap().pem()
}
