//! Resource requests and limits.

use framework::Quantity;

use super::field::{Faults, Field};

/// The owner of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// A container.
    Container,
    /// The pod as a whole.
    Pod,
}

/// Checks requests and limits.
pub(super) fn requirements(resources: &Field<'_>, of: Of, faults: &mut Faults) {
    let (limits, requests) = (resources.child("limits"), resources.child("requests"));
    for list in [&limits, &requests] {
        list.entries().for_each(|(name, amount)| resource_name(name, &amount, of, faults));
        amounts(list, faults);
    }
    for (name, request) in requests.entries() {
        let limit = limits.child(name);
        match (quantity(&request), quantity(&limit)) {
            (Some(wanted), Some(most)) => {
                compare(name, &requests, &wanted, &most, faults);
            }
            (Some(_), None) if !may_overcommit(name) => {
                faults.required(&limits, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
    huge_pages(&limits, &requests, resources, faults);
}

fn compare(
    name: &str,
    requests: &Field<'_>,
    wanted: &Quantity,
    most: &Quantity,
    faults: &mut Faults,
) {
    let text = wanted.to_string();
    if !may_overcommit(name) && wanted.nanos() != most.nanos() {
        let why = format!("must be equal to {name} limit of {most}");
        faults.invalid_text(&requests.path(), &text, &why);
    } else if wanted.nanos() > most.nanos() {
        let why = format!("must be less than or equal to {name} limit of {most}");
        faults.invalid_text(&requests.path(), &text, &why);
    }
}

/// Checks that amounts are not negative, and whole for resources that cannot be divided.
pub(super) fn amounts(list: &Field<'_>, faults: &mut Faults) {
    for (name, amount) in list.entries() {
        let Some(quantity) = quantity(&amount) else { continue };
        if quantity.sign() < 0 {
            faults.invalid(&amount, "must be greater than or equal to 0");
        }
        if is_extended(name) && quantity.nanos() % 1_000_000_000 != 0 {
            faults.invalid(&amount, "must be an integer");
        }
    }
}

fn huge_pages(limits: &Field<'_>, requests: &Field<'_>, field: &Field<'_>, faults: &mut Faults) {
    let has = |wanted: fn(&str) -> bool| {
        limits.entries().chain(requests.entries()).any(|(name, _)| wanted(name))
    };
    if has(is_huge_page) && !has(|name| matches!(name, "cpu" | "memory")) {
        faults.forbidden(field, "HugePages require cpu or memory");
    }
}

fn resource_name(name: &str, field: &Field<'_>, of: Of, faults: &mut Faults) {
    for fault in framework::label_key_faults(name) {
        faults.invalid_text(&field.path(), name, &fault);
    }
    if name.contains('/') || is_huge_page(name) {
        return;
    }
    if !matches!(name, "cpu" | "memory" | "ephemeral-storage") {
        let standard = "must be a standard resource for containers";
        faults.invalid_text(&field.path(), name, standard);
    } else if of == Of::Pod && name == "ephemeral-storage" {
        faults.not_supported_text(&field.path(), name, &["cpu", "memory"]);
    }
}

/// Returns whether limits may exceed requests: for all but huge pages and extended resources.
fn may_overcommit(name: &str) -> bool {
    !is_huge_page(name) && !is_extended(name)
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Returns whether it is an extended resource, which has a domain and is counted in whole numbers.
fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| !domain.ends_with("kubernetes.io"))
}

fn quantity(field: &Field<'_>) -> Option<Quantity> {
    field.text().parse().ok()
}
