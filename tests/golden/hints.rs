//! Queueing hints: the events that plugins register, the answers of their hints, the classification
//! of updates.

use std::collections::BTreeSet;

use engine::classify::{node_updates, pod_resource, pod_updates};
use framework::{
    ActionType, ClusterEvent, EventForPod, EventObjects, EventRegistration, EventResource,
    HintResult, Node, Object, Plugin, PluginArgs, PluginGates, Pod, QueueingHint,
};
use plugins::catalogue::Entry;
use serde_json::{Map, Value, json};

use super::compare::{Comparison, Outcome};
use super::differences;
use super::level_of;
use super::setting::{Setting, is_unbuilt};
use super::world::{self, World};

/// Runs a case of any form.
pub(crate) fn run(case: &Value) -> Outcome {
    let outcome = if !case["plugin"].is_null() {
        hint(case)
    } else if !case["classify"].is_null() {
        classify(case)
    } else {
        events_to_register(case)
    };
    outcome.unwrap_or_else(Outcome::failed)
}

/// The hint of one plugin for one event.
fn hint(case: &Value) -> Result<Outcome, String> {
    let name = case["plugin"].as_str().unwrap_or_default();
    if is_unbuilt(name) {
        return Ok(Outcome::deferred(name));
    }
    let setting = Setting::of(case)?;
    let plugin = plugin(name, case)?;
    let mut world = World::new(&setting);
    world.apply_all(&case["objects"])?;
    let waiting = world::pod(&case["pod"])?;
    let objects = Objects::of(case)?;
    let event = event(&case["event"], &objects)?;
    let registered = plugin.events.iter().flatten().filter(|own| own.event.matches(&event));
    let handle = world.handle();
    let about = EventForPod::new(&waiting, objects.as_event(), &handle);
    let answers: Vec<HintResult> = registered.map(|own| own.evaluate_hint(about)).collect();
    let (actual, error) = match answers.iter().find_map(|answer| answer.as_ref().err()) {
        _ if answers.is_empty() => return Err(format!("{name} does not register {event}")),
        Some(error) => ("Error", Value::from(error.as_str())),
        None if answers.contains(&Ok(QueueingHint::Queue)) => ("Queue", Value::Null),
        None => ("QueueSkip", Value::Null),
    };
    if actual == "Queue"
        && case["expected"] == "QueueSkip"
        && let Some(difference) = difference(name, case)
    {
        let on_purpose = BTreeSet::from([difference]);
        let actual = actual.into();
        return Ok(Outcome { actual, compared: 1, on_purpose, ..Outcome::default() });
    }
    let mut comparison = Comparison::default();
    if !case["expected"].is_null() {
        comparison.equal("hint", &case["expected"], &actual.into());
        comparison.equal("error", &case["error"], &error);
    }
    Ok(comparison.finish(actual.into()))
}

/// Returns the rule that explains why the hint of a case answers Queue.
fn difference(plugin: &str, case: &Value) -> Option<&'static str> {
    let text = |key: &str| case["event"][key].as_str().unwrap_or_default();
    let arguments = arguments(plugin, &case["profile"]);
    differences::of_hint(plugin, arguments, text("resource"), text("action"))
}

/// Returns the plugin as the profile configures it.
fn plugin(name: &str, case: &Value) -> Result<Plugin, String> {
    let gates = PluginGates::at(level_of(case));
    let registry = plugins::registry();
    let factory = registry.get(name).ok_or_else(|| format!("there is no plugin {name}"))?;
    let args = match arguments(name, &case["profile"]) {
        Value::Null => PluginArgs::default(),
        given => PluginArgs::new(given.clone()),
    };
    factory(&args.with_gates(gates))
}

/// Returns the arguments in the profile; null if there are none.
fn arguments<'a>(name: &str, profile: &'a Value) -> &'a Value {
    let mut configs = profile["pluginConfig"].as_array().into_iter().flatten();
    configs.find(|config| config["name"] == name).map_or(&Value::Null, |config| &config["args"])
}

/// Decodes the objects of an event.
enum Objects {
    Pod(Option<Pod>, Option<Pod>),
    Node(Option<Node>, Option<Node>),
    Other(Option<Object>, Option<Object>),
}

impl Objects {
    fn of(case: &Value) -> Result<Self, String> {
        let present = |key: &str| Some(&case[key]).filter(|object| !object.is_null());
        let (old, new) = (present("old"), present("new"));
        let kind = new.or(old).and_then(|object| object["kind"].as_str());
        Ok(match kind {
            Some("Pod") => {
                Self::Pod(old.map(world::pod).transpose()?, new.map(world::pod).transpose()?)
            }
            Some("Node") => {
                Self::Node(old.map(world::node).transpose()?, new.map(world::node).transpose()?)
            }
            Some(kind) => {
                let decoded = |object: &Value| world::object(kind, object);
                Self::Other(old.map(decoded).transpose()?, new.map(decoded).transpose()?)
            }
            None => Self::Other(None, None),
        })
    }

    fn as_event(&self) -> EventObjects<'_> {
        match self {
            Self::Pod(old, new) => EventObjects::Pod { old: old.as_ref(), new: new.as_ref() },
            Self::Node(old, new) => EventObjects::Node { old: old.as_ref(), new: new.as_ref() },
            Self::Other(old, new) => EventObjects::Other { old: old.as_ref(), new: new.as_ref() },
        }
    }
}

