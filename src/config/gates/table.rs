//! The feature gates that kube-scheduler 1.36 reads.

use super::Stage::{self, Alpha, Beta, Ga};
use super::{ALL_ALPHA, ALL_BETA};

/// A feature gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// Maturity of the feature.
    pub stage: Stage,
    /// Whether the gate is on by default.
    pub default: bool,
    /// Whether the gate is locked to its default.
    pub locked: bool,
    /// Gates that this gate depends on.
    pub needs: &'static [&'static str],
    /// Support in Loadmaster.
    pub support: Support,
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
    /// The gate belongs to another component and has no effect here.
    Elsewhere,
}

impl Gate {
    pub(super) const fn new(
        name: &'static str,
        stage: Stage,
        default: bool,
        support: Support,
    ) -> Self {
        Self { name, stage, default, locked: false, needs: &[], support }
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

    pub(super) const fn lock(self) -> Self {
        Self { locked: true, ..self }
    }

    pub(super) const fn needs(self, needs: &'static [&'static str]) -> Self {
        Self { needs, ..self }
    }
}

const DRA: &[&str] = &["DynamicResourceAllocation"];
const GROUPS: &str = "scheduling of pod groups";
const LISTS: &str = "support for lists as attributes of devices";
const NODE_RESOURCES: &str = "support for devices that take node resources";
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
    Gate::fixed("ContextualLogging", Beta),
    Gate::off("CoordinatedLeaderElection", Beta, "coordinated leader election"),
    Gate::locked("DRAAdminAccess").needs(DRA),
    Gate::on("DRAConsumableCapacity", Beta).needs(DRA),
    Gate::on("DRADeviceBindingConditions", Beta)
        .needs(&["DynamicResourceAllocation", "DRAResourceClaimDeviceStatus"]),
    Gate::new("DRADeviceTaintRules", Beta, false, Support::Follows).needs(&["DRADeviceTaints"]),
    Gate::on("DRADeviceTaints", Beta).needs(DRA),
    Gate::on("DRAExtendedResource", Beta).needs(DRA),
    Gate::off("DRAListTypeAttributes", Alpha, LISTS).needs(DRA),
    Gate::off("DRANodeAllocatableResources", Alpha, NODE_RESOURCES).needs(DRA),
    Gate::on("DRAPartitionableDevices", Beta).needs(DRA),
    Gate::on("DRAPrioritizedList", Ga).needs(DRA),
    Gate::on("DRAResourceClaimDeviceStatus", Beta),
    Gate::on("DRASchedulerFilterTimeout", Beta).needs(DRA),
    Gate::off("DRAWorkloadResourceClaims", Alpha, GROUPS)
        .needs(&["DynamicResourceAllocation", "GenericWorkload"]),
    Gate::locked("DynamicResourceAllocation"),
    Gate::off("GangScheduling", Alpha, GROUPS).needs(&["GenericWorkload"]),
    Gate::off("GenericWorkload", Alpha, GROUPS),
    Gate::fixed("InformerResourceVersion", Ga),
    Gate::locked("InOrderInformers"),
    Gate::fixed("InOrderInformersBatchProcess", Beta),
    Gate::fixed("InPlacePodLevelResourcesVerticalScaling", Beta).needs(&[
        "InPlacePodVerticalScaling",
        "PodLevelResources",
        "NodeDeclaredFeatures",
    ]),
    Gate::locked("InPlacePodVerticalScaling"),
    Gate::new("LoggingAlphaOptions", Alpha, false, Support::Follows),
    Gate::fixed("LoggingBetaOptions", Beta),
    Gate::fixed("MatchLabelKeysInPodTopologySpread", Beta),
    Gate::off("NativeHistograms", Alpha, "native histograms"),
    Gate::on("NodeDeclaredFeatures", Beta),
    Gate::locked("NodeInclusionPolicyInPodTopologySpread"),
    Gate::fixed("NominatedNodeNameForExpectation", Beta),
    Gate::fixed("OpportunisticBatching", Beta),
    Gate::fixed("PodLevelResources", Beta),
    Gate::off("SchedulerAsyncAPICalls", Beta, "the API call dispatcher"),
    Gate::fixed("SchedulerAsyncPreemption", Beta),
    Gate::fixed("SchedulerPopFromBackoffQ", Beta),
    Gate::locked("SchedulerQueueingHints"),
    Gate::locked("SidecarContainers"),
    Gate::new("StorageCapacityScoring", Alpha, false, Support::Follows),
    Gate::new("TaintTolerationComparisonOperators", Alpha, false, Support::Follows),
    Gate::off("TopologyAwareWorkloadScheduling", Alpha, GROUPS).needs(&["GenericWorkload"]),
    Gate::fixed("UnlockWhileProcessingFIFO", Beta),
    Gate::locked("VolumeAttributesClass"),
    Gate::new("VolumeLimitScaling", Alpha, false, Support::Follows),
    Gate::fixed("WatchListClient", Beta),
    Gate::off("WorkloadAwarePreemption", Alpha, "preemption of pod groups")
        .needs(&["GangScheduling"]),
];
