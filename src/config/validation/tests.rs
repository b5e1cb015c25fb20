//! Invalid values and their errors.

use framework::Level;

use super::*;
use crate::config::{ConfigError, load};

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn complaints(body: &str, gates: &str) -> Vec<String> {
    let gates = Gates::at(Level::V1_36).with_flags([gates]).unwrap();
    match load(&format!("{HEAD}{body}"), &gates) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid(errors)) => errors.iter().map(ToString::to_string).collect(),
        Err(other) => panic!("{body}: {other}"),
    }
}

#[test]
fn top_level_values_are_checked_in_order() {
    let body = "
clientConnection: {burst: -1}
leaderElection: {leaseDuration: -5s, renewDeadline: 1s, retryPeriod: -1s, resourceLock: x}
parallelism: -2
percentageOfNodesToScore: 101
podInitialBackoffSeconds: 0
podMaxBackoffSeconds: -1
profiles: [{percentageOfNodesToScore: -1}, {schedulerName: a}, {schedulerName: a}]
";
    let expected = [
        "clientConnection.burst: Invalid value: -1: must be non-negative",
        "leaderElection.leaseDuration: Invalid value: \"-5s\": must be greater than zero",
        "leaderElection.retryPeriod: Invalid value: \"-1s\": must be greater than zero",
        "leaderElection.leaseDuration: Invalid value: \"1s\": must be greater than `RenewDeadline`",
        "leaderElection.resourceLock: Invalid value: \"x\": resourceLock value must be \"leases\"",
        "parallelism: Invalid value: -2: should be an integer value greater than zero",
        "profiles[0].schedulerName: Required value",
        "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
        "profiles[2].schedulerName: Duplicate value: {}",
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
        "podMaxBackoffSeconds: Invalid value: -1: must be greater than or equal to \
         PodInitialBackoffSeconds",
    ];
    assert_eq!(complaints(body, ""), expected);
    let off = "leaderElection: {leaderElect: false, leaseDuration: -5s, resourceLock: x}\n";
    assert_eq!(complaints(off, ""), Vec::<String>::new());
}

#[test]
fn limits_of_ranges_are_valid_or_not_as_in_kube_scheduler() {
    for (body, is_valid) in [
        ("parallelism: 0\n", false),
        ("parallelism: 1\n", true),
        ("leaderElection: {leaseDuration: 10s, renewDeadline: 10s}\n", false),
        ("leaderElection: {leaseDuration: 11s, renewDeadline: 10s}\n", true),
        ("podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 5\n", true),
        ("podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 4\n", false),
        ("percentageOfNodesToScore: 100\n", true),
    ] {
        assert_eq!(complaints(body, "").is_empty(), is_valid, "{body}");
    }
    let args = |args: &str| format!("profiles: [{{pluginConfig: [{{name: {args}}}]}}]\n");
    let skew = |skew: &str| {
        let constraint = "topologyKey: a, whenUnsatisfiable: DoNotSchedule";
        args(&format!(
            "PodTopologySpread, args: {{defaultingType: List, \
             defaultConstraints: [{{maxSkew: {skew}, {constraint}}}]}}"
        ))
    };
    for (body, is_valid) in [
        (args("DynamicResources, args: {bindingTimeout: 1s}"), true),
        (args("DynamicResources, args: {bindingTimeout: 999ms}"), false),
        (skew("0"), false),
        (skew("1"), true),
    ] {
        assert_eq!(complaints(&body, "").is_empty(), is_valid, "{body}");
    }
}

#[test]
fn flags_cannot_empty_the_names_of_the_lock() {
    // In a file an empty name is replaced by the default.
    let mut config = crate::config::defaults(&Gates::default());
    config.leader_election.resource_name.clear();
    config.leader_election.resource_namespace.clear();
    let errors = crate::config::validate(&config, &Gates::default()).unwrap_err();
    let expected = "[leaderElection.resourceNamespace: Required value, \
                    leaderElection.resourceName: Required value]";
    assert_eq!(errors.to_string(), expected);
}

#[test]
fn plugins_of_former_versions_are_named() {
    let body = "
profiles:
- plugins:
    filter: {enabled: [{name: NodeName}, {name: EBSLimits}]}
    multiPoint: {enabled: [{name: GCEPDLimits}]}
  pluginConfig: [{name: CinderLimits}]
";
    let rule = "was invalid in version \"v1\" (KubeSchedulerConfiguration is version \
                \"kubescheduler.config.k8s.io/v1\")";
    let expected = [
        format!("profiles[0].plugins.filter.enabled[1]: Invalid value: \"EBSLimits\": {rule}"),
        format!("profiles[0].pluginConfig[0]: Invalid value: \"CinderLimits\": {rule}"),
    ];
    assert_eq!(complaints(body, ""), expected);
}

