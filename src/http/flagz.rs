//! `/flagz`: the value of every flag.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use serde::Serialize;

use super::zpages::Page;
use crate::config::without_user;

/// The values of all flags, as kube-scheduler prints them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Flagz {
    flags: Arc<BTreeMap<String, String>>,
}

impl<'a> FromIterator<(&'a str, &'a str)> for Flagz {
    /// Collects flags and values. User and password of a URL are replaced.
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(flags: I) -> Self {
        let flags = flags.into_iter();
        let flags = flags.map(|(name, value)| (name.to_owned(), without_user(value.to_owned())));
        Self { flags: Arc::new(flags.collect()) }
    }
}

impl Flagz {
    pub(super) fn page(&self) -> Page<&Self> {
        let mut text = String::new();
        for (name, value) in &*self.flags {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}:{value}");
        }
        Page { kind: "Flagz", text, fields: self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_sorted_and_passwords_are_replaced() {
        let flags = [("v", "2"), ("master", "https://me:secret@host:6443"), ("cert-dir", "")];
        let flagz: Flagz = flags.into_iter().collect();
        assert_eq!(flagz.page().text, "cert-dir:\nmaster:https://REDACTED@host:6443\nv:2\n");
    }
}
