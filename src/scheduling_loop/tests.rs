//! The loop with a plugin that does not return, and with many questions.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use control::api_dispatcher::{ApiDispatcher, Limits};
use control::event_recorder::{self, EventRecorder};
use control::scheduler::Relist;
use engine::{Change, Engine, EngineConfig};
use framework::{Attempt, Filter, NodeView, Plugin, Status};
use testkit::{node, pod};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt;

use super::*;
use crate::config::{self, Gates};
use crate::extender::LoopWait;
use crate::http::Health;
use crate::logs;
use crate::metrics::Metrics;
use crate::observer::MetricsObserver;

const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled:
      - name: Endless
";

/// A Filter plugin that loops until its test lets it go.
#[derive(Clone)]
struct Endless {
    entered: mpsc::Sender<()>,
    released: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Filter for Endless {
    fn filter(&self, _: &Attempt<'_>, _: &NodeView<'_>) -> Status {
        self.entered.send(()).unwrap();
        self.released.lock().unwrap().recv().unwrap();
        Status::success()
    }
}

/// A running loop, and the other ends of the channels of its plugin.
struct Running {
    thread: JoinHandle<Outcome>,
    events: EventSender,
    entered: mpsc::Receiver<()>,
    release: mpsc::Sender<()>,
}

/// Starts a loop with the plugin [`Endless`].
fn start_endless(health: &Arc<Health>) -> Running {
    let (entering, entered) = mpsc::channel();
    let (release, releasing) = mpsc::channel();
    let plugin = Endless { entered: entering, released: Arc::new(Mutex::new(releasing)) };
    let mut registry = plugins::registry();
    let made = move |_: &_| Ok(Plugin::new("Endless", plugin.clone()).filter().build());
    registry.register("Endless", made).unwrap();
    let config = config::load(CONFIG, &Gates::default()).unwrap().config;
    let (thread, events) = start(&config, &registry, health);
    Running { thread, events, entered, release }
}

/// Starts a loop whose requests nothing answers.
fn start(
    config: &config::Configuration,
    registry: &framework::Registry,
    health: &Arc<Health>,
) -> (JoinHandle<Outcome>, EventSender) {
    let engine = Engine::new(EngineConfig::new(config.build_profiles(registry).unwrap()));
    let dispatcher = ApiDispatcher::new(Limits::default(), 7);
    let recorder = EventRecorder::new(event_recorder::Options::default(), 7);
    let (metrics, clock) = (Arc::new(Metrics::new()), Clock::start());
    let runtime = tokio::runtime::Handle::current();
    let (events, received) = channel();
    let wait = LoopWait {
        runtime,
        heartbeat: health.heartbeat(),
        stop: CancellationToken::new(),
        events: events.clone(),
    };
    let scheduling = SchedulingLoop::new(LoopParts {
        scheduler: Scheduler::new(engine, dispatcher, recorder),
        extenders: Extenders::new(config, wait, clock, metrics.clone()).unwrap(),
        events: received,
        requests: tokio::sync::mpsc::unbounded_channel().0,
        plans: tokio::sync::mpsc::unbounded_channel().0,
        clock,
        observer: MetricsObserver::new(metrics, health.clone()),
        informers: 1,
        leading: Arc::default(),
        heartbeat: health.heartbeat(),
        relists: Relists::new(1),
        recorder: None,
    });
    #[expect(
        clippy::disallowed_methods,
        reason = "a blocking task would hold the paused time back"
    )]
    let thread = thread::spawn(|| scheduling.run());
    (thread, events)
}

