//! The choice of the placement of a group: the best of several sets of nodes that can take enough
//! members.
//!
//! A placement is not tried if a bound says that it cannot hold enough members, or if the limits of
//! its scores say that it cannot be the best. The answer is that of trying all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{
    Code, DomainLabel, GroupPlacement, GroupPlacements, LevelDivision, LevelPlacement, NodeBits,
    PlacedGroup, PluginName, Pod, PodGroupKey, Prospect, ProspectiveGroup, Status,
};

use super::UNSCHEDULABLE;
use super::bounds::{BoundedGroup, BoundedPlacement, BoundedPlacements};
use super::decision::{
    Findings, MemberDecision, Orders, Pass, PodGroupQuestion, feasible, is_open, placements,
};
use super::layout::Layout;
use super::other_orders::{Kinds, OtherOrders};
use super::placement_scores::{Left, PlacementScores, RawScores};
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
    decider: &mut Decider,
    world: &World,
    cx: &mut Context<'_>,
) -> Result<Option<Vec<Prospect>>, Status> {
    let bounded = BoundedGroup { group, profile, members };
    let bounded = match placements(group, profile, world, cx)? {
        GroupPlacements::Anywhere => return Ok(None),
        GroupPlacements::OneOf(list) => BoundedPlacements::of(list, bounded, world, cx)?,
        GroupPlacements::Domains(labels) => {
            decider.known_placements().bounded(&labels, bounded, world, cx)?
        }
        GroupPlacements::Levels(levels) => {
            let Some(LevelPlacement { mut within, division }) = levels.into_iter().last() else {
                return Ok(None);
            };
            within.extend(division.map(|own| DomainLabel { key: own.key, value: None }));
            decider.known_placements().bounded(&within, bounded, world, cx)?
        }
    };
    Ok(Some(bounded.list.into_iter().map(|own| own.prospect).collect()))
}

/// A level of a topology, and its domains within those of the wider levels.
#[derive(Debug, Clone)]
pub struct LevelProspects {
    /// The key of the node label.
    pub key: Arc<str>,
    /// The domains, each with a bound of how many of the members fit there.
    pub prospects: Vec<Prospect>,
}

/// Returns the levels of a group that prefers some of them, or is divided among the domains of the
/// narrowest; none of other groups.
///
/// # Errors
/// The plugin of the profile proposes no placement, or a plugin fails.
pub(crate) fn bounded_levels(
    bounded: BoundedGroup<'_>,
    decider: &mut Decider,
    world: &World,
    cx: &mut Context<'_>,
) -> Result<Vec<LevelProspects>, Status> {
    let GroupPlacements::Levels(rules) = placements(bounded.group, bounded.profile, world, cx)?
    else {
        return Ok(Vec::new());
    };
    let Some(LevelPlacement { within, division }) = rules.into_iter().next() else {
        return Ok(Vec::new());
    };
    let divided = division.map(|own| DomainLabel { key: own.key, value: None });
    let labels: Vec<DomainLabel> = within.into_iter().chain(divided).collect();
    let levels = (1..=labels.len()).map(|count| {
        let known = decider.known_placements().bounded(&labels[..count], bounded, world, cx)?;
        let prospects = known.list.into_iter().map(|own| own.prospect).collect();
        Ok(LevelProspects { key: labels[count - 1].key.clone(), prospects })
    });
    levels.collect()
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
    /// The placements in which too few members fit in the order of the queue.
    tried: Vec<Prospect>,
    /// The rule by which the members are placed.
    level: LevelPlacement,
}

