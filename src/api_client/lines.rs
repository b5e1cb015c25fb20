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
    use super::*;

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
