//! Feature gates and the values of `--feature-gates`.

mod other_components;
mod table;

use std::collections::BTreeMap;
use std::fmt;

use framework::PluginGates;
use plugins::catalogue;

pub use table::{Gate, Support};

/// Maturity of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Off by default.
    Alpha,
    /// Usually on.
    Beta,
    /// Generally available.
    Ga,
    /// About to be removed.
    Deprecated,
}

/// The gate that sets all alpha gates that are not set themselves.
const ALL_ALPHA: &str = "AllAlpha";

/// The gate that sets all beta gates that are not set themselves.
const ALL_BETA: &str = "AllBeta";

/// The component that an entry may name before a colon.
const COMPONENT: &str = "kube";

/// Every gate of Kubernetes 1.36: those that kube-scheduler reads, then those of other components.
pub fn all() -> impl Iterator<Item = &'static Gate> {
    table::GATES.iter().chain(other_components::GATES)
}

fn find(name: &str) -> Option<&'static Gate> {
    all().find(|gate| gate.name == name)
}

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
    /// An entry names another component before a colon.
    #[error("component not registered: {0}")]
    UnknownComponent(String),
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
    /// Whether pods that belong to a group are scheduled like any other pod. It is a flag, as the gate of Kubernetes
    /// turns on more.
    group_members_alone: bool,
}

