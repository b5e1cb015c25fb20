//! The channel of events for the scheduling loop.

use std::convert::Infallible;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use control::scheduler::{Relist, RequestSource};
use control::{Reply, RequestId};
use engine::EffectId;
use explain::{CopiedNodes, DecisionsAnswer, PodFacts};
use framework::{Answer, EventType, PodKey, Uid};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::questions::{Copied, Question};
use super::snapshot::Snapshot;
use crate::metrics::{InformerQueue, QueuedItems};
use crate::wire::Update;

/// Maximum number of updates in the channel. Informers wait while it is full, and their connections
/// are not read.
const MAX_WAITING_UPDATES: u32 = 16_384;

/// An event for the scheduling loop, or for the loop of another role, whose own events are `M`.
#[derive(Debug)]
pub enum LoopEvent<M = Infallible> {
    /// Watched objects changed. Dropping the place frees the space of the updates in the channel.
    Updates(Vec<Update>, Place),
    /// One informer has synced.
    Synced,
    /// One informer of this relist has listed its kind again, as the scheduler asked.
    Relisted(Relist),
    /// A request has a reply.
    Reply(RequestSource, RequestId, Reply),
    /// A snapshot of the cache is requested.
    Snapshot(oneshot::Sender<Arc<Snapshot>>),
    /// A question about the engine.
    Question(Question),
    /// Whether the extender with this index has answered a call for which the loop did not wait.
    ExtenderProbed(usize, Result<(), String>),
    /// The answer to a plan of moves that the engine wants.
    Planned(EffectId, Answer),
    /// A line of a watch of the Lease.
    LeaseEvent(Vec<u8>),
    /// An event to be recorded about the Lease, if there is an election.
    Note(LeaseNote),
    /// The loop has to stop scheduling and to end when the requests in flight have ended.
    Stop,
    /// An event that only the loop of another role has.
    Own(M),
}

/// An event about the Lease, which is where operators look for what happens to the scheduler.
#[derive(Debug)]
pub struct LeaseNote {
    /// Normal or Warning.
    pub event_type: EventType,
    /// Machine-readable reason in CamelCase.
    pub reason: &'static str,
    /// Text for people.
    pub note: String,
}

/// The place of a batch of updates in the channel, until the batch is handled.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
    /// The batch in the queue of its informer; a feed has none.
    queued: Option<QueuedItems>,
}

/// The sending end of the channel.
#[derive(Debug)]
pub struct EventSender<M = Infallible> {
    sender: mpsc::Sender<LoopEvent<M>>,
    update_permits: Arc<Semaphore>,
}

/// The receiving end of the channel.
#[derive(Debug)]
pub struct EventReceiver<M = Infallible> {
    receiver: mpsc::Receiver<LoopEvent<M>>,
    update_permits: Arc<Semaphore>,
}

/// Both ends of the channel.
pub type EventChannel<M = Infallible> = (EventSender<M>, EventReceiver<M>);

impl<M> Clone for EventSender<M> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), update_permits: self.update_permits.clone() }
    }
}

/// Creates the channel of a scheduling loop.
pub fn channel() -> EventChannel {
    role_channel()
}

/// Creates the channel of the loop of a role.
pub fn role_channel<M>() -> EventChannel<M> {
    let (sender, receiver) = mpsc::channel();
    let update_permits = Arc::new(Semaphore::new(MAX_WAITING_UPDATES as usize));
    let sender = EventSender { sender, update_permits: update_permits.clone() };
    (sender, EventReceiver { receiver, update_permits })
}

impl<M> EventReceiver<M> {
    /// Returns the next event, if there is one.
    ///
    /// # Errors
    /// There is none.
    pub fn try_recv(&self) -> Result<LoopEvent<M>, mpsc::TryRecvError> {
        self.receiver.try_recv().map(taken)
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// None arrived in time, or all senders are gone.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<LoopEvent<M>, mpsc::RecvTimeoutError> {
        self.receiver.recv_timeout(timeout).map(taken)
    }

    /// Waits for events until all senders are gone.
    pub fn iter(&self) -> impl Iterator<Item = LoopEvent<M>> {
        self.receiver.iter().map(taken)
    }

    /// Returns the number of updates in the channel.
    pub fn waiting_updates(&self) -> usize {
        MAX_WAITING_UPDATES as usize - self.update_permits.available_permits()
    }
}

/// Notes that the loop begins to handle an event.
fn taken<M>(mut event: LoopEvent<M>) -> LoopEvent<M> {
    if let LoopEvent::Updates(_, Place { queued: Some(queued), .. }) = &mut event {
        queued.taken();
    }
    event
}

impl<M> EventSender<M> {
    /// Sends updates. Waits while the channel holds too many.
    pub async fn send_updates(&self, updates: Vec<Update>) {
        self.send_batch(updates, None).await;
    }

    /// Sends updates of an informer, and counts them as its queued items until they are handled.
    /// Waits while the channel holds too many.
    pub async fn send_queued(&self, updates: Vec<Update>, queue: &InformerQueue) {
        let queued = queue.add(updates.len());
        self.send_batch(updates, Some(queued)).await;
    }

    async fn send_batch(&self, updates: Vec<Update>, queued: Option<QueuedItems>) {
        let count = u32::try_from(updates.len()).unwrap_or(u32::MAX).min(MAX_WAITING_UPDATES);
        // The semaphore is never closed.
        if let Ok(permit) = self.update_permits.clone().acquire_many_owned(count).await {
            let place = Place { _permit: permit, queued };
            self.send(LoopEvent::Updates(updates, place));
        }
    }

    /// Requests a snapshot of the cache and waits for it. Returns `None` if the loop has ended.
    pub async fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let (sender, snapshot) = oneshot::channel();
        self.send(LoopEvent::Snapshot(sender));
        snapshot.await.ok()
    }

    /// Requests a copy of the cluster, or of what differs from an earlier one, and waits for it.
    /// Returns `None` if the loop has ended.
    pub async fn copy(&self, base: Option<Arc<CopiedNodes>>) -> Option<Copied> {
        let (sender, copy) = oneshot::channel();
        self.send(LoopEvent::Question(Question::Copy(base, sender)));
        copy.await.ok()
    }

    /// Asks what the engine knows of a pod. Returns `None` if it does not know the pod, or if the
    /// loop has ended.
    pub async fn facts(&self, pod: PodKey, uid: Uid) -> Option<PodFacts> {
        let (sender, facts) = oneshot::channel();
        self.send(LoopEvent::Question(Question::Facts(pod, uid, sender)));
        facts.await.ok().flatten()
    }

    /// Asks for the decisions after the first `after` ones. Returns `None` if the loop has ended.
    pub async fn decisions(&self, after: u64) -> Option<DecisionsAnswer> {
        let (sender, decisions) = oneshot::channel();
        self.send(LoopEvent::Question(Question::Decisions(after, sender)));
        decisions.await.ok()
    }

    /// Sends any other event. Does nothing if the loop has ended, because then the process ends.
    pub fn send(&self, event: LoopEvent<M>) {
        let _ = self.sender.send(event);
    }
}
