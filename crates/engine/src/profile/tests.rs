//! Tables of configurations and the profiles that they expand to.

use std::sync::atomic::{AtomicU32, Ordering};

use framework::{
    Attempt, AttemptMut, Bind, BindStep, Dependence, Filter, GroupPlacements, Handle, NodeView,
    PlacedGroup, PlacementGenerate, PlacementScore, Plugin, PodGroupKey, PreFilter,
    PreFilterResult, QueueSort, QueuedEntity, Score, ScoreScope, Status,
};
use serde_json::{Value, json};

use super::*;

/// Implements every point the tests use; which of them a plugin extends is up to its builder.
struct Fake;

impl QueueSort for Fake {
    fn less(&self, _: &QueuedEntity, _: &QueuedEntity, _: &Handle<'_>) -> bool {
        false
    }
}

impl PreFilter for Fake {
    fn pre_filter(&self, _: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        Ok(PreFilterResult::default())
    }
}

impl Filter for Fake {
    fn filter(&self, _: &Attempt<'_>, _: &NodeView<'_>) -> Status {
        Status::success()
    }
}

impl Score for Fake {
    fn score(&self, _: &Attempt<'_>, _: &NodeView<'_>) -> Result<i64, Status> {
        Ok(0)
    }
}

impl PlacementGenerate for Fake {
    fn placement_generate(
        &self,
        _: &PodGroupKey,
        _: &Handle<'_>,
    ) -> Result<GroupPlacements, Status> {
        Ok(GroupPlacements::Anywhere)
    }
}

impl PlacementScore for Fake {
    fn placement_score(&self, _: PlacedGroup<'_>, _: &Handle<'_>) -> Result<i64, Status> {
        Ok(0)
    }
}

impl Bind for Fake {
    fn bind(&self, _: &Attempt<'_>, _: &str) -> BindStep {
        BindStep::Skip
    }
}

fn plugins() -> [Plugin; 8] {
    let node = |action| ClusterEvent::new(EventResource::Node, action);
    [
        Plugin::new("Sort", Fake).queue_sort().build(),
        Plugin::new("OtherSort", Fake).queue_sort().build(),
        Plugin::new("Name", Fake).filter().no_events().build(),
        Plugin::new("Taints", Fake).filter().score().on(node(ActionType::ADD)).build(),
        Plugin::new("Affinity", Fake).pre_filter().filter().score().build(),
        Plugin::new("Ports", Fake).pre_filter().filter().on(node(ActionType::DELETE)).build(),
        Plugin::new("Images", Fake).score().on(node(ActionType::ADD)).build(),
        Plugin::new("Binder", Fake).bind().build(),
    ]
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    for plugin in plugins() {
        let name = plugin.name.clone();
        registry
            .register(&name, move |args| match args.decode::<Value>()? {
                Value::Null => Ok(plugin.clone()),
                args => Err(format!("cannot use {args}")),
            })
            .unwrap();
    }
    registry
}

fn defaults() -> Vec<PluginRef> {
    let weights = [("Sort", 0), ("Name", 0), ("Taints", 3), ("Affinity", 2), ("Ports", 0)];
    let more = [("Images", 1), ("Binder", 0)];
    weights.into_iter().chain(more).map(|(name, weight)| PluginRef::new(name, weight)).collect()
}

fn config(mut profile: Value) -> SchedulerProfile {
    let fields = profile.as_object_mut().unwrap();
    fields.entry("schedulerName").or_insert_with(|| "a".into());
    serde_json::from_value(profile).unwrap()
}

fn build(plugins: Value) -> Result<Profile, ProfileError> {
    Profile::build(&config(json!({ "plugins": plugins })), &defaults(), &registry())
}

/// An entry of `Images` that counts its scores against it.
fn negative() -> Value {
    json!([{"name": "Images", "weight": -1}])
}

fn enable(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "name": name })).collect()
}

fn filters(profile: &Profile) -> Vec<&str> {
    profile.filter.iter().map(|plugin| &*plugin.name).collect()
}

fn scores(profile: &Profile) -> Vec<(&str, i64)> {
    profile.score.iter().map(|plugin| (&*plugin.name, plugin.weight)).collect()
}

#[test]
fn defaults_run_in_their_order_with_their_weights() {
    let profile = build(json!({})).unwrap();
    assert_eq!(filters(&profile), ["Name", "Taints", "Affinity", "Ports"]);
    assert_eq!(scores(&profile), [("Taints", 3), ("Affinity", 2), ("Images", 1)]);
    let pre_filters: Vec<_> = profile.pre_filter.iter().map(|plugin| &*plugin.name).collect();
    assert_eq!(pre_filters, ["Affinity", "Ports"]);
    assert_eq!((&*profile.queue_sort[0].name, &*profile.bind[0].name), ("Sort", "Binder"));
    assert!(profile.post_filter.is_empty() && profile.permit.is_empty());
}

