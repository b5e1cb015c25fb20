//! The number of elements of each collection, read from the `Debug` form of a structure.
//!
//! A derived `Debug` shows every field, so a collection that is added tomorrow is counted, too.

use std::collections::BTreeMap;
use std::fmt::Debug;

/// Numbers of elements, by the path of the collection: the names of the fields that lead to it,
/// with `*` for an element. Collections on one path are added up.
pub(crate) type Census = BTreeMap<String, usize>;

/// A structure or collection whose lines follow.
struct Open {
    path: String,
    is_collection: bool,
}

/// Counts the elements of every collection in a value.
pub(crate) fn census(name: &str, value: &impl Debug) -> Census {
    let mut census = Census::new();
    let mut open: Vec<Open> = Vec::new();
    for line in format!("{name}: {value:#?}").lines() {
        let text = line.trim_start();
        open.truncate((line.len() - text.len()) / 4 + usize::from(closes(text)));
        let (mut text, mut path) = (text, None);
        if closes(text) {
            // The end of a complex key of a map, which is followed by its value.
            let key = open.pop();
            let Some((_, value)) = text.split_once(": ") else { continue };
            (text, path) = (value, key.map(|key| key.path));
        } else if let Some(around) = open.last()
            && around.is_collection
        {
            *census.entry(around.path.clone()).or_default() += 1;
        }
        let path = path.unwrap_or_else(|| path_of(open.last(), text));
        let value = text.split_once(": ").map_or(text, |(_, value)| value);
        match value.trim_end_matches(',') {
            "{" | "[" => {
                census.entry(path.clone()).or_default();
                open.push(Open { path, is_collection: true });
            }
            "{}" | "[]" => _ = census.entry(path).or_default(),
            value if value.ends_with(['{', '(', '[']) => {
                open.push(Open { path, is_collection: false });
            }
            _ => {}
        }
    }
    census
}

fn closes(text: &str) -> bool {
    text.starts_with(['}', ']', ')'])
}

fn path_of(around: Option<&Open>, line: &str) -> String {
    let Some(around) = around else {
        return line.split_once(": ").map_or(line, |(name, _)| name).to_owned();
    };
    if around.is_collection {
        return format!("{}.*", around.path);
    }
    let is_name = |name: &&str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    match line.split_once(": ").map(|(name, _)| name).filter(is_name) {
        Some(field) => format!("{}.{field}", around.path),
        // The content of a newtype or of an option.
        None => around.path.clone(),
    }
}

/// Caches that keep objects which are gone, each up to a limit.
const LIMITED: [(&str, usize); 7] = [
    // The last attempts.
    ("scheduler.engine.attempts.records.recent", 16_384),
    // The lanes of pods that were used last.
    ("scheduler.engine.decider.rankings", 4096),
    // The latest changes.
    ("scheduler.engine.world.log.entries", 65_536),
    // Standing queries, of which the one that was not asked for the longest is forgotten first.
    ("scheduler.engine.world.cluster.queries", 4096),
    // Shared parts of pods and of nodes. Unused ones are removed when half of them are.
    ("scheduler.engine.world.pool", 1024),
    ("scheduler.engine.world.cluster.kinds", 128),
    // A hundred namespaces, and the others together.
    ("metrics.loadmaster_binding_errors_total", 101),
];

/// Checks that two censuses are equal, but for caches with a limit.
pub(crate) fn assert_same(before: &Census, after: &Census) {
    let paths = before.keys().chain(after.keys());
    let size = |census: &Census, path| census.get(path).copied().unwrap_or_default();
    let limit = |path: &str| {
        let limited = LIMITED.iter().find(|(prefix, _)| path.starts_with(prefix));
        limited.map(|(_, limit)| *limit)
    };
    let changed: BTreeMap<_, _> = paths
        .map(|path| (path, (size(before, path), size(after, path))))
        .filter(|(path, (before, after))| match limit(path) {
            // The fields of what a cache holds.
            Some(_) if path.contains(".*") => false,
            Some(limit) => *after > limit,
            None => before != after,
        })
        .collect();
    assert!(changed.is_empty(), "these collections changed (before, after): {changed:#?}");
}

#[test]
fn collections_are_counted_by_path() {
    #[derive(Debug)]
    #[expect(dead_code, reason = "only the Debug form is read")]
    struct Inner {
        list: Vec<u8>,
    }
    #[derive(Debug)]
    #[expect(dead_code, reason = "only the Debug form is read")]
    struct Outer {
        map: BTreeMap<Option<u8>, Inner>,
        inner: Option<Inner>,
        empty: Vec<u8>,
        text: &'static str,
    }
    let inner = |length| Inner { list: vec![0; length] };
    let outer = Outer {
        map: [(Some(1), inner(2)), (None, inner(3))].into(),
        inner: Some(inner(4)),
        empty: Vec::new(),
        text: "{",
    };
    let sizes = [("a.empty", 0), ("a.inner.list", 4), ("a.map", 2), ("a.map.*.list", 5)];
    let sizes = sizes.map(|(path, size)| (path.to_owned(), size));
    assert_eq!(census("a", &outer), sizes.into());
}
