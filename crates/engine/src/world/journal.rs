//! The journal that undoes the changes of a savepoint.

use std::sync::Arc;

use framework::{Command, CycleState, Pod, TentativePlacing};

use super::placed::Removed;
use crate::nominator::Nomination;
use crate::profile::Profile;

/// A change inside a savepoint, with what undoes it.
#[derive(Debug)]
pub(super) enum Undoable {
    Assumed { placing: TentativePlacing, nomination: Option<Nomination> },
    Reserved(Box<Reservation>),
    Removed(Removed),
}

/// A pod whose Reserve has run inside a savepoint.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) profile: Arc<Profile>,
    pub(crate) pod: Arc<Pod>,
    pub(crate) node: Arc<str>,
    pub(crate) state: CycleState,
    /// The commands that its plugins gave, which are carried out if the changes stay.
    pub(super) commands: Vec<Command>,
}
