//! A sorted set that is usually short.

use super::chunked_map::ChunkedMap;

/// Maximum number of entries of a plain list.
const LIST_MAX: usize = 64;

/// Values in ascending order, without duplicates.
#[derive(Debug, Clone)]
pub(super) struct ShortSet<T>(Form<T>);

#[derive(Debug, Clone)]
enum Form<T> {
    List(Vec<T>),
    Tree(Box<ChunkedMap<T, ()>>),
}

impl<T> Default for ShortSet<T> {
    fn default() -> Self {
        Self(Form::List(Vec::new()))
    }
}

impl<T: Ord> ShortSet<T> {
    pub(super) fn insert(&mut self, value: T) {
        match &mut self.0 {
            Form::List(list) => {
                let Err(place) = list.binary_search(&value) else { return };
                list.insert(place, value);
                if list.len() > LIST_MAX {
                    self.0 = Form::Tree(Box::new(list.drain(..).map(|own| (own, ())).collect()));
                }
            }
            Form::Tree(map) => {
                map.insert(value, ());
            }
        }
    }

    /// Removes a value. A long set does not become a list again.
    pub(super) fn remove(&mut self, value: &T) {
        match &mut self.0 {
            Form::List(list) => {
                if let Ok(place) = list.binary_search(value) {
                    list.remove(place);
                }
            }
            Form::Tree(map) => {
                map.remove(value);
            }
        }
    }
}

impl<T> ShortSet<T> {
    pub(super) const fn is_empty(&self) -> bool {
        match &self.0 {
            Form::List(list) => list.is_empty(),
            Form::Tree(map) => map.len() == 0,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let (few, many) = match &self.0 {
            Form::List(list) => (list.as_slice(), None),
            Form::Tree(map) => (&[][..], Some(map.iter().map(|(value, ())| value))),
        };
        few.iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_set_keeps_its_order() {
        let mut set = ShortSet::default();
        (0..1000).rev().for_each(|value| set.insert(value));
        set.insert(7);
        (0..1000).filter(|value| value % 2 == 0).for_each(|value| set.remove(&value));
        assert!(set.iter().copied().eq((0..1000).filter(|value| value % 2 == 1)));
        (0..1000).for_each(|value| set.remove(&value));
        assert!(set.is_empty());
    }
}
