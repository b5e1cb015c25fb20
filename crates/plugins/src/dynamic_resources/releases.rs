//! Reservations that Unreserve or PostFilter removes.
//!
//! The watch may show such a reservation for a while. A pod that is tried again meanwhile must not
//! rely on it: it would be bound without its devices. kube-scheduler does not look for this. Rule
//! dynamic-resources-released-reservation of docs/differences.toml.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework::device::ResourceClaim;
use framework::{Time, Uid};

/// The time after which no request for a release is carried out: four requests, each of which waits
/// up to 75 seconds for its answer.
const LONGEST_RELEASE: Duration = Duration::from_mins(5);

/// The requested releases, by the UIDs of claim and user.
#[derive(Debug, Default)]
pub(super) struct Releases(BTreeMap<(Uid, Uid), Release>);

#[derive(Debug)]
struct Release {
    /// The version of the claim that the release changes. It is refused for any other version.
    resource_version: Arc<str>,
    until: Time,
}

impl Releases {
    /// Records that the reservation of the user is being removed from this version of the claim.
    pub(super) fn begin(&mut self, claim: &ResourceClaim, user: &Uid, now: Time) {
        self.0.retain(|_, own| own.until > now);
        let resource_version = claim.resource_version.clone();
        let release = Release { resource_version, until: now + LONGEST_RELEASE };
        self.0.insert((claim.uid.clone(), user.clone()), release);
    }

    /// Whether the reservation of the user in this version of the claim may be removed at any time.
    pub(super) fn concern(&self, claim: &ResourceClaim, user: &Uid, now: Time) -> bool {
        let own = self.0.get(&(claim.uid.clone(), user.clone()));
        own.is_some_and(|own| own.resource_version == claim.resource_version && own.until > now)
    }
}
