//! The configuration from text to profiles.

use framework::{ExtensionPoint, Level, Registry};
use serde_json::json;

use super::*;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn refusal(body: &str) -> String {
    load(&format!("{HEAD}{body}"), &Gates::default()).unwrap_err().to_string()
}

fn configuration(body: &str) -> Configuration {
    load(&format!("{HEAD}{body}"), &Gates::default()).unwrap().config
}

#[test]
fn documents_of_other_kinds_are_rejected() {
    let meta = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                \"json:\\\"kind,omitempty\\\"\" }";
    let misfit = "couldn't get version/kind; json parse error: json: cannot unmarshal";
    let rows = [
        ("", "Object 'Kind' is missing in ''".to_owned()),
        ("{}", "Object 'Kind' is missing in '{}'".to_owned()),
        ("text", format!("{misfit} string into Go value of type {meta}")),
        ("[1]", format!("{misfit} array into Go value of type {meta}")),
        ("kind: 5", format!("{misfit} number into Go struct field .kind of type string")),
        ("kind: K\n", "Object 'apiVersion' is missing in 'kind: K\n'".to_owned()),
        ("kind: K\napiVersion: a/b/c\n", "unexpected GroupVersion string: a/b/c".to_owned()),
        (
            "kind: K\napiVersion: apps/v1\n",
            "no kind \"K\" is registered for version \"apps/v1\" in scheme \
             \"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme/scheme.go:29\""
                .to_owned(),
        ),
        (
            "kind: NodeAffinityArgs\napiVersion: kubescheduler.config.k8s.io/v1\n",
            "couldn't decode as KubeSchedulerConfiguration, got kubescheduler.config.k8s.io/v1, \
             Kind=NodeAffinityArgs: "
                .to_owned(),
        ),
        (
            "kind: NodeAffinityArgs\napiVersion: kubescheduler.config.k8s.io/v1\nfoo: 1\n",
            "strict decoding error: unknown field \"foo\"".to_owned(),
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(load(text, &Gates::default()).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn type_errors_name_field_and_type() {
    let rows = [
        (
            "parallelism: 1.5",
            "number 1.5 into Go struct field KubeSchedulerConfiguration.parallelism of type int32",
        ),
        (
            "parallelism: 3000000000",
            "number 3000000000 into Go struct field KubeSchedulerConfiguration.parallelism of \
             type int32",
        ),
        (
            "enableProfiling: 1",
            "number into Go struct field KubeSchedulerConfiguration.enableProfiling of type bool",
        ),
        (
            "leaderElection: []",
            "array into Go struct field KubeSchedulerConfiguration.leaderElection of type \
             v1alpha1.LeaderElectionConfiguration",
        ),
        (
            "leaderElection: {leaderElect: 'yes'}",
            "string into Go struct field LeaderElectionConfiguration.leaderElection.leaderElect \
             of type bool",
        ),
        (
            "clientConnection: {qps: x}",
            "string into Go struct field ClientConnectionConfiguration.clientConnection.qps of \
             type float32",
        ),
        (
            "profiles: [5]",
            "number into Go struct field KubeSchedulerConfiguration.profiles of type \
             v1.KubeSchedulerProfile",
        ),
        (
            "profiles: [{schedulerName: 5}]",
            "number into Go struct field KubeSchedulerProfile.profiles.schedulerName of type \
             string",
        ),
        (
            "profiles: [{plugins: {score: {enabled: {}}}}]",
            "object into Go struct field PluginSet.profiles.plugins.score.enabled of type \
             []v1.Plugin",
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{weight: x}]}}}]",
            "string into Go struct field Plugin.profiles.plugins.score.enabled.weight of type \
             int32",
        ),
        (
            "extenders: [{httpTimeout: 5}]",
            "number into Go struct field Extender.extenders.httpTimeout of type string",
        ),
    ];
    for (body, expected) in rows {
        assert_eq!(refusal(body), format!("json: cannot unmarshal {expected}"), "{body}");
    }
    assert_eq!(
        refusal("leaderElection: {retryPeriod: 5}"),
        "json: cannot unmarshal number into Go struct field \
         LeaderElectionConfiguration.leaderElection.retryPeriod of type string"
    );
    assert_eq!(refusal("leaderElection: {retryPeriod: null}"), "time: invalid duration \"\"");
    assert_eq!(
        refusal("parallelism: x\nextenders: [{httpTimeout: 1d}]"),
        "time: unknown unit \"d\" in duration \"1d\""
    );
    assert_eq!(
        refusal("extenders: [{tlsConfig: {caData: 'x'}}]"),
        "illegal base64 data at input byte 1"
    );
}

