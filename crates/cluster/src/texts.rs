//! Texts that many objects have in common.

use std::sync::Arc;

use rustc_hash::FxHashSet;

/// The number of texts up to which unused ones are kept.
const KEPT_MIN: usize = 1024;

/// One copy of each text. Objects that share it take less memory, and reading many of them touches
/// less.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts {
    kept: FxHashSet<Arc<str>>,
    /// The number of texts at which unused ones are dropped.
    sweep_at: usize,
}

impl Texts {
    /// Replaces the text by the copy that is kept.
    pub(super) fn share(&mut self, text: &mut Arc<str>) {
        if let Some(known) = self.kept.get(text) {
            *text = known.clone();
            return;
        }
        if self.kept.len() >= self.sweep_at {
            self.kept.retain(|known| Arc::strong_count(known) > 1);
            self.sweep_at = KEPT_MIN.max(2 * self.kept.len());
        }
        self.kept.insert(text.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one() {
        let mut texts = Texts::default();
        let (mut one, mut other) = (Arc::from("a"), Arc::from("a"));
        texts.share(&mut one);
        texts.share(&mut other);
        assert!(Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn unused_texts_are_dropped() {
        let mut texts = Texts::default();
        let mut used = Arc::from("used");
        texts.share(&mut used);
        for number in 0..10 * KEPT_MIN {
            texts.share(&mut number.to_string().into());
        }
        assert!(texts.kept.len() <= KEPT_MIN && texts.kept.contains(&used));
    }
}
