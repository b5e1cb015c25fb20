//! A real API server without controllers, started like envtest: `KUBEBUILDER_ASSETS` is a folder
//! with `etcd` and `kube-apiserver`. Its flags are those of kubeadm as far as the tests need them:
//! RBAC, tokens of service accounts, and the authorities of clients and of front proxies.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{Request, StatusCode};
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use sandbox::http::Identity;
use serde_json::json;
use tokio::sync::OnceCell;

use super::process::{Server, free_port};
use super::wait::eventually;

/// The bearer token of the administrator. The API server listens only on the loopback address.
const ADMIN_TOKEN: &str = "loadmaster-e2e-admin";

/// etcd and kube-apiserver; they run as long as this process.
struct ControlPlane {
    kubeconfig: Kubeconfig,
    authority: Authority,
    _servers: [Server; 2],
}

/// Returns the administrator's kubeconfig of the control plane of this process, which starts on
/// first use.
pub(super) async fn kubeconfig(assets: &Path) -> Kubeconfig {
    control_plane(assets).await.kubeconfig.clone()
}

/// Issues a client certificate of the control plane of this process.
pub(super) async fn client_certificate(assets: &Path, user: &str) -> Identity {
    issue(user, &[], ExtendedKeyUsagePurpose::ClientAuth, &control_plane(assets).await.authority)
}

async fn control_plane(assets: &Path) -> &'static ControlPlane {
    static CONTROL_PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
    CONTROL_PLANE.get_or_init(|| ControlPlane::start(assets)).await
}

impl ControlPlane {
    async fn start(assets: &Path) -> Self {
        let (etcd, api_server) =
            (Program::of(assets, "etcd"), Program::of(assets, "kube-apiserver"));
        let (etcd_port, api_port) = (free_port(), free_port());
        let authority = write_files(&api_server.folder);
        let args = etcd_args(&etcd.folder, etcd_port);
        let mut etcd = Server::start(&etcd.path, &args, &etcd.folder);
        let args = api_server_args(&api_server.folder, etcd_port, api_port);
        let mut api_server = Server::start(&api_server.path, &args, &api_server.folder);
        let kubeconfig = admin_kubeconfig(&authority, api_port);
        eventually("kube-apiserver is ready", async || {
            etcd.assert_runs();
            api_server.assert_runs();
            is_ready(&kubeconfig).await.then_some(())
        })
        .await;
        Self { kubeconfig, authority, _servers: [etcd, api_server] }
    }
}

/// Returns the path of a program, and an empty folder for it.
struct Program {
    path: PathBuf,
    folder: PathBuf,
}

impl Program {
    fn of(assets: &Path, name: &str) -> Self {
        let path = assets.join(name);
        assert!(path.is_file(), "KUBEBUILDER_ASSETS: there is no {}", path.display());
        let folder = format!("control-plane/{}/{name}", std::process::id());
        // Cargo names a folder for integration tests, but none for examples.
        let target =
            option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = target.join(folder);
        fs::create_dir_all(&folder).unwrap();
        Self { path, folder }
    }
}

fn etcd_args(folder: &Path, port: u16) -> Vec<String> {
    let (clients, peers) = (format!("http://127.0.0.1:{port}"), free_port());
    vec![
        format!("--data-dir={}", folder.join("data").display()),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peers}"),
    ]
}

/// No controller runs, so no service accounts are created for the admission plugin, and the
/// endpoints of the API server are not needed.
fn api_server_args(folder: &Path, etcd_port: u16, port: u16) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", folder.display()),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        "--authorization-mode=RBAC".to_owned(),
        format!("--token-auth-file={}", file("tokens.csv")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--requestheader-client-ca-file={}", file("front-proxy-ca.crt")),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--proxy-client-cert-file={}", file("front-proxy-client.crt")),
        format!("--proxy-client-key-file={}", file("front-proxy-client.key")),
        format!("--service-account-issuer=https://127.0.0.1:{port}/"),
        format!("--service-account-key-file={}", file("service-account.pub")),
        format!("--service-account-signing-key-file={}", file("service-account.key")),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--allow-privileged=true".to_owned(),
    ]
}

type Authority = CertifiedIssuer<'static, KeyPair>;

/// Writes the files that kube-apiserver reads at start, and returns the authority that signs its
/// certificate and those of its clients.
fn write_files(folder: &Path) -> Authority {
    let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    let write_identity = |name: &str, identity: Identity| {
        write(&format!("{name}.crt"), identity.certificate);
        write(&format!("{name}.key"), identity.key);
    };
    let (cluster, proxies) =
        (authority("loadmaster-e2e-ca"), authority("loadmaster-e2e-front-proxy-ca"));
    write("ca.crt", cluster.pem());
    write("front-proxy-ca.crt", proxies.pem());
    let of_server = ExtendedKeyUsagePurpose::ServerAuth;
    write_identity("server", issue("kube-apiserver", &["127.0.0.1"], of_server, &cluster));
    let of_client = ExtendedKeyUsagePurpose::ClientAuth;
    let proxy = issue("front-proxy-client", &[], of_client, &proxies);
    write_identity("front-proxy-client", proxy);
    let signer = KeyPair::generate().unwrap();
    write("service-account.key", signer.serialize_pem());
    write("service-account.pub", signer.public_key_pem());
    write("tokens.csv", format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n"));
    cluster
}

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn issue(
    name: &str,
    addresses: &[&str],
    usage: ExtendedKeyUsagePurpose,
    authority: &Authority,
) -> Identity {
    let addresses: Vec<String> = addresses.iter().map(|&address| address.to_owned()).collect();
    let mut params = CertificateParams::new(addresses).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap().pem();
    Identity { certificate, key: key.serialize_pem() }
}

fn admin_kubeconfig(authority: &Authority, port: u16) -> Kubeconfig {
    let authority = BASE64_STANDARD.encode(authority.pem());
    let kubeconfig = json!({
        "clusters": [{"name": "e2e", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority-data": authority,
        }}],
        "users": [{"name": "admin", "user": {"token": ADMIN_TOKEN}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
        "current-context": "e2e",
    });
    serde_json::from_value(kubeconfig).unwrap()
}

async fn is_ready(kubeconfig: &Kubeconfig) -> bool {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let answer = client.send(Request::get("/readyz").body(Body::empty()).unwrap()).await;
    answer.is_ok_and(|answer| answer.status() == StatusCode::OK)
}
