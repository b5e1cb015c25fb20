//! Expressions that have a result for every device with what they read.

use crate::plan::{Attribute, Call, Plan, Root};
use crate::value::Value;

/// The known state of the type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Bool,
    Int,
    Quantity,
    /// A bool, an int or a string.
    Plain,
}

impl Sort {
    const fn is_plain(self) -> bool {
        matches!(self, Self::Bool | Self::Int | Self::Plain)
    }
}

/// Returns whether the plan results in a bool for every device that has all attributes and
/// capacities that it reads, if none of these attributes is a version.
///
/// Each part is evaluated at most once, and a comparison costs no more than a constant is long. So
/// the cost is at most proportional to the length of the expression.
pub(crate) fn is_total(plan: &Plan) -> bool {
    sort(plan) == Some(Sort::Bool)
}

/// Returns the type of the value that the plan always has; `None` if it may fail or is of another
/// type.
fn sort(plan: &Plan) -> Option<Sort> {
    match plan {
        Plan::Const(value) | Plan::Known { value, .. } => match value {
            Value::Bool(_) => Some(Sort::Bool),
            Value::Int(_) => Some(Sort::Int),
            Value::String(_) => Some(Sort::Plain),
            Value::Quantity(_) => Some(Sort::Quantity),
            _ => None,
        },
        Plan::Attribute(attribute) => sort_of_attribute(attribute),
        Plan::And(left, right) | Plan::Or(left, right) => {
            (is_total(left) && is_total(right)).then_some(Sort::Bool)
        }
        Plan::Call(call) => sort_of_call(call),
        // A value of another type is in no list.
        Plan::InConstants { value, .. } => sort(value).map(|_| Sort::Bool),
        _ => None,
    }
}

fn sort_of_attribute(attribute: &Attribute) -> Option<Sort> {
    if !matches!(attribute.root, Root::Device) {
        return None;
    }
    let keys = attribute.qualifiers.iter().map(|qualifier| match &qualifier.key {
        Plan::Const(Value::String(name)) if !qualifier.optional => Some(&**name),
        _ => None,
    });
    let keys: Vec<&str> = keys.collect::<Option<_>>()?;
    match keys[..] {
        ["attributes" | "capacity", _, _] if attribute.test => Some(Sort::Bool),
        _ if attribute.test => None,
        ["driver"] => Some(Sort::Plain),
        ["allowMultipleAllocations"] => Some(Sort::Bool),
        ["attributes", _, _] => Some(Sort::Plain),
        ["capacity", _, _] => Some(Sort::Quantity),
        _ => None,
    }
}

fn sort_of_call(call: &Call) -> Option<Sort> {
    let sorts: Vec<Sort> = call.args.iter().map(sort).collect::<Option<_>>()?;
    let has_constant = || call.args.iter().any(|arg| matches!(arg, Plan::Const(_)));
    match (call.function.name, &sorts[..]) {
        ("!_", [Sort::Bool])
        | ("_==_" | "_!=_" | "isGreaterThan" | "isLessThan", [Sort::Quantity, Sort::Quantity])
        | ("_<_" | "_<=_" | "_>_" | "_>=_", [Sort::Int, Sort::Int]) => Some(Sort::Bool),
        ("_==_" | "_!=_", [left, right])
            if left.is_plain() && right.is_plain() && has_constant() =>
        {
            Some(Sort::Bool)
        }
        ("compareTo", [Sort::Quantity, Sort::Quantity]) => Some(Sort::Int),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use framework::Quantity;

    use crate::{AttributeValue, DeviceView, Selector};

    #[test]
    fn total_expressions_have_a_result_for_every_device_with_what_they_read() {
        let values = [
            AttributeValue::String("a100"),
            AttributeValue::Int(3),
            AttributeValue::Int(-1),
            AttributeValue::Bool(true),
        ];
        let memory: Quantity = "40Gi".parse().unwrap();
        for expression in [
            "true",
            "device.driver == 'd.com'",
            "device.allowMultipleAllocations || device.driver != 'd.com'",
            "device.attributes['d.com'].model == 'a100'",
            "!('a100' != device.attributes['d.com'].model)",
            "device.attributes['other.com'].index != 3 && device.attributes['d.com'].model == true",
            "has(device.attributes['d.com'].model) && device.attributes['d.com'].model == 'b'",
            "device.capacity['d.com'].memory.compareTo(quantity('40Gi')) >= 0",
            "device.capacity['d.com'].memory.isGreaterThan(quantity('1Ki'))",
            "device.capacity['d.com'].memory == quantity('1Gi')",
            "device.attributes['d.com'].model in ['a', 'a100']",
        ] {
            let selector = Selector::compile(expression).unwrap();
            assert!(selector.is_total(), "{expression}");
            for value in values {
                let mut device = DeviceView::new("d.com");
                device.add_attribute("model", value).unwrap();
                device.add_attribute("other.com/index", value).unwrap();
                device.add_capacity("memory", &memory);
                assert!(selector.matches(&device).is_ok(), "{expression} {value:?}");
            }
        }
    }

    #[test]
    fn expressions_that_may_fail_are_not_total() {
        for expression in [
            "device.attributes['d.com'].model",
            "device.attributes['d.com'].index > 3",
            "device.attributes['d.com'].model == semver('1.2.3')",
            "device.attributes['d.com'].model == device.attributes['d.com'].index",
            "device.attributes['d.com'].model == quantity('1')",
            "device.attributes['d.com'].model.startsWith('a')",
            "device.attributes['d.com'].exists(name, name == 'model')",
            "device.attributes['d.com'].healthy && device.driver == 'd.com'",
            "device.attributes[device.driver].model == 'a'",
            "device.capacity['d.com'].memory.asInteger() == 1",
            "device.attributes['d.com'].?model.orValue('a') == 'a'",
            "device.driver == 'd.com' ? true : device.attributes['d.com'].healthy",
        ] {
            let selector = Selector::compile(expression).unwrap();
            assert!(!selector.is_total(), "{expression}");
        }
        let long = format!("device.driver == '{}'", "a".repeat(11_000));
        assert!(!Selector::compile(&long).unwrap().is_total());
    }
}
