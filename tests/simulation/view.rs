//! The objects that a reflector has reported, and the rules for its reports.

use std::collections::BTreeMap;

use control::reflector::{NamespacedName, ObjectMeta};
use framework::Uid;

use super::rules::{Checked, rule};

/// The objects according to the reports of a reflector.
#[derive(Debug, Default)]
pub(crate) struct View {
    objects: BTreeMap<NamespacedName, (Uid, u64)>,
}

impl View {
    /// Applies a reported update. The version must be newer than the reported one, and no other
    /// object may have the name.
    ///
    /// # Errors
    /// The report breaks a rule.
    pub(crate) fn changed(&mut self, meta: &ObjectMeta) -> Checked {
        let ObjectMeta { key, uid, resource_version } = meta;
        let version: u64 = resource_version.parse().expect("versions are numbers");
        match self.objects.insert(key.clone(), (uid.clone(), version)) {
            Some((before, _)) if before != *uid => {
                Err(format!("{key} is reported while another {key} exists"))
            }
            Some((_, before)) => rule(before < version, || {
                format!("{key} is reported in version {version} after version {before}")
            }),
            None => Ok(()),
        }
    }

    /// Applies a reported deletion. The object must have been reported.
    ///
    /// # Errors
    /// The report breaks a rule.
    pub(crate) fn deleted(&mut self, meta: &ObjectMeta) -> Checked {
        let known = self.objects.remove(&meta.key).is_some_and(|(uid, _)| uid == meta.uid);
        rule(known, || format!("{} is reported as deleted but was not known", meta.key))
    }
}
