//! Counters of the engine that only metrics read.

/// A counter that the daemon exports as an alpha metric.
#[derive(Debug)]
pub struct EngineCounter {
    /// Name of the metric.
    pub name: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// The help text of the metric.
    pub help: &'static str,
    /// The text of its row in `docs/metrics.md` (Markdown), if the help text does not say it all.
    pub page: &'static str,
}

/// Requests to bind whose answer was lost.
pub static BINDS_OF_UNKNOWN_OUTCOME: EngineCounter = EngineCounter {
    name: "loadmaster_binds_of_unknown_outcome_total",
    labels: &[],
    help: "Requests to bind whose answer was lost.",
    page: "Requests to bind whose answer was lost. Each one is resolved by reading the pod; \
           `loadmaster_binding_cycles{phase=\"unknown\"}` counts the pods that are not resolved",
};

/// Pauses of preemption.
pub static PREEMPTION_PAUSES: EngineCounter = EngineCounter {
    name: "loadmaster_preemption_pauses_total",
    labels: &["paused"],
    help: "Times a pod was kept from preempting because too many preemptions led to no binding: \
           those for the `pod` itself, or those on a `node`.",
    page: "Pauses of preemption, of a `pod` or on a `node` \
           ([preemption wars](operations.md#preemption-wars))",
};

/// Rejections that repeat the condition of a pod.
pub static REPEATED_REJECTIONS: EngineCounter = EngineCounter {
    name: "loadmaster_repeated_rejections_total",
    labels: &["profile"],
    help: "Rejections of pods before the end of their backoff, or for pods of their template, that \
           repeat the condition of the pod. They are no attempts.",
    page: "Rejections before the end of the backoff, or of a pod that is tried for others of its \
           template, that repeat the condition of the pod ([0058](decisions/0058-looks.md)). They \
           are no attempts: only this metric, `scheduler_scheduling_algorithm_duration_seconds` \
           and the metrics of extension points and plugins count them",
};

/// Room that is held for pods and groups that wait.
pub static ROOM_RESERVATIONS: EngineCounter = EngineCounter {
    name: "loadmaster_room_reservations_total",
    labels: &["state"],
    help: "Reservations of room for a pod or group that waits: `made`, and how they ended: its \
           pods have `started`, it was `released` because they cannot start there, are gone or \
           are gated, or it has `expired`.",
    page: "[Reservations of room](reservations.md): `made`, and how they ended: the pods have \
           `started`, it was `released` because they cannot start there, are gone or are gated, \
           or it has `expired`",
};

/// Plans of moves that make room for a pod.
pub static MOVE_PLANS: EngineCounter = EngineCounter {
    name: "loadmaster_move_plans_total",
    labels: &["outcome"],
    help: "Plans of moves of pods that make room for a pod that waits: `not_found`, `completed`, \
           or what stopped them: the pod has a node, is gone or is gated (`unneeded`), the cluster \
           has changed (`outdated`), the API server has `refused` an eviction, the `successor` of \
           a moved pod was not as expected, or a move has `timed_out`.",
    page: "[Plans of moves](make-room.md): `not_found`, `completed`, or what stopped them: the pod \
           has a node, is gone or is gated (`unneeded`), the cluster has changed (`outdated`), the \
           API server has `refused` an eviction, the `successor` of a moved pod was not as \
           expected, or a move has `timed_out`",
};

/// Moves of pods.
pub static POD_MOVES: EngineCounter = EngineCounter {
    name: "loadmaster_pod_moves_total",
    labels: &["step"],
    help: "Moves of pods that make room for another: their eviction was `requested`, and their \
           successors were `placed`.",
    page: "[Moves of pods](make-room.md): their eviction was `requested`, and their successors \
           were `placed`",
};

/// All counters of the engine.
pub static ALL: [&EngineCounter; 6] = [
    &BINDS_OF_UNKNOWN_OUTCOME,
    &PREEMPTION_PAUSES,
    &REPEATED_REJECTIONS,
    &ROOM_RESERVATIONS,
    &MOVE_PLANS,
    &POD_MOVES,
];
