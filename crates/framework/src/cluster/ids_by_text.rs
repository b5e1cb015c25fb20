//! Ids by a text that is stored elsewhere.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// The ids of things that have a text of their own, such as a name. An entry takes four bytes, because the texts stay
/// where the things are: each call gets a function that returns the text of an id.
#[derive(Debug, Clone)]
pub(super) struct IdsByText<T> {
    ids: HashTable<T>,
    hasher: RandomState,
}

impl<T> Default for IdsByText<T> {
    fn default() -> Self {
        Self { ids: HashTable::new(), hasher: RandomState::new() }
    }
}

impl<T: Copy> IdsByText<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the id with this text.
    pub(super) fn get<'t>(&self, text: &str, text_of: impl Fn(T) -> &'t str) -> Option<T> {
        self.ids.find(self.hasher.hash_one(text), |id| text_of(*id) == text).copied()
    }

    /// Adds an id, whose text no other id has.
    pub(super) fn insert<'t>(&mut self, id: T, text_of: impl Fn(T) -> &'t str) {
        let hash_of = |id: &T| self.hasher.hash_one(text_of(*id));
        self.ids.insert_unique(hash_of(&id), id, hash_of);
    }

    /// Removes the id with this text, which the id still has.
    pub(super) fn remove<'t>(&mut self, text: &str, text_of: impl Fn(T) -> &'t str) {
        let hash = self.hasher.hash_one(text);
        if let Ok(entry) = self.ids.find_entry(hash, |id| text_of(*id) == text) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_by_their_texts() {
        let texts: Vec<String> = (0..1000).map(|number| format!("node-{number}")).collect();
        let text_of = |id: u32| texts[id as usize].as_str();
        let mut ids = IdsByText::default();
        (0..1000).for_each(|id| ids.insert(id, text_of));
        (0..1000).step_by(2).for_each(|id| ids.remove(text_of(id), text_of));
        for id in 0..1000 {
            assert_eq!(ids.get(text_of(id), text_of), (id % 2 == 1).then_some(id));
        }
        assert_eq!(ids.get("other", text_of), None);
        ids.remove("other", text_of);
        (1..1000).step_by(2).for_each(|id| ids.remove(text_of(id), text_of));
        assert!(ids.is_empty());
    }
}
