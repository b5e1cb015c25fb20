//! What others do with claims and devices.

use std::sync::Arc;

use framework::EventResource;
use serde_json::{Value, json};

use super::super::super::rules::Checked;
use super::claims::{text, users_of};
use super::{CLAIMS, DEVICES, History, Stage};
use testkit::SetJson;

impl History<'_> {
    /// Creates or deletes the class of all devices.
    pub(super) fn toggle_class(&mut self) {
        let class = json!({"metadata": {"name": "gpu", "uid": "gpu"}});
        self.known.has_class ^= true;
        let new = self.known.has_class.then(|| class.clone());
        let old = (!self.known.has_class).then_some(class);
        let object = new.clone().map(Arc::new);
        self.cluster.set_json(&EventResource::DeviceClass, "", "gpu", object);
        self.notify(EventResource::DeviceClass, old.as_ref(), new.as_ref());
    }

    /// Publishes or withdraws the devices of a node.
    pub(super) fn toggle_devices(&mut self, node: &'static str) {
        let devices: Value = DEVICES
            .iter()
            .zip(self.conditions)
            .map(|(device, (binding, failure))| match binding {
                [] => json!({"name": device}),
                _ => json!({"name": device, "bindingConditions": binding,
                    "bindingFailureConditions": failure}),
            })
            .collect();
        let slice = json!({"metadata": {"name": node, "uid": node}, "spec": {
            "driver": "d", "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}});
        let is_new = self.known.published.insert(node);
        if !is_new {
            self.known.published.remove(node);
        }
        let (old, new) = if is_new { (None, Some(slice)) } else { (Some(slice), None) };
        let object = new.clone().map(Arc::new);
        self.cluster.set_json(&EventResource::ResourceSlice, "", node, object);
        self.notify(EventResource::ResourceSlice, old.as_ref(), new.as_ref());
    }

    pub(super) fn create(&mut self, name: &str) {
        self.claims += 1;
        let body = |name: &str, count: i64| {
            json!({"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount",
                "count": count})
        };
        let request = match self.random.u8(..6) {
            0 => json!({"name": "r", "firstAvailable": [body("s0", 2), body("s1", 1)]}),
            1 | 2 => json!({"name": "r", "exactly": body("r", 2)}),
            _ => json!({"name": "r", "exactly": body("r", 1)}),
        };
        let uid = format!("uid-{name}-{}", self.claims);
        let object = json!({
            "metadata": {"namespace": "default", "name": name, "uid": uid},
            "spec": {"devices": {"requests": [request]}},
        });
        self.server.set(CLAIMS, name, Some(object));
    }

    /// Lets controllers remove users that do not exist, and deallocate a claim without users.
    pub(super) fn clean_up(&mut self, name: &str, trace: &mut Vec<String>) -> Checked {
        let Some(claim) = self.server.get(CLAIMS, name) else { return Ok(()) };
        let exists = |uid: &str| self.exists(uid);
        let users = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
        let left: Vec<_> = users.iter().filter(|own| exists(&text(&own["uid"]))).cloned().collect();
        let patch = match left.is_empty() {
            true if self.random.bool() => {
                json!({"status": {"allocation": null, "reservedFor": null, "devices": null}})
            }
            _ if users.is_empty() => return Ok(()),
            _ => json!({"status": {"reservedFor": left}}),
        };
        trace.push(format!("controllers clean up {name}: {patch}"));
        self.server.patch(CLAIMS, name, &patch);
        self.excuse(name);
        Ok(())
    }

    fn exists(&self, pod: &str) -> bool {
        self.members.iter().any(|own| own.pod.uid.to_string() == *pod)
    }

    /// Deletes a claim that is not in use, also while it is allocated, or creates one in its place.
    pub(super) fn replace_claim(&mut self, name: &'static str, trace: &mut Vec<String>) -> Checked {
        match self.server.get(CLAIMS, name) {
            None => {
                trace.push(format!("{name} is created"));
                self.create(name);
            }
            Some(claim) if !users_of(claim).iter().any(|user| self.exists(user)) => {
                trace.push(format!("{name} is deleted"));
                self.server.set(CLAIMS, name, None);
                self.excuse(name);
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Lets pods that are being bound fail because others have changed their claim.
    pub(super) fn excuse(&mut self, name: &str) {
        for member in self.members.iter_mut().filter(|own| own.claims.contains(&name)) {
            if let Stage::Binding(attempt) = &mut member.stage {
                attempt.excused = true;
            }
        }
    }

    /// Ends a pod that is not being bound. A new one comes, and others often take care of the
    /// claims of the first one.
    pub(super) fn end(&mut self, place: usize, trace: &mut Vec<String>) -> Checked {
        if matches!(self.members[place].stage, Stage::Binding(_)) {
            return Ok(());
        }
        trace.push(format!("{} ends", self.members[place].pod.key));
        let claims = self.members[place].claims.clone();
        self.members[place] = self.member();
        claims.into_iter().try_for_each(|name| match self.random.u8(..3) {
            0 => self.replace_claim(name, trace),
            1 => self.clean_up(name, trace),
            _ => Ok(()),
        })
    }

    /// Lets the driver report about the devices of a claim: some conditions are true, others are
    /// not, or are missing.
    pub(super) fn report(&mut self, name: &str, trace: &mut Vec<String>) {
        let random = &mut *self.random;
        let statuses = ["True", "True", "True", "False", "Unknown"];
        let mut conditions = Vec::new();
        for (kind, chance) in
            [("ready", 7), ("attached", 7), ("other", 5), ("broken", 2), ("gone", 2)]
        {
            if random.u8(..8) < chance {
                let status = statuses[random.usize(..statuses.len())];
                let condition =
                    json!({"type": kind, "status": status, "reason": "r", "message": "m"});
                conditions.push(condition);
            }
        }
        let all = self.random.bool();
        trace.push(format!("the driver reports about {name}: {conditions:?}, all: {all}"));
        self.report_conditions(name, &conditions.into(), all);
    }

    /// Lets the driver report that the devices of a claim are ready.
    pub(super) fn report_ready(&mut self, name: &str) {
        let ready = ["ready", "attached"].map(|kind| json!({"type": kind, "status": "True"}));
        self.report_conditions(name, &ready.into(), true);
    }

    /// Reports about all devices of a claim, or only about the first one.
    fn report_conditions(&mut self, name: &str, conditions: &Value, all: bool) {
        let Some(claim) = self.server.get(CLAIMS, name) else { return };
        let results = claim["status"]["allocation"]["devices"]["results"].as_array();
        let devices = results.into_iter().flatten().map(|result| {
            json!({"driver": result["driver"], "pool": result["pool"],
                "device": result["device"], "conditions": conditions})
        });
        let number = if all { usize::MAX } else { 1 };
        let devices: Vec<Value> = devices.take(number).collect();
        if !devices.is_empty() {
            self.server.patch(CLAIMS, name, &json!({"status": {"devices": devices}}));
        }
    }
}
