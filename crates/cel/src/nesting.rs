//! The depth of expressions, before they are parsed.
//!
//! The reference refuses an expression when a rule of its grammar is open more than 250 times. A
//! sum, product or relation opens its rule once more for its right operand. A part in brackets
//! opens every rule once more.

/// Maximum number of times that a rule of the grammar is open, and of parts that are nested in each
/// other.
pub(crate) const MOST_NESTED: usize = 250;
/// Maximum number of operators of one kind in a row that the parser gets. More exceed the limit for
/// nested parts, which counts a call and its brackets once.
const LONGEST_CHAIN: usize = 4 * MOST_NESTED;
/// Longest expression, in characters. The API server allows 10 KiB.
const LONGEST: usize = 100_000;
/// The depth from which parsing and evaluating need more stack than every thread has to spare. The
/// parser needs up to 16 KiB for a level.
const DEEP: usize = 32;
/// The stack for deep expressions, in bytes.
const DEEP_STACK: usize = 32 << 20;

/// The text of an expression with too many nested parts.
pub(crate) const TOO_DEEP: &str = "max recursion depth exceeded";

/// Runs a function that recurses on an expression. The stack of a deep expression is allocated for
/// the call; no other thread runs.
pub(crate) fn on_stack<T>(is_deep: bool, run: impl FnOnce() -> T) -> T {
    if is_deep { stacker::grow(DEEP_STACK, run) } else { run() }
}

/// Returns whether an expression is deep.
///
/// # Errors
/// Returns the limit that the expression exceeds.
pub(crate) fn check(text: &str) -> Result<bool, String> {
    let length = text.chars().count();
    if length > LONGEST {
        return Err(format!(
            "expression code point size exceeds limit: size: {length}, limit {LONGEST}"
        ));
    }
    let mut open = OpenRules::default();
    let mut deepest = 0;
    let mut tokens = Tokens { rest: text.as_bytes(), follows_operand: false };
    while let Some(token) = tokens.next_token() {
        open.take(token);
        if open.depth() > MOST_NESTED {
            return Err(format!("expression recursion limit exceeded: {MOST_NESTED}"));
        }
        if open.level.longest_chain() > LONGEST_CHAIN {
            return Err(TOO_DEEP.to_owned());
        }
        deepest = deepest.max(open.depth()).max(open.level.longest_chain());
    }
    Ok(deepest > DEEP)
}

/// The rules that are open at a place of the text.
#[derive(Default)]
struct OpenRules {
    /// Rules at the level of brackets of the place.
    level: Level,
    /// The levels around it.
    outer: Vec<Level>,
    /// The sums over the levels around it.
    expressions: usize,
    relations: usize,
    calculations: usize,
}

/// The rules that are open at one level of brackets.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Whether anything but brackets was read; the rules are open from then on.
    is_entered: bool,
    /// Alternatives `: …` of conditionals, each of which is an expression.
    alternatives: usize,
    /// Whether a `?` waits for its `:`.
    is_conditional: bool,
    /// Whether the place is in the right operand of a relation.
    in_relation: bool,
    /// Whether the place is behind a `+` or `-` of its operand of a relation.
    in_sum: bool,
    /// Whether the place is behind a `*`, `/` or `%` of its term.
    in_product: bool,
    /// Relations, calculations and members in a row.
    chain: [usize; 3],
}

impl Level {
    fn calculations(&self) -> usize {
        1 + usize::from(self.in_sum) + usize::from(self.in_product)
    }

    fn longest_chain(&self) -> usize {
        self.chain.into_iter().max().unwrap_or(0)
    }

    /// Begins an operand of `&&`, `||` or a conditional.
    fn begin_condition(&mut self) {
        let Self { is_entered, alternatives, is_conditional, .. } = *self;
        *self = Self { is_entered, alternatives, is_conditional, ..Self::default() };
    }
}

impl OpenRules {
    /// Returns how often the rule that is open most often is open.
    fn depth(&self) -> usize {
        let Self { level, expressions, relations, calculations, .. } = self;
        if !level.is_entered {
            return (*expressions).max(*relations).max(*calculations);
        }
        (expressions + 1 + level.alternatives)
            .max(relations + 1 + usize::from(level.in_relation))
            .max(calculations + level.calculations())
    }

