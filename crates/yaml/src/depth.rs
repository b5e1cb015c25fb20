//! A bound on open brackets: the time that the library needs grows with the square of their number.

/// Maximum depth of brackets. Kubernetes objects have some ten levels, and values may have 128.
pub(super) const MOST_BRACKETS: usize = 1000;

/// Returns the line, from 0, at which too many brackets are open.
///
/// Brackets within words, quoted texts and comments
/// open nothing.
pub(super) fn too_deep(text: &str) -> Option<usize> {
    if text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() <= MOST_BRACKETS {
        return None;
    }
    let (mut open, mut line) = (0, 0);
    let mut quote = None;
    // The last character that is no space, on the same line.
    let mut before = None;
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        line += usize::from(byte == b'\n');
        if let Some(end) = quote {
            match byte {
                b'\\' if end == b'"' => line += usize::from(bytes.next() == Some(b'\n')),
                b'\'' if end == b'\'' && bytes.peek() == Some(&b'\'') => drop(bytes.next()),
                _ if byte == end => (quote, before) = (None, Some(byte)),
                _ => {}
            }
            continue;
        }
        let begins = matches!(before, None | Some(b':' | b'-' | b',' | b'[' | b'{' | b'?'));
        match byte {
            b'\n' => before = None,
            b' ' | b'\t' | b'\r' => {
                if bytes.peek() == Some(&b'#') {
                    while bytes.peek().is_some_and(|next| *next != b'\n') {
                        bytes.next();
                    }
                }
            }
            b'"' | b'\'' if begins => quote = Some(byte),
            // Tags and anchors stand before a value.
            b'!' | b'&' if begins => {
                while bytes.peek().is_some_and(|next| !b" \t\r\n[]{},".contains(next)) {
                    bytes.next();
                }
            }
            b'[' | b'{' if begins => {
                open += 1;
                before = Some(byte);
                if open > MOST_BRACKETS {
                    return Some(line);
                }
            }
            b']' | b'}' => {
                open = open.saturating_sub(1);
                before = Some(byte);
            }
            // Part of a word.
            b'[' | b'{' => before = Some(b'a'),
            _ => before = Some(byte),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    #[test]
    fn many_open_brackets_are_refused_at_once() {
        for opened in ["[", "{a: ", "[\"]\", ", "[']]', ", "[!t ", "[&a ", "[ # ]\n", "[? "] {
            let text = format!("a: 1\nb: {}", opened.repeat(1_000_000));
            let error = read(&text).unwrap_err().to_string();
            assert!(error.starts_with("more than 1000 brackets are open at line "), "{error}");
        }
        for harmless in [
            "a: [1, 2]\n".to_owned(),
            format!("a: [{}]\n", "[1], {b: 2}, ".repeat(5_000)),
            format!("a: |\n{}", "  x[31mred [[ and so on\n".repeat(5_000)),
            format!("a: '{}'\n", "it''s [, ".repeat(5_000)),
            format!("a: \"{}\"\n", "\\\"[, ".repeat(5_000)),
            format!("a: b # {}\n", "[, ".repeat(5_000)),
        ] {
            assert!(too_deep(&harmless).is_none(), "{}", &harmless[..20]);
            read(&harmless).unwrap();
        }
    }
}
