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

use crate::Gates;

/// The sums of consumed capacity by name, in billionths.
pub(crate) type Sums = BTreeMap<Arc<str>, i128>;

/// How capacity is computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arithmetic<'a> {
    /// Rounding that leaves the range of 64 bits, or is negative, is refused.
    checked: bool,
    /// Ranges with fractions are computed in thousandths.
    fractions: bool,
    /// The driver, whose domain is optional in the names of its capacities.
    driver: Option<&'a str>,
}

impl<'a> Arithmetic<'a> {
    pub(crate) fn of(gates: Gates, driver: &'a str) -> Self {
        let behaviours = gates.behaviours;
        Self {
            checked: behaviours.checked_capacity_ranges,
            fractions: behaviours.checked_capacity_ranges && gates.fractional_capacity_range,
            driver: behaviours.capacity_names_of_the_driver.then_some(driver),
        }
    }

    /// Returns the name without the domain of the driver.
    fn short<'n>(&self, name: &'n str) -> &'n str {
        let own = self.driver.and_then(|driver| name.strip_prefix(driver)?.strip_prefix('/'));
        own.unwrap_or(name)
    }

    /// Returns the requested amount of the capacity `name`.
    fn find<'r>(&self, amounts: &'r [(Arc<str>, Amount)], name: &str) -> Option<&'r Amount> {
        let exact = amounts.iter().find(|(own, _)| **own == *name);
        let alike = || amounts.iter().find(|(own, _)| self.short(own) == self.short(name));
        exact.or_else(alike).map(|(_, amount)| amount)
    }

    fn is_defined(&self, device: &DeviceDescription, name: &str) -> bool {
        device.capacity(name).is_some()
            || self.driver.is_some()
                && device.capacity.iter().any(|(own, _)| self.short(own) == self.short(name))
    }
}

/// Returns whether the capacity that the request consumes is allowed and left. A request for a
/// capacity that the device does not have never fits.
pub(crate) fn fits(
    device: &DeviceDescription,
    request: Option<&CapacityRequest>,
    used: [Option<&Sums>; 2],
    arithmetic: Arithmetic<'_>,
) -> bool {
    let Some(request) = amounts(request) else { return false };
    request.iter().all(|(name, _)| arithmetic.is_defined(device, name))
        && device.capacity.iter().all(|(name, capacity)| {
            let asked = arithmetic.find(request, name);
            let Some(consumed) = consumption(capacity, asked, arithmetic) else { return false };
            let mut used = used.iter().flatten().filter_map(|sums| sums.get(name)).peekable();
            let is_all = ptr::eq(&*consumed, &capacity.value);
            !violates(&consumed, capacity.policy.as_deref(), arithmetic)
                && (is_all && used.peek().is_none()
                    || used.fold(consumed.nanos(), |sum, own| sum.saturating_add(*own))
                        <= capacity.value.nanos())
        })
}

/// Returns the amounts of all capacities of the device that the request consumes.
pub(crate) fn consumptions(
    device: &DeviceDescription,
    request: Option<&CapacityRequest>,
    arithmetic: Arithmetic<'_>,
) -> Amounts {
    let request = amounts(request).unwrap_or_default();
    let all = device.capacity.iter();
    let consumed = |capacity: &DeviceCapacity, name: &str| {
        let asked = arithmetic.find(request, name);
        let consumed = consumption(capacity, asked, arithmetic);
        consumed.map_or_else(|| capacity.value.clone(), Cow::into_owned)
    };
    all.map(|(name, capacity)| (name.clone(), consumed(capacity, name))).collect()
}

/// Returns the requested amounts; `None` if one of them is not a quantity.
fn amounts(request: Option<&CapacityRequest>) -> Option<&[(Arc<str>, Amount)]> {
    match request {
        None => Some(&[]),
        Some(request) => request.amounts.as_deref().ok(),
    }
}

/// Returns the amount that a request consumes: what it asks for, rounded up as the policy of the
/// capacity says. Without a request it is the default of the policy, or else all of it. `None` if
/// the rounding is refused.
fn consumption<'a>(
    capacity: &'a DeviceCapacity,
    request: Option<&'a Amount>,
    arithmetic: Arithmetic<'_>,
) -> Option<Cow<'a, Amount>> {
    let policy = capacity.policy.as_deref();
    let Some(request) = request else {
        let default = policy.and_then(|policy| policy.default.as_ref());
        return Some(Cow::Borrowed(default.unwrap_or(&capacity.value)));
    };
    if arithmetic.checked && request.nanos() < 0 {
        return None;
    }
    match policy {
        Some(CapacityPolicy { valid_range: Some(range), .. }) if range.min.is_some() => {
            round_up(request, range, arithmetic)
        }
        Some(CapacityPolicy { valid_values, .. }) => {
            let enough = valid_values.iter().find(|value| request.nanos() <= value.nanos());
            Some(Cow::Borrowed(enough.unwrap_or(request)))
        }
        None => Some(Cow::Borrowed(request)),
    }
}

