//! Random histories: whatever fails in between, no device is allocated twice, and the tracker knows
//! which allocations the watch does not show.

use std::collections::BTreeMap;

use framework::Answer;
use proptest::prelude::*;
use serde_json::json;

use super::world::*;
use crate::dynamic_resources::*;

/// An event of a history.
#[derive(Debug, Clone)]
enum Event {
    /// A pod is tried on a node.
    Try { pod: usize, on_b: bool },
    /// A pod that is being bound goes on. The request is carried out or not, its answer lost or
    /// not. A pause or another wait is over, or a claim has changed.
    Continue { pod: usize, carried_out: bool, lost: bool },
    /// The attempt of a pod ends, and its writes are carried out.
    Fail { pod: usize },
    /// The scheduler observes one claim.
    Watch { claim: usize },
    /// Somebody else changes a claim.
    Touch { claim: usize },
    /// A claim that no pod uses is deallocated.
    Deallocate { claim: usize },
    /// Time passes.
    Pass,
}

const CLAIMS: usize = 4;

fn event() -> impl Strategy<Value = Event> {
    let pod = || 0..CLAIMS;
    prop_oneof![
        4 => (pod(), any::<bool>()).prop_map(|(pod, on_b)| Event::Try { pod, on_b }),
        8 => (pod(), prop::bool::weighted(0.9), prop::bool::weighted(0.2))
            .prop_map(|(pod, carried_out, lost)| Event::Continue { pod, carried_out, lost }),
        2 => pod().prop_map(|pod| Event::Fail { pod }),
        6 => pod().prop_map(|claim| Event::Watch { claim }),
        1 => pod().prop_map(|claim| Event::Touch { claim }),
        1 => pod().prop_map(|claim| Event::Deallocate { claim }),
        1 => Just(Event::Pass),
    ]
}

/// A pod that is being bound, and the request that has no answer yet.
struct Binding {
    attempt: Reservation,
    open: Option<framework::Write>,
    /// The end of its wait.
    until: framework::Time,
}

struct History {
    world: World,
    binding: BTreeMap<usize, Binding>,
    /// Requests that were sent and not carried out, and when their answers were lost.
    late: Vec<(framework::Write, framework::Time)>,
}

fn name(index: usize) -> String {
    format!("c{index}")
}

impl History {
    fn new() -> Self {
        let mut world = World::new([]);
        for index in 0..CLAIMS {
            let count = i64::try_from(index % 2).unwrap() + 1;
            world.put("resourceclaims", claim(&name(index), count));
        }
        Self { world, binding: BTreeMap::new(), late: Vec::new() }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Try { pod, on_b } if !self.binding.contains_key(pod) => {
                self.try_pod(*pod, *on_b)
            }
            Event::Try { .. } => {}
            Event::Continue { pod, carried_out, lost } => self.go_on(*pod, *carried_out, *lost),
            Event::Fail { pod } => self.fail(*pod),
            Event::Watch { claim } => self.world.watch("resourceclaims", &name(*claim)),
            Event::Touch { claim } => {
                let label = self.world.claim(&name(*claim))["metadata"]["labels"]["k"] != "x";
                let patch = json!({"metadata": {"labels": {"k": if label { "x" } else { "y" }}}});
                self.world.change("resourceclaims", &name(*claim), &patch);
            }
            Event::Deallocate { claim } => self.deallocate(*claim),
            Event::Pass => {
                // By then no request is under way any more, and the watch has caught up.
                self.late.clear();
                if self.binding.values().all(|binding| binding.open.is_none()) {
                    self.world.watch_claims();
                    self.world.parts.now = self.world.parts.now + Duration::from_mins(2);
                }
            }
        }
    }

    fn try_pod(&mut self, pod: usize, on_b: bool) {
        let named = pod_using(&format!("p{pod}"), &[&name(pod)]);
        let node = if on_b { "b" } else { "a" };
        if let Ok(mut attempt) = self.world.reserve(&named, node) {
            let step = self.world.step(&mut attempt, PreBindInput::Start);
            self.take_step(pod, attempt, step);
        }
    }

    fn take_step(&mut self, pod: usize, attempt: Reservation, step: PreBindStep) {
        let mut binding = Binding { attempt, open: None, until: self.world.parts.now };
        match step {
            PreBindStep::Write(write) => binding.open = Some(write),
            PreBindStep::Wait { timeout, .. } => binding.until = self.world.parts.now + timeout,
            PreBindStep::Done(status) if status.is_success() => return,
            PreBindStep::Done(_) => {
                self.binding.insert(pod, binding);
                return self.fail(pod);
            }
        }
        self.binding.insert(pod, binding);
    }

    fn go_on(&mut self, pod: usize, carried_out: bool, lost: bool) {
        let Some(Binding { mut attempt, open, until }) = self.binding.remove(&pod) else { return };
        let step = match open {
            None if lost => {
                self.world.parts.now = self.world.parts.now.max(until);
                self.world.step(&mut attempt, PreBindInput::Deadline)
            }
            None => self.world.step(&mut attempt, PreBindInput::Changed),
            Some(write) => {
                let answer = match carried_out {
                    true => self.world.write(&write),
                    false => {
                        self.late.push((write, self.world.parts.now));
                        Answer::Unknown("late".to_owned())
                    }
                };
                let answer = if lost { Answer::Unknown("lost".to_owned()) } else { answer };
                self.world.step(&mut attempt, PreBindInput::Answer(&answer))
            }
        };
        self.take_step(pod, attempt, step);
    }

    /// Ends an attempt. A request without an answer may still be carried out.
    fn fail(&mut self, pod: usize) {
        let Some(Binding { mut attempt, open, .. }) = self.binding.remove(&pod) else { return };
        self.late.extend(open.map(|write| (write, self.world.parts.now)));
        self.world.unreserve(&mut attempt);
        self.world.write_commands();
    }

    /// Carries out a request that is late by less than two minutes.
    fn carry_out_late(&mut self) {
        let now = self.world.parts.now;
        self.late.retain(|(_, lost)| now.since(*lost) < Duration::from_mins(2));
        if !self.late.is_empty() {
            let (write, _) = self.late.remove(0);
            self.world.write(&write);
        }
    }

    fn deallocate(&mut self, index: usize) {
        let claim = self.world.claim(&name(index));
        let used = claim["status"]["reservedFor"].as_array().is_some_and(|users| !users.is_empty());
        if !used && !self.binding.contains_key(&index) {
            self.world.change("resourceclaims", &name(index), &json!({"status": null}));
        }
    }

    fn check(&self) {
        let devices = self.world.devices_on_server();
        let mut once = devices.clone();
        once.dedup();
        assert_eq!(devices, once, "a device is allocated twice");
    }
}

proptest! {
    #[test]
    fn no_device_is_allocated_twice(
        events in prop::collection::vec(
            (event(), prop::bool::weighted(0.2), prop::bool::weighted(0.3)), 1..80,
        ),
    ) {
        let mut history = History::new();
        for (event, late, counts) in events {
            history.apply(&event);
            if late {
                history.carry_out_late();
            }
            history.check();
            if counts {
                history.world.check_overlay();
            }
        }
        history.world.check_overlay();
    }
}
