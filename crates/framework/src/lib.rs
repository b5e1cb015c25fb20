//! The scheduling framework of Loadmaster: everything a plugin author sees.
//!
//! A plugin is a type that implements one trait per extension point of the Kubernetes scheduling
//! framework ([`PreFilter`], [`Filter`], [`Score`], …) and is put together with [`Plugin::new`]. The
//! engine runs plugins in the order of the pod's profile; names, order, status codes and merge rules
//! are those of kube-scheduler 1.36.
//!
//! - [`api`]: lean Kubernetes JSON types; [`Pod`] and [`Node`]: the compact forms made from them.
//! - [`Cluster`]: the read-only view of nodes and placed pods. Nodes are rows of a table with dense
//!   ids ([`NodeIx`]), hot numbers are columns, labels, taints, ports and images index sets of nodes.
//! - [`Filter`] and [`Score`] have a one-node form, which is all that must be written, and a whole-set
//!   form, which by default loops over it.
//! - [`Status`], [`CycleState`], [`ClusterEvent`] and [`QueueingHint`] mean what they mean in
//!   Kubernetes.
//!
//! Nothing here reads a clock, does I/O or draws random numbers.

pub mod api;
mod bits;
mod cluster;
mod cycle_state;
mod dry_run;
mod effect;
mod event;
mod extension;
mod extra;
mod handle;
mod labels;
mod merge_patch;
mod metrics;
mod node;
mod node_selector;
mod object_key;
mod plugin;
mod pod;
mod pod_query;
mod pod_volume;
mod pool;
pub mod preemption;
mod problem;
mod quantity;
mod queued;
mod registry;
mod resources;
mod score;
mod selector;
mod status;
pub mod storage;
mod taint;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod time;
mod topology_selector;
mod verdicts;

pub use bits::NodeBits;
pub use cluster::{
    AffinityTermKind, AttachedCounts, BudgetIx, CarriedTerm, Cluster, CpuMemoryColumns, CsiVolume,
    DisruptionBudget, DomainIx, FreeVolumes, ImageState, LabelKeyIx, NodeColumn, NodeIx, NodeView,
    Overlay, PlacedPod, PodCount, PodIx, Posting, ResourceColumns, ScalarAmount, ScalarColumn,
    Topology, UncountableVolume, VolumeGroup, VolumeGroupIx, VolumeKind, VolumeUses,
};
pub use cycle_state::{CycleState, StateData};
pub use dry_run::{DryRun, Trial};
pub use effect::{Answer, Binding, StatusPatch, Write};
pub use event::{ActionType, ClusterEvent, EventObjects, EventResource, QueueingHint};
pub use extension::{
    Bind, BindStep, Filter, NominatingInfo, NormalizeScore, Permit, PermitVerdict, PostBind,
    PostFilter, PostFilterResult, PreBind, PreBindInput, PreBindPreFlight, PreBindStep, PreEnqueue,
    PreFilter, PreFilterExtensions, PreFilterResult, PreScore, QueueSort, Reserve, Score,
    StandingQueries,
};
pub use extra::{Extra, ExtraFields};
pub use handle::{Command, Handle, NominatedPods, PendingPods, WaitingPod, WaitingPods};
pub use labels::{Labels, label_key_faults};
pub use merge_patch::merge_patch;
pub use metrics::{Counter, Gauge, Metric};
pub use node::{Node, NodeImage};
pub use node_selector::*;
pub use object_key::ObjectKey;
pub use plugin::{EventRegistration, ExtensionPoint, HintFn, Plugin, PluginBuilder};
pub use pod::{
    Controller, ControllerKind, DISRUPTION_TARGET, HostPort, PREEMPTION_BY_SCHEDULER, Pod,
    PodAffinity, PodAffinityTerm, PodKey, PodSpec, Protocol, ScheduledCondition,
    TopologySpreadConstraint, Uid, WeightedPodAffinityTerm, WhenUnsatisfiable,
};
pub use pod_query::{Namespaces, PodQuery};
pub use pod_volume::{PodVolume, PodVolumeSource};
pub use pool::PodPool;
pub use problem::Problem;
pub use quantity::*;
pub use queued::QueuedPod;
pub use registry::{Factory, PluginArgs, PluginName, Registry, RegistryError};
pub use resources::*;
pub use score::{MAX_NODE_SCORE, MIN_NODE_SCORE, default_normalize_score};
pub use selector::*;
pub use status::{Code, Status};
pub use taint::*;
pub use time::Time;
pub use topology_selector::*;
pub use verdicts::{VerdictId, Verdicts};
