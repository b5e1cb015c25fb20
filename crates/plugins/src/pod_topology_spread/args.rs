//! `PodTopologySpreadArgs`: decoding, defaults and validation.

use framework::{PluginArgs, TopologySpreadConstraint, WhenUnsatisfiable, api};
use serde::{Deserialize, Serialize};

use crate::args::{Faults, decode_strictly, null_as_default, quoted};

/// The sources of default constraints.
const DEFAULTING_TYPES: [&str; 2] = [SYSTEM, LIST];
const SYSTEM: &str = "System";
const LIST: &str = "List";

/// The actions for a pod that fits no domain.
const UNSATISFIABLE_ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];

/// The constraints of pods that define none themselves.
#[derive(Debug)]
pub(super) struct DefaultConstraints {
    pub(super) constraints: Vec<TopologySpreadConstraint>,
    /// Whether they are the built-in constraints (`defaultingType: System`), not a list.
    pub(super) are_system: bool,
}

impl DefaultConstraints {
    /// Decodes and validates the arguments.
    ///
    /// # Errors
    /// Returns all errors, with the texts of kube-scheduler.
    pub(super) fn decode(args: &PluginArgs) -> Result<Self, String> {
        let mut args: Args = decode_strictly(args)?;
        if args.defaulting_type.is_empty() {
            SYSTEM.clone_into(&mut args.defaulting_type);
        }
        let mut faults = Faults::default();
        args.check(&mut faults);
        let args = faults.none_or(args)?;
        let are_system = args.defaulting_type == SYSTEM;
        let constraints = match are_system {
            true => system_constraints(),
            false => {
                args.default_constraints.iter().map(TopologySpreadConstraint::compile).collect()
            }
        };
        Ok(Self { constraints, are_system })
    }

    /// Whether any default constraint is hard.
    pub(super) fn have_hard(&self) -> bool {
        let hard = WhenUnsatisfiable::DoNotSchedule;
        self.constraints.iter().any(|own| own.when_unsatisfiable == hard)
    }
}

