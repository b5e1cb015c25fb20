//! A plugin: a name and the extension points it implements.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    Bind, ClusterEvent, Decoders, EventObjects, EventResource, ExtraFields, Feed, Filter, Handle,
    Metric, NormalizeScore, Permit, PluginName, Pod, PodDeleted, PostBind, PostFilter, PreBind,
    PreEnqueue, PreFilter, PreFilterExtensions, PreScore, QueueSort, QueueingHint, Reserve, Score,
    StandingQueries, Timer,
};

/// The extension points a profile can configure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtensionPoint {
    /// Holds pods back before the active queue.
    PreEnqueue,
    /// Orders the active queue.
    QueueSort,
    /// Prepares filters.
    PreFilter,
    /// Turns nodes down.
    Filter,
    /// Makes room.
    PostFilter,
    /// Prepares scores.
    PreScore,
    /// Rates nodes.
    Score,
    /// Keeps books.
    Reserve,
    /// Has the last word.
    Permit,
    /// Writes before the bind.
    PreBind,
    /// Binds.
    Bind,
    /// Hears of bound pods.
    PostBind,
    /// Proposes sets of nodes for a pod group.
    PlacementGenerate,
    /// Rates such sets.
    PlacementScore,
}

impl ExtensionPoint {
    /// Every point, in the order in which kube-scheduler resolves a profile.
    pub const ALL: [Self; 14] = [
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::Reserve,
        Self::PreScore,
        Self::Score,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
        Self::Permit,
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PlacementGenerate,
        Self::PlacementScore,
    ];

    /// The name in metric labels, for example `PreFilter`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreEnqueue => "PreEnqueue",
            Self::QueueSort => "QueueSort",
            Self::PreFilter => "PreFilter",
            Self::Filter => "Filter",
            Self::PostFilter => "PostFilter",
            Self::PreScore => "PreScore",
            Self::Score => "Score",
            Self::Reserve => "Reserve",
            Self::Permit => "Permit",
            Self::PreBind => "PreBind",
            Self::Bind => "Bind",
            Self::PostBind => "PostBind",
            Self::PlacementGenerate => "PlacementGenerate",
            Self::PlacementScore => "PlacementScore",
        }
    }

    /// The name of the set in `plugins` of a profile, for example `preFilter`.
    pub const fn config_name(self) -> &'static str {
        match self {
            Self::PreEnqueue => "preEnqueue",
            Self::QueueSort => "queueSort",
            Self::PreFilter => "preFilter",
            Self::Filter => "filter",
            Self::PostFilter => "postFilter",
            Self::PreScore => "preScore",
            Self::Score => "score",
            Self::Reserve => "reserve",
            Self::Permit => "permit",
            Self::PreBind => "preBind",
            Self::Bind => "bind",
            Self::PostBind => "postBind",
            Self::PlacementGenerate => "placementGenerate",
            Self::PlacementScore => "placementScore",
        }
    }
}

impl fmt::Display for ExtensionPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Tells whether an event may help a pod that the plugin rejected.
///
/// An error counts as [`QueueingHint::Queue`].
pub type HintFn =
    dyn Fn(&Pod, &EventObjects<'_>, &Handle<'_>) -> Result<QueueingHint, String> + Send + Sync;

/// An event a plugin wants to hear of, for pods it rejected.
#[derive(Clone)]
pub struct EventRegistration {
    /// The event.
    pub event: ClusterEvent,
    /// The hint; without one the answer is always Queue.
    pub hint: Option<Arc<HintFn>>,
}

impl EventRegistration {
    /// Requeues on every such event.
    pub const fn always(event: ClusterEvent) -> Self {
        Self { event, hint: None }
    }
}

