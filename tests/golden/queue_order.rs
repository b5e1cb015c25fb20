//! The queue: order, backoffs, gates.

use std::sync::Arc;
use std::time::Duration;

use engine::profile::{GROUP_GATE, Profiles};
use engine::queue::{Backoff, Plugins, Queue, QueueConfig, is_backing_off};
use framework::{Cluster, History, Pod, QueuedEntity, Time, api};
use serde_json::{Map, Value, json};
use testkit::HandleParts;

use super::compare::{Comparison, Outcome};
use super::decision;
use super::level_of;
use super::setting::{DEFAULT_SCHEDULER, Setting, is_unbuilt};
use super::world::{self, World};

/// Runs a case of any kind.
pub(crate) fn run(case: &Value) -> Outcome {
    let outcome = match case["kind"].as_str() {
        Some("activeOrder") => active_order(case).map(|order| against(case, "expected", order)),
        Some("backoffOrder") => backoff_order(case).map(|order| against(case, "expected", order)),
        Some("backoff") => Ok(against(case, "expectedMillis", backoff_millis(case))),
        Some("backoffExpiry") => backoff_expiry(case).map(|rows| against(case, "rows", rows)),
        Some("preEnqueue") => pre_enqueue(case),
        kind => Err(format!("unknown kind {kind:?}")),
    };
    outcome.unwrap_or_else(Outcome::failed)
}

/// Compares `computed` with the recording under `key`. The key is part of the shape, except under
/// `expected`.
fn against(case: &Value, key: &str, computed: Value) -> Outcome {
    match (key, &case[key]) {
        ("expected", expected) => Outcome::plain(expected, computed),
        (_, Value::Null) => Outcome::plain(&Value::Null, json!({key: computed})),
        (_, expected) => Outcome::plain(&json!({key: expected}), json!({key: computed})),
    }
}

fn active_order(case: &Value) -> Result<Value, String> {
    let setting = Setting::of_level(level_of(case), &Value::Null)?;
    let mut queue = QueueOf::new(QueueConfig::default(), &setting.profiles);
    for entry in list(&case["pods"]) {
        let (pod, timestamp) = (pod(entry), time(&entry["timestamp"])?);
        queue.at(timestamp, |queue, plugins| queue.add(pod, plugins));
    }
    Ok(queue.drain())
}

fn backoff_order(case: &Value) -> Result<Value, String> {
    let setting = Setting::of_level(level_of(case), &Value::Null)?;
    let Backoff { initial, max } = backoff(case);
    let config =
        QueueConfig { initial_backoff: initial, max_backoff: max, ..QueueConfig::default() };
    let mut queue = QueueOf::new(config, &setting.profiles);
    for entry in list(&case["pods"]) {
        let timestamp = time(&entry["timestamp"])?;
        let mut entity = QueuedEntity::of_pod(pod(entry), timestamp);
        let history = entity.history_mut();
        // The queue counts the failure that requeues the pod.
        history.unschedulable_count = count(&entry["unschedulableCount"]).saturating_sub(1);
        history.unschedulable_plugins.insert("NodeResourcesFit".into());
        queue.at(timestamp, |queue, plugins| {
            queue.add_unschedulable_if_not_present(entity, plugins)
        });
    }
    Ok(queue.drain())
}

fn backoff_millis(case: &Value) -> Value {
    let rule = backoff(case);
    let durations = list(&case["counts"]).map(|failures| rule.duration(count(failures)));
    durations.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).collect()
}

fn backoff_expiry(case: &Value) -> Result<Value, String> {
    let (rule, now) = (backoff(case), time(&case["now"])?);
    let row = |row: &Value| {
        let mut history = History::new(time(&row["timestamp"])?);
        history.unschedulable_count = count(&row["unschedulableCount"]);
        history.consecutive_errors = count(&row["consecutiveErrorsCount"]);
        let expiry = rule.expiration(&history);
        let mut computed = row.clone();
        computed["expiry"] = expiry.map(|time| time.to_string()).into();
        computed["backingOff"] = is_backing_off(expiry, now).into();
        Ok(computed)
    };
    list(&case["rows"]).map(row).collect()
}

fn pre_enqueue(case: &Value) -> Result<Outcome, String> {
    let setting = Setting::of(case)?;
    let mut world = World::new(&setting);
    world.apply_all(&case["objects"])?;
    let pod = world::pod(&case["pod"])?;
    let profile = setting.profiles.get(DEFAULT_SCHEDULER);
    let plugins = profile.iter().flat_map(|profile| &profile.pre_enqueue);
    // kube-scheduler has no such gate; no recorded pod belongs to a group.
    let plugins = plugins.filter(|plugin| *plugin.name != *GROUP_GATE);
    let actual: Map<String, Value> = plugins
        .map(|plugin| {
            let status = plugin.plugin.pre_enqueue(&pod, &world.handle());
            (plugin.name.to_string(), decision::verdict(&status))
        })
        .collect();
    let mut comparison = Comparison::default();
    let mut expected = case["expected"].clone();
    if let Some(plugins) = expected.as_object_mut() {
        plugins.keys().filter(|name| is_unbuilt(name)).for_each(|name| comparison.defer(name));
        plugins.retain(|name, _| !is_unbuilt(name));
        comparison.equal("", &expected, &actual.clone().into());
    }
    Ok(comparison.finish(actual.into()))
}

/// A queue with the arguments of its calls.
struct QueueOf<'a> {
    queue: Queue,
    profiles: &'a Profiles,
    cluster: Cluster,
}

impl<'a> QueueOf<'a> {
    fn new(config: QueueConfig, profiles: &'a Profiles) -> Self {
        Self { queue: Queue::new(config), profiles, cluster: Cluster::default() }
    }

    fn at<T>(&mut self, now: Time, call: impl FnOnce(&mut Queue, &mut Plugins<'_>) -> T) -> T {
        let (profiles, cluster) = (self.profiles, &self.cluster);
        let parts = HandleParts { now, ..HandleParts::default() };
        let handle = parts.handle(cluster);
        call(&mut self.queue, &mut Plugins { profiles, handle, probe: &mut () })
    }

    /// Returns the names of all pods in the order of popping.
    fn drain(mut self) -> Value {
        std::iter::from_fn(|| self.at(Time::ZERO, |queue, plugins| queue.pop(plugins)))
            .flat_map(|entity| entity.pods().to_vec())
            .map(|queued| queued.pod.key.name.to_string())
            .collect()
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a pod with the name and priority of an entry.
fn pod(entry: &Value) -> Arc<Pod> {
    let mut pod = api::Pod::default();
    pod.metadata.name = entry["name"].as_str().unwrap_or_default().to_owned();
    pod.metadata.namespace = "default".to_owned();
    pod.metadata.uid.clone_from(&pod.metadata.name);
    pod.spec.scheduler_name = DEFAULT_SCHEDULER.to_owned();
    pod.spec.priority = entry["priority"].as_i64().and_then(|own| i32::try_from(own).ok());
    Arc::new(Pod::from_api(&pod))
}

fn backoff(case: &Value) -> Backoff {
    let seconds = |key: &str| Duration::from_secs(case[key].as_u64().unwrap_or(0));
    Backoff { initial: seconds("podInitialBackoffSeconds"), max: seconds("podMaxBackoffSeconds") }
}

fn count(value: &Value) -> u32 {
    value.as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

fn time(value: &Value) -> Result<Time, String> {
    Time::parse_rfc3339(value.as_str().unwrap_or_default())
}
