//! Kubeconfigs, read as kubectl reads them.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};

use super::transport::error_chain;

/// The variable with the files of kubectl, separated by colons.
const VARIABLE: &str = "KUBECONFIG";
/// The file of kubectl in the home folder.
const DEFAULT_FILE: &str = ".kube/config";

/// Reads the kubeconfig of kubectl: the files of `$KUBECONFIG`, of which those that are absent are
/// left out, or the one in the home folder.
///
/// # Errors
/// The file, and the reason why it cannot be used.
pub(super) fn of_kubectl() -> Result<Kubeconfig, (PathBuf, String)> {
    let variable = env::var_os(VARIABLE).unwrap_or_default();
    let files = env::split_paths(&variable).filter(|file| !file.as_os_str().is_empty());
    let files: Vec<PathBuf> = files.collect();
    if files.is_empty() {
        let home = env::home_dir().unwrap_or_default().join(DEFAULT_FILE);
        return of_file(&home).map_err(|reason| (home, reason));
    }
    let present: Vec<&PathBuf> = files.iter().filter(|file| file.exists()).collect();
    let none = || (PathBuf::from(variable.clone()), absent());
    present.first().ok_or_else(none)?;
    present.into_iter().try_fold(Kubeconfig::default(), |merged, file| {
        let at = |reason| (file.clone(), reason);
        let next = of_file(file).map_err(at)?;
        merged.merge(next).map_err(|error| at(error_chain(&error)))
    })
}

/// Reads a file. Paths in it are relative to its folder.
///
/// # Errors
/// The file cannot be read, or is no kubeconfig.
pub(super) fn of_file(path: &Path) -> Result<Kubeconfig, String> {
    let bytes = fs::read(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => absent(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    })?;
    let text = yaml::text_of(bytes).map_err(|error| error.to_string())?;
    let mut file = of_text(&text)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for cluster in file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        resolve(folder, &mut cluster.certificate_authority);
    }
    for user in file.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        resolve_files_of(user, folder);
    }
    Ok(file)
}

/// Parses a text: its first document, in which the last of several fields of one name counts.
///
/// # Errors
/// The text is no kubeconfig. No message has a value of it.
pub(super) fn of_text(text: &str) -> Result<Kubeconfig, String> {
    let value = yaml::read(text).map_err(|error| error.to_string())?.value;
    if value.is_null() {
        return Ok(Kubeconfig::default());
    }
    if !value.is_object() {
        return Err("expected a map with clusters, users and contexts".to_owned());
    }
    serde_path_to_error::deserialize::<_, Kubeconfig>(value).map_err(|error| {
        let (path, message) = (error.path().to_string(), error.inner().to_string());
        match message.rsplit_once(", expected ") {
            Some((_, expected)) => format!("{path}: expected {expected}"),
            None => format!("{path}: {message}"),
        }
    })
}

/// Returns the configuration of the client for one of the contexts, by default the current one.
///
/// # Errors
/// The context is incomplete, or a file of it cannot be read.
pub(super) async fn client_config(
    mut file: Kubeconfig,
    context: Option<&str>,
) -> Result<kube::Config, String> {
    let named = file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut());
    named.for_each(complete_address);
    let context = context.map(str::to_owned);
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(file, &options).await;
    config.map_err(|error| error_chain(&error))
}

/// Adds the scheme to an address without one, as client-go does: HTTPS if there are settings for
/// it.
fn complete_address(cluster: &mut Cluster) {
    let has_tls = cluster.certificate_authority.is_some()
        || cluster.certificate_authority_data.is_some()
        || cluster.insecure_skip_tls_verify == Some(true);
    if let Some(server) = cluster.server.as_mut().filter(|server| !server.contains("://")) {
        let scheme = if has_tls { "https" } else { "http" };
        *server = format!("{scheme}://{server}");
    }
}

