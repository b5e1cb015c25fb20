//! Bringing scores into 0 to 100.

pub(crate) use framework::default_normalize_score as default_normalize;
