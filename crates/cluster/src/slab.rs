//! A table with dense ids that are reused.

/// Values by dense id.
#[derive(Debug, Clone)]
pub(super) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) const fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Adds a value and returns its id: the most recently freed id, or a new one.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = Some(value);
                id
            }
            None => {
                self.entries.push(Some(value));
                u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 entries")
            }
        }
    }

    pub(super) fn remove(&mut self, id: u32) -> T {
        let value = self.entries[id as usize].take().expect("an id in use");
        self.free.push(id);
        value
    }

    pub(super) fn get(&self, id: u32) -> &T {
        self.entries[id as usize].as_ref().expect("an id in use")
    }

    pub(super) fn get_mut(&mut self, id: u32) -> &mut T {
        self.entries[id as usize].as_mut().expect("an id in use")
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.entries.get(id as usize).is_some_and(Option::is_some)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().flatten()
    }

    /// Returns values in ascending order of id.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let entries = self.entries.iter().zip(0..);
        entries.filter_map(|(entry, id)| entry.as_ref().map(|value| (id, value)))
    }
}
