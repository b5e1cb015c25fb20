//! A table of ids whose keys are stored elsewhere.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;

/// Mean number of ids in a part.
const PART: usize = 16;
/// A part gets room for so many ids at once, so that little of it is free.
const STEP: usize = 4;

/// The ids of things that have a key of their own, such as a name or a UID. An id takes ten to
/// eleven bytes, because the keys stay where the things are: each call gets a function that returns
/// the key of an id.
///
/// The table consists of parts, of which one is divided each time the table has grown by `PART` ids
/// (linear hashing). Hashes are kept, so that growing looks up no keys, which may be anywhere in
/// memory: a table in one piece without hashes took 7 ms to double with 58,000 pods.
#[derive(Debug, Clone)]
pub struct IdTable<T> {
    parts: Vec<Part<T>>,
    len: usize,
    /// Random, so that nobody can choose names that end up in one part. No result depends on the
    /// order of ids.
    hasher: RandomState,
}

/// The ids with equal bits in the hashes of their keys, in no order.
#[derive(Debug, Clone)]
struct Part<T> {
    /// The hash of each key beside its id.
    ids: Vec<(u32, T)>,
}

impl<T> Default for IdTable<T> {
    fn default() -> Self {
        Self { parts: vec![Part::default()], len: 0, hasher: RandomState::default() }
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
        let hash = self.hash(key);
        let part = &self.parts[part_of(hash, self.parts.len())];
        part.find(hash, |id| key_of(id) == key).map(|place| part.ids[place].1)
    }

    /// Adds an id with this key, which no other id has.
    pub fn insert<K: Hash + ?Sized>(&mut self, id: T, key: &K) {
        if self.len == PART * self.parts.len() {
            self.divide_a_part();
        }
        let hash = self.hash(key);
        let part = part_of(hash, self.parts.len());
        self.parts[part].push(hash, id);
        self.len += 1;
    }

    /// Removes the id with this key, which the id still has, and returns it.
    pub fn remove<'k, K>(&mut self, key: &K, key_of: impl Fn(T) -> &'k K) -> Option<T>
    where
        K: Hash + Eq + ?Sized + 'k,
    {
        let hash = self.hash(key);
        let part = part_of(hash, self.parts.len());
        let part = &mut self.parts[part];
        let place = part.find(hash, |id| key_of(id) == key)?;
        self.len -= 1;
        Some(part.ids.swap_remove(place).1)
    }

    /// Adds a part, for which [`part_of`] takes about half of the ids from another one.
    fn divide_a_part(&mut self) {
        let new = self.parts.len();
        let divided = new - (new + 1).next_power_of_two() / 2;
        let part = std::mem::take(&mut self.parts[divided]);
        self.parts.push(Part::default());
        for (hash, id) in part.ids {
            self.parts[part_of(hash, new + 1)].push(hash, id);
        }
    }

    fn hash<K: Hash + ?Sized>(&self, key: &K) -> u32 {
        self.hasher.hash_one(key) as u32
    }
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self { ids: Vec::new() }
    }
}

impl<T: Copy> Part<T> {
    /// Returns the place of the id with this hash that is the wanted one.
    fn find(&self, hash: u32, is_it: impl Fn(T) -> bool) -> Option<usize> {
        self.ids.iter().position(|(own, id)| *own == hash && is_it(*id))
    }

    fn push(&mut self, hash: u32, id: T) {
        if self.ids.len() == self.ids.capacity() {
            self.ids.reserve_exact(STEP);
        }
        self.ids.push((hash, id));
    }
}

/// Returns the part of a key with this hash, of so many parts. A part more changes it for keys of
/// one part alone.
const fn part_of(hash: u32, parts: usize) -> usize {
    let places = parts.next_power_of_two();
    let place = hash as usize & (places - 1);
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
            ids.insert(id, text_of(id));
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
    fn parts_stay_small() {
        let mut ids = IdTable::default();
        (0..200_000_u32).for_each(|id| ids.insert(id, &id));
        assert!(ids.parts.iter().all(|part| part.ids.len() < 4 * PART));
    }
}
