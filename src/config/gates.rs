//! Feature gates and the values of `--feature-gates`.

mod other_components;
mod table;

use std::collections::BTreeMap;
use std::fmt;

use framework::{Level, PluginGates};
use plugins::catalogue;

pub use table::{Gate, State, Support};

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

/// The gates with which the pods of a PodGroup are decided together.
const OF_GROUPS: [&str; 2] = ["GenericWorkload", "GangScheduling"];

/// The component that an entry may name before a colon.
const COMPONENT: &str = "kube";

/// Every gate of Kubernetes at any level: those that kube-scheduler reads, then those of other
/// components.
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
    /// The gate exists at other levels only.
    #[error(
        "unrecognized feature gate: {name} (it exists at level {}, and level {followed} is followed)",
        levels(existing)
    )]
    OtherLevel {
        /// The gate.
        name: &'static str,
        /// The levels at which it exists.
        existing: Vec<Level>,
        /// The level that is followed.
        followed: Level,
    },
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

fn levels(levels: &[Level]) -> String {
    levels.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
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

/// The level that is followed, and the feature gates in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gates {
    level: Level,
    /// The minor version of the oldest Kubernetes to be compatible with.
    min_compatibility: u32,
    /// Gates that were set, by name; all others have their defaults.
    set: BTreeMap<&'static str, bool>,
    /// Whether pods that belong to a group are scheduled like any other pod. It is a flag, as the
    /// gate of Kubernetes turns on more.
    group_members_alone: bool,
}

/// The gates of the default level.
impl Default for Gates {
    fn default() -> Self {
        Self::at(Level::default())
    }
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
    /// Returns the gates of a level, which is compatible with the version before.
    pub const fn at(level: Level) -> Self {
        Self {
            level,
            min_compatibility: level.minor() - 1,
            set: BTreeMap::new(),
            group_members_alone: false,
        }
    }

    /// Returns the gates of a scheduler that is compatible with this minor version of Kubernetes,
    /// too.
    #[must_use]
    pub fn with_min_compatibility(self, minor: u32) -> Self {
        Self { min_compatibility: minor, ..self }
    }

    /// Returns the level that is followed.
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Returns the minor version of the oldest Kubernetes to be compatible with.
    pub const fn min_compatibility(&self) -> u32 {
        self.min_compatibility
    }

