//! Metrics of the authentication and authorization of callers, under the names of the library that
//! kube-scheduler's endpoints use.

use std::time::Duration;

use super::buckets;
use super::family::{HistogramVec, IntCounterVec};
use super::status_code;
use super::table::{ALPHA, Declaration, Table};

/// The metrics of callers of the endpoints, and of the reviews that their credentials need.
#[derive(Debug, Clone)]
pub struct DelegatedAuth {
    authentication_requests: IntCounterVec,
    authentication_latency: HistogramVec,
    authorization_requests: IntCounterVec,
    authorization_latency: HistogramVec,
    users: IntCounterVec,
    authentication_attempts: IntCounterVec,
    authentication_duration: HistogramVec,
    authorization_attempts: IntCounterVec,
    authorization_duration: HistogramVec,
}

/// The result of the authentication of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// The caller has this user name, which may be `system:anonymous`.
    Success(&'a str),
    /// The request has no credentials that an authenticator knows.
    Failure,
    /// The credentials are invalid, or could not be checked.
    Error,
}

/// The result of the authorization of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authorization {
    /// The caller may make the request.
    Allowed,
    /// The caller may not make the request.
    Denied,
    /// No authorizer decides on the request, so it is refused.
    NoOpinion,
    /// The authorization could not be checked.
    Error,
}

impl DelegatedAuth {
    pub(super) fn register(table: &mut Table) -> Self {
        Self {
            authentication_requests: table.counters(Declaration {
                name: "apiserver_delegated_authn_request_total",
                labels: &["code"],
                help: "TokenReviews, by status of the response.",
                ..ALPHA
            }),
            authentication_latency: table.histograms(
                Declaration {
                    name: "apiserver_delegated_authn_request_duration_seconds",
                    labels: &["code"],
                    help: "Time of TokenReviews, by status of the response.",
                    ..ALPHA
                },
                buckets::DELEGATED_AUTH,
            ),
            authorization_requests: table.counters(Declaration {
                name: "apiserver_delegated_authz_request_total",
                labels: &["code"],
                help: "SubjectAccessReviews, by status of the response.",
                ..ALPHA
            }),
            authorization_latency: table.histograms(
                Declaration {
                    name: "apiserver_delegated_authz_request_duration_seconds",
                    labels: &["code"],
                    help: "Time of SubjectAccessReviews, by status of the response.",
                    ..ALPHA
                },
                buckets::DELEGATED_AUTH,
            ),
            users: table.counters(Declaration {
                name: "authenticated_user_requests",
                labels: &["username"],
                help: "Requests of authenticated callers, by group of user names.",
                page: "`promtool check metrics` misses `_total` in this name",
                ..ALPHA
            }),
            authentication_attempts: table.counters(Declaration {
                name: "authentication_attempts",
                labels: &["result"],
                help: "Authentications of callers, by result.",
                page: "`promtool check metrics` misses `_total` in this name",
                ..ALPHA
            }),
            authentication_duration: table.histograms(
                Declaration {
                    name: "authentication_duration_seconds",
                    labels: &["result"],
                    help: "Time of authentications of callers, by result.",
                    ..ALPHA
                },
                buckets::attempt(),
            ),
            authorization_attempts: table.counters(Declaration {
                name: "authorization_attempts_total",
                labels: &["result"],
                help: "Authorizations of callers, by result.",
                ..ALPHA
            }),
            authorization_duration: table.histograms(
                Declaration {
                    name: "authorization_duration_seconds",
                    labels: &["result"],
                    help: "Time of authorizations of callers, by result.",
                    ..ALPHA
                },
                buckets::attempt(),
            ),
        }
    }

    /// Records a TokenReview: the status of the response, if there was one, and the time that it
    /// took.
    pub fn token_review(&self, status: Option<u16>, took: Duration) {
        let code = status_code(status);
        self.authentication_requests.with_label_values(&[code.as_str()]).inc();
        self.authentication_latency.with_label_values(&[code]).observe(took.as_secs_f64());
    }

    /// Records a SubjectAccessReview: the status of the response, if there was one, and the time
    /// that it took.
    pub fn subject_access_review(&self, status: Option<u16>, took: Duration) {
        let code = status_code(status);
        self.authorization_requests.with_label_values(&[code.as_str()]).inc();
        self.authorization_latency.with_label_values(&[code]).observe(took.as_secs_f64());
    }

    /// Records the authentication of a caller.
    pub fn authenticated(&self, result: Authentication<'_>, took: Duration) {
        let result = match result {
            Authentication::Success(user) => {
                self.users.with_label_values(&[user_group(user)]).inc();
                "success"
            }
            Authentication::Failure => "failure",
            Authentication::Error => "error",
        };
        self.authentication_attempts.with_label_values(&[result]).inc();
        self.authentication_duration.with_label_values(&[result]).observe(took.as_secs_f64());
    }

    /// Records the authorization of a caller.
    pub fn authorized(&self, result: Authorization, took: Duration) {
        let result = match result {
            Authorization::Allowed => "allowed",
            Authorization::Denied => "denied",
            Authorization::NoOpinion => "no-opinion",
            Authorization::Error => "error",
        };
        self.authorization_attempts.with_label_values(&[result]).inc();
        self.authorization_duration.with_label_values(&[result]).observe(took.as_secs_f64());
    }
}

/// Returns the group of a user name. The metric does not show names, which may be many.
fn user_group(user: &str) -> &str {
    match user {
        "admin" | "client" | "kube_proxy" | "kubelet" => user,
        "system:serviceaccount:kube-system:default" => user,
        _ if user.contains('@') => "email_id",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_counted_in_few_groups() {
        for (user, group) in [
            ("kubelet", "kubelet"),
            (
                "system:serviceaccount:kube-system:default",
                "system:serviceaccount:kube-system:default",
            ),
            ("system:serviceaccount:shop:default", "other"),
            ("jane@example.com", "email_id"),
            ("jane", "other"),
        ] {
            assert_eq!(user_group(user), group);
        }
    }
}
