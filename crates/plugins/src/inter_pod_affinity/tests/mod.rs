//! Tests: worked examples of the rules, and both forms against an oracle on API objects.

mod agreement;
mod filtering;
mod hints;
mod oracle;
mod scoring;
mod worlds;

use framework::{Plugin, PluginArgs, api};
use serde_json::{Value, json};
use testkit::PodBuilder;

use super::*;

/// The topology key of zones.
const ZONE: &str = "topology.kubernetes.io/zone";
/// The topology key of single nodes.
const HOST: &str = "kubernetes.io/hostname";

fn plugin_with(args: Value) -> Plugin {
    plugin(&PluginArgs::new(args)).unwrap()
}

fn default_plugin() -> Plugin {
    plugin(&PluginArgs::default()).unwrap()
}

/// Returns a term that selects the pods with this label `app` in the same namespace.
fn on_app(app: &str, key: &str) -> api::PodAffinityTerm {
    term(json!({"matchLabels": {"app": app}}), key)
}

fn term(selector: Value, key: &str) -> api::PodAffinityTerm {
    serde_json::from_value(json!({"labelSelector": selector, "topologyKey": key})).unwrap()
}

/// Returns a term that does not parse.
fn malformed() -> api::PodAffinityTerm {
    term(json!({"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}), ZONE)
}

/// Restricts the term to these namespaces.
fn within(term: api::PodAffinityTerm, namespaces: &[&str]) -> api::PodAffinityTerm {
    let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
    api::PodAffinityTerm { namespaces, ..term }
}

/// Adds a namespace selector to the term.
fn selecting(term: api::PodAffinityTerm, selector: Value) -> api::PodAffinityTerm {
    let namespace_selector = Some(serde_json::from_value(selector).unwrap());
    api::PodAffinityTerm { namespace_selector, ..term }
}

/// Affinity terms in the pod builder.
trait Affine {
    /// Adds a required affinity term.
    fn near(self, term: api::PodAffinityTerm) -> Self;
    /// Adds a required anti-affinity term.
    fn apart(self, term: api::PodAffinityTerm) -> Self;
    /// Adds a preferred affinity term.
    fn rather_near(self, weight: i32, term: api::PodAffinityTerm) -> Self;
    /// Adds a preferred anti-affinity term.
    fn rather_apart(self, weight: i32, term: api::PodAffinityTerm) -> Self;
}

impl Affine for PodBuilder {
    fn near(self, term: api::PodAffinityTerm) -> Self {
        self.with(|pod| affinity_of(pod).required.push(term))
    }

    fn apart(self, term: api::PodAffinityTerm) -> Self {
        self.with(|pod| anti_affinity_of(pod).required.push(term))
    }

    fn rather_near(self, weight: i32, term: api::PodAffinityTerm) -> Self {
        self.with(|pod| affinity_of(pod).preferred.push(weighted(weight, term)))
    }

    fn rather_apart(self, weight: i32, term: api::PodAffinityTerm) -> Self {
        self.with(|pod| anti_affinity_of(pod).preferred.push(weighted(weight, term)))
    }
}

fn affinity_of(pod: &mut api::Pod) -> &mut api::PodAffinity {
    pod.spec.affinity.get_or_insert_default().pod_affinity.get_or_insert_default()
}

fn anti_affinity_of(pod: &mut api::Pod) -> &mut api::PodAffinity {
    pod.spec.affinity.get_or_insert_default().pod_anti_affinity.get_or_insert_default()
}

fn weighted(weight: i32, pod_affinity_term: api::PodAffinityTerm) -> api::WeightedPodAffinityTerm {
    api::WeightedPodAffinityTerm { weight, pod_affinity_term }
}

#[test]
fn arguments_are_decoded_strictly() {
    let made = |args| InterPodAffinity::new(&PluginArgs::new(args));
    let default = InterPodAffinity::new(&PluginArgs::default()).unwrap();
    assert_eq!(default.hard_pod_affinity_weight, 1);
    assert!(!default.ignore_preferred_terms_of_existing_pods);
    let given = json!({"hardPodAffinityWeight": 100, "ignorePreferredTermsOfExistingPods": true});
    let given = made(given).unwrap();
    assert_eq!(given.hard_pod_affinity_weight, 100);
    assert!(given.ignore_preferred_terms_of_existing_pods);
    for (args, expected) in [
        (
            json!({"hardPodAffinityWeight": 101}),
            "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            json!({"hardPodAffinityWeight": -1}),
            "hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]",
        ),
        (json!({"hardPodAffinityWeigth": 1}), "unknown field `hardPodAffinityWeigth`"),
        (json!({"hardPodAffinityWeight": "1"}), "invalid type: string \"1\", expected i32"),
    ] {
        let error = made(args).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}
