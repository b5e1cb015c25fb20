//! Authorization: decides whether a caller may access a path.

mod path;
mod subject_access_review;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::ResourceAttributes;

pub(super) use self::path::AlwaysAllowPaths;
pub(super) use self::subject_access_review::{Decision, SubjectAccessReviewer};

use super::authentication::User;
use super::reviews::ReviewError;

/// The settings of authorization.
#[derive(Debug, Clone)]
pub struct AuthorizationOptions {
    /// Kubeconfig for SubjectAccessReviews (`--authorization-kubeconfig`).
    pub kubeconfig: Option<PathBuf>,
    /// Paths that need no permission (`--authorization-always-allow-paths`).
    pub always_allow_paths: Vec<String>,
    /// Time for which a permission is cached (`--authorization-webhook-cache-authorized-ttl`).
    pub authorized_ttl: Duration,
    /// Time for which a refusal is cached (`--authorization-webhook-cache-unauthorized-ttl`).
    pub unauthorized_ttl: Duration,
}

/// The group that may access every path.
const MASTERS: &str = "system:masters";

/// The authorizers, in the order of kube-scheduler.
pub(super) struct Authorizer {
    pub(super) always_allow: AlwaysAllowPaths,
    pub(super) reviewer: SubjectAccessReviewer,
}

impl Authorizer {
    /// Decides whether the user may access the path. `verb` is the HTTP method in lower case.
    ///
    /// # Errors
    /// The API server did not review the access.
    pub(super) async fn authorize(
        &self,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<Decision, ReviewError> {
        if user.groups.iter().any(|group| group == MASTERS) || self.always_allow.allow(path) {
            return Ok(Decision::Allowed);
        }
        self.reviewer.review(user, verb, path).await
    }

    /// Decides whether the user may access the resource. Paths that need no permission do not
    /// matter here.
    ///
    /// # Errors
    /// The API server did not review the access.
    pub(super) async fn authorize_resource(
        &self,
        user: &User,
        resource: ResourceAttributes,
    ) -> Result<Decision, ReviewError> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(Decision::Allowed);
        }
        self.reviewer.review_resource(user, resource).await
    }
}
