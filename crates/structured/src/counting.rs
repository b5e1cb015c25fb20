//! Rejects nodes with too few devices by counting them, without a search. Rule
//! dynamic-resources-counted-devices of docs/differences.toml.

use std::sync::Arc;

use framework::CountedDevices;
use framework::device::{
    ALLOCATION_RESULTS_MAX, AllocationMode, AttributeRule, DeviceDescription, DeviceSelector,
};
use rustc_hash::FxHashMap;

use crate::Claims;
use crate::claims::Body;
use crate::steps::StepsLeft;

/// The numbers of devices that claims ask for.
#[derive(Debug)]
pub(crate) struct Counting {
    requests: Box<[Counted]>,
    /// Examples of devices, by their address, and whether no selector can fail for such devices.
    examples: FxHashMap<usize, (Arc<DeviceDescription>, bool)>,
}

/// A request for a number of devices.
#[derive(Debug)]
struct Counted {
    devices: usize,
    /// The attributes of which all devices have the same value.
    matched: Box<[Arc<str>]>,
}

impl Counting {
    /// Returns the numbers of devices that the claims ask for. `None` if a request has alternatives
    /// or is not for a number of devices of its own, or if the search may end with an error that is
    /// not one of a selector: kube-scheduler then reports the error.
    pub(crate) fn of(claims: &Claims) -> Option<Self> {
        let requests: Box<[Counted]> =
            claims.bodies.iter().map(|body| counted(claims, body)).collect::<Option<_>>()?;
        let has_unknown_request =
            claims.claims.iter().any(|claim| claim.requests.iter().any(|bodies| bodies.len() != 1));
        let mut constraints = claims.claims.iter().flat_map(|claim| &claim.spec.constraints);
        let has_unknown_constraint = constraints.any(|own| own.rule == AttributeRule::Unknown);
        let devices = requests.iter().map(|request| request.devices);
        let devices = devices.fold(0, usize::saturating_add);
        let is_plain =
            !has_unknown_request && !has_unknown_constraint && devices <= ALLOCATION_RESULTS_MAX;
        is_plain.then_some(Self { requests, examples: FxHashMap::default() })
    }

    /// Returns whether a request asks for more devices than the node has, and no selector fails
    /// before the search finds that out. Selectors that may fail are evaluated, as kube-scheduler
    /// does in any case, if there are steps for it.
    pub(crate) fn lacks_devices(
        &mut self,
        claims: &Claims,
        devices: CountedDevices<'_>,
        steps: &mut StepsLeft,
    ) -> bool {
        let lacks = |request: &Counted| {
            let mut matched = request.matched.iter();
            devices.free() < request.devices
                || matched.any(|attribute| devices.most_alike(attribute) < request.devices)
        };
        let has_results = |device: &DeviceDescription| {
            let mut cost = 0;
            claims.bodies.iter().all(|body| body.has_result(device, &mut cost))
                && steps.take_cost(cost).is_ok()
        };
        self.requests.iter().any(lacks)
            && (devices.examples().all(|example| self.cannot_fail(claims, example))
                || devices.descriptions().all(has_results))
    }

    fn cannot_fail(&mut self, claims: &Claims, example: &Arc<DeviceDescription>) -> bool {
        let known = self.examples.entry(Arc::as_ptr(example).addr());
        let (_, cannot_fail) = known.or_insert_with(|| {
            (example.clone(), claims.bodies.iter().all(|body| body.cannot_fail(example)))
        });
        *cannot_fail
    }
}

fn counted(claims: &Claims, body: &Body) -> Option<Counted> {
    let raw = claims.body_of(body);
    let AllocationMode::ExactCount(count) = raw.mode else { return None };
    let is_plain = body.alternative.is_none()
        && body.class.is_some()
        && !raw.selectors.contains(&DeviceSelector::Unknown)
        && raw.admin_access.is_none()
        && raw.capacity.is_none();
    if !is_plain {
        return None;
    }
    let constraints = claims.claims[body.claim].spec.constraints.iter().zip(&body.constrained);
    let matched = constraints.filter_map(|(constraint, applies)| match &constraint.rule {
        AttributeRule::Match(attribute) if *applies => Some(attribute.clone()),
        _ => None,
    });
    Some(Counted { devices: usize::try_from(count).ok()?, matched: matched.collect() })
}
