//! A plugin: a name and the extension points it implements.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::quota::Reading;
use crate::{
    Bind, ClusterEvent, DEADLINE_FIELD, Decoders, EventForPod, EventResource, ExtensionPoint,
    ExtraFields, Feed, Filter, HintResult, HoldPolicy, Metric, MovePolicy, NormalizeScore, Permit,
    PlacementFeasible, PlacementGenerate, PlacementScore, PluginName, PodDeleted,
    PodGroupPostFilter, PodRoom, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter,
    PreFilterExtensions, PreScore, QueueSort, QueueingHint, RUN_TIME_FIELD, Reserve, Score,
    StandingQueries, Timer, extension_points,
};

/// A queueing hint (`QueueingHintFn`): decides whether an event may make a pod schedulable that the
/// plugin rejected. The cluster of its handle includes the change.
pub type HintFn = dyn Fn(EventForPod<'_>) -> HintResult + Send + Sync;

/// An event that may help pods that the plugin rejected (`ClusterEventWithHint`).
#[derive(Clone)]
pub struct EventRegistration {
    /// The event.
    pub event: ClusterEvent,
    /// The hint. Without one the event always requeues.
    pub hint: Option<Arc<HintFn>>,
}

impl EventRegistration {
    /// Creates a registration without a hint.
    pub const fn always(event: ClusterEvent) -> Self {
        Self { event, hint: None }
    }

    /// Returns the answer of the hint about one pod; Queue if there is no hint.
    ///
    /// # Errors
    /// The hint fails, which counts as Queue.
    pub fn evaluate_hint(&self, event: EventForPod<'_>) -> HintResult {
        self.hint.as_ref().map_or(Ok(QueueingHint::Queue), |hint| hint(event))
    }
}

/// Defines [`Plugin`], with a field for each trait that it may implement, and the methods of
/// [`PluginBuilder`] that set these fields.
macro_rules! define_plugin {
    (
        attempt { $($(#[$doc:meta])* $point:ident, $field:ident, $key:literal;)* }
        group { $($(#[$group_doc:meta])* $group:ident, $group_field:ident, $group_key:literal;)* }
        beside { $($(#[$beside_doc:meta])* $beside:ident, $beside_field:ident;)* }
    ) => {
        /// A plugin: its extension points and what it registers. Build one with [`Plugin::new`].
        ///
        /// The field of an extension point is `None` if the plugin does not implement it.
        #[derive(Clone)]
        #[non_exhaustive]
        pub struct Plugin {
            /// The name, by which profiles enable the plugin.
            pub name: PluginName,
            $($(#[$doc])* pub $field: Option<Arc<dyn $point>>,)*
            $($(#[$group_doc])* pub $group_field: Option<Arc<dyn $group>>,)*
            $($(#[$beside_doc])* pub $beside_field: Option<Arc<dyn $beside>>,)*
            /// Arguments in effect, with defaults filled in, shown to people.
            pub args: Option<serde_json::Value>,
            /// Metrics of the plugin.
            pub metrics: Vec<Metric>,
            /// Sources of objects beside the watches of the API server.
            pub feeds: Vec<Feed>,
            /// Fields of pods and nodes that the cluster keeps for the plugin.
            pub extra_fields: ExtraFields,
            /// Custom kinds that the scheduler watches for the plugin, as
            /// `<plural>.<version>.<group>`.
            pub watched_kinds: BTreeSet<Arc<str>>,
            /// Watched kinds whose objects have the names of the nodes that they describe.
            pub node_kinds: BTreeSet<Arc<str>>,
            /// Types that objects of watched kinds are decoded as.
            pub decoders: Decoders,
            /// Built-in kinds that the plugin reads without registering an event for them.
            pub read_kinds: BTreeSet<EventResource>,
            /// Events that may help pods that the plugin rejected. `None`: the plugin declares
            /// none, so every event requeues. An empty list: no event helps.
            pub events: Option<Vec<EventRegistration>>,
            /// Whether verdicts and hints depend only on the [template](crate::Template) of a pod
            /// and on the cluster. Pods of one template that such plugins reject share the answer
            /// of one attempt.
            pub decides_by_template: bool,
            /// Whether the plugin keeps the pods of a PodGroup together.
            pub schedules_groups: bool,
            /// How the plugin reads the [books of quotas](crate::Cluster::quotas), if it does.
            pub counts_quotas: Option<Reading>,
            /// Whether pods of quotas below their guarantee leave the queue first.
            pub orders_by_quota: bool,
            /// The reason of pods that the plugin rejects and that no new node can help.
            pub rejects_as: Option<&'static str>,
            /// Whether the plugin preempts in place of DefaultPreemption.
            pub replaces_preemption: bool,
            /// The pods for which room is held, if the plugin keeps other pods off it.
            pub holds_room: Option<HoldPolicy>,
            /// The pods for which others are moved, if the plugin keeps other pods off their room.
            pub makes_room: Option<MovePolicy>,
            /// Sentences for operators about the arguments, shown when the scheduler starts.
            pub notes: Vec<String>,
            /// The state of the plugin, for the `Debug` form.
            pub state: Option<Arc<dyn fmt::Debug + Send + Sync>>,
        }

        impl Plugin {
            fn without_points(name: &str) -> Self {
                Self {
                    name: name.into(),
                    $($field: None,)*
                    $($group_field: None,)*
                    $($beside_field: None,)*
                    args: None,
                    metrics: Vec::new(),
                    feeds: Vec::new(),
                    extra_fields: ExtraFields::default(),
                    watched_kinds: BTreeSet::new(),
                    node_kinds: BTreeSet::new(),
                    decoders: Decoders::default(),
                    read_kinds: BTreeSet::new(),
                    events: None,
                    decides_by_template: false,
                    schedules_groups: false,
                    counts_quotas: None,
                    orders_by_quota: false,
                    rejects_as: None,
                    replaces_preemption: false,
                    holds_room: None,
                    makes_room: None,
                    notes: Vec::new(),
                    state: None,
                }
            }

            /// Whether the plugin implements `point`.
            pub fn extends(&self, point: ExtensionPoint) -> bool {
                match point {
                    $(ExtensionPoint::$point => self.$field.is_some(),)*
                    $(ExtensionPoint::$group => self.$group_field.is_some(),)*
                }
            }
        }

        impl<P: Send + Sync + 'static> PluginBuilder<P> {
            $(implements!($point, $field);)*
            $(implements!($group, $group_field);)*
            $(implements!($beside, $beside_field);)*
        }
    };
}

macro_rules! implements {
    ($point:ident, $field:ident) => {
        #[doc = concat!("The plugin implements [`", stringify!($point), "`].")]
        #[must_use]
        pub fn $field(mut self) -> Self
        where
            P: $point,
        {
            self.built.$field = Some(self.plugin.clone());
            self
        }
    };
}

extension_points!(define_plugin);

impl Plugin {
    /// Starts to build a plugin called `name`. Add the extension points that it implements, then
    /// call [`build`](PluginBuilder::build).
    #[expect(clippy::new_ret_no_self, reason = "the builder is the only way to a plugin")]
    pub fn new<P: Send + Sync + 'static>(name: &str, plugin: P) -> PluginBuilder<P> {
        PluginBuilder { plugin: Arc::new(plugin), built: Self::without_points(name) }
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let points: Vec<_> =
            ExtensionPoint::ALL.into_iter().filter(|point| self.extends(*point)).collect();
        let mut plugin = f.debug_struct("Plugin");
        plugin.field("name", &self.name).field("points", &points);
        if let Some(state) = &self.state {
            plugin.field("state", state);
        }
        plugin.finish()
    }
}

/// A builder of a [`Plugin`], from one value that implements its extension points.
pub struct PluginBuilder<P> {
    plugin: Arc<P>,
    built: Plugin,
}

impl<P: Send + Sync + 'static> PluginBuilder<P> {
    /// Sets the arguments in effect, shown to people. Give them with their defaults filled in.
    #[must_use]
    pub fn args(mut self, args: &impl Serialize) -> Self {
        self.built.args = serde_json::to_value(args).ok();
        self
    }

    /// Shows what the plugin keeps in the `Debug` form of [`Plugin`], so that tests can count it.
    #[must_use]
    pub fn debug(mut self) -> Self
    where
        P: fmt::Debug,
    {
        self.built.state = Some(self.plugin.clone());
        self
    }

    /// Exports a metric of the plugin on `/metrics`.
    #[must_use]
    pub fn metric(mut self, metric: impl Into<Metric>) -> Self {
        self.built.metrics.push(metric.into());
        self
    }

    /// Adds a source of objects beside the watches of the API server. The plugin reads the objects
    /// with [`Cluster::objects`](crate::Cluster::objects).
    #[must_use]
    pub fn feed(mut self, feed: Feed) -> Self {
        self.built.feeds.push(feed);
        self
    }

    /// Keeps the field of pods at this JSON pointer. The plugin reads it with
    /// [`pod.extra`](crate::Pod::extra).
    #[must_use]
    pub fn keep_pod_field(mut self, pointer: &str) -> Self {
        self.built.extra_fields.pod.insert(pointer.into());
        self
    }

    /// Keeps what each container of a pod requests and is limited to, to be read with
    /// [`pod.containers`](crate::Pod::containers).
    #[must_use]
    pub const fn keep_containers(mut self) -> Self {
        self.built.extra_fields.containers = true;
        self
    }

    /// Keeps the field of nodes at this JSON pointer. The plugin reads it with
    /// [`NodeView::extra`](crate::NodeView::extra).
    #[must_use]
    pub fn keep_node_field(mut self, pointer: &str) -> Self {
        self.built.extra_fields.node.insert(pointer.into());
        self
    }

    /// Watches a custom kind, named `<plural>.<version>.<group>`. The plugin reads its objects with
    /// [`Cluster::objects`](crate::Cluster::objects).
    /// A kind with a registered event is watched anyway; a kind that a [`Feed`] brings is not.
    #[must_use]
    pub fn watch(mut self, kind: &str) -> Self {
        self.built.watched_kinds.insert(kind.into());
        self
    }

    /// [Watches](Self::watch) a kind and decodes each version of an object once as `T`, to be read
    /// with [`Cluster::decoded`](crate::Cluster::decoded) and
    /// [`Cluster::all_decoded`](crate::Cluster::all_decoded). `T` sees the whole object, `metadata`
    /// included. An object that does not decode is kept as JSON only;
    /// [`Cluster::decode_problem`](crate::Cluster::decode_problem) has the reason.
    #[must_use]
    pub fn watch_as<T: DeserializeOwned + Send + Sync + 'static>(mut self, kind: &str) -> Self {
        self.built.decoders.add::<T>(kind);
        self.watch(kind)
    }

    /// [Watches](Self::watch) a cluster-scoped kind whose objects have the names of the nodes that
    /// they describe. A change of an object counts as a change of its node, so that answers which
    /// depend on the node and its object have the scope [`Node`](crate::FilterScope::Node).
    #[must_use]
    pub fn describes_nodes(mut self, kind: &str) -> Self {
        self.built.node_kinds.insert(kind.into());
        self.watch(kind)
    }

    /// Watches a built-in kind that the plugin reads, without registering an event for it.
    #[must_use]
    pub fn read(mut self, kind: EventResource) -> Self {
        self.built.read_kinds.insert(kind);
        self
    }

    /// Declares that verdicts and hints depend only on the [template](crate::Template) of a pod and
    /// on the cluster, not on its name, UID or status. If an event moves many pods of one template,
    /// the scheduler then tries one of them, and the others only after it has found a node.
    #[must_use]
    pub const fn decides_by_template(mut self) -> Self {
        self.built.decides_by_template = true;
        self
    }

    /// Declares that the plugin keeps the pods of a PodGroup together. A profile without such a
    /// plugin gates the pods that belong to one, unless `--schedule-group-members-alone` is set.
    #[must_use]
    pub const fn schedules_groups(mut self) -> Self {
        self.built.schedules_groups = true;
        self
    }

    /// Declares that the plugin reads the [books of quotas](crate::Cluster::quotas), so that the
    /// cluster keeps them. [Watches](Self::watch) ElasticQuotas.
    #[must_use]
    pub fn counts_quotas(mut self, reading: Reading) -> Self {
        self.built.counts_quotas = Some(reading);
        self.watch(crate::ELASTIC_QUOTAS)
    }

    /// Declares that pods of quotas below their guarantee leave the queue first, in profiles with
    /// this plugin. The others leave it in the order of the QueueSort plugin.
    #[must_use]
    pub const fn orders_by_quota(mut self, orders: bool) -> Self {
        self.built.orders_by_quota = orders;
        self
    }

    /// Declares that no new node can help a pod which this plugin alone rejects. The condition
    /// PodScheduled of the pod has this reason in place of `Unschedulable`, for which autoscalers
    /// add nodes.
    #[must_use]
    pub const fn rejects_as(mut self, reason: &'static str) -> Self {
        self.built.rejects_as = Some(reason);
        self
    }

    /// Declares that the plugin preempts in place of DefaultPreemption, which is left out at
    /// PostFilter and PodGroupPostFilter where this plugin is enabled.
    #[must_use]
    pub const fn replaces_preemption(mut self) -> Self {
        self.built.replaces_preemption = true;
        self
    }

    /// Declares that the plugin keeps pods off [held room](crate::Cluster::holds), so that the
    /// scheduler holds room by this policy. Keeps the declared [run time](crate::run_time) of pods.
    #[must_use]
    pub fn holds_room(mut self, policy: HoldPolicy) -> Self {
        self.built.holds_room = Some(policy);
        self.keep_pod_field(DEADLINE_FIELD).keep_pod_field(RUN_TIME_FIELD)
    }

    /// Declares that the plugin keeps pods off [held room](crate::Cluster::holds), so that the
    /// scheduler makes room by this policy.
    #[must_use]
    pub const fn makes_room(mut self, policy: MovePolicy) -> Self {
        self.built.makes_room = Some(policy);
        self
    }

    /// Adds a sentence for operators, for example about an argument without effect. The daemon logs
    /// it as a warning when it starts, and `loadmaster config validate` prints it.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.built.notes.push(text.into());
        self
    }

    /// Declares that no event helps pods that this plugin rejects, except those added with
    /// [`on`](Self::on).
    #[must_use]
    pub fn no_events(mut self) -> Self {
        self.built.events.get_or_insert_default();
        self
    }

    /// Requeues rejected pods on every `event`.
    #[must_use]
    pub fn on(mut self, event: ClusterEvent) -> Self {
        self.watch_kind_of(&event);
        self.built.events.get_or_insert_default().push(EventRegistration::always(event));
        self
    }

    /// Requeues rejected pods on `event` if `hint` answers Queue. See [`HintFn`].
    #[must_use]
    pub fn on_with_hint(
        mut self,
        event: ClusterEvent,
        hint: fn(&P, EventForPod<'_>) -> HintResult,
    ) -> Self {
        self.watch_kind_of(&event);
        let plugin = self.plugin.clone();
        let hint: Arc<HintFn> = Arc::new(move |event| hint(&plugin, event));
        self.built
            .events
            .get_or_insert_default()
            .push(EventRegistration { event, hint: Some(hint) });
        self
    }

    fn watch_kind_of(&mut self, event: &ClusterEvent) {
        if let EventResource::Custom(kind) = &event.resource {
            self.built.watched_kinds.insert(kind.clone());
        }
    }

    /// Returns the plugin.
    pub fn build(self) -> Plugin {
        self.built
    }
}
