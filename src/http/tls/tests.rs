//! Tests of certificates and handshakes.

use std::net::Ipv4Addr;
use std::os::unix::fs::{PermissionsExt, symlink};

use rustls::client::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConnection, RootCertStore, ServerConnection};

use super::super::testing::{Authority, Folder, params, self_signed};
use super::*;

fn load(settings: Tls) -> Result<ServerTls, TlsError> {
    ServerTls::load(settings, Ipv4Addr::LOCALHOST.into(), true)
}

/// Returns the settings with certificate and key in this folder.
fn files(folder: &Folder, [certificate, key]: [&str; 2]) -> KeyPairFiles {
    KeyPairFiles { certificate: folder.0.join(certificate), key: folder.0.join(key) }
}

fn with_files(files: KeyPairFiles) -> Tls {
    Tls { certificate: Certificate::Files(files), ..self_signed() }
}

/// Writes a certificate for these names, and its key.
fn write(folder: &Folder, authority: &Authority, names: &[&str], files: [&str; 2]) -> KeyPairFiles {
    let (certificate, key) = authority.issue_for(names);
    folder.write(files[0], &certificate);
    folder.write(files[1], &key);
    self::files(folder, files)
}

fn roots(authority: &Authority) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    roots
}

/// Carries out a handshake in memory. Returns the certificates that the server has of the client.
fn handshake(
    server: Arc<ServerConfig>,
    client: ClientConfig,
    name: &str,
) -> Result<Vec<CertificateDer<'static>>, rustls::Error> {
    let mut server = ServerConnection::new(server)?;
    let name = name.to_owned().try_into().unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name)?;
    while server.is_handshaking() || client.is_handshaking() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(server.peer_certificates().unwrap_or_default().to_vec())
}

fn client(roots: RootCertStore) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(ring::default_provider().into());
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    builder.with_root_certificates(roots).with_no_client_auth()
}

#[test]
fn certificate_and_key_must_be_readable_and_match() {
    let (folder, authority) = (Folder::new(), Authority::new("servers"));
    let names = ["tls.crt", "tls.key"];
    let (certificate, key) = authority.issue_for(&["localhost"]);
    let error = || {
        let loaded = load(with_files(files(&folder, names)));
        loaded.and_then(|tls| tls.server_config()).unwrap_err().to_string()
    };
    folder.write("tls.crt", &certificate);
    let missing = format!("open {}: No such file", folder.0.join("tls.key").display());
    assert!(error().starts_with(&missing));
    folder.write("tls.key", "nothing");
    assert!(error().contains("tls.key: no usable PEM block"), "{}", error());
    folder.write("tls.key", &authority.issue_for(&["localhost"]).1);
    assert!(error().starts_with("the certificate cannot be served: "), "{}", error());
    folder.write("tls.key", &key);
    folder.write("tls.crt", "nothing");
    assert!(error().contains("tls.crt: no usable PEM block"), "{}", error());
    folder.write("tls.crt", &certificate);
    let config = load(with_files(files(&folder, names))).unwrap().server_config().unwrap();
    assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    handshake(config, client(roots(&authority)), "localhost").unwrap();
}

#[test]
fn disabled_http2_is_not_offered() {
    let tls = ServerTls::load(self_signed(), Ipv4Addr::LOCALHOST.into(), false).unwrap();
    assert_eq!(tls.server_config().unwrap().alpn_protocols, [b"http/1.1".to_vec()]);
}

