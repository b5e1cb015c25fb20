//! Sends the requests of the scheduling loop.

use std::pin::pin;
use std::sync::Arc;

use control::scheduler::RequestSource;
use control::{Destination, Reply, Request};
use framework::Time;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::api_client::ApiClient;
use crate::clock::Clock;
use crate::extender::HttpExtender;
use crate::scheduling_loop::{EventSender, LoopEvent, OutgoingRequest};
use crate::supervision::catch_panic;

/// The connections for requests.
pub(crate) struct Sender {
    /// The connection for writes.
    pub(crate) client: ApiClient,
    /// The connection for the Lease. Other requests cannot delay its renewal.
    pub(crate) lease_client: ApiClient,
    /// The connection for events, which do not take streams from other writes.
    pub(crate) event_client: ApiClient,
    /// The extenders, for binds.
    pub(crate) extenders: Arc<[HttpExtender]>,
    pub(crate) clock: Clock,
}

impl Sender {
    /// Sends each request in a task of its own and passes the reply to the scheduling loop. Ends
    /// with the loop.
    pub(crate) async fn run<M: Send + 'static>(
        self,
        mut requests: UnboundedReceiver<OutgoingRequest>,
        events: EventSender<M>,
    ) {
        let shared = Arc::new((self, events));
        while let Some(OutgoingRequest { source, request }) = requests.recv().await {
            let shared = shared.clone();
            tokio::spawn(async move {
                let ((sender, events), id, not_after) = (&*shared, request.id, request.not_after);
                // Pinned, because a task has room for each future that is passed on by value,
                // twice.
                let sending = pin!(sender.send(source, request));
                // Without a reply the pod would wait for ever.
                let reply = catch_panic(within(not_after, sender.clock, sending)).await;
                let reply = reply.unwrap_or_else(|panic| Reply::Lost(panic.to_string()));
                events.send(LoopEvent::Reply(source, id, reply));
            });
        }
    }

    async fn send(&self, source: RequestSource, request: Request) -> Reply {
        match (request.destination, source) {
            (Destination::Extender(index), _) => self.extenders[index].bind(request.body).await,
            (Destination::ApiServer, RequestSource::LeaderElector) => {
                self.lease_client.send(request).await
            }
            (Destination::ApiServer, RequestSource::EventRecorder) => {
                self.event_client.send(request).await
            }
            (Destination::ApiServer, RequestSource::ApiDispatcher) => {
                self.client.send(request).await
            }
        }
    }
}

/// Sends a request, unless its time has passed. It may have passed if the process was paused, or
/// while the request waits for a connection; a request that is abandoned does not leave later.
pub(crate) async fn within(
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

    use control::event_recorder::{EventRecorder, Options};
    use engine::{Event, EventSubject, EventType};
    use framework::PodKey;
    use tokio::sync::mpsc;

    use super::*;
    use crate::api_client::Credentials;
    use crate::metrics::Metrics;
    use crate::scheduling_loop::channel;

    /// Returns a request of an event recorder.
    fn request() -> Request {
        let mut recorder = EventRecorder::new(Options::default(), 7);
        let event = Event {
            subject: EventSubject::Pod,
            regarding: PodKey::new("ns", "p"),
            uid: "u".into(),
            related: None,
            event_type: EventType::Normal,
            reason: "Scheduled".into(),
            action: "Binding".into(),
            note: String::new(),
            reporting_controller: "loadmaster".into(),
        };
        recorder.record(event, Time::ZERO);
        recorder.take_requests().remove(0)
    }

    #[tokio::test]
    async fn request_that_panics_has_a_reply() {
        let kubeconfig = "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [], \
                          contexts: [{name: c, context: {cluster: c}}], current-context: c}";
        let credentials = Credentials::parse(kubeconfig).await.unwrap();
        let metrics = Metrics::new().rest_client();
        let client = ApiClient::new(&credentials, "t", metrics, Arc::default()).unwrap();
        let (lease_client, event_client) = (client.clone(), client.clone());
        // There is no such extender.
        let extenders: Arc<[HttpExtender]> = Arc::new([]);
        let (destination, clock) = (Destination::Extender(0), Clock::start());
        let (events, received) = channel();
        let (requests, requested) = mpsc::unbounded_channel();
        let (source, request) =
            (RequestSource::ApiDispatcher, Request { destination, ..request() });
        let id = request.id;
        requests.send(OutgoingRequest { source, request }).unwrap();
        drop(requests);
        Sender { client, lease_client, event_client, extenders, clock }
            .run(requested, events)
            .await;
        let reply = loop {
            match received.try_recv() {
                Ok(event) => break event,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let LoopEvent::Reply(RequestSource::ApiDispatcher, replied, Reply::Lost(reason)) = reply
        else {
            panic!("{reply:?}")
        };
        assert!(replied == id && reason.starts_with("panicked: index out of bounds"), "{reason}");
    }

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
