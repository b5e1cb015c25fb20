use framework::{Attempt, AttemptMut, Cluster, Code, CycleState, EventObjects, Node};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{NodeBuilder, PodBuilder, cluster, handle, node, pod};

use super::*;
use crate::arbitrary::{self, history};
use crate::forms;

fn term(expressions: Value, fields: Value) -> Value {
    json!({"matchExpressions": expressions, "matchFields": fields})
}

fn on_label(key: &str, operator: &str, values: &[&str]) -> Value {
    term(json!([{"key": key, "operator": operator, "values": values}]), json!([]))
}

fn on_name(operator: &str, values: &[&str]) -> Value {
    term(json!([]), json!([{"key": "metadata.name", "operator": operator, "values": values}]))
}

fn requiring(terms: &[Value]) -> PodBuilder {
    let selector = serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
    with_affinity(api::NodeAffinity { required: Some(selector), preferred: None })
}

fn preferring(terms: &[(i32, Value)]) -> PodBuilder {
    let terms = terms.iter().map(|(weight, preference)| {
        serde_json::from_value(json!({"weight": weight, "preference": preference})).unwrap()
    });
    with_affinity(api::NodeAffinity { required: None, preferred: Some(terms.collect()) })
}

fn with_affinity(node_affinity: api::NodeAffinity) -> PodBuilder {
    pod("p").with(|api| {
        api.spec.affinity =
            Some(api::Affinity { node_affinity: Some(node_affinity), ..api::Affinity::default() });
    })
}

fn added(added: Value) -> NodeAffinity {
    NodeAffinity::new(&PluginArgs::new(json!({"addedAffinity": added}))).unwrap()
}

fn added_zone(zone: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [on_label("zone", "In", &[zone])]}})
}

fn filter(plugin: &NodeAffinity, pod: PodBuilder, node: NodeBuilder) -> Status {
    let cluster = cluster([node.build()], []);
    let view = cluster.node(cluster.nodes().iter().next().unwrap());
    plugin.filter(&Attempt::new(&CycleState::new(), &pod.build(), &handle(view.cluster())), &view)
}

#[test]
fn node_selector_and_some_affinity_term_must_match() {
    let zone_a = || node("n1").label("zone", "a").label("generation", "5");
    for (pod, expected) in [
        (pod("p"), true),
        (pod("p").node_selector("zone", "a"), true),
        (pod("p").node_selector("zone", "b"), false),
        (requiring(&[on_label("zone", "In", &["a"])]).node_selector("zone", "b"), false),
        (requiring(&[on_label("disk", "NotIn", &["ssd"])]), true),
        (requiring(&[on_label("zone", "Gt", &["4"])]), false),
        (requiring(&[on_label("generation", "Gt", &["4"])]), true),
        (requiring(&[on_name("In", &["n1"])]), true),
        (requiring(&[on_name("In", &["n1", "n1"])]), false),
        (requiring(&[on_name("NotIn", &["n1"]), on_label("zone", "Exists", &[])]), true),
        (requiring(&[on_label("zone", "Bogus", &[]), on_label("zone", "Exists", &[])]), true),
        (requiring(&[on_label("zone", "Bogus", &[])]), false),
        (requiring(&[]), false),
        (requiring(&[term(json!([]), json!([]))]), false),
    ] {
        let status = filter(&NodeAffinity::default(), pod.clone(), zone_a());
        let verdict = if expected { Status::success() } else { Status::unresolvable(REASON_POD) };
        assert_eq!(status, verdict, "{pod:?}");
    }
}

#[test]
fn fields_and_expressions_of_one_term_must_both_match() {
    let zone = json!([{"key": "zone", "operator": "In", "values": ["a"]}]);
    let other = json!([{"key": "metadata.name", "operator": "In", "values": ["n2"]}]);
    let zone_a = || node("n1").label("zone", "a");
    let together = requiring(&[term(zone.clone(), other.clone())]);
    assert!(!filter(&NodeAffinity::default(), together, zone_a()).is_success());
    let apart = requiring(&[term(zone, json!([])), term(json!([]), other)]);
    assert!(filter(&NodeAffinity::default(), apart, zone_a()).is_success());
}

