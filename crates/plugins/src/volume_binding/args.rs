//! `VolumeBindingArgs`: decoding, defaults and validation.

use std::time::Duration;

use framework::PluginArgs;
use serde::{Deserialize, Serialize};

use crate::args::{Faults, decode_strictly};
use crate::shape::{Ratings, ShapePoint, check_shape};

const DEFAULT_BIND_TIMEOUT_SECONDS: i64 = 600;

/// `VolumeBindingArgs`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Args {
    bind_timeout_seconds: Option<i64>,
    /// The scoring shape. The gate StorageCapacityScoring permits it and gives it a default.
    shape: Option<Vec<ShapePoint>>,
}

impl Args {
    /// Decodes arguments, fills in defaults and validates the result.
    ///
    /// # Errors
    /// Returns all errors, with the texts of kube-scheduler.
    pub(super) fn decode(args: &PluginArgs) -> Result<Self, String> {
        let mut args: Self = decode_strictly(args)?;
        let mut faults = Faults::default();
        let timeout = *args.bind_timeout_seconds.get_or_insert(DEFAULT_BIND_TIMEOUT_SECONDS);
        if timeout < 0 {
            let rule = "invalid BindTimeoutSeconds, should not be a negative value";
            faults.invalid("bindTimeoutSeconds", timeout, rule);
        }
        if let Some(shape) = &args.shape {
            check_shape("shape", shape, &mut faults);
        }
        faults.none_or(args)
    }

    /// Returns how long a pod may wait for its volumes to be bound after all writes.
    pub(super) fn bind_timeout(&self) -> Duration {
        let seconds = self.bind_timeout_seconds.unwrap_or(DEFAULT_BIND_TIMEOUT_SECONDS);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    /// Returns the scores by storage utilization; `None` if storage is not scored.
    pub(super) fn ratings(&self) -> Option<Ratings> {
        self.shape.as_deref().map(Ratings::of)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn decode(args: Value) -> Result<Args, String> {
        Args::decode(&PluginArgs::new(args))
    }

    #[test]
    fn bind_timeout_defaults_to_ten_minutes() {
        for (args, seconds) in [
            (json!({}), 600),
            (json!({ "bindTimeoutSeconds": null }), 600),
            (json!({ "bindTimeoutSeconds": 0 }), 0),
            (json!({ "bindTimeoutSeconds": 7 }), 7),
        ] {
            let timeout = decode(args.clone()).unwrap().bind_timeout();
            assert_eq!(timeout, Duration::from_secs(seconds), "{args}");
        }
    }

    #[test]
    fn storage_is_scored_only_with_a_shape() {
        assert!(decode(json!({})).unwrap().ratings().is_none());
        let falling = [json!({ "utilization": 0, "score": 10 }), json!({ "utilization": 100 })];
        let ratings = decode(json!({ "shape": falling })).unwrap().ratings().unwrap();
        assert_eq!([0, 30, 100].map(|utilization| ratings.get(utilization)), [100, 70, 0]);
    }

    #[test]
    fn errors_have_the_texts_of_kube_scheduler() {
        for (args, expected) in [
            (
                json!({ "bindTimeoutSeconds": -1 }),
                "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be \
                 a negative value",
            ),
            (json!({ "shape": [] }), "shape: Required value: at least one point must be specified"),
            (
                json!({ "shape": [{ "utilization": 0, "score": 11 }] }),
                "shape[0].score: Invalid value: 11: not in valid range [0, 10]",
            ),
            (json!({ "bindTimeout": 1 }), "unknown field \"bindTimeout\""),
        ] {
            assert_eq!(decode(args.clone()).unwrap_err(), expected, "{args}");
        }
    }
}