/// Places the members by a rule within a placement, or on any nodes.
fn lay_out(
    question: PodGroupQuestion<'_>,
    level: &LevelPlacement,
    placement: Option<&GroupPlacement>,
    decider: &mut Decider,
    world: &mut Tentative<'_>,
    cx: &mut Context<'_>,
) -> Findings {
    let nodes: Option<NodeBits> =
        placement.map(|placement| placement.nodes.iter().copied().collect());
    let within = nodes.as_ref();
    let Some(LevelDivision { key, division }) = &level.division else {
        return Pass::new(question, within, decider).run(world, cx);
    };
    let keys: Vec<Arc<str>> = level.within.iter().map(|label| label.key.clone()).collect();
    let node = placement.and_then(|placement| placement.nodes.first());
    let values = match node {
        Some(node) => decider.known_placements().values_at(&keys, *node, world),
        None => Vec::new(),
    };
    let labels = keys.into_iter().zip(values);
    let labels = labels.map(|(key, value)| DomainLabel { key, value: Some(value) }).collect();
    Layout { question, labels, key, division: *division, within, decider }.run(world, cx)
}

/// The outcome of the search in other orders.
enum Searched {
    /// The members are placed, or a plugin or an extender failed.
    Placed(Findings),
    /// No order was found.
    Rejected(Note),
}

/// What the message of a group says about other orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Note {
    /// All were tried, or none has to be.
    None,
    /// The steps of the attempt were not enough.
    Spent,
    /// Other groups have used steps that the attempt could have.
    Short,
}

impl Note {
    /// Adds the note to the findings about a group that is rejected. A group to which more steps
    /// are given later is tried again.
    fn added_to(self, mut found: Findings) -> Findings {
        let until = match self {
            Self::None => return found,
            Self::Spent => "its steps",
            Self::Short => "the steps of all groups",
        };
        let text = format!(
            "the order of the queue, largest first, most constrained first and backtracking were \
             tried until {until} were used up"
        );
        let (plugin, status) = (found.status.plugin().cloned(), std::mem::take(&mut found.status));
        let status = status.and(text);
        found.status = plugin.map_or(status.clone(), |plugin| status.by(&plugin));
        found.is_tried_again = self == Self::Short;
        found
    }
}