#[test]
fn added_affinity_is_checked_first_with_its_own_reason() {
    let plugin = added(added_zone("a"));
    let wanting = || pod("p").node_selector("disk", "ssd");
    let status = filter(&plugin, wanting(), node("n").label("zone", "b"));
    assert_eq!(status, Status::unresolvable(REASON_ADDED));
    let status = filter(&plugin, wanting(), node("n").label("zone", "a"));
    assert_eq!(status, Status::unresolvable(REASON_POD));
    assert!(filter(&plugin, pod("p"), node("n").label("zone", "a")).is_success());
}

#[test]
fn pre_filter_narrows_to_node_names_or_skips() {
    let pre_filter = |plugin: &NodeAffinity, pod: PodBuilder| {
        let mut state = CycleState::new();
        plugin.pre_filter(AttemptMut::new(&mut state, &pod.build(), &handle(&Cluster::default())))
    };
    let plain = NodeAffinity::default();
    let anywhere = PreFilterResult::default();
    let names = |names: &[&str]| PreFilterResult {
        node_names: Some(names.iter().map(|name| (*name).into()).collect()),
    };
    let disk = on_label("disk", "Exists", &[]);
    let contradiction = term(
        json!([]),
        json!([{"key": "metadata.name", "operator": "In", "values": ["a"]},
            {"key": "metadata.name", "operator": "In", "values": ["b"]}]),
    );
    assert_eq!(pre_filter(&plain, pod("p")), Err(Status::skip()));
    assert_eq!(pre_filter(&plain, preferring(&[(1, disk.clone())])), Err(Status::skip()));
    assert_eq!(pre_filter(&added(added_zone("a")), pod("p")), Ok(anywhere.clone()));
    let empty_selector = pod("p").with(|api| api.spec.node_selector = Some([].into()));
    assert_eq!(pre_filter(&plain, empty_selector), Ok(anywhere.clone()));
    for (terms, expected) in [
        (vec![on_name("In", &["a", "b"])], Ok(names(&["a", "b"]))),
        (vec![on_name("In", &["b"]), on_name("In", &["a"])], Ok(names(&["a", "b"]))),
        (vec![on_name("In", &["a"]), disk], Ok(anywhere.clone())),
        (vec![on_name("NotIn", &["a"])], Ok(anywhere)),
        (vec![contradiction.clone(), on_name("In", &["a"])], Ok(names(&["a"]))),
        (vec![contradiction], Err(Status::unresolvable(REASON_CONFLICT))),
    ] {
        assert_eq!(pre_filter(&plain, requiring(&terms)), expected, "{terms:?}");
    }
}

