//! Feeds: sources of objects that plugins read, beside the watches of the API server.
//!
//! A [poll](Feed::Poll) lists a kind at intervals, a [task](Feed::Task) is code of the plugin. Both
//! send their changes to the scheduling loop like an informer. Scheduling does not wait for them.

mod poll;
mod task;

use std::convert::Infallible;
use std::sync::Arc;

use framework::Feed;
use tracing::warn;

use self::poll::Poll;
use crate::api_client::ApiClient;
use crate::metrics::Metrics;
use crate::scheduling_loop::EventSender;
use crate::wire::WatchedKind;

/// The parts that all feeds share. `M` are further events of the loop.
pub struct FeedFactory<M = Infallible> {
    /// Client for lists.
    pub client: ApiClient,
    /// Channel to the scheduling loop.
    pub events: EventSender<M>,
    /// Metrics, which count undecodable objects.
    pub metrics: Arc<Metrics>,
}

impl<M> Clone for FeedFactory<M> {
    fn clone(&self) -> Self {
        let Self { client, events, metrics } = self;
        Self { client: client.clone(), events: events.clone(), metrics: metrics.clone() }
    }
}

impl<M> FeedFactory<M> {
    /// Runs a feed that brings objects of `kind`. Never ends.
    pub async fn run(self, kind: WatchedKind, feed: Feed) -> Infallible {
        match feed {
            Feed::Poll { interval, .. } => Poll::new(self, kind, interval).run().await,
            Feed::Task { run, .. } => task::run(kind, &*run, &self.events).await,
            _ => {
                warn!(resource = &*kind.name, "This kind of feed is not supported");
                std::future::pending().await
            }
        }
    }
}
