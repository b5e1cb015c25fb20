//! The versions of Kubernetes whose scheduler Loadmaster follows, and the behaviours that differ
//! between them.

use std::fmt;

/// A minor version of Kubernetes whose scheduler is followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Kubernetes 1.36.
    V1_36,
    /// Kubernetes 1.37, the newest release.
    #[default]
    V1_37,
    /// Kubernetes 1.38, which is not released: what its pre-releases have.
    V1_38,
}

impl Level {
    /// Every level, the oldest first.
    pub const ALL: [Self; 3] = [Self::V1_36, Self::V1_37, Self::V1_38];

    /// Returns the minor version.
    pub const fn minor(self) -> u32 {
        match self {
            Self::V1_36 => 36,
            Self::V1_37 => 37,
            Self::V1_38 => 38,
        }
    }

    /// Returns the level of a minor version.
    pub fn of_minor(minor: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.minor() == minor)
    }

    /// Returns the level to follow beside an API server of this minor version: its own one, or the
    /// nearest one. A preview is followed on request only.
    pub fn of_server(minor: u32) -> Self {
        let released = Self::ALL.into_iter().filter(|level| !level.is_preview());
        let [oldest, ..] = Self::ALL;
        released.filter(|level| level.minor() <= minor).last().unwrap_or(oldest)
    }

    /// Whether the version is not released, so that the level may still change.
    pub const fn is_preview(self) -> bool {
        matches!(self, Self::V1_38)
    }

    /// Returns whether the level is `other` or a later one.
    pub const fn is_at_least(self, other: Self) -> bool {
        self.minor() >= other.minor()
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor())
    }
}

/// Defines [`Behaviours`] from a table: the name of each behaviour, and the first level that has it.
macro_rules! behaviours {
    ($($(#[$doc:meta])* $name:ident: $since:ident,)*) => {
        /// The behaviours that differ between levels. Each is off below the level that introduced it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct Behaviours {
            $($(#[$doc])* pub $name: bool,)*
        }

        impl Behaviours {
            /// The name of each behaviour, and the first level that has it.
            pub const TABLE: &[(&str, Level)] = &[$((stringify!($name), Level::$since),)*];

            /// Returns the behaviours of a level.
            pub const fn of(level: Level) -> Self {
                Self { $($name: level.is_at_least(Level::$since),)* }
            }
        }
    };
}

behaviours! {
    /// The room of a pod under in-place resize is the maximum over the totals of the pod, instead of
    /// a total over the maxima of its containers (140047, 140646).
    footprint_of_whole_pod: V1_37,
}

/// The behaviours of the default level.
impl Default for Behaviours {
    fn default() -> Self {
        Self::of(Level::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_of_any_version_has_a_released_level() {
        let of_server = |minor| Level::of_server(minor).to_string();
        let rows = [(33, "1.36"), (36, "1.36"), (37, "1.37"), (38, "1.37"), (45, "1.37")];
        for (minor, expected) in rows {
            assert_eq!(of_server(minor), expected, "1.{minor}");
        }
    }

    #[test]
    fn levels_are_known_by_their_minor_version() {
        for level in Level::ALL {
            assert_eq!(Level::of_minor(level.minor()), Some(level));
        }
        assert_eq!((Level::of_minor(35), Level::of_minor(39)), (None, None));
        assert_eq!(Level::ALL.iter().filter(|level| level.is_preview()).count(), 1);
    }
}
