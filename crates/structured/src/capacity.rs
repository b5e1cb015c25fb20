//! Consumable capacity.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::Arc;

use framework::Format;
use framework::device::{
    Amount, Amounts, CapacityPolicy, CapacityRange, CapacityRequest, DeviceCapacity,
    DeviceDescription,
};

/// The sums of consumed capacity by name, in billionths.
pub(crate) type Sums = BTreeMap<Arc<str>, i128>;

/// Returns whether the capacity that the request consumes is allowed and left. A request for a
/// capacity that the device does not have never fits.
pub(crate) fn fits(
    device: &DeviceDescription,
    request: Option<&CapacityRequest>,
    used: [Option<&Sums>; 2],
) -> bool {
    let Some(request) = amounts(request) else { return false };
    let is_defined = |(name, _): &(Arc<str>, Amount)| device.capacity(name).is_some();
    request.iter().all(is_defined)
        && device.capacity.iter().all(|(name, capacity)| {
            let consumed = consumption(capacity, find(request, name));
            let mut used = used.iter().flatten().filter_map(|sums| sums.get(name)).peekable();
            let is_all = ptr::eq(&*consumed, &capacity.value);
            !violates(&consumed, capacity.policy.as_deref())
                && (is_all && used.peek().is_none()
                    || used.fold(consumed.nanos(), |sum, own| sum.saturating_add(*own))
                        <= capacity.value.nanos())
        })
}

/// Returns the amounts of all capacities of the device that the request consumes.
pub(crate) fn consumptions(
    device: &DeviceDescription,
    request: Option<&CapacityRequest>,
) -> Amounts {
    let request = amounts(request).unwrap_or_default();
    let all = device.capacity.iter();
    let consumed = |capacity, name| consumption(capacity, find(request, name)).into_owned();
    all.map(|(name, capacity)| (name.clone(), consumed(capacity, name))).collect()
}

/// Returns the requested amounts; `None` if one of them is not a quantity.
fn amounts(request: Option<&CapacityRequest>) -> Option<&[(Arc<str>, Amount)]> {
    match request {
        None => Some(&[]),
        Some(request) => request.amounts.as_deref().ok(),
    }
}

fn find<'a>(amounts: &'a [(Arc<str>, Amount)], name: &str) -> Option<&'a Amount> {
    amounts.iter().find(|(own, _)| **own == *name).map(|(_, amount)| amount)
}

/// Returns the amount that a request consumes: what it asks for, rounded up as the policy of the
/// capacity says. Without a request it is the default of the policy, or else all of it.
fn consumption<'a>(capacity: &'a DeviceCapacity, request: Option<&'a Amount>) -> Cow<'a, Amount> {
    let policy = capacity.policy.as_deref();
    let Some(request) = request else {
        let default = policy.and_then(|policy| policy.default.as_ref());
        return Cow::Borrowed(default.unwrap_or(&capacity.value));
    };
    match policy {
        Some(CapacityPolicy { valid_range: Some(range), .. }) if range.min.is_some() => {
            round_up(request, range)
        }
        Some(CapacityPolicy { valid_values, .. }) => {
            let enough = valid_values.iter().find(|value| request.nanos() <= value.nanos());
            Cow::Borrowed(enough.unwrap_or(request))
        }
        None => Cow::Borrowed(request),
    }
}

/// Rounds up to the lowest amount, or to the next step above it.
fn round_up<'a>(request: &'a Amount, range: &'a CapacityRange) -> Cow<'a, Amount> {
    let Some(min) = range.min.as_ref() else { return Cow::Borrowed(request) };
    if request.nanos() < min.nanos() {
        return Cow::Borrowed(min);
    }
    let Some(step) = range.step.as_ref().map(Amount::value).filter(|step| *step != 0) else {
        return Cow::Borrowed(request);
    };
    let min = min.value();
    let added = request.value().wrapping_sub(min);
    let steps = added.wrapping_div(step) + i64::from(added.wrapping_rem(step) != 0);
    let amount = min.wrapping_add(step.wrapping_mul(steps));
    Cow::Owned(Amount::new(amount, Format::BinarySI))
}

