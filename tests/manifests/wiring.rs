//! The Deployment: a single replica with a consistent configuration.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodTemplateSpec, Probe, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{RENDERED, args, find, flag};

type Labels = BTreeMap<String, String>;

fn template(file: &str) -> PodTemplateSpec {
    find::<Deployment>(file).unwrap().spec.unwrap().template
}

fn container(file: &str) -> Container {
    let [container] = template(file).spec.unwrap().containers.try_into().unwrap();
    container
}

/// Returns the pod specs of a file: the scheduler, and the test pod if it was rendered.
fn pods(file: &str) -> Vec<PodSpec> {
    let test = find::<Pod>(file).and_then(|pod| pod.spec);
    template(file).spec.into_iter().chain(test).collect()
}

fn selects(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[test]
fn deployment_never_runs_two_replicas() {
    for file in RENDERED {
        let spec = find::<Deployment>(file).unwrap().spec.unwrap();
        assert_eq!(spec.replicas, Some(1), "{file}");
        assert_eq!(spec.strategy.unwrap().type_.as_deref(), Some("Recreate"), "{file}");
    }
}

#[test]
fn containers_run_without_privileges() {
    for file in RENDERED {
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
    for file in RENDERED {
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
    for file in RENDERED {
        let [port] = container(file).ports.unwrap().try_into().unwrap();
        let args = args(&find(file).unwrap());
        assert_eq!(port.name.as_deref(), Some("https"));
        assert_eq!(flag(&args, "secure-port"), Some(port.container_port.to_string().as_str()));
        let address: std::net::IpAddr = flag(&args, "bind-address").unwrap().parse().unwrap();
        assert!(address.is_unspecified(), "{file}: the kubelet cannot reach {address}");

        let service = find::<Service>(file).unwrap().spec.unwrap();
        let [served] = service.ports.unwrap().try_into().unwrap();
        assert_eq!(served.port, 10259);
        assert_eq!(served.target_port, Some(IntOrString::String("https".to_owned())));
    }
}

#[test]
fn selectors_match_the_scheduler_and_not_the_test_pod() {
    for file in RENDERED {
        let deployment = find::<Deployment>(file).unwrap().spec.unwrap();
        let service = find::<Service>(file).unwrap().spec.unwrap();
        let budget = find::<PodDisruptionBudget>(file);
        let budget = budget.and_then(|budget| budget.spec?.selector?.match_labels);
        let selectors = [deployment.selector.match_labels, service.selector, budget];

        let pod = deployment.template.metadata.unwrap().labels.unwrap();
        let test = find::<Pod>(file).and_then(|pod| pod.metadata.labels);
        for selector in selectors.iter().flatten() {
            assert!(!selector.is_empty() && selects(selector, &pod), "{file}: {selector:?}");
            assert!(test.iter().all(|test| !selects(selector, test)), "{file}: {selector:?}");
        }
    }
}

#[test]
fn certificate_is_mounted_at_the_paths_of_the_flags() {
    let file = "tests/manifests/rendered/everything.yaml";
    let args = args(&find(file).unwrap());
    let pod = template(file).spec.unwrap();
    let mounts = pod.containers[0].volume_mounts.as_ref().unwrap();
    let mount = mounts.iter().find(|mount| mount.name == "tls").unwrap();
    for (name, key) in [("tls-cert-file", "tls.crt"), ("tls-private-key-file", "tls.key")] {
        assert_eq!(flag(&args, name), Some(format!("{}/{key}", mount.mount_path).as_str()));
    }
    let volumes = pod.volumes.unwrap();
    let volume = volumes.iter().find(|volume| volume.name == "tls").unwrap();
    let secret = volume.secret.as_ref().unwrap();
    assert_eq!(secret.secret_name.as_deref(), Some("shop-scheduler-tls"));
}