/// Rounds up to the lowest amount, or to the next step above it.
fn round_up<'a>(
    request: &'a Amount,
    range: &'a CapacityRange,
    arithmetic: Arithmetic<'_>,
) -> Option<Cow<'a, Amount>> {
    let Some(min) = range.min.as_ref() else { return Some(Cow::Borrowed(request)) };
    if request.nanos() < min.nanos() {
        return Some(Cow::Borrowed(min));
    }
    let Some(step) = &range.step else { return Some(Cow::Borrowed(request)) };
    if arithmetic.checked {
        return Some(Cow::Owned(checked_steps(request, min, step, Unit::of(range, arithmetic))?));
    }
    let Some(step) = Some(step.value()).filter(|step| *step != 0) else {
        return Some(Cow::Borrowed(request));
    };
    let min = min.value();
    let added = request.value().wrapping_sub(min);
    let steps = added.wrapping_div(step) + i64::from(added.wrapping_rem(step) != 0);
    let amount = min.wrapping_add(step.wrapping_mul(steps));
    Some(Cow::Owned(Amount::new(amount, Format::BinarySI)))
}

/// Returns the lowest amount that is `min` and a number of steps, and not below the request. `None`
/// if it leaves the range of 64 bits.
fn checked_steps(request: &Amount, min: &Amount, step: &Amount, unit: Unit) -> Option<Amount> {
    let format = step.quantity().format();
    let [request, min, step] = [request, min, step].map(|amount| unit.count(amount));
    if step <= 0 || min < 0 {
        return None;
    }
    let added = request - min;
    let steps = added / step + i128::from(added % step != 0);
    let amount = i64::try_from(min + step * steps).ok()?;
    match unit {
        Unit::Thousandth if amount % 1000 != 0 => Amount::parse(&format!("{amount}m")),
        Unit::Thousandth => Some(Amount::new(amount / 1000, format)),
        Unit::One => Some(Amount::new(amount, format)),
    }
}

/// The unit in which a range is computed.
#[derive(Debug, Clone, Copy)]
enum Unit {
    One,
    Thousandth,
}

const NANOS: i128 = 1_000_000_000;

impl Unit {
    /// Thousandths, if the range has fractions and they are computed.
    fn of(range: &CapacityRange, arithmetic: Arithmetic<'_>) -> Self {
        let mut bounds = [&range.min, &range.max, &range.step].into_iter().flatten();
        let has_fraction = bounds.any(|amount| amount.nanos() % NANOS != 0);
        if arithmetic.fractions && has_fraction { Self::Thousandth } else { Self::One }
    }

    /// Returns the number of units, rounded away from zero.
    fn count(self, amount: &Amount) -> i128 {
        let unit = match self {
            Self::One => NANOS,
            Self::Thousandth => NANOS / 1000,
        };
        let nanos = amount.nanos();
        nanos / unit + i128::from(nanos % unit != 0) * nanos.signum()
    }
}

fn violates(
    consumed: &Amount,
    policy: Option<&CapacityPolicy>,
    arithmetic: Arithmetic<'_>,
) -> bool {
    let Some(policy) = policy else { return false };
    if policy.default.as_ref().is_some_and(|default| default.nanos() == consumed.nanos()) {
        return false;
    }
    match &policy.valid_range {
        Some(range) => violates_range(consumed, range, arithmetic),
        None => {
            !policy.valid_values.is_empty()
                && policy.valid_values.iter().all(|value| value.nanos() != consumed.nanos())
        }
    }
}

