//! Preemption in vain: who evicts again and again without being bound comes to rest.

use std::time::Duration;

use engine::counters::PREEMPTION_PAUSES;
use engine::{Effect, EffectId, EffectKind, Eviction, Outcome};
use framework::*;
use testkit::{PodBuilder, node, pod};

use crate::harness::*;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// A node of 4 CPUs for each pod of the other scheduler, which fills it.
fn front(victims: &[&str]) -> World {
    front_with(Duration::MAX, victims)
}

/// A front where no pause is longer than this.
fn front_with(longest_pause: Duration, victims: &[&str]) -> World {
    let mut setup = Setup::new([fit()]).plugin(preempting());
    setup.longest_pause = longest_pause;
    let mut world = setup.build();
    for name in victims {
        let home = format!("node-{name}");
        world.node(node(&home).allocatable("cpu", "4"));
        world.pod(pod(name).cpu("4").scheduler("other").on(&home));
    }
    world
}

fn preemptor(name: &str) -> PodBuilder {
    pod(name).cpu("4").priority(100)
}

/// The victim is gone.
fn dies(world: &mut World, effect: EffectId, victim: &Eviction) {
    world.answer(effect, &Answer::ok());
    world.delete(&victim.pod.name);
}

/// The victim is gone, and a new one takes the room before anybody else.
fn is_replaced(world: &mut World, effect: EffectId, victim: &Eviction) {
    let (old, home) = (&world.server[&victim.pod], world.node_of(&victim.pod.name).unwrap());
    let uid = format!("{}+", old.metadata.uid);
    dies(world, effect, victim);
    world.pod(pod(&victim.pod.name).uid(&uid).cpu("4").scheduler("other").on(&home));
}

/// Lets time pass, with `on_eviction` in place of the API server where it is asked to evict.
/// Returns how many seconds lie between the evictions.
fn run_against(
    world: &mut World,
    time: Duration,
    mut on_eviction: impl FnMut(&mut World, EffectId, &Eviction),
) -> Vec<u64> {
    let (mut evictions, end) = (Vec::new(), world.now + time);
    loop {
        while world.try_attempt().is_some() {}
        if let Some(effect) = world.open.pop_front() {
            match &effect.kind {
                EffectKind::Evict(eviction) => {
                    evictions.push(world.now);
                    assert!(evictions.len() < 1000, "a war without end");
                    on_eviction(world, effect.id, eviction);
                }
                _ => world.carry_out(effect),
            }
            continue;
        }
        let due = world.engine.next_deadline().filter(|due| *due <= end);
        world.now = due.unwrap_or(end);
        world.tick();
        if due.is_none() {
            return evictions.windows(2).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
        }
    }
}

/// Three evictions at once, and then with pauses that double, for a day.
const DOUBLING: [u64; 16] =
    [0, 0, 0, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240, 20480, 40960];

#[test]
fn pauses_have_an_upper_bound_and_can_be_switched_off() {
    let mut world = front_with(Duration::from_mins(5), &["v"]);
    world.pod(preemptor("p"));
    let gaps = run_against(&mut world, HOUR, is_replaced);
    assert_eq!(gaps[..9], [0, 0, 0, 10, 20, 40, 80, 160, 300]);
    assert!(gaps[9..].iter().all(|gap| *gap == 300), "{gaps:?}");

    let mut world = front_with(Duration::ZERO, &["v"]);
    world.pod(preemptor("p"));
    let gaps = run_against(&mut world, Duration::from_millis(100), |world, effect, victim| {
        if world.evictions().len() < 20 {
            is_replaced(world, effect, victim);
        } else {
            dies(world, effect, victim);
        }
    });
    assert_eq!((gaps, world.place("p")), (vec![0; 19], "placed"));
}

fn pause_events(world: &World) -> Vec<String> {
    let mut events = world.events();
    events.retain(|event| event.contains("PreemptionPaused"));
    events
}

#[test]
fn preemptor_pauses_if_another_scheduler_takes_the_room_each_time() {
    let mut world = front(&["v"]);
    world.pod(preemptor("p"));
    assert_eq!(run_against(&mut world, DAY, is_replaced), DOUBLING);

    let events = pause_events(&world);
    assert_eq!(events.len(), 14, "one a pause: {events:#?}");
    let first = "Warning PreemptionPaused Preempting: 4 preemptions for the pod led to no binding, \
                 paused until 1970-01-01T00:16:50Z";
    assert_eq!(events[0], first);
    assert_eq!(world.probe.counted(&PREEMPTION_PAUSES), ["pod"; 14]);
    let condition = world.condition("p").unwrap();
    let text = "0/1 nodes are available: 1 Insufficient cpu. not eligible because 17 preemptions for \
                the pod led to no binding, paused until 1970-01-02T21:";
    assert!(condition.contains(text), "{condition}");

    run_against(&mut world, DAY, dies);
    assert_eq!(world.place("p"), "placed", "peace, and the next preemption works");
    assert_eq!(world.engine.next_deadline(), None);
}

