//! The versions of Kubernetes whose scheduler Loadmaster follows, and the behaviours that differ
//! between them.

use std::borrow::Cow;
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
        released.rev().find(|level| level.minor() <= minor).unwrap_or(oldest)
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

/// Defines [`Behaviours`] from a table: the name of each behaviour, and the first level that has
/// it.
macro_rules! behaviours {
    ($($(#[$doc:meta])* $name:ident: $since:ident,)*) => {
        /// The behaviours that differ between levels. Each is off below the level that introduced
        /// it.
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
    /// The pods of a PodGroup must have its priority, and one preemption policy.
    group_members_are_alike: V1_37,
    /// The room of a pod under in-place resize is the maximum over the totals of the pod, instead
    /// of a total over the maxima of its containers (140047, 140646).
    footprint_of_whole_pod: V1_37,
    /// The nomination of a pod that a PreEnqueue plugin gates protects its room (139057).
    gated_pods_are_nominated: V1_37,
    /// The event and the condition of a pod name the node that default preemption has found for it
    /// (140180).
    preemption_tells_its_placement: V1_37,
    /// The labels of events name pods without a node `UnscheduledPod`, and the update of a waiting
    /// pod `TargetPod` (135905).
    pod_event_subtypes: V1_37,
    /// The summary of the queue in a dump names entities, and counts the pods of groups apart
    /// (138567).
    dump_counts_entities: V1_37,
    /// The counter of created claims has the name that all components share, and the owner in its
    /// labels (138542, 140422).
    claim_counter_names_owners: V1_37,
    /// A pod with `bindMountOptions` needs a node that declares VolumeBindMountOptions (140013).
    bind_mount_options_are_required: V1_37,
    /// The counters of a device that several requests share are charged once, also if a share that
    /// is allocated consumes no capacity (140437).
    shares_charge_counters_once: V1_37,
    /// A request for all devices counts on the whole capacity of each device, and fails on a node
    /// where one of them has too little left (140769).
    all_devices_need_capacity: V1_37,
    /// A constraint for different values compares every device of a request, not only the latest
    /// one (140600).
    distinct_compares_every_device: V1_37,
    /// A request for capacity whose rounding leaves the range of 64 bits, or is negative, fits no
    /// device. What is consumed is printed like the step (140442).
    checked_capacity_ranges: V1_37,
    /// A configuration in an allocation appears once, and names no request if it is for all of them
    /// (139731, 139732, 139814).
    configuration_once: V1_37,
    /// Selectors read attributes of devices that are lists, also without DRAListTypeAttributes; an
    /// error of level 1.36 (139395).
    selectors_read_lists: V1_37,
    /// The error of a selector names the device, and where to read about attributes that a device
    /// may lack (136709).
    selector_errors_tell_more: V1_37,
    /// A DeviceTaintRule without a selector selects no device (141648).
    taint_rule_needs_selector: V1_38,
    /// A request for all devices fails on the nodes of a pool that is invalid or being updated, and
    /// not the whole attempt (141898).
    unsound_pool_fails_its_nodes: V1_38,
    /// The name of a capacity with the domain of the driver and the name without it are one name
    /// (142202).
    capacity_names_of_the_driver: V1_38,
    /// A device that may not be shared any more is not allocated while shares of it are (140798).
    shares_keep_the_whole_device: V1_38,
}

impl Behaviours {
    /// Returns the label of a metric for the event of a pod, which is given as at 1.36.
    pub fn pod_event_label(self, label: &str) -> Cow<'_, str> {
        match label.strip_prefix("UnschedulablePod") {
            Some(action) if self.pod_event_subtypes => format!("UnscheduledPod{action}").into(),
            _ => label.into(),
        }
    }
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
