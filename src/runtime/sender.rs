//! Sends the requests of the scheduling loop.

use std::sync::Arc;

use client::scheduler::RequestSource;
use client::{Destination, Reply, Request};
use framework::Time;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::api_client::ApiClient;
use crate::clock::Clock;
use crate::extender::HttpExtender;
use crate::scheduling_loop::{EventSender, LoopEvent, OutgoingRequest};

/// The connections for requests.
#[derive(Clone)]
pub(super) struct Sender {
    /// The connection for writes.
    pub(super) client: ApiClient,
    /// The connection for the Lease. Other requests cannot delay its renewal.
    pub(super) lease_client: ApiClient,
    /// The extenders, for binds.
    pub(super) extenders: Arc<[HttpExtender]>,
    pub(super) clock: Clock,
}

impl Sender {
    /// Sends each request in a task of its own and passes the reply to the scheduling loop.
    pub(super) async fn run(
        self,
        mut requests: UnboundedReceiver<OutgoingRequest>,
        events: EventSender,
    ) {
        while let Some(OutgoingRequest { source, request }) = requests.recv().await {
            let (sender, events) = (self.clone(), events.clone());
            tokio::spawn(async move {
                let id = request.id;
                let reply = within(request.not_after, sender.clock, sender.send(source, request));
                events.send(LoopEvent::Reply(source, id, reply.await));
            });
        }
    }

    async fn send(&self, source: RequestSource, request: Request) -> Reply {
        match (request.destination, source) {
            (Destination::Extender(index), _) => self.extenders[index].bind(request.body).await,
            (Destination::ApiServer, RequestSource::LeaderElector) => {
                self.lease_client.send(request).await
            }
            (Destination::ApiServer, _) => self.client.send(request).await,
        }
    }
}

/// Sends a request, unless its time has passed. It may have passed if the process was paused, or while
/// the request waits for a connection; a request that is abandoned does not leave later.
async fn within(
    not_after: Option<Time>,
    clock: Clock,
    sending: impl Future<Output = Reply>,
) -> Reply {
    let Some(not_after) = not_after else { return sending.await };
    let left = clock.until(not_after);
    if left.is_zero() {
        return Reply::NotSent("the authority of this leader has ended".to_owned());
    }
    tokio::time::timeout(left, sending).await.unwrap_or_else(|_| {
        Reply::Lost("the authority of this leader ended before the server answered".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;

    /// Sends a request whose time ends in `left`. Returns the reply and whether sending began.
    async fn send(left: Duration, takes: Duration) -> (Reply, bool) {
        let (clock, has_begun) = (Clock::start(), Cell::new(false));
        let sending = async {
            has_begun.set(true);
            tokio::time::sleep(takes).await;
            Reply::Rejected("sent".to_owned())
        };
        let reply = within(Some(clock.now() + left), clock, sending).await;
        (reply, has_begun.get())
    }

    #[tokio::test]
    async fn request_whose_time_has_passed_is_not_sent() {
        let (reply, has_begun) = send(Duration::ZERO, Duration::ZERO).await;
        assert!(matches!(reply, Reply::NotSent(_)) && !has_begun, "{reply:?}");
    }

    #[tokio::test]
    async fn request_is_abandoned_when_its_time_passes() {
        let (reply, has_begun) = send(Duration::from_millis(10), Duration::from_hours(1)).await;
        assert!(matches!(reply, Reply::Lost(_)) && has_begun, "{reply:?}");
        let (reply, _) = send(Duration::from_hours(1), Duration::ZERO).await;
        assert_eq!(reply, Reply::Rejected("sent".to_owned()));
    }
}
