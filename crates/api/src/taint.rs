//! Taints of nodes and the tolerations of pods.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::api;

/// The effect of a taint on pods that do not tolerate it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TaintEffect {
    /// The node rejects new pods.
    NoSchedule,
    /// The scheduler avoids the node if possible.
    PreferNoSchedule,
    /// The node rejects new pods and evicts running pods.
    NoExecute,
    /// An unknown effect, as written; it does not affect scheduling.
    Other(Arc<str>),
}

impl TaintEffect {
    /// Returns the name in the API.
    pub fn as_str(&self) -> &str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
            Self::Other(text) => text,
        }
    }

    /// Returns whether the effect rejects pods: `NoSchedule` and `NoExecute` do.
    pub fn forbids_scheduling(&self) -> bool {
        matches!(self, Self::NoSchedule | Self::NoExecute)
    }
}

impl From<&str> for TaintEffect {
    fn from(text: &str) -> Self {
        match text {
            "NoSchedule" => Self::NoSchedule,
            "PreferNoSchedule" => Self::PreferNoSchedule,
            "NoExecute" => Self::NoExecute,
            other => Self::Other(other.into()),
        }
    }
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// Key.
    pub key: Arc<str>,
    /// Value, possibly empty.
    pub value: Arc<str>,
    /// Effect.
    pub effect: TaintEffect,
}

impl From<&api::Taint> for Taint {
    fn from(taint: &api::Taint) -> Self {
        Self {
            key: taint.key.as_str().into(),
            value: taint.value.as_str().into(),
            effect: taint.effect.as_str().into(),
        }
    }
}

/// How a toleration compares the value of a taint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// The values are equal; an empty operator is the same.
    Equal,
    /// Any value matches.
    Exists,
    /// The value of the taint is the smaller integer.
    Lt,
    /// The value of the taint is the greater integer.
    Gt,
    /// An unknown operator, as written; it tolerates no taint.
    Other(Arc<str>),
}

impl TolerationOperator {
    /// Returns the name in the API.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Equal => "Equal",
            Self::Exists => "Exists",
            Self::Lt => "Lt",
            Self::Gt => "Gt",
            Self::Other(text) => text,
        }
    }
}

impl From<&str> for TolerationOperator {
    fn from(text: &str) -> Self {
        match text {
            "" | "Equal" => Self::Equal,
            "Exists" => Self::Exists,
            "Lt" => Self::Lt,
            "Gt" => Self::Gt,
            other => Self::Other(other.into()),
        }
    }
}

/// A toleration of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// Key of the taint; empty matches every key.
    pub key: Arc<str>,
    /// The operator.
    pub operator: TolerationOperator,
    /// The value for the comparison.
    pub value: Arc<str>,
    /// Effect of the taint; `None` matches every effect.
    pub effect: Option<TaintEffect>,
}

impl From<&api::Toleration> for Toleration {
    fn from(toleration: &api::Toleration) -> Self {
        Self {
            key: toleration.key.as_str().into(),
            operator: toleration.operator.as_str().into(),
            value: toleration.value.as_str().into(),
            effect: (!toleration.effect.is_empty()).then(|| toleration.effect.as_str().into()),
        }
    }
}

impl Toleration {
    /// Returns whether the pod tolerates `taint` with the default feature gates: `Lt` and `Gt`
    /// tolerate no taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerates_with(taint, false)
    }

    /// Like [`tolerates`](Self::tolerates). `comparison_operators` is the feature gate
    /// TaintTolerationComparisonOperators: if it is on, `Lt` and `Gt` compare canonical decimal
    /// integers.
    pub fn tolerates_with(&self, taint: &Taint, comparison_operators: bool) -> bool {
        self.covers_effect(&taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match &self.operator {
                TolerationOperator::Equal => self.value == taint.value,
                TolerationOperator::Exists => true,
                TolerationOperator::Lt => {
                    comparison_operators && self.compare(taint, |taint, own| taint < own)
                }
                TolerationOperator::Gt => {
                    comparison_operators && self.compare(taint, |taint, own| taint > own)
                }
                TolerationOperator::Other(_) => false,
            }
    }

    /// Returns whether the toleration applies to taints with `effect`.
    pub fn covers_effect(&self, effect: &TaintEffect) -> bool {
        self.effect.as_ref().is_none_or(|own| own == effect)
    }

    fn compare(&self, taint: &Taint, holds: impl Fn(i64, i64) -> bool) -> bool {
        match (canonical_integer(&taint.value), canonical_integer(&self.value)) {
            (Some(taint), Some(own)) => holds(taint, own),
            _ => false,
        }
    }
}