#[test]
fn paused_pod_binds_to_room_that_becomes_free() {
    let mut world = front(&["v"]);
    world.pod(preemptor("p"));
    run_against(&mut world, HOUR, is_replaced);
    assert_eq!(world.place("p"), "unschedulable");
    world.delete("v");
    world.run();
    assert_eq!(world.place("p"), "placed");
}

#[test]
fn node_pauses_if_the_preemptor_is_recreated_each_time() {
    let mut world = front(&["v"]);
    world.pod(preemptor("p"));
    let mut generation = 0;
    let gaps = run_against(&mut world, DAY, |world, effect, victim| {
        is_replaced(world, effect, victim);
        generation += 1;
        world.delete("p");
        world.pod(preemptor("p").uid(&format!("p{generation}")));
    });
    assert_eq!(gaps, DOUBLING);
    assert_eq!(world.probe.counted(&PREEMPTION_PAUSES), ["node"; 14]);
    let first = "Warning PreemptionPaused Preempting: 4 preemptions on node node-v led to no binding, \
                 paused until 1970-01-01T00:16:50Z";
    assert_eq!(pause_events(&world)[0], first);
    let condition = world.condition("p").unwrap();
    let text = "0/1 nodes are available: 1 Preemption is paused since it led to no binding.";
    assert!(condition.ends_with(text), "{condition}");

    world.pod(preemptor("q").priority(101));
    world.run();
    assert_eq!(world.place("q"), "placed", "it is more important than all that failed");
}

/// The watch may show the end of a pod and not its bind: a list after a broken watch lacks the pod.
#[test]
fn node_pauses_if_the_preemptor_is_deleted_before_its_bind_each_time() {
    for is_bound in [false, true] {
        let mut world = front(&["v"]);
        for generation in 0..4 {
            world.pod(preemptor("p").uid(&format!("p{generation}")));
            world.attempt();
            let (effect, victim) = world.take_eviction("v");
            dies(&mut world, effect, &victim);
            world.pass(2);
            assert_eq!(world.attempt(), Outcome::Assumed("node-v".into()));
            let (bind, _) = world.take_bind("p");
            if is_bound {
                world.answer(bind, &Answer::ok());
            }
            world.delete("p");
            let replacement = pod("v").uid(&format!("v{generation}")).cpu("4");
            world.pod(replacement.scheduler("other").on("node-v"));
        }
        world.pod(preemptor("p"));
        world.attempt();
        let evictions = if is_bound { 1 } else { 0 };
        assert_eq!(world.open_evictions().len(), evictions, "bound: {is_bound}");
        assert_eq!(pause_events(&world).len(), 1 - evictions, "bound: {is_bound}");
    }
}

#[test]
fn deleted_preemptor_leaves_no_deadline() {
    let mut world = front(&["v"]);
    world.pod(preemptor("p"));
    for generation in 0..8 {
        run_against(&mut world, HOUR, is_replaced);
        world.delete("p");
        world.pod(preemptor("p").uid(&format!("p{generation}")));
    }
    world.run();
    assert!(world.engine.next_deadline().is_some());
    world.delete("p");
    assert_eq!(world.engine.next_deadline(), None);
}

#[test]
fn many_preemptors_of_a_contested_node_pause_together() {
    let mut world = front(&["v"]);
    for place in 0..10 {
        world.pod(preemptor(&format!("p{place}")));
    }
    let gaps = run_against(&mut world, DAY, is_replaced);
    assert!((16..=30).contains(&gaps.len()), "{gaps:?}");
    run_against(&mut world, DAY, dies);
    let placed = (0..10).filter(|place| world.place(&format!("p{place}")) == "placed");
    assert_eq!(placed.count(), 1, "as many as there is room for");
}

#[test]
fn preemptor_does_not_pause_on_an_uncontested_node() {
    let mut world = front(&["v", "w"]);
    world.update("w", |pod| pod.spec.priority = Some(1));
    for generation in 0..4 {
        world.pod(preemptor("p").uid(&format!("p{generation}")));
        run_against(&mut world, Duration::ZERO, |world, effect, victim| {
            is_replaced(world, effect, victim);
            world.delete("p");
        });
    }
    world.pod(preemptor("p"));
    run_against(&mut world, Duration::ZERO, dies);
    assert_eq!(world.evictions(), ["v", "v", "v", "v", "w"], "v would be the better victim");
    assert_eq!(world.node_of("p").as_deref(), Some("node-w"));
    assert_eq!(pause_events(&world), [""; 0], "no pod is paused");
}

