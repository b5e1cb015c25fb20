//! Lists: the version of the collection, the selected objects, and pages.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::Store;
use super::collection::{Collection, Stored};
use crate::api::Request;
use crate::resources::Resource;
use crate::selector::Selection;
use crate::status::{Cause, Status};

const TOKEN_VERSION: &str = "meta.k8s.io/v1";
/// The version in a token for the inconsistent rest of a list.
const INCONSISTENT: i64 = -1;

/// The options of a list.
#[derive(Debug, Clone)]
pub(super) struct ListOptions {
    pub(super) selection: Selection,
    limit: Option<usize>,
    from: Start,
}

/// The state of the collection that a list shows.
#[derive(Debug, Clone)]
enum Start {
    /// The latest state.
    Latest,
    /// The state of the watch cache.
    Any,
    /// The state of the watch cache, which must not be older than this version.
    NotOlderThan(u64),
    /// The state at this version.
    Exact(u64),
    /// The next page of an earlier list.
    Continue(Token),
}

/// The content of `metadata.continue`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Token {
    #[serde(rename = "v")]
    format: String,
    #[serde(rename = "rv")]
    version: i64,
    /// The first key of the page, after a slash.
    start: String,
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) items: Vec<Stored>,
    pub(super) version: u64,
    /// `metadata.continue`, empty on the last page.
    pub(super) next: String,
    /// `metadata.remainingItemCount`, known if the list has no selectors.
    pub(super) remaining: Option<usize>,
}

impl ListOptions {
    pub(super) fn of(resource: &Resource, request: &Request) -> Result<Self, Status> {
        let text = |name| request.parameter(name).unwrap_or_default();
        let selection = Selection::parse(resource, text("labelSelector"), text("fieldSelector"))?;
        let limit = text("limit").parse().ok().filter(|limit| *limit > 0);
        let (version, token) = (text("resourceVersion"), text("continue"));
        let from = match (token, version) {
            ("", _) => Start::of(version, text("resourceVersionMatch"), limit.is_some())?,
            (token, "" | "0") => Start::Continue(Token::decode(token)?),
            _ => {
                let why = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(why));
            }
        };
        // The API server answers a list at version 0 from its cache, which ignores the limit.
        let limit = limit.filter(|_| !matches!(from, Start::Any));
        Ok(Self { selection, limit, from })
    }

    /// Returns the options of a list of all selected objects in the state of the watch cache.
    pub(super) fn everything(selection: Selection) -> Self {
        Self { selection, limit: None, from: Start::Any }
    }
}

impl Start {
    /// Applies the rules for `resourceVersion` and `resourceVersionMatch` of a list.
    fn of(version: &str, matching: &str, limited: bool) -> Result<Self, Status> {
        let refuse = |why: &str| {
            Err(Status::invalid_options(
                "ListOptions",
                Cause::forbidden("resourceVersionMatch", why),
            ))
        };
        match (parse_version(version)?, matching) {
            (None, "") => Ok(Self::Latest),
            (Some(0), "" | "NotOlderThan") => Ok(Self::Any),
            (None, _) => {
                refuse("resourceVersionMatch is forbidden unless resourceVersion is provided")
            }
            (Some(0), "Exact") => {
                refuse("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
            }
            (Some(version), "") if limited => Ok(Self::Exact(version)),
            (Some(version), "Exact") => Ok(Self::Exact(version)),
            (Some(version), "" | "NotOlderThan") => Ok(Self::NotOlderThan(version)),
            (Some(_), other) => Err(Status::invalid_options(
                "ListOptions",
                Cause::not_supported(
                    "resourceVersionMatch",
                    &other.into(),
                    &["", "Exact", "NotOlderThan"],
                ),
            )),
        }
    }
}

/// Parses a `resourceVersion` parameter; `None` if absent.
pub(super) fn parse_version(text: &str) -> Result<Option<u64>, Status> {
    match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            let why = "resourceVersion must be an unsigned integer";
            Status::invalid_options(
                "ListOptions",
                Cause::invalid("resourceVersion", &text.into(), why),
            )
        }),
    }
}

