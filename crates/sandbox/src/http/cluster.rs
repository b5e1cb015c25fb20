//! The state shared by all connections: the store behind a lock, and notifications of changes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use framework::Time;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::certificates::Certificates;
use crate::api::User;
use crate::authentication::authenticate_token;
use crate::faults::Faults;
use crate::resources::CONFIGMAPS;
use crate::store::Store;

/// The cluster that is served.
pub(super) struct Cluster {
    store: Mutex<Store>,
    faults: Mutex<Faults>,
    /// The resource version of the store.
    version: watch::Sender<u64>,
    certificates: Certificates,
    /// The bearer token of the administrator.
    token: String,
    /// Ends watches and work in the background.
    pub(super) stopping: CancellationToken,
}

impl Cluster {
    pub(super) fn new(
        seed: u64,
        faults: Faults,
        certificates: Certificates,
        token: String,
    ) -> Arc<Self> {
        let mut store = Store::new(seed, now());
        store.add_static_token(token.clone(), User::admin());
        let created = store.create(CONFIGMAPS, certificates.authentication_config(), now());
        debug_assert!(created.is_ok(), "{created:?}");
        Arc::new(Self {
            version: watch::Sender::new(store.resource_version()),
            store: Mutex::new(store),
            faults: Mutex::new(faults),
            certificates,
            token,
            stopping: CancellationToken::new(),
        })
    }

    /// Locks the store for `work`, and notifies watches if it changed.
    pub(super) fn with_store<T>(&self, work: impl FnOnce(&mut Store, Time) -> T) -> T {
        let mut store = lock(&self.store);
        let outcome = work(&mut store, now());
        let current = store.resource_version();
        drop(store);
        self.version.send_if_modified(|version| std::mem::replace(version, current) != current);
        outcome
    }

    /// Calls `with_store` and catches a panic.
    pub(super) fn guarded<T>(&self, work: impl FnOnce(&mut Store, Time) -> T) -> Option<T> {
        catch_unwind(AssertUnwindSafe(|| self.with_store(work))).ok()
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        lock(&self.faults)
    }

    /// Subscribes to changes of the store.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Returns the authorities.
    pub(super) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Returns the bearer token of the administrator.
    pub(super) fn admin_token(&self) -> &str {
        &self.token
    }

    /// Returns the user of a chain of client certificates; `None` if it is not valid now.
    pub(super) fn user_of_certificates(&self, chain: &[CertificateDer<'_>]) -> Option<User> {
        let now = u64::try_from(now().as_nanos()).unwrap_or_default();
        self.certificates.user(chain, Duration::from_nanos(now))
    }

    /// Returns the user of a bearer token.
    pub(super) fn user_of_token(&self, token: &str) -> Option<User> {
        let found = self.with_store(|store, now| authenticate_token(store, token, &[], now));
        found.ok().map(|found| found.user)
    }
}

/// Locks a mutex. A panic fails only its own request, so a poisoned lock is used on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the time this long from now.
pub(super) fn in_future(lifetime: Duration) -> SystemTime {
    let now = u64::try_from(now().as_nanos()).unwrap_or_default();
    UNIX_EPOCH + Duration::from_nanos(now) + lifetime
}

/// Reads the clock; everything else gets the time as an argument.
#[expect(
    clippy::disallowed_methods,
    reason = "the shell of the sandbox reads the clock, here only"
)]
fn now() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_nanos(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
}
