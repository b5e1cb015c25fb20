//! `loadmaster replay`, on recordings that the test writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::ports::Ports;
use engine::{Change, EffectKind, Engine, Input, Output};
use framework::{Answer, ArgumentsFeed, EventResource, Feed, ObjectKey, Pod, Time};
use loadmaster::config::{self, Configuration, Gates};
use loadmaster::recorder::RecordedSetup;
use loadmaster::wire;
use recording::{Compressor, Encoder, Header};
use serde_json::json;
use testkit::{PodBuilder, node, pod};

use super::loadmaster;

const START: &str = "2026-03-01T02:00:00Z";

/// A scheduler that is recorded, and the time.
pub(super) struct Recorded {
    engine: Engine,
    encoder: Encoder,
    now: Time,
    header: Header,
    /// The feed of new arguments, if a plugin has one.
    feed: Option<ArgumentsFeed>,
}

impl Recorded {
    fn start(seed: u64) -> Self {
        Self::with(&config::defaults(&Gates::default()), seed)
    }

    /// Starts a scheduler with the configuration in a file.
    pub(super) fn of(file: &str, seed: u64) -> Self {
        let text = fs::read_to_string(file).unwrap();
        Self::with(&config::load(&text, &Gates::default()).unwrap().in_effect(), seed)
    }

    fn with(configuration: &Configuration, seed: u64) -> Self {
        let setup = RecordedSetup {
            minor: framework::Level::default().minor(),
            min_compatibility: None,
            started: START.to_owned(),
            host: "test".to_owned(),
            configuration: RecordedSetup::recorded_configuration(configuration),
            feature_gates: Vec::new(),
            group_members_alone: false,
            adaptive_sampling: false,
            rankings: true,
            longest_preemption_pause: Duration::from_mins(5),
            unschedulable_timeout: Duration::from_mins(5),
        };
        let mut registry = plugins::registry();
        rules::add_to(&mut registry);
        let engine = setup.engine(&registry, seed).unwrap();
        let profiles = configuration.build_profiles(&registry).unwrap();
        let feed = wire::feeds(&profiles).into_iter().find_map(|(_, feed)| match feed {
            Feed::Arguments(feed) => Some(feed),
            _ => None,
        });
        let loadmaster = env!("CARGO_PKG_VERSION").to_owned();
        let setup = serde_json::to_value(setup).unwrap();
        Self {
            engine,
            encoder: Encoder::new(usize::MAX),
            now: Time::parse_rfc3339(START).unwrap(),
            header: Header { loadmaster, file: 1, seed, setup },
            feed,
        }
    }

    fn apply(&mut self, change: Change) {
        self.step(Input::Change(change));
    }

    fn step(&mut self, input: Input) -> Output {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.encoder.step(&mut self.engine, input, self.now, ports)
    }

    pub(super) fn add_node(&mut self, name: &str) {
        let node = node(name).allocatable("cpu", "4").allocatable("memory", "8Gi");
        self.apply(Change::Node(node.allocatable("pods", "20").build()));
    }

    /// Reports new rules, as the daemon does after a change of the configuration.
    pub(super) fn new_rules(&mut self, expression: &str) {
        let kind = EventResource::Custom(self.feed.as_ref().unwrap().kind.clone());
        let key = ObjectKey::cluster_scoped(kind, ArgumentsFeed::NAME.into());
        let args = json!({"filters": [{"name": "place", "expression": expression}]});
        let object = json!({"metadata": {"name": ArgumentsFeed::NAME}, "args": args});
        self.apply(Change::decode(key, Some(object)).unwrap());
    }

    /// Adds a pod and schedules until nothing is ready.
    pub(super) fn add_pod(&mut self, pod: PodBuilder) {
        self.apply(Change::Pod(Box::new(pod.build())));
        self.schedule();
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.step(Input::Tick);
        self.schedule();
    }

    fn schedule(&mut self) {
        while self.step(Input::Schedule).attempt().is_some() {
            for effect in self.encoder.take_effects(&mut self.engine) {
                if let EffectKind::Bind { binding, .. } = effect.kind {
                    self.step(Input::Answer { effect: effect.id, answer: Answer::ok() });
                    let placed = self.engine.world().placed(&binding.uid).unwrap();
                    let bound = Pod { node_name: Some(binding.node), ..Pod::clone(&placed.pod) };
                    self.step(Input::Change(Change::Pod(Box::new(bound))));
                }
            }
        }
    }

