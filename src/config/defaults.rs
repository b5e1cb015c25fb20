//! Defaults: from the configuration as written to the configuration in effect.

use std::collections::BTreeSet;

use engine::profile::{PluginRef, PluginSets, merge_defaults};
use framework::ExtensionPoint;
use plugins::catalogue;

use super::args::{
    Arguments, NodeResourcesFitArgs, ResourceSpec, ScoringStrategy, ShapePoint, VolumeBindingArgs,
};
use super::configuration::{Configuration, LeaderElection, PluginConfig, Profile};
use super::decode::Float;
use super::duration::Duration;
use super::gates::Gates;
use super::tree::Tree;
use super::v1::{self, ClientConnection, KubeSchedulerConfiguration};

/// Name of the default profile.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Fills in absent values.
pub(super) fn complete(written: &KubeSchedulerConfiguration, gates: &Gates) -> Configuration {
    let enable_profiling = written.enable_profiling.unwrap_or(true);
    Configuration {
        parallelism: written.parallelism.unwrap_or(16),
        leader_election: leader_election(&written.leader_election),
        client_connection: client_connection(written.client_connection.clone()),
        enable_profiling,
        enable_contention_profiling: written
            .enable_contention_profiling
            .unwrap_or(enable_profiling),
        percentage_of_nodes_to_score: written.percentage_of_nodes_to_score.unwrap_or(0),
        pod_initial_backoff_seconds: written.pod_initial_backoff_seconds.unwrap_or(1),
        pod_max_backoff_seconds: written.pod_max_backoff_seconds.unwrap_or(10),
        profiles: profiles(&written.profiles, gates),
        extenders: written.extenders.clone(),
        delay_cache_until_active: written.delay_cache_until_active,
        min_compatibility: gates.min_compatibility(),
        plugin_gates: gates.of_plugins(),
    }
}

fn leader_election(written: &v1::LeaderElection) -> LeaderElection {
    let or_seconds = |given: Duration, default| {
        if given.is_zero() { Duration::from_secs(default) } else { given }
    };
    let or = |given: &str, default: &str| {
        if given.is_empty() { default.to_owned() } else { given.to_owned() }
    };
    LeaderElection {
        leader_elect: written.leader_elect.unwrap_or(true),
        lease_duration: or_seconds(written.lease_duration, 15),
        renew_deadline: or_seconds(written.renew_deadline, 10),
        retry_period: or_seconds(written.retry_period, 2),
        resource_lock: or(&written.resource_lock, "leases"),
        resource_name: or(&written.resource_name, "kube-scheduler"),
        resource_namespace: or(&written.resource_namespace, "kube-system"),
    }
}

fn client_connection(mut connection: ClientConnection) -> ClientConnection {
    if connection.content_type.is_empty() {
        "application/vnd.kubernetes.protobuf".clone_into(&mut connection.content_type);
    }
    if connection.qps == Float(0.0) {
        connection.qps = Float(50.0);
    }
    if connection.burst == 0 {
        connection.burst = 100;
    }
    connection
}

/// The profiles, or one default profile. Only a single profile gets a default name.
fn profiles(written: &[v1::Profile], gates: &Gates) -> Vec<Profile> {
    let none = [v1::Profile::default()];
    let written = if written.is_empty() { &none } else { written };
    let name = if written.len() == 1 { DEFAULT_SCHEDULER } else { "" };
    let defaults = default_plugins(gates);
    written.iter().map(|written| profile(written, name, &defaults, gates)).collect()
}

/// The plugins of a profile that does not mention any.
fn default_plugins(gates: &Gates) -> Vec<PluginRef> {
    let plugins = catalogue::ALL.iter().filter(|plugin| gates.allow(plugin));
    plugins.map(|plugin| PluginRef::new(plugin.name, plugin.default_weight)).collect()
}

fn profile(
    written: &v1::Profile,
    default_name: &str,
    defaults: &[PluginRef],
    gates: &Gates,
) -> Profile {
    let mut plugins = written.plugins.as_ref().map(v1::Plugins::to_sets).unwrap_or_default();
    for point in ExtensionPoint::ALL {
        *plugins.at_mut(point) = merge_defaults(&[], plugins.at(point));
    }
    plugins.multi_point = merge_defaults(defaults, &plugins.multi_point);
    let scheduler_name = written.scheduler_name.as_deref().unwrap_or(default_name);
    Profile {
        scheduler_name: scheduler_name.to_owned(),
        percentage_of_nodes_to_score: written.percentage_of_nodes_to_score,
        plugin_config: plugin_config(&written.plugin_config, &plugins, gates),
        plugins,
    }
}

/// The given arguments, followed by default arguments of the other plugins, by name.
fn plugin_config(
    written: &[v1::PluginConfig],
    plugins: &PluginSets,
    gates: &Gates,
) -> Vec<PluginConfig> {
    let mut configs: Vec<PluginConfig> = written
        .iter()
        .map(|entry| PluginConfig {
            name: entry.name.clone(),
            args: entry.args.clone().map(|args| with_defaults(args, gates)),
        })
        .collect();
    let given: BTreeSet<&str> = written.iter().map(|entry| entry.name.as_str()).collect();
    let enabled: BTreeSet<&str> =
        plugins.all().flat_map(|set| &set.enabled).map(|plugin| plugin.name.as_str()).collect();
    for name in enabled.difference(&given) {
        let nothing = Tree::Object(Vec::new());
        if let Some((args, _)) = Arguments::decode(&format!("{name}Args"), &nothing) {
            let args = Some(with_defaults(args, gates));
            configs.push(PluginConfig { name: (*name).to_owned(), args });
        }
    }
    configs
}

