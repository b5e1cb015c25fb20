//! The books: the quotas as a tree, and what the pods of each use and ask for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api::device::ClaimSpec;
use api::{ElasticQuota, Pod, PodRequests, QuotaKey, Uid};

use crate::amounts::{Amounts, ResourceIx, Resources, of_requests};
use crate::choice::{Choice, Chosen, Usage};
use crate::claims::{ClaimKey, Claims, UserChange, claims_of};
use crate::node::{Node, QuotaIx, QuotaView, Rank};
use crate::shares::{Claim, divide};

/// The quotas as a tree, and the pods by UID.
///
/// A pod counts for the quota that its label names, or else for the oldest quota of its namespace.
/// Pods are known whether or not they have a quota, so that a quota which appears later has its
/// pods at once. Equal quotas and pods give equal books, in whatever order they arrive, unless
/// parents form a circle.
#[derive(Debug, Clone, Default)]
pub struct Books {
    /// Whether pods and quotas are counted.
    counts: bool,
    resources: Resources,
    quotas: Vec<Option<Node>>,
    free: Vec<QuotaIx>,
    by_key: BTreeMap<QuotaKey, QuotaIx>,
    by_name: BTreeMap<Arc<str>, BTreeSet<Rank>>,
    by_namespace: BTreeMap<Arc<str>, BTreeSet<Rank>>,
    /// By the parent that they name, whether or not it exists.
    by_parent: BTreeMap<Arc<str>, BTreeSet<QuotaIx>>,
    /// Quotas at the top, because the parent that they name is below them.
    in_circles: BTreeSet<QuotaIx>,
    choices: BTreeMap<Choice, Chosen>,
    /// Labels and namespaces of the choices with a label.
    by_label: BTreeSet<(Arc<str>, Arc<str>)>,
    claims: Claims,
    /// Never iterated.
    pods: HashMap<Uid, Claimant>,
    root: Root,
    /// The quotas that have changed since they were taken.
    changed: BTreeSet<QuotaIx>,
    /// Number of changes of the quotas themselves.
    structure: u64,
}

/// What is known of a pod. A pod that is assumed on a node is both.
#[derive(Debug, Clone, Default)]
struct Claimant {
    pending: Option<Charge>,
    placed: Option<Charge>,
}

/// What a pod takes, and from whom.
#[derive(Debug, Clone)]
struct Charge {
    choice: Choice,
    requests: Arc<PodRequests>,
    claims: Box<[ClaimKey]>,
}

/// What all quotas have together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Root {
    /// The quotas without a parent.
    pub(crate) tops: BTreeSet<QuotaIx>,
    /// What their pods use.
    pub(crate) used: Amounts,
    /// What pods use of the resources that the quota at the top above them governs.
    pub(crate) governed: Amounts,
    /// What quotas at the top that do not lend leave of their `min`.
    pub(crate) withheld: Amounts,
    pub(crate) min: SumOfMin,
}

/// The sum of the `min` of the quotas at the top.
#[derive(Debug, Clone, Default)]
pub(crate) struct SumOfMin {
    sum: Amounts,
    /// Number of quotas that mention the resource.
    mentions: Amounts,
}

impl SumOfMin {
    /// Returns the sum; `None` if no quota mentions the resource.
    pub(crate) fn get(&self, resource: ResourceIx) -> Option<i128> {
        (self.mentions.get(resource) > 0).then(|| self.sum.get(resource))
    }
}

/// A change of what a quota uses and asks for.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    used: i128,
    demand: i128,
}

/// Reading.
impl Books {
    /// Whether pods and quotas are counted.
    pub const fn counts(&self) -> bool {
        self.counts
    }

    /// Whether there is no quota.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Returns a number that changes with what quotas say, and with the quotas of pods. Ids of
    /// quotas belong to it.
    pub const fn structure(&self) -> u64 {
        self.structure
    }

