//! ResourceClaims: their devices count once for all pods of a choice that share the claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::device::{AllocationMode, ClaimSpec, RequestBody, RequestKind};
use api::{Pod, PodClaimSource};

use crate::choice::Choice;

/// Number of devices that a request for all devices counts for, as in a ResourceQuota: the largest
/// number that one claim can be allocated.
const ALL_DEVICES: i64 = 32;

/// Namespace and name of a ResourceClaim.
pub(crate) type ClaimKey = (Arc<str>, Arc<str>);

/// The ResourceClaims that exist or that pods name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Claims(BTreeMap<ClaimKey, ClaimBook>);

/// What is known of a ResourceClaim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClaimBook {
    /// Number of devices by resource, as last known.
    pub(crate) devices: Vec<(Arc<str>, i64)>,
    exists: bool,
    /// The users by choice; none has no users.
    pub(crate) users: Vec<ClaimUsers>,
}

/// The pods of one choice that use a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimUsers {
    pub(crate) choice: Choice,
    pub(crate) placed: u32,
    pub(crate) all: u32,
}

/// How the number of users of a claim changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UserChange {
    pub(crate) placed: bool,
    /// 1 or -1.
    pub(crate) sign: i32,
}

/// Whether a claim begins or ends to count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    /// For what is used: 1, 0 or -1.
    pub(crate) used: i64,
    /// For what is asked for: 1, 0 or -1.
    pub(crate) demand: i64,
}

impl Claims {
    pub(crate) fn get(&self, key: &ClaimKey) -> Option<&ClaimBook> {
        self.0.get(key)
    }

    /// Changes the users of a claim. Returns its devices, and whether they begin or end to count
    /// for the choice.
    pub(crate) fn change_users(
        &mut self,
        key: &ClaimKey,
        choice: &Choice,
        change: UserChange,
    ) -> (Vec<(Arc<str>, i64)>, Turns) {
        let book = self.0.entry(key.clone()).or_default();
        let place = book.users.iter().position(|users| users.choice == *choice);
        let place = place.unwrap_or_else(|| {
            book.users.push(ClaimUsers { choice: choice.clone(), placed: 0, all: 0 });
            book.users.len() - 1
        });
        let users = &mut book.users[place];
        let before = (users.placed > 0, users.all > 0);
        users.all = users.all.saturating_add_signed(change.sign);
        if change.placed {
            users.placed = users.placed.saturating_add_signed(change.sign);
        }
        let after = (users.placed > 0, users.all > 0);
        let turn = |before: bool, after: bool| i64::from(after) - i64::from(before);
        let turns = Turns { used: turn(before.0, after.0), demand: turn(before.1, after.1) };
        if users.all == 0 {
            book.users.remove(place);
            // The order of the users is that of their choices, so that equal books are equal.
        }
        book.users.sort_by(|one, other| one.choice.cmp(&other.choice));
        let devices = book.devices.clone();
        self.drop_if_unused(key);
        (devices, turns)
    }

    /// Notes what a claim asks for, or that it is gone. Returns the devices that it had and has,
    /// and its users. A claim that is gone counts as before until its last user ends.
    pub(crate) fn set(&mut self, key: &ClaimKey, spec: Option<&ClaimSpec>) -> ClaimChange {
        let book = self.0.entry(key.clone()).or_default();
        let before = book.devices.clone();
        book.exists = spec.is_some();
        if let Some(spec) = spec {
            book.devices = devices_of(spec);
        }
        let change = ClaimChange { before, after: book.devices.clone(), users: book.users.clone() };
        self.drop_if_unused(key);
        change
    }

    fn drop_if_unused(&mut self, key: &ClaimKey) {
        if self.0.get(key).is_some_and(|book| !book.exists && book.users.is_empty()) {
            self.0.remove(key);
        }
    }
}

/// A change of the devices of a claim.
pub(crate) struct ClaimChange {
    pub(crate) before: Vec<(Arc<str>, i64)>,
    pub(crate) after: Vec<(Arc<str>, i64)>,
    pub(crate) users: Vec<ClaimUsers>,
}

/// Returns the ResourceClaims of a pod that its spec or its status names.
pub(crate) fn claims_of(pod: &Pod) -> Vec<ClaimKey> {
    let entries = pod.spec.resource_claims.iter().filter_map(|entry| match &entry.source {
        PodClaimSource::Claim(name) => Some(name.clone()),
        PodClaimSource::Template => pod.generated_claims()?.claim(&entry.name)?.cloned(),
        PodClaimSource::Unknown => None,
    });
    let mut names: Vec<Arc<str>> = entries.collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| (pod.key.namespace.clone(), name)).collect()
}

/// Returns the number of devices of each DeviceClass, by the name of the resource in a
/// ResourceQuota. Of alternatives, the largest number counts.
fn devices_of(spec: &ClaimSpec) -> Vec<(Arc<str>, i64)> {
    // By the name of the class.
    let mut devices: BTreeMap<Arc<str>, i64> = BTreeMap::new();
    for request in &spec.requests {
        let mut of_request: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        for body in bodies(&request.kind) {
            let count = match &body.mode {
                AllocationMode::ExactCount(count) => *count,
                AllocationMode::All => ALL_DEVICES,
                AllocationMode::Other(_) => 0,
            };
            let own = of_request.entry(body.class.clone()).or_default();
            *own = (*own).max(count);
        }
        for (class, count) in of_request {
            *devices.entry(class).or_default() += count;
        }
    }
    let resource = |(class, count): (Arc<str>, i64)| {
        (Arc::from(format!("{class}.deviceclass.resource.k8s.io/devices")), count)
    };
    devices.into_iter().filter(|(_, count)| *count != 0).map(resource).collect()
}

fn bodies(kind: &RequestKind) -> &[RequestBody] {
    match kind {
        RequestKind::Exactly(body) => std::slice::from_ref(body),
        RequestKind::FirstAvailable(bodies) => bodies,
        RequestKind::Unknown => &[],
    }
}
