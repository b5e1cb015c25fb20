//! The allocations of a solution.

use std::sync::Arc;

use fastrand::Rng;
use framework::api;
use framework::device::{
    AllocatedDevice, Allocation, AllocationConfig, Amounts, ConfigSource, DeviceConfig,
    NodeRestriction, NodeScope, RequestKind,
};

use crate::claims::Body;
use crate::search::{Pick, Search};
use crate::{AllocateError, capacity, pools, share_id};

/// Returns the allocations of a complete solution, one for each claim.
///
/// # Errors
/// A slice has a node selector that cannot be part of an allocation.
pub(crate) fn allocations(
    search: &Search<'_>,
    node: &str,
    seed: u64,
) -> Result<Vec<Allocation>, AllocateError> {
    let mut rng = Rng::with_seed(seed);
    let claims = search.picks.iter().enumerate();
    let allocation = |(claim, picks): (usize, &Vec<Pick>)| {
        let results = picks.iter().map(|pick| allocated_device(search, pick, &mut rng)).collect();
        let node_selector = node_selector(search, picks, node).map_err(|terms| {
            AllocateError::fatal(format!(
                "create NodeSelector for claim {}: unsupported ResourceSlice.NodeSelector with \
                 {terms} terms",
                search.claims.claims[claim].name
            ))
        })?;
        Ok(Allocation {
            results,
            config: config(search, claim).into(),
            node_selector: node_selector.map(Arc::new),
            timestamp: None,
        })
    };
    claims.map(allocation).collect()
}

fn allocated_device(search: &Search<'_>, pick: &Pick, rng: &mut Rng) -> AllocatedDevice {
    let body = &search.claims.bodies[pick.body];
    let raw = search.claims.body_of(body);
    let found = &search.devices[pick.device];
    let device = found.device;
    let mut consumed_capacity = Amounts::default();
    if pick.is_share {
        consumed_capacity = capacity::consumptions(
            &device.description,
            raw.capacity.as_ref(),
            search.arithmetic(pick.device),
        );
    }
    let conditions = |own: &[Arc<str>]| match search.gates.binding_conditions {
        true => own.into(),
        false => Box::default(),
    };
    AllocatedDevice {
        request: search.claims.result_name(body),
        id: pools::id_of(search.pools[found.pool].key, device),
        admin_access: raw.wants_admin_access().then_some(true),
        tolerations: raw.tolerations.clone(),
        binding_conditions: conditions(&device.binding_conditions),
        binding_failure_conditions: conditions(&device.binding_failure_conditions),
        share_id: pick.is_share.then(|| share_id::random(rng)),
        consumed_capacity,
    }
}

/// Returns the configuration of a claim: that of each class once, for all its requests; then that
/// of the claim itself. At level 1.36, the latter appears once for every request that it names.
/// From 1.37 on it appears once, and a configuration for all requests names none.
fn config(search: &Search<'_>, claim: usize) -> Vec<AllocationConfig> {
    let claims = search.claims;
    let mut all: Vec<AllocationConfig> = Vec::new();
    let mut of_class = Vec::new();
    for request in 0..claims.claims[claim].requests.len() {
        let body = chosen(search, claim, request);
        let Some(class) = &body.class else { continue };
        let name = claims.result_name(body);
        if let Some((_, places)) = of_class.iter().find(|(known, _)| *known == &class.name) {
            for config in &mut all[std::ops::Range::clone(places)] {
                config.requests = config.requests.iter().cloned().chain([name.clone()]).collect();
            }
            continue;
        }
        let start = all.len();
        all.extend(class.config.iter().map(|config| AllocationConfig {
            source: ConfigSource::Class,
            requests: [name.clone()].into(),
            opaque: config.opaque.clone(),
        }));
        of_class.push((&class.name, start..all.len()));
    }
    let (requests, once) =
        (claims.claims[claim].requests.len(), search.gates.behaviours.configuration_once);
    if once {
        let of_all = all.iter_mut().filter(|config| config.requests.len() == requests);
        of_all.for_each(|config| config.requests = Box::default());
    }
    for config in &claims.claims[claim].spec.config {
        let mut own = from_claim(config);
        let times = match config.requests.is_empty() {
            true => 1,
            false => (0..requests)
                .filter(|request| {
                    claims.is_named(chosen(search, claim, *request), &config.requests)
                })
                .count(),
        };
        if once && times == requests {
            own.requests = Box::default();
        }
        let copies = if once { times.min(1) } else { times };
        all.extend(std::iter::repeat_n(own, copies));
    }
    all
}

fn from_claim(config: &DeviceConfig) -> AllocationConfig {
    AllocationConfig {
        source: ConfigSource::Claim,
        requests: config.requests.clone(),
        opaque: config.opaque.clone(),
    }
}

/// Returns the body of a request for which devices were picked.
fn chosen<'a>(search: &Search<'a>, claim: usize, request: usize) -> &'a Body {
    let prepared = &search.claims.claims[claim];
    let is_list = matches!(prepared.spec.requests[request].kind, RequestKind::FirstAvailable(_));
    let number = if is_list { search.chosen[claim][request] } else { 0 };
    &search.claims.bodies[prepared.requests[request].start + number]
}

/// Returns the nodes on which the devices can be used; an error is the number of terms of a
/// selector that has several.
fn node_selector(
    search: &Search<'_>,
    picks: &[Pick],
    node: &str,
) -> Result<Option<NodeRestriction>, usize> {
    let mut term = api::NodeSelectorTerm::default();
    for pick in picks {
        let found = &search.devices[pick.device];
        let scope = match &found.slice.scope {
            NodeScope::PerDevice => &found.device.scope,
            scope => scope,
        };
        if matches!(scope, NodeScope::Node(_)) || found.device.binds_to_node {
            return Ok(Some(NodeRestriction::of_node(node)));
        }
        if let NodeScope::Selector(selector) = scope {
            match &selector.raw.node_selector_terms[..] {
                [] => {}
                [own] => {
                    add_new(&own.match_fields, &mut term.match_fields);
                    add_new(&own.match_expressions, &mut term.match_expressions);
                }
                terms => return Err(terms.len()),
            }
        }
    }
    if term == api::NodeSelectorTerm::default() {
        return Ok(None);
    }
    Ok(Some(NodeRestriction::from_api(&api::NodeSelector { node_selector_terms: vec![term] })))
}

/// Adds the requirements that are not there yet, whatever the order of their values.
fn add_new(from: &[api::SelectorRequirement], to: &mut Vec<api::SelectorRequirement>) {
    for requirement in from {
        let is_same = |known: &api::SelectorRequirement| {
            known.key == requirement.key
                && known.operator == requirement.operator
                && known.values.iter().all(|value| requirement.values.contains(value))
                && requirement.values.iter().all(|value| known.values.contains(value))
        };
        if !to.iter().any(is_same) {
            to.push(requirement.clone());
        }
    }
}
