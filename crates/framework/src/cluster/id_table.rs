//! A table of ids whose keys are stored elsewhere.

use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

/// Mean number of ids in a part.
const PART: usize = 256;

/// The ids of things that have a key of their own, such as a name or a UID. An entry takes four bytes and a share of the
/// free places, because the keys stay where the things are: each call gets a function that returns the key of an id.
///
/// The table consists of parts, of which one is divided each time the table has grown by [`PART`] ids (linear hashing).
/// A table in one piece would look up the keys of all its ids each time it doubles: a quarter of a second for a million
/// pods.
#[derive(Debug, Clone)]
pub struct IdTable<T> {
    parts: Vec<HashTable<T>>,
    len: usize,
    hasher: RandomState,
}

impl<T> Default for IdTable<T> {
    fn default() -> Self {
        Self { parts: vec![HashTable::new()], len: 0, hasher: RandomState::new() }
    }
}

impl<T: Copy> IdTable<T> {
    /// Whether the table has no id.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the id with this key.
    pub fn get<'k, K>(&self, key: &K, key_of: impl Fn(T) -> &'k K) -> Option<T>
    where
        K: Hash + Eq + ?Sized + 'k,
    {
        let hash = self.hasher.hash_one(key);
        let part = part_of(hash, self.parts.len());
        self.parts[part].find(hash, |id| key_of(*id) == key).copied()
    }

    /// Adds an id, whose key no other id has.
    pub fn insert<'k, K>(&mut self, id: T, key_of: impl Fn(T) -> &'k K)
    where
        K: Hash + Eq + ?Sized + 'k,
    {
        let hasher = self.hasher.clone();
        let hash_of = |id: &T| hasher.hash_one(key_of(*id));
        if self.len == PART * self.parts.len() {
            self.divide_a_part(&hash_of);
        }
        let hash = hash_of(&id);
        let part = part_of(hash, self.parts.len());
        self.parts[part].insert_unique(hash, id, hash_of);
        self.len += 1;
    }

    /// Removes the id with this key, which the id still has, and returns it.
    pub fn remove<'k, K>(&mut self, key: &K, key_of: impl Fn(T) -> &'k K) -> Option<T>
    where
        K: Hash + Eq + ?Sized + 'k,
    {
        let hash = self.hasher.hash_one(key);
        let part = part_of(hash, self.parts.len());
        let entry = self.parts[part].find_entry(hash, |id| key_of(*id) == key).ok()?;
        self.len -= 1;
        Some(entry.remove().0)
    }

    /// Adds a part, for which [`part_of`] takes about half of the ids from another one.
    fn divide_a_part(&mut self, hash_of: impl Fn(&T) -> u64) {
        let new = self.parts.len();
        let divided = new - (new + 1).next_power_of_two() / 2;
        let ids = std::mem::take(&mut self.parts[divided]);
        self.parts.push(HashTable::new());
        for place in [divided, new] {
            self.parts[place].reserve(ids.len() / 2, &hash_of);
        }
        for id in ids {
            let hash = hash_of(&id);
            self.parts[part_of(hash, new + 1)].insert_unique(hash, id, &hash_of);
        }
    }
}

/// Returns the part of a key with this hash, of so many parts. A part more changes it for keys of one part alone. The
/// bits of the hash are not those that decide about the place in a part.
const fn part_of(hash: u64, parts: usize) -> usize {
    let places = parts.next_power_of_two();
    let place = (hash >> 32) as usize & (places - 1);
    if place < parts { place } else { place - places / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_by_their_keys() {
        let texts: Vec<String> = (0..5000).map(|number| format!("node-{number}")).collect();
        let text_of = |id: u32| texts[id as usize].as_str();
        let mut ids = IdTable::default();
        for id in 0..5000 {
            ids.insert(id, text_of);
            assert_eq!(ids.get(text_of(id / 2), text_of), Some(id / 2));
        }
        for id in (0..5000).step_by(2) {
            assert_eq!(ids.remove(text_of(id), text_of), Some(id));
        }
        for id in 0..5000 {
            assert_eq!(ids.get(text_of(id), text_of), (id % 2 == 1).then_some(id));
        }
        assert_eq!((ids.get("other", text_of), ids.remove("other", text_of)), (None, None));
        assert!((1..5000).step_by(2).all(|id| ids.remove(text_of(id), text_of) == Some(id)));
        assert!(ids.is_empty());
    }

    #[test]
    fn growing_table_looks_up_few_keys_at_once() {
        let looked_up = std::cell::Cell::new(0);
        let keys: Vec<u64> = (0..200_000).collect();
        let key_of = |id: u32| {
            looked_up.set(looked_up.get() + 1);
            &keys[id as usize]
        };
        let mut ids = IdTable::default();
        let mut most = 0;
        for id in 0..200_000 {
            looked_up.set(0);
            ids.insert(id, key_of);
            most = most.max(looked_up.get());
        }
        assert!(most < 8 * PART, "{most}");
        assert!(ids.parts.iter().all(|part| part.len() < 4 * PART));
    }
}
