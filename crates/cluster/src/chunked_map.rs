//! A sorted map whose insertions and removals move few entries.

/// Maximum number of entries of a chunk.
const CHUNK: usize = 128;

/// Entries in ascending order of key, split into chunks.
///
/// An insertion or removal moves entries of one chunk only. An entry takes little more room than in
/// a plain list, which a B-tree of small entries does not achieve.
#[derive(Debug, Clone)]
pub(super) struct ChunkedMap<K, V> {
    /// Chunks; none is empty.
    chunks: Vec<Vec<(K, V)>>,
    len: usize,
}

impl<K, V> ChunkedMap<K, V> {
    /// Returns the number of entries.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the entries in ascending order of key.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.chunks.iter().flatten()
    }

    /// Returns the entry with the highest key.
    pub(super) fn last(&self) -> Option<&(K, V)> {
        self.chunks.last()?.last()
    }
}

impl<K: Ord, V> ChunkedMap<K, V> {
    /// Returns the value of `key`.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let (chunk, Ok(place)) = self.find(key) else { return None };
        Some(&self.chunks[chunk][place].1)
    }

    /// Returns the entries from `key` on, in ascending order of key.
    pub(super) fn iter_from(&self, key: K) -> impl Iterator<Item = &(K, V)> {
        let (chunk, place) = self.find(&key);
        let (Ok(skipped) | Err(skipped)) = place;
        self.chunks.get(chunk..).unwrap_or_default().iter().flatten().skip(skipped)
    }

    /// Sets the value of `key`; returns whether the key is new.
    pub(super) fn insert(&mut self, key: K, value: V) -> bool {
        let (chunk, place) = self.find(&key);
        match place {
            Ok(place) => self.chunks[chunk][place].1 = value,
            Err(place) => {
                self.insert_at(chunk, place, key, value);
                self.len += 1;
            }
        }
        place.is_err()
    }

    /// Removes `key`; returns whether it was present.
    pub(super) fn remove(&mut self, key: &K) -> bool {
        let (chunk, Ok(place)) = self.find(key) else { return false };
        self.chunks[chunk].remove(place);
        self.len -= 1;
        self.join(chunk);
        true
    }

    /// Returns the chunk of a key, and its position there or the position to insert it at.
    fn find(&self, key: &K) -> (usize, Result<usize, usize>) {
        let chunk = self.chunks.partition_point(|chunk| chunk[0].0 <= *key).saturating_sub(1);
        let entries = self.chunks.get(chunk).map_or(&[][..], Vec::as_slice);
        (chunk, entries.binary_search_by(|(own, _)| own.cmp(key)))
    }

    fn insert_at(&mut self, chunk: usize, place: usize, key: K, value: V) {
        let entry = (key, value);
        let Some(entries) = self.chunks.get_mut(chunk) else {
            return self.chunks.push(vec![entry]);
        };
        if entries.len() < CHUNK {
            return entries.insert(place, entry);
        }
        // Keys that arrive in ascending order fill their chunks.
        let half = if place == CHUNK { CHUNK } else { CHUNK / 2 };
        let mut upper = entries.split_off(half);
        match place.checked_sub(half) {
            Some(place) => upper.insert(place, entry),
            None => entries.insert(place, entry),
        }
        self.chunks.insert(chunk + 1, upper);
    }

    /// Removes a chunk that is empty, and joins a short chunk with a short neighbour to keep the
    /// number of chunks small.
    fn join(&mut self, chunk: usize) {
        match self.chunks[chunk].len() {
            0 => drop(self.chunks.remove(chunk)),
            len if len < CHUNK / 4 => {
                self.join_with_next(chunk);
                if let Some(lower) = chunk.checked_sub(1) {
                    self.join_with_next(lower);
                }
            }
            _ => {}
        }
    }

    fn join_with_next(&mut self, chunk: usize) {
        if let [lower, upper, ..] = &mut self.chunks[chunk..]
            && lower.len() + upper.len() <= CHUNK / 2
        {
            lower.append(upper);
            self.chunks.remove(chunk + 1);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for ChunkedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self { chunks: Vec::new(), len: 0 };
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equals_a_btree_map(
            phases in prop::collection::vec((0..100_u32, prop::collection::vec(0..1500_u32, 0..400)), 1..6),
        ) {
            let mut map: ChunkedMap<u32, usize> = ChunkedMap::from_iter([]);
            let mut oracle = BTreeMap::new();
            for (removals, keys) in phases {
                for (value, key) in keys.into_iter().enumerate() {
                    if key % 100 < removals {
                        prop_assert_eq!(map.remove(&key), oracle.remove(&key).is_some());
                    } else {
                        prop_assert_eq!(map.insert(key, value), oracle.insert(key, value).is_none());
                    }
                    prop_assert_eq!(map.get(&key), oracle.get(&key));
                }
                prop_assert_eq!(map.len(), oracle.len());
                prop_assert!(map.iter().map(|(key, value)| (key, value)).eq(oracle.iter()));
                prop_assert_eq!(map.last().map(|(key, _)| key), oracle.keys().next_back());
                let sizes = map.chunks.iter().map(Vec::len);
                prop_assert!(sizes.clone().all(|len| (1..=CHUNK).contains(&len)));
            }
        }
    }

    #[test]
    fn ascending_keys_fill_their_chunks_and_removals_join_them() {
        let mut map: ChunkedMap<u32, ()> = (0..12_800).map(|key| (key, ())).collect();
        assert_eq!(map.chunks.len(), 100);
        (0..12_800).filter(|key| key % 100 != 0).for_each(|key| assert!(map.remove(&key)));
        assert!(map.len() == 128 && map.chunks.len() <= 8, "{} chunks", map.chunks.len());
    }
}
