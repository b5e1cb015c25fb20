//! The order of the active queue by quota, against a search through all entities at each pop.

use std::sync::Arc;

use framework::quota::{Books, QuotaIx, QuotaView};
use framework::{
    Cluster, ELASTIC_QUOTAS, EntityKey, EventResource, ObjectKey, Plugin, PodGroupKey, PodIx,
    QUOTA_IS_PARENT_LABEL, QUOTA_NAME_LABEL, QUOTA_PARENT_LABEL, QueuedEntity, QueuedGroup,
    QueuedPod, Time,
};
use proptest::prelude::*;
use serde_json::json;
use testkit::{HandleParts, cluster, node, pod};

use super::harness::{Log, Rejector, profiles_with};
use crate::queue::Plugins;
use crate::queue::active::ActiveQueue;
use crate::queue::order::SortPlugin;

/// Two parents with two quotas each, and a quota at the top.
const TEAMS: [&str; 5] = ["a1", "a2", "b1", "b2", "c"];

#[derive(Debug, Clone)]
enum Step {
    Push(Item),
    Update(Item),
    Remove(u8),
    Pop,
    /// A pod of a team is placed or gone.
    Use(usize, u8),
    /// A quota guarantees this much, or is gone.
    Guarantee(usize, Option<u8>),
}

/// An entity.
#[derive(Debug, Clone, Copy)]
struct Item {
    name: u8,
    /// Index into `TEAMS`; above them: none.
    team: usize,
    priority: i32,
}

impl Item {
    /// Every third entity is a group.
    fn entity(self) -> QueuedEntity {
        let mut pod = pod(&format!("p{}", self.name)).priority(self.priority);
        if let Some(team) = TEAMS.get(self.team) {
            pod = pod.label(QUOTA_NAME_LABEL, team);
        }
        let queued = QueuedPod::new(Arc::new(pod.build()), Time::ZERO);
        match self.name % 3 {
            0 => {
                let key = PodGroupKey::new("default", &format!("g{}", self.name));
                QueuedEntity::Group(Box::new(QueuedGroup::new(key, self.priority, queued)))
            }
            _ => QueuedEntity::Pod(queued),
        }
    }

    fn key(self) -> EntityKey {
        self.entity().key()
    }
}

fn step() -> impl Strategy<Value = Step> {
    let item = (0..16_u8, 0..6_usize, 0..3_i32);
    let item = item.prop_map(|(name, team, priority)| Item { name, team, priority });
    prop_oneof![
        6 => item.clone().prop_map(Step::Push),
        1 => item.prop_map(Step::Update),
        1 => (0..16_u8).prop_map(Step::Remove),
        4 => Just(Step::Pop),
        3 => (0..TEAMS.len(), 0..6_u8).prop_map(|(team, cpu)| Step::Use(team, cpu)),
        1 => (0..TEAMS.len(), prop::option::of(0..6_u8))
            .prop_map(|(team, min)| Step::Guarantee(team, min)),
    ]
}

fn set_quota(cluster: &mut Cluster, name: &str, min: Option<u8>) {
    let kind = EventResource::Custom(ELASTIC_QUOTAS.into());
    let Some(min) = min else {
        cluster.remove_object(&ObjectKey { kind, namespace: "default".into(), name: name.into() });
        return;
    };
    let (parent, is_parent) = match name {
        "a1" | "a2" => ("a", "false"),
        "b1" | "b2" => ("b", "false"),
        _ => ("koordinator-root-quota", if name == "c" { "false" } else { "true" }),
    };
    let object = json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("{name}-{min}"),
            "labels": {QUOTA_PARENT_LABEL: parent, QUOTA_IS_PARENT_LABEL: is_parent}},
        "spec": {"min": {"cpu": min.to_string(), "memory": "8"}},
    });
    cluster.set_object(testkit::object(kind, object));
}

/// Looks through all entities, which are in the order of their arrival.
struct Oracle<'a> {
    books: &'a Books,
    items: &'a [Item],
}

impl<'a> Oracle<'a> {
    /// Returns the place of the entity that leaves first.
    fn first(&self) -> Option<usize> {
        let mut firsts = self.of_quota(None);
        firsts.extend(self.best_of(self.books.tops()));
        self.by_priority(firsts)
    }

    /// Returns the first entity of the quotas of one level: of those with the least part of their
    /// guarantee, or of all if none is below its guarantee.
    fn best_of(&self, level: impl Iterator<Item = QuotaView<'a>>) -> Option<usize> {
        let firsts = level.filter_map(|quota| Some((self.part(quota), self.first_below(quota)?)));
        let firsts: Vec<(f64, usize)> = firsts.collect();
        let least = firsts.iter().map(|(part, _)| *part).fold(1.0, f64::min);
        let best = firsts.iter().filter(|(part, _)| *part <= least).map(|(_, place)| *place);
        self.by_priority(best.collect())
    }

