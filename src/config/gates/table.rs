//! The table of feature gates that kube-scheduler reads, with their stage, default and lock at each
//! level.
//!
//! A row begins with the state at 1.36. A change at a later level follows it.

use framework::Level::{self, V1_37, V1_38};

use super::Stage::{self, Alpha, Beta, Ga};
use super::{ALL_ALPHA, ALL_BETA};

/// A feature gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// Its state at each level, in the order of [`Level::ALL`]; `None` where the gate does not
    /// exist.
    states: [Option<State>; Level::ALL.len()],
    /// Gates that this gate depends on.
    pub needs: &'static [&'static str],
    /// The gate that switches the feature at the levels after the last one that has this gate.
    pub part_of: Option<&'static str>,
    /// Support in Loadmaster.
    pub support: Support,
}

/// The state of a gate at one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Maturity of the feature.
    pub stage: Stage,
    /// Whether the gate is on by default.
    pub default: bool,
    /// Whether the gate is locked to its default.
    pub locked: bool,
    /// The oldest version that the scheduler has to be compatible with for this default; with an
    /// older one the gate is off by default.
    pub min_compatibility: Option<Level>,
}

/// Support of a gate in Loadmaster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// Both values have their effect.
    Follows,
    /// The gate cannot be switched off; the behaviour is the default one.
    Fixed,
    /// The feature is not built; the text names the missing part.
    Missing(&'static str),
    /// The gate changes no decision and has no effect here; the text says so to the person who
    /// switched it on.
    NoEffect(&'static str),
    /// The gate belongs to another component and has no effect here.
    Elsewhere,
}

impl Gate {
    /// Returns a gate with this state at every level.
    pub(super) const fn new(
        name: &'static str,
        stage: Stage,
        default: bool,
        support: Support,
    ) -> Self {
        let state = State { stage, default, locked: false, min_compatibility: None };
        let states = [Some(state); Level::ALL.len()];
        Self { name, states, needs: &[], part_of: None, support }
    }

    /// A gate that is on, and that can be switched off in Kubernetes but not in Loadmaster.
    const fn fixed(name: &'static str, stage: Stage) -> Self {
        Self::new(name, stage, true, Support::Fixed)
    }

    /// A gate that is on and can be switched off.
    const fn on(name: &'static str, stage: Stage) -> Self {
        Self::new(name, stage, true, Support::Follows)
    }

    /// A gate that is locked to on.
    const fn locked(name: &'static str) -> Self {
        Self::fixed(name, Ga).lock()
    }

    /// A gate that is off, and the missing part if it is switched on.
    const fn off(name: &'static str, stage: Stage, missing: &'static str) -> Self {
        Self::new(name, stage, false, Support::Missing(missing))
    }

    /// Sets the state from a level on.
    const fn set_from(mut self, level: Level, state: Option<State>) -> Self {
        let mut index = 0;
        while index < Level::ALL.len() {
            if Level::ALL[index].is_at_least(level) {
                self.states[index] = state;
            }
            index += 1;
        }
        self
    }

    /// Another stage and default from a level on.
    pub(super) const fn becomes(self, level: Level, stage: Stage, default: bool) -> Self {
        let state = State { stage, default, locked: false, min_compatibility: None };
        self.set_from(level, Some(state))
    }

    /// The gate is locked at every level.
    pub(super) const fn lock(self) -> Self {
        self.lock_from(Level::ALL[0])
    }

    /// The gate is locked to its default, as part of a generally available feature, from a level
    /// on.
    pub(super) const fn lock_from(self, level: Level) -> Self {
        let last = Level::ALL.len() - 1;
        match self.states[last] {
            Some(State { stage: Beta, default, min_compatibility, .. }) => {
                let state = State { stage: Ga, default, locked: true, min_compatibility };
                self.set_from(level, Some(state))
            }
            Some(state) => self.set_from(level, Some(State { locked: true, ..state })),
            None => self,
        }
    }

    /// The gate exists from a level on.
    pub(super) const fn new_in(self, level: Level) -> Self {
        let state = self.states[Level::ALL.len() - 1];
        self.set_from(Level::ALL[0], None).set_from(level, state)
    }

    /// The gate does not exist from a level on.
    pub(super) const fn removed_in(self, level: Level) -> Self {
        self.set_from(level, None)
    }

    /// Another gate switches the feature where this gate does not exist.
    const fn part_of(self, gate: &'static str) -> Self {
        Self { part_of: Some(gate), ..self }
    }

    /// The gate is off by default if the scheduler has to be compatible with an older version.
    const fn with_min_compatibility(self, level: Level) -> Self {
        match self.states[Level::ALL.len() - 1] {
            Some(state) => {
                let state = State { min_compatibility: Some(level), ..state };
                self.set_from(Level::ALL[0], Some(state))
            }
            None => self,
        }
    }

    pub(super) const fn needs(self, needs: &'static [&'static str]) -> Self {
        Self { needs, ..self }
    }

    /// Returns the state at a level; `None` if the gate does not exist there.
    pub fn at(&self, level: Level) -> Option<State> {
        let index = Level::ALL.iter().position(|own| *own == level)?;
        self.states[index]
    }

    /// Returns the levels at which the gate exists.
    pub fn levels(&self) -> impl Iterator<Item = Level> {
        let levels = Level::ALL.into_iter().zip(self.states);
        levels.filter_map(|(level, state)| state.map(|_| level))
    }
}

