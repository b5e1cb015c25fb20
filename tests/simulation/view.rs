//! What a session has told of its kind, and what it must never tell.

use std::collections::BTreeMap;

use client::session::{Meta, ObjectId};
use framework::Uid;

use super::rules::{Checked, rule};

/// The objects that a session has told of, as whoever listens to it sees them.
#[derive(Debug, Default)]
pub(crate) struct View {
    objects: BTreeMap<ObjectId, (Uid, u64)>,
}

impl View {
    /// An object is told to be there: in a version newer than the last one told, and under a name
    /// that no other object has.
    ///
    /// # Errors
    /// It is not so.
    pub(crate) fn changed(&mut self, meta: &Meta) -> Checked {
        let Meta { id, uid, resource_version } = meta;
        let version: u64 = resource_version.parse().expect("versions are numbers");
        match self.objects.insert(id.clone(), (uid.clone(), version)) {
            Some((before, _)) if before != *uid => {
                Err(format!("{id} is told of while another {id} is there"))
            }
            Some((_, before)) => rule(before < version, || {
                format!("{id} is told of in version {version}, after version {before}")
            }),
            None => Ok(()),
        }
    }

    /// An object is told to be gone: one that was there.
    ///
    /// # Errors
    /// It is not so.
    pub(crate) fn deleted(&mut self, meta: &Meta) -> Checked {
        let known = self.objects.remove(&meta.id).is_some_and(|(uid, _)| uid == meta.uid);
        rule(known, || format!("{} is told to be gone and was not there", meta.id))
    }
}
