//! Protocol Buffers as Kubernetes writes them: the wire format, the envelope of objects, and the
//! frames of watches.
//!
//! The lean types of [`api`](crate::api) that Node and Pod reach declare the numbers of their
//! fields and decode themselves ([`Message`]). Fields without a declaration are skipped without a
//! copy.

use std::collections::BTreeMap;

use thiserror::Error;

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The prefix of an object with its envelope.
pub const MAGIC: &[u8] = b"k8s\0";

/// Maximum length of a varint.
const VARINT_BYTES: usize = 10;

/// Why bytes do not decode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// An object without its envelope.
    #[error("the prefix \"k8s\\0\" is missing")]
    Magic,
    /// A field that is longer than its message.
    #[error("the body ends within a field")]
    Truncated,
    /// A varint without an end.
    #[error("a number has more than ten bytes")]
    Varint,
    /// A field in an encoding that Kubernetes does not use.
    #[error("wire type {0} is unknown")]
    WireType(u64),
    /// A number where a text or message is expected, or the reverse.
    #[error("a field has the wire type of another type")]
    Mismatch,
    /// A text in another encoding.
    #[error("a text is not UTF-8")]
    Text,
    /// An object that is compressed, for example.
    #[error("content encoding {0:?} is not supported")]
    Encoding(String),
}

/// The content of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// A number, wire type 0.
    Varint(u64),
    /// Text, bytes, a message or packed numbers, wire type 2.
    Delimited(&'a [u8]),
    /// Four or eight bytes; no field of Kubernetes has this type.
    Fixed,
}

impl<'a> Content<'a> {
    /// Returns the number.
    ///
    /// # Errors
    /// The content is not a number.
    pub const fn varint(self) -> Result<u64, Malformed> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => Err(Malformed::Mismatch),
        }
    }

    /// Returns the bytes of a text, message or packed numbers.
    ///
    /// # Errors
    /// The content is a number.
    pub const fn delimited(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Delimited(bytes) => Ok(bytes),
            _ => Err(Malformed::Mismatch),
        }
    }

    /// Returns the text.
    ///
    /// # Errors
    /// The content is not a text.
    pub fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.delimited()?).map_err(|_| Malformed::Text)
    }
}

