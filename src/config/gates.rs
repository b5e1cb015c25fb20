//! Feature gates and the values of `--feature-gates`.

mod table;

use std::collections::BTreeMap;

use plugins::catalogue;

pub use table::{GATES, Gate, Support};

/// Maturity of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Off by default.
    Alpha,
    /// Usually on.
    Beta,
    /// Generally available.
    Ga,
}

/// Gates that set many others: the name, and the stage that they set.
const SPECIAL: [(&str, Stage); 2] = [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)];

/// The component prefix that an entry may have.
const COMPONENT: &str = "kube:";

/// Invalid values of feature gates, with the texts of kube-scheduler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// An entry lacks `=`.
    #[error("missing bool value for {0}")]
    NoValue(String),
    /// A value is neither true nor false.
    #[error(
        "invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax"
    )]
    NotBool {
        /// The gate.
        name: String,
        /// The value.
        value: String,
    },
    /// The gate does not exist.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// The gate is locked to its default.
    #[error("cannot set feature gate {name} to {}, feature is locked to {default}", !default)]
    Locked {
        /// The gate.
        name: &'static str,
        /// The locked value.
        default: bool,
    },
    /// The gate is on, and gates that it depends on are off.
    #[error("{name} is enabled, but depends on features that are disabled: [{}]", needs.join(" "))]
    Needs {
        /// The gate.
        name: &'static str,
        /// The gates that are off.
        needs: Vec<&'static str>,
    },
    /// The gate is on, and its feature is not built.
    #[error("feature gate {name} is on, but {missing} is not built yet")]
    NotBuilt {
        /// The gate.
        name: &'static str,
        /// What is missing.
        missing: &'static str,
    },
    /// Several errors.
    #[error("[{}]", list(.0))]
    Several(Vec<GateError>),
}

fn list(errors: &[GateError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl GateError {
    /// `value` if there are no errors.
    fn none_or<T>(mut errors: Vec<Self>, value: T) -> Result<T, Self> {
        match errors.len() {
            0 => Ok(value),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

/// The feature gates in effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gates {
    /// Gates that were set, by name; all others have their defaults.
    set: BTreeMap<&'static str, bool>,
    /// The value that was set for all gates of a stage.
    stages: Vec<(Stage, bool)>,
}

impl Gates {
    /// Parses the values of `--feature-gates`, such as `A=true,B=false`; later values win.
    ///
    /// # Errors
    /// An entry is malformed, unknown or locked, or a gate lacks one that it depends on.
    pub fn parse<'a>(flags: impl IntoIterator<Item = &'a str>) -> Result<Self, GateError> {
        let mut asked = BTreeMap::new();
        let entries = flags.into_iter().flat_map(|flag| flag.split(','));
        for entry in entries.map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, value) = parse_entry(entry.strip_prefix(COMPONENT).unwrap_or(entry))?;
            asked.insert(name, value);
        }
        let mut gates = Self::default();
        let mut errors = Vec::new();
        for (name, value) in asked {
            match gates.set(name, value) {
                Ok(()) => {}
                Err(error @ GateError::Unknown(_)) => return Err(error),
                Err(error) => errors.push(error),
            }
        }
        let gates = GateError::none_or(errors, gates)?;
        gates.check_needs()?;
        Ok(gates)
    }

    fn set(&mut self, name: &str, value: bool) -> Result<(), GateError> {
        if let Some((_, stage)) = SPECIAL.iter().find(|(special, _)| *special == name) {
            self.stages.push((*stage, value));
            return Ok(());
        }
        let gate = GATES.iter().find(|gate| gate.name == name);
        let gate = gate.ok_or_else(|| GateError::Unknown(name.to_owned()))?;
        if gate.locked && gate.default != value {
            return Err(GateError::Locked { name: gate.name, default: gate.default });
        }
        self.set.insert(gate.name, value);
        Ok(())
    }

    fn check_needs(&self) -> Result<(), GateError> {
        let errors = self.on().filter_map(|gate| {
            let needs: Vec<_> =
                gate.needs.iter().copied().filter(|need| !self.is_on(need)).collect();
            (!needs.is_empty()).then_some(GateError::Needs { name: gate.name, needs })
        });
        GateError::none_or(errors.collect(), ())
    }

    /// Rejects gates that are on while their feature is not built.
    ///
    /// # Errors
    /// The gates, and the missing features.
    pub fn check_built(&self) -> Result<(), GateError> {
        let errors = self.on().filter_map(|gate| match gate.support {
            Support::Missing(missing) => Some(GateError::NotBuilt { name: gate.name, missing }),
            Support::Follows | Support::Fixed => None,
        });
        GateError::none_or(errors.collect(), ())
    }

    /// Warnings for the person who set the gates.
    pub fn warnings(&self) -> Vec<String> {
        let gates = GATES.iter().filter_map(|gate| Some((gate, *self.set.get(gate.name)?)));
        let warnings = gates.filter_map(|(Gate { name, stage, support, .. }, value)| {
            if *support == Support::Fixed && !value {
                return Some(format!(
                    "feature gate {name}=false has no effect: what it switches is always on here"
                ));
            }
            (*stage == Stage::Ga).then(|| {
                format!(
                    "Setting GA feature gate {name}={value}. It will be removed in a future \
                     release."
                )
            })
        });
        warnings.collect()
    }

    /// Whether the gate `name` is on; an unknown gate is off.
    pub fn is_on(&self, name: &str) -> bool {
        GATES.iter().find(|gate| gate.name == name).is_some_and(|gate| self.state(gate))
    }

    fn on(&self) -> impl Iterator<Item = &'static Gate> {
        GATES.iter().filter(|gate| self.state(gate))
    }

    fn state(&self, gate: &Gate) -> bool {
        let of_stage = || {
            let stage = self.stages.iter().find(|(stage, _)| *stage == gate.stage);
            stage.filter(|_| !gate.locked).map(|(_, value)| *value)
        };
        self.set.get(gate.name).copied().or_else(of_stage).unwrap_or(gate.default)
    }

    /// Whether a plugin is in the default list.
    pub(super) fn allow(&self, plugin: &catalogue::Entry) -> bool {
        plugin.gate.is_none_or(|gate| self.is_on(gate.name))
    }

    /// Whether `filterTimeout` of dynamic resources applies.
    pub(super) fn filter_timeout(&self) -> bool {
        self.is_on("DRASchedulerFilterTimeout")
    }

    /// Whether `bindingTimeout` of dynamic resources applies.
    pub(super) fn binding_timeout(&self) -> bool {
        self.is_on("DRADeviceBindingConditions") && self.is_on("DRAResourceClaimDeviceStatus")
    }

    /// Whether `shape` of volume binding applies.
    pub(super) fn storage_capacity_scoring(&self) -> bool {
        self.is_on("StorageCapacityScoring")
    }
}