#[test]
fn filters_are_expanded_point_by_point() {
    let rows: [(Value, &[&str]); 9] = [
        (
            json!({"filter": {"enabled": enable(&["Ports", "Name"])}}),
            &["Ports", "Name", "Taints", "Affinity"],
        ),
        (
            json!({"filter": {"enabled": enable(&["Ports"]), "disabled": enable(&["Taints"])}}),
            &["Ports", "Name", "Affinity"],
        ),
        (json!({"filter": {"disabled": enable(&["*"])}}), &[]),
        (
            json!({"filter": {"disabled": enable(&["*"]), "enabled": enable(&["Ports", "Name"])}}),
            &["Ports", "Name"],
        ),
        (json!({"multiPoint": {"disabled": enable(&["Name"])}}), &["Taints", "Affinity", "Ports"]),
        (
            json!({
                "multiPoint": {"disabled": enable(&["Name"])},
                "filter": {"enabled": enable(&["Name"])},
            }),
            &["Taints", "Affinity", "Ports", "Name"],
        ),
        (
            json!({
                "multiPoint": {"disabled": enable(&["Name", "Ports"])},
                "filter": {"enabled": enable(&["Name", "Affinity", "Ports"])},
            }),
            &["Affinity", "Taints", "Name", "Ports"],
        ),
        (
            json!({"multiPoint": {
                "disabled": enable(&["*"]),
                "enabled": enable(&["Ports", "Sort", "Binder", "Name"]),
            }}),
            &["Ports", "Name"],
        ),
        (
            json!({"multiPoint": {"enabled": enable(&["Ports"]), "disabled": enable(&["Nobody"])}}),
            &["Name", "Taints", "Affinity", "Ports"],
        ),
    ];
    for (plugins, expected) in rows {
        let profile = build(plugins.clone()).unwrap();
        assert_eq!(filters(&profile), expected, "{plugins}");
    }
}

#[test]
fn weight_of_the_extension_point_wins_over_multi_point() {
    let weighted = |name: &str, weight: i32| json!([{"name": name, "weight": weight}]);
    let rows: [(Value, &[(&str, i64)]); 5] = [
        (
            json!({"score": {"enabled": weighted("Affinity", 9)}}),
            &[("Affinity", 9), ("Taints", 3), ("Images", 1)],
        ),
        (
            json!({"score": {"enabled": enable(&["Affinity"])}}),
            &[("Affinity", 1), ("Taints", 3), ("Images", 1)],
        ),
        (
            json!({"multiPoint": {"enabled": weighted("Taints", 7)}}),
            &[("Taints", 7), ("Affinity", 2), ("Images", 1)],
        ),
        (
            json!({"multiPoint": {"enabled": enable(&["Taints"])}}),
            &[("Taints", 1), ("Affinity", 2), ("Images", 1)],
        ),
        (json!({"score": {"disabled": enable(&["Taints", "Images"])}}), &[("Affinity", 2)]),
    ];
    for (plugins, expected) in rows {
        let profile = build(plugins.clone()).unwrap();
        assert_eq!(scores(&profile), expected, "{plugins}");
    }
}

#[test]
fn invalid_profiles_are_refused_with_the_texts_of_kubernetes() {
    let rows = [
        (json!({"filter": {"enabled": enable(&["Nope"])}}), "FilterPlugin \"Nope\" does not exist"),
        (
            json!({"multiPoint": {"enabled": enable(&["Nope"])}}),
            "PreFilterPlugin \"Nope\" does not exist",
        ),
        (
            json!({
                "multiPoint": {"enabled": enable(&["Nope"])},
                "preFilter": {"disabled": enable(&["*"])},
            }),
            "FilterPlugin \"Nope\" does not exist",
        ),
        (
            json!({
                "multiPoint": {"enabled": enable(&["Nope"])},
                "bind": {"enabled": enable(&["Nobody"])},
            }),
            "BindPlugin \"Nobody\" does not exist",
        ),
        (
            json!({"score": {"enabled": enable(&["Ports"])}}),
            "plugin \"Ports\" does not extend ScorePlugin plugin",
        ),
        (
            json!({"filter": {"enabled": enable(&["Ports", "Ports"])}}),
            "plugin \"Ports\" already registered as \"FilterPlugin\"",
        ),
        (
            json!({"multiPoint": {"enabled": enable(&["Images", "Images"])}}),
            "plugin \"Images\" already registered as \"ScorePlugin\"",
        ),
        (
            json!({"queueSort": {"disabled": enable(&["*"])}}),
            "only one queue sort plugin required for profile with scheduler name \"a\", but got 0",
        ),
        (
            json!({"queueSort": {"enabled": enable(&["OtherSort"])}}),
            "only one queue sort plugin required for profile with scheduler name \"a\", but got 2",
        ),
        (
            json!({"bind": {"disabled": enable(&["Binder"])}}),
            "at least one bind plugin is needed for profile with scheduler name \"a\"",
        ),
        (
            json!({"score": {"enabled": negative()}}),
            "score plugins: total score of Score plugins could overflow",
        ),
    ];
    for (plugins, expected) in rows {
        let error = build(plugins.clone()).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{plugins}");
    }
}

