//! Requests of the scheduling loop that informers list their kinds again.

use control::scheduler::Relist;
use tokio::sync::watch;

/// Numbers of requests to list again, by group of kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelistRequests {
    pods: u64,
    others: u64,
}

impl RelistRequests {
    /// Returns the number of requests to this group.
    pub const fn of(self, group: Relist) -> u64 {
        match group {
            Relist::Pods => self.pods,
            Relist::Others => self.others,
        }
    }
}

/// The relists that the scheduling loop has asked for.
#[derive(Debug)]
pub struct Relists {
    requests: watch::Sender<RelistRequests>,
    /// Number of informers of other kinds than pods.
    others: usize,
    /// Number of these that have not listed again.
    waiting: usize,
}

impl Relists {
    /// Creates the requests to this many informers, of which one watches pods.
    pub fn new(informers: usize) -> Self {
        let others = informers.saturating_sub(1);
        Self { requests: watch::Sender::default(), others, waiting: 0 }
    }

    /// Returns the receiver for informers.
    pub fn subscribe(&self) -> watch::Receiver<RelistRequests> {
        self.requests.subscribe()
    }

    pub(super) fn request(&mut self, group: Relist) {
        if group == Relist::Others {
            self.waiting = self.others;
        }
        self.requests.send_modify(|requests| match group {
            Relist::Pods => requests.pods += 1,
            Relist::Others => requests.others += 1,
        });
    }

    /// Counts an informer that has listed again. Returns whether it was the last one of its group.
    pub(super) fn is_complete(&mut self, group: Relist) -> bool {
        if group == Relist::Others {
            self.waiting = self.waiting.saturating_sub(1);
        }
        group == Relist::Pods || self.waiting == 0
    }
}
