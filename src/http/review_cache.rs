//! A cache of reviews.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::digest::{SHA256, digest};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;

use super::reviews::ReviewError;

/// Maximum number of cached reviews.
const MAX_ENTRIES: usize = 1024;
/// Maximum number of callers that wait for reviews. Others get an error, so that an unreachable API
/// server does not pile up requests in memory.
const MAX_WAITING: usize = 256;

/// The digest of what is reviewed: the cache keeps no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn of(subject: &[u8]) -> Self {
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, subject).as_ref());
        Self(key)
    }
}

/// A cache of reviews. Callers that ask the same at the same time share one review, even a failed
/// one.
pub(super) struct ReviewCache<T> {
    entries: Mutex<BTreeMap<Key, Entry<T>>>,
    waiting: Semaphore,
}

/// A review in progress, or one that has ended.
type Entry<T> = Arc<OnceCell<Reviewed<T>>>;

struct Reviewed<T> {
    result: Result<T, ReviewError>,
    expires: Instant,
}

impl<T> Default for ReviewCache<T> {
    fn default() -> Self {
        Self { entries: Mutex::default(), waiting: Semaphore::new(MAX_WAITING) }
    }
}

impl<T: Clone> ReviewCache<T> {
    /// Returns the cached result, or carries out the review and caches its result for `ttl`. Errors
    /// are not cached.
    ///
    /// # Errors
    /// The review failed, or too many callers wait.
    pub(super) async fn get(
        &self,
        key: Key,
        review: impl Future<Output = Result<T, ReviewError>>,
        ttl: impl FnOnce(&T) -> Duration,
    ) -> Result<T, ReviewError> {
        let entry = self.entry(key);
        if let Some(reviewed) = entry.get() {
            return reviewed.result.clone();
        }
        let Ok(_permit) = self.waiting.try_acquire() else {
            return Err(ReviewError::new("too many reviews are in progress"));
        };
        // If the caller that reviews goes away, the next one reviews.
        let reviewed = entry.get_or_init(|| async {
            let result = review.await;
            let ttl = result.as_ref().map_or(Duration::ZERO, ttl);
            if ttl.is_zero() {
                self.forget(key, &entry);
            }
            Reviewed { result, expires: Instant::now() + ttl }
        });
        reviewed.await.result.clone()
    }

    /// Returns the entry of a key that has not expired, or a new one.
    fn entry(&self, key: Key) -> Entry<T> {
        let now = Instant::now();
        let is_fresh = |entry: &Entry<T>| entry.get().is_none_or(|reviewed| now < reviewed.expires);
        let mut entries = self.entries();
        if let Some(entry) = entries.get(&key).filter(|entry| is_fresh(entry)) {
            return entry.clone();
        }
        if entries.len() >= MAX_ENTRIES {
            entries.retain(|_, entry| is_fresh(entry));
        }
        if entries.len() >= MAX_ENTRIES {
            // Any one: the order of digests is random.
            entries.pop_first();
        }
        let entry = Entry::default();
        entries.insert(key, entry.clone());
        entry
    }

    fn forget(&self, key: Key, entry: &Entry<T>) {
        let mut entries = self.entries();
        if entries.get(&key).is_some_and(|other| Arc::ptr_eq(other, entry)) {
            entries.remove(&key);
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<Key, Entry<T>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn key(number: usize) -> Key {
        Key::of(&number.to_le_bytes())
    }

    #[tokio::test]
    async fn result_is_cached_until_it_expires() {
        let cache = ReviewCache::default();
        let ttl = Duration::from_millis(30);
        let get = |value| cache.get(key(0), ready(Ok(value)), |_| ttl);
        assert_eq!((get(1).await, get(2).await), (Ok(1), Ok(1)));
        tokio::time::sleep(ttl).await;
        assert_eq!(get(3).await, Ok(3));
    }

    #[tokio::test]
    async fn error_is_shared_and_not_cached() {
        let cache = ReviewCache::default();
        let failed = || async {
            tokio::task::yield_now().await;
            Err::<u8, _>(ReviewError::new("failed"))
        };
        let callers = (0..10).map(|_| cache.get(key(0), failed(), |_| TTL));
        let all = futures::future::join_all(callers).await;
        assert!(all.iter().all(|result| *result == Err(ReviewError::new("failed"))));
        assert_eq!(cache.get(key(0), ready(Ok(1)), |_| TTL).await, Ok(1));
    }

    #[tokio::test]
    async fn next_caller_takes_over_from_one_that_went_away() {
        let cache = ReviewCache::default();
        let ms = Duration::from_millis(10);
        let gone = cache.get(key(0), pending(), |_| TTL);
        assert!(tokio::time::timeout(ms, gone).await.is_err());
        assert_eq!(cache.get(key(0), ready(Ok(1)), |_| TTL).await, Ok(1));
    }

    #[tokio::test]
    async fn number_of_entries_is_limited() {
        let cache = ReviewCache::default();
        for number in 0..3 * MAX_ENTRIES {
            cache.get(key(number), ready(Ok(number)), |_| TTL).await.unwrap();
        }
        assert_eq!(cache.entries().len(), MAX_ENTRIES);
    }

    #[tokio::test]
    async fn number_of_waiting_callers_is_limited() {
        let cache = ReviewCache::default();
        cache.get(key(0), ready(Ok(0)), |_| TTL).await.unwrap();
        let waiting: Vec<_> = (1..=MAX_WAITING)
            .map(|number| Box::pin(cache.get(key(number), pending(), |_| TTL)))
            .collect();
        let mut waiting = futures::future::join_all(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        let busy = Err(ReviewError::new("too many reviews are in progress"));
        let refused = cache.get(key(MAX_WAITING + 1), ready(Ok(1)), |_| TTL).await;
        assert_eq!(refused, busy);
        assert_eq!(
            cache.get(key(0), ready(Ok(1)), |_| TTL).await,
            Ok(0),
            "cached results are free"
        );
        drop(waiting);
        assert_eq!(cache.get(key(1), ready(Ok(1)), |_| TTL).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn expired_results_make_room_first() {
        let cache = ReviewCache::default();
        for number in 0..MAX_ENTRIES {
            let ttl = if number == 7 { TTL * 2 } else { TTL };
            cache.get(key(number), ready(Ok(number)), |_| ttl).await.unwrap();
        }
        tokio::time::sleep(TTL).await;
        cache.get(key(MAX_ENTRIES), ready(Ok(0)), |_| TTL).await.unwrap();
        assert_eq!(cache.entries().len(), 2);
        assert_eq!(cache.get(key(7), ready(Ok(0)), |_| TTL).await, Ok(7), "it is kept");
    }
}
