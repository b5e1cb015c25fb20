//! What holds whatever is asked for and whatever the server replies.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const IN_FLIGHT: usize = 3;

#[derive(Debug, Clone)]
enum Action {
    Submit(Kind, u8),
    /// Replies to one of the requests that are out.
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
            Self::Bind => EffectKind::Bind(Binding { pod, uid, node: "n1".into() }),
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
        prop::sample::select(statuses.to_vec()).prop_map(|status| refused(status, "text")),
        Just(pod_on(None)),
        Just(lost()),
        Just(not_sent()),
    ];
    prop_oneof![
        (prop::sample::select(kinds.to_vec()), 0_u8..4).prop_map(|(k, pod)| Action::Submit(k, pod)),
        (any::<usize>(), reply).prop_map(|(which, reply)| Action::Reply(which, reply)),
        (0_u64..20_000).prop_map(Action::Wait),
    ]
}

/// The object of a request: its path without the subresource.
fn object(request: &Request) -> String {
    let path = request.path.trim_end_matches("/binding").trim_end_matches("/status");
    path.to_owned()
}

/// A rig, what is out, and what was asked for and answered by object.
struct Play {
    rig: Rig,
    out: Vec<Request>,
    asked: BTreeMap<String, Vec<EffectId>>,
    answered: BTreeMap<String, Vec<EffectId>>,
    object_of: BTreeMap<EffectId, String>,
}

impl Play {
    fn act(&mut self, action: Action) {
        match action {
            Action::Submit(kind, pod) => {
                let id = self.rig.submit(kind.effect(pod));
                let object = match kind {
                    Kind::WriteVolume => format!("/api/v1/persistentvolumes/p{pod}"),
                    _ => format!("/api/v1/namespaces/ns/pods/p{pod}"),
                };
                if !matches!(kind, Kind::Patch) {
                    self.object_of.insert(id, object.clone());
                    self.asked.entry(object).or_default().push(id);
                }
            }
            Action::Reply(which, reply) if !self.out.is_empty() => {
                let request = self.out.remove(which % self.out.len());
                self.rig.reply(&request, reply);
            }
            Action::Reply(..) => {}
            Action::Wait(millis) => self.rig.wait(Duration::from_millis(millis)),
        }
        self.look();
    }

    fn look(&mut self) {
        for (id, _) in self.rig.executor.answers() {
            let object = self.object_of[&id].clone();
            self.answered.entry(object).or_default().push(id);
        }
        self.out.extend(self.rig.executor.requests());
        assert!(self.out.len() <= IN_FLIGHT, "{} are out", self.out.len());
        let mut objects: Vec<String> = self.out.iter().map(object).collect();
        objects.sort();
        objects.dedup();
        assert_eq!(objects.len(), self.out.len(), "two are out for one object");
    }

    /// Everything succeeds from now on.
    fn bring_to_an_end(&mut self) {
        for _ in 0..10_000 {
            if self.rig.executor.unfinished() == 0 {
                break;
            }
            if self.out.is_empty() {
                self.rig.wait_for_deadline();
            }
            self.act(Action::Reply(0, pod_on(Some("n1"))));
        }
        self.look();
    }
}

proptest! {
    #[test]
    fn what_is_answered_is_answered_once_and_in_order(
        actions in prop::collection::vec(action(), 0..100),
    ) {
        let mut play = Play {
            rig: with(Limits { in_flight: IN_FLIGHT, ..Limits::default() }),
            out: Vec::new(),
            asked: BTreeMap::new(),
            answered: BTreeMap::new(),
            object_of: BTreeMap::new(),
        };
        for action in actions {
            play.act(action);
        }
        play.bring_to_an_end();
        prop_assert_eq!(&play.asked, &play.answered);
        prop_assert_eq!(play.rig.executor.unfinished(), 0);
        prop_assert_eq!(play.rig.executor.next_deadline(), None);
    }
}
