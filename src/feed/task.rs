//! Tasks of plugins that report objects.

use std::convert::Infallible;
use std::time::Duration;

use engine::Change;
use framework::{FeedFuture, FeedSink, ObjectKey};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::Instant;
use tracing::warn;

use crate::scheduling_loop::EventSender;
use crate::supervision::catch_panic;
use crate::wire::{Update, WatchedKind};

/// Maximum number of changes that are sent to the scheduling loop at once.
const MAX_BATCH: usize = 256;

/// Pause before a task that has ended or panicked is started again. It doubles each time, unless
/// the task has run for longer than the longest pause.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// Runs the task of a plugin, and sends the changes that it reports. Never ends: a task that ends
/// or panics is started again after a pause. Meanwhile its objects stay as they are.
pub(super) async fn run<M>(
    kind: WatchedKind,
    task: &(dyn Fn(FeedSink) -> FeedFuture + Send + Sync),
    events: &EventSender<M>,
) -> Infallible {
    let (sender, changes) = mpsc::unbounded_channel();
    let resource = kind.resource.clone();
    let sink = FeedSink::new(move |namespace, name, object| {
        let key = ObjectKey::namespaced(resource.clone(), namespace.into(), name.into());
        match Change::decode(key, object) {
            // The receiver is only gone when the daemon stops: `forward` does not end while there
            // is a sink.
            Ok(change) => drop(sender.send(change)),
            Err(err) => {
                let resource = resource.name();
                warn!(resource, namespace, name, %err, "Left out an undecodable object of a feed");
            }
        }
    });
    let running = async {
        let mut pause = PAUSE;
        loop {
            let started = Instant::now();
            let ended = catch_panic(async { task(sink.clone()).await }).await;
            if started.elapsed() > MAX_PAUSE {
                pause = PAUSE;
            }
            let err = ended.map_or_else(|panic| panic.to_string(), |()| "ended".to_owned());
            let (resource, after) = (&*kind.name, format!("{pause:?}"));
            warn!(resource, err, after, "A feed does not run; starting it again");
            tokio::time::sleep(pause).await;
            pause = MAX_PAUSE.min(pause * 2);
        }
    };
    let (never, ()) = tokio::join!(running, forward(changes, events));
    never
}

/// Sends changes to the scheduling loop until every sink is dropped.
async fn forward<M>(mut changes: UnboundedReceiver<Change>, events: &EventSender<M>) {
    let mut batch = Vec::new();
    while changes.recv_many(&mut batch, MAX_BATCH).await > 0 {
        events.send_updates(batch.drain(..).map(Update::from).collect()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework::EventResource;
    use serde_json::json;

    use super::*;
    use crate::scheduling_loop::{LoopEvent, channel};

    fn racks() -> WatchedKind {
        let kind: Arc<str> = "racks.v1.example.com".into();
        WatchedKind {
            resource: EventResource::Custom(kind.clone()),
            name: "racks.example.com".into(),
            path: "/apis/example.com/v1/racks".into(),
            field_selector: None,
            describes_nodes: false,
        }
    }

    /// Runs a task for this long; returns the names it reported, with `-` for removed objects.
    async fn reported(
        seconds: u64,
        task: impl Fn(FeedSink) -> FeedFuture + Send + Sync,
    ) -> Vec<String> {
        let (sender, events) = channel();
        let running = run(racks(), &task, &sender);
        let ended = tokio::time::timeout(Duration::from_secs(seconds), running).await;
        assert!(ended.is_err(), "a feed does not end");
        drop(sender);
        let mut names = Vec::new();
        for event in events.iter() {
            let LoopEvent::Updates(updates, _) = event else { panic!("only updates are sent") };
            for update in updates {
                names.push(match update.change {
                    Change::Object(object) => object.name().to_string(),
                    Change::ObjectDeleted(key) => format!("-{}", key.name),
                    _ => panic!("an object"),
                });
            }
        }
        names
    }

    #[tokio::test(start_paused = true)]
    async fn reported_changes_reach_the_scheduling_loop_in_order() {
        let task = |sink: FeedSink| -> FeedFuture {
            Box::pin(async move {
                sink.set("", "a", json!({"degrees": 21}));
                tokio::task::yield_now().await;
                sink.set("", "b", json!({"degrees": 22}));
                sink.remove("", "a");
                std::future::pending().await
            })
        };
        assert_eq!(reported(600, task).await, ["a", "b", "-a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn task_that_panics_or_ends_is_started_again_with_growing_pauses() {
        let panicking = |sink: FeedSink| -> FeedFuture {
            Box::pin(async move {
                sink.set("", "a", json!({}));
                panic!("the rack is on fire");
            })
        };
        // Starts after 0, 1, 3, 7, 15, 31, 63, 123 and 183 seconds.
        assert_eq!(reported(62, panicking).await.len(), 6);
        assert_eq!(reported(184, panicking).await.len(), 9);
        let ending = |sink: FeedSink| -> FeedFuture {
            Box::pin(async move { sink.set("", "a", json!({})) })
        };
        assert_eq!(reported(184, ending).await.len(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_are_short_again_after_a_task_has_run_for_a_while() {
        let task = |sink: FeedSink| -> FeedFuture {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_mins(2)).await;
                sink.set("", "a", json!({}));
            })
        };
        // Each run takes 120 seconds, and each pause one.
        assert_eq!(reported(121 * 20, task).await.len(), 20);
    }
}