fn resolve_files_of(user: &mut AuthInfo, folder: &Path) {
    resolve(folder, &mut user.client_certificate);
    resolve(folder, &mut user.client_key);
    resolve(folder, &mut user.token_file);
    // A command without a separator is one of $PATH.
    let command = user.exec.as_mut().map(|exec| &mut exec.command);
    if let Some(command) = command.filter(|own| own.iter().any(|own| own.contains(MAIN_SEPARATOR)))
    {
        resolve(folder, command);
    }
}

fn resolve(folder: &Path, file: &mut Option<String>) {
    if let Some(file) = file.as_mut().filter(|file| !file.is_empty()) {
        *file = folder.join(&*file).display().to_string();
    }
}

fn absent() -> String {
    "no such file or directory".to_owned()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("loadmaster-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    const FILE: &str = "\
# The cluster of the shop.
base: &base
  insecure-skip-tls-verify: yes
apiVersion: v1
kind: Config
clusters:
- name: shop
  cluster:
    <<: *base
    server: https://old.example.com
    server: https://10.0.0.1:6443
    proxy-url: socks5://127.0.0.1:1080
users:
- name: me
  user: {token: \"012\", client-key: keys/me.key, exec: {command: ./login, apiVersion: client.authentication.k8s.io/v1}}
contexts:
- name: shop
  context: {cluster: shop, user: me}
current-context: shop
---
current-context: another document is not read
clusters: 7
";

    /// Writes the text as UTF-16 in little endian.
    fn wide(text: &str) -> Vec<u8> {
        let units = [0xfeff].into_iter().chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    }

    #[tokio::test]
    async fn file_is_read_as_kubectl_reads_it() {
        let folder = folder("dialect");
        let path = folder.join("config");
        for bytes in [FILE.as_bytes().to_vec(), format!("\u{feff}{FILE}").into_bytes(), wide(FILE)]
        {
            fs::write(&path, bytes).unwrap();
            let file = of_file(&path).unwrap();
            let user = file.auth_infos[0].auth_info.clone().unwrap();
            assert_eq!(user.token.unwrap().expose_secret(), "012");
            assert_eq!(user.client_key.unwrap(), folder.join("keys/me.key").display().to_string());
            let command = user.exec.unwrap().command.unwrap();
            assert_eq!(command, folder.join("./login").display().to_string());
            let config = client_config(file, None).await.unwrap();
            assert_eq!(config.cluster_url, "https://10.0.0.1:6443/", "the last one counts");
            assert!(config.accept_invalid_certs, "yes is a boolean, and the merge key counts");
            assert_eq!(config.proxy_url.unwrap(), "socks5://127.0.0.1:1080/");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn value_of_another_type_is_refused_without_being_shown() {
        let users = "users: [{name: me, user: {token: 4711}}]";
        let error = of_text(users).unwrap_err();
        assert!(error.starts_with("users[0].user") && !error.contains("4711"), "{error}");
        assert_eq!(
            of_text("secret-token").unwrap_err(),
            "expected a map with clusters, users and contexts"
        );
        assert_eq!(of_text("clusters: true").unwrap_err(), "clusters: expected a sequence");
    }

    #[test]
    fn empty_file_has_no_context() {
        for text in ["", "---\n", "# nothing\n", "null"] {
            assert!(of_text(text).unwrap().contexts.is_empty(), "{text:?}");
        }
    }

    #[tokio::test]
    async fn address_without_a_scheme_gets_one() {
        for (settings, expected) in [
            ("", "http://10.0.0.1:8080/"),
            (", insecure-skip-tls-verify: true", "https://10.0.0.1:8080/"),
        ] {
            let file = of_text(&format!(
                "{{clusters: [{{name: c, cluster: {{server: '10.0.0.1:8080'{settings}}}}}], users: [], \
                 contexts: [{{name: c, context: {{cluster: c}}}}], current-context: c}}"
            ));
            let config = client_config(file.unwrap(), None).await.unwrap();
            assert_eq!(config.cluster_url, expected);
        }
    }
}
