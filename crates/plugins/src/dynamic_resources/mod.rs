//! DynamicResources: places pods where the devices of their ResourceClaims can be allocated, and
//! allocates the devices.
//!
//! `claims` finds the claims of a pod. `tracker` knows what the scheduler has allocated and the
//! watch does not show; `counted` adds it up. `search` prepares both for the nodes; the allocator
//! of the crate `structured` chooses the devices on a node. `extended` turns requests for extended
//! resources into a claim. `bind` writes the allocations of the chosen node, `conditions` waits for
//! the drivers. `releases` knows which reservations are being removed. `post_filter` frees claims
//! that are allocated for nodes that cannot take the pod. `details` names for explanations what
//! keeps a pod from a node.

mod args;
mod bind;
mod claims;
mod conditions;
mod counted;
mod details;
mod extended;
mod hints;
mod metrics;
mod post_filter;
mod releases;
mod score;
mod search;
mod selectors;
#[cfg(test)]
mod tests;
mod tracker;
mod trials;
mod turns;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use framework::device::{Allocation, FINALIZER, ResourceClaim};
use framework::{
    Attempt, AttemptMut, Cluster, Command, CycleState, Dependence, Detail, DryRun, Filter,
    FilterScope, Handle, NodeBits, NodeIx, NodeView, NormalizeScore, PerNode, Plugin, PluginArgs,
    PluginGates, Pod, PodGroupPostFilter, PodGroupPostFilterResult, PodGroupTrial, PostFilter,
    PostFilterResult, PreBind, PreBindInput, PreBindPreFlight, PreBindStep, PreEnqueue, PreFilter,
    PreFilterResult, Reserve, Score, ScoreScope, Status, Time, Timer, VerdictId, Verdicts, Write,
};
use serde_json::{Map, Value};
use structured::{
    AllocateError, Allocated, Allocator, Budget, Claims, Gates, Limits, LongSearches, Memos,
    Overlay,
};

use self::args::Args;
use self::bind::{Binder, ClaimWork, Setting};
use self::claims::{GroupClaims, claims_of};
use self::conditions::{Binding, binding_of};
use self::extended::{IN_MEMORY, stable_hash};
use self::metrics::Metrics;
use self::search::{NodeAllocation, Search, Wanted};
pub(crate) use self::selectors::{Selectors, SelectorsAt, SelectorsOfPod};
use self::tracker::{ClaimTracker, TrackedClaims};
use self::trials::Trials;
use crate::normalize::default_normalize;

/// Plugin name.
pub const NAME: &str = "DynamicResources";

/// The data that the profiles of a scheduler share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    tracker: ClaimTracker,
    selectors: Selectors,
    long_searches: Mutex<LongSearches>,
}

impl Shared {
    /// Returns the steps that long searches may take at a time.
    fn long_searches_at(&self, now: Time) -> MutexGuard<'_, LongSearches> {
        // A panic leaves the steps consistent: they are replaced as a whole.
        let mut long = self.long_searches.lock().unwrap_or_else(PoisonError::into_inner);
        long.refill(now);
        long
    }
}

/// The DynamicResources plugin.
#[derive(Debug)]
pub struct DynamicResources {
    shared: Arc<Shared>,
    gates: Gates,
    /// Whether devices provide extended resources.
    extended_resources: bool,
    groups: GroupClaims,
    /// Steps of the search on one node.
    budget: Budget,
    /// Longest wait for binding conditions; `None` without their gates.
    binding_timeout: Option<Duration>,
    metrics: Metrics,
    /// The answers for nodes whose devices look alike.
    memos: Mutex<Memos>,
}

/// Makes the plugin from `DynamicResourcesArgs`, with its own claim tracker.
///
/// # Errors
/// Returns the invalid argument.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    plugin_with(args, &Arc::default())
}

/// Makes the plugin with a claim tracker shared with other profiles.
///
/// # Errors
/// Returns the invalid argument.
pub(crate) fn plugin_with(args: &PluginArgs, shared: &Arc<Shared>) -> Result<Plugin, String> {
    let gates = args.gates();
    let args = Args::decode(args)?;
    let plugin = DynamicResources::new(&args, gates, shared)?;
    let metrics = plugin.metrics.all();
    let plugin = Plugin::new(NAME, plugin)
        .pre_enqueue()
        .pre_filter()
        .filter()
        .post_filter()
        .score()
        .normalize_score()
        .reserve()
        .pre_bind()
        .timer()
        .debug()
        .args(&args);
    let plugin = if gates.generic_workload { plugin.pod_group_post_filter() } else { plugin };
    let plugin = metrics.into_iter().fold(plugin, framework::PluginBuilder::metric);
    Ok(hints::register(plugin, gates).build())
}

