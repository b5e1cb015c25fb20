//! The wire format of Protocol Buffers: a message is a sequence of numbered fields.

use super::Malformed;

/// Maximum length of a varint.
const VARINT_BYTES: usize = 10;

/// The content of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// A number, wire type 0.
    Varint(u64),
    /// Text, bytes, a message or packed numbers, wire type 2.
    Delimited(&'a [u8]),
    /// Four or eight bytes; no field of Kubernetes has this type.
    Fixed,
}

/// The fields of a message in the order of their bytes. Iteration ends at an error.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn field(&mut self) -> Result<(u64, Content<'a>), Malformed> {
        let tag = self.varint()?;
        let content = match tag & 7 {
            0 => Content::Varint(self.varint()?),
            1 => self.take(8).map(|_| Content::Fixed)?,
            2 => {
                let length = self.varint()?;
                Content::Delimited(self.take(length)?)
            }
            5 => self.take(4).map(|_| Content::Fixed)?,
            wire_type => return Err(Malformed::WireType(wire_type)),
        };
        Ok((tag >> 3, content))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        varint(&mut self.rest)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed::Truncated)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Content<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Reads a varint: seven bits a byte, the lowest first, until a byte below 128.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0;
    for (place, byte) in bytes.iter().enumerate().take(VARINT_BYTES) {
        number |= u64::from(byte & 0x7f) << (7 * place);
        if *byte < 0x80 {
            *bytes = &bytes[place + 1..];
            return Ok(number);
        }
    }
    Err(if bytes.len() < VARINT_BYTES { Malformed::Truncated } else { Malformed::Varint })
}
