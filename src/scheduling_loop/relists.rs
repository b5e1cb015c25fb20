//! Requests of the scheduling loop that informers list their kinds again.

use control::scheduler::Relist;
use tokio::sync::watch;

/// Numbers of requests to list again, by the kinds that are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelistRequests {
    pods: u64,
    others: u64,
}

impl RelistRequests {
    /// Returns the number of requests for this relist.
    pub const fn of(self, relist: Relist) -> u64 {
        match relist {
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

    pub(super) fn request(&mut self, relist: Relist) {
        if relist == Relist::Others {
            self.waiting = self.others;
        }
        self.requests.send_modify(|requests| match relist {
            Relist::Pods => requests.pods += 1,
            Relist::Others => requests.others += 1,
        });
    }

    /// Counts an informer that has listed again. Returns whether it was the last one of its relist.
    pub(super) fn is_complete(&mut self, relist: Relist) -> bool {
        if relist == Relist::Others {
            self.waiting = self.waiting.saturating_sub(1);
        }
        relist == Relist::Pods || self.waiting == 0
    }
}