#[test]
fn weights_of_matching_preferences_add_up() {
    let added = added(json!({"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 7, "preference": on_label("zone", "In", &["a"])}]}));
    let score = |plugin: &NodeAffinity, pod: PodBuilder| {
        let cluster = cluster([node("n").label("zone", "a").build()], []);
        let (pod, mut state) = (pod.build(), CycleState::new());
        let status = plugin.pre_score(AttemptMut::new(&mut state, &pod, &handle(&cluster)), &[]);
        let view = cluster.node(cluster.node_named("n").unwrap());
        (
            status.code(),
            plugin.score(&Attempt::new(&state, &pod, &handle(view.cluster())), &view).ok(),
        )
    };
    let plain = NodeAffinity::default();
    let zone = on_label("zone", "Exists", &[]);
    let broken = on_label("zone", "Bogus", &[]);
    let own =
        preferring(&[(2, zone.clone()), (1, on_label("zone", "In", &["a"])), (0, broken.clone())]);
    assert_eq!(score(&plain, pod("p")), (Code::Skip, Some(0)));
    assert_eq!(score(&plain, preferring(&[])), (Code::Success, Some(0)));
    assert_eq!(score(&plain, own.clone()), (Code::Success, Some(3)));
    assert_eq!(score(&added, pod("p")), (Code::Success, Some(7)));
    assert_eq!(score(&added, own), (Code::Success, Some(10)));
    assert_eq!(score(&plain, preferring(&[(2, zone), (1, broken)])), (Code::Error, None));
}

#[test]
fn arguments_are_decoded_strictly() {
    let error = |args| NodeAffinity::new(&PluginArgs::new(args)).unwrap_err();
    let text = error(json!({"addedAffinty": {}}));
    assert!(text.contains("unknown field `addedAffinty`"), "{text}");
    let text = error(json!({"addedAffinity": {"required": {}}}));
    assert_eq!(text, "unknown field \"addedAffinity.required\"");
    let terms = json!([{"matchExpression": []}]);
    let required = json!({"nodeSelectorTerms": terms});
    let text = error(
        json!({"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}),
    );
    let path = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
    assert_eq!(text, format!("unknown field \"{path}.matchExpression\""));
    let required = json!({"nodeSelectorTerms": [on_label("foo", "Bogus", &[])]});
    let text = error(
        json!({"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}),
    );
    let expected = format!("{path}.matchExpressions[0].operator: Unsupported value: \"Bogus\"");
    assert!(text.starts_with(&expected), "{text}");
    let preferred = json!([{"weight": 1, "preference": on_label("foo", "Gt", &["x"])}]);
    let text = error(
        json!({"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}),
    );
    assert!(text.starts_with("addedAffinity.preferredDuring"), "{text}");
}

#[test]
fn node_that_starts_to_match_requeues() {
    let hint = |args: &Value, pod: &PodBuilder, old: Option<&Node>, new: &Node| {
        let plugin = plugin(&PluginArgs::new(args.clone())).unwrap();
        let objects = EventObjects::Node { old, new: Some(new) };
        let (resource, action) = (EventResource::Node, ActionType::UPDATE_NODE_LABEL);
        forms::hint(&plugin, &pod.clone().build(), resource, action, objects)
    };
    let (a, b) = (node("n").label("zone", "a").build(), node("n").label("zone", "b").build());
    let wants_a = pod("p").node_selector("zone", "a");
    let broken = requiring(&[on_label("zone", "Bogus", &[])]);
    let (none, only_a) = (json!({}), json!({"addedAffinity": added_zone("a")}));
    for (args, pod, old, new, expected) in [
        (&none, &wants_a, None, &a, QueueingHint::Queue),
        (&none, &wants_a, None, &b, QueueingHint::Skip),
        (&none, &wants_a, Some(&b), &a, QueueingHint::Queue),
        (&none, &wants_a, Some(&a), &a, QueueingHint::Skip),
        (&none, &wants_a, Some(&a), &b, QueueingHint::Skip),
        (&none, &broken, Some(&a), &b, QueueingHint::Queue),
        (&only_a, &pod("p"), None, &b, QueueingHint::Skip),
        (&only_a, &pod("p"), Some(&a), &a, QueueingHint::Skip),
        // kube-scheduler returns QueueSkip here and loses the wake-up.
        (&only_a, &pod("p"), Some(&b), &a, QueueingHint::Queue),
    ] {
        assert_eq!(hint(args, pod, old, new), expected, "{pod:?} {old:?} {new:?}");
    }
}

/// Whether the requirement holds for a label or field with this value; `None` if it is malformed.
fn holds(raw: &api::SelectorRequirement, value: Option<&str>) -> Option<bool> {
    let valid = |value: &String| value.bytes().all(|b| b.is_ascii_alphanumeric());
    if !raw.values.iter().all(valid) {
        return None;
    }
    let listed = value.is_some_and(|value| raw.values.iter().any(|own| own == value));
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = match &raw.values[..] {
        [one] => number(one),
        _ => None,
    };
    let own = value.and_then(number);
    match (raw.operator.as_str(), raw.values.is_empty()) {
        ("In", false) => Some(listed),
        ("NotIn", false) => Some(!listed),
        ("Exists", true) => Some(value.is_some()),
        ("DoesNotExist", true) => Some(value.is_none()),
        ("Gt", false) => bound.map(|bound| own.is_some_and(|own| own > bound)),
        ("Lt", false) => bound.map(|bound| own.is_some_and(|own| own < bound)),
        _ => None,
    }
}

fn field_holds(raw: &api::SelectorRequirement, node: &api::Node) -> Option<bool> {
    let field = if raw.key == "metadata.name" { &*node.metadata.name } else { "" };
    match (raw.operator.as_str(), &raw.values[..]) {
        ("In", [value]) => Some(field == value),
        ("NotIn", [value]) => Some(field != value),
        _ => None,
    }
}

/// Whether the term matches; `None` if it is malformed.
fn term_matches(term: &api::NodeSelectorTerm, node: &api::Node) -> Option<bool> {
    let label = |key: &str| node.metadata.labels.get(key).map(String::as_str);
    let expressions = term.match_expressions.iter().map(|raw| holds(raw, label(&raw.key)));
    let fields = term.match_fields.iter().map(|raw| field_holds(raw, node));
    let all = expressions.chain(fields).collect::<Option<Vec<_>>>()?;
    Some(!all.is_empty() && all.into_iter().all(|holds| holds))
}

fn selector_matches(selector: &api::NodeSelector, node: &api::Node) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, node) == Some(true))
}

fn affinity_of(pod: &api::Pod) -> api::NodeAffinity {
    let affinity = pod.spec.affinity.clone().and_then(|affinity| affinity.node_affinity);
    affinity.unwrap_or_default()
}

fn verdict(added: Option<&api::NodeSelector>, pod: &api::Pod, node: &api::Node) -> Status {
    if added.is_some_and(|added| !selector_matches(added, node)) {
        return Status::unresolvable("node(s) didn't match scheduler-enforced node affinity");
    }
    let selector = pod.spec.node_selector.iter().flatten();
    let labelled =
        selector.into_iter().all(|pair| node.metadata.labels.iter().any(|own| own == pair));
    let required = affinity_of(pod).required;
    if !labelled || required.is_some_and(|required| !selector_matches(&required, node)) {
        return Status::unresolvable("node(s) didn't match Pod's node affinity/selector");
    }
    Status::success()
}

fn worth(terms: Option<&Vec<api::PreferredSchedulingTerm>>, node: &api::Node) -> i64 {
    let matching = terms.into_iter().flatten().filter(|weighted| {
        weighted.weight != 0 && term_matches(&weighted.preference, node) == Some(true)
    });
    matching.map(|weighted| i64::from(weighted.weight)).sum()
}

fn is_valid(terms: Option<&Vec<api::PreferredSchedulingTerm>>) -> bool {
    let mut terms = terms.into_iter().flatten();
    terms.all(|weighted| {
        let preference = &weighted.preference;
        weighted.weight == 0 || term_matches(preference, &api::Node::default()).is_some()
    })
}

/// Returns the affinity without malformed terms, as `addedAffinity` requires.
fn strict(affinity: &api::NodeAffinity) -> api::NodeAffinity {
    let mut affinity = affinity.clone();
    let parses = |term: &api::NodeSelectorTerm| term_matches(term, &api::Node::default()).is_some();
    if let Some(required) = &mut affinity.required {
        required.node_selector_terms.retain(parses);
    }
    if let Some(preferred) = &mut affinity.preferred {
        preferred.retain(|weighted| parses(&weighted.preference));
    }
    affinity
}

fn plugin_adding(affinity: Option<&api::NodeAffinity>) -> Plugin {
    plugin(&PluginArgs::new(json!({"addedAffinity": affinity}))).unwrap()
}

proptest! {
    #![proptest_config(forms::config())]

    #[test]
    fn filter_forms_agree(
        history in history(),
        pod in arbitrary::pod(),
        added in prop::option::weighted(0.3, arbitrary::node_affinity()),
        choice: u64,
    ) {
        let added = added.as_ref().map(strict);
        let required = added.as_ref().and_then(|added| added.required.as_ref());
        let plugin = plugin_adding(added.as_ref());
        forms::check_filter(&plugin, &history.replay(), &pod, choice, |node| {
            verdict(required, &pod, node)
        });
    }

    #[test]
    fn score_forms_agree(
        history in history(),
        pod in arbitrary::pod(),
        added in prop::option::weighted(0.3, arbitrary::node_affinity()),
        choice: u64,
    ) {
        let added = added.as_ref().map(strict);
        let own = affinity_of(&pod).preferred;
        prop_assume!(is_valid(own.as_ref()));
        let extra = added.as_ref().and_then(|added| added.preferred.as_ref());
        let plugin = plugin_adding(added.as_ref());
        forms::check_score(&plugin, &history.replay(), &pod, choice, |node| {
            worth(own.as_ref(), node) + worth(extra, node)
        });
    }
}
