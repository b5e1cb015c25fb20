//! The lanes of pods.

use std::sync::Arc;

use framework::{Pod, Template};

use crate::profile::Profile;

/// The pods of one template and profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    scheduler_name: Arc<str>,
    template: Template,
}

impl Lane {
    /// Returns the lane of `pod`; `None` if its template does not say all about it.
    pub(crate) fn of(profile: &Profile, pod: &Pod) -> Option<Self> {
        let scheduler_name = profile.scheduler_name.clone();
        Template::describes(pod).then(|| Self { scheduler_name, template: Template::of(pod) })
    }
}

#[cfg(test)]
impl Lane {
    /// Returns the lane of the template of a pod in some profile.
    pub(super) fn of_template_for_test(pod: &Pod) -> Self {
        Self { scheduler_name: "loadmaster".into(), template: Template::of(pod) }
    }
}
