//! Deliberate differences from kube-scheduler: docs/differences.toml.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use framework::Level;
use serde::Deserialize;
use serde_json::Value;

/// The fields of the file that the runner reads.
#[derive(Debug, Deserialize)]
struct Differences {
    difference: Vec<Difference>,
    level: Vec<LevelRule>,
}

/// A rule by which recorded cases have other results at a later level.
#[derive(Debug, Deserialize)]
pub(crate) struct LevelRule {
    id: String,
    /// The first level of the rule.
    level: String,
    /// The numbers of the cases of the corpus that differ, by area.
    #[serde(default)]
    cases: BTreeMap<String, Vec<u32>>,
}

#[derive(Debug, Deserialize)]
struct Difference {
    id: String,
    area: String,
    plugin: String,
    reason: Reason,
    /// Arguments of the plugin; without one of them the rule does not apply.
    #[serde(default)]
    arguments: Vec<String>,
    /// The events of the rule, as `Resource/Action`; all events if empty.
    #[serde(default)]
    events: Vec<String>,
}

/// Why Loadmaster does not follow kube-scheduler 1.36.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
enum Reason {
    LostWakeUp,
    RoomCountedTwice,
    LostCapacity,
    Crash,
    /// The answer of kube-scheduler depends on its speed.
    TimeLimit,
    /// The message of kube-scheduler hides why a group waits.
    ClearerMessage,
    /// This minor release of Kubernetes 1 fixes the bug.
    FixedUpstream(u32),
}

impl TryFrom<String> for Reason {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "lost wake-up" => Ok(Self::LostWakeUp),
            "room counted twice" => Ok(Self::RoomCountedTwice),
            "lost capacity" => Ok(Self::LostCapacity),
            "crash" => Ok(Self::Crash),
            "time limit" => Ok(Self::TimeLimit),
            "clearer message" => Ok(Self::ClearerMessage),
            _ => {
                let minor = text.strip_prefix("fixed upstream in 1.").map(str::parse);
                let minor = minor.and_then(Result::ok).filter(|minor| *minor > 36);
                minor.map(Self::FixedUpstream).ok_or_else(|| format!("unknown reason {text:?}"))
            }
        }
    }
}

impl Difference {
    fn is_about(&self, resource: &str, action: &str) -> bool {
        self.events.iter().any(|event| match event.rsplit_once('/') {
            Some((own, "Update")) => own == resource && action.starts_with("Update"),
            Some((own, of)) => own == resource && of == action,
            None => false,
        })
    }
}

static DIFFERENCES: LazyLock<Differences> = LazyLock::new(|| {
    toml::from_str(include_str!("../../docs/differences.toml"))
        .unwrap_or_else(|error| panic!("docs/differences.toml: {error}"))
});

fn of_hints(plugin: &str) -> impl Iterator<Item = &'static Difference> {
    let hints = DIFFERENCES.difference.iter().filter(|own| own.area == "queueing-hints");
    hints.filter(move |own| own.plugin == plugin)
}

/// Returns the rule that explains why a hint of `plugin` answers Queue where the recorded one
/// answers QueueSkip, under a profile with these arguments of the plugin.
pub(crate) fn of_hint(
    plugin: &str,
    arguments: &Value,
    resource: &str,
    action: &str,
) -> Option<&'static str> {
    let is_given = |argument: &String| !arguments[argument].is_null();
    of_hints(plugin)
        .filter(|own| own.arguments.is_empty() || own.arguments.iter().any(is_given))
        .find(|own| own.events.is_empty() || own.is_about(resource, action))
        .map(|own| own.id.as_str())
}

/// The entry with this id, if its reason is a fix of a later release.
pub(crate) fn of_fix(id: &str) -> Option<&'static str> {
    let mut all = DIFFERENCES.difference.iter();
    let entry = all.find(|own| own.id == id)?;
    matches!(entry.reason, Reason::FixedUpstream(_)).then_some(entry.id.as_str())
}

/// Returns the rule that explains why `plugin` registers an event that kube-scheduler does not
/// register.
pub(crate) fn of_registration(plugin: &str, resource: &str, action: &str) -> Option<&'static str> {
    of_hints(plugin).find(|own| own.is_about(resource, action)).map(|own| own.id.as_str())
}

/// The rules of a level.
pub(crate) fn of_the_level(level: Level) -> impl Iterator<Item = &'static LevelRule> {
    DIFFERENCES.level.iter().filter(move |own| own.level == level.to_string())
}

/// The entry of a level with this id.
pub(crate) fn of_level(id: &str, level: Level) -> Option<&'static str> {
    of_the_level(level).find(|own| own.id == id).map(|own| own.id.as_str())
}

/// The entries of a level that list a case of the corpus.
pub(crate) fn rules_that_list<'a>(
    case: &'a str,
    level: Level,
) -> impl Iterator<Item = &'static str> + use<'a> {
    let place = case.rsplit_once('-').and_then(|(area, number)| Some((area, number.parse().ok()?)));
    let lists = move |own: &&LevelRule| {
        place.is_some_and(|(area, number)| {
            own.cases.get(area).is_some_and(|numbers| numbers.contains(&number))
        })
    };
    of_the_level(level).filter(lists).map(|own| own.id.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_file_reads_and_ids_are_unique() {
        let mut ids: Vec<_> = DIFFERENCES.difference.iter().map(|own| &own.id).collect();
        ids.extend(DIFFERENCES.level.iter().map(|own| &own.id));
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }

    #[test]
    fn reasons_are_those_of_the_rule_or_a_later_release() {
        let read = |text: &str| Reason::try_from(text.to_owned());
        assert_eq!(read("lost wake-up"), Ok(Reason::LostWakeUp));
        assert_eq!(read("lost capacity"), Ok(Reason::LostCapacity));
        assert_eq!(read("fixed upstream in 1.37"), Ok(Reason::FixedUpstream(37)));
        for text in ["fixed upstream in 1.36", "fixed upstream in 2.0", "taste"] {
            assert_eq!(read(text), Err(format!("unknown reason {text:?}")));
        }
    }

    #[test]
    fn hint_rules_depend_on_the_arguments_of_the_plugin() {
        let of = |plugin, arguments| of_hint(plugin, &arguments, "Node", "UpdateNodeLabel");
        let explained = of("NodeAffinity", json!({"addedAffinity": {}}));
        assert_eq!(explained, Some("node-affinity-added-affinity-hint"));
        assert_eq!(of("NodeAffinity", Value::Null), None);
        assert_eq!(of("NodePorts", json!({"addedAffinity": {}})), None);
    }
}
