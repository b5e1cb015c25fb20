//! The scores of placements.

use framework::{
    Code, ExtensionPoint, MAX_NODE_SCORE, MIN_NODE_SCORE, PlacedGroup, PlacementScore,
    ProspectiveGroup, Status,
};
use smallvec::SmallVec;

use crate::context::Context;
use crate::plugin_call::{HasCode, call_beside, call_plugin};
use crate::profile::{Named, Profile};
use crate::world::World;

/// The scores of one placement before they are normalized, plugin by plugin.
pub(super) type RawScores = SmallVec<[i64; 4]>;

/// The plugins that score placements.
pub(super) struct PlacementScores<'p>(&'p [Named<dyn PlacementScore>]);

impl<'p> PlacementScores<'p> {
    pub(super) fn new(profile: &'p Profile) -> Self {
        Self(&profile.placement_score)
    }

    /// Scores a group that is placed.
    ///
    /// # Errors
    /// A plugin failed.
    pub(super) fn raw(
        &self,
        placed: PlacedGroup<'_>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Result<RawScores, Status> {
        let score = |own: &Named<dyn PlacementScore>| {
            let handle = world.handle(cx.now);
            let answer = call_plugin(ExtensionPoint::PlacementScore, &own.name, cx.probe, || {
                own.plugin.placement_score(placed, &handle).map(Score)
            });
            let failed = |status| failure("running PlacementScore plugins", own, &status);
            answer.unwrap_or_else(Err).map(|Score(score)| score).map_err(failed)
        };
        self.0.iter().map(score).collect()
    }

    /// Returns the limits of the raw scores of each prospect; `None` if a plugin has none. `local`
    /// has those of the plugins whose limits are local, if they are known.
    pub(super) fn limits(
        &self,
        group: ProspectiveGroup<'_>,
        local: Option<Vec<RawScores>>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Option<Vec<RawScores>> {
        let Some(mut local) = local else {
            return self.limits_of(|_| true, group, world, cx);
        };
        if self.0.iter().all(is_local) {
            return Some(local);
        }
        let others = self.limits_of(|own| !is_local(own), group, world, cx)?;
        for (limits, others) in local.iter_mut().zip(others) {
            let mut own = std::mem::take(limits).into_iter();
            let mut others = others.into_iter();
            let merged = self.0.iter().filter_map(|plugin| match is_local(plugin) {
                true => own.next(),
                false => others.next(),
            });
            *limits = merged.collect();
        }
        Some(local)
    }

    /// Returns the limits of the plugins whose limits are local; `None` if one has none.
    pub(super) fn local_limits(
        &self,
        group: ProspectiveGroup<'_>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Option<Vec<RawScores>> {
        self.limits_of(is_local, group, world, cx)
    }

    /// Returns the limits of some plugins; `None` if one of them has none.
    fn limits_of(
        &self,
        is_asked: impl Fn(&Named<dyn PlacementScore>) -> bool,
        group: ProspectiveGroup<'_>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Option<Vec<RawScores>> {
        let mut limits = vec![RawScores::new(); group.prospects.len()];
        for own in self.0.iter().filter(|own| is_asked(own)) {
            let handle = world.handle(cx.now);
            let answer = call_beside("PlacementScoreLimits", &own.name, cx.probe, || {
                own.plugin.placement_score_limits(group, &handle)
            });
            let of_plugin = answer.ok()??;
            if of_plugin.len() != limits.len() {
                return None;
            }
            limits.iter_mut().zip(of_plugin).for_each(|(limits, own)| limits.push(own));
        }
        Some(limits)
    }

    /// Returns the weighted sums of the normalized scores.
    ///
    /// # Errors
    /// A plugin failed, or a normalized score is not within its range.
    pub(super) fn totals<'r>(
        &self,
        raw: impl Iterator<Item = &'r RawScores> + Clone,
        cx: &mut Context<'_>,
    ) -> Result<Vec<i64>, Status> {
        let mut totals = vec![0_i64; raw.clone().count()];
        for (place, own) in self.0.iter().enumerate() {
            let mut scores: Vec<i64> = raw.clone().map(|raw| raw[place]).collect();
            let normalized = call_beside("NormalizePlacementScore", &own.name, cx.probe, || {
                own.plugin.normalize_placement_scores(&mut scores)
            });
            let about = "running NormalizePlacementScore on PlacementScore plugins";
            normalized.unwrap_or_else(Err).map_err(|status| failure(about, own, &status))?;
            for (total, score) in totals.iter_mut().zip(scores) {
                if !(MIN_NODE_SCORE..=MAX_NODE_SCORE).contains(&score) {
                    let text = format!(
                        "plugin {:?} returns an invalid score {score}, it should in the range of \
                         [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing",
                        own.name
                    );
                    let about = "applying score defaultWeights on PlacementScore plugins";
                    return Err(failure(about, own, &Status::error(text)));
                }
                *total = total.saturating_add(score.saturating_mul(own.weight));
            }
        }
        Ok(totals)
    }

    /// Returns the places of the best of the feasible placements, unless one of those that are left
    /// may be better: the totals of the feasible ones are the same with them, and none of them can
    /// exceed the best.
    ///
    /// # Errors
    /// A plugin failed.
    pub(super) fn best(
        &self,
        feasible: &[RawScores],
        left: Left<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Option<Vec<usize>>, Status> {
        if feasible.is_empty() {
            return Ok(None);
        }
        let totals = self.totals(feasible.iter(), cx)?;
        let best = totals.iter().copied().max().unwrap_or(0);
        let is_decided = match left {
            Left::Limits([]) => true,
            Left::Unknown => false,
            Left::Limits(limits) => {
                let with_limits = self.totals(feasible.iter().chain(limits), cx);
                with_limits.is_ok_and(|all| {
                    let (own, others) = all.split_at(totals.len());
                    own == totals && others.iter().all(|other| *other <= best)
                })
            }
        };
        let places = totals.iter().enumerate().filter(|(_, total)| **total == best);
        Ok(is_decided.then(|| places.map(|(place, _)| place).collect()))
    }
}

fn is_local(own: &Named<dyn PlacementScore>) -> bool {
    own.plugin.limits_are_local()
}

/// What is known of the placements that are not tried yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Left<'a> {
    /// The limits of their raw scores.
    Limits(&'a [RawScores]),
    /// There are some, and they have no limits.
    Unknown,
}

/// The score of a placement.
struct Score(i64);

impl HasCode for Score {
    fn code(&self) -> Code {
        Code::Success
    }
}

fn failure(about: &str, own: &Named<dyn PlacementScore>, status: &Status) -> Status {
    Status::error(format!("{about}: {}", status.message())).by(&own.name)
}
