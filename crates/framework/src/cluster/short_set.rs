//! A set of few.

/// A list in ascending order, each entry once.
#[derive(Debug, Clone)]
pub(super) struct ShortSet<T>(Vec<T>);

impl<T> Default for ShortSet<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Ord> ShortSet<T> {
    pub(super) fn insert(&mut self, value: T) {
        if let Err(place) = self.0.binary_search(&value) {
            self.0.insert(place, value);
        }
    }

    pub(super) fn remove(&mut self, value: &T) {
        if let Ok(place) = self.0.binary_search(value) {
            self.0.remove(place);
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}
