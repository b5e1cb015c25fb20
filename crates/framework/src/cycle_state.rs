//! Scratch space of one scheduling attempt.

use std::any::{Any, TypeId};

/// What a plugin may keep in a [`CycleState`]; implemented for every clonable type.
pub trait StateData: Any + Send + Sync {
    /// Clones for a what-if on one node (nominated pods, preemption).
    fn boxed_clone(&self) -> Box<dyn StateData>;
    /// As [`Any`], for reading.
    fn as_any(&self) -> &dyn Any;
    /// As [`Any`], for changing.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<T: Any + Clone + Send + Sync> StateData for T {
    fn boxed_clone(&self) -> Box<dyn StateData> {
        Box::new(self.clone())
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
/// through the binding cycle.
#[derive(Default)]
pub struct CycleState {
    entries: Vec<(TypeId, Box<dyn StateData>)>,
}

impl CycleState {
    /// An empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores `data`, replacing an earlier value of the same type.
    pub fn write<T: Any + Clone + Send + Sync>(&mut self, data: T) {
        match self.read_mut::<T>() {
            Some(place) => *place = data,
            None => self.entries.push((TypeId::of::<T>(), Box::new(data))),
        }
    }

    /// The value of this type, if one was written.
    pub fn read<T: Any>(&self) -> Option<&T> {
        let (_, data) = self.entries.iter().find(|(id, _)| *id == TypeId::of::<T>())?;
        (**data).as_any().downcast_ref()
    }

    /// The value of this type for changing, if one was written.
    pub fn read_mut<T: Any>(&mut self) -> Option<&mut T> {
        let (_, data) = self.entries.iter_mut().find(|(id, _)| *id == TypeId::of::<T>())?;
        (**data).as_any_mut().downcast_mut()
    }
}

impl Clone for CycleState {
    fn clone(&self) -> Self {
        Self {
            entries: self.entries.iter().map(|(id, data)| (*id, (**data).boxed_clone())).collect(),
        }
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
    fn a_clone_does_not_share() {
        let mut state = CycleState::new();
        state.write(Wanted(vec![1]));
        let mut copy = state.clone();
        copy.read_mut::<Wanted>().unwrap().0.push(2);
        assert_eq!(state.read(), Some(&Wanted(vec![1])));
        assert_eq!(copy.read(), Some(&Wanted(vec![1, 2])));
    }
}