/// The fields of a message in the order of their bytes, each with its number. Iteration ends at an
/// error.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Returns the fields of a message.
    pub const fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn field(&mut self) -> Result<(u64, Content<'a>), Malformed> {
        let tag = varint(&mut self.rest)?;
        let content = match tag & 7 {
            0 => Content::Varint(varint(&mut self.rest)?),
            1 => self.take(8).map(|_| Content::Fixed)?,
            2 => {
                let length = varint(&mut self.rest)?;
                Content::Delimited(self.take(length)?)
            }
            5 => self.take(4).map(|_| Content::Fixed)?,
            wire_type => return Err(Malformed::WireType(wire_type)),
        };
        Ok((tag >> 3, content))
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
///
/// # Errors
/// The bytes end within the number, or it is too long.
pub fn varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
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

/// A message whose fields are decoded one by one.
pub trait Message: Default {
    /// Decodes a field; skips a field with an unknown number.
    ///
    /// # Errors
    /// The content does not fit the field.
    fn merge(&mut self, number: u64, content: Content<'_>) -> Result<(), Malformed>;

    /// Decodes all fields of an encoded message.
    ///
    /// # Errors
    /// The bytes are not such a message.
    fn merge_all(&mut self, message: &[u8]) -> Result<(), Malformed> {
        Fields::of(message).try_for_each(|field| {
            let (number, content) = field?;
            self.merge(number, content)
        })
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// The bytes are not such a message.
    fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut decoded = Self::default();
        decoded.merge_all(message)?;
        Ok(decoded)
    }
}

/// The type of a field. A field that occurs again replaces a scalar and extends anything else.
pub(crate) trait FieldValue {
    fn merge(&mut self, content: Content<'_>) -> Result<(), Malformed>;
}

impl<T: Message> FieldValue for T {
    fn merge(&mut self, content: Content<'_>) -> Result<(), Malformed> {
        self.merge_all(content.delimited()?)
    }
}

impl FieldValue for String {
    fn merge(&mut self, content: Content<'_>) -> Result<(), Malformed> {
        content.text()?.clone_into(self);
        Ok(())
    }
}

impl FieldValue for bool {
    fn merge(&mut self, content: Content<'_>) -> Result<(), Malformed> {
        *self = content.varint()? != 0;
        Ok(())
    }
}

impl FieldValue for i64 {
    fn merge(&mut self, content: Content<'_>) -> Result<(), Malformed> {
        *self = content.varint()?.cast_signed();
        Ok(())
    }
}

impl FieldValue for i32 {
    /// Negative numbers are sign-extended to 64 bits, so the lower half is the number.
    fn merge(&mut self, content: Content<'_>) -> Result<(), Malformed> {
        *self = content.varint()? as Self;
        Ok(())
    }
}

impl<T: FieldValue + Default> FieldValue for Option<T> {
    fn merge(&mut self, content: Content<'_>) -> Result<(), Malformed> {
        self.get_or_insert_default().merge(content)
    }
}

impl<T: FieldValue + Default> FieldValue for Vec<T> {
    fn merge(&mut self, content: Content<'_>) -> Result<(), Malformed> {
        let mut item = T::default();
        item.merge(content)?;
        self.push(item);
        Ok(())
    }
}

impl<T: FieldValue + Default> FieldValue for BTreeMap<String, T> {
    /// An entry is a message of key (1) and value (2); either is left out if it is empty.
    fn merge(&mut self, content: Content<'_>) -> Result<(), Malformed> {
        let (mut key, mut value) = (String::new(), T::default());
        for field in Fields::of(content.delimited()?) {
            match field? {
                (1, content) => key.merge(content)?,
                (2, content) => value.merge(content)?,
                _ => {}
            }
        }
        self.insert(key, value);
        Ok(())
    }
}

/// The envelope of an object, `runtime.Unknown`: its type and its message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unknown<'a> {
    /// `apiVersion`.
    pub api_version: &'a str,
    /// `kind`.
    pub kind: &'a str,
    /// The message.
    pub raw: &'a [u8],
}

impl<'a> Unknown<'a> {
    /// Reads an envelope with its prefix.
    ///
    /// # Errors
    /// The bytes are not an envelope, or its content is compressed.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut unknown = Self::default();
        for field in Fields::of(bytes.strip_prefix(MAGIC).ok_or(Malformed::Magic)?) {
            match field? {
                (1, type_meta) => unknown.read_type(type_meta.delimited()?)?,
                (2, raw) => unknown.raw = raw.delimited()?,
                (3, encoding) => match encoding.text()? {
                    "" => {}
                    encoding => return Err(Malformed::Encoding(encoding.to_owned())),
                },
                _ => {}
            }
        }
        Ok(unknown)
    }

    fn read_type(&mut self, type_meta: &'a [u8]) -> Result<(), Malformed> {
        for field in Fields::of(type_meta) {
            match field? {
                (1, api_version) => self.api_version = api_version.text()?,
                (2, kind) => self.kind = kind.text()?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// An event of a watch, `meta/v1.WatchEvent`: the type, and the object with its envelope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchEvent<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub type_: &'a str,
    /// The object.
    pub object: Unknown<'a>,
}

impl<'a> WatchEvent<'a> {
    /// Reads the content of a frame. An event has no envelope of its own.
    ///
    /// # Errors
    /// The bytes are not an event.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut event = Self::default();
        for field in Fields::of(bytes) {
            match field? {
                (1, type_) => event.type_ = type_.text()?,
                (2, extension) => event.object = Unknown::read(raw_extension(extension)?)?,
                _ => {}
            }
        }
        Ok(event)
    }
}

/// Returns the content of a `runtime.RawExtension`.
fn raw_extension(extension: Content<'_>) -> Result<&[u8], Malformed> {
    let mut raw: &[u8] = &[];
    for field in Fields::of(extension.delimited()?) {
        if let (1, content) = field? {
            raw = content.delimited()?;
        }
    }
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api;

    #[test]
    fn broken_messages_are_refused() {
        let long = [vec![0x08], vec![0xff; 10]].concat();
        for (bytes, expected) in [
            (&b"\x08"[..], Malformed::Truncated),
            (b"\x0a\x05abc", Malformed::Truncated),
            (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Malformed::Truncated),
            (&long, Malformed::Varint),
            (b"\x0b", Malformed::WireType(3)),
            (b"\x0a\x02\xff\xfe", Malformed::Text),
            (b"\x08\x01", Malformed::Mismatch),
            (b"\x09\0\0\0\0\0\0\0\0", Malformed::Mismatch),
        ] {
            assert_eq!(api::Taint::decode(bytes), Err(expected), "{bytes:x?}");
        }
    }

    #[test]
    fn unknown_fields_are_skipped() {
        // Field 4 (`timeAdded`) is not read, and 100, 101 and 102 do not exist.
        let bytes =
            b"\x0a\x01k\x22\x02\x08\x01\xa0\x06\x05\xa9\x06\0\0\0\0\0\0\0\0\xb5\x06\0\0\0\0";
        let taint = api::Taint { key: "k".to_owned(), ..api::Taint::default() };
        assert_eq!(api::Taint::decode(bytes), Ok(taint));
    }

    #[test]
    fn negative_numbers_are_sign_extended() {
        let minus_one = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let spec = [&b"\xc8\x01"[..], minus_one].concat();
        assert_eq!(api::PodSpec::decode(&spec).unwrap().priority, Some(-1));
        let meta = [&b"\x38"[..], minus_one].concat();
        assert_eq!(api::ObjectMeta::decode(&meta).unwrap().generation, -1);
    }

    #[test]
    fn envelope_names_the_type() {
        let bytes = b"k8s\0\x0a\x0a\x0a\x02v1\x12\x04Node\x12\x02\x0a\0\x1a\0\x22\0";
        let expected = Unknown { api_version: "v1", kind: "Node", raw: b"\x0a\0" };
        assert_eq!(Unknown::read(bytes), Ok(expected));
        assert_eq!(Unknown::read(b"{}"), Err(Malformed::Magic));
        assert_eq!(Unknown::read(b"k8s\0\x1a\x04gzip"), Err(Malformed::Encoding("gzip".into())));
    }
}
