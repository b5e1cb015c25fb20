//! Scratch space of one scheduling attempt.

use std::any::{Any, TypeId};
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::PluginName;

/// What a plugin may keep in a [`CycleState`]; implemented for every clonable type.
pub trait StateData: Any + Send + Sync {
    /// A copy to be changed in a what-if on one node (nominated pods, preemption).
    fn own_copy(&self) -> Arc<dyn StateData>;
    /// As [`Any`], for reading.
    fn as_any(&self) -> &dyn Any;
    /// As [`Any`], for changing.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<T: Any + Clone + Send + Sync> StateData for T {
    fn own_copy(&self) -> Arc<dyn StateData> {
        Arc::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Data that plugins hand from one extension point to the next, for one attempt of one pod.
///
/// The key is the type of the data, so a plugin declares a private struct of its own. The state lives
/// through the binding cycle, except for what was [written for the search](Self::write_for_search).
/// A clone shares the data until one of the two [changes](Self::read_mut) it.
#[derive(Clone, Default)]
pub struct CycleState {
    entries: Vec<Entry>,
    skipped_filters: Arc<BTreeSet<PluginName>>,
}

#[derive(Clone)]
struct Entry {
    id: TypeId,
    data: Arc<dyn StateData>,
    lives: Lives,
}

/// How long data is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lives {
    /// Until a node is chosen or the attempt has failed.
    Search,
    /// Until the pod is bound or the attempt has failed.
    Attempt,
}

impl CycleState {
    /// An empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores `data`, replacing an earlier value of the same type.
    pub fn write<T: Any + Clone + Send + Sync>(&mut self, data: T) {
        self.store(data, Lives::Attempt);
    }

    /// Stores `data` that only Filter, PostFilter and Score read: it is dropped once a node is
    /// chosen, so that a pod which waits or is being bound does not keep what is as long as the list
    /// of nodes.
    pub fn write_for_search<T: Any + Clone + Send + Sync>(&mut self, data: T) {
        self.store(data, Lives::Search);
    }

    fn store<T: Any + Clone + Send + Sync>(&mut self, data: T, lives: Lives) {
        let (id, data) = (TypeId::of::<T>(), Arc::new(data));
        match self.entries.iter_mut().find(|entry| entry.id == id) {
            Some(entry) => *entry = Entry { id, data, lives },
            None => self.entries.push(Entry { id, data, lives }),
        }
    }

    /// A node is chosen: what was written for the search is dropped.
    pub fn end_search(&mut self) {
        self.entries.retain(|entry| entry.lives != Lives::Search);
    }

    /// The value of this type, if one was written.
    pub fn read<T: Any>(&self) -> Option<&T> {
        let entry = self.entries.iter().find(|entry| entry.id == TypeId::of::<T>())?;
        (*entry.data).as_any().downcast_ref()
    }

    /// The value of this type for changing, if one was written.
    pub fn read_mut<T: Any>(&mut self) -> Option<&mut T> {
        let entry = self.entries.iter_mut().find(|entry| entry.id == TypeId::of::<T>())?;
        if Arc::get_mut(&mut entry.data).is_none() {
            entry.data = (*entry.data).own_copy();
        }
        Arc::get_mut(&mut entry.data)?.as_any_mut().downcast_mut()
    }

    /// Notes which filter plugins have nothing to say in this attempt, according to their PreFilter
    /// (`SkipFilterPlugins`); for the engine.
    pub fn skip_filters(&mut self, plugins: BTreeSet<PluginName>) {
        self.skipped_filters = Arc::new(plugins);
    }

    /// Whether the filter of this plugin has nothing to say in this attempt.
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
    fn a_type_is_its_own_key() {
        let mut state = CycleState::new();
        assert_eq!(state.read::<Wanted>(), None);
        state.write(Wanted(vec![1]));
        state.write(Wanted(vec![2]));
        state.write(7_u8);
        assert_eq!(state.read(), Some(&Wanted(vec![2])));
        assert_eq!(state.entries.len(), 2);
    }

    #[test]
    fn what_is_written_for_the_search_ends_with_it() {
        let mut state = CycleState::new();
        state.write_for_search(Wanted(vec![1]));
        state.write(7_u8);
        assert_eq!(state.clone().read(), Some(&Wanted(vec![1])));
        state.end_search();
        assert_eq!(state.read::<Wanted>(), None);
        assert_eq!(state.read(), Some(&7_u8));
    }

    #[test]
    fn a_clone_shares_until_it_is_changed() {
        let mut state = CycleState::new();
        state.write(Wanted(vec![1]));
        let mut copy = state.clone();
        assert!(std::ptr::eq(state.read::<Wanted>().unwrap(), copy.read().unwrap()));
        copy.read_mut::<Wanted>().unwrap().0.push(2);
        assert_eq!(state.read(), Some(&Wanted(vec![1])));
        assert_eq!(copy.read(), Some(&Wanted(vec![1, 2])));
    }
}
