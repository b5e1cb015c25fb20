//! The choice of the placement of a group: the best of several sets of nodes that can take enough
//! members.
//!
//! A placement is not tried if a bound says that it cannot hold enough members, or if the limits of
//! its scores say that it cannot be the best. The answer is that of trying all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{
    Code, GroupPlacement, GroupPlacements, NodeBits, PlacedGroup, PluginName, Pod, PodGroupKey,
    Prospect, ProspectiveGroup, Status,
};

use super::UNSCHEDULABLE;
use super::decision::{
    Findings, MemberDecision, Pass, PodGroupQuestion, feasible, is_open, placements,
};
use super::placement_scores::{Left, PlacementScores, RawScores};
use super::rooms::rooms;
use crate::context::Context;
use crate::decide::Decider;
use crate::ports::{Count, Span};
use crate::profile::Profile;
use crate::world::World;
use crate::world::tentative::{Ending, Tentative};

/// Returns the placements of a group with a bound of how many of the members fit in each; `None` if
/// they may be on any nodes.
///
/// # Errors
/// The plugin of the profile proposes no placement, or a plugin fails.
pub(crate) fn bounded_placements(
    group: &PodGroupKey,
    profile: &Profile,
    members: &[Arc<Pod>],
    world: &World,
    cx: &mut Context<'_>,
) -> Result<Option<Vec<Prospect>>, Status> {
    let GroupPlacements::OneOf(placements) = placements(group, profile, world, cx)? else {
        return Ok(None);
    };
    let rooms = rooms(profile, members, &placements, world, cx)?;
    let prospects = placements.into_iter().zip(rooms.most);
    Ok(Some(prospects.map(|(placement, most)| Prospect { placement, most }).collect()))
}

/// The search for the placement of a group.
pub(super) struct Search<'q, 'd> {
    question: PodGroupQuestion<'q>,
    decider: &'d mut Decider,
    members: Vec<Arc<Pod>>,
    /// The plugins that have rejected the group in some placement.
    rejectors: BTreeSet<PluginName>,
    /// The placement that came closest, of those that cannot take enough members. `most` is the
    /// number of members that fit there, or a bound of it if the placement was not tried.
    closest: Option<Prospect>,
}

/// The outcome of a placement.
enum Tried {
    /// It is the best, and the members stay placed.
    Best(Findings),
    /// Enough members fit. They are not placed any more.
    Feasible,
    /// Too few members fit, or a plugin or an extender failed.
    Infeasible(Findings),
}

impl Tried {
    fn code(&self) -> Code {
        match self {
            Self::Best(_) | Self::Feasible => Code::Success,
            Self::Infeasible(found) => found.status.code(),
        }
    }
}

/// The placements that can take enough members, and those that are not tried yet.
struct Field<'s> {
    scores: PlacementScores<'s>,
    /// The scores of the former.
    feasible: Vec<RawScores>,
    /// The limits of the scores of all, in the order in which they are tried; `None` if a plugin
    /// has none.
    limits: Option<Vec<RawScores>>,
    /// Number of placements that are not tried yet.
    left: usize,
}

impl Field<'_> {
    /// Whether no placement but the one at hand can be chosen.
    fn is_without_others(&self) -> bool {
        self.feasible.is_empty() && self.left == 0
    }

    /// Scores a group that is placed. Returns whether its placement is the best.
    fn add(
        &mut self,
        placed: PlacedGroup<'_>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Result<bool, Status> {
        self.feasible.push(self.scores.raw(placed, world, cx)?);
        let best = self.best(cx)?;
        Ok(best.is_some_and(|best| best == [self.feasible.len() - 1]))
    }

    /// Returns the places of the best feasible placements, if it is decided that they are.
    fn best(&self, cx: &mut Context<'_>) -> Result<Option<Vec<usize>>, Status> {
        let left = match &self.limits {
            _ if self.left == 0 => Left::Limits(&[]),
            Some(limits) => Left::Limits(&limits[limits.len() - self.left..]),
            None => Left::Unknown,
        };
        self.scores.best(&self.feasible, left, cx)
    }
}

