//! Savepoints: changes of the world that are undone, or kept.
//!
//! Inside a savepoint pods are assumed, reserved and removed for real. The next decision, about any
//! node, reads them in every column, count and index. A journal has what undoes each change, in
//! reverse order.

use std::ops::Deref;
use std::sync::Arc;

use framework::{CycleState, Pod, Status, Uid};

pub(crate) use super::journal::Reservation;
use super::journal::Undoable;
use super::{AssumeError, LoggedChange, Removed, World};
use crate::context::Context;
use crate::profile::Profile;
use crate::reserving::Reserving;

/// The world inside a savepoint, which can be read. It offers only changes that can be undone.
#[derive(Debug)]
pub(crate) struct Tentative<'w> {
    world: &'w mut World,
}

/// How a savepoint ends, with the value that it gives its caller.
#[derive(Debug)]
pub(crate) enum Ending<T> {
    /// The changes stay. An outer savepoint that is undone undoes the changes of the inner one,
    /// too.
    Keep(T),
    /// Everything is as before.
    Undo(T),
}

/// An outermost savepoint that has ended.
#[derive(Debug)]
pub(crate) struct Ended<T> {
    pub(crate) value: T,
    /// The reservations of kept changes, the first first.
    pub(crate) reservations: Vec<Reservation>,
}

impl World {
    /// Begins a savepoint, which ends with `attempt`. On [`Ending::Undo`] everything is as before,
    /// the change log included.
    pub(crate) fn tentatively<T>(
        &mut self,
        cx: &mut Context<'_>,
        attempt: impl FnOnce(&mut Tentative<'_>, &mut Context<'_>) -> Ending<T>,
    ) -> Ended<T> {
        let value = Tentative { world: self }.tentatively(cx, attempt);
        Ended { value, reservations: self.keep_changes() }
    }

    /// Ends the outermost savepoint. Returns the reservations that it has left.
    fn keep_changes(&mut self) -> Vec<Reservation> {
        let mut reservations = Vec::new();
        if self.journal.is_empty() {
            return reservations;
        }
        for change in std::mem::take(&mut self.journal) {
            match change {
                Undoable::Assumed { .. } => {}
                Undoable::Removed(Removed { removal, .. }) => {
                    self.forget_eviction(&removal.placed.pod.uid);
                }
                Undoable::Reserved(mut reservation) => {
                    let commands = std::mem::take(&mut reservation.commands);
                    commands.into_iter().for_each(|command| self.commands.push(command));
                    reservations.push(*reservation);
                }
            }
        }
        reservations
    }

    fn undo(&mut self, change: Undoable, cx: &mut Context<'_>) {
        match change {
            Undoable::Assumed { placing, nomination } => {
                self.undo_assuming(placing);
                nomination.into_iter().for_each(|own| self.nominator.restore(own));
            }
            Undoable::Removed(removed) => self.undo_removing(removed),
            Undoable::Reserved(mut own) => self.reserving(&mut own, cx).undo(cx.probe),
        }
    }

    fn reserving<'a>(&'a self, own: &'a mut Reservation, cx: &Context<'_>) -> Reserving<'a> {
        let Reservation { profile, pod, node, state, .. } = own;
        Reserving { profile, pod, node, state, handle: self.handle(cx.now) }
    }
}

impl Deref for Tentative<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        self.world
    }
}

/// Changes.
impl Tentative<'_> {
    /// Begins an inner savepoint, which ends with `attempt`.
    pub(crate) fn tentatively<T>(
        &mut self,
        cx: &mut Context<'_>,
        attempt: impl FnOnce(&mut Tentative<'_>, &mut Context<'_>) -> Ending<T>,
    ) -> T {
        let (mark, start) = (self.world.log.begin_savepoint(), self.world.journal.len());
        match attempt(&mut Tentative { world: self.world }, cx) {
            Ending::Keep(value) => {
                self.world.log.keep_savepoint();
                value
            }
            Ending::Undo(value) => {
                while self.world.journal.len() > start
                    && let Some(change) = self.world.journal.pop()
                {
                    self.world.undo(change, cx);
                }
                self.world.log.undo_savepoint(mark);
                value
            }
        }
    }

    /// Places a pod on a node, and ends its nomination.
    ///
    /// # Errors
    /// The pod has a node already.
    pub(crate) fn assume(&mut self, pod: &Pod, node: &Arc<str>) -> Result<Arc<Pod>, AssumeError> {
        let placing = self.world.place_tentatively(pod, node)?;
        let World { cluster, nominator, log, journal, .. } = &mut *self.world;
        log.push(placing.node, LoggedChange::PodPlaced(placing.ix));
        let assumed = cluster.pod(placing.ix).pod.clone();
        let nomination = nominator.take(&pod.uid);
        journal.push(Undoable::Assumed { placing, nomination });
        Ok(assumed)
    }

    /// Runs Reserve for an assumed pod, with the cycle state of its decision.
    ///
    /// # Errors
    /// A plugin rejects the pod or fails. The plugins are as before.
    pub(crate) fn reserve(
        &mut self,
        profile: &Arc<Profile>,
        pod: Arc<Pod>,
        node: &Arc<str>,
        state: CycleState,
        cx: &mut Context<'_>,
    ) -> Result<(), Status> {
        let (profile, node, commands) = (profile.clone(), node.clone(), Vec::new());
        let mut own = Box::new(Reservation { profile, pod, node, state, commands });
        let before = self.world.commands.len();
        let mut reserving = self.world.reserving(&mut own, cx);
        let reserved = reserving.reserve(cx.probe);
        if reserved.is_err() {
            reserving.undo(cx.probe);
        }
        own.commands = self.world.commands.split_off(before);
        if reserved.is_ok() {
            self.world.journal.push(Undoable::Reserved(own));
        }
        reserved
    }

    /// Removes a pod from its node, whether it is assumed or runs there. The room that its plugins
    /// have reserved stays reserved. Returns the pod, or `None` if it has no node.
    pub(crate) fn remove(&mut self, uid: &Uid) -> Option<Arc<Pod>> {
        let removed = self.world.remove_tentatively(uid)?;
        let World { log, journal, .. } = &mut *self.world;
        let placed = &removed.removal.placed;
        log.push(placed.node, LoggedChange::PodGone(removed.removal.ix));
        let pod = placed.pod.clone();
        journal.push(Undoable::Removed(removed));
        Some(pod)
    }

    /// Places a pod on its node again that was [removed](Self::remove) in this savepoint. Ignores a
    /// pod that has a node.
    pub(crate) fn put_back(&mut self, pod: Arc<Pod>) {
        let Some(placing) = self.world.put_back_tentatively(pod) else { return };
        let World { log, journal, .. } = &mut *self.world;
        log.push(placing.node, LoggedChange::PodPlaced(placing.ix));
        journal.push(Undoable::Assumed { placing, nomination: None });
    }

    /// Registers the queries of the next decision about the pod, also for the time after the
    /// savepoint; see [`World::register_queries`].
    pub(crate) fn register_queries(&mut self, pod: &Pod, profile: &Profile, cx: &mut Context<'_>) {
        self.world.register_queries(pod, profile, cx);
    }
}

#[cfg(test)]
mod tests;
