//! Permissions, as the API server reviews them.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};

use super::super::authentication::User;
use super::super::review_cache::{Key, ReviewCache};
use super::super::reviews::{ReviewError, Reviews};

const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Whether a user may access a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) enum Decision {
    Allowed,
    /// The API server denies the access. The reason may be empty.
    Denied(String),
    /// The API server does not allow the access. The reason may be empty.
    NoOpinion(String),
}

/// Asks the API server for permissions, and caches its decisions.
pub(in crate::http) struct SubjectAccessReviewer {
    reviews: Reviews,
    cache: ReviewCache<Decision>,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
}

impl SubjectAccessReviewer {
    pub(in crate::http) fn new(
        reviews: Reviews,
        authorized_ttl: Duration,
        unauthorized_ttl: Duration,
    ) -> Self {
        Self { reviews, cache: ReviewCache::default(), authorized_ttl, unauthorized_ttl }
    }

    /// Returns whether the user may access the path.
    pub(super) async fn review(
        &self,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<Decision, ReviewError> {
        self.decide(spec(user, verb, path)).await
    }

    /// Returns whether the user may access the resource.
    pub(super) async fn review_resource(
        &self,
        user: &User,
        resource: ResourceAttributes,
    ) -> Result<Decision, ReviewError> {
        let spec = SubjectAccessReviewSpec {
            non_resource_attributes: None,
            resource_attributes: Some(resource),
            ..spec(user, "", "")
        };
        self.decide(spec).await
    }

    async fn decide(&self, spec: SubjectAccessReviewSpec) -> Result<Decision, ReviewError> {
        let key = Key::of(&serde_json::to_vec(&spec).map_err(ReviewError::new)?);
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let decide = async {
            let review: SubjectAccessReview = self.reviews.create(PATH, &review).await?;
            Ok(decision(review))
        };
        let ttl = |decision: &Decision| match decision {
            Decision::Allowed => self.authorized_ttl,
            Decision::Denied(_) | Decision::NoOpinion(_) => self.unauthorized_ttl,
        };
        self.cache.get(key, decide, ttl).await
    }
}

fn spec(user: &User, verb: &str, path: &str) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: Some(user.name.clone()),
        uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
        groups: Some(user.groups.clone()),
        extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(path.to_owned()),
            verb: Some(verb.to_owned()),
        }),
        resource_attributes: None,
    }
}

/// Returns the decision of a review. A denial goes before a permission, as in kube-scheduler.
fn decision(review: SubjectAccessReview) -> Decision {
    let status = review.status.unwrap_or_default();
    let reason = status.reason.unwrap_or_default();
    match (status.denied, status.allowed) {
        (Some(true), _) => Decision::Denied(reason),
        (_, true) => Decision::Allowed,
        (_, false) => Decision::NoOpinion(reason),
    }
}