/// Whether other orders of the members can make a difference.
fn searches_other_orders(question: PodGroupQuestion<'_>, decider: &mut Decider) -> bool {
    question.orders == Orders::All
        && question.members.len() > 1
        && decider.search_budget().is_open()
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
        let level = LevelPlacement { within: Vec::new(), division: None };
        Self {
            question,
            decider,
            members,
            rejectors: BTreeSet::new(),
            closest: None,
            tried: Vec::new(),
            level,
        }
    }

    /// Places the members in the best placement that can take enough of them. If there is none,
    /// finds out how many fit in the one that comes closest.
    pub(super) fn run(
        mut self,
        placements: GroupPlacements,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Findings {
        let levels = match placements {
            GroupPlacements::Anywhere => vec![LevelPlacement { within: vec![], division: None }],
            GroupPlacements::Domains(within) => vec![LevelPlacement { within, division: None }],
            GroupPlacements::Levels(levels) => levels,
            GroupPlacements::OneOf(list) => {
                let bounded = {
                    let PodGroupQuestion { group, profile, .. } = self.question;
                    let bounded = BoundedGroup { group, profile, members: &self.members };
                    BoundedPlacements::of(list, bounded, world, cx)
                };
                return match self.run_among(bounded, world, cx) {
                    Ok(found) => found,
                    Err(count) => self.search_further(None, count, world, cx),
                };
            }
        };
        let (mut anywhere, mut count) = (None, 0);
        for level in levels {
            (self.level, self.closest) = (level, None);
            if self.level.within.is_empty() {
                let found = self.run_anywhere(world, cx);
                if !found.status.is_rejection() {
                    return found;
                }
                anywhere = Some(found);
                continue;
            }
            let PodGroupQuestion { group, profile, .. } = self.question;
            let bounded = BoundedGroup { group, profile, members: &self.members };
            let known = self.decider.known_placements();
            let bounded = known.bounded(&self.level.within, bounded, world, cx);
            match self.run_among(bounded, world, cx) {
                Ok(found) => return found,
                Err(own) => count = own,
            }
        }
        self.search_further(anywhere, count, world, cx)
    }

    /// Places the members in the best of these placements. Returns their number if they cannot take
    /// enough of them.
    fn run_among(
        &mut self,
        bounded: Result<BoundedPlacements, Status>,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Findings, usize> {
        let bounded = match bounded {
            Ok(bounded) => bounded,
            Err(status) => return Ok(Findings::of(status)),
        };
        let count = bounded.list.len();
        let profile = &self.question.profile.scheduler_name;
        cx.probe.count(Count::Placements { profile, count });
        let prospects = self.prospects(bounded, world, cx);
        self.choose(prospects, world, cx).ok_or(count)
    }

    /// Places the members on any nodes.
    fn run_anywhere(&mut self, world: &mut Tentative<'_>, cx: &mut Context<'_>) -> Findings {
        let Self { question, decider, level, .. } = self;
        world.tentatively(cx, |world, cx| {
            let mut found = lay_out(*question, level, None, decider, world, cx);
            found.is_of_all_nodes = level.division.is_none();
            if found.status.is_success() { Ending::Keep(found) } else { Ending::Undo(found) }
        })
    }

    /// Tries other orders of the members of a group that fits in none of its placements. If there
    /// is none, finds out what is missing, unless that is known of all nodes.
    fn search_further(
        mut self,
        anywhere: Option<Findings>,
        count: usize,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Findings {
        let mut tried = std::mem::take(&mut self.tried);
        tried.sort_by(|one, other| {
            let by_name = || one.placement.name.cmp(&other.placement.name);
            other.most.cmp(&one.most).then_with(by_name)
        });
        let mut within: Vec<_> = tried.into_iter().map(|own| Some(own.placement)).collect();
        let is_whole = anywhere.is_some() && self.level.division.is_none();
        if is_whole && self.may_hold_anywhere(world, cx) {
            within.push(None);
        }
        match (self.in_other_orders(within, world, cx), anywhere) {
            (Searched::Placed(found), _) => found,
            (Searched::Rejected(note), Some(mut found)) => {
                if self.level.division.is_some() {
                    let generators = self.question.profile.placement_generate.iter();
                    found.rejectors.extend(generators.map(|own| own.name.clone()));
                }
                found.rejectors.extend(self.rejectors);
                note.added_to(found)
            }
            (Searched::Rejected(note), None) => self.reject(count, note, world, cx),
        }
    }

    /// Whether all nodes together may hold enough members.
    fn may_hold_anywhere(&mut self, world: &World, cx: &mut Context<'_>) -> bool {
        let Self { question, decider, members, .. } = self;
        if !searches_other_orders(*question, decider) {
            return false;
        }
        let bounded = BoundedGroup { group: question.group, profile: question.profile, members };
        let Ok(bounded) = decider.known_placements().bounded(&[], bounded, world, cx) else {
            return false;
        };
        let most = bounded.list.iter().map(|own| own.prospect.most).max().unwrap_or(0);
        is_open(&feasible(*question, most as usize, world, cx))
    }

    /// Tries other orders of the members in each of these placements, where `None` stands for all
    /// nodes.
    fn in_other_orders(
        &mut self,
        within: Vec<Option<Arc<GroupPlacement>>>,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Searched {
        let Self { question, decider, .. } = self;
        if within.is_empty() || !searches_other_orders(*question, decider) {
            return Searched::Rejected(Note::None);
        }
        let course = decider.course();
        let kinds = &Kinds::of(*question);
        let mut steps = decider.search_budget().begin(cx.now);
        let mut found = None;
        for placement in within {
            decider.resume(course.clone());
            let nodes = placement.map(|own| own.nodes.iter().copied().collect::<NodeBits>());
            let (question, within, steps) = (*question, nodes.as_ref(), &mut steps);
            found = OtherOrders { question, within, kinds, decider, steps }.run(world, cx);
            if found.is_some() || steps.is_spent() {
                break;
            }
        }
        decider.search_budget().end(&steps);
        if let Some(found) = found {
            return Searched::Placed(found);
        }
        decider.resume(course);
        Searched::Rejected(match (steps.is_spent(), steps.is_short()) {
            (false, _) => Note::None,
            (true, false) => Note::Spent,
            (true, true) => Note::Short,
        })
    }

    /// Returns the placements that may hold enough members.
    fn prospects(
        &mut self,
        bounded: BoundedPlacements,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Vec<BoundedPlacement> {
        // Many placements have the same bound.
        let mut may_hold: BTreeMap<u32, bool> = BTreeMap::from([(0, false)]);
        let BoundedPlacements { mut list, plugins } = bounded;
        list.retain(|own| {
            let may_hold = *may_hold.entry(own.prospect.most).or_insert_with(|| {
                let status = feasible(self.question, own.prospect.most as usize, world, cx);
                is_open(&status) || !status.is_rejection()
            });
            if !may_hold {
                self.note_closest(&own.prospect);
            }
            may_hold
        });
        if self.closest.is_some() {
            self.rejectors.extend(plugins);
        }
        list
    }

    /// Notes a placement that cannot take enough members.
    fn note_closest(&mut self, prospect: &Prospect) {
        let is_closer = |known: &Prospect| {
            let by_name = || known.placement.name > prospect.placement.name;
            known.most < prospect.most || (known.most == prospect.most && by_name())
        };
        if self.closest.as_ref().is_none_or(is_closer) {
            self.closest = Some(prospect.clone());
        }
    }

    /// Tries the placements, and keeps the best. Returns `None` if none can take enough members.
    fn choose(
        &mut self,
        prospects: Vec<BoundedPlacement>,
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
                    let prospect = Prospect { most, ..prospect };
                    self.note_closest(&prospect);
                    if self.level.division.is_none() {
                        self.tried.push(prospect);
                    }
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
        mut placements: Vec<BoundedPlacement>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> (Vec<Prospect>, Field<'q>) {
        let PodGroupQuestion { group, profile, .. } = self.question;
        let (scores, left) = (PlacementScores::new(profile), placements.len());
        self.decider.mix(&mut placements, |own| &own.prospect.placement.name);
        let placements = placements.into_iter().map(|own| (own.prospect, own.local_limits));
        let (mut prospects, local): (Vec<Prospect>, Vec<Option<RawScores>>) = placements.unzip();
        let mut field = Field { scores, feasible: Vec::new(), limits: None, left };
        if left < 2 {
            return (prospects, field);
        }
        let (members, prospective) = (&self.members[..], &prospects[..]);
        let prospective = ProspectiveGroup { group, members, prospects: prospective };
        let local = local.into_iter().collect();
        let limits = field.scores.limits(prospective, local, world, cx);
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
        let Self { question, decider, members, level, .. } = self;
        world.tentatively(cx, |world, cx| {
            let found = lay_out(*question, level, Some(placement), decider, world, cx);
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
        let Self { question, decider, level, .. } = self;
        world.tentatively(cx, |world, cx| {
            let found = lay_out(*question, level, Some(placement), decider, world, cx);
            if found.status.is_success() { Ending::Keep(found) } else { Ending::Undo(found) }
        })
    }

    /// Finds out how many members fit in the placement that comes closest, and what is missing
    /// there.
    ///
    /// Rule closest-placement of docs/differences.toml.
    fn reject(
        self,
        count: usize,
        note: Note,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Findings {
        let Self { question, decider, rejectors, closest, level, .. } = self;
        let mut found = match closest {
            Some(closest) => {
                let nodes: NodeBits = closest.placement.nodes.iter().copied().collect();
                let mut found = world.tentatively(cx, |world, cx| {
                    Ending::Undo(match level.division {
                        None => {
                            Pass::new(question, Some(&nodes), decider).run_to_the_end(world, cx)
                        }
                        Some(_) => {
                            lay_out(question, &level, Some(&closest.placement), decider, world, cx)
                        }
                    })
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
        note.added_to(found)
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