    /// Writes the file of this process.
    pub(super) fn write(mut self, directory: &Path) -> PathBuf {
        let (mut compressor, mut bytes) = Compressor::begin(&self.header);
        bytes.extend(compressor.frame(&self.encoder.take_if(0).unwrap().bytes));
        let folder = directory.join("20260301T020000Z-test");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{:05}.rec", self.header.file));
        fs::write(&path, bytes).unwrap();
        path
    }
}

/// Records two nodes with pods, and a pod that waits for a third node for two minutes.
pub(super) fn record(directory: &Path) -> PathBuf {
    let mut recorded = Recorded::start(3);
    ["a", "b"].iter().for_each(|name| recorded.add_node(name));
    for number in 0..6 {
        recorded.pass(Duration::from_secs(1));
        recorded.add_pod(pod(&format!("web-{number}")).cpu("1"));
    }
    recorded.add_pod(pod("large").cpu("3"));
    recorded.pass(Duration::from_secs(120));
    recorded.add_node("c");
    recorded.pass(Duration::from_secs(30));
    recorded.add_pod(pod("hopeless").cpu("9"));
    recorded.pass(Duration::from_secs(2));
    recorded.write(directory)
}

#[test]
fn replay_repeats_decisions_finds_pods_and_explains_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = record(directory.path());
    let path = directory.path().to_str().unwrap();
    let text = loadmaster(&["replay", path]).text();
    assert!(text.contains("the replay makes the same decisions"), "{text}");
    assert!(text.contains("8 of them found a node") || text.contains("7 of them found"), "{text}");
    let find = |query: &str| loadmaster(&["replay", path, "--find", query]).text();
    let text = find("pod large pending > 60s");
    assert!(text.contains("1 of 8 pods") && text.contains("on c since 2026-03-01T02:0"), "{text}");
    assert!(find("pod large pending > 5m").contains("0 of 8 pods"));
    let text = find("pod * pending");
    assert!(text.contains("1 of 8 pods") && text.contains("default/hopeless"), "{text}");
    assert!(find("pod web-* bound < 1s").contains("6 of 8 pods"));
    let explain = ["replay", path, "--until", "+60s", "--explain", "large"];
    let text = loadmaster(&explain).text();
    assert!(text.contains("Insufficient cpu") && !text.contains("default/hopeless"), "{text}");
    let text = loadmaster(&["replay", path, "--until", "+1s", "--explain", "hopeless"]);
    assert!(text.err.contains("no pod default/hopeless was known at"), "{}", text.err);
    let test = directory.path().join("kept.rec");
    let args =
        ["replay", path, "--until", "2026-03-01T02:01:00Z", "--to-test", test.to_str().unwrap()];
    assert!(loadmaster(&args).text().contains("wrote "));
    let text = loadmaster(&["replay", test.to_str().unwrap()]).text();
    assert!(text.contains("the same decisions") && text.contains("(6s)"), "{text}");
    assert!(fs::metadata(&test).unwrap().len() < fs::metadata(&file).unwrap().len());
    assert!(loadmaster(&args).refused_after_output(1).contains("cannot create"));
}

#[test]
fn other_configuration_places_pods_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path());
    let config = packed(directory.path());
    let (path, config) = (directory.path().to_str().unwrap(), config.to_str().unwrap());
    let text = loadmaster(&["replay", path, "--config", config]).text();
    assert!(text.contains("With the recorded configuration, 8 of 8 pods are where"), "{text}");
    assert!(text.contains("Placed on another node"), "{text}");
    // Packed pods leave no room for the large one either, but the wait is shown for both.
    assert!(text.contains("pods to schedule") && text.contains("wait, longest"), "{text}");
}

/// Writes a configuration that packs pods, and returns its path.
fn packed(directory: &Path) -> PathBuf {
    let config = directory.join("packed.yaml");
    fs::write(
        &config,
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- pluginConfig:\n  \
         - name: NodeResourcesFit\n    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: \
         1}]}}\n  plugins:\n    multiPoint:\n      disabled: [{name: NodeResourcesBalancedAllocation}]\n",
    )
    .unwrap();
    config
}

/// Records a replica that stands by while another one binds 6 of 8 pods and one ends, and then
/// leads.
fn record_takeover(directory: &Path) {
    let mut recorded = Recorded::start(3);
    ["a", "b", "c"].iter().for_each(|name| recorded.add_node(name));
    for number in 0..8 {
        recorded.now = recorded.now + Duration::from_secs(10);
        let name = format!("web-{number}");
        recorded.apply(Change::Pod(Box::new(pod(&name).cpu("1").build())));
        if number < 6 {
            recorded.now = recorded.now + Duration::from_millis(20);
            recorded.apply(Change::Pod(Box::new(
                pod(&name).cpu("1").on(["a", "b"][number % 2]).build(),
            )));
        }
    }
    let Pod { key, uid, .. } = pod("web-0").build();
    recorded.apply(Change::PodDeleted { key, uid });
    // A pod of another scheduler, which binds it later.
    recorded.apply(Change::Pod(Box::new(pod("foreign").scheduler("other").cpu("3").build())));
    recorded.pass(Duration::from_secs(10));
    recorded
        .apply(Change::Pod(Box::new(pod("foreign").scheduler("other").cpu("3").on("c").build())));
    for number in 8..10 {
        recorded.pass(Duration::from_secs(1));
        recorded.add_pod(pod(&format!("web-{number}")).cpu("500m"));
    }
    recorded.write(directory);
}

