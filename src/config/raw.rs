//! Values that are kept undecoded.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use super::decode::{Decode, Decoder, decode_text};
use super::tree::Tree;

/// Any value, undecoded; `None` if it is absent or null.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Raw(pub(super) Option<Tree>);

impl Decode for Raw {
    fn go_type() -> Cow<'static, str> {
        "runtime.RawExtension".into()
    }

    fn decode(tree: &Tree, _decoder: &mut Decoder) -> Option<Self> {
        Some(Self(Some(tree.clone())))
    }
}

/// Bytes as base64. The text is kept and was checked.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Base64(String);

impl Base64 {
    /// Whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The base64 text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Hides the bytes: they may be a private key.
impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "base64 of {} characters", self.0.len())
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The text is not base64 from this byte on.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("illegal base64 data at input byte {0}")]
struct NotBase64(usize);

impl Decode for Base64 {
    fn go_type() -> Cow<'static, str> {
        "[]uint8".into()
    }

    fn decode(tree: &Tree, decoder: &mut Decoder) -> Option<Self> {
        // Line ends are skipped, as in Go: YAML folds long texts.
        let text = decode_text(tree, &Self::go_type(), decoder)?.replace(['\r', '\n'], "");
        match check(text.as_bytes()) {
            Ok(()) => Some(Self(text)),
            Err(error) => {
                decoder.refuse(&error);
                None
            }
        }
    }
}

/// Checks padded base64 with the standard alphabet.
fn check(text: &[u8]) -> Result<(), NotBase64> {
    let digits = text.iter().take_while(|byte| is_digit(**byte)).count();
    let padding = text.len() - digits;
    let wanted = match digits % 4 {
        0 => 0,
        1 => return Err(NotBase64(digits)),
        rest => 4 - rest,
    };
    match padding == wanted && text[digits..].iter().all(|byte| *byte == b'=') {
        true => Ok(()),
        false => Err(NotBase64(digits)),
    }
}

const fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_base64_is_rejected() {
        for text in ["", "TQ==", "TWE=", "TWFu", "TWFuTQ=="] {
            assert_eq!(check(text.as_bytes()), Ok(()), "{text}");
        }
        for (text, place) in [("T", 1), ("TQ", 2), ("TQ=", 2), ("TQ==TQ==", 2), ("T-==", 1)] {
            assert_eq!(check(text.as_bytes()), Err(NotBase64(place)), "{text}");
        }
    }
}