/// The cycle state of Reserve: the claims of a pod with a chosen node; `None` after Unreserve.
#[derive(Debug, Clone)]
struct Reserved(Option<Binder>);

/// The cycle state of PreFilter for a pod without claims.
#[derive(Debug, Clone, Copy)]
struct NoClaims;

/// Returns the claims that PreFilter prepared; `None` if the pod has none.
fn search_in(state: &CycleState) -> Result<Option<&Search>, Status> {
    match state.read() {
        Some(search) => Ok(Some(search)),
        None if state.read::<NoClaims>().is_some() => Ok(None),
        None => Err(Status::error("not found")),
    }
}

/// Returns the allocations of devices that the watch does not show, as PreFilter found them; `None`
/// if the plugin does not run or the pod needs no devices.
pub(crate) fn allocated_beyond_watch(state: &CycleState) -> Option<&Overlay> {
    state.read::<Search>().map(|search| &*search.overlay)
}

impl DynamicResources {
    fn new(args: &Args, gates: PluginGates, shared: &Arc<Shared>) -> Result<Self, String> {
        let [filter_timeout, binding_timeout] = args.limits()?;
        let millis = filter_timeout.map_or(0, |limit| limit.as_millis().max(1));
        Ok(Self {
            shared: shared.clone(),
            gates: Gates {
                prioritized_list: gates.prioritized_list,
                partitionable_devices: gates.partitionable_devices,
                device_taints: gates.device_taints,
                device_taint_rules: gates.device_taint_rules,
                binding_conditions: binding_timeout.is_some(),
                consumable_capacity: gates.consumable_capacity,
                fractional_capacity_range: gates.fractional_capacity_range,
                ..Gates::at(gates.level)
            },
            extended_resources: gates.extended_resources,
            groups: GroupClaims { are_shared: gates.workload_claims },
            budget: Budget::of_millis(u64::try_from(millis).unwrap_or(u64::MAX)),
            binding_timeout,
            metrics: Metrics::of(gates.behaviours()),
            memos: Mutex::default(),
        })
    }

    /// Returns the claims of a pod, in the order of its spec.
    fn claims_of(
        &self,
        pod: &Pod,
        cluster: &Cluster,
        tracked: &TrackedClaims,
    ) -> Result<Vec<Arc<ResourceClaim>>, String> {
        claims_of(pod, cluster, tracked, self.groups)
    }

    /// Allocates devices for the claims of a pod on a node; `None` if the node lacks devices.
    fn allocate(
        &self,
        search: &Search,
        pod: &Pod,
        node: &NodeView<'_>,
        long: &mut LongSearches,
    ) -> Result<Option<NodeAllocation>, Status> {
        let wanted = search.wanted(pod, &search.through_devices(node)?);
        let claims = self.prepare(&wanted, node.cluster(), long);
        if claims.is_empty() {
            return Ok(Some(NodeAllocation { wanted, allocations: Vec::new() }));
        }
        let seed = search.seed ^ stable_hash(node.name());
        let allocator = self.allocator(search, node.cluster());
        let found = allocator.allocate(&claims, node, Limits { budget: self.budget, long }, seed);
        let found = found.map_err(|error| status_of(&error, node))?;
        Ok(found.map(|allocations| NodeAllocation { wanted, allocations }))
    }

    /// Looks up the classes and compiles the selectors of claims.
    fn prepare(&self, wanted: &Wanted, cluster: &Cluster, long: &mut LongSearches) -> Claims {
        let claims = wanted.claims.iter().map(|claim| &**claim);
        let selectors = SelectorsAt::new(&self.shared.selectors, self.gates.behaviours);
        Claims::new(claims, cluster, &mut SelectorsOfPod::new(selectors, long))
    }

    fn allocator<'a>(&self, search: &'a Search, cluster: &'a Cluster) -> Allocator<'a> {
        let allocated =
            Allocated { base: cluster.allocated_devices(), overlay: Some(&search.overlay) };
        Allocator::new(cluster, self.gates, allocated)
    }

