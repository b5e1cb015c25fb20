//! Driving the state machines of [`client`]: connections, tasks, the thread of the engine.
//!
//! ```text
//!   API server ──▶ watcher, one task a kind ──▶ inbox ──▶ scheduling loop, one thread
//!        ▲                                        ▲            │
//!        └───────── a task a request ◀────────────┼────────────┘
//!                          └──────────────────────┘ reply
//! ```

mod api;
mod clock;
mod inbox;
mod scheduling_loop;
mod watcher;

pub use api::{Api, ConnectError, Credentials, Version, VersionError};
pub(crate) use api::{https_connector, reasons};
pub use clock::Clock;
pub use inbox::{Inbox, Message};
pub use scheduling_loop::{Observer, Outgoing, SchedulingLoop};
pub use watcher::Watcher;
