//! The specs of claims and templates.

use super::super::field::{Faults, Field};
use super::super::names;
use super::taint::EFFECTS;
use super::{CONFIG_MAX, configuration, qualified_identifier, selectors};

/// Maximum number of requests of a claim, and of requests that a constraint names.
const REQUESTS_MAX: usize = 32;
/// Maximum number of alternatives of a request.
const ALTERNATIVES_MAX: usize = 8;
/// Maximum number of constraints of a claim.
const CONSTRAINTS_MAX: usize = 32;

/// Checks ResourceClaims.
pub(crate) fn claim(claim: &Field<'_>, faults: &mut Faults) {
    spec(&claim.child("spec"), faults);
}

/// Checks ResourceClaimTemplates.
pub(crate) fn template(template: &Field<'_>, faults: &mut Faults) {
    let metadata = template.at(&["spec", "metadata"]);
    names::labels(&metadata.child("labels"), faults);
    spec(&template.at(&["spec", "spec"]), faults);
}

fn spec(spec: &Field<'_>, faults: &mut Faults) {
    let devices = spec.child("devices");
    let requests = devices.child("requests");
    if faults.at_most(&requests, REQUESTS_MAX) {
        requests.items().for_each(|item| request(&item, faults));
        faults.distinct_by(&requests, "name");
    }
    let constraints = devices.child("constraints");
    if faults.at_most(&constraints, CONSTRAINTS_MAX) {
        constraints.items().for_each(|item| constraint(&item, &requests, faults));
    }
    let config = devices.child("config");
    if faults.at_most(&config, CONFIG_MAX) {
        for config in config.items() {
            request_names(&config.child("requests"), &requests, faults);
            configuration(&config, faults);
        }
    }
}

fn request(request: &Field<'_>, faults: &mut Faults) {
    request_name(&request.child("name"), faults);
    let (exactly, alternatives) = (request.child("exactly"), request.child("firstAvailable"));
    let one = "exactly one of `exactly` or `firstAvailable` is required";
    match (exactly.is_set(), !alternatives.is_empty()) {
        (false, false) => faults.required(request, one),
        (true, true) => {
            faults.invalid(request, &format!("{one}, but multiple fields are set"));
        }
        (true, false) => wanted(&exactly, faults),
        (false, true) => {
            if faults.at_most(&alternatives, ALTERNATIVES_MAX) {
                for alternative in alternatives.items() {
                    request_name(&alternative.child("name"), faults);
                    wanted(&alternative, faults);
                }
                faults.distinct_by(&alternatives, "name");
            }
        }
    }
}

fn request_name(name: &Field<'_>, faults: &mut Faults) {
    if faults.require(name) {
        names::dns_label(name, faults);
    }
}

/// Checks class, selectors, number and tolerations of a request or alternative.
fn wanted(wanted: &Field<'_>, faults: &mut Faults) {
    let class = wanted.child("deviceClassName");
    if faults.require(&class) {
        names::subdomain(&class, faults);
    }
    selectors(&wanted.child("selectors"), faults);
    let (mode, count) = (wanted.child("allocationMode"), wanted.child("count"));
    match mode.text() {
        "All" if count.number().unwrap_or_default() != 0 => {
            faults.invalid(&count, "must not be specified when allocationMode is 'All'");
        }
        "All" => {}
        "ExactCount" if count.number().unwrap_or_default() <= 0 => {
            faults.invalid(&count, "must be greater than zero");
        }
        "ExactCount" => {}
        _ => faults.one_of(&mode, &["All", "ExactCount"]),
    }
    wanted.child("tolerations").items().for_each(|item| toleration(&item, faults));
}

fn toleration(toleration: &Field<'_>, faults: &mut Faults) {
    let [key, operator, value, effect] =
        ["key", "operator", "value", "effect"].map(|name| toleration.child(name));
    if !key.is_empty() {
        names::qualified_name(&key, faults);
    }
    match operator.text() {
        "Exists" if !value.is_empty() => {
            faults.invalid(&value, "must be empty for operator `Exists`");
        }
        "Equal" => names::label_value(&value, faults),
        "" => faults.required(&operator, ""),
        _ => faults.one_of(&operator, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        faults.one_of(&effect, &EFFECTS);
    }
}

fn constraint(constraint: &Field<'_>, requests: &Field<'_>, faults: &mut Faults) {
    request_names(&constraint.child("requests"), requests, faults);
    let attributes = ["matchAttribute", "distinctAttribute"].map(|name| constraint.child(name));
    match attributes.iter().find(|attribute| attribute.is_set()) {
        Some(attribute) if !attribute.text().contains('/') => {
            let why = "a fully qualified name must be a domain and a name separated by a slash";
            faults.invalid(attribute, why);
        }
        Some(attribute) => qualified_identifier(attribute, attribute.text(), faults),
        None => {
            let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple \
                       fields are set";
            faults.required(constraint, why);
        }
    }
}

/// Checks that names are names of requests, or `request/alternative`.
pub(super) fn request_names(names: &Field<'_>, requests: &Field<'_>, faults: &mut Faults) {
    if faults.at_most(names, REQUESTS_MAX) {
        names.items().for_each(|name| request_reference(&name, requests, faults));
        faults.distinct(names.items());
    }
}

/// Checks that a name is the name of a request, or `request/alternative`.
pub(super) fn request_reference(name: &Field<'_>, requests: &Field<'_>, faults: &mut Faults) {
    let (parent, alternative) = match name.text().split_once('/') {
        Some((parent, alternative)) => (parent, Some(alternative)),
        None => (name.text(), None),
    };
    let is_named = |item: &Field<'_>, name: &str| item.child("name").text() == name;
    let is_known = requests.items().filter(|request| is_named(request, parent)).any(|request| {
        let mut alternatives = request.child("firstAvailable").items();
        alternative.is_none_or(|wanted| alternatives.any(|item| is_named(&item, wanted)))
    });
    if !is_known {
        let why = "must be the name of a request in the claim or the name of a request and a \
                   subrequest separated by '/'";
        faults.invalid(name, why);
    }
}
