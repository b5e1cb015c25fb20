//! Feeds: sources of objects that plugins read, beside the watches of the API server.
//!
//! A [poll](Feed::Poll) lists a kind at intervals, an [HTTP feed](Feed::Http) asks another server
//! at intervals, a [task](Feed::Task) is code of the plugin. All send their changes to the
//! scheduling loop like an informer. Scheduling does not wait for them.

mod origin;
mod poll;
mod task;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;

use framework::Feed;
use tracing::warn;

use self::origin::Origin;
use self::poll::Poll;
use crate::api_client::{ApiClient, ServerStatus};
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
    /// Receives which feeds fail.
    pub status: Arc<ServerStatus>,
}

impl<M> Clone for FeedFactory<M> {
    fn clone(&self) -> Self {
        let Self { client, events, metrics, status } = self;
        Self {
            client: client.clone(),
            events: events.clone(),
            metrics: metrics.clone(),
            status: status.clone(),
        }
    }
}

impl<M> FeedFactory<M> {
    /// Runs a feed that brings objects of `kind`. Never ends.
    pub async fn run(self, kind: WatchedKind, feed: Feed) -> Infallible {
        match feed {
            Feed::Poll { interval, .. } => {
                let client = self.client.clone();
                let origin = Origin::List { client, path: kind.path.to_string() };
                Poll::new(self, kind, origin, interval).run().await
            }
            Feed::Http(feed) => {
                let interval = feed.interval;
                Poll::new(self, kind, Origin::of(feed), interval).run().await
            }
            Feed::Task { run, .. } => task::run(kind, &*run, &self.events).await,
            // The reader of the configuration reports the arguments of all plugins.
            Feed::Arguments(_) => std::future::pending().await,
            _ => {
                warn!(resource = &*kind.name, "This kind of feed is not supported");
                std::future::pending().await
            }
        }
    }
}