/// A remark about a gate that was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The remark.
    pub text: &'static str,
    /// The gate.
    pub gate: &'static str,
    /// Its value.
    pub value: bool,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--feature-gates={}={}: {}", self.gate, self.value, self.text)
    }
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
            let (name, value) = parse_entry(of_component(entry)?)?;
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
        let gate = find(name).ok_or_else(|| GateError::Unknown(name.to_owned()))?;
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
            Support::Follows | Support::Fixed | Support::Elsewhere => None,
        });
        GateError::none_or(errors.collect(), ())
    }

    /// Schedules pods that belong to a group like any other pod if `alone`.
    #[must_use]
    pub fn with_group_members_alone(self, alone: bool) -> Self {
        Self { group_members_alone: alone, ..self }
    }

    /// Remarks for the person who set the gates. The texts about stages are those of Kubernetes.
    pub fn notices(&self) -> impl Iterator<Item = Notice> {
        all().filter_map(|gate| {
            let value = *self.set.get(gate.name)?;
            let text = match (gate.support, gate.stage) {
                (Support::Fixed, _) if !value => {
                    "Warning: the gate has no effect, what it switches is always on"
                }
                (_, Stage::Ga) => {
                    "Warning: setting GA feature gate. It will be removed in a future release."
                }
                (_, Stage::Deprecated) => {
                    "Warning: setting deprecated feature gate. It will be removed in a future \
                     release."
                }
                (Support::Elsewhere, _) if value != gate.default => {
                    "Warning: the gate has no effect here, only other components read it"
                }
                (_, Stage::Alpha | Stage::Beta) => return None,
            };
            Some(Notice { text, gate: gate.name, value })
        })
    }

    /// Whether the gate `name` is on; an unknown gate is off.
    pub fn is_on(&self, name: &str) -> bool {
        find(name).is_some_and(|gate| self.state(gate))
    }

    fn on(&self) -> impl Iterator<Item = &'static Gate> {
        all().filter(|gate| self.state(gate))
    }

    fn state(&self, gate: &Gate) -> bool {
        let of_stage = match gate.stage {
            Stage::Alpha => self.set.get(ALL_ALPHA),
            Stage::Beta => self.set.get(ALL_BETA),
            Stage::Ga | Stage::Deprecated => None,
        };
        self.set.get(gate.name).or(of_stage).copied().unwrap_or(gate.default)
    }

    /// The gates that plugins read.
    pub(super) fn of_plugins(&self) -> PluginGates {
        PluginGates {
            toleration_comparison: self.is_on("TaintTolerationComparisonOperators"),
            volume_limit_scaling: self.is_on("VolumeLimitScaling"),
            device_taint_rules: self.is_on("DRADeviceTaintRules"),
            device_taints: self.is_on("DRADeviceTaints"),
            partitionable_devices: self.is_on("DRAPartitionableDevices"),
            consumable_capacity: self.is_on("DRAConsumableCapacity"),
            prioritized_list: self.is_on("DRAPrioritizedList"),
            extended_resources: self.is_on("DRAExtendedResource"),
            group_members_alone: self.group_members_alone,
        }
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

/// Returns an entry without its component.
fn of_component(entry: &str) -> Result<&str, GateError> {
    match entry.split_once(':') {
        None => Ok(entry),
        Some((COMPONENT, entry)) => Ok(entry.trim()),
        Some((other, _)) => Err(GateError::UnknownComponent(other.to_owned())),
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
        assert!(table::GATES.is_sorted_by_key(|gate| gate.name.to_lowercase()));
        assert!(other_components::GATES.is_sorted_by_key(|gate| gate.name));
        let names: std::collections::BTreeSet<_> = all().map(|gate| gate.name).collect();
        assert_eq!(names.len(), all().count(), "each gate is in the table once");
        for gate in all() {
            assert!(gate.needs.iter().all(|need| names.contains(need)), "{}", gate.name);
            assert!(gate.stage != Stage::Alpha || !gate.default, "{}", gate.name);
            let fixed = matches!(gate.stage, Stage::Ga | Stage::Deprecated);
            assert!(fixed || !gate.locked, "{}", gate.name);
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
        let gates = Gates::parse([
            "InPlacePodLevelResourcesVerticalScaling=0,NodeDeclaredFeatures=true",
            "ExtendWebSocketsToKubelet=f, kube:InPlacePodVerticalScalingInitContainers=False",
            "RestartAllContainersOnContainerExits=FALSE,NodeDeclaredFeatures=false,",
        ]);
        let gates = gates.unwrap();
        assert!(!gates.is_on("NodeDeclaredFeatures"));
        assert!(gates.is_on("PodLevelResources") && !gates.is_on("Nonsense"));
        assert!(!gates.allow(catalogue::get("NodeDeclaredFeatures").unwrap()));
        let notices: Vec<_> = gates.notices().map(|notice| notice.to_string()).collect();
        let elsewhere = "Warning: the gate has no effect here, only other components read it";
        let expected = [
            "--feature-gates=InPlacePodLevelResourcesVerticalScaling=false: Warning: the gate has no \
             effect, what it switches is always on"
                .to_owned(),
            format!("--feature-gates=ExtendWebSocketsToKubelet=false: {elsewhere}"),
            format!("--feature-gates=InPlacePodVerticalScalingInitContainers=false: {elsewhere}"),
            format!("--feature-gates=RestartAllContainersOnContainerExits=false: {elsewhere}"),
        ];
        assert_eq!(notices, expected);
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
            ("ComponentSLIs=true", "unrecognized feature gate: ComponentSLIs"),
            ("other:GangScheduling=true", "component not registered: other"),
            (
                "KMSv1=true,GitRepoVolumeDriver=true",
                "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false",
            ),
            (
                "ClusterTrustBundleProjection=true",
                "ClusterTrustBundleProjection is enabled, but depends on features that are \
                 disabled: [ClusterTrustBundle]",
            ),
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
    fn gates_of_other_components_are_accepted() {
        let gates = parse(
            "MemoryQoS=true,kube:NodeLogQuery=true,StorageVersionAPI=true,KMSv1=true,\
             MaxUnavailableStatefulSet=false,RuntimeClassInImageCriApi=true,EnvFiles=false",
        );
        let gates = gates.unwrap();
        assert_eq!(gates.check_built(), Ok(()));
        let notices: Vec<_> = gates.notices().map(|notice| notice.to_string()).collect();
        let end = "feature gate. It will be removed in a future release.";
        let elsewhere = "Warning: the gate has no effect here, only other components read it";
        let expected = [
            format!("--feature-gates=EnvFiles=false: {elsewhere}"),
            format!("--feature-gates=KMSv1=true: Warning: setting deprecated {end}"),
            format!("--feature-gates=MemoryQoS=true: {elsewhere}"),
            format!("--feature-gates=NodeLogQuery=true: Warning: setting GA {end}"),
            format!("--feature-gates=RuntimeClassInImageCriApi=true: {elsewhere}"),
            format!("--feature-gates=StorageVersionAPI=true: {elsewhere}"),
        ];
        assert_eq!(notices, expected);
        assert!(gates.is_on("MemoryQoS") && !gates.is_on("EnvFiles"));
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