/// A plugin, ready to run: built with [`Plugin::new`].
///
/// Each field is one extension point, `None` where the plugin does not implement it.
#[derive(Clone)]
#[expect(missing_docs, reason = "each field is the extension point of its name")]
#[non_exhaustive]
pub struct Plugin {
    pub name: PluginName,
    pub pre_enqueue: Option<Arc<dyn PreEnqueue>>,
    pub queue_sort: Option<Arc<dyn QueueSort>>,
    pub pre_filter: Option<Arc<dyn PreFilter>>,
    pub pre_filter_extensions: Option<Arc<dyn PreFilterExtensions>>,
    pub filter: Option<Arc<dyn Filter>>,
    pub post_filter: Option<Arc<dyn PostFilter>>,
    pub pre_score: Option<Arc<dyn PreScore>>,
    pub score: Option<Arc<dyn Score>>,
    pub normalize_score: Option<Arc<dyn NormalizeScore>>,
    pub standing_queries: Option<Arc<dyn StandingQueries>>,
    pub reserve: Option<Arc<dyn Reserve>>,
    pub permit: Option<Arc<dyn Permit>>,
    pub pre_bind: Option<Arc<dyn PreBind>>,
    pub bind: Option<Arc<dyn Bind>>,
    pub post_bind: Option<Arc<dyn PostBind>>,
    pub timer: Option<Arc<dyn Timer>>,
    pub pod_deleted: Option<Arc<dyn PodDeleted>>,
    /// Points of pod groups it has in Kubernetes: there are no traits for them yet.
    pub group_points: BTreeSet<ExtensionPoint>,
    /// Arguments in effect, defaults included, for people to read.
    pub args: Option<serde_json::Value>,
    /// Numbers the plugin counts by itself.
    pub metrics: Vec<Metric>,
    /// Sources of objects beside the watches of the API server.
    pub feeds: Vec<Feed>,
    /// Fields of pods and nodes that are kept for it.
    pub extra_fields: ExtraFields,
    /// Kinds it reads or hears of, as `<plural>.<version>.<group>`.
    pub watched_kinds: BTreeSet<Arc<str>>,
    /// Types that objects of watched kinds are decoded as.
    pub decoders: Decoders,
    /// Kinds of Kubernetes itself that it reads without being notified of changes.
    pub read_kinds: BTreeSet<EventResource>,
    /// Events that may help pods this plugin rejected. `None`: not declared, every event counts. An
    /// empty list: no event ever helps.
    pub events: Option<Vec<EventRegistration>>,
}

impl Plugin {
    /// Starts a plugin called `name`; add each extension point it implements, then
    /// [`build`](PluginBuilder::build).
    #[expect(clippy::new_ret_no_self, reason = "the builder is the only way to a plugin")]
    pub fn new<P: Send + Sync + 'static>(name: &str, plugin: P) -> PluginBuilder<P> {
        PluginBuilder {
            plugin: Arc::new(plugin),
            built: Self {
                name: name.into(),
                pre_enqueue: None,
                queue_sort: None,
                pre_filter: None,
                pre_filter_extensions: None,
                filter: None,
                post_filter: None,
                pre_score: None,
                score: None,
                normalize_score: None,
                standing_queries: None,
                reserve: None,
                permit: None,
                pre_bind: None,
                bind: None,
                post_bind: None,
                timer: None,
                pod_deleted: None,
                group_points: BTreeSet::new(),
                args: None,
                metrics: Vec::new(),
                feeds: Vec::new(),
                extra_fields: ExtraFields::default(),
                watched_kinds: BTreeSet::new(),
                decoders: Decoders::default(),
                read_kinds: BTreeSet::new(),
                events: None,
            },
        }
    }

    /// Whether the plugin implements `point`.
    pub fn extends(&self, point: ExtensionPoint) -> bool {
        match point {
            ExtensionPoint::PreEnqueue => self.pre_enqueue.is_some(),
            ExtensionPoint::QueueSort => self.queue_sort.is_some(),
            ExtensionPoint::PreFilter => self.pre_filter.is_some(),
            ExtensionPoint::Filter => self.filter.is_some(),
            ExtensionPoint::PostFilter => self.post_filter.is_some(),
            ExtensionPoint::PreScore => self.pre_score.is_some(),
            ExtensionPoint::Score => self.score.is_some(),
            ExtensionPoint::Reserve => self.reserve.is_some(),
            ExtensionPoint::Permit => self.permit.is_some(),
            ExtensionPoint::PreBind => self.pre_bind.is_some(),
            ExtensionPoint::Bind => self.bind.is_some(),
            ExtensionPoint::PostBind => self.post_bind.is_some(),
            ExtensionPoint::PlacementGenerate | ExtensionPoint::PlacementScore => {
                self.group_points.contains(&point)
            }
        }
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let points: Vec<_> =
            ExtensionPoint::ALL.into_iter().filter(|point| self.extends(*point)).collect();
        f.debug_struct("Plugin").field("name", &self.name).field("points", &points).finish()
    }
}

/// Puts a [`Plugin`] together from one value that implements its extension points.
pub struct PluginBuilder<P> {
    plugin: Arc<P>,
    built: Plugin,
}

