//! Splitting a stream of chunks into lines.

/// A splitter that keeps the start of an incomplete line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    incomplete: Vec<u8>,
}

impl Lines {
    /// Adds a chunk and passes each complete line to `take`, without empty lines.
    pub(crate) fn push(&mut self, chunk: &[u8], mut take: impl FnMut(&[u8])) {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            match self.incomplete.is_empty() {
                true if end == 0 => {}
                true => take(&rest[..end]),
                false => {
                    self.incomplete.extend_from_slice(&rest[..end]);
                    take(&self.incomplete);
                    self.incomplete.clear();
                }
            }
            rest = &rest[end + 1..];
        }
        self.incomplete.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    /// Returns the lines of a text that arrives in parts with these borders.
    fn lines(text: &[u8], mut borders: Vec<usize>) -> Vec<Vec<u8>> {
        borders.sort_unstable();
        let (mut lines, mut taken) = (Lines::default(), Vec::new());
        let mut begin = 0;
        for border in borders.into_iter().chain([text.len()]) {
            lines.push(&text[begin..border], |line| taken.push(line.to_vec()));
            begin = border;
        }
        taken
    }

    proptest! {
        #[test]
        fn borders_of_chunks_make_no_difference(
            text in vec(prop_oneof![2 => Just(b'\n'), 5 => any::<u8>()], 0..200),
            borders in vec(any::<Index>(), 0..40),
        ) {
            let borders = borders.iter().map(|border| border.index(text.len() + 1)).collect();
            let mut whole: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
            whole.pop();
            whole.retain(|line| !line.is_empty());
            prop_assert_eq!(lines(&text, borders), whole);
        }
    }

    #[test]
    fn lines_are_joined_from_chunks() {
        let (mut lines, mut taken) = (Lines::default(), Vec::new());
        for chunk in ["a", "b\nc", "d\n", "\ne\nf"] {
            lines.push(chunk.as_bytes(), |line| {
                taken.push(String::from_utf8_lossy(line).into_owned());
            });
        }
        assert_eq!(taken, ["ab", "cd", "e"], "empty and incomplete lines are not passed on");
    }
}