/// The lines of a log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn plugin_that_loops_makes_the_loop_stuck_and_is_named_in_the_log() {
    let (lines, health) = (Lines::default(), Arc::<Health>::default());
    let writer = lines.clone();
    let (layer, _verbosity) = logs::layer(logs::Format::Text, 0, move || writer.clone());
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let Running { thread, events, entered, release } = start_endless(&health);
    events.send_updates(vec![Change::Node(node("a").build()).into()]).await;
    events.send(LoopEvent::Synced);
    // Pods that the first list shows are patched before they are scheduled, and nothing answers
    // here.
    events.send_updates(vec![Change::Pod(Box::new(pod("p").build())).into()]).await;
    entered.recv().unwrap();
    let heartbeat = health.heartbeat();
    let watching = heartbeat.clone();
    tokio::spawn(async move { watching.watch().await });
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(heartbeat.check(), Ok(()));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let stuck = heartbeat.check().unwrap_err();
    assert!(stuck.ends_with(" s: plugin \"Endless\" at Filter"), "{stuck}");
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let culprit = "culprit=\"plugin \\\"Endless\\\" at Filter\"";
    let named: Vec<_> = log.lines().filter(|line| line.contains(culprit)).collect();
    assert!(
        matches!(named[..], [slow, stuck] if slow.starts_with('W') && stuck.starts_with('E')),
        "{log}"
    );
    release.send(()).unwrap();
    while heartbeat.check().is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // The pod is bound or not; nothing answers.
    events.send(LoopEvent::Stop);
    drop((events, thread));
}

#[tokio::test]
async fn thousand_questions_do_not_stop_decisions() {
    const PODS: usize = 20;
    let health = Arc::<Health>::default();
    let config = config::defaults(&Gates::default());
    let (thread, events) = start(&config, &plugins::registry(), &health);
    let node = |number: usize| {
        let node = node(&format!("n{number}")).allocatable("cpu", "4").allocatable("pods", "9");
        Change::Node(node.build()).into()
    };
    events.send_updates((0..30).map(node).collect()).await;
    events.send(LoopEvent::Synced);
    let pods = (0..PODS).map(|number| {
        let pod = pod(&format!("p{number}")).build();
        Change::Pod(Box::new(pod)).into()
    });
    events.send_updates(pods.collect()).await;
    let ask = |_| {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        events.send(LoopEvent::Question(Question::Copy(None, sender)));
        receiver
    };
    let mut copies: Vec<_> = (0..1000).map(ask).collect();
    let Copied { cluster, now, .. } = copies.remove(PODS).await.unwrap();
    let profiles = config.build_profiles(&plugins::registry()).unwrap();
    let copied = cluster.engine(EngineConfig::new(profiles), now);
    assert_eq!(copied.cluster().pod_count(), PODS, "decisions wait for questions");
    for copy in copies {
        copy.await.unwrap();
    }
    events.send(LoopEvent::Stop);
    drop((events, thread));
}

#[test]
fn wall_clock_that_is_put_forward_or_back_is_followed() {
    let noon = Time::from_secs(43_200);
    let offset = |micros| WallOffset::between(noon, noon + Duration::from_micros(micros));
    let before = WallOffset::between(noon, Time::from_secs(43_199));
    let none = WallOffset::default();
    assert!(!is_corrected(none, none) && !is_corrected(none, offset(999)));
    assert!(is_corrected(none, offset(1000)) && is_corrected(offset(1000), none));
    assert!(is_corrected(none, before) && is_corrected(before, none));
}

#[test]
fn relist_is_complete_when_the_last_kind_has_listed_again() {
    let mut relists = Relists::new(3);
    relists.request(Relist::Others);
    assert!(!relists.is_complete(Relist::Others));
    assert!(relists.is_complete(Relist::Pods), "one informer watches pods");
    assert!(relists.is_complete(Relist::Others));
}

#[tokio::test(start_paused = true)]
async fn batch_that_is_larger_than_the_channel_is_sent() {
    let (sender, receiver) = channel();
    let updates = vec![Change::NodeDeleted("n".into()).into(); 20_000];
    tokio::time::timeout(Duration::from_secs(1), sender.send_updates(updates)).await.unwrap();
    let LoopEvent::Updates(updates, _) = receiver.try_recv().unwrap() else { panic!() };
    assert_eq!(updates.len(), 20_000);
}
