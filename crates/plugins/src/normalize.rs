//! Normalization of scores to 0 to 100.

pub(crate) use framework::default_normalize_score as default_normalize;