    /// Returns the quotas by namespace and name, also those that do not count.
    pub fn quotas(&self) -> impl Iterator<Item = QuotaView<'_>> {
        self.by_key.values().map(|ix| self.view(*ix))
    }

    /// Returns the quotas without a parent.
    pub fn tops(&self) -> impl Iterator<Item = QuotaView<'_>> {
        self.root.tops.iter().map(|ix| self.view(*ix))
    }

    /// Returns the quota of this key.
    pub fn get(&self, key: &QuotaKey) -> Option<QuotaView<'_>> {
        self.by_key.get(key).map(|ix| self.view(*ix))
    }

    /// Returns a quota.
    ///
    /// # Panics
    /// Panics if the id is not in use.
    pub fn view(&self, ix: QuotaIx) -> QuotaView<'_> {
        let _ = self.node(ix);
        QuotaView { books: self, ix }
    }

    /// Returns the quota of a pod, whether or not the pod is known.
    pub fn quota_of(&self, pod: &Pod) -> Option<QuotaView<'_>> {
        if self.by_key.is_empty() {
            return None;
        }
        let choice = Choice::of(pod);
        let known = self.choices.get(&choice).map(|chosen| chosen.quota);
        known.unwrap_or_else(|| self.resolve(&choice)).map(|ix| self.view(ix))
    }

    /// Returns what a pod without a node would take from its quota. Devices that another pod of the
    /// same choice uses are not taken again.
    pub fn request_of(&self, pod: &Pod) -> Amounts {
        self.amounts_of(pod, 0)
    }

    /// Returns what a quota uses less once a pod with a node is gone. Devices that another pod of
    /// the same choice uses stay in use.
    pub fn used_by(&self, pod: &Pod) -> Amounts {
        self.amounts_of(pod, 1)
    }

    /// Returns what a pod requests, with the devices that this number of placed pods of its choice
    /// use.
    fn amounts_of(&self, pod: &Pod, placed: u32) -> Amounts {
        let choice = Choice::of(pod);
        let own = of_requests(&pod.requests, |name| self.resources.get(name));
        let own = own.into_iter().map(|(resource, amount)| (resource, i128::from(amount)));
        let mut amounts: Amounts = own.collect();
        for key in claims_of(pod) {
            let Some(book) = self.claims.get(&key) else { continue };
            let of_choice = book.users.iter().find(|users| users.choice == choice);
            if of_choice.map_or(0, |users| users.placed) == placed {
                self.add_devices(&mut amounts, &book.devices);
            }
        }
        amounts
    }

    fn add_devices(&self, amounts: &mut Amounts, devices: &[(Arc<str>, i64)]) {
        for (name, count) in devices {
            if let Some(resource) = self.resources.get(name) {
                amounts.add(resource, i128::from(*count));
            }
        }
    }

    /// Returns the name of a resource.
    pub fn resource_name(&self, resource: ResourceIx) -> &Arc<str> {
        self.resources.name(resource)
    }

    /// Returns the resource of this name, if a quota or a pod has named it.
    pub fn resource(&self, name: &str) -> Option<ResourceIx> {
        self.resources.get(name)
    }

    /// Returns the resources that a quota or a pod has named.
    pub fn all_resources(&self) -> impl Iterator<Item = ResourceIx> + use<> {
        (0..self.resources.len()).map(ResourceIx::new)
    }

    /// Returns the sum of the `min` of the quotas without a parent; `None` if none mentions the
    /// resource.
    pub fn total_min(&self, resource: ResourceIx) -> Option<i128> {
        self.root.min.get(resource)
    }

    /// Returns what pods use of a resource that the quota at the top above them governs.
    pub fn total_used(&self, resource: ResourceIx) -> i128 {
        self.root.governed.get(resource)
    }

    /// Returns the share of a quota: what it may use now without what is owed to others, level by
    /// level from the top.
    pub fn share_of(&self, quota: QuotaIx, resource: ResourceIx) -> i128 {
        let mut path: Vec<QuotaIx> = self.path_of(quota).collect();
        let mut total = self.root.min.get(resource);
        let mut share = 0;
        while let Some(ix) = path.pop() {
            share = match total {
                None => self.wanted(ix, resource),
                Some(total) => {
                    let siblings: Vec<QuotaIx> = self.siblings(ix).collect();
                    let place = siblings.iter().position(|own| *own == ix).unwrap_or_default();
                    self.divide_among(&siblings, total, resource)[place]
                }
            };
            total = Some(share);
        }
        share
    }

    /// Returns the shares of the quotas below `parent`, or of those at the top, of `total`.
    fn divide_among(&self, quotas: &[QuotaIx], total: i128, resource: ResourceIx) -> Vec<i128> {
        let all = self.root.min.get(resource).unwrap_or(total);
        let claim = |ix: &QuotaIx| {
            let node = self.node(*ix);
            let cap = node.max.get(resource).map(i128::from);
            let weight = node.weight.get(resource).map(i128::from);
            Claim {
                min: node.min.get(resource).map_or(0, |min| i128::from(min).max(0)),
                demand: node.capped_demand(resource),
                weight: weight.or(cap).unwrap_or(all),
                lends: node.object.spec.lends,
            }
        };
        divide(total, &quotas.iter().map(claim).collect::<Vec<_>>())
    }

    fn siblings(&self, quota: QuotaIx) -> impl Iterator<Item = QuotaIx> {
        let siblings = match self.node(quota).parent {
            Some(parent) => &self.node(parent).children,
            None => &self.root.tops,
        };
        siblings.iter().copied()
    }

    /// Returns what a quota asks its parent for.
    fn wanted(&self, quota: QuotaIx, resource: ResourceIx) -> i128 {
        wanted(self.node(quota), resource)
    }

    pub(crate) fn node(&self, ix: QuotaIx) -> &Node {
        self.quotas[ix.index()].as_ref().expect("the id is in use")
    }

    pub(crate) const fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the quota and those above it, the quota itself first.
    pub(crate) fn path_of(&self, quota: QuotaIx) -> impl Iterator<Item = QuotaIx> + '_ {
        std::iter::successors(Some(quota), |ix| self.node(*ix).parent)
    }

    /// Returns the quota that a choice leads to.
    fn resolve(&self, choice: &Choice) -> Option<QuotaIx> {
        let is_leaf = |rank: &&Rank| {
            let node = self.node(rank.quota);
            node.counts && !node.object.spec.is_parent
        };
        let by_name = choice.name.as_ref().and_then(|name| {
            let named = || self.by_name.get(name).into_iter().flatten().filter(is_leaf);
            named().find(|rank| rank.key.namespace == choice.namespace).or_else(|| named().next())
        });
        let of_namespace = || {
            let all = self.by_namespace.get(&choice.namespace);
            all.into_iter().flatten().find(is_leaf)
        };
        by_name.or_else(of_namespace).map(|rank| rank.quota)
    }

    /// Returns the parent that a quota names; `None` if there is none, or if it is below the quota.
    fn resolve_parent(&self, quota: QuotaIx) -> Option<QuotaIx> {
        self.named_parent(quota).filter(|parent| !self.is_below(*parent, quota))
    }

    /// Whether a quota is below another, or is this one.
    fn is_below(&self, quota: QuotaIx, above: QuotaIx) -> bool {
        self.path_of(quota).any(|own| own == above)
    }

    fn named_parent(&self, quota: QuotaIx) -> Option<QuotaIx> {
        let node = self.node(quota);
        let name = node.object.spec.parent.as_ref()?;
        let is_parent = |rank: &&Rank| {
            let other = self.node(rank.quota);
            other.counts && other.object.spec.is_parent && rank.quota != quota
        };
        let named = || self.by_name.get(name).into_iter().flatten().filter(is_parent);
        let near = named().find(|rank| rank.key.namespace == node.key.namespace);
        near.or_else(|| named().next()).map(|rank| rank.quota)
    }
}

