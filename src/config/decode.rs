//! Strict decoding of a [`Tree`] into types, with the texts of Go's JSON decoder.
//!
//! [`Decode`] defines how a type is decoded; [`record!`](super::record) implements it for structs
//! from a table of fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use super::duration::Duration;
use super::tree::Tree;

/// A type of the configuration.
pub(super) trait Decode: Sized {
    /// Name of the type in Go.
    fn go_type() -> Cow<'static, str>;

    /// The value, or `None` after an error was reported to the decoder.
    fn decode(tree: &Tree, decoder: &mut Decoder) -> Option<Self>;

    /// The value for null; for nearly all types the same as for an absent field.
    fn decode_null(_decoder: &mut Decoder) -> Option<Self> {
        None
    }
}

/// A step from the root of a document to a value.
#[derive(Debug, Clone)]
enum Step {
    /// A field of a struct of this name.
    Field { of: &'static str, name: String },
    /// An item of a list.
    Item(usize),
    /// A value of a map.
    Key(String),
}

/// The errors of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Faults {
    /// A value does not match its field.
    Misfit(String),
    /// All values match, but fields are unknown or repeated.
    Strict(Vec<String>),
}

/// Records errors with their path.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    steps: Vec<Step>,
    /// The first value that cannot be parsed; Go stops there.
    unusable: Option<String>,
    /// The first value of a wrong type; Go continues after it.
    misfit: Option<String>,
    strict: Vec<String>,
}

impl Decoder {
    /// Decodes a whole document. A document with [`Faults::Strict`] has a value, too.
    pub(super) fn document<T: Decode + Default>(tree: &Tree) -> (T, Option<Faults>) {
        let mut decoder = Self::default();
        let decoded = T::decode(tree, &mut decoder).unwrap_or_default();
        let faults = match decoder.unusable.or(decoder.misfit) {
            Some(misfit) => Some(Faults::Misfit(misfit)),
            None if decoder.strict.is_empty() => None,
            None => Some(Faults::Strict(decoder.strict)),
        };
        (decoded, faults)
    }

    /// Decodes the fields of a struct. `set` decodes one field and returns whether the field
    /// exists.
    pub(super) fn fields(
        &mut self,
        tree: &Tree,
        go_type: &str,
        of: &'static str,
        mut set: impl FnMut(&mut Self, &str, &Tree) -> bool,
    ) -> Option<()> {
        let Tree::Object(fields) = tree else {
            self.mismatch(tree, go_type);
            return None;
        };
        for (place, (name, value)) in fields.iter().enumerate() {
            self.steps.push(Step::Field { of, name: name.clone() });
            // Kind and version of the document itself are already checked.
            let is_type = self.steps.len() == 1 && ["kind", "apiVersion"].contains(&name.as_str());
            if !is_type && !set(self, name, value) {
                self.complain("unknown field");
            } else if fields[..place].iter().any(|(earlier, _)| earlier == name) {
                self.complain("duplicate field");
            }
            self.steps.pop();
        }
        Some(())
    }

    /// Sets a field to its decoded value; null leaves the field unchanged.
    pub(super) fn set<T: Decode>(&mut self, field: &mut T, tree: &Tree) {
        let decoded = match tree {
            Tree::Null => T::decode_null(self),
            tree => T::decode(tree, self),
        };
        if let Some(value) = decoded {
            *field = value;
        }
    }

    /// Reports a value of the wrong type.
    fn mismatch(&mut self, tree: &Tree, go_type: &str) {
        self.misfits(tree.kind(), go_type);
    }

    fn misfits(&mut self, what: &str, go_type: &str) {
        if self.misfit.is_some() {
            return;
        }
        let names: Vec<&str> = self.steps.iter().filter_map(Step::field).collect();
        let innermost = self.steps.iter().rev().find_map(|step| match step {
            Step::Field { of, .. } => Some(*of),
            _ => None,
        });
        let place = match innermost {
            Some(of) => format!("Go struct field {of}.{}", names.join(".")),
            None => "Go value".to_owned(),
        };
        self.misfit = Some(format!("json: cannot unmarshal {what} into {place} of type {go_type}"));
    }

