//! The levels of a topology that a group asks for, beyond the one that Kubernetes has.

use std::collections::BTreeMap;
use std::sync::Arc;

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

/// A level of a topology that a group asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopologyLevel {
    /// The key of the node label whose values are the domains.
    pub key: Arc<str>,
    /// What the group asks for.
    pub wish: LevelWish,
}

/// What a group asks for at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
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

#[cfg(test)]
mod tests {
    use super::*;

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
