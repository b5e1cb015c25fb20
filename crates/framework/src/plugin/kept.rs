//! Values that plugins keep for the pods of a template, from one attempt to the next.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use crate::NodeIx;

/// The nodes that have changed since an earlier state of the cluster, in ascending order. A node
/// that is gone is among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedNodes {
    /// The nodes of which the object has changed, or a pod on them. For PostFilter plugins also
    /// nodes of which a nomination has changed.
    pub nodes: Vec<NodeIx>,
    /// The nodes of which the object has changed.
    pub objects: Vec<NodeIx>,
    /// The nodes on which the start time of a pod has changed, which only preemption reads.
    pub starts: Vec<NodeIx>,
}

/// The values that plugins keep for the pods of a template. The engine stores them between
/// attempts; plugins reach them through the [`CycleState`](crate::CycleState).
///
/// A clone keeps nothing.
#[derive(Default)]
pub struct Kept {
    /// Whether values of this attempt are kept.
    active: bool,
    /// The values of the last attempt that no plugin has taken.
    last: Vec<Value>,
    /// The values for the next attempt.
    next: Vec<Value>,
    /// The nodes that have changed since the last attempt.
    changed: Arc<ChangedNodes>,
    rekeyed: bool,
}

struct Value {
    id: TypeId,
    data: Box<dyn Any + Send + Sync>,
    size: usize,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { active, last, next, changed, rekeyed } = self;
        let mut kept = f.debug_struct("Kept");
        kept.field("active", active).field("last", &last.len()).field("next", &next.len());
        kept.field("changed", &changed.nodes.len()).field("rekeyed", rekeyed).finish()
    }
}

impl Clone for Kept {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// For the engine.
impl Kept {
    /// Begins the next attempt. Without `changed`, the nodes that have changed since the last one,
    /// its values are dropped.
    #[must_use]
    pub fn next_attempt(self, changed: Option<Arc<ChangedNodes>>) -> Self {
        let last = if changed.is_some() { self.next } else { Vec::new() };
        let changed = changed.unwrap_or_default();
        Self { active: true, last, next: Vec::new(), changed, rekeyed: false }
    }

    /// About the number of words that the values take.
    pub fn size(&self) -> usize {
        self.next.iter().map(|value| value.size).sum()
    }

    /// Whether a plugin called [`CycleState::rekey`](crate::CycleState::rekey) since the last
    /// call of this function.
    pub const fn take_rekeyed(&mut self) -> bool {
        std::mem::replace(&mut self.rekeyed, false)
    }

    /// Whether no value is kept.
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }
}

/// For plugins, through the cycle state.
impl Kept {
    pub(super) fn take<T: Any>(&mut self) -> Option<(T, Arc<ChangedNodes>)> {
        let place = self.last.iter().position(|value| value.id == TypeId::of::<T>())?;
        let value = self.last.swap_remove(place).data.downcast().ok()?;
        Some((*value, self.changed.clone()))
    }

    pub(super) fn keep<T: Any + Send + Sync>(&mut self, value: T, size: usize) {
        if self.active {
            let id = TypeId::of::<T>();
            self.next.retain(|value| value.id != id);
            self.next.push(Value { id, data: Box::new(value), size });
        }
    }

    pub(super) const fn is_active(&self) -> bool {
        self.active
    }

    pub(super) const fn rekey(&mut self) {
        self.rekeyed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CycleState;

    fn nodes(numbers: &[usize]) -> Option<Arc<ChangedNodes>> {
        let nodes = numbers.iter().copied().map(NodeIx::new).collect();
        Some(Arc::new(ChangedNodes { nodes, ..ChangedNodes::default() }))
    }

    #[test]
    fn values_are_kept_from_one_attempt_to_the_next() {
        let mut state = CycleState::new();
        state.keep("first".to_owned(), 5);
        assert!(!state.keeps() && state.suspend().is_empty());

        state.resume(Kept::default().next_attempt(None));
        assert!(state.keeps() && state.take_kept::<String>().is_none());
        state.keep("second".to_owned(), 6);
        state.keep(7_u8, 1);
        let kept = state.suspend();
        assert_eq!(kept.size(), 7);

        state.resume(kept.next_attempt(nodes(&[3, 4])));
        let (text, changed) = state.take_kept::<String>().unwrap();
        assert_eq!((&*text, Some(changed)), ("second", nodes(&[3, 4])));
        assert!(state.take_kept::<String>().is_none());
        state.keep(text, 6);

        // The plugin did not keep the number again.
        assert!(state.clone().suspend().is_empty());
        let kept = state.suspend().next_attempt(nodes(&[]));
        state.resume(kept);
        assert!(state.take_kept::<u8>().is_none() && state.take_kept::<String>().is_some());
    }

    #[test]
    fn too_many_changes_drop_the_values() {
        let mut state = CycleState::new();
        state.resume(Kept::default().next_attempt(None));
        state.keep(7_u8, 1);
        let kept = state.suspend().next_attempt(None);
        state.resume(kept);
        assert!(state.take_kept::<u8>().is_none());
    }
}
