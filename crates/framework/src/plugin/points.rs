//! The table of extension points.

use std::fmt;

/// Passes the table of extension points to the macro `$then`.
///
/// A row has the name of a point, which is also the name of its trait, its field in
/// [`Plugin`](crate::Plugin) and in a profile, and the key of it in `plugins` of a configured
/// profile. The rows of `attempt` are the points of one pod, in the order in which an attempt
/// reaches them. The rows of `group` are the points of pod groups. The rows of `beside` are traits
/// that run wherever the plugin is enabled; a profile does not configure them.
#[macro_export]
macro_rules! extension_points {
    ($then:ident) => {
        $then! {
            attempt {
                /// Decides whether a pod may enter the active queue.
                PreEnqueue, pre_enqueue, "preEnqueue";
                /// Orders the active queue.
                QueueSort, queue_sort, "queueSort";
                /// Prepares the filters.
                PreFilter, pre_filter, "preFilter";
                /// Decides which nodes can take the pod.
                Filter, filter, "filter";
                /// Tries to make room for a pod that no node can take.
                PostFilter, post_filter, "postFilter";
                /// Tries to make room for a pod group that does not fit.
                PodGroupPostFilter, pod_group_post_filter, "podGroupPostFilter";
                /// Prepares the scores.
                PreScore, pre_score, "preScore";
                /// Scores feasible nodes.
                Score, score, "score";
                /// Reserves what the pod needs beyond the node.
                Reserve, reserve, "reserve";
                /// Allows, delays or rejects the binding.
                Permit, permit, "permit";
                /// Writes the objects that must be in place before the bind.
                PreBind, pre_bind, "preBind";
                /// Binds the pod.
                Bind, bind, "bind";
                /// Is notified of bound pods.
                PostBind, post_bind, "postBind";
            }
            group {
                /// Proposes sets of nodes for a pod group.
                PlacementGenerate, placement_generate, "placementGenerate";
                /// Scores such sets.
                PlacementScore, placement_score, "placementScore";
            }
            beside {
                /// Decides whether a pod group can be placed with the members that fit.
                PlacementFeasible, placement_feasible;
                /// Bounds the number of pods that a filter lets onto a node.
                PodRoom, pod_room;
                /// Updates the data of PreFilter for dry runs.
                PreFilterExtensions, pre_filter_extensions;
                /// Scales the scores of the plugin.
                NormalizeScore, normalize_score;
                /// Names the placed pods that the plugin counts.
                StandingQueries, standing_queries;
                /// Runs at times that the plugin sets.
                Timer, timer;
                /// Is notified of pods that are gone.
                PodDeleted, pod_deleted;
            }
        }
    };
}

macro_rules! define_points {
    (attempt { $($attempt:tt)* } group { $($group:tt)* } beside { $($beside:tt)* }) => {
        define_points! { $($attempt)* $($group)* }
        list! { #[doc = "The points of a scheduling attempt, in order."] OF_ATTEMPT $($attempt)* }
        list! { #[doc = "The points of pod groups."] OF_GROUPS $($group)* }
    };
    ($($(#[$doc:meta])* $point:ident, $field:ident, $key:literal;)*) => {
        /// The extension points that a profile can configure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ExtensionPoint {
            $($(#[$doc])* $point,)*
        }

        impl ExtensionPoint {
            /// Returns the name in metric labels, for example `PreFilter`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$point => stringify!($point),)*
                }
            }

            /// Returns the name of the field of `plugins` in a profile, for example `preFilter`.
            pub const fn config_name(self) -> &'static str {
                match self {
                    $(Self::$point => $key,)*
                }
            }
        }
    };
}

macro_rules! list {
    (
        #[$list_doc:meta] $list:ident
        $($(#[$doc:meta])* $point:ident, $field:ident, $key:literal;)*
    ) => {
        impl ExtensionPoint {
            #[$list_doc]
            pub const $list: &[Self] = &[$(Self::$point),*];
        }
    };
}

extension_points!(define_points);

impl ExtensionPoint {
    /// All points, in the order in which kube-scheduler resolves a profile.
    pub const ALL: [Self; 15] = [
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::PodGroupPostFilter,
        Self::Reserve,
        Self::PreScore,
        Self::Score,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
        Self::Permit,
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PlacementGenerate,
        Self::PlacementScore,
    ];
}

impl fmt::Display for ExtensionPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_point_is_resolved_once() {
        let all = BTreeSet::from(ExtensionPoint::ALL);
        assert_eq!(all.len(), ExtensionPoint::ALL.len());
        let lists = [ExtensionPoint::OF_ATTEMPT, ExtensionPoint::OF_GROUPS].concat();
        assert!(all.iter().eq(&lists));
        let names: Vec<_> = all.iter().map(|point| (point.name(), point.config_name())).collect();
        assert_eq!(names[0], ("PreEnqueue", "preEnqueue"));
        assert_eq!(names[14], ("PlacementScore", "placementScore"));
    }
}
