//! What can be set about a session.

use std::time::Duration;

/// How a session goes about it. The defaults are those of client-go where it has any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether to try streaming lists (WatchList) before paged ones.
    pub streaming_lists: bool,
    /// Objects per page of a list.
    pub page_size: u32,
    /// How long to wait for a page, or for a watch to open. The server gives up after 60 s.
    pub answer_timeout: Duration,
    /// Shortest life of a watch that the server is asked for, in whole seconds; a random time up to
    /// twice that long is asked for, so that not all watches end together.
    pub watch_timeout: Duration,
    /// How long after the end of its life a watch may still be open; then its connection counts as
    /// dead.
    pub watch_grace: Duration,
    /// How long a streaming list may be silent; then the server counts as one that does not have
    /// them.
    pub silence_limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            streaming_lists: true,
            page_size: 500,
            answer_timeout: Duration::from_secs(75),
            watch_timeout: Duration::from_secs(300),
            watch_grace: Duration::from_secs(30),
            silence_limit: Duration::from_secs(60),
        }
    }
}
