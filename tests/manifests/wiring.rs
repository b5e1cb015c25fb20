//! The Deployment: its parts fit each other, the Service and the PodDisruptionBudget.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodTemplateSpec, Probe, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use loadmaster::config;
use serde_json::json;

use super::scheduler::{configuration, gates};
use super::{DEFAULT, args, find, find_all, flag, objects, rendered, rendering};

type Labels = BTreeMap<String, String>;

fn template(file: &str) -> PodTemplateSpec {
    find::<Deployment>(file).unwrap().spec.template
}

fn container(file: &str) -> Container {
    let [container] = template(file).spec.unwrap().containers.try_into().unwrap();
    container
}

/// Returns the pod specs of a file: the scheduler, and the test pods if they were rendered.
fn pods(file: &str) -> Vec<PodSpec> {
    let tests = find_all::<Pod>(file).into_iter().filter_map(|pod| pod.spec);
    template(file).spec.into_iter().chain(tests).collect()
}

fn selects(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[test]
fn containers_run_without_privileges() {
    for file in &rendered() {
        for pod in pods(file) {
            let context = pod.security_context.unwrap();
            assert_eq!(context.run_as_non_root, Some(true), "{file}");
            assert_eq!(context.seccomp_profile.unwrap().type_, "RuntimeDefault", "{file}");
            let outside = [pod.host_network, pod.host_pid, pod.host_ipc];
            assert_eq!(outside, [None; 3], "{file}");
            for container in pod.containers {
                let context = container.security_context.unwrap();
                assert_eq!(context.allow_privilege_escalation, Some(false), "{file}");
                assert_eq!(context.read_only_root_filesystem, Some(true), "{file}");
                assert_eq!(context.privileged, None, "{file}");
                let capabilities = context.capabilities.unwrap();
                assert_eq!(capabilities.drop, Some(vec!["ALL".to_owned()]), "{file}");
                assert_eq!(capabilities.add, None, "{file}");
            }
        }
    }
}

#[test]
fn probes_use_https_and_allowed_paths() {
    for file in &rendered() {
        let container = container(file);
        let args = args(&find(file).unwrap());
        let open = flag(&args, "authorization-always-allow-paths").unwrap();
        let asks = |probe: Option<Probe>, path: &str| {
            let get = probe.unwrap().http_get.unwrap();
            assert_eq!(get.path.as_deref(), Some(path), "{file}");
            assert_eq!(get.scheme.as_deref(), Some("HTTPS"), "{file}");
            assert_eq!(get.port, IntOrString::String("https".to_owned()), "{file}");
            assert!(open.split(',').any(|allowed| allowed == path), "{file}: {path}");
        };
        asks(container.startup_probe, "/livez");
        asks(container.liveness_probe, "/livez");
        asks(container.readiness_probe, "/readyz");
    }
}

#[test]
fn container_port_is_the_served_port() {
    for file in &rendered() {
        let [port] = container(file).ports.unwrap().try_into().unwrap();
        let args = args(&find(file).unwrap());
        assert_eq!(port.name.as_deref(), Some("https"));
        assert_eq!(flag(&args, "secure-port"), Some(port.container_port.to_string().as_str()));
        let address: std::net::IpAddr = flag(&args, "bind-address").unwrap().parse().unwrap();
        assert!(address.is_unspecified(), "{file}: the kubelet cannot reach {address}");

        let Some(service) = find::<Service>(file) else { continue };
        let service = service.spec.unwrap();
        let [served] = service.ports.unwrap().try_into().unwrap();
        assert_eq!(served.port, 10259);
        assert_eq!(served.target_port, Some(IntOrString::String("https".to_owned())));
    }
}

#[test]
fn selectors_match_the_scheduler_and_not_the_test_pods() {
    for file in &rendered() {
        let deployment = find::<Deployment>(file).unwrap().spec;
        let service = find::<Service>(file).and_then(|service| service.spec?.selector);
        let budget = find::<PodDisruptionBudget>(file);
        let budget = budget.and_then(|budget| budget.spec?.selector?.match_labels);
        let policy = find::<NetworkPolicy>(file);
        let policy = policy.and_then(|policy| policy.spec?.pod_selector?.match_labels);
        let selectors = [deployment.selector.match_labels, service, budget, policy];

        let pod = deployment.template.metadata.unwrap().labels.unwrap();
        let tests: Vec<_> =
            find_all::<Pod>(file).into_iter().filter_map(|pod| pod.metadata.labels).collect();
        for selector in selectors.iter().flatten() {
            assert!(!selector.is_empty() && selects(selector, &pod), "{file}: {selector:?}");
            assert!(tests.iter().all(|test| !selects(selector, test)), "{file}: {selector:?}");
        }
    }
}

#[test]
fn every_mount_has_a_volume_and_every_volume_a_mount() {
    for file in &rendered() {
        let pod = template(file).spec.unwrap();
        let volumes: BTreeSet<_> = pod.volumes.unwrap().into_iter().map(|one| one.name).collect();
        let mounts = pod.containers[0].volume_mounts.as_ref().unwrap();
        let names: BTreeSet<_> = mounts.iter().map(|mount| mount.name.clone()).collect();
        let paths: BTreeSet<_> = mounts.iter().map(|mount| mount.mount_path.clone()).collect();
        assert_eq!(names, volumes, "{file}");
        assert_eq!(paths.len(), mounts.len(), "{file}");
    }
}

/// Returns the Secrets that are mounted, by the folder of their files.
fn secrets(file: &str) -> BTreeMap<String, String> {
    let pod = template(file).spec.unwrap();
    let volumes = pod.volumes.unwrap();
    let mounts = pod.containers[0].volume_mounts.iter().flatten();
    let secret = |name: &str| {
        let volume = volumes.iter().find(|volume| volume.name == name)?;
        volume.secret.as_ref()?.secret_name.clone()
    };
    mounts.filter_map(|mount| Some((mount.mount_path.clone(), secret(&mount.name)?))).collect()
}

#[test]
fn certificate_is_mounted_at_the_paths_of_the_flags() {
    let file = &rendering("tls-secret");
    let args = args(&find(file).unwrap());
    let folder = "/etc/loadmaster-tls";
    for (name, key) in [("tls-cert-file", "tls.crt"), ("tls-private-key-file", "tls.key")] {
        assert_eq!(flag(&args, name), Some(format!("{folder}/{key}").as_str()));
    }
    assert_eq!(secrets(file), [(folder.to_owned(), "loadmaster-tls".to_owned())].into());
    assert_eq!(secrets(DEFAULT), BTreeMap::new());
}

#[test]
fn certificate_of_cert_manager_is_mounted_and_verified() {
    let file = &rendering("cert-manager");
    let objects = objects(file);
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let certificate = &of_kind("Certificate")["spec"];
    let secret = certificate["secretName"].as_str().unwrap();
    assert_eq!(secrets(file), [("/etc/loadmaster-tls".to_owned(), secret.to_owned())].into());

    let tls = &of_kind("ServiceMonitor")["spec"]["endpoints"][0]["tlsConfig"];
    assert_eq!(tls["ca"]["secret"], json!({"name": secret, "key": "ca.crt"}));
    assert!(certificate["dnsNames"].as_array().unwrap().contains(&tls["serverName"]));
}

#[test]
fn files_of_extenders_are_in_mounted_secrets() {
    let file = &rendering("extenders");
    let secrets = secrets(file);
    let loaded = config::load(&configuration(file), &gates(file)).unwrap();
    let files = loaded.config.extenders.iter().filter_map(|extender| extender.tls_config.as_ref());
    let files: Vec<_> =
        files.flat_map(|tls| [&tls.cert_file, &tls.key_file, &tls.ca_file]).collect();
    assert_eq!(files.len(), 3);
    for path in files {
        let (folder, _) = path.rsplit_once('/').unwrap();
        let secret = secrets.get(folder).unwrap_or_else(|| panic!("{path} is not mounted"));
        assert!(folder.ends_with(&format!("/{secret}")), "{folder}");
    }
}