fn violates(consumed: &Amount, policy: Option<&CapacityPolicy>) -> bool {
    let Some(policy) = policy else { return false };
    if policy.default.as_ref().is_some_and(|default| default.nanos() == consumed.nanos()) {
        return false;
    }
    match &policy.valid_range {
        Some(range) => violates_range(consumed, range),
        None => {
            !policy.valid_values.is_empty()
                && policy.valid_values.iter().all(|value| value.nanos() != consumed.nanos())
        }
    }
}

fn violates_range(consumed: &Amount, range: &CapacityRange) -> bool {
    if range.max.as_ref().is_some_and(|max| consumed.nanos() > max.nanos()) {
        return true;
    }
    // A step of zero, which the API server rejects, makes kube-scheduler 1.36 crash.
    let step = range.step.as_ref().map(Amount::value).filter(|step| *step != 0);
    step.is_some_and(|step| {
        let min = range.min.as_ref().map_or(0, Amount::value);
        consumed.value().wrapping_sub(min).wrapping_rem(step) != 0
    })
}

#[cfg(test)]
mod tests {
    use framework::api;
    use framework::device::ResourceSlice;
    use serde_json::{Value, json};

    use super::*;

    fn device(capacity: &Value) -> DeviceDescription {
        let device = json!({"name": "d", "capacity": {"x": capacity}});
        let slice = json!({"spec": {"devices": [device]}});
        let slice: api::ResourceSlice = serde_json::from_value(slice).unwrap();
        (*ResourceSlice::from_api(&slice).devices[0].description).clone()
    }

    fn request(amount: &str) -> CapacityRequest {
        let spec = json!({"requests": [{"name": "r",
            "exactly": {"capacity": {"requests": {"x": amount}}}}]});
        let spec: api::DeviceClaim = serde_json::from_value(spec).unwrap();
        let spec = framework::device::ClaimSpec::from_api(&spec);
        spec.requests[0].bodies()[0].capacity.clone().unwrap()
    }

    #[test]
    fn request_is_rounded_up_as_the_policy_says() {
        let range = json!({"value": "10Gi", "requestPolicy": {"default": "1Gi",
            "validRange": {"min": "1Gi", "max": "8Gi", "step": "2Gi"}}});
        let values = json!({"value": "10", "requestPolicy": {"default": "1",
            "validValues": ["1", "4", "8"]}});
        let free = json!({"value": "10"});
        for (capacity, asked, consumed, fits_alone) in [
            (&range, None, "1Gi", true),
            (&range, Some("512Mi"), "1Gi", true),
            (&range, Some("1Gi"), "1Gi", true),
            (&range, Some("2Gi"), "3Gi", true),
            (&range, Some("7Gi"), "7Gi", true),
            (&range, Some("8Gi"), "9Gi", false),
            (&range, Some("1025Mi"), "3Gi", true),
            (&values, None, "1", true),
            (&values, Some("2"), "4", true),
            (&values, Some("9"), "9", false),
            (&free, None, "10", true),
            (&free, Some("3500m"), "3500m", true),
            (&free, Some("11"), "11", false),
        ] {
            let device = device(capacity);
            let request = asked.map(request);
            let consumptions = consumptions(&device, request.as_ref());
            assert_eq!(consumptions[0].1.to_string(), consumed, "{asked:?} of {capacity}");
            let fits = fits(&device, request.as_ref(), [None, None]);
            assert_eq!(fits, fits_alone, "{asked:?} of {capacity}");
        }
    }

    #[test]
    fn committed_and_picked_capacity_is_not_left() {
        let device = device(&json!({"value": "10"}));
        let used = Sums::from([("x".into(), 4_000_000_000)]);
        let request = request("3");
        assert!(fits(&device, Some(&request), [Some(&used), None]));
        assert!(!fits(&device, Some(&request), [Some(&used), Some(&used)]));
    }

    #[test]
    fn undefined_capacity_and_bad_quantity_never_fit() {
        let empty = DeviceDescription::default();
        assert!(!fits(&empty, Some(&request("1")), [None, None]));
        assert!(!fits(&device(&json!({"value": "10"})), Some(&request("?")), [None, None]));
        assert!(fits(&empty, None, [None, None]));
    }

    #[test]
    fn step_of_zero_does_not_divide() {
        let zero = json!({"value": "10", "requestPolicy": {
            "validRange": {"min": "1", "step": "0"}}});
        assert!(fits(&device(&zero), Some(&request("3")), [None, None]));
    }
}