    fn take(&mut self, token: Token) {
        let level = &mut self.level;
        level.is_entered |= token != Token::Close;
        match token {
            Token::Operand | Token::Prefix => {}
            Token::Open => {
                level.chain[2] += 1;
                self.expressions += 1 + level.alternatives;
                self.relations += 1 + usize::from(level.in_relation);
                self.calculations += level.calculations();
                self.outer.push(std::mem::take(level));
            }
            Token::Close => {
                let Some(outer) = self.outer.pop() else { return };
                *level = outer;
                self.expressions -= 1 + level.alternatives;
                self.relations -= 1 + usize::from(level.in_relation);
                self.calculations -= level.calculations();
            }
            Token::Comma => *level = Level { is_entered: true, ..Level::default() },
            Token::Condition => level.begin_condition(),
            Token::Question => {
                level.begin_condition();
                level.is_conditional = true;
            }
            Token::Colon => {
                level.begin_condition();
                // Any other colon separates the key of a map from its value.
                level.alternatives = if level.is_conditional { level.alternatives + 1 } else { 0 };
                level.is_conditional = false;
            }
            Token::Relation => {
                (level.in_relation, level.in_sum, level.in_product) = (true, false, false);
                level.chain = [level.chain[0] + 1, 0, 0];
            }
            Token::Sum => {
                (level.in_sum, level.in_product) = (true, false);
                level.chain = [level.chain[0], level.chain[1] + 1, 0];
            }
            Token::Product => {
                level.in_product = true;
                level.chain = [level.chain[0], level.chain[1] + 1, 0];
            }
            Token::Dot => level.chain[2] += 1,
        }
    }
}

/// The effect of a part of the text on the depth.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Operand,
    /// A sign, a `!` or the `?` of an optional.
    Prefix,
    Open,
    Close,
    Comma,
    /// `&&` or `||`.
    Condition,
    Question,
    Colon,
    Relation,
    Sum,
    Product,
    Dot,
}

/// Reads the tokens of a text, without white space and comments.
struct Tokens<'t> {
    rest: &'t [u8],
    follows_operand: bool,
}

impl Tokens<'_> {
    fn next_token(&mut self) -> Option<Token> {
        self.skip_space();
        let (length, token) = self.first_token()?;
        self.rest = &self.rest[length.min(self.rest.len())..];
        self.follows_operand = matches!(token, Token::Operand | Token::Close);
        Some(token)
    }

    fn skip_space(&mut self) {
        loop {
            self.rest = self.rest.trim_ascii_start();
            if !self.rest.starts_with(b"//") {
                return;
            }
            let end = self.rest.iter().position(|byte| *byte == b'\n');
            self.rest = &self.rest[end.unwrap_or(self.rest.len())..];
        }
    }

    /// Returns the length of the first token and what it is.
    fn first_token(&self) -> Option<(usize, Token)> {
        let rest = self.rest;
        let is_pair = rest.get(1) == rest.first();
        let has_equals = rest.get(1) == Some(&b'=');
        Some(match rest.first()? {
            b'(' | b'[' | b'{' => (1, Token::Open),
            b')' | b']' | b'}' => (1, Token::Close),
            b',' => (1, Token::Comma),
            b'&' | b'|' => (1 + usize::from(is_pair), Token::Condition),
            b'?' if self.follows_operand => (1, Token::Question),
            b'?' => (1, Token::Prefix),
            b':' => (1, Token::Colon),
            b'<' | b'>' | b'=' | b'!' if has_equals => (2, Token::Relation),
            b'<' | b'>' | b'=' => (1, Token::Relation),
            b'!' => (1, Token::Prefix),
            b'+' => (1, Token::Sum),
            b'-' if self.follows_operand => (1, Token::Sum),
            b'-' => (1, Token::Prefix),
            b'*' | b'/' | b'%' => (1, Token::Product),
            b'.' => (1, Token::Dot),
            b'"' | b'\'' => (literal_length(rest, false), Token::Operand),
            b'0'..=b'9' => (number_length(rest), Token::Operand),
            _ => self.word(),
        })
    }

    fn word(&self) -> (usize, Token) {
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let length = self.rest.iter().take_while(is_part).count().max(1);
        let (word, behind) = self.rest.split_at(length);
        let is_prefix = word.len() <= 2 && word.iter().all(|byte| b"rRbB".contains(byte));
        match word {
            _ if is_prefix && matches!(behind.first(), Some(b'"' | b'\'')) => {
                let is_raw = word.iter().any(|byte| b"rR".contains(byte));
                (length + literal_length(behind, is_raw), Token::Operand)
            }
            b"in" if self.follows_operand => (length, Token::Relation),
            _ => (length, Token::Operand),
        }
    }
}

