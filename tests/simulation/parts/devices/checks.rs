//! Comparisons with the model.

use std::collections::BTreeSet;

use framework::{Command, Status};
use serde_json::Value;

use super::super::super::rules::{Checked, rule};
use super::super::filters::NODES;
use super::super::server::Server;
use super::claims::{counts_of, devices_of, is_allocated, users_of};
use super::known::Verdict;
use super::{CLAIMS, History, Member, Stage};

impl History<'_> {
    /// Compares the verdicts about a pod with those of the model.
    pub(super) fn compare(&mut self) -> Checked {
        let Some(member) = self.random.choice(&self.members) else { return Ok(()) };
        if !matches!(member.stage, Stage::Pending) {
            return Ok(());
        }
        let (_, found) = self.filter(&member.pod);
        for (place, node) in NODES.into_iter().enumerate() {
            let now = self.parts.now;
            let expected = self.known.verdict(&self.server, &member.claims, node, now);
            let message = match &found {
                Ok(statuses) => statuses[place].message(),
                Err(status) => format!("PreFilter: {}", status.message()),
            };
            let agrees = match expected {
                Verdict::Unusable => found.as_ref().is_err_and(Status::is_rejection),
                Verdict::Lacks => message == "cannot allocate all claims",
                Verdict::Unavailable => message == "resourceclaim not available on the node",
                Verdict::Fits => message.is_empty(),
            };
            rule(agrees, || {
                format!(
                    "{} on {node}: {expected:?}, and the plugin answers {message:?}",
                    member.pod.key
                )
            })?;
        }
        if let Some(pre_enqueue) = &self.plugin.pre_enqueue {
            let status = pre_enqueue.pre_enqueue(&member.pod, &self.handle());
            let is_usable = member.claims.iter().all(|name| {
                let claim = self.known.latest(&self.server, name);
                claim.is_some_and(|own| own["metadata"]["deletionTimestamp"].is_null())
            });
            rule(status.is_success() == is_usable, || {
                format!("{} is queued: {}", member.pod.key, status.message())
            })?;
        }
        // The attempt is not one of the history: no pod is requeued by it.
        for command in self.parts.commands.take() {
            if let Command::SetTimer { at, .. } = command {
                self.timer = Some(at);
            }
        }
        Ok(())
    }

    /// Checks what the server has: no device belongs to two claims, allocated claims are protected,
    /// and bound pods have their devices.
    pub(super) fn check_server(&self) -> Checked {
        let mut devices = BTreeSet::new();
        for claim in self.server.all(CLAIMS) {
            let finalizers = claim["metadata"]["finalizers"].as_array();
            let is_protected = finalizers.is_some_and(|own| !own.is_empty());
            rule(is_protected || !is_allocated(claim), || format!("{claim} is not protected"))?;
            for device in devices_of(&claim["status"]["allocation"]) {
                rule(devices.insert(device.clone()), || format!("{device} is allocated twice"))?;
            }
        }
        (0..self.members.len()).try_for_each(|place| self.has_its_devices(&self.server, place))
    }

    /// Checks that no request that is late takes the devices of a pod that is bound just now.
    pub(super) fn keeps_its_devices(&self, place: usize) -> Checked {
        self.has_its_devices(&self.server, place)?;
        self.late.iter().try_for_each(|(write, _)| {
            let mut server = self.server.clone();
            server.write(write);
            self.has_its_devices(&server, place).map_err(|text| format!("{text} after {write:?}"))
        })
    }

    fn has_its_devices(&self, server: &Server, place: usize) -> Checked {
        let Member { pod, claims, stage } = &self.members[place];
        let Stage::Bound(node) = stage else { return Ok(()) };
        for name in claims {
            let claim = server.get(CLAIMS, name).unwrap_or(&Value::Null);
            let devices = devices_of(&claim["status"]["allocation"]);
            let is_right = counts_of(claim).contains(&devices.len())
                && devices.iter().all(|device| device.split('/').next() == Some(*node))
                && users_of(claim).contains(&pod.uid.to_string())
                && claim["metadata"]["finalizers"].is_array();
            rule(is_right, || format!("{} is bound to {node} with {claim}", pod.key))?;
        }
        Ok(())
    }
}
