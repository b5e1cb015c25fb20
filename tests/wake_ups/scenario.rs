//! A pod that is rejected, and the events that follow.

use std::time::Duration;

use engine::queue::Place;
use framework::{ActionType, ClusterEvent, EventResource};

use super::objects::{Object, Step, create};
use super::world::{Deletions, World};

/// Longer than the maximum time without an event.
const TOO_LONG: Duration = Duration::from_secs(6 * 60);
/// The pending pod of every scenario.
pub(crate) const WAITING: &str = "p";

/// An event that a plugin registers.
pub(crate) const fn event(resource: EventResource, action: ActionType) -> ClusterEvent {
    ClusterEvent::new(resource, action)
}

/// A pod that is rejected, and events, each in a world of its own.
pub(crate) struct Scenario {
    /// The plugin that rejects the pod.
    pub(crate) plugin: &'static str,
    /// Additional fields of the configuration.
    pub(crate) config: &'static str,
    others: &'static [&'static str],
    deletions: Deletions,
    given: Vec<Step>,
    /// Events while the pod is pending.
    meanwhile: Vec<Step>,
    rows: Vec<Row>,
}

/// An event.
struct Row {
    what: &'static str,
    step: Step,
    /// The registered event, if a plugin registered it.
    event: Option<ClusterEvent>,
    expected: Expected,
}

/// The effect on the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The pod is tried again, and gets a node.
    Bound,
    /// The pod is tried again and rejected.
    Retried,
    /// The pod is not tried again.
    Left,
}

impl Scenario {
    /// Creates a scenario in which this plugin alone rejects the pod [`WAITING`], with the `given`
    /// objects.
    pub(crate) fn new<const N: usize>(
        plugin: &'static str,
        waiting: Object,
        given: [Object; N],
    ) -> Self {
        let given = given.into_iter().chain([waiting]).map(create).collect();
        let (deletions, meanwhile, rows) = (Deletions::Served, Vec::new(), Vec::new());
        Self { plugin, config: "", others: &[], deletions, given, meanwhile, rows }
    }

    /// Sets fields of the configuration.
    pub(crate) fn configured(mut self, fields: &'static str) -> Self {
        self.config = fields;
        self
    }

    /// Adds plugins that reject the pod on some of the nodes as well.
    pub(crate) fn beside(mut self, others: &'static [&'static str]) -> Self {
        self.others = others;
        self
    }

    /// Adds an action before the pod is rejected.
    pub(crate) fn after(mut self, step: Step) -> Self {
        self.meanwhile.push(step);
        self
    }

    /// Leaves deletions by the scheduler without an answer.
    pub(crate) fn deaf_to_deletions(mut self) -> Self {
        self.deletions = Deletions::Unanswered;
        self
    }

    /// Adds an action that raises this registered event.
    pub(crate) fn on(
        mut self,
        event: ClusterEvent,
        what: &'static str,
        step: Step,
        expected: Expected,
    ) -> Self {
        self.rows.push(Row { what, step, event: Some(event), expected });
        self
    }

    /// Adds an action whose event the plugin has not registered.
    pub(crate) fn passes_over(mut self, what: &'static str, step: Step) -> Self {
        self.rows.push(Row { what, step, event: None, expected: Expected::Left });
        self
    }

    /// Returns the registered events, and whether the pod was tried again.
    pub(crate) fn events(&self) -> impl Iterator<Item = (&ClusterEvent, bool)> {
        let heard = |row| {
            let Row { event, expected, .. }: &Row = row;
            event.as_ref().map(|event| (event, *expected != Expected::Left))
        };
        self.rows.iter().filter_map(heard)
    }

    /// Runs each action in a world of its own.
    pub(crate) fn check(&self) {
        self.rows.iter().for_each(|row| self.check_row(row));
    }

    fn check_row(&self, row: &Row) {
        let context = format!("{}: {}", self.plugin, row.what);
        let mut world = self.rejected(&context);
        let (before, place) = (world.attempts(WAITING), world.place(WAITING));
        world.happens(&row.step);
        if let Some(event) = &row.event {
            assert!(
                world.heard().contains(&event.to_string()),
                "{context}: {event} of {:?}",
                world.heard()
            );
        }
        world.settle();
        let outcome = match world.attempts(WAITING) > before {
            true if world.has_node(WAITING) => Expected::Bound,
            true => Expected::Retried,
            false => Expected::Left,
        };
        assert_eq!(outcome, row.expected, "{context}");
        if outcome == Expected::Left {
            assert_eq!(world.place(WAITING), place, "{context}");
            was_left_rightly(world, &context);
        }
    }

    /// Creates the world in which the pod is pending.
    fn rejected(&self, context: &str) -> World {
        let mut world = World::with_deletions(self.deletions, self.config, &self.given);
        for step in &self.meanwhile {
            world.happens(step);
            world.settle();
        }
        let rejectors = world.rejectors(WAITING);
        let expected = self.others.iter().chain([&self.plugin]).map(|name| (*name).into());
        assert_eq!(rejectors, expected.collect(), "{context}: who rejected it");
        world
    }
}

/// Checks that a pod that was left is unschedulable: it is rejected again when it is retried after
/// the maximum time without an event. Gated pods are not retried.
fn was_left_rightly(mut world: World, context: &str) {
    let (before, gated) = (world.attempts(WAITING), world.place(WAITING) == Some(Place::Gated));
    world.pass(TOO_LONG);
    assert_eq!(world.attempts(WAITING) > before, !gated, "{context}: tried after a long time");
    assert!(!world.has_node(WAITING), "{context}: was left though it fits");
}