fn system_constraints() -> Vec<TopologySpreadConstraint> {
    let soft = |max_skew, topology_key: &str| {
        TopologySpreadConstraint::compile(&api::TopologySpreadConstraint {
            max_skew,
            topology_key: topology_key.to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            ..api::TopologySpreadConstraint::default()
        })
    };
    vec![soft(3, super::HOSTNAME), soft(5, "topology.kubernetes.io/zone")]
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Args {
    #[serde(deserialize_with = "null_as_default")]
    default_constraints: Vec<api::TopologySpreadConstraint>,
    #[serde(deserialize_with = "null_as_default")]
    defaulting_type: String,
}

impl Args {
    fn check(&self, faults: &mut Faults) {
        let (kind, constraints) = (&self.defaulting_type, &self.default_constraints);
        if !DEFAULTING_TYPES.contains(&kind.as_str()) {
            unsupported("defaultingType", kind, DEFAULTING_TYPES, faults);
        } else if kind == SYSTEM && !constraints.is_empty() {
            let rule = "when .defaultConstraints are not empty";
            faults.invalid("defaultingType", quoted(kind), rule);
        }
        for (index, constraint) in constraints.iter().enumerate() {
            let path = format!("defaultConstraints[{index}]");
            check_constraint(&path, constraint, faults);
            let repeats = |earlier: &api::TopologySpreadConstraint| {
                earlier.topology_key == constraint.topology_key
                    && earlier.when_unsatisfiable == constraint.when_unsatisfiable
            };
            if constraints[..index].iter().any(repeats) {
                let (key, action) = (&constraint.topology_key, &constraint.when_unsatisfiable);
                let value = quoted(&format!("{{{key}, {action}}}"));
                faults.add(format!("{path}: Duplicate value: {value}"));
            }
        }
    }
}

fn check_constraint(path: &str, constraint: &api::TopologySpreadConstraint, faults: &mut Faults) {
    if constraint.max_skew <= 0 {
        let path = format!("{path}.maxSkew");
        faults.invalid(&path, constraint.max_skew, "not in valid range (0, inf)");
    }
    let key = format!("{path}.topologyKey");
    match constraint.topology_key.as_str() {
        "" => required(&key, faults),
        name => faults.check_label_name(&key, name),
    }
    let action = format!("{path}.whenUnsatisfiable");
    match constraint.when_unsatisfiable.as_str() {
        "" => required(&action, faults),
        name if UNSATISFIABLE_ACTIONS.contains(&name) => {}
        name => unsupported(&action, name, UNSATISFIABLE_ACTIONS, faults),
    }
    if constraint.label_selector.is_some() {
        let rule = "constraint must not define a selector, as they deduced for each pod";
        faults.add(format!("{path}.labelSelector: Forbidden: {rule}"));
    }
}

fn required(path: &str, faults: &mut Faults) {
    faults.add(format!("{path}: Required value: can not be empty"));
}

fn unsupported(path: &str, value: &str, supported: [&str; 2], faults: &mut Faults) {
    let (value, supported) = (quoted(value), supported.map(quoted).join(", "));
    faults.add(format!("{path}: Unsupported value: {value}: supported values: {supported}"));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn decode(args: Value) -> Result<DefaultConstraints, String> {
        DefaultConstraints::decode(&PluginArgs::new(args))
    }

    #[test]
    fn system_defaults_are_soft_over_nodes_and_zones() {
        for args in [json!({}), json!({"defaultingType": "System", "defaultConstraints": null})] {
            let defaults = decode(args).unwrap();
            assert!(defaults.are_system && !defaults.have_hard());
            let rows = defaults.constraints.iter().map(|own| (own.max_skew, &*own.topology_key));
            let expected = [(3, "kubernetes.io/hostname"), (5, "topology.kubernetes.io/zone")];
            assert!(rows.eq(expected));
        }
    }

    #[test]
    fn list_replaces_the_system_constraints() {
        let constraint =
            json!({"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"});
        let list = json!({"defaultingType": "List", "defaultConstraints": [constraint]});
        let defaults = decode(list).unwrap();
        assert!(!defaults.are_system && defaults.have_hard());
        let none = decode(json!({"defaultingType": "List"})).unwrap();
        assert!(!none.are_system && none.constraints.is_empty());
    }

    #[test]
    fn errors_have_the_texts_of_kube_scheduler() {
        let constraint = |change: Value| {
            let mut constraint =
                json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
            let fields = constraint.as_object_mut().unwrap();
            fields.extend(change.as_object().unwrap().clone());
            constraint
        };
        let list = |own: &[Value]| json!({"defaultingType": "List", "defaultConstraints": own});
        let plain = constraint(json!({}));
        let rows = [
            (json!({"defaultingTyp": "List"}), "unknown field \"defaultingTyp\""),
            (
                list(&[constraint(json!({"skew": 1}))]),
                "unknown field \"defaultConstraints[0].skew\"",
            ),
            (
                json!({"defaultingType": "Odd"}),
                "defaultingType: Unsupported value: \"Odd\": supported values: \"System\", \
                 \"List\"",
            ),
            (
                json!({"defaultConstraints": [plain]}),
                "defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty",
            ),
            (
                list(&[constraint(json!({"maxSkew": 0}))]),
                "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
            ),
            (
                list(&[constraint(json!({"topologyKey": "", "whenUnsatisfiable": ""}))]),
                "[defaultConstraints[0].topologyKey: Required value: can not be empty, \
                 defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty]",
            ),
            (
                list(&[constraint(json!({"topologyKey": "/zone"}))]),
                "defaultConstraints[0].topologyKey: Invalid value: \"/zone\": prefix part must be \
                 non-empty",
            ),
            (
                list(&[constraint(json!({"whenUnsatisfiable": "Never"}))]),
                "defaultConstraints[0].whenUnsatisfiable: Unsupported value: \"Never\": supported \
                 values: \"DoNotSchedule\", \"ScheduleAnyway\"",
            ),
            (
                list(&[constraint(json!({"labelSelector": {}}))]),
                "defaultConstraints[0].labelSelector: Forbidden: constraint must not define a \
                 selector, as they deduced for each pod",
            ),
            (
                list(&[plain.clone(), plain.clone()]),
                "defaultConstraints[1]: Duplicate value: \"{zone, DoNotSchedule}\"",
            ),
        ];
        for (args, expected) in rows {
            assert_eq!(decode(args).unwrap_err(), expected);
        }
    }
}
