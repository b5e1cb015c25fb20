//! Request policies of consumable capacity.

use framework::Quantity;

use super::super::field::{Faults, Field};

/// Maximum number of values that a policy lists.
const VALUES_MAX: usize = 10;

/// Checks the request policy of a capacity.
pub(super) fn request_policy(capacity: &Field<'_>, faults: &mut Faults) {
    let policy = capacity.child("requestPolicy");
    let (values, range) = (policy.child("validValues"), policy.child("validRange"));
    if !values.is_empty() && range.is_set() {
        let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at \
                   the same time";
        faults.forbidden(&policy, why);
        return;
    }
    let default = policy.child("default");
    // Decoding has refused anything that is not a quantity.
    let Some(most) = quantity(&capacity.child("value")) else { return };
    match (!values.is_empty(), range.is_set(), quantity(&default)) {
        (true, _, None) => faults.required(&default, "required when validValues is defined"),
        (true, _, Some(default)) => self::values(&values, &default, &most, faults),
        (false, true, None) => faults.required(&default, "required when validRange is defined"),
        (false, true, Some(default)) => self::range(&range, &default, &most, faults),
        (false, false, _) => {}
    }
}

/// Returns the quantity; `None` if it is not set.
fn quantity(field: &Field<'_>) -> Option<Quantity> {
    match field.value() {
        serde_json::Value::Number(number) => number.to_string().parse().ok(),
        value => value.as_str()?.parse().ok(),
    }
}

/// Adds the fault of a quantity in this field.
fn invalid(field: &Field<'_>, quantity: &Quantity, why: &str, faults: &mut Faults) {
    faults.invalid_text(&field.path(), &quantity.to_string(), why);
}

fn values(values: &Field<'_>, default: &Quantity, most: &Quantity, faults: &mut Faults) {
    let items: Vec<_> = values.items().filter_map(|item| Some((quantity(&item)?, item))).collect();
    for pair in items.windows(2) {
        if let [(before, _), (own, field)] = pair
            && before.nanos() > own.nanos()
        {
            invalid(field, own, "values must be sorted in ascending order", faults);
        }
    }
    if faults.at_most(values, VALUES_MAX) {
        for (own, field) in items.iter().filter(|(own, _)| own.nanos() > most.nanos()) {
            let why = format!("option is larger than capacity value: {most}");
            invalid(field, own, &why, faults);
        }
        for (number, (own, field)) in items.iter().enumerate() {
            if items[..number].iter().any(|(known, _)| known.value() == own.value()) {
                faults.duplicate_text(&field.path(), &own.value().to_string());
            }
        }
        if items.iter().any(|(own, _)| own.nanos() == default.nanos()) {
            return;
        }
    }
    invalid(values, default, "default value is not valid according to the requestPolicy", faults);
}

fn range(range: &Field<'_>, default: &Quantity, most: &Quantity, faults: &mut Faults) {
    let [min_field, max_field, step_field] = ["min", "max", "step"].map(|name| range.child(name));
    let Some(min) = quantity(&min_field) else {
        faults.required(&min_field, "required when validRange is defined");
        return;
    };
    let default_field = range.child("default");
    if min.nanos() > most.nanos() {
        invalid(&min_field, &min, &format!("min is larger than capacity value: {most}"), faults);
    }
    if default.nanos() < min.nanos() {
        invalid(&default_field, default, &format!("default is less than min: {min}"), faults);
    }
    let max = quantity(&max_field);
    if let Some(max) = &max {
        if min.nanos() > max.nanos() {
            // The API server prints the lower end here.
            invalid(&max_field, &min, &format!("min is larger than max: {max}"), faults);
        }
        if max.nanos() > most.nanos() {
            invalid(&max_field, max, &format!("max is larger than capacity value: {most}"), faults);
        }
        if default.nanos() > max.nanos() {
            invalid(&default_field, default, &format!("default is more than max: {max}"), faults);
        }
    }
    let Some(step) = quantity(&step_field) else { return };
    if step.nanos() <= 0 {
        invalid(&step_field, &step, "must be greater than zero", faults);
        return;
    }
    if min.nanos().saturating_add(step.nanos()) > most.nanos() {
        let added = Quantity::new(min.value().saturating_add(step.value()), min.format());
        let why = format!("one step {added} is larger than capacity value: {most}");
        invalid(&step_field, &step, &why, faults);
    }
    for own in [Some(default), max.as_ref()].into_iter().flatten() {
        let above = own.value().wrapping_sub(min.value());
        if above.checked_rem(step.value()).is_some_and(|rest| rest != 0) {
            let why = format!("value is not a multiple of a given step ({step}) from ({min})");
            invalid(&step_field, own, &why, faults);
        }
    }
}
