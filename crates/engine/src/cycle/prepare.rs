//! PreFilter: prepares the plugins, and restricts the search.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{AttemptMut, Code, ExtensionPoint, NodeBits, PluginName, PreFilterResult, Status};

use super::diagnosis::Diagnosis;
use super::error::ScheduleError;
use super::subject::Subject;
use crate::plugin_call::{HasCode, call_plugin};

/// The result of PreFilter: where to search.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// The nodes to which PreFilter plugins restrict the search.
    restriction: Option<NodeBits>,
    /// These plugins.
    pub(crate) restricting: Vec<PluginName>,
}

impl HasCode for Prepared {
    fn code(&self) -> Code {
        Code::Success
    }
}

/// The names to which PreFilter plugins restrict the search, and these plugins.
#[derive(Default)]
struct Restriction {
    names: Option<BTreeSet<Arc<str>>>,
    plugins: Vec<PluginName>,
}

impl Restriction {
    /// Adds the names of one plugin.
    fn narrow(
        &mut self,
        plugin: &PluginName,
        result: PreFilterResult,
        subject: &Subject<'_, '_>,
    ) -> Result<(), ScheduleError> {
        let Some(mut names) = result.node_names else { return Ok(()) };
        if let Some(before) = &self.names {
            names.retain(|name| before.contains(name));
        }
        self.plugins.push(plugin.clone());
        if names.is_empty() {
            return Err(subject.rejected(Diagnosis::by_contradiction(self.plugins.clone())));
        }
        self.names = Some(names);
        Ok(())
    }

    fn prepared(self, subject: &Subject<'_, '_>) -> Prepared {
        let cluster = subject.cluster();
        let restriction = self.names.map(|names| {
            let mut nodes: NodeBits =
                names.iter().filter_map(|name| cluster.node_named(name)).collect();
            subject.within.into_iter().for_each(|within| nodes.intersect(within));
            nodes
        });
        Prepared { restriction, restricting: self.plugins }
    }
}

impl Prepared {
    /// Runs the PreFilter plugins.
    ///
    /// # Errors
    /// A plugin rejects the pod or fails, or several leave no node.
    pub(crate) fn of(subject: &mut Subject<'_, '_>) -> Result<Self, ScheduleError> {
        subject.measure(ExtensionPoint::PreFilter, Self::unmeasured)
    }

    /// Runs the PreFilter plugins beside the decision.
    ///
    /// # Errors
    /// The same errors as [`of`](Self::of).
    pub(crate) fn unmeasured(subject: &mut Subject<'_, '_>) -> Result<Self, ScheduleError> {
        let mut restriction = Restriction::default();
        let (mut rejection, mut skipped) = (None, BTreeSet::new());
        for plugin in &subject.profile.pre_filter {
            let handle = subject.handle();
            let attempt = AttemptMut::new(&mut subject.state, subject.pod, &handle);
            let answer =
                call_plugin(ExtensionPoint::PreFilter, &plugin.name, subject.cx.probe, || {
                    plugin.plugin.pre_filter(attempt)
                });
            let status = match answer.unwrap_or_else(Err) {
                Ok(result) => {
                    restriction.narrow(&plugin.name, result, subject)?;
                    continue;
                }
                Err(status) => status.by(&plugin.name),
            };
            match status.code() {
                Code::Success => {}
                Code::Skip => {
                    skipped.insert(plugin.name.clone());
                }
                Code::UnschedulableAndUnresolvable => {
                    return Err(subject.rejected(Diagnosis::by_pre_filter(status)));
                }
                Code::Unschedulable => rejection = Some(status),
                _ => {
                    let text =
                        format!("running PreFilter plugin {:?}: {}", plugin.name, status.message());
                    return Err(ScheduleError::Error(Status::error(text).by(&plugin.name)));
                }
            }
        }
        subject.state.skip_filters(skipped);
        let Some(status) = rejection else { return Ok(restriction.prepared(subject)) };
        let mut diagnosis = Diagnosis::by_pre_filter(status);
        diagnosis.record_restriction(&restriction.plugins);
        Err(subject.rejected(diagnosis))
    }

    /// Returns the nodes to search.
    pub(crate) fn nodes<'s>(&'s self, subject: &Subject<'s, '_>) -> &'s NodeBits {
        let restriction = self.restriction.as_ref().or(subject.within);
        restriction.unwrap_or_else(|| subject.cluster().nodes())
    }

    /// Whether all nodes are to be searched.
    pub(crate) fn is_everywhere(&self, subject: &Subject<'_, '_>) -> bool {
        self.restriction.is_none() && subject.within.is_none()
    }

    /// Returns the verdict on nodes to which PreFilter does not restrict the search.
    pub(crate) fn outside(&self) -> Option<Status> {
        self.restriction.as_ref()?;
        let mut names: Vec<&str> = self.restricting.iter().map(AsRef::as_ref).collect();
        names.sort_unstable();
        let names = names.join(" ");
        Some(Status::unresolvable(format!("node(s) didn't satisfy plugin(s) [{names}]")))
    }
}
