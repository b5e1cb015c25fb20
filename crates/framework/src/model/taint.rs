//! Taints of nodes and the tolerations of pods.

use std::sync::Arc;

use crate::api;

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaintEffect {
    /// They are not placed on the node.
    NoSchedule,
    /// They are placed elsewhere if possible.
    PreferNoSchedule,
    /// They are not placed on the node and do not stay there.
    NoExecute,
    /// An effect this version does not know, as written; it has no effect on scheduling.
    Other(Arc<str>),
}

impl TaintEffect {
    /// The name in the API.
    pub fn as_str(&self) -> &str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
            Self::Other(text) => text,
        }
    }

    /// Whether the effect keeps pods off the node: `NoSchedule` and `NoExecute` do.
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// How a toleration looks at the value of a taint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TolerationOperator {
    /// The values are equal; also what an empty operator means.
    Equal,
    /// Any value.
    Exists,
    /// The value of the taint is the smaller integer.
    Lt,
    /// The value of the taint is the greater integer.
    Gt,
    /// An operator this version does not know, as written; it tolerates nothing.
    Other(Arc<str>),
}

impl TolerationOperator {
    /// The name in the API.
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Key of the taint; empty means every key.
    pub key: Arc<str>,
    /// How the values are compared.
    pub operator: TolerationOperator,
    /// Value the one of the taint is compared with.
    pub value: Arc<str>,
    /// Effect of the taint; `None` means every effect.
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
    /// Whether the pod puts up with `taint`, by default rules: `Lt` and `Gt` tolerate nothing.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerates_with(taint, false)
    }

    /// Like [`tolerates`](Self::tolerates). `comparison_operators` is the feature gate
    /// TaintTolerationComparisonOperators: with it, `Lt` and `Gt` compare canonical decimal
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

    /// Whether the toleration is about taints with `effect`.
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

/// A decimal integer in its only spelling: no `+`, no leading zeros, no `-0`.
fn canonical_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = !digits.starts_with(['0', '+', '-']) || text == "0";
    if canonical { text.parse().ok() } else { None }
}

/// The first of `taints` that `filter` selects and no toleration tolerates, by default rules.
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
    fn tolerates_by_key_operator_value_and_effect() {
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
    fn compares_canonical_integers_when_the_gate_is_on() {
        for (operator, own, value, expected) in [
            ("Lt", "10", "9", true),
            ("Lt", "10", "10", false),
            ("Gt", "-2", "-1", true),
            ("Gt", "0", "1", true),
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
    fn finds_the_first_untolerated_taint_and_keeps_unknown_effects() {
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