    /// Parses the values of `--feature-gates` at the default level.
    ///
    /// # Errors
    /// See [`with_flags`](Self::with_flags).
    pub fn parse<'a>(flags: impl IntoIterator<Item = &'a str>) -> Result<Self, GateError> {
        Self::default().with_flags(flags)
    }

    /// Sets gates by the values of `--feature-gates`, such as `A=true,B=false`; later values win.
    ///
    /// # Errors
    /// An entry is malformed, unknown or locked, or a gate lacks one that it depends on.
    pub fn with_flags<'a>(
        mut self,
        flags: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, GateError> {
        let mut asked = BTreeMap::new();
        let entries = flags.into_iter().flat_map(|flag| flag.split(','));
        for entry in entries.map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, value) = parse_entry(of_component(entry)?)?;
            asked.insert(name, value);
        }
        let mut errors = Vec::new();
        for (name, value) in asked {
            match self.set(name, value) {
                Ok(()) => {}
                Err(error @ (GateError::Unknown(_) | GateError::OtherLevel { .. })) => {
                    return Err(error);
                }
                Err(error) => errors.push(error),
            }
        }
        let gates = GateError::none_or(errors, self)?;
        gates.check_needs()?;
        Ok(gates)
    }

    fn set(&mut self, name: &str, value: bool) -> Result<(), GateError> {
        let gate = find(name).ok_or_else(|| GateError::Unknown(name.to_owned()))?;
        let Some(state) = gate.at(self.level) else {
            let existing = gate.levels().collect();
            let (name, followed) = (gate.name, self.level);
            return Err(GateError::OtherLevel { name, existing, followed });
        };
        if state.locked && state.default != value {
            return Err(GateError::Locked { name: gate.name, default: state.default });
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
            Support::Follows | Support::Fixed | Support::NoEffect(_) | Support::Elsewhere => None,
        });
        GateError::none_or(errors.collect(), ())
    }

    /// Schedules pods that belong to a group like any other pod if `alone`.
    #[must_use]
    pub fn with_group_members_alone(self, alone: bool) -> Self {
        Self { group_members_alone: alone, ..self }
    }

    /// Whether no flag says how the pods of PodGroups are scheduled. Then the API server decides:
    /// it serves PodGroups, or it does not.
    pub fn leave_groups_open(&self) -> bool {
        !self.group_members_alone
            && self.of_groups().all(|(gate, state)| self.setting(gate, state).is_none())
    }

    /// Decides about the pods of a PodGroup together.
    ///
    /// Rule groups-that-are-served-are-enforced of docs/differences.toml.
    #[must_use]
    pub fn with_groups(mut self) -> Self {
        let names: Vec<_> = self.of_groups().map(|(gate, _)| gate.name).collect();
        self.set.extend(names.into_iter().map(|name| (name, true)));
        self
    }

    /// Returns the gates of [`with_groups`](Self::with_groups) as values of `--feature-gates`.
    pub fn group_flags(&self) -> impl Iterator<Item = String> {
        self.group_gates().map(|gate| format!("{gate}=true"))
    }

    /// Returns the names of the gates with which the pods of a PodGroup are decided together.
    pub fn group_gates(&self) -> impl Iterator<Item = &'static str> {
        self.of_groups().map(|(gate, _)| gate.name)
    }

    fn of_groups(&self) -> impl Iterator<Item = (&'static Gate, State)> {
        self.existing().filter(|(gate, _)| OF_GROUPS.contains(&gate.name))
    }

    /// Remarks for the person who set the gates. The texts about stages are those of Kubernetes.
    pub fn notices(&self) -> impl Iterator<Item = Notice> {
        all().filter_map(|gate| {
            let value = *self.set.get(gate.name)?;
            let state = gate.at(self.level)?;
            let text = match (gate.support, state.stage) {
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
                (Support::NoEffect(text), _) if value => text,
                (Support::Elsewhere, _) if value != state.default => {
                    "Warning: the gate has no effect here, only other components read it"
                }
                (_, Stage::Alpha | Stage::Beta) => return None,
            };
            Some(Notice { text, gate: gate.name, value })
        })
    }

    /// Whether the gate `name` is on; an unknown gate is off.
    pub fn is_on(&self, name: &str) -> bool {
        find(name).is_some_and(|gate| self.value(gate))
    }

    fn on(&self) -> impl Iterator<Item = &'static Gate> {
        self.existing().map(|(gate, _)| gate).filter(|gate| self.value(gate))
    }

    /// Returns the gates that exist at the level.
    pub fn existing(&self) -> impl Iterator<Item = (&'static Gate, State)> {
        all().filter_map(|gate| Some((gate, gate.at(self.level)?)))
    }

    /// Returns the value of a gate. A gate that was removed keeps its last default, unless another
    /// gate switches its feature.
    fn value(&self, gate: &Gate) -> bool {
        let Some(state) = gate.at(self.level) else {
            if let Some(other) = gate.part_of {
                return self.is_on(other);
            }
            let before = gate.levels().filter(|level| *level < self.level).last();
            return before.and_then(|level| gate.at(level)).is_some_and(|state| state.default);
        };
        let is_compatible =
            state.min_compatibility.is_none_or(|level| level.minor() <= self.min_compatibility);
        self.setting(gate, state).unwrap_or(state.default && is_compatible)
    }

    /// Returns the value that a flag gives to a gate, by its name or by its stage.
    fn setting(&self, gate: &Gate, state: State) -> Option<bool> {
        let of_stage = match state.stage {
            Stage::Alpha => self.set.get(ALL_ALPHA),
            Stage::Beta => self.set.get(ALL_BETA),
            Stage::Ga | Stage::Deprecated => None,
        };
        self.set.get(gate.name).or(of_stage).copied()
    }

    /// Whether pods are evicted for a gang. Where gangs are decided together, this is off only if a
    /// flag says so.
    ///
    /// Rule gangs-preempt-without-a-gate of docs/differences.toml.
    fn preempt_for_groups(&self) -> bool {
        const GATE: &str = "WorkloadAwarePreemption";
        let decided = find(GATE).and_then(|gate| self.setting(gate, gate.at(self.level)?));
        decided.unwrap_or_else(|| self.is_on("GangScheduling"))
    }

    /// Whether the pods of a PodGroup share its claims. Where groups are decided together, this is
    /// off only if a flag says so.
    ///
    /// Rule group-claims-without-a-gate of docs/differences.toml.
    fn share_group_claims(&self) -> bool {
        const GATE: &str = "DRAWorkloadResourceClaims";
        let decided = find(GATE).and_then(|gate| self.setting(gate, gate.at(self.level)?));
        decided.unwrap_or_else(|| self.is_on("GenericWorkload"))
    }

    /// The gates that plugins read.
    pub(super) fn of_plugins(&self) -> PluginGates {
        PluginGates {
            level: self.level,
            toleration_comparison: self.is_on("TaintTolerationComparisonOperators"),
            volume_limit_scaling: self.is_on("VolumeLimitScaling"),
            device_taint_rules: self.is_on("DRADeviceTaintRules"),
            device_taints: self.is_on("DRADeviceTaints"),
            partitionable_devices: self.is_on("DRAPartitionableDevices"),
            consumable_capacity: self.is_on("DRAConsumableCapacity"),
            prioritized_list: self.is_on("DRAPrioritizedList"),
            extended_resources: self.is_on("DRAExtendedResource"),
            fractional_capacity_range: self.is_on("DRAFractionalCapacityRange"),
            generic_workload: self.is_on("GenericWorkload"),
            only_basic_groups: self.is_on("GenericWorkload") && !self.is_on("GangScheduling"),
            workload_aware_preemption: self.preempt_for_groups(),
            pod_group_preemption_policy: self.is_on("PodGroupPreemptionPolicy"),
            workload_claims: self.share_group_claims(),
            group_members_alone: self.schedules_members_alone(),
        }
    }

    /// Whether the pods of groups are scheduled like any other pod: on request, or because the gate
    /// of groups is switched off by its name.
    fn schedules_members_alone(&self) -> bool {
        self.group_members_alone || self.set.get("GenericWorkload") == Some(&false)
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
        Gates::at(Level::V1_36).with_flags([flag])
    }

    #[test]
    fn the_table_is_sorted_and_consistent() {
        assert!(table::GATES.is_sorted_by_key(|gate| gate.name.to_lowercase()));
        assert!(other_components::GATES.is_sorted_by_key(|gate| gate.name));
        let names: std::collections::BTreeSet<_> = all().map(|gate| gate.name).collect();
        assert_eq!(names.len(), all().count(), "each gate is in the table once");
        for gate in all() {
            assert!(gate.needs.iter().all(|need| names.contains(need)), "{}", gate.name);
            assert!(gate.levels().next().is_some(), "{}", gate.name);
        }
        for level in Level::ALL {
            let gates = Gates::at(level);
            for (gate, state) in gates.existing() {
                assert!(state.stage != Stage::Alpha || !state.default, "{} {level}", gate.name);
                let fixed = matches!(state.stage, Stage::Ga | Stage::Deprecated);
                assert!(fixed || !state.locked, "{} {level}", gate.name);
            }
            for plugin in &catalogue::ALL {
                let Some(gate) = plugin.gate else { continue };
                assert_eq!(gates.is_on(gate.name), gate.on_by_default, "{} {level}", gate.name);
            }
            assert_eq!(gates.check_needs(), Ok(()), "{level}");
            assert_eq!(gates.check_built(), Ok(()), "{level}");
            assert_eq!(gates.of_plugins(), PluginGates::at(level));
        }
    }

    #[test]
    fn gates_change_with_the_level() {
        // The stage, the default and the lock at each level, as the sources of Kubernetes have
        // them.
        let rows = [
            ("StorageCapacityScoring", ["Alpha off", "Beta on", "Beta on"]),
            ("VolumeLimitScaling", ["Alpha off", "Beta on", "Beta on"]),
            ("DRADeviceTaintRules", ["Beta off", "Ga on", "Ga on locked"]),
            ("DRADeviceTaints", ["Beta on", "Ga on", "Ga on locked"]),
            ("DRAExtendedResource", ["Beta on", "Ga on locked", "Ga on locked"]),
            ("DRAPrioritizedList", ["Ga on", "Ga on locked", "Ga on locked"]),
            ("DRAResourceClaimDeviceStatus", ["Beta on", "Ga on locked", "Ga on locked"]),
            ("NodeDeclaredFeatures", ["Beta on", "Ga on locked", "Ga on locked"]),
            ("DRAFractionalCapacityRange", ["-", "Beta off", "Beta on"]),
            ("GenericWorkload", ["Alpha off", "Beta off", "Beta off"]),
            ("GangScheduling", ["Alpha off", "-", "-"]),
            ("SidecarContainers", ["Ga on locked", "-", "-"]),
            ("SchedulerPreQueueingHints", ["-", "Alpha off", "Alpha off"]),
            ("DynamicResourceAllocation", ["Ga on locked", "Ga on locked", "-"]),
            ("PodSchedulingReadiness", ["Ga on locked", "Ga on locked", "-"]),
            ("SchedulerAsyncAPICalls", ["Beta off", "Beta off", "Beta off"]),
            ("NativeHistograms", ["Alpha off", "Beta on", "Beta on"]),
            // Gates of other components.
            ("EtcdRangeStream", ["-", "Beta on", "Beta on"]),
            ("KubeProxyIPVS", ["-", "Deprecated on", "Deprecated on"]),
            ("APIServerTracing", ["Ga on locked", "-", "-"]),
            ("ClusterTrustBundle", ["Beta off", "Ga on", "Ga on"]),
            ("HostnameOverride", ["Beta on", "Ga on locked", "Ga on locked"]),
            ("ConditionalAuthorization", ["-", "-", "Alpha off"]),
        ];
        for (name, expected) in rows {
            let states = Level::ALL.map(|level| {
                let Some(state) = find(name).unwrap().at(level) else { return "-".to_owned() };
                let on = if Gates::at(level).is_on(name) { "on" } else { "off" };
                let locked = if state.locked { " locked" } else { "" };
                format!("{:?} {on}{locked}", state.stage)
            });
            assert_eq!(states, expected, "{name}");
        }
    }

    #[test]
    fn removed_gates_keep_their_feature() {
        let at = |level| Gates::at(level);
        assert!(at(Level::V1_37).is_on("SidecarContainers"));
        assert!(at(Level::V1_38).is_on("DynamicResourceAllocation"));
        assert!(!at(Level::V1_36).is_on("DRAFractionalCapacityRange"));
        let groups = at(Level::V1_37).with_flags(["GenericWorkload=true"]).unwrap();
        assert!(groups.is_on("GangScheduling") && groups.is_on("WorkloadAwarePreemption"));
        assert!(groups.allow(catalogue::get("GangScheduling").unwrap()));
        assert!(!at(Level::V1_36).is_on("GangScheduling"));
    }

    #[test]
    fn gate_of_another_level_is_named_with_its_level() {
        let rows = [
            (Level::V1_37, "GangScheduling=true", "GangScheduling", "1.36"),
            (Level::V1_36, "CompositePodGroup=true", "CompositePodGroup", "1.37 and 1.38"),
            (
                Level::V1_38,
                "PodSchedulingReadiness=true",
                "PodSchedulingReadiness",
                "1.36 and 1.37",
            ),
        ];
        for (level, flag, name, existing) in rows {
            let expected = format!(
                "unrecognized feature gate: {name} (it exists at level {existing}, and level {level} \
                 is followed)"
            );
            let error = Gates::at(level).with_flags([flag]).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn fractional_ranges_need_compatibility_with_1_37() {
        let is_on = |gates: Gates| gates.is_on("DRAFractionalCapacityRange");
        let at = Gates::at(Level::V1_37);
        assert!(!is_on(at.clone()) && is_on(at.clone().with_min_compatibility(37)));
        assert!(is_on(at.with_flags(["DRAFractionalCapacityRange=true"]).unwrap()));
    }

    #[test]
    fn served_pod_groups_decide_unless_a_flag_does() {
        let at = |level: Level, flags: &str| Gates::at(level).with_flags([flags]).unwrap();
        for level in Level::ALL {
            assert!(at(level, "VolumeLimitScaling=false").leave_groups_open(), "{level}");
            let on = Gates::at(level).with_groups();
            assert!(on.is_on("GenericWorkload") && on.is_on("GangScheduling"), "{level}");
            assert!(on.of_plugins().generic_workload && !on.leave_groups_open());
            assert_eq!(on.check_needs(), Ok(()), "{level}");
            let flags: Vec<_> = on.group_flags().collect();
            assert_eq!(at(level, &flags.join(",")), on);
            assert!(!Gates::at(level).with_group_members_alone(true).leave_groups_open());
        }
        for (level, flags) in [
            (Level::V1_37, "GenericWorkload=true"),
            (Level::V1_37, "GenericWorkload=false"),
            (Level::V1_37, "AllBeta=false"),
            (Level::V1_36, "AllAlpha=false"),
            (Level::V1_36, "GangScheduling=false"),
        ] {
            assert!(!at(level, flags).leave_groups_open(), "{flags}");
        }
    }

    #[test]
    fn gangs_preempt_unless_a_flag_forbids_it() {
        for (level, flags, expected) in [
            (Level::V1_36, "", false),
            (Level::V1_36, "GenericWorkload=true", false),
            (Level::V1_36, "GenericWorkload=true,GangScheduling=true", true),
            (
                Level::V1_36,
                "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=false",
                false,
            ),
            (Level::V1_36, "AllAlpha=true", true),
            (Level::V1_37, "", false),
            (Level::V1_37, "GenericWorkload=true", true),
        ] {
            let gates = Gates::at(level).with_flags([flags]).unwrap();
            assert_eq!(gates.of_plugins().workload_aware_preemption, expected, "{level} {flags}");
        }
        assert!(Gates::at(Level::V1_36).with_groups().of_plugins().workload_aware_preemption);
    }

    #[test]
    fn groups_share_claims_unless_a_flag_forbids_it() {
        for (level, flags, expected) in [
            (Level::V1_36, "", false),
            (Level::V1_36, "GenericWorkload=true", true),
            (Level::V1_36, "GenericWorkload=true,DRAWorkloadResourceClaims=true", true),
            (Level::V1_37, "", false),
            (Level::V1_37, "GenericWorkload=true", true),
            (Level::V1_37, "GenericWorkload=true,DRAWorkloadResourceClaims=false", false),
        ] {
            let gates = Gates::at(level).with_flags([flags]).unwrap();
            assert_eq!(gates.of_plugins().workload_claims, expected, "{level} {flags}");
            assert_eq!(gates.check_needs(), Ok(()), "{level} {flags}");
        }
        for level in Level::ALL {
            assert!(!Gates::at(level).is_on("DRAWorkloadResourceClaims"), "{level}");
            assert!(Gates::at(level).with_groups().of_plugins().workload_claims, "{level}");
        }
    }

    #[test]
    fn gate_that_is_switched_off_by_name_lets_members_go_alone() {
        let alone = |flags: &str| parse(flags).unwrap().of_plugins().group_members_alone;
        assert!(alone("GenericWorkload=false"));
        assert!(!alone("") && !alone("AllAlpha=false") && !alone("GenericWorkload=true"));
    }

    #[test]
    fn later_entries_win() {
        let gates = Gates::at(Level::V1_36).with_flags([
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
    fn gates_of_1_37_are_accepted_without_effect() {
        let flags =
            "EvictionRequestAPI=true,WatchListCompression=false,SchedulerPreQueueingHints=true";
        let gates = Gates::at(Level::V1_37).with_flags([flags]).unwrap();
        assert_eq!(gates.check_built(), Ok(()));
        let notices: Vec<_> = gates.notices().map(|notice| notice.to_string()).collect();
        let elsewhere = "Warning: the gate has no effect here, only other components read it";
        let expected = [
            format!("--feature-gates=SchedulerPreQueueingHints=true: {}", table::SPEED),
            format!("--feature-gates=EvictionRequestAPI=true: {elsewhere}"),
            format!("--feature-gates=WatchListCompression=false: {elsewhere}"),
        ];
        assert_eq!(notices, expected);
        let native = parse("NativeHistograms=true").unwrap();
        assert_eq!(native.check_built(), Ok(()));
        let text = "--feature-gates=NativeHistograms=true: Warning: the gate has no effect here, \
                    metrics are served as text, and native histograms need protobuf";
        assert_eq!(native.notices().next().unwrap().to_string(), text);
    }

    #[test]
    fn gates_of_missing_features_cannot_be_switched_on() {
        let gates = parse("DRANodeAllocatableResources=true").unwrap();
        assert_eq!(
            gates.check_built().unwrap_err().to_string(),
            "feature gate DRANodeAllocatableResources is on, but support for devices that take \
             node resources is not built yet"
        );
        let groups = parse("GenericWorkload=true,TopologyAwareWorkloadScheduling=true").unwrap();
        assert_eq!(groups.check_built(), Ok(()));
        assert!(groups.allow(catalogue::get("TopologyPlacementGenerator").unwrap()));
        assert_eq!(parse("SchedulerQueueingHints=true").unwrap().check_built(), Ok(()));
    }
}