fn violates_range(consumed: &Amount, range: &CapacityRange, arithmetic: Arithmetic<'_>) -> bool {
    if range.max.as_ref().is_some_and(|max| consumed.nanos() > max.nanos()) {
        return true;
    }
    if arithmetic.checked {
        let unit = Unit::of(range, arithmetic);
        let Some(step) = &range.step else { return false };
        let min = range.min.as_ref().map_or(0, |min| unit.count(min));
        let step = unit.count(step);
        return step <= 0 || (unit.count(consumed) - min) % step != 0;
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

    const EXACT_1_36: Arithmetic<'_> =
        Arithmetic { checked: false, fractions: false, driver: None };
    const CHECKED: Arithmetic<'_> = Arithmetic { checked: true, ..EXACT_1_36 };
    const FRACTIONS: Arithmetic<'_> = Arithmetic { fractions: true, ..CHECKED };

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
            for arithmetic in [EXACT_1_36, CHECKED, FRACTIONS] {
                let consumptions = consumptions(&device, request.as_ref(), arithmetic);
                assert_eq!(consumptions[0].1.to_string(), consumed, "{asked:?} of {capacity}");
                let fits = fits(&device, request.as_ref(), [None, None], arithmetic);
                assert_eq!(fits, fits_alone, "{asked:?} of {capacity}");
            }
        }
    }

    #[test]
    fn committed_and_picked_capacity_is_not_left() {
        let device = device(&json!({"value": "10"}));
        let used = Sums::from([("x".into(), 4_000_000_000)]);
        let request = request("3");
        assert!(fits(&device, Some(&request), [Some(&used), None], CHECKED));
        assert!(!fits(&device, Some(&request), [Some(&used), Some(&used)], CHECKED));
    }

    #[test]
    fn undefined_capacity_and_bad_quantity_never_fit() {
        let empty = DeviceDescription::default();
        assert!(!fits(&empty, Some(&request("1")), [None, None], CHECKED));
        assert!(!fits(
            &device(&json!({"value": "10"})),
            Some(&request("?")),
            [None, None],
            CHECKED
        ));
        assert!(fits(&empty, None, [None, None], CHECKED));
    }

    #[test]
    fn step_of_zero_does_not_divide() {
        let zero = json!({"value": "10", "requestPolicy": {
            "validRange": {"min": "1", "step": "0"}}});
        assert!(fits(&device(&zero), Some(&request("3")), [None, None], EXACT_1_36));
    }

    /// The amount that is consumed at 1.36, with checks and with fractions; `None` if it does not
    /// fit.
    #[test]
    fn ranges_differ_between_levels() {
        let range = |value: &str, min: &str, step: &str, max: &str| {
            json!({"value": value, "requestPolicy": {"default": min,
                "validRange": {"min": min, "step": step, "max": max}}})
        };
        let large = json!({"value": "9223372036854775807", "requestPolicy": {"default": "1",
            "validRange": {"min": "1", "step": "9223372036854775806"}}});
        let tenths = range("10", "500m", "100m", "9500m");
        for (capacity, asked, at_1_36, checked, fractions) in [
            (&tenths, "1200m", Some("2"), Some("2"), Some("1200m")),
            (&tenths, "1150m", Some("2"), Some("2"), Some("1200m")),
            (&tenths, "950m", Some("1"), Some("1"), Some("1")),
            (&tenths, "400m", Some("500m"), Some("500m"), Some("500m")),
            (&tenths, "9600m", None, None, None),
            // 1 + 2 * (2^63 - 2) leaves the range of 64 bits: 1.36 computes a negative amount,
            // which fits.
            (
                &large,
                "9223372036854775807",
                Some("9223372036854775807"),
                Some("9223372036854775807"),
                Some("9223372036854775807"),
            ),
            (&range("100", "-10", "4", "100"), "3", Some("6"), None, None),
        ] {
            let device = device(capacity);
            let request = request(asked);
            for (arithmetic, expected) in
                [(EXACT_1_36, at_1_36), (CHECKED, checked), (FRACTIONS, fractions)]
            {
                let fits = fits(&device, Some(&request), [None, None], arithmetic);
                let consumed = consumptions(&device, Some(&request), arithmetic)[0].1.to_string();
                let found = fits.then_some(&*consumed);
                assert_eq!(found, expected, "{asked} of {capacity}, {arithmetic:?}");
            }
        }
    }

    #[test]
    fn rounding_beyond_64_bits_fits_at_1_36_only() {
        let capacity = json!({"value": "7Ei", "requestPolicy": {"default": "0",
            "validRange": {"min": "0", "step": "4Ei"}}});
        let (device, request) = (device(&capacity), request("6Ei"));
        let fits = |arithmetic| fits(&device, Some(&request), [None, None], arithmetic);
        assert_eq!([EXACT_1_36, CHECKED, FRACTIONS].map(fits), [true, false, false]);
    }

    #[test]
    fn negative_request_fits_at_1_36_only() {
        let (device, request) = (device(&json!({"value": "10"})), request("-3"));
        let fits = |arithmetic| fits(&device, Some(&request), [None, None], arithmetic);
        assert_eq!([EXACT_1_36, CHECKED].map(fits), [true, false]);
    }

    #[test]
    fn name_with_the_domain_of_the_driver_is_the_same_name_from_1_38_on() {
        let device = device(&json!({"value": "10"}));
        let spec = json!({"requests": [{"name": "r",
            "exactly": {"capacity": {"requests": {"a.com/x": "3"}}}}]});
        let spec: api::DeviceClaim = serde_json::from_value(spec).unwrap();
        let spec = framework::device::ClaimSpec::from_api(&spec);
        let request = spec.requests[0].bodies()[0].capacity.clone().unwrap();
        let of = |driver| Arithmetic { driver, ..CHECKED };
        let fits = |driver| fits(&device, Some(&request), [None, None], of(driver));
        assert_eq!([None, Some("a.com"), Some("b.com")].map(fits), [false, true, false]);
        assert_eq!(consumptions(&device, Some(&request), of(Some("a.com")))[0].1.to_string(), "3");
    }
}