#[test]
fn only_the_last_score_plugin_may_have_a_negative_weight() {
    let profile = build(json!({"multiPoint": {"enabled": negative()}})).unwrap();
    assert_eq!(scores(&profile), [("Taints", 3), ("Affinity", 2), ("Images", -1)]);
    let disabled_elsewhere = json!({
        "score": {"disabled": enable(&["*"]), "enabled": negative()},
    });
    let error = build(disabled_elsewhere).map(|_| ()).unwrap_err();
    assert_eq!(error, ProfileError::WeightOverflow("score"));
}

#[test]
fn last_of_two_entries_replaces_the_default() {
    let user = PluginSet {
        enabled: vec![PluginRef::new("Taints", 5), PluginRef::new("Taints", 7)],
        disabled: vec![PluginRef::new("Ports", 9)],
    };
    let merged = merge_defaults(&defaults(), &user);
    let weights: Vec<_> = merged.enabled.iter().map(|own| (&*own.name, own.weight)).collect();
    let expected =
        [("Sort", 0), ("Name", 0), ("Taints", 7), ("Affinity", 2), ("Images", 1), ("Binder", 0)];
    assert_eq!(weights[..6], expected);
    assert_eq!(weights[6], ("Taints", 5));
    assert_eq!(merged.disabled, [PluginRef::new("Ports", 0)]);
}

#[test]
fn points_of_pod_groups_are_expanded_by_name() {
    let mut registry = registry();
    let generator = || Plugin::new("Generator", Fake).no_events().placement_generate();
    registry.register("Generator", move |_| Ok(generator().build())).unwrap();
    let other = || Plugin::new("Other", Fake).no_events().placement_generate().placement_score();
    registry.register("Other", move |_| Ok(other().build())).unwrap();
    let build = |plugins: Value| {
        Profile::build(&config(json!({ "plugins": plugins })), &defaults(), &registry)
    };
    let weighted = json!([{"name": "Other", "weight": 4}]);
    let profile = build(json!({"multiPoint": {"enabled": weighted}})).unwrap();
    assert_eq!(profile.plugins_at(ExtensionPoint::PlacementScore), [PluginName::from("Other")]);
    assert_eq!(profile.weight_at(ExtensionPoint::PlacementScore, "Other"), Some(4));
    assert_eq!(profile.weight_at(ExtensionPoint::PlacementGenerate, "Other"), None);
    let rows = [
        (
            json!({"multiPoint": {"enabled": enable(&["Generator", "Other"])}}),
            "at most one placement generate plugin is allowed for profile with scheduler name \"a\"",
        ),
        (
            json!({"placementScore": {"enabled": enable(&["Generator"])}}),
            "plugin \"Generator\" does not extend PlacementScorePlugin plugin",
        ),
        (
            json!({"placementGenerate": {"enabled": enable(&["Nope"])}}),
            "PlacementGeneratePlugin \"Nope\" does not exist",
        ),
    ];
    for (plugins, expected) in rows {
        assert_eq!(build(plugins).map(|_| ()).unwrap_err().to_string(), expected);
    }
}