    /// Returns success if the node can take the pod, otherwise the reason.
    fn check(
        &self,
        search: &Search,
        pod: &Pod,
        node: &NodeView<'_>,
        handle: &Handle<'_>,
    ) -> Result<(), Status> {
        let mut long = self.shared.long_searches_at(handle.now);
        if self.allocate(search, pod, node, &mut long)?.is_none() {
            return Err(Status::unresolvable(CANNOT_ALLOCATE));
        }
        match search.is_unavailable(node, |claim| self.is_failed(claim, handle))? {
            true => Err(Status::unresolvable(UNAVAILABLE)),
            false => Ok(()),
        }
    }

    /// Whether the devices of an allocated claim failed to become ready.
    fn is_failed(&self, claim: &ResourceClaim, handle: &Handle<'_>) -> bool {
        self.binding_timeout.is_some_and(|timeout| {
            let binding = binding_of(claim, handle.wall_time(), timeout);
            matches!(binding, Binding::Failed(_) | Binding::TimedOut(_))
        })
    }

    fn setting(&self) -> Setting<'_> {
        Setting {
            tracker: &self.shared.tracker,
            binding_timeout: self.binding_timeout,
            metrics: &self.metrics,
        }
    }

    /// Ends doubts about claims, and sets the timer for the next one that ends by time or is
    /// fenced.
    fn resolve_doubts(&self, handle: &Handle<'_>) {
        if let Some(at) = self.shared.tracker.lock().resolve(handle) {
            handle.command(Command::SetTimer { plugin: NAME.into(), at, token: 0 });
        }
    }

    /// Ends doubts about claims, and fences the others if it is time.
    fn fence_doubts(&self, handle: &Handle<'_>) {
        let mut tracked = self.shared.tracker.lock();
        tracked.resolve(handle);
        tracked.fence(handle);
        drop(tracked);
        self.resolve_doubts(handle);
    }
}

/// The verdict on a node that lacks devices.
const CANNOT_ALLOCATE: &str = "cannot allocate all claims";
/// The verdict on a node that cannot use the devices of an allocated claim.
const UNAVAILABLE: &str = "resourceclaim not available on the node";

fn status_of(error: &AllocateError, node: &NodeView<'_>) -> Status {
    match error {
        AllocateError::OutOfSteps => {
            Status::error(format!("node {}: timed out trying to allocate devices", node.name()))
        }
        AllocateError::Node(text) => Status::unresolvable(text.to_string()),
        AllocateError::Fatal(text) => Status::error(text.to_string()),
    }
}

/// Returns the allocations that Reserve of this plugin made, by the name of the claim, as JSON. The
/// claim for extended resources is called `<extended-resources>`.
pub fn reserved_allocations(state: &CycleState) -> Map<String, Value> {
    let Some(Reserved(Some(binder))) = state.read() else { return Map::new() };
    let new = binder.claims().iter().filter_map(|work| {
        Some((work.claim.name.to_string(), work.allocation.as_ref()?.to_json()))
    });
    new.collect()
}

impl PreEnqueue for DynamicResources {
    fn pre_enqueue(&self, pod: &Pod, handle: &Handle<'_>) -> Status {
        if pod.spec.resource_claims.is_empty() {
            return Status::success();
        }
        match self.claims_of(pod, handle.cluster, &self.shared.tracker.lock()) {
            Ok(_) => Status::success(),
            Err(text) => Status::unresolvable(text),
        }
    }
}

impl PreFilter for DynamicResources {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let AttemptMut { state, pod, handle, .. } = attempt;
        state.write(NoClaims);
        let wants_resources = self.extended_resources && !pod.spec.extended_requests.is_empty();
        if pod.spec.resource_claims.is_empty() && !wants_resources {
            return Err(Status::skip());
        }
        self.resolve_doubts(handle);
        let search = Search::prepare(self, pod, handle)?;
        state.write(search.ok_or_else(Status::skip)?);
        Ok(PreFilterResult::default())
    }
}

