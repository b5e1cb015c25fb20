//! Limits for the depth of expressions.
//!
//! The parser and everything behind it recurse on the depth of the expression, and the parser needs
//! about 10 KiB of stack for each pair of parentheses. The reference accepts 250 of them; no selector
//! comes near either limit.

/// Maximum depth of nested parentheses, lists, maps, arguments and conditionals.
const MOST_NESTED: usize = 100;
/// Maximum number of operators of one kind in a row (`a + b + c`, `a.b.c`), as in the reference.
const LONGEST_CHAIN: usize = 250;
/// Longest expression, in bytes. The API server allows 10 KiB.
const LONGEST: usize = 64 << 10;

/// The operators in a row at one level of brackets.
#[derive(Default, Clone, Copy)]
struct Level {
    conditionals: usize,
    relations: usize,
    sums: usize,
    members: usize,
}

/// Returns the limit that an expression exceeds.
pub(crate) fn exceeded_limit(text: &str) -> Option<usize> {
    if text.len() > LONGEST {
        return Some(LONGEST_CHAIN);
    }
    let mut open: Vec<Level> = Vec::new();
    let mut level = Level::default();
    // Conditionals of all levels that are open.
    let mut nested = 0_usize;
    let mut bytes = text.bytes().enumerate();
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'"' | b'\'' => {
                let skipped = literal_length(&text.as_bytes()[index..], is_raw(text, index));
                if skipped > 1 {
                    bytes.nth(skipped - 2);
                }
                continue;
            }
            b'(' | b'[' | b'{' => {
                level.members += 1;
                nested += 1;
                open.push(std::mem::take(&mut level));
            }
            b')' | b']' | b'}' => {
                nested = nested.saturating_sub(1 + level.conditionals);
                level = open.pop().unwrap_or_default();
            }
            b',' | b'&' | b'|' => {
                let conditionals = if byte == b',' { 0 } else { level.conditionals };
                nested -= level.conditionals - conditionals;
                level = Level { conditionals, ..Level::default() };
            }
            b'?' if !text[..index].trim_end().ends_with(['.', '[', '{', ',']) => {
                level.conditionals += 1;
                nested += 1;
                level = Level { conditionals: level.conditionals, ..Level::default() };
            }
            b':' => level = Level { conditionals: level.conditionals, ..Level::default() },
            b'<' | b'>' | b'=' => {
                level.relations += 1;
                (level.sums, level.members) = (0, 0);
            }
            b'+' | b'-' | b'*' | b'/' | b'%' => {
                level.sums += 1;
                level.members = 0;
            }
            b'i' if text[index..].starts_with("in") => level.relations += 1,
            b'.' => level.members += 1,
            _ => {}
        }
        if nested > MOST_NESTED {
            return Some(MOST_NESTED);
        }
        let chain = level.relations.max(level.sums).max(level.members);
        if chain > LONGEST_CHAIN {
            return Some(LONGEST_CHAIN);
        }
    }
    None
}

fn is_raw(text: &str, quote: usize) -> bool {
    text[..quote].ends_with(['r', 'R'])
}

/// Returns the length of the string literal at the beginning of the text, with its quotes.
fn literal_length(text: &[u8], is_raw: bool) -> usize {
    let quote = text[0];
    let is_triple = text.get(1) == Some(&quote) && text.get(2) == Some(&quote);
    let width = if is_triple { 3 } else { 1 };
    let mut index = width;
    while index < text.len() {
        match text[index] {
            b'\\' if !is_raw => index += 1,
            byte if byte == quote => {
                let end = index + width;
                if text.get(index..end).is_some_and(|it| it.iter().all(|it| *it == quote)) {
                    return end;
                }
            }
            // The literal is not closed: the parser reads what follows.
            b'\n' if !is_triple => return 1,
            _ => {}
        }
        index += 1;
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_expressions_pass() {
        for text in [
            "device.driver == 'a' && device.attributes['b'].c > 1",
            "'((((((((' == \"))))\" || r'\\' == '\\''",
            &"a && ".repeat(2000),
            &"f(a, b) || ".repeat(1000),
            &"[1, 2].all(x, x > 1) && ".repeat(300),
            &format!("{}1{}", "(".repeat(100), ")".repeat(100)),
            &format!("1{}", " + 1".repeat(250)),
        ] {
            assert_eq!(exceeded_limit(text), None, "{text}");
        }
    }

    #[test]
    fn deep_expressions_are_refused() {
        for text in [
            "(".repeat(101),
            "[{".repeat(51),
            "a ? b : ".repeat(101),
            format!("a{}", ".a".repeat(251)),
            format!("a{}", "[0]".repeat(251)),
            format!("1{}", " + 1".repeat(251)),
            format!("1{}", " in 1".repeat(251)),
            "'a' + ''' ''' + (".to_owned() + &"(".repeat(100),
            "'unclosed\n".to_owned() + &"(".repeat(101),
        ] {
            assert!(exceeded_limit(&text).is_some(), "{text}");
        }
    }
}
