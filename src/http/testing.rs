//! An API server that answers as a test says, and certificates.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

use super::reviews::Reviews;
use super::{
    Access, AuthenticationOptions, AuthorizationOptions, Certificate, RequestHeaderNames, Tls,
    TlsVersion,
};
use crate::api_client::{ApiClient, Credentials};
use crate::metrics::{DelegatedAuth, Metrics};

/// Returns the status and the body of the answer to a path and a body.
type Answer = dyn Fn(&str, &Value) -> (u16, Value) + Send + Sync;

/// An API server.
pub(super) struct ApiServer {
    pub(super) credentials: Credentials,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl ApiServer {
    /// Starts a server. It needs the runtime of a test.
    pub(super) fn start(
        answer: impl Fn(&str, &Value) -> (u16, Value) + Send + Sync + 'static,
    ) -> Self {
        let requests = Arc::<Mutex<Vec<Value>>>::default();
        let state = (requests.clone(), Arc::<Answer>::from(Box::new(answer) as Box<Answer>));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let router = Router::new().fallback(respond).with_state(state);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { credentials: credentials(&format!("http://{address}")), requests }
    }

    /// Returns the bodies of all requests.
    pub(super) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }

    pub(super) fn client(&self) -> ApiClient {
        ApiClient::new(&self.credentials, "test", Metrics::new().rest_client(), Arc::default())
            .unwrap()
    }

    pub(super) fn reviews(&self) -> Reviews {
        Reviews::new(self.client(), Metrics::new().delegated_auth(), DelegatedAuth::token_review)
    }
}

type ServerState = (Arc<Mutex<Vec<Value>>>, Arc<Answer>);

async fn respond(State((requests, answer)): State<ServerState>, uri: Uri, body: Bytes) -> Response {
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let (status, text) = answer(uri.path(), &body);
    requests.lock().unwrap().push(body);
    let json = [(header::CONTENT_TYPE, "application/json")];
    // An event of a watch is a line.
    (StatusCode::from_u16(status).unwrap(), json, format!("{text}\n")).into_response()
}

/// Returns the credentials of an API server.
pub(super) fn credentials(url: &str) -> Credentials {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    let parsed = Credentials::parse(&kubeconfig.to_string()).now_or_never();
    parsed.expect("a kubeconfig without files is parsed at once").unwrap()
}

/// Returns the settings of a server with a generated certificate.
pub(super) fn self_signed() -> Tls {
    Tls {
        certificate: Certificate::SelfSigned,
        named: Vec::new(),
        min_version: TlsVersion::V12,
        cipher_suites: Vec::new(),
        curves: Vec::new(),
    }
}

/// Returns an access for the users of this authority. The API server permits nothing.
pub(super) fn access(users: &Authority, metrics: &Metrics) -> Access {
    access_by(users, metrics, |_| false)
}

/// Returns an access for the users of this authority. `permits` decides about the specification of
/// each review.
pub(super) fn access_by(
    users: &Authority,
    metrics: &Metrics,
    permits: impl Fn(&Value) -> bool + Send + Sync + 'static,
) -> Access {
    let server = ApiServer::start(move |_, body| {
        (201, json!({"spec": {}, "status": {"allowed": permits(&body["spec"])}}))
    });
    let folder = Folder::new();
    let authentication = AuthenticationOptions {
        client_ca_file: Some(folder.write("ca.crt", &users.pem())),
        skip_lookup: true,
        ..authentication_options()
    };
    let authorization = AuthorizationOptions {
        kubeconfig: None,
        always_allow_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
        authorized_ttl: TTL,
        unauthorized_ttl: TTL,
    };
    let access = Access::load(&authentication, &authorization, &server.credentials, metrics);
    access.now_or_never().expect("without a lookup it is loaded at once").unwrap()
}

/// The time for which everything is cached.
pub(super) const TTL: Duration = Duration::from_secs(10);

/// Returns the default settings of authentication.
pub(super) fn authentication_options() -> AuthenticationOptions {
    AuthenticationOptions {
        kubeconfig: None,
        skip_lookup: false,
        tolerate_lookup_failure: true,
        token_ttl: TTL,
        client_ca_file: None,
        request_header_ca_file: None,
        request_header_names: RequestHeaderNames::default(),
    }
}

/// A folder of one test, removed when dropped.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("loadmaster-http-{}-{next}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Writes a file and returns its path.
    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A certificate authority.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for a user in these groups.
    pub(super) fn issue(&self, name: &str, groups: &[&str]) -> Vec<CertificateDer<'static>> {
        self.issue_with(params(name, groups)).0
    }

    /// Issues a certificate for these server names; returns it with its key as PEM.
    pub(super) fn issue_for(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// Issues a certificate; returns it with its key.
    pub(super) fn issue_with(
        &self,
        params: CertificateParams,
    ) -> (Vec<CertificateDer<'static>>, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (vec![params.signed_by(&key, &self.0).unwrap().der().clone()], key)
    }
}

/// Returns the parameters of a client certificate for a user in up to two groups.
pub(super) fn params(name: &str, groups: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    // A name has one attribute per type, so that two groups need two spellings of the type.
    let types = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    for (group, kind) in groups.iter().zip(types) {
        subject.push(kind, *group);
    }
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}