impl Filter for DynamicResources {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let checked = search_in(attempt.state).and_then(|search| match search {
            Some(search) => self.check(search, attempt.pod, node, attempt.handle),
            None => Ok(()),
        });
        checked.map_or_else(|status| status, |()| Status::success())
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let Attempt { state, pod, handle, .. } = *attempt;
        let Some(search) = search_in(state)? else { return Ok(()) };
        let mut trials = Trials::start(self, search, pod, handle);
        let mut long = self.shared.long_searches_at(handle.now);
        let mut failed = Ok(());
        nodes.retain(|node| {
            // An error ends the attempt, so no further node is searched.
            if failed.is_err() {
                return false;
            }
            match trials.fault(node, &mut long) {
                Ok(fault) => fault.is_none(),
                Err(status) => {
                    if !status.is_rejection() {
                        failed = Err(status);
                    }
                    false
                }
            }
        });
        trials.end();
        failed
    }

    fn explain_set(&self, attempt: &Attempt<'_>, rejected: &NodeBits, verdicts: &mut Verdicts) {
        let search = match search_in(attempt.state) {
            Ok(Some(search)) => search,
            Ok(None) => return,
            Err(status) => return verdicts.record_all(rejected, status),
        };
        let mut trials = Trials::start(self, search, attempt.pod, attempt.handle);
        // Filter has searched these nodes, so the searches may take as long again.
        let mut long = LongSearches::default();
        let mut interned: BTreeMap<&str, VerdictId> = BTreeMap::new();
        for node in rejected.iter() {
            match trials.fault(node, &mut long) {
                Ok(None) => {}
                Ok(Some(fault)) => {
                    let intern = || verdicts.intern(Status::unresolvable(fault));
                    let verdict = *interned.entry(fault).or_insert_with(intern);
                    verdicts.set(node, verdict);
                }
                Err(status) => verdicts.record(node, status),
            }
        }
        trials.end();
    }

    fn details(&self, attempt: &Attempt<'_>, rejected: &NodeBits) -> Vec<Detail> {
        match search_in(attempt.state) {
            Ok(Some(search)) => {
                details::of_rejected(self, search, attempt.pod, attempt.handle, rejected)
            }
            _ => Vec::new(),
        }
    }

    fn dependence(&self, _attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        Some(Dependence::on(FilterScope::Cluster).without_pods())
    }
}

impl PostFilter for DynamicResources {
    fn post_filter(
        &self,
        attempt: AttemptMut<'_>,
        verdicts: &Verdicts,
        _dry_run: &mut dyn DryRun,
    ) -> PostFilterResult {
        match search_in(attempt.state) {
            Ok(Some(search)) => {
                post_filter::run(self, search, attempt.pod, verdicts, attempt.handle).into()
            }
            Ok(None) => Status::unschedulable("no new claims to deallocate").into(),
            Err(status) => status.into(),
        }
    }
}

impl PodGroupPostFilter for DynamicResources {
    fn pod_group_post_filter(&self, trial: &mut dyn PodGroupTrial) -> PodGroupPostFilterResult {
        post_filter::run_for_group(self, trial).into()
    }
}

impl Score for DynamicResources {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let Some(search) = search_in(attempt.state)?.filter(|search| search.has_alternatives)
        else {
            return Ok(0);
        };
        // Filter has searched the node, so the search may take as long again.
        let found = self.allocate(search, attempt.pod, node, &mut LongSearches::default())?;
        let new = found.map_or(0, |found| score::sum(&found.wanted.claims, &found.allocations));
        Ok(score::of_allocated(&search.claims) + new)
    }

    fn dependence(&self, attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        let scope = match search_in(attempt.state) {
            Ok(search) if search.is_none_or(|search| !search.has_alternatives) => ScoreScope::Node,
            _ => ScoreScope::Cluster,
        };
        Some(Dependence::on(scope))
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: scores, .. } = scores;
        let Some(search) = search_in(attempt.state)?.filter(|search| search.has_alternatives)
        else {
            scores.fill(0);
            return Ok(());
        };
        let of_allocated = score::of_allocated(&search.claims);
        let mut trials = Trials::start(self, search, attempt.pod, attempt.handle);
        // Filter has searched these nodes, so the searches may take as long again.
        let mut long = LongSearches::default();
        let mut judge = |(node, score): (&NodeIx, &mut i64)| {
            *score = of_allocated + trials.score(*node, &mut long)?;
            Ok(())
        };
        let judged = nodes.iter().zip(scores).try_for_each(&mut judge);
        trials.end();
        judged
    }
}