fn wanted(node: &Node, resource: ResourceIx) -> i128 {
    let demand = node.capped_demand(resource);
    match node.object.spec.lends {
        true => demand,
        false => demand.max(i128::from(node.min.get(resource).unwrap_or_default())),
    }
}

/// Pods.
impl Books {
    /// Counts pods and quotas from now on.
    pub const fn count(&mut self) {
        self.counts = true;
    }

    /// Notes that a pod is placed on a node, or that it no longer is.
    pub fn set_placed(&mut self, pod: &Pod, is_placed: bool) {
        self.change_pod(pod, |claimant, charge| claimant.placed = is_placed.then_some(charge));
    }

    /// Notes whether a pod waits for a node, or for its bind to be seen. Ignores pods with
    /// scheduling gates, which ask for nothing yet.
    pub fn set_pending(&mut self, pod: &Pod, is_pending: bool) {
        let asks = is_pending && pod.spec.scheduling_gates.is_empty();
        self.change_pod(pod, |claimant, charge| claimant.pending = asks.then_some(charge));
    }

    fn change_pod(&mut self, pod: &Pod, change: impl FnOnce(&mut Claimant, Charge)) {
        if !self.counts {
            return;
        }
        let mut claimant = self.pods.remove(&pod.uid).unwrap_or_default();
        self.charge(&claimant, -1);
        let (choice, claims) = (Choice::of(pod), claims_of(pod).into());
        change(&mut claimant, Charge { choice, requests: pod.requests.clone(), claims });
        self.charge(&claimant, 1);
        if claimant.pending.is_some() || claimant.placed.is_some() {
            self.pods.insert(pod.uid.clone(), claimant);
        }
    }