#[test]
fn strict_errors_are_reported_together() {
    assert_eq!(
        refusal(
            "\
zeta: 1
parallelism: 1
parallelism: 2
profiles:
- bogus: 1
  pluginConfig:
  - {name: InterPodAffinity, args: {b: 1, a: 2}}
- pluginConfig:
  - {name: Mine, args: {x: 1}}
  - {name: NodeAffinity, args: {addedAffinity: {foo: 1}}}
"
        ),
        "strict decoding error: yaml: unmarshal errors:\n  line 5: key \"parallelism\" already \
         set in map, unknown field \"profiles[0].bogus\", unknown field \"zeta\", decoding \
         .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin \
         InterPodAffinity: strict decoding error: unknown field \"a\", unknown field \"b\", \
         decoding .profiles[1].pluginConfig[1]: strict decoding error: decoding args for plugin \
         NodeAffinity: strict decoding error: unknown field \"addedAffinity.foo\""
    );
    let json = r#"{"kind": "KubeSchedulerConfiguration", "zeta": 1, "parallelism": 1,
        "apiVersion": "kubescheduler.config.k8s.io/v1", "parallelism": 2, "alpha": 1}"#;
    assert_eq!(
        load(json, &Gates::default()).unwrap_err().to_string(),
        "strict decoding error: unknown field \"zeta\", duplicate field \"parallelism\", unknown \
         field \"alpha\""
    );
}

#[test]
fn arguments_must_have_the_kind_of_their_plugin() {
    let args = |plugin: &str, args: &str| {
        refusal(&format!("profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"))
    };
    let at = "decoding .profiles[0].pluginConfig[0]: ";
    let rows = [
        (
            "{kind: NodeAffinityArgs, apiVersion: kubescheduler.config.k8s.io/v1}",
            "args for plugin InterPodAffinity were not of type \
             InterPodAffinityArgs.kubescheduler.config.k8s.io, got \
             NodeAffinityArgs.kubescheduler.config.k8s.io",
        ),
        (
            "{kind: NodeAffinityArgs}",
            "args for plugin InterPodAffinity were not of type \
             InterPodAffinityArgs.kubescheduler.config.k8s.io, got \
             NodeAffinityArgs.kubescheduler.config.k8s.io",
        ),
        (
            "{apiVersion: kubescheduler.config.k8s.io/v1beta3}",
            "decoding args for plugin InterPodAffinity: no kind \"InterPodAffinityArgs\" is \
             registered for version \"kubescheduler.config.k8s.io/v1beta3\" in scheme \
             \"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme/scheme.go:29\"",
        ),
        (
            "{hardPodAffinityWeight: true}",
            "decoding args for plugin InterPodAffinity: json: cannot unmarshal bool into Go struct \
             field InterPodAffinityArgs.hardPodAffinityWeight of type int32",
        ),
    ];
    for (given, expected) in rows {
        assert_eq!(args("InterPodAffinity", given), format!("{at}{expected}"), "{given}");
    }
    for nothing in ["null", "{}"] {
        let body =
            format!("profiles: [{{pluginConfig: [{{name: InterPodAffinity, args: {nothing}}}]}}]");
        let config = configuration(&body);
        let written = config.profiles[0].args_of("InterPodAffinity").unwrap().to_value();
        assert_eq!(written["hardPodAffinityWeight"], 1);
    }
}

#[test]
fn given_values_are_distinguished_from_defaults() {
    let loaded = load(&format!("{HEAD}parallelism: 16\n"), &Gates::default()).unwrap();
    assert_eq!(loaded.written.parallelism, Some(16));
    assert_eq!(loaded.written.pod_max_backoff_seconds, None);
    assert_eq!((loaded.config.parallelism, loaded.config.pod_max_backoff_seconds), (16, 10));
    let election = &loaded.config.leader_election;
    let durations = [election.lease_duration, election.renew_deadline, election.retry_period];
    assert_eq!(durations, [15, 10, 2].map(Duration::from_secs));
}

#[test]
fn requests_are_limited_only_by_a_given_rate() {
    for (body, rate) in [("", None), ("clientConnection: {qps: 5, burst: 7}\n", Some((5.0, 7)))] {
        let loaded = load(&format!("{HEAD}{body}"), &Gates::default()).unwrap();
        assert_eq!(loaded.in_effect().request_rate(), rate, "{body}");
    }
}

#[test]
fn only_the_document_has_a_kind() {
    let text = refusal("profiles:\n- {kind: Profile, apiVersion: v1}\n");
    assert!(text.contains("unknown field \"profiles[0].kind\""), "{text}");
    assert!(text.contains("unknown field \"profiles[0].apiVersion\""), "{text}");
}

