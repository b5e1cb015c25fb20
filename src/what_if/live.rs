//! A change of what a scheduler knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use dry_run::cluster::{Error, Question};
use dry_run::what_if::{self, Limits, Sides, WhatIf};
use dry_run::{Limit, Settings};
use explain::ClusterCopy;
use framework::{ObjectKey, Pod, PodKey, Registry};
use serde_json::value::{RawValue, to_raw_value};

use super::{Application, Change, dump_of, settings};
use crate::config::{Configuration, Gates};
use crate::wire::{self, Input, Owner, PodObject, Validation, Wanted, WatchedObject};

/// Maximum number of objects in a change.
const OBJECTS: usize = 10_000;
/// Maximum numbers of pods and nodes that a change adds.
const LIMITS: Limits = Limits { pods: 10_000, nodes: 5_000 };

/// A reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The change cannot be read, or cannot be made.
    #[error("{0}")]
    Invalid(String),
    /// The change is too large.
    #[error("{0}")]
    TooLarge(String),
    /// The dry run took too long.
    #[error("the dry run takes too long")]
    OutOfTime,
    /// The configuration of the scheduler cannot be used again.
    #[error("{0}")]
    Failed(String),
}

/// Tries changes under the configuration of a scheduler, with plugins of their own.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The configuration of the scheduler.
    pub config: Configuration,
    /// The plugins that it can enable.
    pub registry: Arc<Registry>,
    /// The feature gates, for another configuration.
    pub gates: Gates,
    /// Whether 0 percent of the nodes means an adaptive percentage.
    pub adaptive_sampling: bool,
    /// Whether pods of scheduler names without a profile are scheduled, too, by the first profile.
    pub every_scheduler: bool,
}

/// How a change is tried.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Seed of random choices.
    pub seed: u64,
    /// Whether the answer has the nodes.
    pub with_nodes: bool,
    /// Whether unknown fields of manifests are accepted.
    pub ignores_unknown: bool,
    /// The signal that ends the dry run early.
    pub limit: Limit,
}

impl Trial {
    /// Reads a change: documents in YAML, or JSON.
    ///
    /// # Errors
    /// The change cannot be read, or has too many objects.
    pub fn read(text: String) -> Result<Change, Refusal> {
        let invalid = |error: &dyn ToString| Refusal::Invalid(error.to_string());
        let objects = wire::objects_of("the change", text).map_err(|error| invalid(&error))?;
        let change = Change::of(objects).map_err(|error| invalid(&error))?;
        change.check_not_empty().map_err(|error| invalid(&error))?;
        if change.len() > OBJECTS {
            let message = format!("the change has {} objects of at most {OBJECTS}", change.len());
            return Err(Refusal::TooLarge(message));
        }
        Ok(change)
    }

    /// Tries a change of a copy of the cluster.
    ///
    /// # Errors
    /// The change cannot be made, is too large, or takes too long.
    pub fn answer(
        &self,
        copy: ClusterCopy,
        change: &Change,
        options: Options,
    ) -> Result<WhatIf, Refusal> {
        let failed = |error: &dyn ToString| Refusal::Failed(error.to_string());
        let invalid = |error: String| Refusal::Invalid(error);
        let other = change.configuration(&self.gates).map_err(|own| invalid(format!("{own:#}")))?;
        let own_wanted = wanted(&self.config, &self.registry).map_err(|error| failed(&error))?;
        let mut all_wanted = own_wanted.clone();
        let mut notes = Vec::new();
        if let Some(other) = &other {
            let wanted = wanted(other, &self.registry).map_err(invalid)?;
            notes.extend(wanted.missing_from(&own_wanted).map(|kind| {
                format!("the other configuration reads {kind}, which this scheduler does not watch")
            }));
            all_wanted.extend(wanted);
        }
        let own = self.config.extenders_not_asked();
        notes.extend(own.or_else(|| other.as_ref().and_then(Configuration::extenders_not_asked)));
        let known = known(copy);
        let before = dump_of(known.clone(), Default::default());
        let mut application = Application::new(change, LIMITS);
        let validation =
            if options.ignores_unknown { Validation::Ignore } else { Validation::Strict };
        let manifests = change.manifests();
        let after = wire::with_change(known, manifests, &all_wanted, validation, &mut application);
        let after = after.map_err(|faults| invalid(faults.to_string()))?;
        let Application { applied, mut made, .. } = application;
        let made = made.pop().unwrap_or_default();
        if made.is_full {
            let message = format!("the change makes more than {} pods", LIMITS.pods);
            return Err(Refusal::TooLarge(message));
        }
        let after = dump_of(after, made);
        notes.extend(after.other_kinds.iter().map(|(kind, count)| {
            let have = if *count == 1 { "has" } else { "have" };
            format!("{count} {kind} of the change {have} no effect: no plugin reads the kind")
        }));
        let question = |config: &Configuration| -> Result<Question, String> {
            let config = config.clone();
            let settings = settings(config, &self.registry, options.seed, self.adaptive_sampling);
            let settings = settings.map_err(|error| error.to_string())?;
            let settings = Settings { limit: options.limit.clone(), ..settings };
            let names = settings.profiles.iter().filter(|_| !self.every_scheduler);
            Ok(Question {
                scheduler_names: names.map(|profile| profile.scheduler_name.clone()).collect(),
                settings,
                explain: Vec::new(),
                explain_left: false,
            })
        };
        let questions = Sides {
            before: question(&self.config).map_err(Refusal::Failed)?,
            after: question(other.as_ref().unwrap_or(&self.config)).map_err(invalid)?,
        };
        let mut answer =
            what_if::answer(before, after, applied, &questions).map_err(|error| match error {
                Error::OutOfTime => Refusal::OutOfTime,
                other => Refusal::Failed(other.to_string()),
            })?;
        answer.warnings.extend(notes);
        if !options.with_nodes {
            answer.nodes = None;
        }
        Ok(answer)
    }
}

fn wanted(config: &Configuration, registry: &Registry) -> Result<Wanted, String> {
    let profiles = config.build_profiles(registry).map_err(|error| error.to_string())?;
    Ok(Wanted::of(&profiles))
}

/// Returns what a scheduler knows. A pod that was placed while the copy was made counts as last
/// seen.
fn known(copy: ClusterCopy) -> Input {
    let (nodes, copied, objects) = copy.into_parts();
    let mut places: BTreeMap<PodKey, usize> = BTreeMap::new();
    let mut pods: Vec<PodObject> = Vec::with_capacity(copied.len());
    for pod in copied {
        let owner = pod.controller.as_ref().map(|controller| Owner {
            kind: controller.kind.name().into(),
            name: controller.name.as_ref().into(),
        });
        let key = pod.key.clone();
        let object = PodObject { pod: Pod::clone(&pod), raw: None, created: None, owner };
        match places.get(&key) {
            Some(place) => pods[*place] = object,
            None => {
                // Only pods without a node are copied a second time.
                if pod.node_name.is_none() {
                    places.insert(key, pods.len());
                }
                pods.push(object);
            }
        }
    }
    let objects = objects.into_iter().filter_map(|stored| {
        let raw: Box<RawValue> = to_raw_value(&*stored.json()).ok()?;
        let ObjectKey { kind, namespace, name } = stored.key().clone();
        Some(WatchedObject { kind, namespace, name, object: raw.into() })
    });
    Input { nodes, pods, objects: objects.collect(), ..Input::default() }
}
