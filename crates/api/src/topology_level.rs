//! The levels of a topology that a group asks for, beyond the one that Kubernetes has.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Problem;

/// The annotation of a PodGroup, of either API, with the levels that it asks for:
///
/// ```text
/// loadmaster.io/topology: zone required, rack preferred
/// loadmaster.io/topology: zone required, rack blocks of 8
/// loadmaster.io/topology: zone over 3
/// ```
///
/// The levels are keys of node labels, the widest first.
pub const TOPOLOGY_ANNOTATION: &str = "loadmaster.io/topology";

/// The annotation of Kueue by which the pods of a group ask for one domain of a node label.
pub const POD_SET_REQUIRED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-required-topology";

/// The annotation of Kueue by which the pods of a group prefer one domain of a node label.
pub const POD_SET_PREFERRED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-preferred-topology";

/// The annotation of Kueue by which each [block](POD_SET_SLICE_SIZE) of pods asks for one domain.
pub const POD_SET_SLICE_TOPOLOGY: &str = "kueue.x-k8s.io/podset-slice-required-topology";

/// The annotation of Kueue with the number of pods of a block.
pub const POD_SET_SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";

/// A level of a topology that a group asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TopologyLevel {
    /// The key of the node label whose values are the domains.
    pub key: Arc<str>,
    /// What the group asks for.
    pub wish: LevelWish,
}

/// What a group asks for at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LevelWish {
    /// All pods are in one domain.
    Required,
    /// All pods are in one domain if they fit in one, otherwise in few.
    Preferred,
    /// Each block of so many pods is in one domain.
    Blocks(u32),
    /// The pods are in at least so many domains.
    Over(u32),
}

impl LevelWish {
    /// Whether the members are divided among several domains.
    pub const fn divides(self) -> bool {
        matches!(self, Self::Blocks(_) | Self::Over(_))
    }
}

impl TopologyLevel {
    /// Returns a level that is required.
    pub fn required(key: &str) -> Self {
        Self { key: key.into(), wish: LevelWish::Required }
    }

    /// Returns the levels that the annotation of a PodGroup asks for; none without it.
    ///
    /// # Errors
    /// The annotation has another form.
    pub fn of_annotations(annotations: &BTreeMap<String, String>) -> Result<Box<[Self]>, Arc<str>> {
        let Some(text) = annotations.get(TOPOLOGY_ANNOTATION) else { return Ok(Box::default()) };
        let levels = text.split(',').map(|level| {
            Self::parse(level).ok_or_else(|| -> Arc<str> {
                format!(
                    "annotation {TOPOLOGY_ANNOTATION}: {:?} is not \"KEY required\", \"KEY \
                     preferred\", \"KEY blocks of N\" or \"KEY over N\"",
                    level.trim()
                )
                .into()
            })
        });
        let levels: Box<[Self]> = levels.collect::<Result<_, _>>()?;
        let wider = levels.split_last().map_or(&[][..], |(_, wider)| wider);
        if let Some(level) = wider.iter().find(|level| level.wish.divides()) {
            let key = &level.key;
            let text = format!(
                "annotation {TOPOLOGY_ANNOTATION}: the level {key:?} divides the pods, and is not \
                 the last one"
            );
            return Err(text.into());
        }
        for (place, level) in levels.iter().enumerate() {
            if levels[..place].iter().any(|wider| wider.key == level.key) {
                let text = format!(
                    "annotation {TOPOLOGY_ANNOTATION}: the key {:?} occurs twice",
                    level.key
                );
                return Err(text.into());
            }
        }
        Ok(levels)
    }

    /// Returns the levels that the annotations of Kueue on a pod ask for; `None` without them. A
    /// size of blocks that is no number from 1 is a problem.
    pub fn of_pod_set(
        annotations: &BTreeMap<String, String>,
        problems: &mut Vec<Problem>,
    ) -> Option<Arc<[Self]>> {
        let level = |annotation: &str, wish| {
            let key = annotations.get(annotation).filter(|key| !key.is_empty())?;
            Some(Self { key: key.as_str().into(), wish })
        };
        let required = level(POD_SET_REQUIRED_TOPOLOGY, LevelWish::Required);
        let preferred = level(POD_SET_PREFERRED_TOPOLOGY, LevelWish::Preferred);
        let blocks = annotations.get(POD_SET_SLICE_TOPOLOGY).and_then(|_| {
            let size = annotations.get(POD_SET_SLICE_SIZE).map_or("", String::as_str);
            let Some(size) = number(size) else {
                let path = format!("metadata.annotations[{POD_SET_SLICE_SIZE}]");
                problems.push(Problem::new(path, format!("{size:?} is not a number of pods")));
                return None;
            };
            level(POD_SET_SLICE_TOPOLOGY, LevelWish::Blocks(size))
        });
        let mut levels: Vec<Self> = Vec::new();
        for own in [required, preferred, blocks].into_iter().flatten() {
            if levels.iter().all(|wider| wider.key != own.key) {
                levels.push(own);
            }
        }
        (!levels.is_empty()).then(|| levels.into())
    }

    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (key, wish) = match words[..] {
            [key, "required"] => (key, LevelWish::Required),
            [key, "preferred"] => (key, LevelWish::Preferred),
            [key, "blocks", "of", size] => (key, LevelWish::Blocks(number(size)?)),
            [key, "over", domains] => (key, LevelWish::Over(number(domains)?)),
            _ => return None,
        };
        Some(Self { key: key.into(), wish })
    }
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number > 0)
}