#[test]
fn node_of_the_same_name_starts_without_fruitless_preemptions() {
    let mut world = front(&["v"]);
    for generation in 0..4 {
        world.pod(preemptor("p").uid(&format!("p{generation}")));
        run_against(&mut world, Duration::ZERO, |world, effect, victim| {
            is_replaced(world, effect, victim);
            world.delete("p");
        });
    }
    world.pod(preemptor("p"));
    run_against(&mut world, Duration::ZERO, dies);
    assert_eq!(world.place("p"), "unschedulable");
    world.delete_node("node-v");
    world.node(node("node-v").allocatable("cpu", "4"));
    run_against(&mut world, Duration::ZERO, dies);
    assert_eq!(world.place("p"), "placed");
}

#[test]
fn concurrent_preemptors_of_one_node_do_not_pause() {
    let mut world = Setup::new([fit()]).plugin(preempting()).build();
    world.node(node("n").allocatable("cpu", "10"));
    for place in 0..10 {
        world.pod(pod(&format!("v{place}")).cpu("1").on("n"));
    }
    for place in 0..10 {
        world.pod(pod(&format!("p{place}")).cpu("1").priority(100));
        assert!(matches!(world.attempt(), Outcome::Unschedulable(_)));
    }
    world.run_for(5);
    assert!((0..10).all(|place| world.place(&format!("p{place}")) == "placed"));
    assert_eq!(pause_events(&world), [""; 0]);
}

#[test]
fn binding_on_the_node_clears_its_fruitless_preemptions() {
    let mut world = front(&["v"]);
    for round in 0..4 {
        // Three in vain, one that works.
        for time in 0..4 {
            let name = format!("p{round}-{time}");
            world.pod(preemptor(&name));
            let react = if time < 3 { is_replaced } else { dies };
            let mut evictions = 0;
            run_against(&mut world, Duration::ZERO, |world, effect, victim| {
                evictions += 1;
                react(world, effect, victim);
                if time < 3 {
                    world.delete(&name);
                }
            });
            assert_eq!(evictions, 1, "{name}");
            if time == 3 {
                assert_eq!(world.place(&name), "placed");
                world.delete(&name);
                world.pod(pod("v").uid(&name).cpu("4").scheduler("other").on("node-v"));
            }
        }
    }
    assert_eq!(pause_events(&world), [""; 0]);
}

#[test]
fn victim_that_does_not_end_is_evicted_once() {
    let mut world = front(&["v"]);
    world.pod(preemptor("p"));
    let refuses = |world: &mut World, effect, victim: &Eviction| {
        world.answer(effect, &Answer::ok());
        world.change(&victim.pod.name, |pod| {
            pod.status.conditions.push(api::PodCondition {
                type_: DISRUPTION_TARGET.to_owned(),
                status: "True".to_owned(),
                reason: PREEMPTION_BY_SCHEDULER.to_owned(),
                message: String::new(),
            });
        });
        world.terminate(&victim.pod.name);
    };
    run_against(&mut world, DAY, refuses);
    assert_eq!(world.evictions(), ["v"]);
    let condition = world.condition("p").unwrap();
    let text = "not eligible due to a terminating pod on the nominated node.";
    assert!(condition.ends_with(text), "{condition}");
    world.delete("v");
    world.run();
    assert_eq!((world.place("p"), pause_events(&world).len()), ("placed", 0));
}

#[test]
fn evictions_that_are_refused_are_repeated_after_the_longest_backoff() {
    let text = || "no".to_owned();
    let refusals = [
        Answer::Conflict(text()),
        Answer::Forbidden(text()),
        Answer::Throttled(text()),
        Answer::Error(text()),
        Answer::Unknown(text()),
    ];
    for refusal in refusals {
        let mut world = front(&["v"]);
        world.pod(preemptor("p"));
        let gaps = run_against(&mut world, HOUR, |world, effect, _| world.answer(effect, &refusal));
        assert_eq!(gaps[..4], [2, 3, 5, 9], "{refusal:?}");
        assert!(gaps[4..].iter().all(|gap| *gap == 11), "{refusal:?}: {gaps:?}");
        assert_eq!(pause_events(&world), [""; 0], "no pod was evicted");
        run_against(&mut world, HOUR, dies);
        assert_eq!(world.place("p"), "placed");
    }
}

