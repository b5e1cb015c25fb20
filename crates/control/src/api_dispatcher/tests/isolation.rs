//! One namespace, resource or extender that fails or hangs leaves the others at full speed.

use std::collections::BTreeMap;

use super::*;

fn bind_in(namespace: &str, number: usize) -> EffectKind {
    let name = format!("p{number}");
    let (pod, uid) = (PodKey::new(namespace, &name), Uid::from(&*format!("{namespace}-{number}")));
    let binding = Binding { pod, uid, node: "n1".into() };
    EffectKind::Bind { binding, decided: Time::ZERO, generation: 1, resource_version: 0 }
}

fn extender_bind_in(namespace: &str, number: usize) -> EffectKind {
    let EffectKind::Bind { binding, decided, .. } = bind_in(namespace, number) else {
        unreachable!()
    };
    EffectKind::ExtenderBind { extender: 0, binding, decided }
}

fn namespace(request: &Request) -> &str {
    request.path.split('/').nth(4).unwrap()
}

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A server that answers the binds of each namespace after a time of its own.
struct Server {
    delays: BTreeMap<&'static str, Duration>,
    answers: BTreeMap<(Time, u64), Request>,
    sent: u64,
    /// The number of binds answered, by namespace.
    answered: BTreeMap<String, usize>,
}

impl Server {
    fn new(delays: &[(&'static str, Duration)]) -> Self {
        let (delays, answers) = (delays.iter().copied().collect(), BTreeMap::new());
        Self { delays, answers, sent: 0, answered: BTreeMap::new() }
    }

    /// Takes the requests of the dispatcher and answers those that are due, up to this time.
    fn run(&mut self, harness: &mut Harness, until: Time) {
        loop {
            for request in harness.dispatcher.take_requests() {
                self.sent += 1;
                let due = harness.now + self.delays[namespace(&request)];
                self.answers.insert((due, self.sent), request);
            }
            let reply = self.answers.keys().next().map(|(due, _)| *due);
            let deadline = harness.dispatcher.next_deadline();
            let Some(next) = reply.into_iter().chain(deadline).min() else { break };
            if next > until {
                break;
            }
            harness.now = next.max(harness.now);
            harness.dispatcher.tick(harness.now);
            if let Some(first) = self.answers.first_entry()
                && first.key().0 <= harness.now
            {
                let request = first.remove();
                *self.answered.entry(namespace(&request).to_owned()).or_default() += 1;
                harness.reply(&request, ok());
            }
        }
        harness.now = until;
        harness.dispatcher.tick(until);
    }
}

/// Adds 5 binds of the namespace `good` every 10 ms for 20 s, where the pods are not held back.
/// Returns how many are bound at the end and how long the last one took.
fn binds_of_good(bad: usize) -> usize {
    let mut harness = harness();
    let mut server = Server::new(&[("good", 5 * MILLISECOND), ("bad", 10 * SECOND)]);
    for number in 0..bad {
        harness.add(bind_in("bad", number));
    }
    for round in 0..2000 {
        if !harness.dispatcher.has_backlog() {
            (0..5).for_each(|number| {
                harness.add(bind_in("good", round * 5 + number));
            });
        }
        let until = harness.now + 10 * MILLISECOND;
        server.run(&mut harness, until);
    }
    server.answered["good"]
}

#[test]
fn namespace_whose_requests_hang_leaves_the_others_at_full_speed() {
    let alone = binds_of_good(0);
    assert_eq!(alone, 10_000);
    let beside = binds_of_good(5000);
    assert!(
        beside * 100 >= alone * 95,
        "{beside} binds beside a namespace that hangs, {alone} without"
    );
}

#[test]
fn request_of_another_namespace_is_sent_at_once() {
    let mut harness = harness();
    (0..1000).for_each(|number| {
        harness.add(bind_in("bad", number));
    });
    assert_eq!(harness.lines().len(), 129, "half of the slots, and one");
    harness.add(bind_in("good", 0));
    assert_eq!(harness.lines(), ["POST /api/v1/namespaces/good/pods/p0/binding"]);
    harness.add(write("v1", "persistentvolumeclaims", "bad", "c"));
    assert_eq!(harness.lines().len(), 1, "other resources of the namespace have a share, too");
}

#[test]
fn status_patches_do_not_wait_for_binds_that_hang() {
    let mut harness = harness();
    (0..1000).for_each(|number| {
        harness.add(bind_in("ns", number));
    });
    assert_eq!(harness.lines().len(), 129);
    harness.add(patch("a"));
    assert_eq!(harness.lines(), ["PATCH /api/v1/namespaces/ns/pods/a/status"]);
}

#[test]
fn volumes_of_a_driver_that_does_not_answer_hold_up_no_others() {
    let mut harness = harness();
    let volume = |class: &str, number: usize| {
        let name = format!("{class}-{number}");
        let EffectKind::Write(write) = write("v1", "persistentvolumes", "", &name) else {
            unreachable!()
        };
        EffectKind::Write(Write { flow: class.into(), ..write })
    };
    (0..1000).for_each(|number| {
        harness.add(volume("bad", number));
    });
    assert_eq!(harness.lines().len(), 129, "half of the slots, and one");
    harness.add(volume("good", 0));
    assert_eq!(harness.lines(), ["PATCH /api/v1/persistentvolumes/good-0"]);
}

#[test]
fn calls_that_back_off_are_no_backlog() {
    let mut harness = harness();
    for number in 0..3000 {
        harness.add(bind_in("bad", number));
        harness.exchange(not_sent());
    }
    assert_eq!((harness.dispatcher.unfinished(), harness.dispatcher.has_backlog()), (3000, false));
}

#[test]
fn backlog_ends_when_the_namespace_turns_out_to_hang() {
    let mut harness = harness();
    (0..2000).for_each(|number| {
        harness.add(bind_in("bad", number));
    });
    assert!(harness.dispatcher.has_backlog(), "the API server may answer yet");
    assert_eq!(harness.wait_for_deadline(), SECOND / 2);
    assert!(!harness.dispatcher.has_backlog());
    assert_eq!(harness.dispatcher.next_deadline(), None);

    for request in harness.dispatcher.take_requests() {
        harness.reply(&request, ok());
    }
    assert!(!harness.dispatcher.has_backlog(), "the last answer was slow");
    let fresh = harness.dispatcher.take_requests();
    harness.now = harness.now + MILLISECOND;
    harness.reply(&fresh[0], ok());
    assert!(harness.dispatcher.has_backlog(), "the webhook answers again");
}

#[test]
fn extender_that_hangs_has_a_bounded_number_of_connections() {
    let mut harness = harness();
    (0..3000).for_each(|number| {
        harness.add(extender_bind_in("bad", number));
    });
    let requests = harness.dispatcher.take_requests();
    assert_eq!(requests.len(), 64);
    harness.wait(SECOND);
    assert!(!harness.dispatcher.has_backlog());
    harness.add(bind_in("good", 0));
    assert_eq!(harness.lines(), ["POST /api/v1/namespaces/good/pods/p0/binding"]);
    harness.reply(&requests[0], lost());
    assert_eq!(harness.request().destination, Destination::Extender(0));
}