/// The form of the [annotation](TOPOLOGY_ANNOTATION).
impl fmt::Display for TopologyLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match self.wish {
            LevelWish::Required => write!(f, "{key} required"),
            LevelWish::Preferred => write!(f, "{key} preferred"),
            LevelWish::Blocks(size) => write!(f, "{key} blocks of {size}"),
            LevelWish::Over(domains) => write!(f, "{key} over {domains}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_of_kueue_are_levels() {
        let levels = |annotations: &[(&str, &str)]| {
            let annotations = annotations.iter().map(|(name, value)| {
                (format!("kueue.x-k8s.io/podset-{name}"), (*value).to_owned())
            });
            let mut problems = Vec::new();
            let levels = TopologyLevel::of_pod_set(&annotations.collect(), &mut problems);
            let levels = levels.iter().flat_map(|own| own.iter().map(ToString::to_string));
            let problems = problems.iter().map(ToString::to_string);
            levels.chain(problems).collect::<Vec<_>>().join(", ")
        };
        let slice = ("slice-required-topology", "rack");
        let rows: [(&[(&str, &str)], &str); 8] = [
            (&[], ""),
            (&[("unconstrained-topology", "true")], ""),
            (&[("required-topology", "")], ""),
            (&[("required-topology", "rack")], "rack required"),
            (&[("preferred-topology", "rack")], "rack preferred"),
            (
                &[("preferred-topology", "zone"), slice, ("slice-size", "4")],
                "zone preferred, rack blocks of 4",
            ),
            (&[("required-topology", "rack"), slice, ("slice-size", "4")], "rack required"),
            (
                &[slice, ("slice-size", "0")],
                "metadata.annotations[kueue.x-k8s.io/podset-slice-size]: \"0\" is not a number of \
                 pods",
            ),
        ];
        for (annotations, expected) in rows {
            assert_eq!(levels(annotations), expected, "{annotations:?}");
        }
    }

    fn levels(text: &str) -> Result<Vec<(String, LevelWish)>, String> {
        let annotations = BTreeMap::from([(TOPOLOGY_ANNOTATION.to_owned(), text.to_owned())]);
        let levels = TopologyLevel::of_annotations(&annotations);
        let levels = levels.map_err(|text| text.to_string())?;
        Ok(levels.iter().map(|level| (level.key.to_string(), level.wish)).collect())
    }

    #[test]
    fn levels_are_read_in_their_order() {
        let expected = [
            ("zone".to_owned(), LevelWish::Required),
            ("example.com/block".to_owned(), LevelWish::Preferred),
            ("rack".to_owned(), LevelWish::Blocks(8)),
        ];
        let text = "zone required, example.com/block preferred,\n rack  blocks of 8";
        assert_eq!(levels(text), Ok(expected.to_vec()));
        assert_eq!(levels("zone over 3"), Ok(vec![("zone".to_owned(), LevelWish::Over(3))]));
        assert_eq!(TopologyLevel::of_annotations(&BTreeMap::new()), Ok(Box::default()));
    }

    #[test]
    fn other_forms_are_refused_with_the_forms_that_exist() {
        for text in ["", "zone", "zone required,", "rack blocks of 0", "rack over x"] {
            let fault = levels(text).unwrap_err();
            assert!(fault.ends_with("\"KEY blocks of N\" or \"KEY over N\""), "{fault}");
        }
        let divides = levels("zone over 2, rack required").unwrap_err();
        assert!(divides.ends_with("divides the pods, and is not the last one"), "{divides}");
        let twice = "annotation loadmaster.io/topology: the key \"zone\" occurs twice";
        assert_eq!(levels("zone required, zone over 2"), Err(twice.to_owned()));
    }
}
