//! What reaches the scheduling loop.

use std::sync::{Arc, mpsc};

use client::scheduler::Sender;
use client::{Reply, RequestId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::wire::Update;

/// Changes that may wait in the inbox. Whoever watches waits while there are more: what the loop has no
/// time for stays with the API server.
const ROOM: u32 = 16_384;

/// Something the loop has to take in.
#[derive(Debug)]
pub enum Message {
    /// The world changed. The permit makes room for further changes when it is dropped.
    Changes(Vec<Update>, OwnedSemaphorePermit),
    /// One of the watches has told the whole state it found.
    Synced,
    /// A request was answered, or not.
    Reply(Sender, RequestId, Reply),
    /// Take up no more pods, and end when what is under way has ended.
    Stop,
}

/// The way to the scheduling loop.
#[derive(Debug, Clone)]
pub struct Inbox {
    sender: mpsc::Sender<Message>,
    room: Arc<Semaphore>,
}

impl Inbox {
    /// An inbox, and the end at which the loop reads.
    pub fn new() -> (Self, mpsc::Receiver<Message>) {
        let (sender, receiver) = mpsc::channel();
        (Self { sender, room: Arc::new(Semaphore::new(ROOM as usize)) }, receiver)
    }

    /// Delivers changes, once there is room.
    pub async fn changes(&self, changes: Vec<Update>) {
        let count = u32::try_from(changes.len()).unwrap_or(ROOM).min(ROOM);
        if let Ok(permit) = self.room.clone().acquire_many_owned(count).await {
            self.send(Message::Changes(changes, permit));
        }
    }

    /// Delivers what is no change of the world. A loop that has ended has no use for it.
    pub fn send(&self, message: Message) {
        let _ = self.sender.send(message);
    }
}
