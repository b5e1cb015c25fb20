//! Objects as the API server prints them in errors about immutable fields: the internal structures
//! as JSON, with their field names in Go and all fields.

use serde_json::Value;

/// Structures and their fields: the name in Go, the name in the API, and the kind. `s` is a text,
/// `i` a number, `p` a pointer to anything that is printed as it is, `[` a list of structures, `*`
/// a pointer to a structure.
const STRUCTURES: [(&str, &str); 18] = [
    ("ResourceClaimSpec", "Devices devices DeviceClaim"),
    (
        "DeviceClaim",
        "Requests requests [DeviceRequest, Constraints constraints [DeviceConstraint, \
         Config config [DeviceClaimConfiguration",
    ),
    (
        "DeviceRequest",
        "Name name s, Exactly exactly *ExactDeviceRequest, \
         FirstAvailable firstAvailable [DeviceSubRequest",
    ),
    (
        "ExactDeviceRequest",
        "DeviceClassName deviceClassName s, Selectors selectors [DeviceSelector, \
         AllocationMode allocationMode s, Count count i, AdminAccess adminAccess p, \
         Tolerations tolerations [DeviceToleration, Capacity capacity *CapacityRequirements",
    ),
    (
        "DeviceSubRequest",
        "Name name s, DeviceClassName deviceClassName s, Selectors selectors [DeviceSelector, \
         AllocationMode allocationMode s, Count count i, \
         Tolerations tolerations [DeviceToleration, Capacity capacity *CapacityRequirements",
    ),
    ("DeviceSelector", "CEL cel *CELDeviceSelector"),
    ("CELDeviceSelector", "Expression expression s"),
    ("CapacityRequirements", "Requests requests p"),
    (
        "DeviceToleration",
        "Key key s, Operator operator s, Value value s, Effect effect s, \
         TolerationSeconds tolerationSeconds p",
    ),
    (
        "DeviceConstraint",
        "Requests requests p, MatchAttribute matchAttribute p, \
         DistinctAttribute distinctAttribute p",
    ),
    ("DeviceClaimConfiguration", "Requests requests p, Opaque opaque *OpaqueDeviceConfiguration"),
    ("OpaqueDeviceConfiguration", "Driver driver s, Parameters parameters p"),
    (
        "AllocationResult",
        "Devices devices DeviceAllocationResult, NodeSelector nodeSelector *NodeSelector, \
         AllocationTimestamp allocationTimestamp p",
    ),
    ("DeviceAllocationResult", "Results results [DeviceRequestAllocationResult, Config config p"),
    (
        "DeviceRequestAllocationResult",
        "Request request s, Driver driver s, Pool pool s, Device device s, \
         AdminAccess adminAccess p, Tolerations tolerations [DeviceToleration, \
         BindingConditions bindingConditions p, \
         BindingFailureConditions bindingFailureConditions p, ShareID shareID p, \
         ConsumedCapacity consumedCapacity p",
    ),
    ("NodeSelector", "NodeSelectorTerms nodeSelectorTerms [NodeSelectorTerm"),
    (
        "NodeSelectorTerm",
        "MatchExpressions matchExpressions [NodeSelectorRequirement, \
         MatchFields matchFields [NodeSelectorRequirement",
    ),
    ("NodeSelectorRequirement", "Key key s, Operator operator s, Values values p"),
];

/// Prints an object as this structure.
pub(super) fn print(structure: &str, value: &Value) -> String {
    let known = STRUCTURES.iter().find(|(name, _)| *name == structure);
    let fields = known.map_or("", |(_, fields)| fields);
    let fields = fields.split(", ").filter_map(|field| {
        let mut parts = field.split(' ');
        let (go, api, kind) = (parts.next()?, parts.next()?, parts.next()?);
        Some(format!("\"{go}\":{}", print_field(kind, &value[api])))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn print_field(kind: &str, value: &Value) -> String {
    match kind {
        "s" if value.is_null() => "\"\"".to_owned(),
        "i" if value.is_null() => "0".to_owned(),
        "s" | "i" | "p" => value.to_string(),
        list_or_pointer if value.is_null() && list_or_pointer.starts_with(['[', '*']) => {
            "null".to_owned()
        }
        _ => match kind.strip_prefix('[') {
            Some(item) => {
                let items = value.as_array().into_iter().flatten().map(|own| print(item, own));
                format!("[{}]", items.collect::<Vec<_>>().join(","))
            }
            None => print(kind.trim_start_matches('*'), value),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_is_printed_under_its_name_in_go() {
        let selector = json!({"cel": {"expression": "true"}});
        let request =
            json!({"name": "r", "firstAvailable": [{"name": "a", "selectors": [selector]}]});
        let printed = print("ResourceClaimSpec", &json!({"devices": {"requests": [request]}}));
        let expected = json!({"Devices": {
            "Requests": [{
                "Name": "r", "Exactly": null,
                "FirstAvailable": [{
                    "Name": "a", "DeviceClassName": "",
                    "Selectors": [{"CEL": {"Expression": "true"}}], "AllocationMode": "",
                    "Count": 0, "Tolerations": null, "Capacity": null,
                }],
            }],
            "Constraints": null, "Config": null,
        }});
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), expected);
    }

    #[test]
    fn every_structure_that_a_field_has_is_known() {
        for (name, fields) in STRUCTURES {
            for field in fields.split(", ") {
                let kind = field.rsplit(' ').next().unwrap().trim_start_matches(['[', '*']);
                let is_known = STRUCTURES.iter().any(|(other, _)| *other == kind);
                assert!(matches!(kind, "s" | "i" | "p") || is_known, "{name}: {field}");
            }
        }
    }
}
