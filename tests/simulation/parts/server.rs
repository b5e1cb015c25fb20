//! The objects of an API server, one version after the other, and which version of each a watch has
//! shown.

use std::collections::BTreeMap;

use fastrand::Rng;
use framework::{Answer, Write, WriteAction, merge_patch};
use serde_json::{Value, json};

/// Resource and name. All objects with a namespace are in one.
type Name = (String, String);

/// The objects of an API server.
#[derive(Clone, Default)]
pub(super) struct Server {
    objects: BTreeMap<Name, Versions>,
    version: u64,
}

/// The versions of an object; `None` while there is none.
#[derive(Clone, Default)]
struct Versions {
    all: Vec<Option<Value>>,
    /// Number of versions that the watch has shown.
    shown: usize,
}

impl Server {
    /// Returns the newest version.
    pub(super) fn get(&self, resource: &str, name: &str) -> Option<&Value> {
        self.objects.get(&key(resource, name))?.all.last()?.as_ref()
    }

    /// Returns the version that the watch has shown.
    pub(super) fn shown(&self, resource: &str, name: &str) -> Option<&Value> {
        let Versions { all, shown } = self.objects.get(&key(resource, name))?;
        all.get(shown.checked_sub(1)?)?.as_ref()
    }

    /// Returns the version of an object that came after this one; `None` also if the object was
    /// deleted then.
    pub(super) fn after(&self, resource: &str, name: &str, version: &str) -> Option<&Value> {
        let all = &self.objects.get(&key(resource, name))?.all;
        let is_it = |own: &Option<Value>| {
            own.as_ref().is_some_and(|own| own["metadata"]["resourceVersion"] == *version)
        };
        all.get(all.iter().position(is_it)? + 1)?.as_ref()
    }

    /// Returns the newest versions of all objects of a resource.
    pub(super) fn all(&self, resource: &str) -> impl Iterator<Item = &Value> {
        let objects = self.objects.iter().filter(move |((own, _), _)| own == resource);
        objects.filter_map(|(_, versions)| versions.all.last()?.as_ref())
    }

    /// Returns the names of all objects that a resource has or had.
    pub(super) fn names(&self, resource: &str) -> impl Iterator<Item = &str> {
        let objects = self.objects.keys().filter(move |(own, _)| own == resource);
        objects.map(|(_, name)| name.as_str())
    }

    /// Creates or replaces an object; `None` deletes it.
    pub(super) fn set(&mut self, resource: &str, name: &str, object: Option<Value>) {
        self.version += 1;
        let version = self.version.to_string();
        let object = object.map(|mut object| {
            object["metadata"]["resourceVersion"] = json!(version);
            object
        });
        self.objects.entry(key(resource, name)).or_default().all.push(object);
    }

    /// Changes an object, if it exists.
    pub(super) fn patch(&mut self, resource: &str, name: &str, patch: &Value) {
        if let Some(object) = self.get(resource, name) {
            let mut new = object.clone();
            merge_patch(&mut new, patch);
            if new != *object {
                self.set(resource, name, Some(new));
            }
        }
    }

    /// Lets the watch show the next version of an object. Returns the version before and the new
    /// one; `None` if the watch has caught up.
    pub(super) fn show_next(
        &mut self,
        resource: &str,
        name: &str,
    ) -> Option<(Option<Value>, Option<Value>)> {
        let before = self.shown(resource, name).cloned();
        let versions = self.objects.get_mut(&key(resource, name))?;
        let next = versions.all.get(versions.shown)?.clone();
        versions.shown += 1;
        Some((before, next))
    }

    /// Returns an object that the watch does not show in its newest version.
    pub(super) fn lagging(&self) -> Option<(&str, &str)> {
        let mut lagging = self.objects.iter().filter(|(_, own)| own.shown < own.all.len());
        lagging.next().map(|((resource, name), _)| (&**resource, &**name))
    }

    /// Returns any of these objects.
    pub(super) fn any_lagging(&self, random: &mut Rng) -> Option<(String, String)> {
        let lagging = self.objects.iter().filter(|(_, own)| own.shown < own.all.len());
        let lagging: Vec<&Name> = lagging.map(|(name, _)| name).collect();
        random.choice(lagging).cloned()
    }

    /// Carries out a write of the scheduler.
    pub(super) fn write(&mut self, write: &Write) -> Answer {
        let (resource, name) = (&*write.resource, &*write.name);
        let stored = self.get(resource, name).cloned();
        if let WriteAction::Create(object) = &write.action {
            if stored.is_some() {
                return Answer::Conflict(format!("{resource} {name:?} already exists"));
            }
            let mut object = object.clone();
            object["metadata"]["uid"] = json!(format!("uid-{name}-{}", self.version));
            self.set(resource, name, Some(object));
            return Answer::Ok(self.get(resource, name).cloned());
        }
        let Some(stored) = stored else {
            return Answer::Gone(format!("{resource} {name:?} not found"));
        };
        let mut object = stored.clone();
        match &write.action {
            WriteAction::Delete(uid) => {
                if stored["metadata"]["uid"] != json!(uid.to_string()) {
                    return Answer::Conflict("another uid".to_owned());
                }
                match stored["metadata"]["finalizers"].as_array() {
                    Some(finalizers) if !finalizers.is_empty() => {
                        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                    }
                    _ => {
                        self.set(resource, name, None);
                        return Answer::ok();
                    }
                }
            }
            action => {
                let patch = write.body();
                for field in ["uid", "resourceVersion"] {
                    let wanted = &patch["metadata"][field];
                    if !wanted.is_null() && *wanted != stored["metadata"][field] {
                        return Answer::Conflict(format!("another {field}"));
                    }
                }
                match action {
                    WriteAction::MergePatch(_) => merge_patch(&mut object, patch),
                    _ => strategic_merge_patch(&mut object, patch),
                }
            }
        }
        if object != stored {
            self.set(resource, name, Some(object));
        }
        Answer::Ok(self.get(resource, name).cloned())
    }
}

fn key(resource: &str, name: &str) -> Name {
    (resource.to_owned(), name.to_owned())
}

/// Applies the strategic merge patches of DynamicResources: finalizers are added or removed, users
/// of a claim removed.
fn strategic_merge_patch(object: &mut Value, patch: &Value) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let removed = list(&patch["metadata"]["$deleteFromPrimitiveList/finalizers"]);
    let mut finalizers = list(&object["metadata"]["finalizers"]);
    finalizers.retain(|own| !removed.contains(own));
    for added in list(&patch["metadata"]["finalizers"]) {
        if !finalizers.contains(&added) {
            finalizers.push(added);
        }
    }
    if !finalizers.is_empty() || !object["metadata"]["finalizers"].is_null() {
        object["metadata"]["finalizers"] = finalizers.into();
    }
    for user in list(&patch["status"]["reservedFor"]) {
        if let Some(users) = object["status"]["reservedFor"].as_array_mut() {
            users.retain(|own| own["uid"] != user["uid"]);
        }
    }
}
