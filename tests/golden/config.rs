//! The area `config`: decoding, defaults, validation, and the resulting profiles.

use engine::profile::Profiles;
use framework::ExtensionPoint;
use loadmaster::config::{self, ConfigError, Configuration, Gates};
use serde_json::{Map, Value, json};

use super::compare::{Comparison, Outcome};
use super::level_of;

/// Fields of a case in addition to its input.
const OUTPUTS: [&str; 7] =
    ["stage", "error", "errors", "config", "expandedProfiles", "extensionPoints", "frameworkError"];

/// Runs a case.
pub(crate) fn run(case: &Value) -> Outcome {
    let text = case["in"].as_str().unwrap_or_default();
    let actual = match config::load(text, &Gates::at(level_of(case))) {
        Ok(loaded) => completed(&loaded.config),
        Err(error) => refused(&error),
    };
    let mut comparison = Comparison::default();
    let is_recorded = OUTPUTS.iter().any(|key| !case[*key].is_null());
    if is_recorded {
        for key in OUTPUTS {
            let told = key == "error" && actual["stage"] == "decode";
            if !(told && names_the_same(&case[key], &actual[key])) {
                comparison.equal(key, &case[key], &actual[key]);
            }
        }
    }
    comparison.finish(actual)
}

fn refused(error: &ConfigError) -> Value {
    let text = error.to_string();
    match error {
        ConfigError::Decode(_) => json!({"stage": "decode", "error": text}),
        ConfigError::Invalid(errors) => {
            let mut single: Vec<String> = errors.iter().map(ToString::to_string).collect();
            single.sort();
            json!({"stage": "validation", "error": text, "errors": single})
        }
        ConfigError::Build(_) => json!({"frameworkError": text}),
    }
}

fn completed(config: &Configuration) -> Value {
    let mut written = config.to_value();
    let profiles = written.as_object_mut().and_then(|fields| fields.remove("profiles"));
    let (key, value) = match config.build_profiles(&plugins::registry()) {
        Ok(built) => ("extensionPoints", extension_points(&built)),
        Err(error) => ("frameworkError", json!(error.to_string())),
    };
    json!({"config": written, "expandedProfiles": profiles, key: value})
}

/// Returns the plugins of every non-empty extension point, in order; scoring plugins with weights.
fn extension_points(built: &Profiles) -> Value {
    let mut expanded = Map::new();
    for profile in built.iter() {
        let mut points = Map::new();
        for point in ExtensionPoint::ALL {
            let names = profile.plugins_at(point);
            if names.is_empty() || ExtensionPoint::OF_GROUPS.contains(&point) {
                continue;
            }
            let plugins = names.iter().map(|name| match profile.weight_at(point, name) {
                Some(weight) => json!({"name": &**name, "weight": weight}),
                None => json!(&**name),
            });
            points.insert(point.config_name().to_owned(), plugins.collect());
        }
        expanded.insert(profile.scheduler_name.to_string(), points.into());
    }
    expanded.into()
}

/// Whether our text names the same things as a text of Go: it must contain all quoted parts and all
/// paths of that text.
fn names_the_same(recorded: &Value, actual: &Value) -> bool {
    let (Some(recorded), Some(actual)) = (recorded.as_str(), actual.as_str()) else { return false };
    let quoted = recorded.split('"').skip(1).step_by(2);
    let is_path = |word: &&str| word.contains(['.', '[', '/']) && !word.contains('"');
    let paths = recorded.split_whitespace().filter(is_path);
    quoted.chain(paths).all(|token| actual.contains(token.trim_end_matches([':', ','])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_equal_names_are_accepted() {
        let recorded = json!("json: cannot unmarshal string into A.parallelism of type int32");
        assert!(names_the_same(&recorded, &json!("A.parallelism is no number")));
        assert!(!names_the_same(&recorded, &json!("A.qps is no number")));
        let recorded = json!("no kind \"Bogus\" is registered");
        assert!(names_the_same(&recorded, &json!("\"Bogus\" is unknown")));
        assert!(!names_the_same(&recorded, &json!("the kind is unknown")));
    }
}
