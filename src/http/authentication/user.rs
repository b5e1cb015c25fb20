//! The user behind a request.

use std::collections::BTreeMap;

/// An authenticated or anonymous user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::http) struct User {
    pub(in crate::http) name: String,
    /// Distinguishes users that have the same name one after the other; may be empty.
    pub(in crate::http) uid: String,
    pub(in crate::http) groups: Vec<String>,
    /// Further attributes for authorizers.
    pub(in crate::http) extra: BTreeMap<String, Vec<String>>,
}

const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

impl User {
    /// Returns the user of a request without credentials.
    pub(super) fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { name: ANONYMOUS.to_owned(), groups, ..Self::default() }
    }

    /// Adds the group of all authenticated users, unless a proxy passed on an anonymous user.
    pub(super) fn authenticated(mut self) -> Self {
        let decided = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if self.name != ANONYMOUS && !self.groups.iter().any(decided) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}
