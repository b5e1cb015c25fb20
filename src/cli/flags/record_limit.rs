//! The size of recordings.

use std::str::FromStr;

use framework::Quantity;

/// Smallest limit: a few files.
const LEAST: u64 = 1 << 20;

/// A maximum size, as a quantity of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordLimit(u64);

impl RecordLimit {
    /// Returns the size in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.0
    }
}

impl FromStr for RecordLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let quantity: Quantity =
            text.parse().map_err(|error| format!("{error}, for example 512Mi or 2Gi"))?;
        let bytes = u64::try_from(quantity.value()).unwrap_or(0);
        match bytes >= LEAST {
            true => Ok(Self(bytes)),
            false => Err("must be at least 1Mi".to_owned()),
        }
    }
}
