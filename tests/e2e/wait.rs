//! Waiting for something to become so.

use std::time::Duration;

/// Far longer than anything here takes: what is not so by then never will be.
const DEADLINE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until there is something to be seen, and gives that.
pub(super) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let seen = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let in_time = tokio::time::timeout(DEADLINE, seen).await;
    in_time.unwrap_or_else(|_| panic!("waited {DEADLINE:?} in vain: {what}"))
}
