//! The settings of a reflector.

use std::time::Duration;

/// Page size and timeouts of a reflector. The defaults are client-go's where it has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether to try streaming lists (WatchList) before paged lists.
    pub watch_list: bool,
    /// Whether the first paged list shows the latest state, not the state of the server's cache,
    /// which is cheaper.
    pub starts_with_latest: bool,
    /// Number of objects per page of a list.
    pub page_size: u32,
    /// Time to wait for a page. The server itself gives up after 60 s.
    pub request_timeout: Duration,
    /// Shortest watch timeout that is requested, in whole seconds. The requested timeout is random,
    /// up to twice as long, so that watches do not all end at the same time.
    pub min_watch_timeout: Duration,
    /// Longest timeout of a watch that follows a silent one, in whole seconds; a random time, at
    /// least three quarters of it, is requested. The server sends a bookmark before it ends a
    /// watch, so that a kind without changes is not silent for
    /// [`watch_idle_timeout`](Self::watch_idle_timeout).
    pub quiet_watch_timeout: Duration,
    /// Time that a watch may stay open after its timeout. After that its connection counts as dead.
    pub watch_grace_period: Duration,
    /// Time to wait for a watch to open, and time without an event or a bookmark after which it
    /// counts as silent. The server sends a bookmark about every minute, so a watch without changes
    /// is silent, too. After two silent watches in a row both this time and the grace period are
    /// twice as long, until a watch ends in time.
    pub watch_idle_timeout: Duration,
    /// Time without events after which a streaming list counts as cut off.
    pub watch_list_idle_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            watch_list: true,
            starts_with_latest: false,
            page_size: 500,
            request_timeout: Duration::from_secs(75),
            min_watch_timeout: Duration::from_secs(300),
            watch_grace_period: Duration::from_secs(30),
            quiet_watch_timeout: Duration::from_secs(40),
            watch_idle_timeout: Duration::from_secs(45),
            watch_list_idle_timeout: Duration::from_secs(45),
        }
    }
}
