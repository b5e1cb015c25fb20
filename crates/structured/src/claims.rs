//! The claims of a pod, prepared for allocation.

use std::ops::Range;
use std::sync::Arc;

use framework::Cluster;
use framework::device::{
    AttributeRule, ClaimSpec, DeviceClass, DeviceConstraint, DeviceDescription, DeviceRequest,
    DeviceSelector, RequestBody, RequestKind, ResourceClaim,
};

use crate::{Compiled, Compiler};

/// Claims that have to be allocated together, with their classes and compiled selectors.
#[derive(Debug, Clone)]
pub struct Claims {
    pub(crate) claims: Box<[PreparedClaim]>,
    /// The requests of all claims, with their alternatives, in order.
    pub(crate) bodies: Box<[Body]>,
}

#[derive(Debug, Clone)]
pub(crate) struct PreparedClaim {
    pub(crate) name: Arc<str>,
    /// Namespace and name with a slash.
    pub(crate) key: Box<str>,
    pub(crate) spec: Arc<ClaimSpec>,
    /// The bodies of each request.
    pub(crate) requests: Box<[Range<usize>]>,
}

/// A request without alternatives, or one alternative of a request.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub(crate) claim: usize,
    pub(crate) request: usize,
    /// The number among the alternatives; `None` for a request without alternatives.
    pub(crate) alternative: Option<usize>,
    pub(crate) class: Option<Arc<DeviceClass>>,
    pub(crate) class_selectors: Box<[PreparedSelector]>,
    pub(crate) selectors: Box<[PreparedSelector]>,
    /// Whether each constraint of the claim restricts the devices.
    pub(crate) constrained: Box<[bool]>,
}

impl Body {
    /// Returns whether all selectors have a result for the device, as far as that can be known
    /// without evaluating them.
    pub(crate) fn cannot_fail(&self, device: &DeviceDescription) -> bool {
        let mut selectors = self.class_selectors.iter().chain(&self.selectors);
        selectors.all(|selector| match selector {
            Some(Ok(expression)) => expression.cannot_fail(device),
            _ => false,
        })
    }

    /// Returns whether no selector fails for the device. Selectors after the first one that does
    /// not match are not evaluated. Adds the cost of the evaluation.
    pub(crate) fn has_result(&self, device: &DeviceDescription, cost: &mut u64) -> bool {
        for selector in self.class_selectors.iter().chain(&self.selectors) {
            let Some(Ok(expression)) = selector else { return false };
            match expression.matches(device, cost) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

/// A compiled selector; `None` for one of an unknown kind.
pub(crate) type PreparedSelector = Option<Compiled>;

impl Claims {
    /// Looks up the classes and compiles the selectors. Errors are reported by the allocation, in
    /// the order in which kube-scheduler finds them.
    pub fn new<'a>(
        claims: impl IntoIterator<Item = &'a ResourceClaim>,
        cluster: &Cluster,
        compiler: &mut dyn Compiler,
    ) -> Self {
        let mut bodies = Vec::new();
        let mut prepared = Vec::new();
        for (place, claim) in claims.into_iter().enumerate() {
            let mut requests = Vec::with_capacity(claim.spec.requests.len());
            for (request, raw) in claim.spec.requests.iter().enumerate() {
                let start = bodies.len();
                let has_alternatives = matches!(raw.kind, RequestKind::FirstAvailable(_));
                for (number, body) in raw.bodies().iter().enumerate() {
                    let class = cluster.device_class(&body.class).cloned();
                    let of_class = class.as_deref().map_or(&[][..], |class| &class.selectors);
                    bodies.push(Body {
                        claim: place,
                        request,
                        alternative: has_alternatives.then_some(number),
                        class_selectors: prepare(of_class, compiler),
                        selectors: prepare(&body.selectors, compiler),
                        class,
                        constrained: Box::default(),
                    });
                }
                requests.push(start..bodies.len());
            }
            prepared.push(PreparedClaim {
                name: claim.name.clone(),
                key: format!("{}/{}", claim.namespace, claim.name).into(),
                spec: claim.spec.clone(),
                requests: requests.into(),
            });
        }
        let mut claims = Self { claims: prepared.into(), bodies: bodies.into() };
        for number in 0..claims.bodies.len() {
            let body = &claims.bodies[number];
            let constraints = &claims.claims[body.claim].spec.constraints;
            let applies = |own| claims.is_constrained(body, own);
            claims.bodies[number].constrained = constraints.iter().map(applies).collect();
        }
        claims
    }

    /// Returns the number of claims.
    pub const fn len(&self) -> usize {
        self.claims.len()
    }

    /// Returns whether there is nothing to allocate.
    pub const fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Returns whether both ask for the same, whatever the claims are called. Their answers on a
    /// node are the same.
    pub(crate) fn asks_like(&self, other: &Self) -> bool {
        let of_claim = |one: &PreparedClaim, other: &PreparedClaim| {
            Arc::ptr_eq(&one.spec, &other.spec)
                || one.spec.requests == other.spec.requests
                    && one.spec.constraints == other.spec.constraints
        };
        let of_class = |one: &Body, other: &Body| match (&one.class, &other.class) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.selectors == other.selectors,
            (one, other) => one.is_none() == other.is_none(),
        };
        self.claims.len() == other.claims.len()
            && self.bodies.len() == other.bodies.len()
            && self.claims.iter().zip(&other.claims).all(|(one, other)| of_claim(one, other))
            && self.bodies.iter().zip(&other.bodies).all(|(one, other)| of_class(one, other))
    }

    pub(crate) fn request_of(&self, body: &Body) -> &DeviceRequest {
        &self.claims[body.claim].spec.requests[body.request]
    }

    pub(crate) fn body_of(&self, body: &Body) -> &RequestBody {
        &self.request_of(body).bodies()[body.alternative.unwrap_or(0)]
    }

    /// Returns the name in results: that of the request, and that of the alternative after a slash.
    pub(crate) fn result_name(&self, body: &Body) -> Arc<str> {
        let request = &self.request_of(body).name;
        match body.alternative {
            None => request.clone(),
            Some(_) => format!("{request}/{}", self.body_of(body).name).into(),
        }
    }

    /// Returns whether a list of requests, in which a request stands for all its alternatives,
    /// names the body.
    pub(crate) fn is_named(&self, body: &Body, names: &[Arc<str>]) -> bool {
        let request = &self.request_of(body).name;
        names.contains(request)
            || body.alternative.is_some() && names.contains(&self.result_name(body))
    }

    /// Returns whether the constraint restricts the devices of the body.
    fn is_constrained(&self, body: &Body, constraint: &DeviceConstraint) -> bool {
        constraint.requests.is_empty() || self.is_named(body, &constraint.requests)
    }

    /// Returns the names of the attributes that constraints compare.
    pub(crate) fn constraint_attributes(&self) -> impl Iterator<Item = &Arc<str>> {
        let constraints = self.claims.iter().flat_map(|claim| &claim.spec.constraints);
        constraints.filter_map(|constraint| match &constraint.rule {
            AttributeRule::Match(name) | AttributeRule::Distinct(name) => Some(name),
            AttributeRule::Unknown => None,
        })
    }
}

fn prepare(selectors: &[DeviceSelector], compiler: &mut dyn Compiler) -> Box<[PreparedSelector]> {
    let prepared = selectors.iter().map(|selector| match selector {
        DeviceSelector::Cel(expression) => Some(compiler.compile(expression)),
        DeviceSelector::Unknown => None,
    });
    prepared.collect()
}