    /// Reports a value of the right type that is invalid.
    pub(super) fn refuse(&mut self, error: &impl fmt::Display) {
        self.unusable.get_or_insert_with(|| error.to_string());
    }

    fn complain(&mut self, what: &str) {
        let mut path = String::new();
        for step in &self.steps {
            match step {
                Step::Item(index) => path.push_str(&format!("[{index}]")),
                Step::Field { name, .. } | Step::Key(name) => {
                    path.push_str(if path.is_empty() { "" } else { "." });
                    path.push_str(name);
                }
            }
        }
        let complaint = format!("{what} {path:?}");
        if !self.strict.contains(&complaint) {
            self.strict.push(complaint);
        }
    }
}

impl Step {
    fn field(&self) -> Option<&str> {
        match self {
            Self::Field { name, .. } => Some(name),
            Self::Item(_) | Self::Key(_) => None,
        }
    }
}

impl Decode for bool {
    fn go_type() -> Cow<'static, str> {
        "bool".into()
    }

    fn decode(tree: &Tree, decoder: &mut Decoder) -> Option<Self> {
        match tree {
            Tree::Bool(value) => Some(*value),
            other => {
                decoder.mismatch(other, &Self::go_type());
                None
            }
        }
    }
}

impl Decode for String {
    fn go_type() -> Cow<'static, str> {
        "string".into()
    }

    fn decode(tree: &Tree, decoder: &mut Decoder) -> Option<Self> {
        decode_text(tree, &Self::go_type(), decoder)
    }
}

/// Decodes a text whose type has a name of its own in Go.
pub(super) fn decode_text(tree: &Tree, go_type: &str, decoder: &mut Decoder) -> Option<String> {
    match tree {
        Tree::Text(text) => Some(text.clone()),
        other => {
            decoder.mismatch(other, go_type);
            None
        }
    }
}

/// Returns the number of a tree, or its text after it was reported as not of `go_type`.
fn decode_number<T>(
    tree: &Tree,
    go_type: &str,
    decoder: &mut Decoder,
    fit: impl Fn(&serde_json::Number) -> Option<T>,
) -> Option<T> {
    let Tree::Number(number) = tree else {
        decoder.mismatch(tree, go_type);
        return None;
    };
    let fitting = fit(number);
    if fitting.is_none() {
        decoder.misfits(&format!("number {number}"), go_type);
    }
    fitting
}

impl Decode for i32 {
    fn go_type() -> Cow<'static, str> {
        "int32".into()
    }

    fn decode(tree: &Tree, decoder: &mut Decoder) -> Option<Self> {
        decode_number(tree, &Self::go_type(), decoder, |number| number.as_i64()?.try_into().ok())
    }
}

impl Decode for i64 {
    fn go_type() -> Cow<'static, str> {
        "int64".into()
    }

    fn decode(tree: &Tree, decoder: &mut Decoder) -> Option<Self> {
        decode_number(tree, &Self::go_type(), decoder, serde_json::Number::as_i64)
    }
}

/// A number with a fraction; written without one if it is integral.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Float(pub f32);

impl Decode for Float {
    fn go_type() -> Cow<'static, str> {
        "float32".into()
    }

    fn decode(tree: &Tree, decoder: &mut Decoder) -> Option<Self> {
        decode_number(tree, &Self::go_type(), decoder, |number| {
            #[expect(clippy::cast_possible_truncation, reason = "rounded as Go does")]
            let value = number.as_f64()? as f32;
            value.is_finite().then_some(Self(value))
        })
    }
}

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Converts through text, so that 0.1 does not become 0.10000000149.
        match (self.0.to_string().parse::<i64>(), self.0.to_string().parse::<f64>()) {
            (Ok(whole), _) => serializer.serialize_i64(whole),
            (_, Ok(value)) => serializer.serialize_f64(value),
            _ => serializer.serialize_f32(self.0),
        }
    }
}