    fn first_below(&self, quota: QuotaView<'a>) -> Option<usize> {
        let own = self.by_priority(self.of_quota(Some(quota.ix())));
        own.or_else(|| self.best_of(quota.children()))
    }

    fn part(&self, quota: QuotaView<'_>) -> f64 {
        let parts = ["cpu", "memory"].into_iter().filter_map(|name| {
            let resource = self.books.resource(name)?;
            let min = quota.min(resource).filter(|min| *min > 0)?;
            Some(quota.used(resource) as f64 / min as f64)
        });
        parts.reduce(f64::max).map_or(1.0, |most| most.min(1.0))
    }

    fn of_quota(&self, quota: Option<QuotaIx>) -> Vec<usize> {
        let has_quota = |item: &Item| {
            let entity = item.entity();
            self.books.quota_of(&entity.pods()[0].pod).map(QuotaView::ix) == quota
        };
        (0..self.items.len()).filter(|place| has_quota(&self.items[*place])).collect()
    }

    fn by_priority(&self, places: Vec<usize>) -> Option<usize> {
        places.into_iter().min_by_key(|place| (-self.items[*place].priority, *place))
    }
}

/// A queue, the quotas and the pods that use them.
struct Case {
    queue: ActiveQueue,
    cluster: Cluster,
    log: Log,
    placed: Vec<PodIx>,
}

impl Case {
    fn new() -> Self {
        let mut cluster = cluster([node("n").build()], []);
        cluster.count_quotas();
        for team in TEAMS.into_iter().chain(["a", "b"]) {
            set_quota(&mut cluster, team, Some(4));
        }
        Self { queue: ActiveQueue::default(), cluster, log: Log::default(), placed: Vec::new() }
    }

    fn on<T>(&mut self, call: impl FnOnce(&mut ActiveQueue, &mut SortPlugin<'_>) -> T) -> T {
        let plugin = Plugin::new("Teams", Rejector).filter().orders_by_quota(true).build();
        let profiles = profiles_with(framework::Level::default(), Some(plugin));
        let parts = HandleParts::default();
        let handle = parts.handle(&self.cluster);
        let mut plugins = Plugins { profiles: &profiles, handle, probe: &mut self.log };
        call(&mut self.queue, &mut SortPlugin::of(&mut plugins))
    }

    fn changed(&mut self) {
        let changed = self.cluster.take_changed_quotas();
        self.on(|queue, sort| queue.usage_changed(&changed, sort));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn queue_by_quota_agrees_with_a_search_through_all_entities(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let (mut case, mut model) = (Case::new(), Vec::<Item>::new());
        let pops = std::iter::repeat_n(Step::Pop, 17);
        for step in steps.into_iter().chain(pops) {
            match step {
                Step::Push(item) => {
                    case.on(|queue, sort| queue.push(item.entity(), sort));
                    model.retain(|other| other.name != item.name);
                    model.push(item);
                }
                Step::Update(item) => {
                    let newer = item.entity();
                    let known =
                        case.on(|queue, sort| queue.update(&item.key(), sort, |own| *own = newer));
                    let entry = model.iter_mut().find(|other| other.name == item.name);
                    prop_assert_eq!(known, entry.is_some());
                    entry.into_iter().for_each(|entry| *entry = item);
                }
                Step::Remove(name) => {
                    let key = Item { name, team: 0, priority: 0 }.key();
                    let removed = case.on(|queue, sort| queue.remove(&key, sort)).is_some();
                    prop_assert_eq!(removed, model.iter().any(|other| other.name == name));
                    model.retain(|other| other.name != name);
                }
                Step::Pop => {
                    case.changed();
                    let oracle = Oracle { books: case.cluster.quotas(), items: &model };
                    let expected = oracle.first();
                    let expected = expected.map(|place| model.remove(place).key());
                    let popped = case.on(|queue, sort| queue.pop(sort)).map(|entity| entity.key());
                    prop_assert_eq!(popped, expected);
                }
                Step::Use(_, 0) => {
                    if let Some(pod) = case.placed.pop() {
                        case.cluster.remove_pod(pod);
                    }
                }
                Step::Use(team, cpu) => {
                    let name = format!("placed{}", case.placed.len());
                    let placed = pod(&name).cpu(&cpu.to_string()).label(QUOTA_NAME_LABEL, TEAMS[team]);
                    let placed = placed.on("n").build().into();
                    case.placed.push(case.cluster.place_pod(placed, "n"));
                }
                Step::Guarantee(team, min) => set_quota(&mut case.cluster, TEAMS[team], min),
            }
            prop_assert_eq!(case.queue.len(), model.len());
            prop_assert_eq!(case.queue.is_empty(), model.is_empty());
            for item in &model {
                prop_assert!(case.queue.get(&item.key()).is_some());
            }
        }
    }
}
