//! Decoding of custom objects into the types that plugins read.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A decoded object.
pub(super) type Decoded = Arc<dyn Any + Send + Sync>;

/// The types into which the objects of each custom kind are decoded.
#[derive(Debug, Clone, Default)]
pub struct Decoders(BTreeMap<Arc<str>, Vec<Decoder>>);

/// Decodes an object as one type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoder {
    type_id: TypeId,
    type_name: &'static str,
    decode: fn(&Value) -> Result<Decoded, String>,
}

impl Decoder {
    fn of<T: DeserializeOwned + Send + Sync + 'static>() -> Self {
        fn decode<T: DeserializeOwned + Send + Sync + 'static>(
            object: &Value,
        ) -> Result<Decoded, String> {
            T::deserialize(object)
                .map(|value| Arc::new(value) as Decoded)
                .map_err(|error| error.to_string())
        }
        let type_name = std::any::type_name::<T>();
        Self { type_id: TypeId::of::<T>(), type_name, decode: decode::<T> }
    }

    /// Decodes `object`. A panic in the code of a plugin counts as a decoding error.
    pub(super) fn decode(&self, object: &Value) -> Result<Decoded, Box<str>> {
        let decoded = catch_unwind(AssertUnwindSafe(|| (self.decode)(object)));
        let decoded = decoded.unwrap_or_else(|_| Err("the decoder panicked".to_owned()));
        decoded.map_err(|error| format!("cannot be decoded as {}: {error}", self.type_name).into())
    }
}

impl Decoders {
    /// Decodes the objects of `kind`, named `<plural>.<version>.<group>`, as `T`. A kind can be
    /// decoded as several types.
    pub fn add<T: DeserializeOwned + Send + Sync + 'static>(&mut self, kind: &str) {
        self.insert(&kind.into(), Decoder::of::<T>());
    }

    /// Adds the decoders of `other`.
    pub fn extend(&mut self, other: &Self) {
        for (kind, decoders) in &other.0 {
            decoders.iter().for_each(|decoder| self.insert(kind, *decoder));
        }
    }

    fn insert(&mut self, kind: &Arc<str>, decoder: Decoder) {
        let known = self.0.entry(kind.clone()).or_default();
        if known.iter().all(|other| other.type_id != decoder.type_id) {
            known.push(decoder);
        }
    }

    pub(super) fn of_kind(&self, kind: &str) -> &[Decoder] {
        self.0.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Returns the position of `T` among the types of `kind`.
    pub(super) fn place<T: Any>(&self, kind: &str) -> Option<usize> {
        self.of_kind(kind).iter().position(|decoder| decoder.type_id == TypeId::of::<T>())
    }
}
