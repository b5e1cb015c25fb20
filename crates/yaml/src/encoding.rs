//! The text of a file: UTF-8, or UTF-16 with a byte order mark, as editors and shells of Windows
//! write it.

use std::fmt;

const MARK: char = '\u{feff}';

/// The bytes are neither UTF-8 nor UTF-16 with a byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotText;

impl std::error::Error for NotText {}

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is neither UTF-8 nor UTF-16 text")
    }
}

/// Returns the text of a file without its byte order mark.
///
/// # Errors
/// The bytes are no text.
pub fn text_of(bytes: Vec<u8>) -> Result<String, NotText> {
    let text = match bytes.as_slice() {
        [0xff, 0xfe, units @ ..] => utf16(units, u16::from_le_bytes)?,
        [0xfe, 0xff, units @ ..] => utf16(units, u16::from_be_bytes)?,
        [0xef, 0xbb, 0xbf, text @ ..] => str::from_utf8(text).map_err(|_| NotText)?.to_owned(),
        _ => String::from_utf8(bytes).map_err(|_| NotText)?,
    };
    Ok(text)
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, NotText> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)));
    let text: Result<String, _> = text.collect();
    text.ok().filter(|_| rest.is_empty()).ok_or(NotText)
}

/// Returns a text without its byte order mark.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_marks_say_the_encoding() {
        let text = "a: ü\n";
        let wide = |order: fn(u16) -> [u8; 2]| {
            let units = [0xfeff].into_iter().chain(text.encode_utf16());
            units.flat_map(order).collect::<Vec<u8>>()
        };
        let marked = format!("\u{feff}{text}").into_bytes();
        let rows =
            [text.as_bytes().to_vec(), marked, wide(u16::to_le_bytes), wide(u16::to_be_bytes)];
        for bytes in rows {
            assert_eq!(text_of(bytes.clone()).as_deref(), Ok(text), "{bytes:?}");
        }
        assert_eq!(text_of(vec![0xff, 0xfe, b'a']), Err(NotText));
        assert_eq!(text_of(vec![b'a', 0xff]), Err(NotText));
    }
}
