//! Room for a group that was rejected: PodGroupPostFilter plugins, and their trials.

use std::sync::Arc;

use foldhash::HashMap;
use framework::preemption::Pause;
use framework::{
    Code, Commands, ExtensionPoint, Handle, MemberNomination, NodeIx, Pod, PodGroupKey,
    PodGroupPostFilterResult, PodGroupTrial, QueuedPod, Status, Uid,
};

use super::decision::{MemberDecision, Orders, PodGroupDecision, PodGroupQuestion, find};
use crate::context::Context;
use crate::cycle::{Panics, Question};
use crate::decide::Decider;
use crate::plugin_call::{HasCode, catch_panic};
use crate::ports::Span;
use crate::world::World;
use crate::world::tentative::{Ending, Tentative};

/// Runs the PodGroupPostFilter plugins for a group that was rejected. The first that succeeds or
/// answers UnschedulableAndUnresolvable decides. An error becomes the status of the group, and any
/// other answer is added to it.
pub(crate) fn make_room(
    question: PodGroupQuestion<'_>,
    decision: &mut PodGroupDecision,
    decider: &mut Decider,
    world: &mut World,
    cx: &mut Context<'_>,
) {
    let Some(uid) = world.pod_group(question.group).map(|known| known.uid.clone()) else { return };
    if decision.status.code() != Code::Unschedulable {
        return world.note_trial(&uid, &decision.status, cx.now);
    }
    let profile = question.profile;
    if profile.pod_group_post_filter.is_empty() {
        return;
    }
    if let Some(pause) = world.preemptions().fruitless().pause_of_trials(&uid, cx.now) {
        decision.status = std::mem::take(&mut decision.status).and(paused(&pause));
        return;
    }
    let span = Span::Point(ExtensionPoint::PodGroupPostFilter.into(), &profile.scheduler_name);
    for place in 0..profile.pod_group_post_filter.len() {
        cx.probe.start(span);
        let Tried { result, has_decided } = run_plugin(place, question, decider, world, cx);
        cx.probe.stop(span, result.code());
        let PodGroupPostFilterResult { nominations, status, found } = result;
        let code = status.code();
        let text = match code {
            Code::Success => found,
            _ => status.message(),
        };
        if !text.is_empty() {
            decision.status = std::mem::take(&mut decision.status).and(text);
        }
        match code {
            Code::Success => decision.nominations = Some(nominations),
            Code::Unschedulable | Code::Pending => {
                if has_decided {
                    world.note_trial(&uid, &status, cx.now);
                }
                continue;
            }
            Code::UnschedulableAndUnresolvable => {}
            _ => {
                decision.status = status;
                decision.rejectors.clear();
            }
        }
        return;
    }
}

/// The reason of a group that is not tried without victims for a while.
///
/// Rule trials-of-groups-pause of docs/differences.toml.
fn paused(pause: &Pause) -> String {
    let Pause { preemptions, until, .. } = pause;
    format!(
        "pod group preemption: {preemptions} trials have found no victims, paused until {}",
        until.floor_to_second()
    )
}

/// Runs one of the plugins. Its trial leaves nothing but commands.
fn run_plugin(
    place: usize,
    question: PodGroupQuestion<'_>,
    decider: &mut Decider,
    world: &mut World,
    cx: &mut Context<'_>,
) -> Tried {
    let plugin = &question.profile.pod_group_post_filter[place];
    let span = Span::Plugin(ExtensionPoint::PodGroupPostFilter.into(), &plugin.name);
    let (commands, mut panics) = (Commands::default(), Panics::default());
    cx.probe.start(span);
    let ended = world.tentatively(cx, |world, cx| {
        let mut trial = Trial {
            question: PodGroupQuestion { orders: Orders::OfQueue, ..question },
            decider,
            world,
            cx,
            commands: &commands,
            taken_off: HashMap::default(),
            placed: Vec::new(),
            by_node: HashMap::default(),
            has_decided: false,
        };
        let result = catch_panic(&plugin.name, &mut panics, || {
            plugin.plugin.pod_group_post_filter(&mut trial)
        });
        Ending::Undo((result, trial.has_decided))
    });
    let (result, has_decided) = ended.value;
    cx.probe.stop(span, result.code());
    panics.report(cx.probe);
    if result.is_ok() {
        world.commands().append(commands);
    }
    Tried { result: result.unwrap_or_else(PodGroupPostFilterResult::from), has_decided }
}

