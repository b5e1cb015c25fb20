//! The data that plugins share during one scheduling attempt.

use std::any::{Any, TypeId};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::{ChangedNodes, Kept, PluginName};

/// A value in a [`CycleState`]. Every type that is `Clone`, `Send` and `Sync` implements it.
pub trait StateData: Any + Send + Sync {
    /// Returns a copy, to be changed in a dry run on one node.
    fn clone_data(&self) -> Arc<dyn StateData>;
    /// Returns the value as [`Any`].
    fn as_any(&self) -> &dyn Any;
    /// Returns the value as mutable [`Any`].
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<T: Any + Clone + Send + Sync> StateData for T {
    fn clone_data(&self) -> Arc<dyn StateData> {
        Arc::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// The data that plugins hand from one extension point to the next, for one attempt of one pod.
///
/// The key of a value is its type, so each plugin declares private types. Values are kept until the
/// end of the binding cycle, except those [written for the search](Self::write_for_search). A clone
/// shares its values with the original until one of the two [changes](Self::read_mut) them.
///
/// Some values are worth more than one attempt. A plugin [keeps](Self::keep) them for the next pod
/// of the same [template](crate::Template), and then [repairs](Self::take_kept) them instead of
/// making them anew.
#[derive(Clone, Default)]
pub struct CycleState {
    entries: Vec<Entry>,
    skipped_filters: Arc<BTreeSet<PluginName>>,
    kept: Kept,
}

#[derive(Clone)]
struct Entry {
    id: TypeId,
    data: Arc<dyn StateData>,
    lifetime: Lifetime,
}

/// How long a value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifetime {
    /// Until a node is chosen or the attempt fails.
    Search,
    /// Until the pod is bound or the attempt fails.
    Attempt,
}

impl fmt::Debug for CycleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entries, skipped_filters, kept } = self;
        let mut state = f.debug_struct("CycleState");
        state.field("entries", &entries.len()).field("skipped_filters", skipped_filters);
        state.field("kept", kept).finish()
    }
}

impl CycleState {
    /// Creates an empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores `data` and replaces an earlier value of the same type.
    pub fn write<T: Any + Clone + Send + Sync>(&mut self, data: T) {
        self.store(data, Lifetime::Attempt);
    }

    /// Stores `data` that only Filter, PostFilter and Score read. It is dropped when a node is
    /// chosen, so that a pod in Permit or in its binding cycle does not keep data as long as the
    /// list of nodes.
    pub fn write_for_search<T: Any + Clone + Send + Sync>(&mut self, data: T) {
        self.store(data, Lifetime::Search);
    }

    fn store<T: Any + Clone + Send + Sync>(&mut self, data: T, lifetime: Lifetime) {
        let (id, data) = (TypeId::of::<T>(), Arc::new(data));
        match self.entries.iter_mut().find(|entry| entry.id == id) {
            Some(entry) => *entry = Entry { id, data, lifetime },
            None => self.entries.push(Entry { id, data, lifetime }),
        }
    }

    /// Drops the values [written for the search](Self::write_for_search); the engine calls it when
    /// a node is chosen.
    pub fn end_search(&mut self) {
        self.entries.retain(|entry| entry.lifetime != Lifetime::Search);
    }

    /// Returns the value of this type, if one was written.
    pub fn read<T: Any>(&self) -> Option<&T> {
        let entry = self.entries.iter().find(|entry| entry.id == TypeId::of::<T>())?;
        (*entry.data).as_any().downcast_ref()
    }

    /// Returns the value of this type, to be changed, if one was written.
    pub fn read_mut<T: Any>(&mut self) -> Option<&mut T> {
        let entry = self.entries.iter_mut().find(|entry| entry.id == TypeId::of::<T>())?;
        if Arc::get_mut(&mut entry.data).is_none() {
            entry.data = (*entry.data).clone_data();
        }
        Arc::get_mut(&mut entry.data)?.as_any_mut().downcast_mut()
    }

    /// Takes out the value of this type that was [kept](Self::keep) in the last attempt for a pod
    /// of the template, with the nodes that have changed since.
    ///
    /// There is no value if the last attempt kept none, or if too much has changed.
    pub fn take_kept<T: Any>(&mut self) -> Option<(T, Arc<ChangedNodes>)> {
        self.kept.take()
    }

    /// Keeps a value for the next attempt for a pod of the template; does nothing if
    /// [no value is kept](Self::keeps). `size` is about the number of words that it takes.
    pub fn keep<T: Any + Send + Sync>(&mut self, value: T, size: usize) {
        self.kept.keep(value, size);
    }

    /// Whether values are kept for the next attempt. The first attempt for a template keeps none,
    /// nor does an attempt for a pod whose template does not describe it completely.
    pub fn keeps(&self) -> bool {
        self.kept.is_active()
    }

    /// Reports that keys of unchanged nodes may differ from their keys in the last attempt; see
    /// [`FilterScope::Tier`](crate::FilterScope::Tier). A plugin calls it in PreFilter or in
    /// [`Score::dependence`](crate::Score::dependence).
    pub fn rekey(&mut self) {
        self.kept.rekey();
    }

    /// Gives plugins the values of the last attempt; the engine calls it when an attempt begins.
    pub fn resume(&mut self, kept: Kept) {
        self.kept = kept;
    }

    /// Takes back the values for the next attempt; the engine calls it at the end of the search.
    pub fn suspend(&mut self) -> Kept {
        std::mem::take(&mut self.kept)
    }

    /// Whether a plugin called [`rekey`](Self::rekey) since the last call of this function; the
    /// engine calls it.
    pub fn take_rekeyed(&mut self) -> bool {
        self.kept.take_rekeyed()
    }

    /// Records the plugins whose PreFilter returned Skip (`SkipFilterPlugins`); the engine calls
    /// it.
    pub fn skip_filters(&mut self, plugins: BTreeSet<PluginName>) {
        self.skipped_filters = Arc::new(plugins);
    }

    /// Whether the Filter of this plugin is left out in this attempt.
    pub fn skips_filter(&self, plugin: &PluginName) -> bool {
        self.skipped_filters.contains(plugin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Wanted(Vec<u32>);

    #[test]
    fn write_replaces_the_value_of_the_same_type() {
        let mut state = CycleState::new();
        assert_eq!(state.read::<Wanted>(), None);
        state.write(Wanted(vec![1]));
        state.write(Wanted(vec![2]));
        state.write(7_u8);
        assert_eq!(state.read(), Some(&Wanted(vec![2])));
        assert_eq!(state.entries.len(), 2);
    }

    #[test]
    fn end_search_drops_only_values_written_for_the_search() {
        let mut state = CycleState::new();
        state.write_for_search(Wanted(vec![1]));
        state.write(7_u8);
        assert_eq!(state.clone().read(), Some(&Wanted(vec![1])));
        state.end_search();
        assert_eq!(state.read::<Wanted>(), None);
        assert_eq!(state.read(), Some(&7_u8));
    }

    #[test]
    fn clone_shares_values_until_one_is_changed() {
        let mut state = CycleState::new();
        state.write(Wanted(vec![1]));
        let mut copy = state.clone();
        assert!(std::ptr::eq(state.read::<Wanted>().unwrap(), copy.read().unwrap()));
        copy.read_mut::<Wanted>().unwrap().0.push(2);
        assert_eq!(state.read(), Some(&Wanted(vec![1])));
        assert_eq!(copy.read(), Some(&Wanted(vec![1, 2])));
    }
}
