//! Profiles: which plugins run for the pods of a scheduler name, in which order.

mod config;
mod error;
mod expand;
mod group_gate;
mod named;
mod weights;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use framework::quota::Reading;
use framework::{
    ActionType, Behaviours, Bind, ClusterEvent, Decoders, EventRegistration, EventResource,
    ExtensionPoint, ExtraFields, Filter, HoldPolicy, Level, MovePolicy, Permit, PlacementFeasible,
    PlacementGenerate, PlacementScore, Plugin, PluginArgs, PluginGates, PluginName, PodDeleted,
    PodGroupPostFilter, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort,
    Registry, Reserve, Score, StandingQueries, Timer, extension_points,
};

pub use config::{PluginConfig, PluginRef, PluginSet, PluginSets, SchedulerProfile};
pub use error::ProfileError;
pub use expand::merge_defaults;
pub use group_gate::GROUP_GATE;
pub(crate) use group_gate::{gated_condition, member_alone};
pub use named::Named;

pub use framework::MAX_NODE_SCORE;
use weights::Weights;

use crate::pod_group::InCommon;

/// Name under which rejections by extenders are recorded.
pub const EXTENDER: &str = "Extender";

macro_rules! define_profile {
    (
        attempt { $($(#[$doc:meta])* $point:ident, $field:ident, $key:literal;)* }
        group { $($(#[$group_doc:meta])* $group:ident, $group_field:ident, $group_key:literal;)* }
        $($others:tt)*
    ) => {
        /// The plugins of one scheduler name, by extension point, in the order in which they run.
        pub struct Profile {
            /// Pods choose the profile by this name.
            pub scheduler_name: Arc<str>,
            /// How many percent of the nodes are looked at; `None` leaves it to the global setting.
            pub percentage_of_nodes_to_score: Option<i32>,
            $($(#[$doc])* pub $field: Vec<Named<dyn $point>>,)*
            $($(#[$group_doc])* pub $group_field: Vec<Named<dyn $group>>,)*
            /// Plugins at any point that decide whether a pod group can be placed.
            pub placement_feasible: Vec<Named<dyn PlacementFeasible>>,
            /// Plugins at any point that name the pods they are going to count.
            pub standing_queries: Vec<Named<dyn StandingQueries>>,
            /// Plugins at any point that have timers.
            pub timers: Vec<Named<dyn Timer>>,
            /// Plugins at any point that are notified of deleted pods.
            pub pod_deleted: Vec<Named<dyn PodDeleted>>,
            /// The events that each plugin registered for pods that it rejected.
            pub events: Vec<(PluginName, EventRegistration)>,
            /// Every plugin enabled at some point, by name.
            pub plugins: BTreeMap<PluginName, Arc<Plugin>>,
            at: BTreeMap<ExtensionPoint, Vec<PluginName>>,
            weights: BTreeMap<ExtensionPoint, Weights>,
        }

        impl Profile {
            fn assemble(profile: &SchedulerProfile, made: Made) -> Self {
                Self {
                    scheduler_name: profile.scheduler_name.as_str().into(),
                    percentage_of_nodes_to_score: profile.percentage_of_nodes_to_score,
                    $($field: made.at(ExtensionPoint::$point, |plugin| plugin.$field.clone()),)*
                    $($group_field: made.at(ExtensionPoint::$group, |plugin| {
                        plugin.$group_field.clone()
                    }),)*
                    placement_feasible: made.everywhere(|plugin| plugin.placement_feasible.clone()),
                    standing_queries: made.everywhere(|plugin| plugin.standing_queries.clone()),
                    timers: made.everywhere(|plugin| plugin.timer.clone()),
                    pod_deleted: made.everywhere(|plugin| plugin.pod_deleted.clone()),
                    events: registrations(&made.at, &made.plugins),
                    plugins: made.plugins,
                    at: made.at,
                    weights: made.weights,
                }
            }
        }
    };
}

extension_points!(define_profile);

/// The plugins of a profile, before they are listed by extension point.
struct Made {
    plugins: BTreeMap<PluginName, Arc<Plugin>>,
    at: BTreeMap<ExtensionPoint, Vec<PluginName>>,
    weights: BTreeMap<ExtensionPoint, Weights>,
}

impl Made {
    /// Lists the plugins that run at `point`.
    fn at<T: ?Sized>(
        &self,
        point: ExtensionPoint,
        implementation: impl Fn(&Plugin) -> Option<Arc<T>>,
    ) -> Vec<Named<T>> {
        let weights = self.weights.get(&point);
        let named = |name: &PluginName| {
            let weight = weights.map_or(0, |weights| weights[name]);
            named(&self.plugins[name], &implementation, weight)
                .expect("expansion keeps plugins that extend the point")
        };
        self.at[&point].iter().map(named).collect()
    }

    /// Lists the plugins, enabled at whatever point, that implement a trait.
    fn everywhere<T: ?Sized>(
        &self,
        implementation: impl Fn(&Plugin) -> Option<Arc<T>>,
    ) -> Vec<Named<T>> {
        self.plugins.values().filter_map(|plugin| named(plugin, &implementation, 0)).collect()
    }
}

fn named<T: ?Sized>(
    plugin: &Arc<Plugin>,
    implementation: impl Fn(&Plugin) -> Option<Arc<T>>,
    weight: i64,
) -> Option<Named<T>> {
    let registered = plugin.clone();
    implementation(plugin).map(|plugin| Named {
        name: registered.name.clone(),
        plugin,
        registered,
        weight,
    })
}

impl Profile {
    /// Builds a profile: merges the user's plugins into the defaults, makes each plugin once and
    /// expands multiPoint.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn build(
        profile: &SchedulerProfile,
        defaults: &[PluginRef],
        registry: &Registry,
    ) -> Result<Self, ProfileError> {
        let mut sets = profile.plugins.clone();
        sets.multi_point = merge_defaults(defaults, &profile.plugins.multi_point);
        let plugins = make_plugins(profile, &sets, registry)?;
        let at = expand::plugins_by_point(&sets, &plugins)?;
        check_counts(&profile.scheduler_name, &at)?;
        let weights = weights::by_point(&sets, &plugins)?;
        Ok(Self::assemble(profile, Made { plugins, at, weights }))
    }

    /// Names of the plugins that run at `point`, in order.
    pub fn plugins_at(&self, point: ExtensionPoint) -> &[PluginName] {
        self.at.get(&point).map_or(&[], Vec::as_slice)
    }

    /// The weight of a plugin's scores at `point`, where that is a point with weights.
    pub fn weight_at(&self, point: ExtensionPoint, plugin: &str) -> Option<i64> {
        self.weights.get(&point)?.get(plugin).copied()
    }

    /// Whether a plugin keeps the pods of a PodGroup together.
    pub(crate) fn schedules_groups(&self) -> bool {
        self.plugins.values().any(|plugin| plugin.schedules_groups)
    }

    /// Whether pods of quotas below their guarantee go first.
    pub(crate) fn orders_by_quota(&self) -> bool {
        self.plugins.values().any(|plugin| plugin.orders_by_quota)
    }

    /// The plugin that reads the books of quotas, and how.
    pub(crate) fn quota_plugin(&self) -> Option<(&PluginName, Reading)> {
        self.plugins.iter().find_map(|(name, plugin)| Some((name, plugin.counts_quotas?)))
    }

    /// Returns the reason of a pod that these plugins have rejected.
    pub(crate) fn reason_of_rejection(&self, plugins: &BTreeSet<PluginName>) -> &'static str {
        let reason = |name: &PluginName| self.plugins.get(name)?.rejects_as;
        let reasons: Option<Vec<_>> = plugins.iter().map(reason).collect();
        reasons.and_then(|reasons| reasons.first().copied()).unwrap_or("Unschedulable")
    }

    /// Returns the plugins that keep pods off held room.
    pub(crate) fn hold_plugins(&self) -> impl Iterator<Item = &Arc<Plugin>> {
        let keeps_off = |own: &&Arc<Plugin>| own.holds_room.is_some() || own.makes_room.is_some();
        self.plugins.values().filter(keeps_off)
    }

    /// Returns the policy by which room is held for pods of the profile.
    pub(crate) fn hold_policy(&self) -> Option<HoldPolicy> {
        self.plugins.values().find_map(|plugin| plugin.holds_room)
    }

    /// Returns the policy by which pods are moved for pods of the profile.
    pub fn move_policy(&self) -> Option<MovePolicy> {
        self.plugins.values().find_map(|plugin| plugin.makes_room)
    }

    /// Adds the gate of groups, unless a plugin schedules them.
    fn gate_groups(&mut self) {
        if self.schedules_groups() {
            return;
        }
        let gate = Arc::new(group_gate::gate());
        let events = gate.events.iter().flatten().cloned();
        self.events.extend(events.map(|event| (gate.name.clone(), event)));
        self.pre_enqueue.extend(named(&gate, |gate| gate.pre_enqueue.clone(), 0));
    }

    /// Registers the pseudo-plugin under which extenders reject pods.
    fn register_extenders(&mut self) {
        let name: PluginName = EXTENDER.into();
        self.events.extend(any_event().map(|event| (name.clone(), event)));
    }
}

/// Every plugin enabled anywhere, made once with its arguments.
fn make_plugins(
    profile: &SchedulerProfile,
    sets: &PluginSets,
    registry: &Registry,
) -> Result<BTreeMap<PluginName, Arc<Plugin>>, ProfileError> {
    let mut args = BTreeMap::new();
    for config in &profile.plugin_config {
        let given = config.args.clone().map_or_else(PluginArgs::default, PluginArgs::new);
        if args.insert(config.name.as_str(), given).is_some() {
            return Err(ProfileError::RepeatedConfig(config.name.clone()));
        }
    }
    let enabled = sets.all().flat_map(|set| &set.enabled);
    let enabled: BTreeSet<&str> = enabled.map(|plugin| plugin.name.as_str()).collect();
    let mut plugins = BTreeMap::new();
    for name in enabled {
        let Some(factory) = registry.get(name) else { continue };
        let given = args.get(name).cloned().unwrap_or_default();
        let plugin = factory(&given.with_gates(registry.gates()))
            .map_err(|message| ProfileError::Factory { plugin: name.to_owned(), message })?;
        plugins.insert(PluginName::from(name), Arc::new(plugin));
    }
    Ok(plugins)
}

/// Refuses a profile with too few or too many plugins at a point.
fn check_counts(
    profile: &str,
    at: &BTreeMap<ExtensionPoint, Vec<PluginName>>,
) -> Result<(), ProfileError> {
    let count = |point: ExtensionPoint| at[&point].len();
    let profile = || profile.to_owned();
    if count(ExtensionPoint::QueueSort) != 1 {
        let count = count(ExtensionPoint::QueueSort);
        return Err(ProfileError::QueueSortCount { profile: profile(), count });
    }
    if count(ExtensionPoint::Bind) == 0 {
        return Err(ProfileError::NoBind { profile: profile() });
    }
    if count(ExtensionPoint::PlacementGenerate) > 1 {
        return Err(ProfileError::TwoPlacementGenerators(profile()));
    }
    Ok(())
}

/// Points at which a plugin can reject a pod: those whose plugins register events.
const REJECTING: [ExtensionPoint; 6] = [
    ExtensionPoint::PreEnqueue,
    ExtensionPoint::PreFilter,
    ExtensionPoint::Filter,
    ExtensionPoint::Reserve,
    ExtensionPoint::Permit,
    ExtensionPoint::PlacementGenerate,
];

fn registrations(
    at: &BTreeMap<ExtensionPoint, Vec<PluginName>>,
    plugins: &BTreeMap<PluginName, Arc<Plugin>>,
) -> Vec<(PluginName, EventRegistration)> {
    let rejecting: BTreeSet<&PluginName> = REJECTING.iter().flat_map(|point| &at[point]).collect();
    let events = rejecting.into_iter().flat_map(|name| {
        let events = events_of(&plugins[name]);
        with_taint_changes(events).into_iter().map(move |event| (name.clone(), event))
    });
    events.collect()
}

/// Returns the events that a plugin declared, or else every event, including the events of the
/// kinds that it watches.
fn events_of(plugin: &Plugin) -> Vec<EventRegistration> {
    let on_watched = plugin.watched_kinds.iter().map(|kind| {
        let kind = EventResource::Custom(kind.clone());
        EventRegistration::always(ClusterEvent::new(kind, ActionType::ALL))
    });
    let on_read = plugin
        .read_kinds
        .iter()
        .map(|kind| EventRegistration::always(ClusterEvent::new(kind.clone(), ActionType::ALL)));
    let every = || any_event().chain(on_watched).chain(on_read).collect();
    plugin.events.clone().unwrap_or_else(every)
}

/// Adds taint updates for a plugin that registers new nodes. kube-scheduler does so because a node
/// may be added with a taint that is removed later.
fn with_taint_changes(mut events: Vec<EventRegistration>) -> Vec<EventRegistration> {
    let hears = |action| {
        let on_nodes = |registered: &&EventRegistration| {
            matches!(registered.event.resource, EventResource::Node | EventResource::Any)
        };
        events.iter().filter(on_nodes).any(|registered| registered.event.action.intersects(action))
    };
    if hears(ActionType::ADD) && !hears(ActionType::UPDATE_NODE_TAINT) {
        let taints = ClusterEvent::new(EventResource::Node, ActionType::UPDATE_NODE_TAINT);
        events.push(EventRegistration::always(taints));
    }
    events
}

/// Returns every event, for a plugin that declares none.
fn any_event() -> impl Iterator<Item = EventRegistration> {
    use EventResource as R;
    [
        R::Pod,
        R::Node,
        R::PersistentVolume,
        R::PersistentVolumeClaim,
        R::CsiNode,
        R::CsiDriver,
        R::CsiStorageCapacity,
        R::StorageClass,
        R::ResourceClaim,
        R::DeviceClass,
    ]
    .into_iter()
    .map(|resource| EventRegistration::always(ClusterEvent::new(resource, ActionType::ALL)))
}

/// Refuses a profile whose QueueSort plugin differs from the one of the first profile.
fn same_queue_sort(
    first: &SchedulerProfile,
    first_sort: &Named<dyn QueueSort>,
    profile: &SchedulerProfile,
    sort: &Named<dyn QueueSort>,
) -> Result<(), ProfileError> {
    if first_sort.name != sort.name {
        return Err(ProfileError::DifferentQueueSort {
            profile: profile.scheduler_name.clone(),
            plugin: sort.name.to_string(),
            first: first_sort.name.to_string(),
        });
    }
    if first.args_of(&sort.name) != profile.args_of(&sort.name) {
        return Err(ProfileError::DifferentQueueSortArgs(profile.scheduler_name.clone()));
    }
    Ok(())
}

/// Whether the pods of groups wait if no plugin of their profile keeps them together. They go alone
/// if a flag says so, and in groups without a minimum if the gate GangScheduling of 1.36 is off.
const fn may_gate_groups(gates: PluginGates) -> bool {
    !gates.group_members_alone && !gates.only_basic_groups
}

/// All profiles of a scheduler.
#[derive(Clone)]
pub struct Profiles {
    by_name: BTreeMap<Arc<str>, Arc<Profile>>,
    queue_sort: Named<dyn QueueSort>,
    level: Level,
    schedules_groups: bool,
    orders_by_quota: bool,
    places_gangs_whole: bool,
    groups_have_policy: bool,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Profile").field(&self.scheduler_name).finish()
    }
}

impl fmt::Debug for Profiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Profiles").field(&self.by_name.keys()).finish()
    }
}

impl Profiles {
    /// Builds every profile of one scheduler. With `extenders` their pseudo-plugin is registered in
    /// each.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn build(
        profiles: &[SchedulerProfile],
        defaults: &[PluginRef],
        registry: &Registry,
        extenders: bool,
    ) -> Result<Self, ProfileError> {
        let registry = registry.for_scheduler();
        let mut by_name = BTreeMap::new();
        let mut first: Option<(&SchedulerProfile, Named<dyn QueueSort>)> = None;
        for config in profiles {
            let mut profile = Profile::build(config, defaults, &registry).map_err(|error| {
                let profile = config.scheduler_name.clone();
                ProfileError::In { profile, error: Box::new(error) }
            })?;
            if extenders {
                profile.register_extenders();
            }
            if may_gate_groups(registry.gates()) {
                profile.gate_groups();
            }
            if by_name.contains_key(&profile.scheduler_name) {
                return Err(ProfileError::DuplicateProfile(config.scheduler_name.clone()));
            }
            let [own, ..] = &profile.queue_sort[..] else { unreachable!("the count is checked") };
            let (canon, sort) = first.get_or_insert_with(|| (config, own.clone()));
            same_queue_sort(canon, sort, config, own)?;
            by_name.insert(profile.scheduler_name.clone(), Arc::new(profile));
        }
        let (_, queue_sort) = first.ok_or(ProfileError::NoProfile)?;
        let gates = registry.gates();
        let orders_by_quota = by_name.values().any(|profile| profile.orders_by_quota());
        Ok(Self {
            by_name,
            orders_by_quota,
            queue_sort,
            level: gates.level,
            schedules_groups: gates.generic_workload,
            places_gangs_whole: !gates.only_basic_groups,
            groups_have_policy: gates.pod_group_preemption_policy,
        })
    }

    /// The profile that is responsible for pods of this scheduler name.
    pub fn get(&self, scheduler_name: &str) -> Option<&Arc<Profile>> {
        self.by_name.get(scheduler_name)
    }

    /// The version of Kubernetes that the plugins and the engine follow.
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Whether the pods of a PodGroup are decided together (gate GenericWorkload).
    pub const fn schedules_groups(&self) -> bool {
        self.schedules_groups
    }

    /// Whether a plugin reads the books of quotas.
    pub fn counts_quotas(&self) -> bool {
        self.plugins().any(|plugin| plugin.counts_quotas.is_some())
    }

    /// Whether a profile lets pods of quotas below their guarantee go first.
    pub(crate) const fn orders_by_quota(&self) -> bool {
        self.orders_by_quota
    }

    /// Whether gangs are placed whole (gate GangScheduling of 1.36).
    pub(crate) const fn places_gangs_whole(&self) -> bool {
        self.places_gangs_whole
    }

    /// What the pods of a PodGroup must have in common.
    pub(crate) const fn in_common(&self) -> InCommon {
        match (self.behaviours().group_members_are_alike, self.groups_have_policy) {
            (false, _) => InCommon::SchedulerName,
            (true, false) => InCommon::Priority,
            (true, true) => InCommon::PreemptionPolicy,
        }
    }

    /// The behaviours of the level.
    pub const fn behaviours(&self) -> Behaviours {
        Behaviours::of(self.level)
    }

    /// The order of the active queue; the same for all profiles.
    pub fn queue_sort(&self) -> &Named<dyn QueueSort> {
        &self.queue_sort
    }

    /// Every profile, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.by_name.values()
    }

    fn plugins(&self) -> impl Iterator<Item = &Plugin> {
        self.iter().flat_map(|profile| profile.plugins.values().map(Arc::as_ref))
    }

    /// Fields of pods and nodes that some plugin asked for.
    pub fn extra_fields(&self) -> ExtraFields {
        let mut fields = ExtraFields::default();
        self.plugins().for_each(|plugin| fields.extend(&plugin.extra_fields));
        fields
    }

    /// Types as which plugins read objects of custom kinds.
    pub fn decoders(&self) -> Decoders {
        let mut decoders = Decoders::default();
        self.plugins().for_each(|plugin| decoders.extend(&plugin.decoders));
        decoders
    }

    /// Returns the kinds whose objects have the names of the nodes that they describe, as
    /// `<plural>.<version>.<group>`.
    pub fn node_kinds(&self) -> BTreeSet<Arc<str>> {
        self.plugins().flat_map(|plugin| plugin.node_kinds.iter().cloned()).collect()
    }

    /// Returns the kinds that some plugin reads or registers events of, as
    /// `<plural>.<version>.<group>`.
    pub fn watched_kinds(&self) -> BTreeSet<Arc<str>> {
        self.plugins().flat_map(|plugin| plugin.watched_kinds.iter().cloned()).collect()
    }

    /// Whether any plugin of any profile registered `event`.
    pub fn any_registered(&self, event: &ClusterEvent) -> bool {
        self.iter()
            .flat_map(|profile| &profile.events)
            .any(|(_, registered)| registered.event.matches(event))
    }
}

#[cfg(test)]
mod tests;