/// Returns the length of the number at the beginning of the text. A point behind it belongs to it
/// only with a digit.
fn number_length(text: &[u8]) -> usize {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let mut length = digits(text);
    if text.get(length) == Some(&b'.') && text.get(length + 1).is_some_and(u8::is_ascii_digit) {
        length += 1 + digits(&text[length + 1..]);
    }
    let has_exponent = !text.starts_with(b"0x") && text[..length].ends_with(b"e")
        || !text.starts_with(b"0x") && text[..length].ends_with(b"E");
    if has_exponent && matches!(text.get(length), Some(b'+' | b'-')) {
        length += 1 + digits(&text[length + 1..]);
    }
    length
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

    const RECURSION: &str = "expression recursion limit exceeded: 250";

    #[test]
    fn ordinary_expressions_are_not_deep() {
        for text in [
            "device.driver == 'a' && device.attributes['b'].c > 1",
            "'((((((((' == \"))))\" || r'\\' == '\\''",
            "1 < 2 // it's (((((",
            &"a && ".repeat(2000),
            &"f(a, b) || ".repeat(1000),
            &"[1, 2].all(x, x > 1) && ".repeat(300),
            &"1 ? 2 : 3, ".repeat(300),
            &"a[?b] + 1e-5 * -2, ".repeat(300),
            "{'a': 1, 'b': c ? d : e}",
            &"(1), ".repeat(300),
            &"f(), ".repeat(300),
        ] {
            assert_eq!(check(text), Ok(false), "{text}");
        }
    }

    /// The deepest expressions of each kind, with one level more behind them.
    #[test]
    fn rules_are_counted_like_the_reference() {
        let nested = |open: &str, close: &str, levels| {
            format!("{}1{}", open.repeat(levels), close.repeat(levels))
        };
        for (open, close, levels) in [
            ("(", ")", 249),
            ("[", "]", 249),
            ("f(", ")", 249),
            ("a[", "]", 249),
            ("a[?", "]", 249),
            ("{1:", "}", 249),
            ("[1].all(x, ", ")", 249),
            ("!(", ")", 249),
            ("-(", ")", 249),
            ("true && (", ")", 249),
            // Only the innermost left operand has a right one beside it.
            ("(", " + 1)", 248),
            ("(", " < 1)", 248),
            ("(1 + ", ")", 124),
            ("(1 * ", ")", 124),
            ("(1 < ", ")", 124),
            ("(1 in ", ")", 124),
            ("(1 + 2 * ", ")", 83),
            ("(1 * 2 + ", ")", 124),
            ("(1 + 2 + ", ")", 124),
            ("(a ? 1 : ", ")", 124),
            ("(a ? ", " : 2)", 248),
            ("(", " ? 1 : 2)", 248),
            ("a ? 1 : ", "", 249),
        ] {
            assert_eq!(check(&nested(open, close, levels)), Ok(true), "{open} {levels}");
            let refused = check(&nested(open, close, levels + 1));
            assert_eq!(refused, Err(RECURSION.to_owned()), "{open} {levels} + 1");
        }
    }

    #[test]
    fn unclosed_brackets_count() {
        for text in ["(".repeat(251), "[{".repeat(126), "'unclosed\n".to_owned() + &"(".repeat(251)]
        {
            assert_eq!(check(&text), Err(RECURSION.to_owned()), "{text}");
        }
    }

    #[test]
    fn chains_do_not_reach_the_parser() {
        for text in [
            format!("a{}", ".a".repeat(1001)),
            format!("a{}", "[0]".repeat(1001)),
            format!("1{}", " + 1".repeat(1001)),
            format!("1{}", " in 1".repeat(1001)),
        ] {
            assert_eq!(check(&text), Err(TOO_DEEP.to_owned()), "{text}");
        }
        let long = "a".repeat(100_001);
        let error = "expression code point size exceeds limit: size: 100001, limit 100000";
        assert_eq!(check(&long), Err(error.to_owned()));
    }
}