#[test]
fn certificate_is_generated_in_a_folder_and_kept() {
    let folder = Folder::new();
    let nested = folder.0.join("certificates");
    let settings = Tls { certificate: Certificate::Folder(nested.clone()), ..self_signed() };
    load(settings.clone()).unwrap().server_config().unwrap();
    let [certificate, key] = ["kube-scheduler.crt", "kube-scheduler.key"].map(|n| nested.join(n));
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let generated = std::fs::read(&certificate).unwrap();
    load(settings.clone()).unwrap().server_config().unwrap();
    assert_eq!(std::fs::read(&certificate).unwrap(), generated);
    std::fs::remove_file(&key).unwrap();
    let error = load(settings).err().unwrap().to_string();
    assert!(error.contains("kube-scheduler.key is missing"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn rotated_certificate_is_served() {
    let (folder, old, new) = (Folder::new(), Authority::new("old"), Authority::new("new"));
    // A Secret volume: the files are links into a folder that is a link itself.
    for (version, authority) in [("1", &old), ("2", &new)] {
        let (certificate, key) = authority.issue_for(&["localhost"]);
        std::fs::create_dir(folder.0.join(version)).unwrap();
        folder.write(&format!("{version}/tls.crt"), &certificate);
        folder.write(&format!("{version}/tls.key"), &key);
    }
    symlink("1", folder.0.join("data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("data/{name}"), folder.0.join(name)).unwrap();
    }
    let mut tls = load(with_files(files(&folder, ["tls.crt", "tls.key"]))).unwrap();
    let serves = |tls: &ServerTls, authority| {
        let config = tls.server_config().unwrap();
        handshake(config, client(roots(authority)), "localhost").is_ok()
    };
    assert!(serves(&tls, &old) && !serves(&tls, &new));
    symlink("2", folder.0.join("swap")).unwrap();
    std::fs::rename(folder.0.join("swap"), folder.0.join("data")).unwrap();
    let started = tokio::time::Instant::now();
    tls.changed().await;
    assert!(started.elapsed().as_secs() <= 5);
    assert!(serves(&tls, &new) && !serves(&tls, &old));
}

#[test]
fn certificate_is_selected_by_server_name() {
    let folder = Folder::new();
    let authorities = ["default", "exact", "domain", "own"].map(Authority::new);
    let [default, exact, domain, own] = &authorities;
    let everything = ["a.example.com", "b.example.com", "c.b.example.com", "own.example.org"];
    let pair = |authority, name: &str, names: &[&str]| {
        let files = [format!("{name}.crt"), format!("{name}.key")];
        write(&folder, authority, names, files.each_ref().map(String::as_str))
    };
    let named = |files, names: &[&str]| NamedCertificate {
        files,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let settings = Tls {
        named: vec![
            named(pair(domain, "domain", &everything), &["*.example.com"]),
            named(pair(exact, "exact", &everything), &["a.example.com"]),
            named(pair(own, "own", &["own.example.org"]), &[]),
        ],
        ..with_files(pair(default, "default", &everything))
    };
    let config = load(settings).unwrap().server_config().unwrap();
    for (name, expected) in [
        ("a.example.com", "exact"),
        ("A.Example.com", "exact"),
        ("b.example.com", "domain"),
        ("c.b.example.com", "default"),
        ("own.example.org", "own"),
    ] {
        let serving = ["default", "exact", "domain", "own"].into_iter().zip(&authorities);
        let served: Vec<_> = serving
            .filter(|(_, ca)| handshake(config.clone(), client(roots(ca)), name).is_ok())
            .map(|(label, _)| label)
            .collect();
        assert_eq!(served, [expected], "{name}");
    }
}

#[test]
fn any_client_certificate_is_accepted_if_the_client_has_its_key() {
    let (folder, authority) = (Folder::new(), Authority::new("servers"));
    let files = write(&folder, &authority, &["localhost"], ["tls.crt", "tls.key"]);
    let config = load(with_files(files)).unwrap().server_config().unwrap();
    let stranger = Authority::new("strangers");
    let (certificate, key) = stranger.issue_with(params("jane", &[]));
    let (_, other_key) = stranger.issue_with(params("jane", &[]));
    for version in TlsVersion::V12.and_newer() {
        let with = |key: &rcgen::KeyPair| {
            let builder = ClientConfig::builder_with_provider(ring::default_provider().into());
            let builder = builder.with_protocol_versions(&[version]).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
            let signer = ring::sign::any_supported_type(&key).unwrap();
            let own = rustls::sign::CertifiedKey::new(certificate.clone(), signer);
            let resolver = rustls::sign::SingleCertAndKey::from(own);
            let builder = builder.with_root_certificates(roots(&authority));
            builder.with_client_cert_resolver(Arc::new(resolver))
        };
        let seen = handshake(config.clone(), with(&key), "localhost").unwrap();
        assert_eq!(seen, certificate);
        handshake(config.clone(), with(&other_key), "localhost").unwrap_err();
    }
    assert!(handshake(config, client(roots(&authority)), "localhost").unwrap().is_empty());
}

#[test]
fn versions_suites_and_curves_are_limited() {
    let (folder, authority) = (Folder::new(), Authority::new("servers"));
    let files = write(&folder, &authority, &["localhost"], ["tls.crt", "tls.key"]);
    let suite: CipherSuite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384".parse().unwrap();
    let settings = Tls {
        cipher_suites: vec![suite],
        curves: vec!["24".parse().unwrap()],
        ..with_files(files)
    };
    let config = load(settings.clone()).unwrap().server_config().unwrap();
    let connect = |config: &Arc<ServerConfig>, version, suite: Option<&str>| {
        let mut provider = ring::default_provider();
        if let Some(suite) = suite {
            provider.cipher_suites.retain(|own| own.suite().as_str() == Some(suite));
        }
        let builder = ClientConfig::builder_with_provider(provider.into());
        let builder = builder.with_protocol_versions(&[version]).unwrap();
        let client = builder.with_root_certificates(roots(&authority)).with_no_client_auth();
        handshake(config.clone(), client, "localhost").is_ok()
    };
    let (tls12, tls13) = (&rustls::version::TLS12, &rustls::version::TLS13);
    assert!(connect(&config, tls12, Some("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")));
    assert!(!connect(&config, tls12, Some("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")));
    assert!(connect(&config, tls13, None), "suites of TLS 1.3 cannot be left out");
    let newest = Tls { min_version: TlsVersion::V13, ..settings };
    let config = load(newest).unwrap().server_config().unwrap();
    assert!(connect(&config, tls13, None) && !connect(&config, tls12, None));
}

#[test]
fn parameters_have_the_names_of_kube_scheduler() {
    assert_eq!("VersionTLS12".parse(), Ok(TlsVersion::V12));
    assert_eq!("VersionTLS13".parse(), Ok(TlsVersion::V13));
    let error = "VersionTLS9".parse::<TlsVersion>().unwrap_err();
    assert_eq!(error.to_string(), "unknown tls version \"VersionTLS9\"");

    for name in [
        "TLS_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ] {
        assert_eq!(name.parse::<CipherSuite>().unwrap().to_string(), name);
    }
    let old = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305".parse::<CipherSuite>();
    assert_eq!(old, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256".parse());
    let error = "TLS_RSA_WITH_AES_128_CBC_SHA".parse::<CipherSuite>().unwrap_err();
    let start = "Cipher suite TLS_RSA_WITH_AES_128_CBC_SHA not supported or doesn't exist; \
                 supported: TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, ";
    assert!(error.starts_with(start), "{error}");

    let error = "25".parse::<Curve>().unwrap_err();
    let expected = "Curve 25 not supported or doesn't exist; supported: 29 (X25519), \
                    23 (CurveP256), 24 (CurveP384)";
    assert_eq!(error, expected);
}

#[test]
fn named_certificates_are_parsed() {
    let parse = |text: &str| text.parse::<NamedCertificate>();
    let files = KeyPairFiles { certificate: "a.crt".into(), key: "a.key".into() };
    let expected = NamedCertificate { files, names: vec!["*.foo.com".into(), "foo.com".into()] };
    assert_eq!(parse("a.crt,a.key:*.Foo.com, foo.com"), Ok(expected.clone()));
    assert_eq!(parse("a.crt, a.key"), Ok(NamedCertificate { names: Vec::new(), ..expected }));
    for text in ["a.crt", "a.crt,", "a.crt,b,c", ":foo.com", ""] {
        parse(text).unwrap_err();
    }
}