/// Parses a decimal integer in canonical form: no `+`, no leading zeros, no `-0`.
fn canonical_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = !digits.starts_with(['0', '+', '-']) || text == "0";
    if canonical { text.parse().ok() } else { None }
}

/// Returns the first of `taints` that `filter` selects and no toleration tolerates, with the
/// default feature gates.
pub fn find_untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    filter: impl Fn(&Taint) -> bool,
) -> Option<&'a Taint> {
    find_untolerated_with(taints, tolerations, filter, false)
}

/// Like [`find_untolerated`], with the feature gate of [`Toleration::tolerates_with`].
pub fn find_untolerated_with<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    filter: impl Fn(&Taint) -> bool,
    comparison_operators: bool,
) -> Option<&'a Taint> {
    taints.iter().filter(|taint| filter(taint)).find(|taint| {
        !tolerations.iter().any(|own| own.tolerates_with(taint, comparison_operators))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        Taint { key: key.into(), value: value.into(), effect: effect.into() }
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        let [key, operator, value, effect] = [key, operator, value, effect].map(str::to_owned);
        Toleration::from(&api::Toleration { key, operator, value, effect })
    }

    #[test]
    fn toleration_compares_key_operator_value_and_effect() {
        let gpu = taint("gpu", "a100", "NoSchedule");
        for (own, expected) in [
            (toleration("gpu", "Equal", "a100", "NoSchedule"), true),
            (toleration("gpu", "", "a100", ""), true),
            (toleration("gpu", "Equal", "h100", ""), false),
            (toleration("gpu", "Exists", "", "NoSchedule"), true),
            (toleration("gpu", "Exists", "", "NoExecute"), false),
            (toleration("", "Exists", "", ""), true),
            (toleration("", "Equal", "a100", ""), true),
            (toleration("tpu", "Exists", "", ""), false),
            (toleration("gpu", "exists", "", ""), false),
        ] {
            assert_eq!(own.tolerates(&gpu), expected, "{own:?}");
        }
    }

    #[test]
    fn comparison_operators_need_the_feature_gate() {
        for (operator, own, value, expected) in [
            ("Lt", "10", "9", true),
            ("Lt", "10", "10", false),
            ("Gt", "-2", "-1", true),
            ("Gt", "0", "1", true),
            ("Gt", "1", "1", false),
            ("Gt", "1", "02", false),
            ("Gt", "1", "+2", false),
            ("Gt", "-0", "2", false),
            ("Gt", "--1", "2", false),
            ("Gt", "", "2", false),
            ("Lt", "9223372036854775808", "1", false),
        ] {
            let own = toleration("k", operator, own, "");
            let taint = taint("k", value, "NoSchedule");
            assert_eq!(own.tolerates_with(&taint, true), expected, "{own:?} {value}");
            assert!(!own.tolerates(&taint));
        }
    }

    #[test]
    fn first_untolerated_taint_is_found_and_unknown_effects_are_kept() {
        let taints =
            [taint("a", "", "NoSchedule"), taint("b", "", "Banish"), taint("c", "", "NoExecute")];
        let own = [toleration("a", "Exists", "", "")];
        let find = |filter: fn(&Taint) -> bool| {
            find_untolerated(&taints, &own, filter).map(|taint| &*taint.key)
        };
        assert_eq!(find(|taint| taint.effect.forbids_scheduling()), Some("c"));
        assert_eq!(find(|_| true), Some("b"));
        assert_eq!(taints[1].effect.as_str(), "Banish");
    }
}