fn event(event: &Value, objects: &Objects) -> Result<ClusterEvent, String> {
    let (resource, action) = (event["resource"].as_str(), event["action"].as_str());
    let resource = match objects {
        Objects::Pod(old, new) => new.as_ref().or(old.as_ref()).map(pod_resource),
        _ => RESOURCES.into_iter().find(|known| Some(known.name()) == resource),
    };
    let action = ACTIONS.into_iter().find(|known| Some(known.name()) == action);
    match (resource, action) {
        (Some(resource), Some(action)) => Ok(ClusterEvent::new(resource, action)),
        _ => Err(format!("unknown event {event}")),
    }
}

/// Returns the classification of an update.
fn classify(case: &Value) -> Result<Outcome, String> {
    let (resource, updates) = match Objects::of(case)? {
        Objects::Pod(Some(old), Some(new)) => (pod_resource(&new), pod_updates(&old, &new)),
        Objects::Node(Some(old), Some(new)) => (EventResource::Node, node_updates(&old, &new)),
        _ => return Err("an update has an old and a new pod or node".to_owned()),
    };
    let events: Value =
        updates.iter().map(|action| format!("{}/{}", resource.name(), action.name())).collect();
    let expected = match &case["events"] {
        Value::Null => Value::Null,
        events => json!({"events": events}),
    };
    Ok(Outcome::plain(&expected, json!({"events": events})))
}

/// Compares the registered events of the built plugins of the default profile: those of
/// kube-scheduler, and additional ones only if a rule explains them.
fn events_to_register(case: &Value) -> Result<Outcome, String> {
    let mut actual = Map::new();
    let mut comparison = Comparison::default();
    let mut on_purpose = BTreeSet::new();
    let recorded = &case["eventsToRegister"];
    let is_recorded = |entry: &&Entry| entry.is_built() && entry.is_default();
    for entry in plugins::catalogue::ALL.iter().filter(is_recorded) {
        let of_level = json!({ "level": case["level"] });
        let events = plugin(entry.name, &of_level)?.events.unwrap_or_default();
        let own: BTreeSet<Told> = events.iter().flat_map(told).collect();
        let wanted: BTreeSet<Told> = recorded_events(&recorded[entry.name]).collect();
        if !recorded.is_null() {
            let mut own = own;
            own.retain(|told| {
                let (resource, action, _) = told;
                let beyond = !wanted.contains(told);
                let explained = differences::of_registration(entry.name, resource, action);
                on_purpose.extend(explained.filter(|_| beyond));
                !beyond || explained.is_none()
            });
            comparison.equal(entry.name, &json!(wanted), &json!(own));
        }
        if !events.is_empty() {
            let events = events.iter().map(registration).collect();
            actual.insert(entry.name.to_owned(), sorted(events));
        }
    }
    let unbuilt = recorded.as_object().into_iter().flatten().filter(|(name, _)| is_unbuilt(name));
    unbuilt.for_each(|(name, _)| comparison.defer(name));
    let outcome = comparison.finish(json!({"eventsToRegister": actual}));
    Ok(Outcome { on_purpose, ..outcome })
}

/// A registered event of a plugin: resource, action, and whether it has a hint.
type Told = (String, String, bool);

fn told(registered: &EventRegistration) -> Vec<Told> {
    recorded_events(&json!([registration(registered)])).collect()
}

fn recorded_events(events: &Value) -> impl Iterator<Item = Told> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    events.as_array().into_iter().flatten().flat_map(move |event| {
        let actions = event["actions"].as_array().into_iter().flatten();
        let has_hint = event["hasHint"] == true;
        actions.map(move |action| (text(&event["resource"]), text(action), has_hint))
    })
}

fn registration(registered: &EventRegistration) -> Value {
    let ClusterEvent { resource, action, .. } = &registered.event;
    let names: Value = ACTIONS
        .iter()
        .filter(|known| action.intersects(**known))
        .map(|known| known.name())
        .filter(|name| is_told(resource, name))
        .collect();
    json!({
        "resource": resource.name(),
        "actions": names,
        "hasHint": registered.hint.is_some(),
    })
}

/// Whether the table has an action for a resource: updates of nodes and pods are named by the
/// change, those of other kinds as a whole.
fn is_told(resource: &EventResource, action: &str) -> bool {
    match (resource, action) {
        (_, "Add" | "Delete") => true,
        (EventResource::Node, action) => action.starts_with("UpdateNode"),
        (EventResource::Pod, action) => action.starts_with("UpdatePod"),
        (_, action) => action == "Update",
    }
}

/// The order of registrations is irrelevant.
fn sorted(mut events: Vec<Value>) -> Value {
    events.sort_by_cached_key(Value::to_string);
    events.into()
}

const ACTIONS: [ActionType; 14] = [
    ActionType::ADD,
    ActionType::DELETE,
    ActionType::UPDATE_NODE_ALLOCATABLE,
    ActionType::UPDATE_NODE_LABEL,
    ActionType::UPDATE_NODE_TAINT,
    ActionType::UPDATE_NODE_CONDITION,
    ActionType::UPDATE_NODE_ANNOTATION,
    ActionType::UPDATE_NODE_DECLARED_FEATURE,
    ActionType::UPDATE_POD_LABEL,
    ActionType::UPDATE_POD_SCALE_DOWN,
    ActionType::UPDATE_POD_TOLERATION,
    ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
    ActionType::UPDATE,
];

const RESOURCES: [EventResource; 12] = [
    EventResource::Pod,
    EventResource::Node,
    EventResource::PersistentVolume,
    EventResource::PersistentVolumeClaim,
    EventResource::CsiNode,
    EventResource::CsiDriver,
    EventResource::VolumeAttachment,
    EventResource::CsiStorageCapacity,
    EventResource::StorageClass,
    EventResource::ResourceClaim,
    EventResource::ResourceSlice,
    EventResource::DeviceClass,
];
