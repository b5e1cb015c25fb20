use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use engine::ports::Ports;
use engine::{Change, Input};
use framework::Level;
use testkit::node;

use super::*;
use crate::config::{self, Gates};

fn setup() -> RecordedSetup {
    let mut config = config::defaults(&Gates::at(Level::V1_36));
    config.client_connection.kubeconfig = "/secret/place".to_owned();
    RecordedSetup {
        minor: Level::V1_36.minor(),
        min_compatibility: None,
        started: "2026-03-01T02:00:00Z".to_owned(),
        host: "host/../name".to_owned(),
        configuration: RecordedSetup::recorded_configuration(&config),
        feature_gates: vec!["DRADeviceTaintRules=true".to_owned()],
        group_members_alone: false,
        adaptive_sampling: false,
        rankings: true,
        longest_preemption_pause: Duration::ZERO,
        unschedulable_timeout: Duration::from_mins(5),
    }
}

/// An engine and its recorder.
struct Recorded {
    engine: Engine,
    encoder: Encoder,
}

impl Recorded {
    fn new(options: &RecordingOptions) -> Self {
        let engine = setup().engine(&plugins::registry(), 1).unwrap();
        Self { engine, encoder: options.encoder() }
    }

    fn add_node(&mut self, name: &str) {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        let input = Input::Change(Change::Node(node(name).build()));
        self.encoder.step(&mut self.engine, input, Time::ZERO, ports);
    }

    fn advance(&mut self, recorder: &mut Recorder, now: Time) -> bool {
        recorder.advance(&self.engine, &mut self.encoder, now)
    }
}

fn options(directory: PathBuf) -> RecordingOptions {
    RecordingOptions { directory, limit: 1 << 20, feature_gates: Vec::new() }
}

fn ended(metrics: &Metrics, cause: &str) -> bool {
    let text = metrics.render();
    text.contains(&format!("loadmaster_recordings_ended_total{{cause=\"{cause}\"}} 1\n"))
}

#[test]
fn setup_is_read_as_written_and_has_no_connection() {
    let setup = setup();
    let value = setup.to_value();
    assert!(!value.to_string().contains("/secret/place"), "{value}");
    assert_eq!(RecordedSetup::of_header(&value).unwrap(), setup);
    let config = setup.configuration().unwrap();
    let at_1_36 = Gates::at(Level::V1_36);
    let expected = config::defaults(&at_1_36.with_flags(["DRADeviceTaintRules=true"]).unwrap());
    assert_eq!((config.profiles, config.plugin_gates), (expected.profiles, expected.plugin_gates));
    assert_eq!(setup.folder_name(), "20260301T020000Z-host..name");
}

#[test]
fn full_channel_ends_the_recording_and_not_the_scheduling() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path().to_owned());
    let metrics = Arc::new(Metrics::new());
    let (mut recorder, _chunks) = Recorder::new(metrics.clone());
    let mut recorded = Recorded::new(&options);
    let mut now = Time::from_secs(1);
    for _ in 0..MAX_WAITING {
        recorded.add_node("a");
        assert!(recorded.advance(&mut recorder, now));
        now = now + FLUSH_INTERVAL;
    }
    recorded.add_node("b");
    assert!(!recorded.advance(&mut recorder, now));
    assert!(ended(&metrics, "backlog"));
}

#[test]
fn directory_that_cannot_be_written_ends_the_recording() {
    let metrics = Arc::new(Metrics::new());
    assert!(begin(&options("/dev/null/recordings".into()), &setup(), 1, &metrics).is_none());
    assert!(ended(&metrics, "disk"));
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path().join("new"));
    let metrics = Arc::new(Metrics::new());
    let (recorder, writer) = begin(&options, &setup(), 1, &metrics).unwrap();
    fs::remove_dir_all(writer.folder()).unwrap();
    recorder.finish(&mut Recorded::new(&options).encoder);
    writer.run();
    assert!(ended(&metrics, "disk"));
}

#[test]
fn files_stay_within_the_limit_and_another_process_has_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path().to_owned());
    for _ in 0..2 {
        let metrics = Arc::new(Metrics::new());
        let (mut recorder, writer) = begin(&options, &setup(), 1, &metrics).unwrap();
        let mut recorded = Recorded::new(&options);
        let writing = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let writing = (writing.spawn_blocking(|| writer.run()), writing);
        let mut now = Time::from_secs(1);
        for number in 0..30 {
            // Names that do not compress.
            let mut rng = fastrand::Rng::with_seed(number);
            for _ in 0..2000 {
                recorded.add_node(&format!("{:x}", rng.u128(..)));
            }
            now = now + FLUSH_INTERVAL;
            assert!(recorded.advance(&mut recorder, now));
        }
        recorder.finish(&mut recorded.encoder);
        let (ended_task, runtime) = writing;
        runtime.block_on(ended_task).unwrap();
        assert!(!ended(&metrics, "disk"));
        let runs = Runs::find(directory.path()).unwrap();
        let sizes = runs.0.iter().flat_map(|run| &run.files).map(|(_, size)| size);
        let size: u64 = sizes.sum();
        assert!(size < options.limit * 3 / 2, "{size} bytes");
    }
    let runs = Runs::find(directory.path()).unwrap().0;
    let last = &runs.last().unwrap();
    let folder = last.files[0].0.parent().unwrap();
    assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(last.name.ends_with("-2") && last.files.len() > 1, "{runs:?}");
    assert!(!last.files[0].0.ends_with("00001.rec"), "the first file was removed");
}
