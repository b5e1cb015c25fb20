//! Plugins that answer from a script.

use framework::{Attempt, AttemptMut, Dependence, EventForPod, HintResult};
use std::sync::{Arc, Mutex, PoisonError};

use framework::*;

use super::{no, node_event, pod_event, yes};

/// The calls of plugins in order, as `Point Plugin arguments`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn push(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    /// Removes and returns all calls.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes all calls and returns those at these points.
    pub(crate) fn take_of(&self, points: &[&str]) -> Vec<String> {
        let mut lines = self.take();
        lines.retain(|line| points.iter().any(|point| line.split(' ').next() == Some(point)));
        lines
    }
}

type Hint = fn(&Fake, EventForPod<'_>) -> HintResult;

/// What points that only listen answer.
type Nothing = ();

/// Declares the script of each extension point and the method that sets it.
macro_rules! scripts {
    ($($point:ident: fn($($arg:ty),*) -> $answer:ty;)*) => {
        /// A plugin that implements the points it has a script for.
        #[derive(Default)]
        pub(crate) struct Fake {
            name: &'static str,
            log: Log,
            weight: i32,
            ignores_pods: bool,
            events: Option<Vec<(ClusterEvent, Option<Hint>)>>,
            $($point: Option<Box<dyn Fn($($arg),*) -> $answer + Send + Sync>>,)*
        }

        impl Fake {
            $(pub(crate) fn $point(
                mut self,
                script: impl Fn($($arg),*) -> $answer + Send + Sync + 'static,
            ) -> Self {
                self.$point = Some(Box::new(script));
                self
            })*
        }
    };
}

scripts! {
    queue_sort: fn(&QueuedEntity, &QueuedEntity) -> bool;
    pre_enqueue: fn(&Pod, &Handle<'_>) -> Status;
    pre_filter: fn(&Pod) -> Result<PreFilterResult, Status>;
    add_pod: fn(&mut CycleState, &Pod, &NodeView<'_>) -> Status;
    filter: fn(&Pod, &NodeView<'_>) -> Status;
    details: fn(&NodeBits) -> Vec<Detail>;
    post_filter: fn(&Pod, &Verdicts, &Handle<'_>) -> PostFilterResult;
    pre_score: fn(&Pod) -> Status;
    score: fn(&Pod, &NodeView<'_>) -> Result<i64, Status>;
    normalize: fn(&mut [i64]) -> Status;
    reserve: fn(&Pod, &str) -> Status;
    unreserve: fn(&Pod, &str) -> Nothing;
    permit: fn(&Pod, &Handle<'_>) -> PermitVerdict;
    pre_flight: fn(&Pod) -> PreBindPreFlight;
    pre_bind: fn(&Pod, PreBindInput<'_>) -> PreBindStep;
    bind: fn(&Pod, &str) -> BindStep;
    post_bind: fn(&Pod, &str) -> Nothing;
}

/// A plugin without any point yet.
pub(crate) fn fake(name: &'static str) -> Fake {
    Fake { name, ..Fake::default() }
}

impl Fake {
    /// Its filter looks at the node only.
    pub(crate) fn ignores_pods(self) -> Self {
        Self { ignores_pods: true, ..self }
    }

    /// Sets the weight of its scores.
    pub(crate) fn weight(mut self, weight: i32) -> Self {
        self.weight = weight;
        self
    }

    /// No event helps the pods it rejects, unless [`on`](Self::on) names one.
    pub(crate) fn no_events(mut self) -> Self {
        self.events.get_or_insert_default();
        self
    }

    /// This event helps the pods it rejects.
    pub(crate) fn on(mut self, event: ClusterEvent) -> Self {
        self.events.get_or_insert_default().push((event, None));
        self
    }

    /// This event helps the pods it rejects if the hint says so.
    pub(crate) fn on_with_hint(mut self, event: ClusterEvent, hint: Hint) -> Self {
        self.events.get_or_insert_default().push((event, Some(hint)));
        self
    }

    pub(crate) const fn sorts(&self) -> bool {
        self.queue_sort.is_some()
    }

    pub(crate) const fn binds(&self) -> bool {
        self.bind.is_some()
    }

    pub(super) const fn weight_of_scores(&self) -> i32 {
        self.weight
    }

    fn note(&self, point: &str, about: impl std::fmt::Display) {
        self.log.push(format!("{point} {} {about}", self.name));
    }

    /// Returns the plugin, which records every call in `log`.
    pub(super) fn plugin(mut self, log: &Log) -> Plugin {
        self.log = log.clone();
        let events = self.events.take();
        let points = [
            self.queue_sort.is_some(),
            self.pre_enqueue.is_some(),
            self.pre_filter.is_some(),
            self.add_pod.is_some(),
            self.filter.is_some(),
            self.post_filter.is_some(),
            self.pre_score.is_some(),
            self.score.is_some(),
            self.normalize.is_some(),
            self.reserve.is_some() || self.unreserve.is_some(),
            self.permit.is_some(),
            self.pre_bind.is_some() || self.pre_flight.is_some(),
            self.bind.is_some(),
            self.post_bind.is_some(),
        ];
        let mut builder = Plugin::new(self.name, self);
        let add: [fn(PluginBuilder<Self>) -> PluginBuilder<Self>; 14] = [
            PluginBuilder::queue_sort,
            PluginBuilder::pre_enqueue,
            PluginBuilder::pre_filter,
            PluginBuilder::pre_filter_extensions,
            PluginBuilder::filter,
            PluginBuilder::post_filter,
            PluginBuilder::pre_score,
            PluginBuilder::score,
            PluginBuilder::normalize_score,
            PluginBuilder::reserve,
            PluginBuilder::permit,
            PluginBuilder::pre_bind,
            PluginBuilder::bind,
            PluginBuilder::post_bind,
        ];
        for (add, _) in add.into_iter().zip(points).filter(|(_, scripted)| *scripted) {
            builder = add(builder);
        }
        if let Some(events) = events {
            builder = builder.no_events();
            for (event, hint) in events {
                builder = match hint {
                    None => builder.on(event),
                    Some(hint) => builder.on_with_hint(event, hint),
                };
            }
        }
        builder.build()
    }
}

/// Calls the script of a point that has one.
macro_rules! script {
    ($fake:ident.$point:ident($($arg:expr),*)) => {
        ($fake.$point.as_ref().expect("a point is implemented where it has a script"))($($arg),*)
    };
}

impl QueueSort for Fake {
    fn less(&self, a: &QueuedEntity, b: &QueuedEntity, _: &Handle<'_>) -> bool {
        script!(self.queue_sort(a, b))
    }
}

impl PreEnqueue for Fake {
    fn pre_enqueue(&self, pod: &Pod, handle: &Handle<'_>) -> Status {
        self.note("PreEnqueue", &pod.key.name);
        script!(self.pre_enqueue(pod, handle))
    }
}

impl PreFilter for Fake {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        self.note("PreFilter", &attempt.pod.key.name);
        script!(self.pre_filter(attempt.pod))
    }
}

impl PreFilterExtensions for Fake {
    fn add_pod(&self, attempt: AttemptMut<'_>, other: &Pod, node: &NodeView<'_>) -> Status {
        self.note("AddPod", format!("{} on {}", other.key.name, node.name()));
        script!(self.add_pod(attempt.state, other, node))
    }

    fn remove_pod(&self, _: AttemptMut<'_>, _: &Pod, _: &NodeView<'_>) -> Status {
        yes()
    }
}

impl Filter for Fake {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        self.note("Filter", format!("{} on {}", attempt.pod.key.name, node.name()));
        script!(self.filter(attempt.pod, node))
    }

    fn details(&self, _: &Attempt<'_>, rejected: &NodeBits) -> Vec<Detail> {
        self.details.as_ref().map_or_else(Vec::new, |script| script(rejected))
    }

    fn dependence(&self, _attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        let cluster = Dependence::on(FilterScope::Cluster);
        Some(if self.ignores_pods { cluster.without_pods() } else { cluster })
    }
}

impl PostFilter for Fake {
    fn post_filter(
        &self,
        attempt: AttemptMut<'_>,
        verdicts: &Verdicts,
        _: &mut dyn DryRun,
    ) -> PostFilterResult {
        self.note("PostFilter", &attempt.pod.key.name);
        script!(self.post_filter(attempt.pod, verdicts, attempt.handle))
    }
}

impl PreScore for Fake {
    fn pre_score(&self, attempt: AttemptMut<'_>, nodes: &[NodeIx]) -> Status {
        let names: Vec<&str> =
            nodes.iter().map(|node| &**attempt.handle.cluster.node_name(*node)).collect();
        self.note("PreScore", names.join(","));
        script!(self.pre_score(attempt.pod))
    }
}

impl Score for Fake {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        self.note("Score", format!("{} on {}", attempt.pod.key.name, node.name()));
        script!(self.score(attempt.pod, node))
    }
}

impl NormalizeScore for Fake {
    fn normalize_score(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Status {
        self.note("Normalize", &attempt.pod.key.name);
        script!(self.normalize(scores.values))
    }
}

impl Reserve for Fake {
    fn reserve(&self, attempt: AttemptMut<'_>, node: &str) -> Status {
        self.note("Reserve", format!("{} on {node}", attempt.pod.key.name));
        self.reserve.as_ref().map_or(yes(), |reserve| reserve(attempt.pod, node))
    }

    fn unreserve(&self, attempt: AttemptMut<'_>, node: &str) {
        self.note("Unreserve", format!("{} on {node}", attempt.pod.key.name));
        if let Some(unreserve) = &self.unreserve {
            unreserve(attempt.pod, node);
        }
    }
}

impl Permit for Fake {
    fn permit(&self, attempt: AttemptMut<'_>, node: &str) -> PermitVerdict {
        self.note("Permit", format!("{} on {node}", attempt.pod.key.name));
        script!(self.permit(attempt.pod, attempt.handle))
    }
}

impl PreBind for Fake {
    /// Without a script there is something to do, alone.
    fn pre_flight(&self, attempt: &Attempt<'_>, _: &str) -> PreBindPreFlight {
        self.note("PreFlight", &attempt.pod.key.name);
        let run = PreBindPreFlight::Run { allow_parallel: false };
        self.pre_flight.as_ref().map_or(run, |pre_flight| pre_flight(attempt.pod))
    }

    fn pre_bind(&self, attempt: AttemptMut<'_>, _: &str, input: PreBindInput<'_>) -> PreBindStep {
        self.note("PreBind", format!("{} {input:?}", attempt.pod.key.name));
        script!(self.pre_bind(attempt.pod, input))
    }
}

impl Bind for Fake {
    fn bind(&self, attempt: &Attempt<'_>, node: &str) -> BindStep {
        self.note("Bind", format!("{} to {node}", attempt.pod.key.name));
        script!(self.bind(attempt.pod, node))
    }
}

impl PostBind for Fake {
    fn post_bind(&self, attempt: &Attempt<'_>, node: &str) {
        self.note("PostBind", format!("{} to {node}", attempt.pod.key.name));
        script!(self.post_bind(attempt.pod, node));
    }
}

/// NodeResourcesFit in a few lines: cpu and number of pods.
pub(crate) fn fit() -> Fake {
    fit_as("Fit")
}

/// The same under this name.
pub(crate) fn fit_as(name: &'static str) -> Fake {
    let grows = node_event(ActionType::ADD | ActionType::UPDATE_NODE_ALLOCATABLE);
    let shrinks = pod_event(ActionType::DELETE | ActionType::UPDATE_POD_SCALE_DOWN);
    fake(name).on(grows).on(shrinks).filter(|pod, node| {
        let free = node.allocatable().milli_cpu - node.requested().milli_cpu;
        match node.pod_count() < node.allowed_pods() {
            false => no("Too many pods"),
            true if pod.requests.fit.milli_cpu > free => no("Insufficient cpu"),
            true => yes(),
        }
    })
}

/// SchedulingGates in a few lines.
pub(crate) fn gates() -> Fake {
    fake("Gates").on(pod_event(ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED)).pre_enqueue(
        |pod, _| if pod.spec.scheduling_gates.is_empty() { yes() } else { no("gated") },
    )
}

/// Keeps pods labelled `held` from being scheduled, and their nominations as they are.
pub(crate) fn held() -> [Fake; 2] {
    let held = fake("Held").no_events().filter(|pod, _| match pod.labels.get("held") {
        Some(_) => no("held"),
        None => yes(),
    });
    [
        held,
        fake("Keep").post_filter(|_, _, _| PostFilterResult {
            status: Status::with_reasons(Code::Unschedulable, Vec::new()),
            ..PostFilterResult::default()
        }),
    ]
}
