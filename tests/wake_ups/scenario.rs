//! A pod that is rejected, and what may happen then.

use std::time::Duration;

use engine::queue::Place;
use framework::{ActionType, ClusterEvent, EventResource};

use super::objects::{Object, Step, create};
use super::world::{Deletions, World};

/// Longer than a pod waits for an event.
const TOO_LONG: Duration = Duration::from_secs(6 * 60);
/// The pod that waits, in every scenario.
pub(crate) const WAITING: &str = "p";

/// A pod that is rejected, and what may happen then, each time in a world of its own.
pub(crate) struct Scenario {
    /// The plugin that rejects the pod.
    pub(crate) plugin: &'static str,
    /// What the configuration has beside the defaults.
    pub(crate) config: &'static str,
    others: &'static [&'static str],
    deletions: Deletions,
    given: Vec<Step>,
    /// What happens once the pod waits.
    meanwhile: Vec<Step>,
    rows: Vec<Row>,
}

/// One thing that may happen.
struct Row {
    what: &'static str,
    step: Step,
    /// The event as which plugins hear of it, if they do.
    event: Option<ClusterEvent>,
    expected: Expected,
}

/// What becomes of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// It is tried again, and gets a node.
    Bound,
    /// It is tried again, in vain.
    Retried,
    /// It is left where it is.
    Left,
}

impl Scenario {
    /// A pod called [`WAITING`] that this plugin alone rejects, among what is `given`.
    pub(crate) fn new<const N: usize>(
        plugin: &'static str,
        waiting: Object,
        given: [Object; N],
    ) -> Self {
        let given = given.into_iter().chain([waiting]).map(create).collect();
        let (deletions, meanwhile, rows) = (Deletions::Served, Vec::new(), Vec::new());
        Self { plugin, config: "", others: &[], deletions, given, meanwhile, rows }
    }

    /// These fields in the configuration.
    pub(crate) fn configured(mut self, fields: &'static str) -> Self {
        self.config = fields;
        self
    }

    /// These plugins reject the pod on some of the nodes as well.
    pub(crate) fn beside(mut self, others: &'static [&'static str]) -> Self {
        self.others = others;
        self
    }

    /// This happens before the pod is as it should be.
    pub(crate) fn after(mut self, step: Step) -> Self {
        self.meanwhile.push(step);
        self
    }

    /// The API server leaves deletions of the scheduler unanswered.
    pub(crate) fn deaf_to_deletions(mut self) -> Self {
        self.deletions = Deletions::Unanswered;
        self
    }

    /// When this happens, which plugins hear of as this event.
    pub(crate) fn on(
        mut self,
        (resource, action): (EventResource, ActionType),
        what: &'static str,
        step: Step,
        expected: Expected,
    ) -> Self {
        let event = Some(ClusterEvent::new(resource, action));
        self.rows.push(Row { what, step, event, expected });
        self
    }

    /// When this happens, which the plugin does not listen to.
    pub(crate) fn passes_over(mut self, what: &'static str, step: Step) -> Self {
        self.rows.push(Row { what, step, event: None, expected: Expected::Left });
        self
    }

    /// The events of its rows, and whether the pod was tried again.
    pub(crate) fn events(&self) -> impl Iterator<Item = (&ClusterEvent, bool)> {
        let heard = |row| {
            let Row { event, expected, .. }: &Row = row;
            event.as_ref().map(|event| (event, *expected != Expected::Left))
        };
        self.rows.iter().filter_map(heard)
    }

    /// Lets each of its rows happen.
    pub(crate) fn check(&self) {
        self.rows.iter().for_each(|row| self.check_row(row));
    }

    fn check_row(&self, row: &Row) {
        let context = format!("{}: {}", self.plugin, row.what);
        let mut world = self.rejected(&context);
        let (before, place) = (world.attempts(WAITING), world.place(WAITING));
        world.happens(&row.step);
        if let Some(event) = &row.event {
            assert!(world.heard().contains(event), "{context}: {event} of {:?}", world.heard());
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

    /// The world in which the pod waits.
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

/// A pod that was left fits nowhere: it is rejected once more when it has waited for too long. Pods
/// behind a gate are not tried.
fn was_left_rightly(mut world: World, context: &str) {
    let (before, gated) = (world.attempts(WAITING), world.place(WAITING) == Some(Place::Gated));
    world.pass(TOO_LONG);
    assert_eq!(world.attempts(WAITING) > before, !gated, "{context}: tried after a long time");
    assert!(!world.has_node(WAITING), "{context}: was left though it fits");
}