    /// Adds what a pod takes, or with the sign -1 takes it out.
    fn charge(&mut self, claimant: &Claimant, sign: i32) {
        let is_placed = claimant.placed.is_some();
        let Some(charge) = claimant.placed.as_ref().or(claimant.pending.as_ref()) else { return };
        let Charge { choice, requests, claims } = charge;
        let resources = &mut self.resources;
        let mut amounts = of_requests(requests, |name| Some(resources.intern(name)));
        if !self.choices.contains_key(choice) {
            let quota = self.resolve(choice);
            self.choices.insert(choice.clone(), Chosen { quota, ..Chosen::default() });
            if let Some(name) = &choice.name {
                self.by_label.insert((name.clone(), choice.namespace.clone()));
            }
        }
        let sign = i64::from(sign);
        amounts.iter_mut().for_each(|(_, amount)| *amount *= sign);
        for (resource, amount) in amounts {
            let demand = i128::from(amount);
            let used = if is_placed { demand } else { 0 };
            self.change_choice(choice, resource, Change { used, demand });
        }
        for key in claims {
            let change = UserChange { placed: is_placed, sign: if sign > 0 { 1 } else { -1 } };
            let (devices, turns) = self.claims.change_users(key, choice, change);
            for (name, count) in devices {
                let resource = self.resources.intern(&name);
                let part = |turn: i64| i128::from(count) * i128::from(turn);
                let change = Change { used: part(turns.used), demand: part(turns.demand) };
                self.change_choice(choice, resource, change);
            }
        }
        self.change_waiting(choice, if is_placed { 0 } else { sign });
        let chosen = self.choices.get_mut(choice).expect("the choice is known");
        chosen.pods = if sign > 0 { chosen.pods + 1 } else { chosen.pods - 1 };
        if chosen.pods == 0 {
            self.choices.remove(choice);
            if let Some(name) = &choice.name {
                self.by_label.remove(&(name.clone(), choice.namespace.clone()));
            }
        }
    }

    fn change_choice(&mut self, choice: &Choice, resource: ResourceIx, change: Change) {
        let Some(chosen) = self.choices.get_mut(choice) else { return };
        chosen.usage.used.add(resource, change.used);
        chosen.usage.demand.add(resource, change.demand);
        if let Some(quota) = chosen.quota {
            self.propagate(quota, resource, change);
        }
    }

    fn change_waiting(&mut self, choice: &Choice, change: i64) {
        let Some(chosen) = self.choices.get_mut(choice) else { return };
        chosen.usage.waiting += change;
        if let Some(quota) = chosen.quota {
            self.add_waiting(Some(quota), change);
        }
    }

    /// Notes what a ResourceClaim asks for, or that it is gone.
    pub fn set_claim(&mut self, namespace: &Arc<str>, name: &Arc<str>, spec: Option<&ClaimSpec>) {
        if !self.counts {
            return;
        }
        let change = self.claims.set(&(namespace.clone(), name.clone()), spec);
        if change.before == change.after {
            return;
        }
        for users in change.users {
            for (devices, sign) in [(&change.before, -1), (&change.after, 1)] {
                for (name, count) in devices {
                    let resource = self.resources.intern(name);
                    let demand = i128::from(*count) * sign;
                    let used = if users.placed > 0 { demand } else { 0 };
                    self.change_choice(&users.choice, resource, Change { used, demand });
                }
            }
        }
    }
}

