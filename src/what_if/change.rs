//! A change as it is written: documents, manifests, and another configuration.

use anyhow::{Context, bail};
use dry_run::what_if::{Changes, Limits, Objection};

use super::{Application, Changed, dump_of};
use crate::config::{self, Configuration, Gates};
use crate::wire::{self, Fault, Faults, Object, Origin, Validation, Wanted};

/// `apiVersion` and kind of documents with changes.
const VERSION: &str = "whatif.loadmaster.io/v1";
const KIND: &str = "Changes";
/// The group of configurations.
const CONFIG_GROUP: &str = "kubescheduler.config.k8s.io";

/// A change of a cluster.
pub struct Change {
    /// The objects that the documents come from.
    objects: Vec<Object>,
    pub(super) documents: Vec<Changes>,
    manifests: Vec<Object>,
    configuration: Option<Object>,
}

impl Change {
    /// Sorts the objects of a change.
    ///
    /// # Errors
    /// A document cannot be decoded, changes nothing, or is of an unknown version.
    pub(crate) fn of(objects: Vec<Object>) -> Result<Self, Faults> {
        let group = |object: &Object| object.api_version.split('/').next().map(str::to_owned);
        let own = VERSION.split('/').next();
        let mut change = Self {
            objects: Vec::new(),
            documents: Vec::new(),
            manifests: Vec::new(),
            configuration: None,
        };
        let mut faults = Vec::new();
        for object in objects {
            let group = group(&object);
            if group.as_deref() == Some(CONFIG_GROUP) {
                if change.configuration.is_some() {
                    faults.push(object.fault("is the second configuration"));
                }
                change.configuration = Some(object);
            } else if group.as_deref() != own {
                change.manifests.push(object);
            } else if (object.api_version.as_str(), object.kind.as_str()) != (VERSION, KIND) {
                let message = format!("{}: expected {KIND} of {VERSION}", object.api_version);
                faults.push(object.fault(&message));
            } else {
                match object.decode::<Changes>() {
                    Ok(changes) if changes.is_empty() => {
                        faults.push(object.fault("changes nothing"));
                    }
                    Ok(changes) => {
                        change.documents.push(changes);
                        change.objects.push(object);
                    }
                    Err(fault) => faults.push(fault),
                }
            }
        }
        if faults.is_empty() { Ok(change) } else { Err(Faults(faults)) }
    }

    /// Fails if there is no change.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn check_not_empty(&self) -> anyhow::Result<()> {
        let is_empty =
            self.documents.is_empty() && self.manifests.is_empty() && self.configuration.is_none();
        if is_empty {
            bail!("the change has no object: expected manifests, or {KIND} of {VERSION}");
        }
        Ok(())
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.documents.len() + self.manifests.len()
    }

    /// Returns the manifests.
    pub(super) fn manifests(&self) -> Vec<Object> {
        self.manifests.clone()
    }

    /// Returns the configuration of the run with the change, if the change has one.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub(crate) fn configuration(&self, gates: &Gates) -> anyhow::Result<Option<Configuration>> {
        let Some(object) = &self.configuration else { return Ok(None) };
        let loaded = config::load(&object.value.to_string(), gates);
        Ok(Some(loaded.with_context(|| object.fault("is invalid").to_string())?.config))
    }

    /// Returns the errors that name the documents.
    pub(super) fn faults(&self, objections: Vec<Objection>) -> Faults {
        let fault = |own: Objection| -> Fault {
            self.objects[own.document].fault(&format!("{}: {}", own.field, own.message))
        };
        Faults(objections.into_iter().map(fault).collect())
    }

    /// Reads a dump, and applies the change to it.
    ///
    /// # Errors
    /// The dump cannot be read, or the change cannot be made.
    pub(crate) fn of_dump(
        &self,
        dump: &[Origin],
        wanted: &Wanted,
        validation: Validation,
    ) -> Result<Changed, Faults> {
        let mut application = Application::new(self, Limits::default());
        let (before, after) =
            wire::read_with_change(dump, self.manifests(), wanted, validation, &mut application)?;
        let Application { applied, mut made, .. } = application;
        // The changed dump is made first.
        let (before_made, after_made) = (made.pop(), made.pop());
        Ok(Changed {
            before: dump_of(before, before_made.unwrap_or_default()),
            after: dump_of(after, after_made.unwrap_or_default()),
            applied,
        })
    }
}