impl NormalizeScore for DynamicResources {
    fn normalize_score(&self, _attempt: &Attempt<'_>, scores: PerNode<'_>) -> Status {
        default_normalize(scores.values, false);
        Status::success()
    }
}

impl DynamicResources {
    /// Allocates the claims on the chosen node, again as Filter did.
    fn reserve_on(
        &self,
        search: &Search,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<Binder, Status> {
        // Filter has searched the node, so the search may take as long again.
        let found = self.allocate(search, pod, node, &mut LongSearches::default())?;
        let found = found.ok_or_else(|| Status::error("claim allocation not found for node"))?;
        let NodeAllocation { wanted, allocations } = found;
        let mut tracked = self.shared.tracker.lock();
        let new: BTreeMap<_, _> =
            wanted.claims.iter().map(|claim| &claim.uid).zip(allocations).collect();
        let mut new: BTreeMap<_, _> =
            new.into_iter().map(|(uid, allocation)| (uid.clone(), Arc::new(allocation))).collect();
        for claim in &search.in_flight {
            if !tracked.join(&claim.uid, &pod.uid) {
                let name = bind::full_name(claim);
                return Err(Status::error(format!("claim {name} is not in flight any more")));
            }
        }
        let is_extended = |claim: &ResourceClaim| *claim.name == *IN_MEMORY;
        let own =
            search.claims.iter().chain(wanted.claims.iter().filter(|claim| is_extended(claim)));
        let works = own.map(|claim| {
            let before = search.in_flight.iter().find(|own| own.uid == claim.uid);
            let allocation = match before {
                Some(_) => claim.allocation.clone(),
                None => new.remove(&claim.uid),
            };
            ClaimWork {
                claim: before.unwrap_or(claim).clone(),
                allocation,
                user: self.groups.user_of(claim, pod, node.cluster()),
                is_extended: is_extended(claim),
                in_doubt: false,
            }
        });
        let works: Vec<ClaimWork> = works.collect();
        for work in &works {
            if let Some(allocation) = &work.allocation {
                let claim = Arc::new(with_allocation(&work.claim, allocation));
                if !tracked.has_in_flight(&claim.uid, &pod.uid) {
                    tracked.reserve(claim, &pod.uid, pod.pod_group());
                }
            }
        }
        Ok(Binder::new(works, wanted.mappings.unwrap_or_default()))
    }

    /// Releases the claims of a pod whose attempt failed, and ends their reservations.
    fn release(
        &self,
        works: &[ClaimWork],
        in_doubt: impl Fn(usize) -> bool,
        pod: &Pod,
        handle: &Handle<'_>,
    ) {
        let write = |write| {
            handle.command(Command::Write { pod: pod.key.clone(), uid: pod.uid.clone(), write });
        };
        for (place, work) in works.iter().enumerate() {
            let claim = &work.claim;
            // The watch may not show a written claim yet; its devices are free once it is deleted.
            let is_being_deleted = work.is_extended && work.is_written();
            let in_doubt = work.in_doubt || in_doubt(place) || is_being_deleted;
            self.shared.tracker.lock().turns.end(&claim.uid, &pod.uid);
            match in_doubt {
                true => self.shared.tracker.lock().doubt(claim, pod, handle),
                false => self.shared.tracker.lock().release(&claim.uid, pod, handle),
            }
            if work.is_extended {
                if *claim.name != *IN_MEMORY {
                    bind::deletion(claim).into_iter().for_each(write);
                }
            // A reservation in doubt is not removed: a request that names no version might remove a
            // later one.
            } else if !in_doubt {
                self.end_reservation(work, pod, handle).into_iter().for_each(write);
            }
        }
        self.fence_doubts(handle);
    }

    /// Returns the write that ends the reservation of a claim for a pod whose attempt failed. That
    /// for a group ends with its last pod, which may not have seen it.
    fn end_reservation(&self, work: &ClaimWork, pod: &Pod, handle: &Handle<'_>) -> Option<Write> {
        let (user, mut claim) = (&work.user.uid, &work.claim);
        let mut tracked = self.shared.tracker.lock();
        let latest = match *user == pod.uid {
            true => None,
            false if has_placed_fellow(pod, handle.cluster) => return None,
            false => tracked.latest(&claim.namespace, &claim.name, handle.cluster).cloned(),
        };
        if let Some(latest) = latest.as_ref().filter(|latest| latest.uid == claim.uid) {
            claim = latest;
        }
        if claim.allocation.is_none() || !claim.is_reserved_for(user) {
            return None;
        }
        tracked.releases.begin(claim, user, handle.now);
        Some(bind::release(claim, user))
    }
}

/// Whether another pod of the group of a pod has a node.
fn has_placed_fellow(pod: &Pod, cluster: &Cluster) -> bool {
    let state = pod.pod_group().and_then(|group| cluster.pod_group_state(&group));
    state.is_some_and(|state| state.scheduled().any(|ix| cluster.pod(ix).pod.uid != pod.uid))
}

/// Returns the claim as it is written: protected and allocated.
fn with_allocation(claim: &ResourceClaim, allocation: &Arc<Allocation>) -> ResourceClaim {
    let mut finalizers = claim.finalizers.to_vec();
    if !claim.is_protected() {
        finalizers.push(FINALIZER.into());
    }
    ResourceClaim {
        finalizers: finalizers.into(),
        allocation: Some(allocation.clone()),
        ..claim.clone()
    }
}

impl Reserve for DynamicResources {
    fn reserve(&self, attempt: AttemptMut<'_>, node: &str) -> Status {
        let AttemptMut { state, pod, handle, .. } = attempt;
        let search = match search_in(state) {
            Ok(Some(search)) => search,
            Ok(None) => return Status::success(),
            Err(status) => return status,
        };
        let Some(node) = handle.cluster.node_named(node) else {
            return Status::error(format!("node {node:?} not found"));
        };
        match self.reserve_on(search, pod, &handle.cluster.node(node)) {
            Ok(binder) => {
                state.write(Reserved(Some(binder)));
                if let Some(search) = state.read_mut::<Search>() {
                    // The tracker copies an overlay that is in use before it changes it.
                    search.overlay = Arc::default();
                }
                Status::success()
            }
            Err(status) => status,
        }
    }

