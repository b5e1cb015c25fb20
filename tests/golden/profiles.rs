//! The area `config`, as far as it is about profiles: how they expand, and why they cannot be
//! built.
//!
//! Decoding, defaults and validation of the whole configuration are not built yet.

use engine::profile::{PluginRef, Profile, SchedulerProfile};
use framework::ExtensionPoint;
use plugins::catalogue;
use serde_json::{Map, Value, json};

use super::compare::Outcome;
use super::setting::DEFAULT_SCHEDULER;

/// Sets of a profile for points of pod groups, for which there is nothing yet.
const GROUP_POINTS: [&str; 2] = ["placementGenerate", "placementScore"];

/// Runs a case, if its configuration is valid.
pub(crate) fn run(case: &Value) -> Outcome {
    let key = ["extensionPoints", "frameworkError"].into_iter().find(|key| !case[key].is_null());
    let Some(key) = key else { return Outcome::deferred("KubeSchedulerConfiguration") };
    let actual = match profiles(case) {
        Ok(profiles) => expand(&profiles),
        Err(message) => return Outcome::failed(message),
    };
    Outcome::plain(&json!({key: case[key]}), actual)
}

/// The profiles as written; none at all means the default profile.
fn profiles(case: &Value) -> Result<Vec<SchedulerProfile>, String> {
    let text = case["in"].as_str().unwrap_or_default();
    let config: Value = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
    let written = config["profiles"].as_array().cloned().unwrap_or_default();
    let mut profiles = written.into_iter().map(profile).collect::<Result<Vec<_>, _>>()?;
    if profiles.is_empty() {
        profiles.push(SchedulerProfile::default());
    }
    if let [only] = &mut profiles[..]
        && only.scheduler_name.is_empty()
    {
        only.scheduler_name = DEFAULT_SCHEDULER.to_owned();
    }
    Ok(profiles)
}

fn profile(mut written: Value) -> Result<SchedulerProfile, String> {
    if let Some(sets) = written.get_mut("plugins").and_then(Value::as_object_mut) {
        sets.retain(|point, _| !GROUP_POINTS.contains(&point.as_str()));
    }
    serde_json::from_value(written).map_err(|error| format!("cannot read the profile: {error}"))
}

/// The plugins of every point of every profile, or why there are none.
fn expand(profiles: &[SchedulerProfile]) -> Value {
    let registry = plugins::registry();
    let defaults: Vec<PluginRef> = catalogue::defaults()
        .map(|entry| PluginRef::new(entry.name, entry.default_weight))
        .collect();
    let mut expanded = Map::new();
    for profile in profiles {
        let name = &profile.scheduler_name;
        match Profile::build(profile, &defaults, &registry) {
            Ok(built) => drop(expanded.insert(name.clone(), points(&built))),
            Err(error) => {
                let text = "initializing profiles: creating profile for scheduler name";
                return json!({"frameworkError": format!("{text} {name}: {error}")});
            }
        }
    }
    json!({"extensionPoints": expanded})
}

/// The plugins of every point that has any, in order.
fn points(profile: &Profile) -> Value {
    let mut points = Map::new();
    macro_rules! names {
        ($($point:ident: $list:ident),*) => {$(
            let names: Vec<&str> = profile.$list.iter().map(|plugin| &*plugin.name).collect();
            points.insert(ExtensionPoint::$point.config_name().to_owned(), json!(names));
        )*};
    }
    names!(
        PreEnqueue: pre_enqueue, PreFilter: pre_filter, Filter: filter, PostFilter: post_filter,
        PreScore: pre_score, Reserve: reserve, Permit: permit, PreBind: pre_bind, Bind: bind,
        PostBind: post_bind
    );
    let scores = profile.score.iter();
    let scores: Value =
        scores.map(|own| json!({"name": &*own.name, "weight": own.weight})).collect();
    points.insert(ExtensionPoint::Score.config_name().to_owned(), scores);
    points.insert(
        ExtensionPoint::QueueSort.config_name().to_owned(),
        json!([&*profile.queue_sort.name]),
    );
    points.retain(|_, plugins| plugins.as_array().is_some_and(|list| !list.is_empty()));
    points.into()
}
