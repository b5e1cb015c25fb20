//! Splitting a stream of chunks into frames.

use thiserror::Error;

/// Length of the length of a frame.
const PREFIX: usize = 4;

/// Maximum length of a frame, that of client-go.
const MAX_FRAME: usize = 16 * 1024 * 1024;

/// A frame that is longer than any object, which means that the stream is no stream of frames.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a frame of the watch has {0} bytes")]
pub(crate) struct FrameTooLong(usize);

/// A splitter of a watch in protobuf, whose events follow their lengths (four bytes, the highest
/// first). It keeps the start of an incomplete frame.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    incomplete: Vec<u8>,
}

impl Frames {
    /// Adds a chunk and passes the content of each complete frame to `take`.
    ///
    /// # Errors
    /// A frame is too long. The rest of the stream cannot be read.
    pub(crate) fn push(
        &mut self,
        chunk: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), FrameTooLong> {
        let mut rest = chunk;
        while !self.incomplete.is_empty() {
            let wanted = frame_end(&self.incomplete)?.unwrap_or(PREFIX);
            let missing = wanted - self.incomplete.len();
            let Some((first, others)) = rest.split_at_checked(missing) else {
                self.incomplete.extend_from_slice(rest);
                return Ok(());
            };
            self.incomplete.extend_from_slice(first);
            rest = others;
            // The length of the frame may have become known only now.
            if frame_end(&self.incomplete)? == Some(self.incomplete.len()) {
                take(&self.incomplete[PREFIX..]);
                self.incomplete.clear();
            }
        }
        while let Some(end) = frame_end(rest)?
            && let Some((frame, others)) = rest.split_at_checked(end)
        {
            take(&frame[PREFIX..]);
            rest = others;
        }
        self.incomplete.extend_from_slice(rest);
        Ok(())
    }
}

/// Returns the end of the frame that begins here, if its length is known.
fn frame_end(bytes: &[u8]) -> Result<Option<usize>, FrameTooLong> {
    let Some(prefix) = bytes.first_chunk::<PREFIX>() else { return Ok(None) };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length > MAX_FRAME { Err(FrameTooLong(length)) } else { Ok(Some(PREFIX + length)) }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    proptest! {
        #[test]
        fn borders_of_chunks_make_no_difference(
            contents in vec(vec(any::<u8>(), 0..12), 0..12),
            borders in vec(any::<Index>(), 0..40),
            cut in any::<Index>(),
        ) {
            let frame = |content: &Vec<u8>| [&(content.len() as u32).to_be_bytes()[..], content].concat();
            let stream: Vec<u8> = contents.iter().flat_map(frame).collect();
            let stream = &stream[..cut.index(stream.len() + 1)];
            let mut borders: Vec<_> =
                borders.iter().map(|border| border.index(stream.len() + 1)).collect();
            borders.sort_unstable();
            let (mut frames, mut taken, mut begin) = (Frames::default(), Vec::new(), 0);
            for border in borders.into_iter().chain([stream.len()]) {
                let chunk = &stream[begin..border];
                frames.push(chunk, |content| taken.push(content.to_vec())).unwrap();
                begin = border;
            }
            let mut end = 0;
            let complete = contents.iter().take_while(|content| {
                end += PREFIX + content.len();
                end <= stream.len()
            });
            prop_assert_eq!(&taken, &complete.cloned().collect::<Vec<_>>());
        }
    }

    #[test]
    fn text_is_no_frame() {
        let mut frames = Frames::default();
        let result = frames.push(b"{\"type\":\"ADDED\"}\n", |_| panic!("there is no frame"));
        assert_eq!(result, Err(FrameTooLong(0x7b22_7479)));
    }

    #[test]
    fn longest_frame_is_read_and_a_longer_one_is_not() {
        let end = |length: usize| frame_end(&u32::try_from(length).unwrap().to_be_bytes());
        assert_eq!(end(MAX_FRAME), Ok(Some(PREFIX + MAX_FRAME)));
        assert_eq!(end(MAX_FRAME + 1), Err(FrameTooLong(MAX_FRAME + 1)));
    }
}
