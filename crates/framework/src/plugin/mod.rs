//! The plugin interface: extension points, statuses, events and queueing hints, the [`Handle`] and
//! the [`Registry`].

mod attempt;
mod cycle_state;
mod dry_run;
mod effect;
mod event;
mod extension;
mod feed;
mod group_trial;
mod handle;
mod hold_policy;
mod kept;
mod metrics;
mod move_policy;
mod per_node;
mod placement;
mod points;
mod queued;
mod registration;
mod registry;
mod scope;
mod score;
mod status;
mod verdicts;

pub use self::attempt::{Attempt, AttemptMut};
pub use self::cycle_state::{CycleState, StateData};
pub use self::dry_run::{DryRun, Trial};
pub use self::effect::{Answer, Binding, EventType, PodEvent, StatusPatch, Write, WriteAction};
pub use self::event::{
    ActionType, ClusterEvent, EventForPod, EventObjects, HintResult, QueueingHint,
};
pub use self::extension::{
    Bind, BindStep, Filter, MemberNomination, NominatingInfo, NormalizeScore, Permit,
    PermitVerdict, PlacementFeasible, PodDeleted, PodGroupPostFilter, PodGroupPostFilterResult,
    PodGroupProgress, PostBind, PostFilter, PostFilterResult, PreBind, PreBindInput,
    PreBindPreFlight, PreBindStep, PreEnqueue, PreFilter, PreFilterExtensions, PreFilterResult,
    PreScore, QueueSort, Reserve, Score, StandingQueries, Timer,
};
pub use self::feed::{
    ArgumentsFeed, Feed, FeedFuture, FeedSink, HttpFeed, HttpServer, ReadAnswers, Reload,
};
pub use self::group_trial::PodGroupTrial;
pub use self::handle::{
    Command, Commands, Handle, NominatedPods, PendingPods, WaitingPod, WaitingPods,
};
pub use self::hold_policy::{
    DEADLINE_FIELD, HoldPolicy, RUN_TIME_ANNOTATION, RUN_TIME_FIELD, run_time,
};
pub use self::kept::{ChangedNodes, Kept};
pub use self::metrics::{
    Counter, CounterVec, Gauge, GaugeVec, Histogram, HistogramSnapshot, HistogramVec, Metric,
    MetricKind, MetricVec, Sample, SampleValue,
};
pub use self::move_policy::{MovePolicy, Unmovable};
pub use self::per_node::PerNode;
pub use self::placement::{
    Division, DomainLabel, GroupPlacement, GroupPlacements, LevelDivision, LevelPlacement,
    PlacedGroup, PlacementGenerate, PlacementScore, PodRoom, Prospect, ProspectiveGroup,
};
pub use self::points::ExtensionPoint;
pub use self::queued::{
    EntityKey, History, MissingNodes, QueueTimes, QueuedEntity, QueuedGroup, QueuedPod, Waiting,
};
pub use self::registration::{EventRegistration, HintFn, Plugin, PluginBuilder};
pub use self::registry::{Factory, PluginArgs, PluginGates, PluginName, Registry, RegistryError};
pub use self::scope::{Dependence, FilterScope, NodeTier, PodPart, ScoreScope};
pub use self::score::{MAX_NODE_SCORE, MIN_NODE_SCORE, default_normalize_score};
pub use self::status::{Code, Status};
pub use self::verdicts::{Detail, Remedy, VerdictId, Verdicts};