#[test]
fn written_configuration_loads_again_and_has_only_plugins_in_use() {
    let config = configuration(
        "
profiles:
- schedulerName: a
  plugins:
    multiPoint: {disabled: [{name: VolumeBinding}]}
  pluginConfig:
  - {name: Mine, args: {x: 1}}
  - {name: VolumeBinding}
extenders:
- urlPrefix: http://x
  filterVerb: f
  managedResources: [{name: a.io/b, ignoredByScheduler: true}]
",
    );
    let written = write_config(&config).unwrap();
    let read = load(&written, &Gates::default()).unwrap().config;
    assert_eq!(write_config(&read), Ok(written.clone()));
    let names: Vec<&str> =
        read.profiles[0].plugin_config.iter().map(|entry| entry.name.as_str()).collect();
    assert!(names.is_sorted() && !names.contains(&"Mine") && !names.contains(&"VolumeBinding"));
    let fit = read.profiles[0].args_of("NodeResourcesFit").unwrap().to_value();
    assert_eq!(fit["ignoredResources"], json!(["a.io/b"]));
    let start = "apiVersion: kubescheduler.config.k8s.io/v1\nclientConnection:\n  \
                 acceptContentTypes: \"\"\n  burst: 100\n";
    assert!(written.starts_with(start), "{written}");
    assert!(written.contains("    bind: {}\n"), "{written}");
}

#[test]
fn extenders_are_ordered_and_replace_ignored_resources() {
    let config = configuration(
        "
podInitialBackoffSeconds: 2
extenders:
- {urlPrefix: a, ignorable: true, prioritizeVerb: p, weight: 3}
- {urlPrefix: b, bindVerb: b, managedResources: [{name: a.io/b}]}
",
    );
    let extenders = config.engine_extenders();
    let names: Vec<&str> = extenders.iter().map(|extender| &*extender.name).collect();
    assert_eq!(names, ["b", "a"]);
    assert!(extenders[0].bind && !extenders[0].prioritize && extenders[1].ignorable);
    assert_eq!(extenders[1].weight, 3);
    assert_eq!(config.queue().initial_backoff.as_secs(), 2);
    let config = configuration(
        "
profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]
extenders: [{managedResources: [{name: a.io/b, ignoredByScheduler: true}]}]
",
    );
    let error = config.build_profiles(&plugins::registry()).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
    );
}

#[test]
fn a_profile_is_shown_with_its_plugins_weights_and_arguments() {
    let config = configuration(
        "
profiles:
- schedulerName: a
  plugins:
    score: {enabled: [{name: NodeAffinity}]}
    placementScore: {enabled: [{name: NodeResourcesFit, weight: 7}]}
",
    );
    let built = config.build_profiles(&plugins::registry()).unwrap();
    let shown = &Expansion::of(&config, &built).profiles[0];
    let point = |name: &str| {
        let point = shown.extension_points.iter().find(|point| point.extension_point == name);
        let plugins = point.unwrap().plugins.iter();
        plugins.map(|own| (own.name.as_str(), own.weight)).collect::<Vec<_>>()
    };
    assert_eq!(point("score")[..2], [("NodeAffinity", Some(1)), ("TaintToleration", Some(3))]);
    assert_eq!(point("placementScore"), [("NodeResourcesFit", Some(7))]);
    assert_eq!(point("bind"), [("DefaultBinder", None)]);
    assert!(shown.not_built.is_empty(), "{:?}", shown.not_built);
    assert!(shown.arguments.iter().any(|own| own.name == "VolumeBinding"));
}

#[test]
fn default_preemption_makes_room_for_groups_with_its_gate_unless_it_is_disabled() {
    let plugins = |gates: &str, body: &str| {
        let gates = Gates::at(Level::V1_37).with_flags([gates]).unwrap();
        let config = load(&format!("{HEAD}{body}"), &gates).unwrap().config;
        let built = config.build_profiles(&plugins::registry()).unwrap();
        let profile = built.get("default-scheduler").unwrap().clone();
        profile.plugins_at(ExtensionPoint::PodGroupPostFilter).len()
    };
    let disabled =
        "profiles: [{plugins: {podGroupPostFilter: {disabled: [{name: DefaultPreemption}]}}}]";
    // DynamicResources frees claims there.
    assert_eq!(plugins("GenericWorkload=true", ""), 2);
    assert_eq!(plugins("GenericWorkload=true", disabled), 1);
    assert_eq!(plugins("GenericWorkload=false", ""), 0);
}

