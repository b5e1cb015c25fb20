//! A sorted set that is short most of the time.

use super::chunked_map::ChunkedMap;

/// Maximum number of entries of a plain list.
const FEW: usize = 64;

/// Entries in ascending order, each once.
#[derive(Debug, Clone)]
pub(super) struct ShortSet<T>(Form<T>);

#[derive(Debug, Clone)]
enum Form<T> {
    Few(Vec<T>),
    Many(Box<ChunkedMap<T, ()>>),
}

impl<T> Default for ShortSet<T> {
    fn default() -> Self {
        Self(Form::Few(Vec::new()))
    }
}

impl<T: Ord> ShortSet<T> {
    pub(super) fn insert(&mut self, value: T) {
        match &mut self.0 {
            Form::Few(list) => {
                let Err(place) = list.binary_search(&value) else { return };
                list.insert(place, value);
                if list.len() > FEW {
                    self.0 = Form::Many(Box::new(list.drain(..).map(|own| (own, ())).collect()));
                }
            }
            Form::Many(map) => {
                map.insert(value, ());
            }
        }
    }

    /// Removes a value. A set that was long does not become a list again.
    pub(super) fn remove(&mut self, value: &T) {
        match &mut self.0 {
            Form::Few(list) => {
                if let Ok(place) = list.binary_search(value) {
                    list.remove(place);
                }
            }
            Form::Many(map) => {
                map.remove(value);
            }
        }
    }
}

impl<T> ShortSet<T> {
    pub(super) const fn is_empty(&self) -> bool {
        match &self.0 {
            Form::Few(list) => list.is_empty(),
            Form::Many(map) => map.len() == 0,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let (few, many) = match &self.0 {
            Form::Few(list) => (list.as_slice(), None),
            Form::Many(map) => (&[][..], Some(map.iter().map(|(value, ())| value))),
        };
        few.iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_set_keeps_its_order() {
        let mut set = ShortSet::default();
        (0..1000).rev().for_each(|value| set.insert(value));
        set.insert(7);
        (0..1000).filter(|value| value % 2 == 0).for_each(|value| set.remove(&value));
        assert!(set.iter().copied().eq((0..1000).filter(|value| value % 2 == 1)));
        (0..1000).for_each(|value| set.remove(&value));
        assert!(set.is_empty());
    }
}
