//! The language of `--find`: `pod PATTERN STATE [COMPARISON DURATION]`.

use std::str::FromStr;
use std::time::Duration;

use framework::PodKey;

use crate::config;

/// What pods to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    /// Pattern of the namespace; `None` for every namespace.
    namespace: Option<String>,
    name: String,
    /// What must have happened to the pod.
    pub(super) state: State,
    /// How long it must have been so.
    limit: Option<(Comparison, Duration)>,
}

/// The states that a query finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Without a node. Without a duration: at the end of the recording.
    Pending,
    /// Bound to a node. A duration is the time until then.
    Bound,
    /// Evicted for another pod. A duration is the time it had run.
    Preempted,
    /// Not placed in an attempt. A duration is the time from the first such attempt to the end of
    /// the wait.
    Failed,
}

impl State {
    const NAMES: [(&str, Self); 4] = [
        ("pending", Self::Pending),
        ("bound", Self::Bound),
        ("preempted", Self::Preempted),
        ("failed", Self::Failed),
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Comparison {
    const NAMES: [(&str, Self); 4] =
        [("<", Self::Less), ("<=", Self::AtMost), (">", Self::More), (">=", Self::AtLeast)];

    fn holds(self, took: Duration, limit: Duration) -> bool {
        match self {
            Self::Less => took < limit,
            Self::AtMost => took <= limit,
            Self::More => took > limit,
            Self::AtLeast => took >= limit,
        }
    }
}

impl Query {
    /// Whether the pod has the name.
    pub(super) fn names(&self, pod: &PodKey) -> bool {
        let namespace = self.namespace.as_ref();
        namespace.is_none_or(|pattern| matches(pattern, &pod.namespace))
            && matches(&self.name, &pod.name)
    }

    /// Whether a duration was given.
    pub(super) const fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// Whether a state of this duration is looked for.
    pub(super) fn takes(&self, took: Duration) -> bool {
        self.limit.is_none_or(|(comparison, limit)| comparison.holds(took, limit))
    }
}

/// Whether a pattern, in which `*` stands for any text, matches the whole text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

const EXPECTED: &str = "expected for example 'pod web-* pending > 60s'";

impl FromStr for Query {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A comparison needs no spaces around it.
        let spaced = match text.find(['<', '>']) {
            None => text.to_owned(),
            Some(place) => {
                let length = if text[place + 1..].starts_with('=') { 2 } else { 1 };
                let (before, rest) = text.split_at(place);
                let (comparison, after) = rest.split_at(length);
                format!("{before} {comparison} {after}")
            }
        };
        let mut words = spaced.split_whitespace();
        match words.next() {
            Some("pod") => {}
            Some(word) => return Err(format!("{word:?} cannot be found, only pods: {EXPECTED}")),
            None => return Err(format!("the query is empty: {EXPECTED}")),
        }
        let pattern = words.next().ok_or_else(|| format!("the name is missing: {EXPECTED}"))?;
        let (namespace, name) = match pattern.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, pattern),
        };
        let word = words.next().ok_or_else(|| format!("the state is missing: {}", states()))?;
        let state = State::NAMES.iter().find(|(name, _)| *name == word);
        let (_, state) = state.ok_or_else(|| format!("unknown state {word:?}: {}", states()))?;
        let limit = match words.next() {
            None => None,
            Some(word) => {
                let known = Comparison::NAMES.iter().find(|(name, _)| *name == word);
                let (_, comparison) = known
                    .ok_or_else(|| format!("{word:?} is no comparison: expected <, <=, > or >="))?;
                let duration = words
                    .next()
                    .ok_or_else(|| format!("the duration after {word} is missing: {EXPECTED}"))?;
                let duration: config::Duration =
                    duration.parse().map_err(|error| format!("{error}: {EXPECTED}"))?;
                Some((*comparison, duration.to_std()))
            }
        };
        if let Some(word) = words.next() {
            return Err(format!("{word:?} is too much: {EXPECTED}"));
        }
        Ok(Self { namespace, name: name.to_owned(), state: *state, limit })
    }
}

fn states() -> String {
    let names: Vec<&str> = State::NAMES.iter().map(|(name, _)| *name).collect();
    format!("expected {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_select_by_name_and_duration() {
        let query: Query = "pod shop/web-*-0 pending >= 1m".parse().unwrap();
        assert_eq!(query.state, State::Pending);
        for (namespace, name, expected) in
            [("shop", "web-a-0", true), ("shop", "web-a-1", false), ("other", "web-a-0", false)]
        {
            assert_eq!(query.names(&PodKey::new(namespace, name)), expected, "{namespace}/{name}");
        }
        assert!(query.takes(Duration::from_secs(60)) && !query.takes(Duration::from_secs(59)));
        let any: Query = "pod * failed".parse().unwrap();
        assert!(any.names(&PodKey::new("a", "b")) && any.takes(Duration::ZERO));
        let tight: Query = "pod a bound<5s".parse().unwrap();
        assert!(tight.takes(Duration::from_secs(4)) && !tight.takes(Duration::from_secs(5)));
        assert!("pod a bound <=5s".parse::<Query>().unwrap().takes(Duration::from_secs(5)));
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*a", "a", false),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abde", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn errors_say_what_is_expected() {
        for (text, expected) in [
            ("", "the query is empty"),
            ("node a pending", "only pods"),
            ("pod", "the name is missing"),
            ("pod a", "the state is missing: expected pending, bound"),
            ("pod a waiting", "unknown state \"waiting\""),
            ("pod a pending 60s", "\"60s\" is no comparison"),
            ("pod a pending >", "the duration after > is missing"),
            ("pod a pending > 60", "missing unit"),
            ("pod a pending > 60s now", "\"now\" is too much"),
        ] {
            let error = text.parse::<Query>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