    fn unreserve(&self, attempt: AttemptMut<'_>, _node: &str) {
        let AttemptMut { state, pod, handle, .. } = attempt;
        match state.read_mut::<Reserved>() {
            Some(Reserved(binder)) => {
                if let Some(binder) = binder.take() {
                    self.release(binder.claims(), |place| binder.is_writing(place), pod, handle);
                }
            }
            None => {
                let Ok(Some(search)) = search_in(state) else { return };
                let works = search.claims.iter().map(|claim| {
                    let user = self.groups.user_of(claim, pod, handle.cluster);
                    ClaimWork::allocated_before(claim, user)
                });
                self.release(&works.collect::<Vec<_>>(), |_| false, pod, handle);
                state.write(Reserved(None));
            }
        }
    }

    /// Forgets the allocations. The claims that were allocated before stay reserved for the pod.
    fn undo_reserve(&self, attempt: AttemptMut<'_>, _node: &str) {
        let reserved =
            attempt.state.read_mut::<Reserved>().and_then(|Reserved(binder)| binder.take());
        let Some(binder) = reserved else { return };
        let mut tracked = self.shared.tracker.lock();
        let allocated = binder.claims().iter().filter(|work| work.allocation.is_some());
        allocated.for_each(|work| tracked.forget(&work.claim.uid, &attempt.pod.uid));
    }
}

impl PreBind for DynamicResources {
    fn pre_flight(&self, attempt: &Attempt<'_>, _node: &str) -> PreBindPreFlight {
        match search_in(attempt.state) {
            Err(status) => PreBindPreFlight::Fail(status),
            Ok(None) => PreBindPreFlight::Skip { allow_parallel: true },
            Ok(Some(_)) => PreBindPreFlight::Run { allow_parallel: true },
        }
    }

    fn pre_bind(
        &self,
        attempt: AttemptMut<'_>,
        node: &str,
        input: PreBindInput<'_>,
    ) -> PreBindStep {
        match attempt.state.read_mut() {
            Some(Reserved(Some(binder))) => {
                binder.step(attempt.pod, node, &self.setting(), attempt.handle, &input)
            }
            _ => PreBindStep::Done(Status::success()),
        }
    }
}

/// Ends doubts about claims, or fences their writes.
impl Timer for DynamicResources {
    fn fire(&self, _token: u64, handle: &Handle<'_>) {
        self.fence_doubts(handle);
    }
}
