//! The container of the Deployment starts: the binary accepts its arguments and its configuration.

use std::fs;
use std::path::Path;
use std::process::Command;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use loadmaster::config::{self, Gates};
use loadmaster::supercluster::scheduler::ClustersFile;
use supercluster::registry::PipelineRegistry;

use super::{DEFAULT, args, find, find_all, flag, rendered, rendering};

/// The renderings with the role supercluster.
const SUPERCLUSTERS: [&str; 2] = ["cluster-profiles", "supercluster"];

fn loadmaster<'a>(args: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let output = Command::new(env!("CARGO_BIN_EXE_loadmaster")).args(args).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8(output.stderr).unwrap()) }
}

/// Whether the binary accepts these arguments; `--help` follows them and ends the process.
pub(super) fn can_be_read(args: &[String]) -> Result<(), String> {
    loadmaster(args.iter().map(String::as_str).chain(["--help"]))
}

fn deployment(file: &str) -> Deployment {
    find(file).unwrap()
}

/// Returns the ConfigMap with the configuration.
fn config_map(file: &str) -> ConfigMap {
    let mut maps = find_all::<ConfigMap>(file).into_iter();
    maps.find(|map| map.data.as_ref().unwrap().contains_key("config.yaml")).unwrap()
}

/// Returns the KubeSchedulerConfiguration of the ConfigMap.
pub(super) fn configuration(file: &str) -> String {
    config_map(file).data.unwrap().remove("config.yaml").unwrap()
}

pub(super) fn gates(file: &str) -> Gates {
    Gates::parse(flag(&args(&deployment(file)), "feature-gates")).unwrap()
}

#[test]
fn binary_accepts_the_arguments() {
    for file in &rendered() {
        let args = args(&deployment(file));
        can_be_read(&args).unwrap_or_else(|error| panic!("{file}: {error}"));
        let role = if *file == rendering("agent") { "agent" } else { "run" };
        assert_eq!(args[0], role, "{file}");
    }
}

#[test]
fn clusters_of_the_configuration_are_accepted() {
    for file in SUPERCLUSTERS.map(rendering) {
        let clusters = config_map(&file).data.unwrap().remove("clusters.yaml").unwrap();
        let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clusters.yaml");
        fs::write(&written, clusters).unwrap();
        ClustersFile::read(&written, &PipelineRegistry::new()).unwrap();
        let given = flag(&args(&deployment(&file)), "clusters").unwrap().to_owned();
        assert_eq!(given, "/etc/loadmaster/clusters.yaml");
    }
}

#[test]
fn pipelines_of_the_agent_are_accepted() {
    let file = rendering("agent");
    let pipelines = config_map(&file).data.unwrap().remove("agent.yaml").unwrap();
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent.yaml");
    fs::write(&written, pipelines).unwrap();
    loadmaster(["config", "validate", written.to_str().unwrap()]).unwrap();
    let given = flag(&args(&deployment(&file)), "agent-config").unwrap().to_owned();
    assert_eq!(given, "/etc/loadmaster/agent.yaml");
}

#[test]
fn unknown_argument_is_detected() {
    let mut args = args(&deployment(DEFAULT));
    args.push("--no-such-flag".to_owned());
    let error = can_be_read(&args).unwrap_err();
    assert!(error.contains("--no-such-flag"), "{error}");
}

#[test]
fn configuration_loads() {
    for file in &rendered() {
        let loaded = config::load(&configuration(file), &gates(file));
        loaded.unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

#[test]
fn every_plugin_of_the_configuration_exists() {
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("manifests.yaml");
    for file in &rendered() {
        fs::write(&written, configuration(file)).unwrap();
        let args = args(&deployment(file));
        let gates = flag(&args, "feature-gates").unwrap_or_default();
        let command = ["config", "validate", written.to_str().unwrap(), "--feature-gates", gates];
        loadmaster(command).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

#[test]
fn configuration_is_mounted_at_the_path_of_the_flag() {
    for file in &rendered() {
        let deployment = deployment(file);
        let pod = deployment.spec.template.spec.as_ref().unwrap();
        let mounts = pod.containers[0].volume_mounts.as_ref().unwrap();
        let mount = mounts.iter().find(|mount| mount.name == "config").unwrap();
        let volumes = pod.volumes.as_ref().unwrap();
        let volume = volumes.iter().find(|volume| volume.name == mount.name).unwrap();
        let config_map = config_map(file);

        let given = flag(&args(&deployment), "config").unwrap().to_owned();
        assert_eq!(given, format!("{}/config.yaml", mount.mount_path));
        assert_eq!(volume.config_map.as_ref().unwrap().name, config_map.metadata.name.unwrap());
    }
}

/// Returns the scheduler names that a rendering serves.
fn served(file: &str) -> Vec<String> {
    let loaded = config::load(&configuration(file), &gates(file)).unwrap();
    loaded.config.profiles.iter().map(|profile| profile.scheduler_name.to_string()).collect()
}

#[test]
fn own_pod_names_another_scheduler_beside_kube_scheduler() {
    let replacing = ["replaces-kube-scheduler", "second-profile"].map(rendering);
    for file in rendered() {
        let own = deployment(&file).spec.template.spec.unwrap().scheduler_name.unwrap();
        assert_eq!(served(&file).contains(&own), replacing.contains(&file), "{file}");
    }
}

#[test]
fn test_pods_name_each_scheduler_once() {
    for file in rendered().into_iter().filter(|file| file != DEFAULT) {
        let pods = find_all::<Pod>(&file).into_iter();
        let named: Vec<_> = pods.map(|pod| pod.spec.unwrap().scheduler_name.unwrap()).collect();
        // In the other roles a pod of the cluster is not scheduled.
        let is_scheduler =
            !SUPERCLUSTERS.iter().chain(&["agent"]).any(|own| rendering(own) == file);
        assert_eq!(named, if is_scheduler { served(&file) } else { Vec::new() }, "{file}");
    }
}