#[test]
fn unbuildable_profiles_are_rejected() {
    let build = |body: &str, registry: &Registry| {
        configuration(body).build_profiles(registry).map(|_| ()).unwrap_err().to_string()
    };
    let registry = plugins::registry();
    assert_eq!(
        build(
            "profiles: [{schedulerName: a, plugins: {filter: {enabled: [{name: X}]}}}]",
            &registry
        ),
        "initializing profiles: creating profile for scheduler name a: FilterPlugin \"X\" does not \
         exist"
    );
    assert_eq!(
        build("profiles: [{plugins: {placementScore: {enabled: [{name: NodeName}]}}}]", &registry),
        "initializing profiles: creating profile for scheduler name default-scheduler: plugin \
         \"NodeName\" does not extend PlacementScorePlugin plugin"
    );
}

/// The profile of the chart of scheduler-plugins, without and with CapacityScheduling.
#[test]
fn configuration_of_scheduler_plugins_is_read() {
    let mut registry = plugins::registry();
    scheduler_plugins::add_to(&mut registry);
    let text = include_str!("../../config/examples/scheduler-plugins.yaml");
    let config = load(text, &Gates::default()).unwrap().in_effect();
    let profiles = config.build_profiles(&registry).unwrap();
    let profile = profiles.get("scheduler-plugins-scheduler").unwrap();
    assert_eq!(&*profile.queue_sort[0].name, "Coscheduling");
    assert!(profile.score.iter().any(|own| &*own.name == "NodeResourcesAllocatable"));
    let warnings = config.unused_plugin_config(&profiles, &registry);
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(
        warning.starts_with("profiles[0]: Coscheduling: permitWaitingTimeSeconds has no effect: "),
        "{warning}"
    );
    let chart = text.replace("enabled:\n", "enabled:\n      - name: CapacityScheduling\n");
    let config = load(&chart, &Gates::default()).unwrap().in_effect();
    let profiles = config.build_profiles(&registry).unwrap();
    let profile = profiles.get("scheduler-plugins-scheduler").unwrap();
    let preempting: Vec<_> = profile.post_filter.iter().map(|own| &*own.name).collect();
    assert_eq!(preempting, ["DynamicResources", "CapacityScheduling", "Coscheduling"]);
    assert!(profile.pre_enqueue.iter().any(|own| &*own.name == "DefaultPreemption"));
}

/// Decoding, defaults, validation and expansion do a bounded amount of work per profile: twice the
/// profiles create twice the plugins. Only the queue sort is compared across profiles.
#[test]
fn work_grows_linearly_with_profiles() {
    let profile = |n: usize| {
        format!(
            "- schedulerName: s{n}\n  plugins:\n    score:\n      enabled: [{{name: ImageLocality, \
             weight: {n}}}]\n  pluginConfig:\n  - name: NodeResourcesFit\n    args: \
             {{scoringStrategy: {{type: MostAllocated}}}}\n"
        )
    };
    let body: String = (1..=50).map(profile).collect();
    let config = configuration(&format!("profiles:\n{body}"));
    let made = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut registry = Registry::new();
    let in_tree = plugins::registry();
    for name in in_tree.names() {
        let (factory, made) = (in_tree.get(name).unwrap().clone(), made.clone());
        let counting = move |args: &framework::PluginArgs| {
            made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            factory(args)
        };
        registry.register(name, counting).unwrap();
    }
    let built = config.build_profiles(&registry).unwrap();
    assert_eq!(made.load(std::sync::atomic::Ordering::Relaxed), 50 * 20);
    let weight =
        |name: &str| built.get(name).unwrap().weight_at(ExtensionPoint::Score, "ImageLocality");
    assert_eq!((weight("s1"), weight("s50")), (Some(1), Some(50)));
}

#[test]
fn feature_gates_reach_the_plugins() {
    for (flag, expected) in [("", [false, true]), ("VolumeLimitScaling=false", [false, false])] {
        let gates = Gates::parse([flag]).unwrap();
        assert_eq!(gates.check_built(), Ok(()));
        let given = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut registry = Registry::new();
        let in_tree = plugins::registry();
        for name in in_tree.names() {
            let (factory, given) = (in_tree.get(name).unwrap().clone(), given.clone());
            let noting = move |args: &framework::PluginArgs| {
                given.lock().unwrap().push(args.gates());
                factory(args)
            };
            registry.register(name, noting).unwrap();
        }
        defaults(&gates).build_profiles(&registry).unwrap();
        let given = given.lock().unwrap();
        let values =
            |own: &framework::PluginGates| [own.toleration_comparison, own.volume_limit_scaling];
        assert!(!given.is_empty() && given.iter().all(|own| values(own) == expected));
    }
}
