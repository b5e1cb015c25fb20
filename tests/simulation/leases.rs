//! Invariants of the Lease that elects the leader, as it is stored.

use std::sync::Arc;
use std::time::Duration;

use framework::Time;
use sandbox::resources::LEASES;
use serde_json::Value;

use super::rules::{Checked, rule};
use super::server::{DEFAULT, Server};

/// The time for which a Lease is valid after each write.
const LEASE: Duration = Duration::from_secs(15);

/// The time after a renewal in which a process may still act, and release the Lease.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// The time after which the leader renews the Lease while nothing is wrong, and the time that its
/// request may take.
const RENEWED: Duration = Duration::from_secs(3);

/// The history of the Lease.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// The time of the last write.
    written: Option<Time>,
}

/// Returns the stored Lease, if there is one.
pub(crate) fn stored(server: &Server) -> Option<Arc<Value>> {
    server.store.get(LEASES, "kube-system", DEFAULT).cloned()
}

impl Leases {
    /// Whether the holder of the Lease may still act. A process that was suspended for longer
    /// leaves the Lease to expire.
    pub(crate) fn has_authority(&self, now: Time) -> bool {
        self.written.is_some_and(|written| now.since(written) < RENEW_DEADLINE)
    }

    /// Whether the Lease was written as short ago as a leader does.
    pub(crate) fn is_renewed(&self, now: Time) -> bool {
        self.written.is_some_and(|written| now.since(written) <= RENEWED)
    }

    /// Checks a write of the Lease by the process of this number. Only the holder renews and
    /// releases it. Another process takes it once it is released or has expired, and counts the
    /// transition.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn written(
        &mut self,
        life: u32,
        before: Option<&Value>,
        after: &Value,
        now: Time,
    ) -> Checked {
        let last = self.written.replace(now);
        let (own, new) = (format!("process-{life}"), &after["spec"]);
        let holder = |spec: &Value| spec["holderIdentity"].as_str().unwrap_or_default().to_owned();
        let transitions = |spec: &Value| spec["leaseTransitions"].as_i64();
        let Some(old) = before.map(|before| &before["spec"]) else {
            let is_first = holder(new) == own && transitions(new) == Some(0);
            return rule(is_first, || format!("{own} creates the lease {new}"));
        };
        let broken = |how: &str| format!("{own} {how}: {old} becomes {new}");
        rule(old["renewTime"] != new["renewTime"], || broken("does not renew the lease"))?;
        if holder(new).is_empty() {
            rule(holder(old) == own, || broken("releases the lease of another"))?;
            return rule(transitions(old) == transitions(new), || broken("counts a release"));
        }
        rule(holder(new) == own, || broken("writes the lease for another"))?;
        rule(new["leaseDurationSeconds"] == LEASE.as_secs(), || broken("changes the duration"))?;
        if holder(old) == own {
            let is_kept = old["acquireTime"] == new["acquireTime"];
            let is_same = is_kept && transitions(old) == transitions(new);
            return rule(is_same, || broken("counts a renewal"));
        }
        let is_free = holder(old).is_empty() || last.is_none_or(|last| now.since(last) >= LEASE);
        rule(is_free, || broken("takes a lease that is held"))?;
        let is_counted = transitions(new) == transitions(old).map(|count| count + 1);
        let is_acquired = old["acquireTime"] != new["acquireTime"];
        rule(is_counted && is_acquired, || broken("does not count the transition"))
    }
}