/// Quotas.
impl Books {
    /// Returns the quotas whose object or usage has changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<QuotaIx> {
        std::mem::take(&mut self.changed)
    }

    /// Adds or replaces a quota, or removes it.
    pub fn set_quota(&mut self, key: &QuotaKey, object: Option<Arc<ElasticQuota>>) {
        if !self.counts {
            return;
        }
        if let Some(ix) = self.by_key.get(key).copied() {
            let known = self.node_mut(ix);
            let is_same = |new: &Arc<ElasticQuota>| {
                let old = &known.object;
                (&old.spec, &old.uid, old.created) == (&new.spec, &new.uid, new.created)
            };
            match object {
                Some(new) if is_same(&new) => {
                    known.object = new;
                    self.changed.insert(ix);
                }
                new => {
                    self.structure += 1;
                    self.remove(ix);
                    new.into_iter().for_each(|new| self.insert(key, new));
                }
            }
        } else if let Some(new) = object {
            self.structure += 1;
            self.insert(key, new);
        }
    }

    fn insert(&mut self, key: &QuotaKey, object: Arc<ElasticQuota>) {
        let node = Node::new(key.clone(), object, &mut self.resources);
        let ix = self.free.pop().unwrap_or_else(|| {
            self.quotas.push(None);
            QuotaIx(u32::try_from(self.quotas.len() - 1).expect("fewer than 2^32 quotas"))
        });
        let rank = node.rank(ix);
        if let Some(parent) = &node.object.spec.parent {
            self.by_parent.entry(parent.clone()).or_default().insert(ix);
        }
        self.quotas[ix.index()] = Some(node);
        self.by_key.insert(key.clone(), ix);
        self.changed.insert(ix);
        self.by_name.entry(key.name.clone()).or_default().insert(rank.clone());
        self.by_namespace.entry(key.namespace.clone()).or_default().insert(rank);
        self.settle(key);
    }

    fn remove(&mut self, ix: QuotaIx) {
        let node = self.node(ix);
        let (key, rank) = (node.key.clone(), node.rank(ix));
        if let Some(parent) = node.object.spec.parent.clone() {
            remove_from(&mut self.by_parent, &parent, &ix);
        }
        self.by_key.remove(&key);
        remove_from(&mut self.by_name, &key.name, &rank);
        remove_from(&mut self.by_namespace, &key.namespace, &rank);
        self.settle(&key);
        if self.node(ix).counts {
            self.unlink(ix);
        }
        self.quotas[ix.index()] = None;
        self.changed.remove(&ix);
        self.free.push(ix);
    }

    /// Brings the tree and the choices up to date after a quota of this key has come or gone.
    fn settle(&mut self, key: &QuotaKey) {
        let mut names = BTreeSet::from([key.name.clone()]);
        let mut ending = Vec::new();
        let ranks = self.by_namespace.get(&key.namespace).cloned().unwrap_or_default();
        let mut has_plain = false;
        for Rank { key, quota, .. } in ranks {
            let node = self.node_mut(quota);
            let is_in_tree = node.object.spec.is_in_tree;
            let counts = is_in_tree || !has_plain;
            has_plain |= !is_in_tree;
            if counts == node.counts {
                continue;
            }
            names.insert(key.name);
            node.counts = counts;
            match counts {
                true => self.link(quota),
                false => ending.push(quota),
            }
        }
        self.adopt(&key.name);
        self.choose_again(&key.namespace, &names);
        ending.into_iter().for_each(|quota| self.unlink(quota));
    }

    /// Lets the quotas that name this parent follow it.
    fn adopt(&mut self, parent: &Arc<str>) {
        let children = self.by_parent.get(parent).into_iter().flatten();
        let children: Vec<QuotaIx> = children.chain(&self.in_circles).copied().collect();
        for child in children {
            let node = self.node(child);
            if node.counts && self.resolve_parent(child) != node.parent {
                self.unlink(child);
                self.link(child);
            }
        }
    }

    /// Resolves the choices anew of pods of this namespace, or with a label of these names.
    fn choose_again(&mut self, namespace: &Arc<str>, names: &BTreeSet<Arc<str>>) {
        let first = Choice { namespace: namespace.clone(), name: None };
        let mut choices: Vec<Choice> = Vec::new();
        let of_namespace = self.choices.range(first..).map(|(choice, _)| choice);
        choices.extend(of_namespace.take_while(|own| own.namespace == *namespace).cloned());
        for name in names {
            let labelled = self.by_label.range((name.clone(), "".into())..);
            let labelled = labelled.take_while(|(own, _)| own == name);
            choices.extend(labelled.map(|(name, namespace)| Choice {
                namespace: namespace.clone(),
                name: Some(name.clone()),
            }));
        }
        for choice in choices {
            let new = self.resolve(&choice);
            let Some(chosen) = self.choices.get_mut(&choice) else { continue };
            let old = std::mem::replace(&mut chosen.quota, new);
            if old == new {
                continue;
            }
            let usage = chosen.usage.clone();
            old.into_iter().for_each(|old| self.spread(old, &usage.negated()));
            new.into_iter().for_each(|new| self.spread(new, &usage));
        }
    }

    fn spread(&mut self, quota: QuotaIx, usage: &Usage) {
        for resource in self.all_resources() {
            let (used, demand) = (usage.used.get(resource), usage.demand.get(resource));
            if (used, demand) != (0, 0) {
                self.propagate(quota, resource, Change { used, demand });
            }
        }
        self.add_waiting(Some(quota), usage.waiting);
    }

    /// Places a quota in the tree, with all that is below it.
    fn link(&mut self, ix: QuotaIx) {
        let parent = self.resolve_parent(ix);
        match parent.is_none() && self.named_parent(ix).is_some() {
            true => self.in_circles.insert(ix),
            false => self.in_circles.remove(&ix),
        };
        self.node_mut(ix).parent = parent;
        match parent {
            Some(parent) => self.node_mut(parent).children.insert(ix),
            None => self.root.tops.insert(ix),
        };
        self.shift(ix, 1);
    }

    /// Takes a quota out of the tree, with all that is below it.
    fn unlink(&mut self, ix: QuotaIx) {
        self.shift(ix, -1);
        self.in_circles.remove(&ix);
        match self.node_mut(ix).parent.take() {
            Some(parent) => self.node_mut(parent).children.remove(&ix),
            None => self.root.tops.remove(&ix),
        };
    }

    /// Adds what a quota has to what is above it, or with the sign -1 takes it out.
    fn shift(&mut self, ix: QuotaIx, sign: i128) {
        let parent = self.node(ix).parent;
        for resource in self.all_resources() {
            let node = self.node(ix);
            let (used, kept) = (node.used.get(resource) * sign, node.kept_back(resource) * sign);
            let demand = wanted(node, resource) * sign;
            if let Some(parent) = parent {
                self.node_mut(parent).withheld.add(resource, kept);
                if (used, demand) != (0, 0) {
                    self.propagate(parent, resource, Change { used, demand });
                }
                continue;
            }
            let (governs, min) = (node.governs(resource), node.min.get(resource));
            let root = &mut self.root;
            root.used.add(resource, used);
            root.withheld.add(resource, kept);
            if governs {
                root.governed.add(resource, used);
            }
            if let Some(min) = min {
                root.min.sum.add(resource, i128::from(min) * sign);
                root.min.mentions.add(resource, sign);
            }
        }
        let waiting = self.node(ix).waiting;
        self.add_waiting(parent, if sign > 0 { waiting } else { -waiting });
    }

    /// Changes what a quota and those above it use and ask for.
    fn propagate(&mut self, quota: QuotaIx, resource: ResourceIx, change: Change) {
        let Change { used, mut demand } = change;
        let mut at = Some(quota);
        while let Some(ix) = at {
            if used != 0 {
                self.changed.insert(ix);
            }
            let node = self.node_mut(ix);
            let (wanted_before, kept_before) = (wanted(node, resource), node.kept_back(resource));
            node.used.add(resource, used);
            node.demand.add(resource, demand);
            demand = wanted(node, resource) - wanted_before;
            let kept = node.kept_back(resource) - kept_before;
            let (parent, governs) = (node.parent, node.governs(resource));
            match parent {
                Some(parent) => self.node_mut(parent).withheld.add(resource, kept),
                None => {
                    self.root.used.add(resource, used);
                    self.root.withheld.add(resource, kept);
                    if governs {
                        self.root.governed.add(resource, used);
                    }
                }
            }
            at = parent;
        }
    }

    fn add_waiting(&mut self, quota: Option<QuotaIx>, change: i64) {
        let mut at = quota;
        while let Some(ix) = at {
            let node = self.node_mut(ix);
            node.waiting += change;
            at = node.parent;
        }
    }

    fn node_mut(&mut self, ix: QuotaIx) -> &mut Node {
        self.quotas[ix.index()].as_mut().expect("the id is in use")
    }
}

fn remove_from<T: Ord>(sets: &mut BTreeMap<Arc<str>, BTreeSet<T>>, key: &Arc<str>, value: &T) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
