//! Waiting for a condition.

use std::time::Duration;

use tokio::time::Instant;

/// Time limit, far longer than any step of a test takes.
const DEADLINE: Duration = Duration::from_secs(90);
/// Shortest pause between two looks. A look that takes long is followed by a longer one.
const PAUSE: Duration = Duration::from_millis(20);

/// Polls until there is a value, and returns it.
pub(super) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let seen = async {
        loop {
            let began = Instant::now();
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(PAUSE.max(2 * began.elapsed())).await;
        }
    };
    let in_time = tokio::time::timeout(DEADLINE, seen).await;
    in_time.unwrap_or_else(|_| panic!("waited {DEADLINE:?} in vain: {what}"))
}