#[test]
fn comparison_begins_with_leadership_and_pods_of_the_other_replica_run() {
    let directory = tempfile::tempdir().unwrap();
    record_takeover(directory.path());
    let config = packed(directory.path());
    let (path, config) = (directory.path().to_str().unwrap(), config.to_str().unwrap());
    let text = loadmaster(&["replay", path, "--config", config]).text();
    assert!(text.contains("first decision at 2026-03-01T02:01:30Z on"), "{text}");
    assert!(text.contains("With the recorded configuration, 4 of 4 pods are where"), "{text}");
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row("pods to schedule").contains(" 4"), "{text}");
    assert!(row("wait, longest").contains(" 0s"), "{text}");
    let early = ["replay", path, "--config", config, "--until", "+30s"];
    let text = loadmaster(&early).refused(1);
    assert!(text.contains("made no decision until the moment: it stood by"), "{text}");
}

#[test]
fn replay_that_differs_names_the_operation_and_fails() {
    let directory = tempfile::tempdir().unwrap();
    let mut recorded = Recorded::start(3);
    ["a", "b", "c", "d"].iter().for_each(|name| recorded.add_node(name));
    for number in 0..8 {
        recorded.add_pod(pod(&format!("web-{number}")).cpu("100m"));
    }
    // Another seed breaks ties in another way.
    recorded.header.seed = 4;
    recorded.write(directory.path());
    let answer = loadmaster(&["replay", directory.path().to_str().unwrap()]);
    assert_eq!(answer.code, Some(1), "{}{}", answer.out, answer.err);
    let text = answer.out;
    assert!(text.contains("THE REPLAY DIFFERS at 2026-03-01T02:00:00Z: operation "), "{text}");
    assert!(text.contains("recorded was an attempt for pod default/web-"), "{text}");
}

#[test]
fn bad_recordings_are_refused_or_read_as_far_as_they_go() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let refused = || loadmaster(&["replay", path]).refused(1);
    assert!(refused().contains("has no recording: expected what `loadmaster run --record` writes"));
    let missing = loadmaster(&["replay", "/no/such/directory"]).refused(1);
    assert!(missing.contains("cannot read /no/such/directory: No such file"), "{missing}");
    let file = record(directory.path());
    let whole = fs::read(&file).unwrap();
    let text = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let answer = loadmaster(&["replay", path]);
        answer.out + &answer.err
    };
    let cut = text(&whole[..whole.len() - 1]);
    assert!(cut.contains("is cut off; everything up to the last whole frame is read"), "{cut}");
    let mut damaged = whole.clone();
    let last = damaged.len() - 9;
    damaged[last] ^= 255;
    let damaged = text(&damaged);
    assert!(damaged.contains("is damaged; what follows is not read"), "{damaged}");
    let newer = text(&[b"loadmaster recording 9\n".as_slice(), &whole[23..]].concat());
    assert!(newer.contains("the recording has format 9, and this version"), "{newer}");
    assert!(text(b"a: b\n").contains("the file is no recording of Loadmaster"));
    assert!(text(b"").contains("the file ends before its first operation"));
    let mut later = Recorded::start(3);
    later.add_node("a");
    later.header.file = 2;
    fs::remove_file(&file).unwrap();
    later.write(directory.path());
    let later = refused();
    assert!(later.contains("--record-limit) has removed the beginning of run"), "{later}");
    assert!(
        loadmaster(&["replay", path, "--find", "pod * pending"]).text().contains("0 of 0 pods")
    );
}

#[test]
fn bad_questions_are_refused() {
    let refused = |args: &[&str]| loadmaster(args).refused(2);
    let text = refused(&["replay", "x", "--find", "pod a waiting"]);
    assert!(text.contains("unknown state \"waiting\": expected pending, bound"), "{text}");
    let text = refused(&["replay", "x", "--until", "yesterday"]);
    assert!(text.contains("expected a time such as 2026-03-01T02:30:00Z"), "{text}");
}
