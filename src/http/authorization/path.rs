//! Paths that need no permission.

/// The paths that every client may access (`--authorization-always-allow-paths`).
#[derive(Debug, Clone)]
pub(in crate::http) struct AlwaysAllowPaths(Vec<String>);

impl AlwaysAllowPaths {
    pub(in crate::http) fn new(paths: &[String]) -> Self {
        Self(paths.iter().map(|path| path.trim_start_matches('/').to_owned()).collect())
    }

    /// Returns whether the path is allowed. An entry that ends with `*` allows all paths with that
    /// prefix.
    pub(in crate::http) fn allow(&self, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        self.0.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == allowed,
        })
    }
}
