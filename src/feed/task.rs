//! Tasks of plugins that report objects.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use engine::Change;
use framework::{EventResource, FeedFuture, FeedSink};
use futures::FutureExt;
use serde_json::Value;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tracing::{info, warn};

use crate::scheduling_loop::EventSender;
use crate::wire::{Update, WatchedKind};

/// Maximum number of changes that are sent to the scheduling loop at once.
const MAX_BATCH: usize = 256;

/// Runs the task of a plugin until it ends, and sends the changes that it reports.
pub(super) async fn run(
    kind: WatchedKind,
    task: &(dyn Fn(FeedSink) -> FeedFuture + Send + Sync),
    events: &EventSender,
) {
    let (sender, changes) = mpsc::unbounded_channel();
    let resource = kind.resource.clone();
    let sink = FeedSink::new(move |namespace, name, object| {
        // The receiver is only gone when the daemon stops.
        let _ = sender.send(change(&resource, namespace, name, object));
    });
    let task = async {
        match AssertUnwindSafe(async { task(sink).await }).catch_unwind().await {
            Ok(()) => info!(resource = &*kind.name, "The feed has ended"),
            Err(_) => {
                warn!(resource = &*kind.name, "The feed panicked; its objects stay as they are")
            }
        }
    };
    tokio::join!(task, forward(changes, events));
}

fn change(kind: &EventResource, namespace: &str, name: &str, object: Option<Value>) -> Change {
    Change::Object {
        kind: kind.clone(),
        namespace: namespace.into(),
        name: name.into(),
        object: object.map(Arc::new),
    }
}

/// Sends changes to the scheduling loop until every sink is dropped.
async fn forward(mut changes: UnboundedReceiver<Change>, events: &EventSender) {
    let mut batch = Vec::new();
    while changes.recv_many(&mut batch, MAX_BATCH).await > 0 {
        events.send_updates(batch.drain(..).map(Update::from).collect()).await;
    }
}

#[cfg(test)]
mod tests {
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
        }
    }

    /// Runs a task; returns the names it reported, with `-` for removed objects.
    async fn reported(task: impl Fn(FeedSink) -> FeedFuture + Send + Sync) -> Vec<String> {
        let (sender, events) = channel();
        run(racks(), &task, &sender).await;
        drop(sender);
        let mut names = Vec::new();
        for event in events.iter() {
            let LoopEvent::Updates(updates, _) = event else { panic!("only updates are sent") };
            for update in updates {
                let Change::Object { name, object, .. } = update.change else {
                    panic!("an object")
                };
                names.push(format!("{}{name}", if object.is_some() { "" } else { "-" }));
            }
        }
        names
    }

    #[tokio::test]
    async fn reported_changes_reach_the_scheduling_loop_in_order() {
        let task = |sink: FeedSink| -> FeedFuture {
            Box::pin(async move {
                sink.set("", "a", json!({"degrees": 21}));
                tokio::task::yield_now().await;
                sink.set("", "b", json!({"degrees": 22}));
                sink.remove("", "a");
            })
        };
        assert_eq!(reported(task).await, ["a", "b", "-a"]);
    }

    #[tokio::test]
    async fn panic_of_a_task_ends_the_feed_alone() {
        let task = |sink: FeedSink| -> FeedFuture {
            Box::pin(async move {
                sink.set("", "a", json!({}));
                panic!("the rack is on fire");
            })
        };
        assert_eq!(reported(task).await, ["a"]);
    }
}