#[test]
fn eviction_counts_even_if_another_is_refused() {
    let mut setup = Setup::new([fit()]).plugin(preempting());
    setup.longest_pause = Duration::MAX;
    let mut world = setup.build();
    world.node(node("n").allocatable("cpu", "8"));
    for (name, priority) in [("v", 0), ("protected", -1)] {
        world.pod(pod(name).cpu("4").priority(priority).scheduler("other").on("n"));
    }
    world.pod(pod("p").cpu("8").priority(100));
    run_against(&mut world, DAY, |world, effect, victim| match &*victim.pod.name {
        "protected" => world.answer(effect, &Answer::Forbidden("no".to_owned())),
        _ => is_replaced(world, effect, victim),
    });
    let evicted = world.evictions().into_iter().filter(|name| *name == "v").count();
    assert!((15..=17).contains(&evicted), "{evicted}");
}

#[test]
fn preemptor_waits_for_a_victim_that_the_server_reports_gone() {
    let mut world = front(&["v"]);
    world.pod(preemptor("p"));
    let gone = Answer::Gone("not found".to_owned());
    run_against(&mut world, DAY, |world, effect, _| world.answer(effect, &gone));
    assert_eq!(world.evictions(), ["v"], "the watch will tell");
    world.delete("v");
    world.run();
    assert_eq!(world.place("p"), "placed");
}

/// Two schedulers with a view of one cluster. On each of two nodes runs a pod of the one, and a pod
/// of the other that is more important may run only there. Evicted pods are recreated.
struct TwoSchedulers {
    worlds: [World; 2],
    /// Whose turn it is: the other one acts only when this one has nothing to do.
    turn: usize,
    evictions: usize,
    recreates: bool,
}

const NAMES: [&str; 2] = ["red", "blue"];

impl TwoSchedulers {
    fn new() -> Self {
        let worlds = NAMES.map(|name| {
            let only = fake("Only").no_events().filter(|pod, node| match pod.labels.get("only") {
                Some(only) if *only != **node.name() => never("elsewhere"),
                _ => yes(),
            });
            let mut setup = Setup::new([only, fit()]).plugin(preempting());
            setup.scheduler_name = name;
            setup.longest_pause = Duration::MAX;
            let mut world = setup.build();
            for (side, home) in NAMES.into_iter().enumerate() {
                world.node(node(home).allocatable("cpu", "4"));
                world.pod(Self::worker(side, 0).on(home));
            }
            for (owner, home) in [("red", "blue"), ("blue", "red")] {
                world.pod(preemptor(&format!("{owner}-p")).scheduler(owner).label("only", home));
            }
            world
        });
        Self { worlds, turn: 0, evictions: 0, recreates: true }
    }

    fn worker(side: usize, generation: usize) -> PodBuilder {
        let (name, uid) = (NAMES[side], format!("{side}-{generation}"));
        pod(name).uid(&uid).cpu("4").scheduler(name).label("only", name)
    }

    /// Does one thing on this side, evictions last, and lets the other know. After an eviction it
    /// is the other's turn.
    fn act(&mut self, side: usize) -> bool {
        let [red, blue] = &mut self.worlds;
        let (own, other) = if side == 0 { (red, blue) } else { (blue, red) };
        if own.try_attempt().is_some() {
            return true;
        }
        let is_eviction = |effect: &Effect| matches!(effect.kind, EffectKind::Evict(_));
        let place = own.open.iter().position(|effect| !is_eviction(effect)).unwrap_or(0);
        let Some(effect) = own.open.remove(place) else { return false };
        let evicts = is_eviction(&effect);
        own.carry_out(effect);
        if evicts {
            self.evictions += 1;
            assert!(self.evictions < 1000, "a war without end");
            self.turn = 1 - side;
            if self.recreates {
                own.pod(Self::worker(1 - side, self.evictions));
            }
        }
        other.catch_up_with(own);
        true
    }

    fn run(&mut self, time: Duration) {
        let end = self.worlds[0].now + time;
        loop {
            while self.act(self.turn) || self.act(1 - self.turn) {}
            let due = self.worlds.iter().filter_map(|world| world.engine.next_deadline()).min();
            let due = due.filter(|due| *due <= end);
            for world in &mut self.worlds {
                world.now = due.unwrap_or(end);
                world.tick();
            }
            if due.is_none() {
                return;
            }
        }
    }
}

#[test]
fn two_schedulers_that_evict_each_others_pods_come_to_rest() {
    let mut both = TwoSchedulers::new();
    both.run(HOUR);
    let first = both.evictions;
    assert!((16..=30).contains(&first), "{first}");
    both.run(23 * HOUR);
    assert!(both.evictions - first <= 10, "{} after {first}", both.evictions);
    both.recreates = false;
    both.run(2 * DAY);
    let placed = ["red-p", "blue-p"].map(|name| both.worlds[0].place(name));
    assert_eq!(placed, ["placed"; 2]);
}