#[test]
fn all_profiles_sort_the_queue_alike() {
    let profile = |name: &str, sort: &str, args: &str| {
        format!(
            "- {{schedulerName: {name}, plugins: {{queueSort: {sort}}}, pluginConfig: [{{name: \
             Mine, args: {args}}}]}}\n"
        )
    };
    let sort = "{enabled: [{name: Mine}, {name: Other}], disabled: [{name: '*'}]}";
    let body = format!(
        "profiles:\n{}{}{}",
        profile("a", sort, "{x: 1}"),
        profile("b", "{}", "{x: 1}"),
        profile("c", sort, "{x: 2}")
    );
    let expected = [
        "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can \
         be enabled",
        "profiles[1].plugins.queueSort: Invalid value: {\"Enabled\":null,\"Disabled\":null}: must \
         be the same for all profiles",
        "profiles[2].pluginConfig.args: Invalid value: {\"x\":2}: queueSort must be the same for \
         all profiles",
    ];
    assert_eq!(complaints(&body, ""), expected);
}

#[test]
fn arguments_are_checked_plugin_by_plugin() {
    let rows = [
        (
            "DynamicResources, args: {filterTimeout: -1s, bindingTimeout: 999ms}",
            "",
            vec![
                "filterTimeout: Invalid value: \"-1s\": must be zero or positive",
                "bindingTimeout: Invalid value: \"999ms\": must be at least 1 second",
            ],
        ),
        (
            "DynamicResources, args: {filterTimeout: 1s, bindingTimeout: 2s}",
            "DRASchedulerFilterTimeout=false,DRADeviceBindingConditions=false",
            vec![
                "filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled",
                "bindingTimeout: Forbidden: DRADeviceBindingConditions or \
                 DRAResourceClaimDeviceStatus feature gate is disabled",
            ],
        ),
        (
            "VolumeBinding, args: {shape: []}",
            "",
            vec![
                "shape: Invalid value: []: unexpected field `shape`, remove it or turn on the \
                 feature gate StorageCapacityScoring",
            ],
        ),
        (
            "VolumeBinding, args: {shape: [{utilization: 5, score: 11}, {utilization: 5, score: \
             0}]}",
            "StorageCapacityScoring=true",
            vec![
                "shape[1].utilization: Invalid value: 5: values must be sorted in increasing order",
                "shape[0].score: Invalid value: 11: not in valid range [0, 10]",
            ],
        ),
        (
            "NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
             {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}, \
             preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: \
             {matchFields: [{key: metadata.name, operator: Gt, values: [a]}]}}]}}",
            "",
            vec![
                "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]\
                 .matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, \
                 values set can't be empty",
                "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].matchFields[0]\
                 .operator: Unsupported value: \"Gt\": supported values: \"In\", \"NotIn\"",
            ],
        ),
        (
            "NodeResourcesBalancedAllocation, args: {resources: [{name: a, weight: 2}, {name: a}]}",
            "",
            vec![
                "resources[0].weight: Invalid value: 2: must be 1",
                "resources[1].name: Duplicate value: \"a\"",
            ],
        ),
        (
            "PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, \
             topologyKey: a b, whenUnsatisfiable: ''}]}",
            "",
            vec![
                "defaultConstraints[0].topologyKey: Invalid value: \"a b\": name part must \
                 consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                 an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
                 used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
            ],
        ),
        ("NodeResourcesFit, args: {scoringStrategy: {type: Bogus}}", "", vec![]),
    ];
    for (config, gates, expected) in rows {
        let body = format!("profiles: [{{pluginConfig: [{{name: {config}}}]}}]");
        let at = "profiles[0].pluginConfig[0].args.";
        let expected: Vec<String> =
            expected.into_iter().map(|complaint| format!("{at}{complaint}")).collect();
        assert_eq!(complaints(&body, gates), expected, "{config}");
    }
}

#[test]
fn extenders_are_checked_together() {
    let body = "
extenders:
- bindVerb: b
  prioritizeVerb: p
  managedResources: [{name: a.io/x}, {name: cpu}, {name: kubernetes.io/x}, {name: requests.a/x}]
- bindVerb: b
  managedResources: [{name: a.io/x}, {name: a.io/}]
";
    let name_rule = "name part must consist of alphanumeric characters, '-', '_' or '.', and must \
                     start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  \
                     or '123-abc', regex used for validation is \
                     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let other = "is an invalid extended resource name";
    let expected = [
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to \
         it"
        .to_owned(),
        format!("extenders[0].managedResources[1].name: Invalid value: \"cpu\": {other}"),
        format!(
            "extenders[0].managedResources[2].name: Invalid value: \"kubernetes.io/x\": \
                 {other}"
        ),
        format!("extenders[0].managedResources[3].name: Invalid value: \"requests.a/x\": {other}"),
        "extenders[1].managedResources[0].name: Invalid value: \"a.io/x\": duplicate extender \
         managed resource name"
            .to_owned(),
        "extenders[1].managedResources[1].name: Invalid value: \"a.io/\": name part must be \
         non-empty"
            .to_owned(),
        format!("extenders[1].managedResources[1].name: Invalid value: \"a.io/\": {name_rule}"),
        "extenders: Invalid value: \"found 2 extenders implementing bind\": only one extender can \
         implement bind"
            .to_owned(),
    ];
    assert_eq!(complaints(body, ""), expected);
}