impl<'q, 'd> Search<'q, 'd> {
    pub(super) fn new(question: PodGroupQuestion<'q>, decider: &'d mut Decider) -> Self {
        let members = question.members.iter().map(|member| member.pod.clone()).collect();
        Self { question, decider, members, rejectors: BTreeSet::new(), closest: None }
    }

    /// Places the members in the best placement that can take enough of them. If there is none,
    /// finds out how many fit in the one that comes closest.
    pub(super) fn run(
        mut self,
        placements: Vec<GroupPlacement>,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Findings {
        let (profile, count) = (&self.question.profile.scheduler_name, placements.len());
        cx.probe.count(Count::Placements { profile, count });
        let prospects = match self.prospects(placements, world, cx) {
            Ok(prospects) => prospects,
            Err(status) => return Findings::of(status),
        };
        match self.choose(prospects, world, cx) {
            Some(found) => found,
            None => self.reject(count, world, cx),
        }
    }

    /// Returns the placements that may hold enough members.
    fn prospects(
        &mut self,
        placements: Vec<GroupPlacement>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Result<Vec<Prospect>, Status> {
        let rooms = rooms(self.question.profile, &self.members, &placements, world, cx)?;
        // Many placements have the same bound.
        let mut may_hold: BTreeMap<u32, bool> = BTreeMap::from([(0, false)]);
        let mut prospects = Vec::new();
        for (placement, most) in placements.into_iter().zip(rooms.most) {
            let may_hold = *may_hold.entry(most).or_insert_with(|| {
                let status = feasible(self.question, most as usize, world, cx);
                is_open(&status) || !status.is_rejection()
            });
            let prospect = Prospect { placement, most };
            if may_hold {
                prospects.push(prospect);
            } else {
                self.note_closest(prospect);
            }
        }
        if self.closest.is_some() {
            self.rejectors.extend(rooms.plugins);
        }
        Ok(prospects)
    }

    /// Notes a placement that cannot take enough members.
    fn note_closest(&mut self, prospect: Prospect) {
        let order = |own: &Prospect| (own.most, Reverse(own.placement.name.clone()));
        if self.closest.as_ref().is_none_or(|known| order(known) < order(&prospect)) {
            self.closest = Some(prospect);
        }
    }

    /// Tries the placements, and keeps the best. Returns `None` if none can take enough members.
    fn choose(
        &mut self,
        prospects: Vec<Prospect>,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Option<Findings> {
        let profile = self.question.profile;
        let (prospects, mut field) = self.line_up(prospects, world, cx);
        let course = self.decider.course();
        let mut feasible = Vec::new();
        let mut decided = Ok(None);
        for prospect in prospects {
            field.left -= 1;
            self.decider.resume(course.clone());
            let span = Span::Placement(&profile.scheduler_name);
            cx.probe.start(span);
            let tried = self.try_placement(&prospect.placement, &mut field, world, cx);
            cx.probe.stop(span, tried.code());
            match tried {
                Tried::Best(found) => return Some(found),
                Tried::Feasible => feasible.push(prospect),
                Tried::Infeasible(found) if found.status.is_rejection() => {
                    self.rejectors.extend(found.rejected_by().cloned());
                    let most = u32::try_from(found.fitting()).unwrap_or(u32::MAX);
                    self.note_closest(Prospect { most, ..prospect });
                }
                Tried::Infeasible(failed) => return Some(failed),
            }
            decided = field.best(cx);
            if !matches!(decided, Ok(None)) {
                break;
            }
        }
        let mut best: Vec<&Prospect> = match decided {
            Ok(places) => places?.into_iter().map(|place| &feasible[place]).collect(),
            Err(status) => return Some(Findings::of(status)),
        };
        self.decider.mix(&mut best, |own| &own.placement.name);
        self.decider.resume(course);
        Some(self.place_within(&best[0].placement, world, cx))
    }

    /// Returns the placements in the order in which they are tried: that with the highest limit
    /// first, equal ones in any order.
    fn line_up(
        &mut self,
        mut prospects: Vec<Prospect>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> (Vec<Prospect>, Field<'q>) {
        let PodGroupQuestion { group, profile, .. } = self.question;
        let (scores, left) = (PlacementScores::new(profile), prospects.len());
        self.decider.mix(&mut prospects, |own| &own.placement.name);
        let mut field = Field { scores, feasible: Vec::new(), limits: None, left };
        if left < 2 {
            return (prospects, field);
        }
        let (members, prospective) = (&self.members[..], &prospects[..]);
        let prospective = ProspectiveGroup { group, members, prospects: prospective };
        let limits = field.scores.limits(prospective, world, cx);
        let totals = limits.as_ref().map(|limits| field.scores.totals(limits.iter(), cx));
        if let (Some(limits), Some(Ok(totals))) = (limits, totals) {
            let mut all: Vec<_> = totals.into_iter().zip(limits).zip(prospects).collect();
            all.sort_by_key(|((total, _), _)| Reverse(*total));
            let (limits, sorted) =
                all.into_iter().map(|((_, limits), prospect)| (limits, prospect)).unzip();
            (field.limits, prospects) = (Some(limits), sorted);
        }
        (prospects, field)
    }

    /// Places the members in one placement, and keeps them there if it is the best.
    fn try_placement(
        &mut self,
        placement: &GroupPlacement,
        field: &mut Field<'_>,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Tried {
        let nodes: NodeBits = placement.nodes.iter().copied().collect();
        let Self { question, decider, members, .. } = self;
        world.tentatively(cx, |world, cx| {
            let found = Pass::new(*question, Some(&nodes), decider).run(world, cx);
            if !found.status.is_success() {
                return Ending::Undo(Tried::Infeasible(found));
            }
            if field.is_without_others() {
                return Ending::Keep(Tried::Best(found));
            }
            match field.add(PlacedGroup { group: question.group, placement, members }, world, cx) {
                Ok(true) => Ending::Keep(Tried::Best(found)),
                Ok(false) => Ending::Undo(Tried::Feasible),
                Err(status) => Ending::Undo(Tried::Infeasible(Findings::of(status))),
            }
        })
    }

    /// Places the members in the placement that was chosen.
    fn place_within(
        &mut self,
        placement: &GroupPlacement,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Findings {
        let nodes: NodeBits = placement.nodes.iter().copied().collect();
        world.tentatively(cx, |world, cx| {
            let found = Pass::new(self.question, Some(&nodes), self.decider).run(world, cx);
            if found.status.is_success() { Ending::Keep(found) } else { Ending::Undo(found) }
        })
    }

    /// Finds out how many members fit in the placement that comes closest, and what is missing
    /// there.
    ///
    /// Rule closest-placement of docs/differences.toml.
    fn reject(self, count: usize, world: &mut Tentative<'_>, cx: &mut Context<'_>) -> Findings {
        let Self { question, decider, rejectors, closest, .. } = self;
        let mut found = match closest {
            Some(closest) => {
                let nodes: NodeBits = closest.placement.nodes.iter().copied().collect();
                let mut found = world.tentatively(cx, |world, cx| {
                    let pass = Pass::new(question, Some(&nodes), decider);
                    Ending::Undo(pass.run_to_the_end(world, cx))
                });
                let text = format!(
                    "0/{count} placements are available, the closest is {:?}, where {} of {} pods \
                     fit: {}",
                    closest.placement.name,
                    found.fitting(),
                    question.members.len(),
                    missing(&found)
                );
                let rejected = Status::unschedulable(UNSCHEDULABLE).and(text);
                found.status = match found.status.plugin() {
                    Some(plugin) => rejected.by(plugin),
                    None => rejected,
                };
                found
            }
            None => Findings::of(Status::unschedulable(UNSCHEDULABLE).and(NO_PLACEMENTS)),
        };
        let generator = question.profile.placement_generate.iter().map(|own| own.name.clone());
        found.rejectors.extend(rejectors.into_iter().chain(generator));
        found
    }
}

/// The reason of a group for which no placement is proposed.
const NO_PLACEMENTS: &str = "no feasible placements found";

/// Returns why the first member that does not fit does not, or else why the group is rejected.
fn missing(found: &Findings) -> String {
    let of_member = found.members.iter().find_map(|member| match member {
        MemberDecision::Unfit(fit) => Some(fit.reasons()),
        MemberDecision::Failed(status) => Some(status.message()),
        MemberDecision::Fits(_) | MemberDecision::NotTried => None,
    });
    of_member.unwrap_or_else(|| found.status.message())
}
