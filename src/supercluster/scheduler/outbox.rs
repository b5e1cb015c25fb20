//! The samples and commits that wait for the next message to their agent.
//!
//! A request costs its sender and its receiver more than what is in it. So requests for one agent
//! that come up within [`PAUSE`] share a message. The first one after a pause is sent at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework::Time;
use supercluster::message::{CommitRequest, MAX_LIST, SampleRequest};
use supercluster::scheduler::{CallId, ClusterIx};

/// Shortest time between two messages to one agent, unless one is full.
const PAUSE: Duration = Duration::from_millis(5);

/// The requests for one agent.
#[derive(Debug, Default)]
pub(super) struct Parcel {
    pub(super) samples: Vec<(CallId, Arc<SampleRequest>)>,
    pub(super) commits: Vec<(CallId, Arc<CommitRequest>)>,
}

/// The messages that wait for one agent, and the time of the last one that was sent.
#[derive(Debug, Default)]
struct Place {
    waiting: Parcel,
    sent: Option<Time>,
}

impl Place {
    /// Returns the time at which its requests are sent; `None` if it has none.
    fn due(&self) -> Option<Time> {
        let Parcel { samples, commits } = &self.waiting;
        let longest = samples.len().max(commits.len());
        let pause = if longest < MAX_LIST { PAUSE } else { Duration::ZERO };
        (longest > 0).then(|| self.sent.map_or(Time::ZERO, |sent| sent + pause))
    }
}

/// The requests for all agents.
#[derive(Debug, Default)]
pub(super) struct Outbox(BTreeMap<ClusterIx, Place>);

impl Outbox {
    /// Returns the requests that wait for an agent.
    pub(super) fn of(&mut self, cluster: ClusterIx) -> &mut Parcel {
        &mut self.0.entry(cluster).or_default().waiting
    }

    /// Takes what is to be sent now.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<(ClusterIx, Parcel)> {
        let places = self.0.iter_mut();
        let due = places.filter(|(_, place)| place.due().is_some_and(|due| due <= now));
        due.map(|(cluster, place)| {
            place.sent = Some(now);
            (*cluster, std::mem::take(&mut place.waiting))
        })
        .collect()
    }

    /// Returns the time at which something is to be sent next.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.0.values().filter_map(Place::due).min()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;
    use supercluster::message::PodObject;

    use super::*;

    /// Returns a request for a sample for a pod without requirements.
    pub(in super::super) fn sample_request() -> Arc<SampleRequest> {
        Arc::new(SampleRequest {
            pod: PodObject::from_json(json!({"metadata": {"name": "p"}})).unwrap(),
            scheduling_retry_count: 0,
            strategy: "random".into(),
            nodes_to_sample_bp: 200,
            max_nodes: None,
            node_labels: Vec::new(),
            copies: Vec::new(),
        })
    }

    fn add_samples(outbox: &mut Outbox, count: usize) {
        let samples = &mut outbox.of(ClusterIx(0)).samples;
        samples.extend((0..count).map(|_| (CallId::default(), sample_request())));
    }

    #[test]
    fn requests_within_a_pause_share_a_message() {
        let (mut outbox, now) = (Outbox::default(), Time::from_secs(9));
        let sent = |outbox: &mut Outbox, now| {
            let due = outbox.take_due(now);
            due.iter().map(|(_, parcel)| parcel.samples.len()).collect::<Vec<_>>()
        };
        assert_eq!((outbox.next_deadline(), sent(&mut outbox, now)), (None, vec![]));
        add_samples(&mut outbox, 1);
        assert_eq!(sent(&mut outbox, now), [1], "the first one does not wait");
        add_samples(&mut outbox, 1);
        let later = now + Duration::from_millis(1);
        assert_eq!((outbox.next_deadline(), sent(&mut outbox, later)), (Some(now + PAUSE), vec![]));
        add_samples(&mut outbox, 1);
        assert_eq!(sent(&mut outbox, now + PAUSE), [2]);
        add_samples(&mut outbox, MAX_LIST);
        assert_eq!(sent(&mut outbox, now + PAUSE), [MAX_LIST], "a full message does not wait");
    }
}