impl Decode for Duration {
    fn go_type() -> Cow<'static, str> {
        "string".into()
    }

    fn decode(tree: &Tree, decoder: &mut Decoder) -> Option<Self> {
        let parsed = decode_text(tree, &Self::go_type(), decoder)?.parse();
        parsed.inspect_err(|error| decoder.refuse(error)).ok()
    }

    /// Null decodes as the empty text.
    fn decode_null(decoder: &mut Decoder) -> Option<Self> {
        "".parse().inspect_err(|error| decoder.refuse(error)).ok()
    }
}

impl<T: Decode> Decode for Option<T> {
    fn go_type() -> Cow<'static, str> {
        T::go_type()
    }

    fn decode(tree: &Tree, decoder: &mut Decoder) -> Option<Self> {
        T::decode(tree, decoder).map(Some)
    }
}

impl<T: Decode + Default> Decode for Vec<T> {
    fn go_type() -> Cow<'static, str> {
        format!("[]{}", T::go_type()).into()
    }

    fn decode(tree: &Tree, decoder: &mut Decoder) -> Option<Self> {
        let Tree::List(items) = tree else {
            decoder.mismatch(tree, &Self::go_type());
            return None;
        };
        let decoded = items.iter().enumerate().map(|(index, tree)| {
            decoder.steps.push(Step::Item(index));
            let mut item = T::default();
            decoder.set(&mut item, tree);
            decoder.steps.pop();
            item
        });
        Some(decoded.collect())
    }
}

impl Decode for BTreeMap<String, String> {
    fn go_type() -> Cow<'static, str> {
        "map[string]string".into()
    }

    fn decode(tree: &Tree, decoder: &mut Decoder) -> Option<Self> {
        let Tree::Object(fields) = tree else {
            decoder.mismatch(tree, &Self::go_type());
            return None;
        };
        let mut map = Self::new();
        for (name, tree) in fields {
            decoder.steps.push(Step::Key(name.clone()));
            let mut value = String::new();
            decoder.set(&mut value, tree);
            if map.insert(name.clone(), value).is_some() {
                decoder.complain("duplicate field");
            }
            decoder.steps.pop();
        }
        Some(map)
    }
}

/// Defines how a struct is decoded: its name in Go, and the name of each field in JSON. A text
/// whose type has a name of its own in Go is marked with that name.
///
/// With a `struct` the macro also declares the struct and its serialization.
macro_rules! record {
    ($name:ty = $package:literal $go:literal {
        $($json:literal => $field:ident $(as $go_type:literal)?,)*
    }) => {
        impl $crate::config::decode::Decode for $name {
            fn go_type() -> std::borrow::Cow<'static, str> {
                concat!($package, ".", $go).into()
            }

            fn decode(
                tree: &$crate::config::tree::Tree,
                decoder: &mut $crate::config::decode::Decoder,
            ) -> Option<Self> {
                let mut decoded = Self::default();
                decoder.fields(tree, &Self::go_type(), $go, |decoder, name, tree| {
                    match name {
                        $($json => $crate::config::decode::set_field!(
                            decoder, decoded.$field, tree $(, $go_type)?
                        ),)*
                        _ => return false,
                    }
                    true
                })?;
                Some(decoded)
            }
        }
    };
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident = $package:literal $go:literal {
            $(
                $(#[$field_meta:meta])*
                $json:literal => $field:ident: $type:ty $(as $go_type:literal)?,
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
        $visibility struct $name {
            $($(#[$field_meta])* #[serde(rename = $json)] pub $field: $type,)*
        }

        $crate::config::decode::record!($name = $package $go {
            $($json => $field $(as $go_type)?,)*
        });
    };
}

/// Sets one field of a [`record!`].
macro_rules! set_field {
    ($decoder:ident, $field:expr, $tree:ident) => {
        $decoder.set(&mut $field, $tree)
    };
    ($decoder:ident, $field:expr, $tree:ident, $go_type:literal) => {
        if !matches!($tree, $crate::config::tree::Tree::Null)
            && let Some(text) = $crate::config::decode::decode_text($tree, $go_type, $decoder)
        {
            $field = text.into();
        }
    };
}

pub(super) use {record, set_field};