const DRA: &[&str] = &["DynamicResourceAllocation"];
const GROUP_TREES: &str = "scheduling of groups of pod groups";
const LISTS: &str = "support for lists as attributes of devices";
const NODE_RESOURCES: &str = "support for devices that take node resources";
pub(super) const SPEED: &str = "Warning: the gate has no effect here, it makes kube-scheduler faster and changes no \
                     decision";
const FORMAT: &str = "Warning: the gate has no effect here, metrics are served as text, and native \
                      histograms need protobuf";
const CBOR: &str = "the CBOR encoding of API requests";

/// Every gate, sorted by name.
pub(super) const GATES: &[Gate] = &[
    Gate::new(ALL_ALPHA, Alpha, false, Support::Follows),
    Gate::new(ALL_BETA, Beta, false, Support::Follows),
    Gate::fixed("AtomicFIFO", Beta),
    Gate::fixed("ClientsAllowCARotation", Beta),
    Gate::off("ClientsAllowCBOR", Alpha, CBOR),
    Gate::fixed("ClientsAllowTLSCacheGC", Beta),
    Gate::off("ClientsPreferCBOR", Alpha, CBOR),
    Gate::fixed("ComponentFlagz", Beta),
    Gate::fixed("ComponentStatusz", Beta),
    Gate::off("CompositePodGroup", Alpha, GROUP_TREES)
        .needs(&["TopologyAwareWorkloadScheduling"])
        .new_in(V1_37),
    Gate::fixed("ContextualLogging", Beta),
    Gate::off("CoordinatedLeaderElection", Beta, "coordinated leader election"),
    Gate::locked("DRAAdminAccess").needs(DRA),
    Gate::on("DRAConsumableCapacity", Beta).needs(DRA),
    Gate::off("DRADerivedAttributes", Alpha, "support for derived attributes of devices")
        .needs(DRA)
        .new_in(V1_37),
    Gate::on("DRADeviceBindingConditions", Beta)
        .needs(&["DynamicResourceAllocation", "DRAResourceClaimDeviceStatus"]),
    Gate::off("DRADeviceCompatibilityGroups", Alpha, "support for groups of compatible devices")
        .needs(&["DRAPartitionableDevices"])
        .new_in(V1_37),
    Gate::new("DRADeviceTaintRules", Beta, false, Support::Follows)
        .needs(&["DRADeviceTaints"])
        .becomes(V1_37, Ga, true)
        .lock_from(V1_38),
    Gate::on("DRADeviceTaints", Beta).needs(DRA).becomes(V1_37, Ga, true).lock_from(V1_38),
    Gate::on("DRAExtendedResource", Beta).needs(DRA).lock_from(V1_37),
    Gate::on("DRAFractionalCapacityRange", Beta)
        .needs(&["DRAConsumableCapacity"])
        .with_min_compatibility(V1_37)
        .new_in(V1_37),
    Gate::off("DRAListTypeAttributes", Alpha, LISTS).needs(DRA),
    Gate::off("DRANodeAllocatableResources", Alpha, NODE_RESOURCES).needs(DRA),
    Gate::off("DRAOptionalNodeOperations", Alpha, "support for devices without work on the node")
        .needs(DRA)
        .new_in(V1_37),
    Gate::on("DRAPartitionableDevices", Beta).needs(DRA),
    Gate::on("DRAPrioritizedList", Ga).needs(DRA).lock_from(V1_37),
    Gate::on("DRAResourceClaimDeviceStatus", Beta).lock_from(V1_37),
    Gate::on("DRASchedulerFilterTimeout", Beta).needs(DRA),
    Gate::new("DRAWorkloadResourceClaims", Alpha, false, Support::Follows)
        .needs(&["DynamicResourceAllocation", "GenericWorkload"])
        .becomes(V1_37, Beta, false),
    Gate::locked("DynamicResourceAllocation").removed_in(V1_38),
    Gate::new("GangScheduling", Alpha, false, Support::Follows)
        .needs(&["GenericWorkload"])
        .removed_in(V1_37)
        .part_of("GenericWorkload"),
    Gate::new("GenericWorkload", Alpha, false, Support::Follows).becomes(V1_37, Beta, false),
    Gate::fixed("InformerResourceVersion", Ga),
    Gate::locked("InOrderInformers"),
    Gate::fixed("InOrderInformersBatchProcess", Beta),
    Gate::fixed("InPlacePodLevelResourcesVerticalScaling", Beta).needs(&[
        "InPlacePodVerticalScaling",
        "PodLevelResources",
        "NodeDeclaredFeatures",
    ]),
    Gate::locked("InPlacePodVerticalScaling"),
    Gate::off(
        "InPlacePodVerticalScalingSchedulerPreemption",
        Alpha,
        "preemption for pods whose resize is deferred",
    )
    .needs(&["InPlacePodVerticalScaling"])
    .new_in(V1_37),
    Gate::new("InterPodAffinityHostnameFastPath", Alpha, false, Support::NoEffect(SPEED))
        .new_in(V1_37),
    Gate::new("LoggingAlphaOptions", Alpha, false, Support::Follows),
    Gate::fixed("LoggingBetaOptions", Beta),
    Gate::fixed("MatchLabelKeysInPodTopologySpread", Beta),
    Gate::new("NativeHistograms", Alpha, false, Support::NoEffect(FORMAT))
        .becomes(V1_37, Beta, true),
    Gate::on("NodeDeclaredFeatures", Beta).lock_from(V1_37),
    Gate::locked("NodeInclusionPolicyInPodTopologySpread"),
    Gate::fixed("NominatedNodeNameForExpectation", Beta),
    Gate::fixed("OpportunisticBatching", Beta),
    Gate::new("PodGroupPreemptionPolicy", Alpha, false, Support::Follows)
        .needs(&["GenericWorkload"])
        .new_in(V1_37),
    Gate::fixed("PodLevelResources", Beta),
    Gate::off("SchedulerAsyncAPICalls", Beta, "the API call dispatcher"),
    Gate::fixed("SchedulerAsyncPreemption", Beta),
    Gate::fixed("SchedulerPopFromBackoffQ", Beta),
    Gate::new("SchedulerPreQueueingHints", Alpha, false, Support::NoEffect(SPEED)).new_in(V1_37),
    Gate::locked("SchedulerQueueingHints").removed_in(V1_37),
    Gate::locked("SidecarContainers").removed_in(V1_37),
    Gate::new("StorageCapacityScoring", Alpha, false, Support::Follows).becomes(V1_37, Beta, true),
    Gate::new("TaintTolerationComparisonOperators", Alpha, false, Support::Follows),
    Gate::new("TopologyAwareWorkloadScheduling", Alpha, false, Support::Follows)
        .needs(&["GenericWorkload"]),
    Gate::fixed("UnlockWhileProcessingFIFO", Beta),
    Gate::locked("VolumeAttributesClass"),
    Gate::new("VolumeLimitScaling", Alpha, false, Support::Follows).becomes(V1_37, Beta, true),
    Gate::fixed("WatchListClient", Beta),
    Gate::new("WorkloadAwarePreemption", Alpha, false, Support::Follows)
        .needs(&["GangScheduling"])
        .removed_in(V1_37)
        .part_of("GenericWorkload"),
];
