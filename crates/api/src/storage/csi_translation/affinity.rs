//! The node affinity of volumes whose driver has its own zone label.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::zones_of;
use crate::storage::PersistentVolume;
use crate::{NodeSelector, api};

/// The labels of zone and region of one generation (GA or beta).
#[derive(Debug, Clone, Copy)]
struct TopologyLabels {
    zone: &'static str,
    region: &'static str,
}

const GA: TopologyLabels =
    TopologyLabels { zone: "topology.kubernetes.io/zone", region: "topology.kubernetes.io/region" };
const BETA: TopologyLabels = TopologyLabels {
    zone: "failure-domain.beta.kubernetes.io/zone",
    region: "failure-domain.beta.kubernetes.io/region",
};

/// Returns the nodes on which a driver with this zone label can use the volume; `None` for all
/// nodes.
pub(super) fn translated(volume: &PersistentVolume, zone_key: &str) -> Option<Arc<NodeSelector>> {
    let mut affinity = volume.node_affinity.as_deref().cloned();
    let topology = labels_in_use(volume, affinity.as_ref());
    if has_values(affinity.as_ref(), topology.zone) {
        rename(affinity.as_mut(), topology.zone, zone_key);
    } else if let Some(zones) = volume.labels.get(topology.zone).and_then(requirement_on_zones) {
        let required = api::SelectorRequirement { key: zone_key.to_owned(), ..zones };
        require(affinity.get_or_insert_default(), &required);
    }
    if has_values(affinity.as_ref(), topology.region) {
        rename(affinity.as_mut(), topology.region, GA.region);
    }
    affinity.map(|affinity| Arc::new(NodeSelector::compile(&affinity)))
}

/// Returns the generation of labels that the volume uses. Its affinity takes precedence over its
/// labels, and GA over beta.
fn labels_in_use(
    volume: &PersistentVolume,
    affinity: Option<&api::NodeSelector>,
) -> TopologyLabels {
    let generations = || [GA, BETA].into_iter();
    let asked = |labels: &TopologyLabels| requirements(affinity).any(|own| own.key == labels.zone);
    let carried = |labels: &TopologyLabels| volume.labels.contains_key(labels.zone);
    generations().find(asked).or_else(|| generations().find(carried)).unwrap_or(GA)
}

fn requirements(
    affinity: Option<&api::NodeSelector>,
) -> impl Iterator<Item = &api::SelectorRequirement> {
    let terms = affinity.into_iter().flat_map(|affinity| &affinity.node_selector_terms);
    terms.flat_map(|term| &term.match_expressions)
}

fn has_values(affinity: Option<&api::NodeSelector>, key: &str) -> bool {
    requirements(affinity).any(|own| own.key == key && !own.values.is_empty())
}

fn rename(affinity: Option<&mut api::NodeSelector>, old: &str, new: &str) {
    let terms = affinity.into_iter().flat_map(|affinity| &mut affinity.node_selector_terms);
    for requirement in terms.flat_map(|term| &mut term.match_expressions) {
        if requirement.key == old {
            new.clone_into(&mut requirement.key);
        }
    }
}

/// Returns a requirement for the zones in a label of a volume. Its key is still empty.
fn requirement_on_zones(label: &str) -> Option<api::SelectorRequirement> {
    let zones = zones_of(label).map(str::trim).filter(|zone| !zone.is_empty());
    let values: BTreeSet<String> = zones.map(str::to_owned).collect();
    (!values.is_empty()).then(|| api::SelectorRequirement {
        operator: "In".to_owned(),
        values: values.into_iter().collect(),
        ..api::SelectorRequirement::default()
    })
}

/// Adds a requirement to every term, or as a term of its own if there is none.
fn require(affinity: &mut api::NodeSelector, requirement: &api::SelectorRequirement) {
    let terms = &mut affinity.node_selector_terms;
    if terms.is_empty() {
        terms.push(api::NodeSelectorTerm::default());
    }
    terms.iter_mut().for_each(|term| term.match_expressions.push(requirement.clone()));
}
