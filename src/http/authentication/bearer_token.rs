//! Bearer tokens, as the API server reviews them.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};

use super::super::review_cache::{Key, ReviewCache};
use super::super::reviews::{ReviewError, Reviews};
use super::User;

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Asks the API server for the users of tokens, and caches its answers.
pub(in crate::http) struct TokenReviewer {
    reviews: Reviews,
    /// The users of tokens; `None` for a token without one.
    cache: ReviewCache<Option<User>>,
    ttl: Duration,
}

impl TokenReviewer {
    pub(in crate::http) fn new(reviews: Reviews, ttl: Duration) -> Self {
        Self { reviews, cache: ReviewCache::default(), ttl }
    }

    /// Authenticates the user of the bearer token in the headers. Returns `None` without one.
    ///
    /// # Errors
    /// The token is not valid, or cannot be reviewed.
    pub(in crate::http) async fn authenticate(
        &self,
        headers: &HeaderMap,
    ) -> Result<Option<User>, String> {
        let Some(token) = bearer_token(headers) else { return Ok(None) };
        let review = self.review(token.clone());
        let user = self.cache.get(Key::of(token.as_bytes()), review, |_| self.ttl).await;
        match user.map_err(|error| error.to_string())? {
            None => Err("invalid bearer token".to_owned()),
            user => Ok(user),
        }
    }

    /// As in kube-scheduler a token that the API server rejects with a reason counts as a failed
    /// review, which is not cached.
    async fn review(&self, token: String) -> Result<Option<User>, ReviewError> {
        let spec = TokenReviewSpec { token, audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review: TokenReview = self.reviews.create(PATH, &review).await?;
        let status = review.status.unwrap_or_default();
        match (status.authenticated, status.error.filter(|reason| !reason.is_empty())) {
            (Some(true), _) => Ok(Some(status.user.unwrap_or_default().into())),
            (_, Some(reason)) => Err(ReviewError::new(reason)),
            (_, None) => Ok(None),
        }
    }
}

impl From<UserInfo> for User {
    fn from(info: UserInfo) -> Self {
        Self {
            name: info.username.unwrap_or_default(),
            uid: info.uid.unwrap_or_default(),
            groups: info.groups.unwrap_or_default(),
            extra: info.extra.unwrap_or_default(),
        }
    }
}

/// The header of a token behind the proxy of the API server, which takes the header `Authorization`
/// for itself and does not pass it on.
pub const PROXIED_AUTHORIZATION: &str = "x-loadmaster-authorization";

/// Returns the token of the `Authorization` header, or else of [`PROXIED_AUTHORIZATION`]. Other
/// schemes count as no credentials, as in kube-scheduler.
fn bearer_token(headers: &HeaderMap) -> Option<String> {
    let header = headers.get(AUTHORIZATION).or_else(|| headers.get(PROXIED_AUTHORIZATION))?;
    let header = String::from_utf8_lossy(header.as_bytes());
    let mut words = header.trim().split(' ');
    let scheme = words.next()?;
    let token = words.next().filter(|token| !token.is_empty())?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.to_owned())
}