impl Token {
    /// Returns the token of the page after `key`.
    fn after(key: &str, version: i64) -> Self {
        Self { format: TOKEN_VERSION.to_owned(), version, start: format!("/{key}\0") }
    }

    fn encode(&self) -> String {
        let json = serde_json::to_vec(self).expect("strings and a number are always written");
        URL_SAFE_NO_PAD.encode(json)
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let refuse = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|error| refuse(&error.to_string()))?;
        let token: Self =
            serde_json::from_slice(&json).map_err(|error| refuse(&error.to_string()))?;
        if token.format != TOKEN_VERSION || !token.start.starts_with('/') {
            return Err(refuse("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        Ok(token)
    }

    /// Returns the first key of the page.
    fn key(&self) -> &str {
        self.start.strip_prefix('/').unwrap_or(&self.start)
    }
}

impl Store {
    /// Lists the objects of one namespace, or of all if `namespace` is empty. `cached` is the
    /// version that the watch cache shows.
    pub(super) fn list(
        &self,
        resource: &'static Resource,
        namespace: &str,
        options: &ListOptions,
        cached: u64,
    ) -> Result<Page, Status> {
        let collection = self.collection(resource).ok_or_else(Status::method_not_allowed)?;
        let version = self.version_of(collection, &options.from, cached)?;
        let from = match &options.from {
            Start::Continue(token) => token.key(),
            _ => "",
        };
        let overlay = collection.overlay(version);
        let mut objects = collection.range_at(namespace, from, &overlay);
        let limit = options.limit.unwrap_or(usize::MAX);
        let mut page = Page { items: Vec::new(), version, next: String::new(), remaining: None };
        let mut last = "";
        while let Some((key, stored)) = objects.next() {
            if !options.selection.matches(&stored.object) {
                continue;
            }
            if page.items.len() == limit {
                let token = i64::try_from(version).unwrap_or(i64::MAX);
                page.next = Token::after(last, token).encode();
                page.remaining =
                    options.selection.is_everything().then(|| 1 + objects.by_ref().count());
                break;
            }
            page.items.push(stored.clone());
            last = key;
        }
        Ok(page)
    }

    /// Returns the version whose state a list shows.
    fn version_of(
        &self,
        collection: &Collection,
        from: &Start,
        cached: u64,
    ) -> Result<u64, Status> {
        match from {
            Start::Exact(wanted) if *wanted > self.version => {
                Err(Status::version_too_large(*wanted, self.version))
            }
            Start::NotOlderThan(wanted) if *wanted > cached => {
                Err(Status::version_too_large(*wanted, cached))
            }
            Start::Latest => Ok(self.version),
            Start::Any | Start::NotOlderThan(_) => Ok(cached),
            Start::Exact(wanted) if collection.remembers(*wanted) => Ok(*wanted),
            Start::Exact(_) => {
                Err(Status::expired("The resourceVersion for the provided list is too old."))
            }
            Start::Continue(token) => match u64::try_from(token.version) {
                Err(_) => Ok(self.version),
                Ok(wanted) if wanted > self.version => {
                    Err(Status::version_too_large(wanted, self.version))
                }
                Ok(wanted) if collection.remembers(wanted) => Ok(wanted),
                Ok(_) => Err(token_expired(token)),
            },
        }
    }
}

/// Returns the error for a compacted token, with a token for the rest of the list in the latest
/// state.
fn token_expired(token: &Token) -> Status {
    let fresh = Token { version: INCONSISTENT, ..token.clone() };
    let message = "The provided continue parameter is too old to display a consistent list \
                   result. You can start a new list without the continue parameter, or use the \
                   continue token in this response to retrieve the remainder of the results. \
                   Continuing with the provided token results in an inconsistent list - objects \
                   that were created, modified, or deleted between the time the first chunk was \
                   returned and now may show up in the list.";
    Status { continue_token: Some(fresh.encode()), ..Status::expired(message) }
}
