//! The rules of claims for devices, their templates, slices and classes.

mod capacity;
mod claim;
mod claim_status;
mod go_structure;
mod slice;
mod taint;

use cel::Selector;

pub(super) use claim::{claim, template};
pub(super) use slice::{change as slice_change, slice};
pub(super) use taint::taint_rule;

use super::field::{Faults, Field};
use super::names;

/// Maximum length of a CEL expression.
const EXPRESSION_MAX: usize = 10 * 1024;
/// Maximum number of selectors of a request or class.
const SELECTORS_MAX: usize = 32;
/// Maximum number of configurations of a claim or class.
const CONFIG_MAX: usize = 32;
/// Maximum worst cost of a CEL expression.
const COST_MAX: u64 = 1_000_000;

/// Checks a change of a claim: its spec is immutable.
pub(super) fn claim_change(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    immutable("ResourceClaimSpec", &old.child("spec"), &new.child("spec"), faults);
    claim_status::change(old, new, faults);
}

/// Checks that a structure does not change.
fn immutable(structure: &str, old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    if old.value() != new.value() {
        let printed = go_structure::print(structure, new.value());
        faults.invalid_printed(new, &printed, "field is immutable");
    }
}

/// Checks DeviceClasses.
pub(super) fn class(class: &Field<'_>, faults: &mut Faults) {
    let spec = class.child("spec");
    selectors(&spec.child("selectors"), faults);
    let config = spec.child("config");
    if faults.at_most(&config, CONFIG_MAX) {
        config.items().for_each(|config| configuration(&config, faults));
    }
    let name = spec.child("extendedResourceName");
    if name.is_set() && !framework::is_extended_resource_name(name.text()) {
        faults.invalid(&name, "must be a valid extended resource name");
    }
}

/// Checks the selectors of a class or request.
fn selectors(selectors: &Field<'_>, faults: &mut Faults) {
    if !faults.at_most(selectors, SELECTORS_MAX) {
        return;
    }
    for selector in selectors.items() {
        let cel = selector.child("cel");
        if cel.is_set() {
            expression(&cel.child("expression"), faults);
        } else {
            faults.required(&cel, "");
        }
    }
}

fn expression(expression: &Field<'_>, faults: &mut Faults) {
    if expression.text().len() > EXPRESSION_MAX {
        faults.too_long(expression, EXPRESSION_MAX);
        return;
    }
    match Selector::worst_cost(expression.text()) {
        Err(error) => faults.invalid(expression, &error.to_string()),
        Ok(cost) if cost > COST_MAX => {
            faults.forbidden(expression, "too complex, exceeds cost limit");
        }
        Ok(_) => {}
    }
}

/// Checks the name of an attribute or capacity in `field`: an identifier, with or without a domain.
fn qualified_identifier(field: &Field<'_>, name: &str, faults: &mut Faults) {
    const DOMAIN_MAX: usize = 63;
    const IDENTIFIER_MAX: usize = 32;
    let (domain, identifier) = match name.split_once('/') {
        Some((domain, identifier)) => (Some(domain), identifier),
        None => (None, name),
    };
    match domain {
        Some("") => faults.invalid_text(&field.path(), "", "the domain must not be empty"),
        Some(domain) => {
            if domain.len() > DOMAIN_MAX {
                faults.too_long(field, DOMAIN_MAX);
            }
            names::subdomain_text(field, domain, faults);
        }
        None => {}
    }
    if domain.is_some() && identifier.is_empty() {
        faults.invalid_text(&field.path(), "", "the name must not be empty");
        return;
    }
    if identifier.len() > IDENTIFIER_MAX {
        faults.too_long(field, IDENTIFIER_MAX);
    }
    names::identifier_text(field, identifier, faults);
}

/// Checks the configuration of devices in a claim or class.
fn configuration(config: &Field<'_>, faults: &mut Faults) {
    let opaque = config.child("opaque");
    if !opaque.is_set() {
        faults.required(&opaque, "");
        return;
    }
    driver_name(&opaque.child("driver"), faults);
    faults.require(&opaque.child("parameters"));
}

/// Checks the name of a driver: a short DNS subdomain in any case.
fn driver_name(driver: &Field<'_>, faults: &mut Faults) {
    const LONGEST: usize = 63;
    if !faults.require(driver) {
        return;
    }
    if driver.text().len() > LONGEST {
        faults.too_long(driver, LONGEST);
    }
    names::subdomain_in_any_case(driver, faults);
}

/// Checks the name of a pool: DNS subdomains, separated by slashes.
fn pool_name(pool: &Field<'_>, faults: &mut Faults) {
    const LONGEST: usize = 253;
    if !faults.require(pool) {
        return;
    }
    if pool.text().len() > LONGEST {
        faults.too_long(pool, LONGEST);
    }
    for part in pool.text().split('/') {
        names::subdomain_text(pool, part, faults);
    }
}