#[test]
fn arguments_reach_their_plugin() {
    let build = |plugin_config| {
        let config = config(json!({ "pluginConfig": plugin_config }));
        Profile::build(&config, &defaults(), &registry()).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(build(json!([{"name": "Ports"}, {"name": "NotEnabled", "args": 1}])), Ok(()));
    let refused = build(json!([{"name": "Ports", "args": {"kind": "PortsArgs", "x": 1}}]));
    assert_eq!(refused.unwrap_err(), "initializing plugin \"Ports\": cannot use {\"x\":1}");
    let twice = build(json!([{"name": "Ports"}, {"name": "Ports"}]));
    assert_eq!(twice.unwrap_err(), "repeated config for plugin Ports");
}

#[test]
fn several_profiles_are_independent() {
    let build = |profiles: &[Value]| {
        let configs: Vec<_> = profiles.iter().cloned().map(config).collect();
        Profiles::build(&configs, &defaults(), &registry(), false)
    };
    let named = |name: &str| json!({ "schedulerName": name });
    let profiles = build(&[named("b"), named("a")]).unwrap();
    let names: Vec<_> = profiles.iter().map(|profile| &*profile.scheduler_name).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(profiles.get("a").is_some() && profiles.get("c").is_none());
    assert_eq!(&*profiles.queue_sort().name, "Sort");

    let sorted_otherwise = json!({
        "schedulerName": "b",
        "plugins": {"queueSort": {"disabled": enable(&["*"]), "enabled": enable(&["OtherSort"])}},
    });
    let broken = json!({"plugins": {"bind": {"disabled": enable(&["*"])}}});
    let rows = [
        (vec![], "at least one profile is required"),
        (vec![named("a"), named("a")], "duplicate profile with scheduler name \"a\""),
        (
            vec![named("a"), sorted_otherwise],
            "different queue sort plugins for profile \"b\": \"OtherSort\", first: \"Sort\"",
        ),
        (
            vec![broken],
            "creating profile for scheduler name a: at least one bind plugin is needed for profile \
             with scheduler name \"a\"",
        ),
    ];
    for (profiles, expected) in rows {
        assert_eq!(build(&profiles).map(|_| ()).unwrap_err().to_string(), expected);
    }
}

#[test]
fn plugins_are_shared_within_a_scheduler_only() {
    let mut registry = registry();
    let made_at_most_twice =
        |_: &PluginArgs, made: &Arc<AtomicU32>| match made.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Ok(Plugin::new("Shared", Fake).filter().no_events().build()),
            _ => Err("made before".to_owned()),
        };
    registry.register_shared("Shared", made_at_most_twice).unwrap();
    let profile = |name: &str| {
        let shared = json!({ "filter": { "enabled": enable(&["Shared"]) } });
        config(json!({ "schedulerName": name, "plugins": shared }))
    };
    let build = |names: &[&str]| {
        let profiles: Vec<_> = names.iter().map(|name| profile(name)).collect();
        Profiles::build(&profiles, &defaults(), &registry, false).map(|_| ())
    };
    assert_eq!(build(&["a", "b"]), Ok(()));
    assert_eq!(build(&["c", "d"]), Ok(()));
    let error = build(&["e", "f", "g"]).unwrap_err().to_string();
    assert!(error.ends_with("made before"), "{error}");
}

/// Returns the events that a plugin of a profile registered, by name.
fn heard(profile: &Profile, plugin: &str) -> Vec<String> {
    let own = profile.events.iter().filter(|(name, _)| **name == *plugin);
    own.map(|(_, registered)| registered.event.to_string()).collect()
}

#[test]
fn plugins_that_do_not_say_what_they_depend_on_are_named() {
    let plugins = json!({"score": {"enabled": enable(&["Said"])}});
    let mut registry = registry();
    registry.register("Said", |_: &_| Ok(Plugin::new("Said", Said).score().build())).unwrap();
    let profile = config(json!({"plugins": plugins}));
    let profile = Profile::build(&profile, &defaults(), &registry).unwrap();
    let silent = profile.silent_plugins();
    assert!(silent.contains("Images") && silent.contains("Taints"), "{silent:?}");
    assert!(!silent.contains("Said") && !silent.contains("Binder"), "{silent:?}");
}

/// Scores nodes by themselves, and says so.
struct Said;

impl Score for Said {
    fn score(&self, _: &Attempt<'_>, _: &NodeView<'_>) -> Result<i64, Status> {
        Ok(0)
    }

    fn dependence(&self, _: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(Dependence::on(ScoreScope::Node))
    }
}

#[test]
fn plugins_that_can_reject_register_events() {
    let profile = build(json!({})).unwrap();
    let rows: [(&str, &[&str]); 5] = [
        ("Name", &[]),
        ("Taints", &["NodeAdd", "NodeUpdateNodeTaint"]),
        ("Ports", &["NodeDelete"]),
        ("Images", &[]),
        ("Sort", &[]),
    ];
    for (plugin, expected) in rows {
        assert_eq!(heard(&profile, plugin), expected, "{plugin}");
    }
    let undeclared = heard(&profile, "Affinity");
    assert_eq!(undeclared.len(), 10);
    assert!(undeclared.contains(&"PodAll".to_owned()), "{undeclared:?}");
    let watching = Plugin::new("Affinity", Fake).filter().watch("racks.v1.example.com").build();
    assert!(events_of(&watching).iter().any(|registered| {
        registered.event.to_string() == "racks.v1.example.comAll" && registered.hint.is_none()
    }));

    let with_extenders =
        Profiles::build(&[config(json!({}))], &defaults(), &registry(), true).unwrap();
    let claim = ClusterEvent::new(EventResource::ResourceClaim, ActionType::UPDATE);
    let attachment = ClusterEvent::new(EventResource::VolumeAttachment, ActionType::DELETE);
    assert_eq!(heard(with_extenders.get("a").unwrap(), EXTENDER).len(), 10);
    assert!(with_extenders.any_registered(&claim));
    assert!(!with_extenders.any_registered(&attachment));
}
