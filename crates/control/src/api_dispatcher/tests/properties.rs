//! Property test: order and answers hold for any effects and replies.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const IN_FLIGHT: usize = 3;

#[derive(Debug, Clone)]
enum Action {
    Add(Kind, u8),
    /// Replies to one of the requests in flight.
    Reply(usize, Reply),
    Wait(u64),
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Bind,
    Read,
    Patch,
    WritePod,
    WriteVolume,
}

impl Kind {
    fn effect(self, pod: u8) -> EffectKind {
        let name = format!("p{pod}");
        let (pod, uid) = (PodKey::new("ns", &name), Uid::from(&*name));
        match self {
            Self::Bind => {
                let binding = Binding { pod, uid, node: "n1".into() };
                EffectKind::Bind {
                    binding,
                    decided: Time::ZERO,
                    generation: 1,
                    resource_version: 0,
                }
            }
            Self::Read => EffectKind::ReadPod { pod, uid },
            Self::Patch => patch_of(&name, &name, 1, condition("no room")),
            Self::WritePod => write("v1", "pods", "ns", &name),
            Self::WriteVolume => write("v1", "persistentvolumes", "", &name),
        }
    }
}

fn action() -> impl Strategy<Value = Action> {
    let kinds = [Kind::Bind, Kind::Read, Kind::Patch, Kind::WritePod, Kind::WriteVolume];
    let statuses = [200, 403, 404, 409, 422, 429, 500, 503];
    let reply = prop_oneof![
        prop::sample::select(statuses.to_vec()).prop_map(|status| rejected(status, "text")),
        Just(pod_on(None)),
        Just(lost()),
        Just(not_sent()),
    ];
    prop_oneof![
        (prop::sample::select(kinds.to_vec()), 0_u8..4).prop_map(|(k, pod)| Action::Add(k, pod)),
        (any::<usize>(), reply).prop_map(|(which, reply)| Action::Reply(which, reply)),
        (0_u64..20_000).prop_map(Action::Wait),
    ]
}

/// Returns the path of the object of a request, without the subresource.
fn object(request: &Request) -> String {
    let path = request.path.trim_end_matches("/binding").trim_end_matches("/status");
    path.to_owned()
}

/// A harness with the requests in flight, and the added and answered effects by object.
struct Run {
    harness: Harness,
    in_flight: Vec<Request>,
    added: BTreeMap<String, Vec<EffectId>>,
    answered: BTreeMap<String, Vec<EffectId>>,
    object_of: BTreeMap<EffectId, String>,
}

impl Run {
    fn act(&mut self, action: Action) {
        match action {
            Action::Add(kind, pod) => {
                let id = self.harness.add(kind.effect(pod));
                let object = match kind {
                    Kind::WriteVolume => format!("/api/v1/persistentvolumes/p{pod}"),
                    _ => format!("/api/v1/namespaces/ns/pods/p{pod}"),
                };
                if !matches!(kind, Kind::Patch) {
                    self.object_of.insert(id, object.clone());
                    self.added.entry(object).or_default().push(id);
                }
            }
            Action::Reply(which, reply) if !self.in_flight.is_empty() => {
                let request = self.in_flight.remove(which % self.in_flight.len());
                self.harness.reply(&request, reply);
            }
            Action::Reply(..) => {}
            Action::Wait(millis) => self.harness.wait(Duration::from_millis(millis)),
        }
        self.check();
    }

    fn check(&mut self) {
        for (id, _) in self.harness.dispatcher.take_answers() {
            let object = self.object_of[&id].clone();
            self.answered.entry(object).or_default().push(id);
        }
        self.in_flight.extend(self.harness.dispatcher.take_requests());
        assert!(
            self.in_flight.len() <= IN_FLIGHT,
            "{} requests are in flight",
            self.in_flight.len()
        );
        let mut objects: Vec<String> = self.in_flight.iter().map(object).collect();
        objects.sort();
        objects.dedup();
        assert_eq!(
            objects.len(),
            self.in_flight.len(),
            "two requests are in flight for one object"
        );
    }

    /// Lets every request succeed until no call is left.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            if self.harness.dispatcher.unfinished() == 0 {
                break;
            }
            if self.in_flight.is_empty() {
                self.harness.wait_for_deadline();
            }
            self.act(Action::Reply(0, pod_on(Some("n1"))));
        }
        self.check();
    }
}

proptest! {
    #[test]
    fn effects_are_answered_once_and_in_order(
        actions in prop::collection::vec(action(), 0..100),
    ) {
        let mut run = Run {
            harness: with(Limits { max_in_flight: IN_FLIGHT, ..Limits::default() }),
            in_flight: Vec::new(),
            added: BTreeMap::new(),
            answered: BTreeMap::new(),
            object_of: BTreeMap::new(),
        };
        for action in actions {
            run.act(action);
        }
        run.finish();
        prop_assert_eq!(&run.added, &run.answered);
        prop_assert_eq!(run.harness.dispatcher.unfinished(), 0);
        prop_assert_eq!(run.harness.dispatcher.next_deadline(), None);
    }
}