/// Parses one entry; the value is a boolean in the notation of Go.
fn parse_entry(entry: &str) -> Result<(&str, bool), GateError> {
    let Some((name, value)) = entry.split_once('=') else {
        return Err(GateError::NoValue(entry.to_owned()));
    };
    let (name, value) = (name.trim(), value.trim());
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok((name, true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok((name, false)),
        other => Err(GateError::NotBool { name: name.to_owned(), value: other.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flag: &str) -> Result<Gates, GateError> {
        Gates::parse([flag])
    }

    #[test]
    fn the_table_is_sorted_and_consistent() {
        let exists = |name: &str| GATES.iter().any(|gate| gate.name == name);
        for [one, next] in GATES.array_windows() {
            assert!(one.name.to_lowercase() != next.name.to_lowercase(), "{} twice", one.name);
        }
        for gate in GATES {
            assert!(gate.needs.iter().all(|need| exists(need)), "{}", gate.name);
            assert!(gate.stage != Stage::Alpha || !gate.default, "{}", gate.name);
            assert!(!gate.locked || gate.stage == Stage::Ga, "{}", gate.name);
        }
        for plugin in &catalogue::ALL {
            let Some(gate) = plugin.gate else { continue };
            assert_eq!(Gates::default().is_on(gate.name), gate.on_by_default, "{}", gate.name);
        }
        assert_eq!(Gates::default().check_needs(), Ok(()));
        assert_eq!(Gates::default().check_built(), Ok(()));
    }

    #[test]
    fn later_entries_win() {
        let gates =
            parse("DRASchedulerFilterTimeout=false, kube:NodeDeclaredFeatures=F").unwrap_err();
        let needs = vec!["NodeDeclaredFeatures"];
        let name = "InPlacePodLevelResourcesVerticalScaling";
        assert_eq!(gates, GateError::Needs { name, needs });
        let gates = Gates::parse([
            "InPlacePodLevelResourcesVerticalScaling=0,NodeDeclaredFeatures=true",
            "NodeDeclaredFeatures=false,",
        ]);
        let gates = gates.unwrap();
        assert!(!gates.is_on("NodeDeclaredFeatures"));
        assert!(gates.is_on("PodLevelResources") && !gates.is_on("Nonsense"));
        assert!(!gates.allow(catalogue::get("NodeDeclaredFeatures").unwrap()));
        assert!(!gates.warnings().is_empty());
    }

    #[test]
    fn all_alpha_and_all_beta_set_the_gates_that_are_not_set() {
        let gates = parse("AllAlpha=true,StorageCapacityScoring=false").unwrap();
        assert!(gates.is_on("GangScheduling") && gates.is_on("WorkloadAwarePreemption"));
        assert!(!gates.is_on("StorageCapacityScoring") && !gates.is_on("SchedulerAsyncAPICalls"));
        let gates = parse("AllBeta=false").unwrap();
        assert!(!gates.filter_timeout() && !gates.binding_timeout());
        assert!(gates.is_on("DynamicResourceAllocation"));
    }

    #[test]
    fn invalid_gates_have_the_error_texts_of_kubernetes() {
        let rows = [
            ("A", "missing bool value for A"),
            (
                "GangScheduling=maybe",
                "invalid value of GangScheduling=maybe, err: strconv.ParseBool: parsing \"maybe\": \
                 invalid syntax",
            ),
            ("Bogus=true", "unrecognized feature gate: Bogus"),
            (
                "SchedulerQueueingHints=false",
                "cannot set feature gate SchedulerQueueingHints to false, feature is locked to \
                 true",
            ),
            (
                "GangScheduling=true",
                "GangScheduling is enabled, but depends on features that are disabled: \
                 [GenericWorkload]",
            ),
            (
                "SidecarContainers=false,DRAAdminAccess=false",
                "[cannot set feature gate DRAAdminAccess to false, feature is locked to true, \
                 cannot set feature gate SidecarContainers to false, feature is locked to true]",
            ),
        ];
        for (flag, expected) in rows {
            assert_eq!(parse(flag).unwrap_err().to_string(), expected, "{flag}");
        }
    }

    #[test]
    fn gates_of_missing_features_cannot_be_switched_on() {
        let gates = parse("GenericWorkload=true").unwrap();
        assert_eq!(
            gates.check_built().unwrap_err().to_string(),
            "feature gate GenericWorkload is on, but scheduling of pod groups is not built yet"
        );
        assert_eq!(parse("SchedulerQueueingHints=true").unwrap().check_built(), Ok(()));
    }
}