fn with_defaults(mut args: Arguments, gates: &Gates) -> Arguments {
    match &mut args {
        Arguments::DefaultPreemption(args) => {
            args.min_candidate_nodes_percentage.get_or_insert(10);
            args.min_candidate_nodes_absolute.get_or_insert(100);
        }
        Arguments::DynamicResources(args) => {
            if gates.filter_timeout() {
                args.filter_timeout.get_or_insert(Duration::from_secs(10));
            }
            if gates.binding_timeout() {
                args.binding_timeout.get_or_insert(Duration::from_secs(10 * 60));
            }
        }
        Arguments::InterPodAffinity(args) => {
            args.hard_pod_affinity_weight.get_or_insert(1);
        }
        Arguments::NodeResourcesBalancedAllocation(args) => fill_in(&mut args.resources),
        Arguments::NodeResourcesFit(args) => complete_fit(args),
        Arguments::PodTopologySpread(args) => {
            if args.defaulting_type.is_empty() {
                "System".clone_into(&mut args.defaulting_type);
            }
        }
        Arguments::VolumeBinding(args) => complete_volume_binding(args, gates),
        Arguments::NodeAffinity(_) | Arguments::Other(_) => {}
    }
    args
}

fn complete_fit(args: &mut NodeResourcesFitArgs) {
    let strategy = args.scoring_strategy.get_or_insert_with(|| ScoringStrategy {
        kind: "LeastAllocated".to_owned(),
        ..ScoringStrategy::default()
    });
    fill_in(&mut strategy.resources);
}

/// cpu and memory if no resource is named; weight 1 if none is given.
fn fill_in(resources: &mut Vec<ResourceSpec>) {
    if resources.is_empty() {
        let names = ["cpu", "memory"];
        resources.extend(names.map(|name| ResourceSpec { name: name.to_owned(), weight: 1 }));
    }
    for resource in resources.iter_mut().filter(|resource| resource.weight == 0) {
        resource.weight = 1;
    }
}

/// With gate StorageCapacityScoring the emptiest storage gets the highest score.
fn complete_volume_binding(args: &mut VolumeBindingArgs, gates: &Gates) {
    args.bind_timeout_seconds.get_or_insert(600);
    if gates.storage_capacity_scoring() && args.shape.as_ref().is_none_or(Vec::is_empty) {
        let points = [(0, 10), (100, 0)];
        let points = points.map(|(utilization, score)| ShapePoint { utilization, score });
        args.shape = Some(points.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::scheme;

    const HEAD: &str =
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

    fn complete_with(body: &str, flags: &str) -> Configuration {
        let written = scheme::decode(&format!("{HEAD}{body}")).unwrap();
        complete(&written, &Gates::parse([flags]).unwrap())
    }

    fn args(config: &Configuration, plugin: &str) -> serde_json::Value {
        config.profiles[0].args_of(plugin).unwrap().to_value()
    }

    #[test]
    fn empty_and_zero_get_defaults_as_in_kube_scheduler() {
        let config = complete_with(
            "leaderElection: {leaseDuration: 0s, resourceName: ''}\nclientConnection: {qps: 0}\n\
             percentageOfNodesToScore: null\nenableProfiling: false\n",
            "",
        );
        let election = &config.leader_election;
        assert_eq!(election.lease_duration.to_string(), "15s");
        assert_eq!(election.resource_name, "kube-scheduler");
        assert_eq!(config.client_connection.qps, Float(50.0));
        assert_eq!(config.percentage_of_nodes_to_score, 0);
        assert!(!config.enable_contention_profiling);
    }

    #[test]
    fn single_profile_gets_a_default_name_unless_its_name_is_empty() {
        let names = |body: &str| -> Vec<String> {
            let config = complete_with(body, "");
            config.profiles.into_iter().map(|profile| profile.scheduler_name).collect()
        };
        assert_eq!(names(""), ["default-scheduler"]);
        assert_eq!(names("profiles: [{}]"), ["default-scheduler"]);
        assert_eq!(names("profiles: [{schedulerName: null}]"), ["default-scheduler"]);
        assert_eq!(names("profiles: [{schedulerName: ''}]"), [""]);
        assert_eq!(names("profiles: [{}, {schedulerName: b}]"), ["", "b"]);
    }

    #[test]
    fn feature_gates_change_default_plugins_and_arguments() {
        let config = complete_with(
            "",
            "GenericWorkload=true,\
             DRASchedulerFilterTimeout=false,DRADeviceBindingConditions=false",
        );
        let plugins = &config.profiles[0].plugins.multi_point.enabled;
        assert_eq!(plugins.last().unwrap().name, "GangScheduling");
        let kind =
            |kind: &str| json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": kind});
        assert_eq!(args(&config, "DynamicResources"), kind("DynamicResourcesArgs"));
        let points = json!([{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]);
        assert_eq!(args(&config, "VolumeBinding")["shape"], points);
    }

    #[test]
    fn given_arguments_come_first_and_unknown_ones_are_kept() {
        let config = complete_with(
            "
profiles:
- plugins:
    multiPoint: {enabled: [{name: Mine}], disabled: [{name: '*'}]}
  pluginConfig:
  - {name: Mine, args: {b: [1], a: {}}}
  - {name: Theirs}
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 0}}
",
            "",
        );
        let names: Vec<&str> =
            config.profiles[0].plugin_config.iter().map(|entry| &*entry.name).collect();
        assert_eq!(names, ["Mine", "Theirs", "VolumeBinding"]);
        assert_eq!(args(&config, "Mine"), json!({"a": {}, "b": [1]}));
        assert_eq!(config.profiles[0].args_of("Theirs"), None);
        assert_eq!(args(&config, "VolumeBinding")["bindTimeoutSeconds"], 0);
    }
}