/// The answer of a plugin, and whether the group was decided for it.
struct Tried {
    result: PodGroupPostFilterResult,
    has_decided: bool,
}

/// A trial inside a savepoint.
struct Trial<'t, 'w, 'c> {
    question: PodGroupQuestion<'t>,
    decider: &'t mut Decider,
    world: &'t mut Tentative<'w>,
    cx: &'t mut Context<'c>,
    commands: &'t Commands,
    /// The pods that are taken off their nodes. Never iterated.
    taken_off: HashMap<Uid, Arc<Pod>>,
    /// The members that stay on their nodes.
    placed: Vec<Placed>,
    /// The places of these members in the list, by node. Never iterated.
    by_node: HashMap<NodeIx, Vec<usize>>,
    /// Whether the plugin has let the group be decided.
    has_decided: bool,
}

/// A member on its node.
struct Placed {
    pod: Arc<Pod>,
    node: NodeIx,
}

impl Trial<'_, '_, '_> {
    /// Decides about the group. The members stay on their nodes if `keeps` is set and enough fit.
    fn run(&mut self, keeps: bool) -> Result<Vec<MemberNomination>, Status> {
        self.has_decided = true;
        let Self { question, decider, world, cx, .. } = self;
        let found = world.tentatively(cx, |world, cx| {
            let found = find(*question, decider, world, cx);
            match keeps && found.status.is_success() {
                true => Ending::Keep(found),
                false => Ending::Undo(found),
            }
        });
        found.status.ok()?;
        let members = question.members.iter().zip(found.members);
        let nomination = |(member, decision): (&QueuedPod, MemberDecision)| match decision {
            MemberDecision::Fits(choice) => Some(MemberNomination {
                pod: member.pod.key.clone(),
                uid: member.pod.uid.clone(),
                node: choice.node,
            }),
            _ => None,
        };
        Ok(members.filter_map(nomination).collect())
    }

    /// Filters the node of a placed member again.
    fn filter_member(&mut self, place: usize) -> Status {
        let Placed { pod, node } = &self.placed[place];
        let (pod, node, profile) = (pod.clone(), *node, self.question.profile);
        let Self { decider, world, cx, .. } = self;
        world.tentatively(cx, |world, cx| {
            world.remove(&pod.uid);
            let question = Question { world, profile, pod: &pod, within: None, as_member: true };
            Ending::Undo(
                decider
                    .check(question, node, cx)
                    .map_or_else(|status| status, |_| Status::success()),
            )
        })
    }
}

impl PodGroupTrial for Trial<'_, '_, '_> {
    fn group(&self) -> &PodGroupKey {
        self.question.group
    }

    fn members(&self) -> &[QueuedPod] {
        self.question.members
    }

    fn handle(&self) -> Handle<'_> {
        self.world.shared(self.cx.now).handle(self.commands)
    }

    fn remove_pod(&mut self, pod: &Uid) {
        if let Some(pod) = self.world.remove(pod) {
            self.taken_off.insert(pod.uid.clone(), pod);
        }
    }

    fn add_pod(&mut self, pod: &Uid) {
        if let Some(pod) = self.taken_off.remove(pod) {
            self.world.put_back(pod);
        }
    }

    fn decide(&mut self) -> Result<Vec<MemberNomination>, Status> {
        self.run(false)
    }

    fn place(&mut self) -> Result<Vec<MemberNomination>, Status> {
        let nominations = self.run(true)?;
        self.placed.clear();
        self.by_node.clear();
        let mut left = nominations.iter().peekable();
        for QueuedPod { pod, .. } in self.question.members {
            let Some(own) = left.next_if(|own| own.uid == pod.uid) else { continue };
            let Some(node) = self.world.cluster().node_named(&own.node) else { continue };
            self.by_node.entry(node).or_default().push(self.placed.len());
            self.placed.push(Placed { pod: pod.clone(), node });
        }
        Ok(nominations)
    }

    fn filter_on(&mut self, nodes: Option<&[Arc<str>]>) -> Status {
        let places: Vec<usize> = match nodes {
            None => (0..self.placed.len()).collect(),
            Some(nodes) => {
                let cluster = self.world.cluster();
                let nodes = nodes.iter().filter_map(|name| cluster.node_named(name));
                nodes.filter_map(|node| self.by_node.get(&node)).flatten().copied().collect()
            }
        };
        let mut verdicts = places.into_iter().map(|place| self.filter_member(place));
        verdicts.find(|status| !status.is_success()).unwrap_or_default()
    }
}
