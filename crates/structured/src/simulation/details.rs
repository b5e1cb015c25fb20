//! What an allocation says besides its devices, written as the rules read.

use std::collections::BTreeSet;

use framework::device::{
    Allocation, AllocationConfig, ConfigSource, Device, DeviceClass, NodeRestriction, NodeScope,
    RequestBody, ResourceClaim, ResourceSlice,
};
use framework::{NodeView, api};

use crate::Gates;

/// The objects that an allocation was made from.
pub(crate) struct Origin<'a> {
    pub(crate) gates: Gates,
    pub(crate) node: NodeView<'a>,
    pub(crate) claim: &'a ResourceClaim,
    pub(crate) slices: &'a [ResourceSlice],
    pub(crate) classes: &'a [DeviceClass],
}

impl Origin<'_> {
    /// Checks the details of an allocation. `shares` are the identities of all shares before.
    pub(crate) fn check(
        &self,
        allocation: &Allocation,
        shares: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        for result in &allocation.results {
            let body = self.body(&result.request).ok_or("a result of an unknown request")?;
            let (_, device) = self.device(result).ok_or("a device that does not exist")?;
            let is_admin = body.admin_access == Some(true);
            if result.is_for_administration() != is_admin
                || result.tolerations != body.tolerations
                || result.binding_conditions != device.binding_conditions
                || result.binding_failure_conditions != device.binding_failure_conditions
                || result.share_id.is_some()
                    != self.gates.shares(device.description.allows_multiple_allocations)
                || result.share_id.is_none() && !result.consumed_capacity.is_empty()
            {
                return Err(format!("{result:?} of {device:?}"));
            }
            if let Some(share) = &result.share_id
                && !(is_random_uuid(share) && shares.insert(share.to_string()))
            {
                return Err(format!("{share} is no UUID, or the name of two shares"));
            }
        }
        let config = self.config(allocation);
        if *allocation.config != *config {
            return Err(format!("configuration {:?} instead of {config:?}", allocation.config));
        }
        let nodes = self.node_selector(allocation);
        let found = allocation.node_selector.as_ref().map(|own| &own.raw);
        if found != nodes.as_ref() {
            return Err(format!("devices are for {found:?} instead of {nodes:?}"));
        }
        Ok(())
    }

    /// Returns the request or the alternative with this name.
    fn body(&self, name: &str) -> Option<&RequestBody> {
        self.claim.spec.requests.iter().find_map(|request| {
            request.bodies().iter().find(|body| {
                *request.name == *name || format!("{}/{}", request.name, body.name) == name
            })
        })
    }

    fn device(
        &self,
        result: &framework::device::AllocatedDevice,
    ) -> Option<(&ResourceSlice, &Device)> {
        let of_pool = self.slices.iter().filter(|slice| {
            slice.pool.key.driver == result.id.driver && slice.pool.key.pool == result.id.pool
        });
        let has = |scope: &NodeScope| scope.includes(&self.node) == Ok(true);
        let devices = of_pool.flat_map(|slice| slice.devices.iter().map(move |own| (slice, own)));
        let usable = devices.filter(|(slice, device)| {
            let is_per_device =
                slice.scope == NodeScope::PerDevice && self.gates.partitionable_devices;
            device.name == result.id.device
                && (has(&slice.scope) || is_per_device && has(&device.scope))
        });
        // Slices of older generations are obsolete.
        usable.max_by_key(|(slice, _)| slice.pool.generation)
    }

    /// Returns the names of the requests, with the alternative that was chosen.
    fn chosen(&self, allocation: &Allocation) -> Vec<String> {
        let requests = self.claim.spec.requests.iter();
        let chosen = requests.filter_map(|request| {
            let results = allocation.results.iter();
            let mut names = results.map(|result| result.request.to_string());
            names.find(|name| name.split('/').next() == Some(&*request.name))
        });
        chosen.collect()
    }

    /// The configuration of each class once, for all its requests, then that of the claim: at 1.36
    /// once for each request that it names, later once. Later, a configuration for all requests
    /// names none.
    fn config(&self, allocation: &Allocation) -> Vec<AllocationConfig> {
        let chosen = self.chosen(allocation);
        let class_of = |name: &String| self.body(name).map(|body| body.class.clone());
        let once = self.gates.behaviours.configuration_once;
        let mut all = Vec::new();
        let mut seen = BTreeSet::new();
        for class in chosen.iter().filter_map(class_of) {
            if !seen.insert(class.clone()) {
                continue;
            }
            let own = chosen.iter().filter(|name| class_of(name).as_ref() == Some(&class));
            let mut requests: Box<[_]> = own.map(|name| name.as_str().into()).collect();
            if once && requests.len() == chosen.len() {
                requests = Box::default();
            }
            let class = self.classes.iter().find(|known| known.name == class);
            all.extend(class.into_iter().flat_map(|class| &class.config).map(|config| {
                AllocationConfig {
                    source: ConfigSource::Class,
                    requests: requests.clone(),
                    opaque: config.opaque.clone(),
                }
            }));
        }
        for config in &self.claim.spec.config {
            let is_named = |name: &&String| {
                let request = name.split('/').next().unwrap_or_default();
                config.requests.iter().any(|own| **own == ***name || **own == *request)
            };
            let times = match config.requests.is_empty() {
                true => 1,
                false => chosen.iter().filter(is_named).count(),
            };
            let own = AllocationConfig {
                source: ConfigSource::Claim,
                requests: match once && times == chosen.len() {
                    true => Box::default(),
                    false => config.requests.clone(),
                },
                opaque: config.opaque.clone(),
            };
            all.extend(std::iter::repeat_n(own, if once { times.min(1) } else { times }));
        }
        all
    }

    /// The nodes that can use all devices: one node if a device is of one node or is bound to it,
    /// or else those that all selectors select.
    fn node_selector(&self, allocation: &Allocation) -> Option<api::NodeSelector> {
        let mut terms = api::NodeSelectorTerm::default();
        let mut is_of_node = false;
        for result in &allocation.results {
            let (slice, device) = self.device(result)?;
            let scope = match slice.scope {
                NodeScope::PerDevice => &device.scope,
                _ => &slice.scope,
            };
            is_of_node |= matches!(scope, NodeScope::Node(_)) || device.binds_to_node;
            if let NodeScope::Selector(selector) = scope {
                let own = &selector.raw.node_selector_terms[0];
                add_new(&own.match_expressions, &mut terms.match_expressions);
                add_new(&own.match_fields, &mut terms.match_fields);
            }
        }
        if is_of_node {
            return Some(NodeRestriction::of_node(self.node.name()).raw);
        }
        let has_terms = terms != api::NodeSelectorTerm::default();
        has_terms.then(|| api::NodeSelector { node_selector_terms: vec![terms] })
    }
}

/// Whether a text is a UUID of version 4, in the variant of RFC 9562.
fn is_random_uuid(text: &str) -> bool {
    let form = "xxxxxxxx-xxxx-4xxx-vxxx-xxxxxxxxxxxx";
    let fits = |(own, form): (char, char)| match form {
        'x' => matches!(own, '0'..='9' | 'a'..='f'),
        'v' => matches!(own, '8' | '9' | 'a' | 'b'),
        form => own == form,
    };
    text.len() == form.len() && text.chars().zip(form.chars()).all(fits)
}

/// Adds requirements, each once, whatever the order of its values.
fn add_new(from: &[api::SelectorRequirement], to: &mut Vec<api::SelectorRequirement>) {
    let sorted = |own: &api::SelectorRequirement| {
        let values: BTreeSet<String> = own.values.iter().cloned().collect();
        (own.key.clone(), own.operator.clone(), values)
    };
    for own in from {
        if to.iter().all(|known| sorted(known) != sorted(own)) {
            to.push(own.clone());
        }
    }
}