/// One builder method per extension point.
macro_rules! points {
    ($($method:ident: $point:ident),* $(,)?) => {$(
        #[doc = concat!("The plugin implements [`", stringify!($point), "`].")]
        #[must_use]
        pub fn $method(mut self) -> Self
        where
            P: $point,
        {
            self.built.$method = Some(self.plugin.clone());
            self
        }
    )*};
}

impl<P: Send + Sync + 'static> PluginBuilder<P> {
    points! {
        pre_enqueue: PreEnqueue,
        queue_sort: QueueSort,
        pre_filter: PreFilter,
        pre_filter_extensions: PreFilterExtensions,
        filter: Filter,
        post_filter: PostFilter,
        pre_score: PreScore,
        score: Score,
        normalize_score: NormalizeScore,
        standing_queries: StandingQueries,
        reserve: Reserve,
        permit: Permit,
        pre_bind: PreBind,
        bind: Bind,
        post_bind: PostBind,
        timer: Timer,
        pod_deleted: PodDeleted,
    }

    /// Shows `args` as the arguments in effect; give them with their defaults filled in.
    #[must_use]
    pub fn args(mut self, args: &impl Serialize) -> Self {
        self.built.args = serde_json::to_value(args).ok();
        self
    }

    /// Exports a metric of the plugin.
    #[must_use]
    pub fn metric(mut self, metric: impl Into<Metric>) -> Self {
        self.built.metrics.push(metric.into());
        self
    }

    /// Adds a source of objects beside the watches of the API server. The plugin reads the objects with
    /// [`Cluster::objects`](crate::Cluster::objects).
    #[must_use]
    pub fn feed(mut self, feed: Feed) -> Self {
        self.built.feeds.push(feed);
        self
    }

    /// Keeps the field of pods at this JSON pointer, to be read with
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

    /// Keeps the field of nodes at this JSON pointer, to be read with
    /// [`NodeView::extra`](crate::NodeView::extra).
    #[must_use]
    pub fn keep_node_field(mut self, pointer: &str) -> Self {
        self.built.extra_fields.node.insert(pointer.into());
        self
    }

    /// Watches a kind, named `<plural>.<version>.<group>`, to be read with
    /// [`Cluster::objects`](crate::Cluster::objects). Kinds that an event is registered on are watched
    /// anyway; kinds that a [`Feed`] brings are not.
    #[must_use]
    pub fn watch(mut self, kind: &str) -> Self {
        self.built.watched_kinds.insert(kind.into());
        self
    }

    /// [Watches](Self::watch) a kind and decodes each version of an object once as `T`, to be read with
    /// [`Cluster::decoded`](crate::Cluster::decoded) and
    /// [`Cluster::all_decoded`](crate::Cluster::all_decoded). `T` sees the whole object, `metadata`
    /// included. An object that does not decode is kept as JSON only;
    /// [`Cluster::decode_problem`](crate::Cluster::decode_problem) has the reason.
    #[must_use]
    pub fn watch_as<T: DeserializeOwned + Send + Sync + 'static>(mut self, kind: &str) -> Self {
        self.built.decoders.add::<T>(kind);
        self.watch(kind)
    }

    /// Reads objects of a kind of Kubernetes itself without being notified of changes.
    #[must_use]
    pub fn read(mut self, kind: EventResource) -> Self {
        self.built.read_kinds.insert(kind);
        self
    }

    /// Declares that no event helps pods this plugin rejects, until [`on`](Self::on) names one.
    #[must_use]
    pub fn no_events(mut self) -> Self {
        self.built.events.get_or_insert_default();
        self
    }

    /// Requeues rejected pods on `event`, whatever its objects.
    #[must_use]
    pub fn on(mut self, event: ClusterEvent) -> Self {
        self.watch_kind_of(&event);
        self.built.events.get_or_insert_default().push(EventRegistration::always(event));
        self
    }

    /// Requeues rejected pods on `event` when `hint` says so.
    #[must_use]
    pub fn on_with_hint(
        mut self,
        event: ClusterEvent,
        hint: fn(&P, &Pod, &EventObjects<'_>, &Handle<'_>) -> Result<QueueingHint, String>,
    ) -> Self {
        self.watch_kind_of(&event);
        let plugin = self.plugin.clone();
        let hint: Arc<HintFn> =
            Arc::new(move |pod, objects, handle| hint(&plugin, pod, objects, handle));
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

    /// The finished plugin.
    pub fn build(self) -> Plugin {
        self.built
    }
}
