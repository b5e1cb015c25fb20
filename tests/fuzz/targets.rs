//! The readers of input from outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cel::{AttributeValue, DeviceView, Selector};
use control::extender;
use control::reflector::{Call, Input, ListWatch, Options, Output, Reflector};
use dry_run::{Limit, Settings};
use framework::{LabelSelector, Labels, NodeSelector, Quantity, Time, api};
use loadmaster::config::{self, Gates};
use loadmaster::wire::{self, Decoder, Origin, Update, Validation, Wanted};
use recording::FileReader;
use simulator::trace::{Trace, openb};

use super::runner::fuzz;

/// Maximum length of what is made of one byte of input, in bytes of text: a quantity with the
/// suffix `Ei` is printed with 19 digits.
const MOST_PER_BYTE: usize = 64;

fn bounded(input: &[u8], output: usize, constant: usize) {
    let most = constant + MOST_PER_BYTE * input.len();
    assert!(output <= most, "{} bytes of input became {output}", input.len());
}

fn profiles() -> engine::profile::Profiles {
    config::defaults(&Gates::default()).build_profiles(&plugins::registry()).unwrap()
}

#[test]
fn configurations() {
    let defaults = config::defaults(&Gates::default()).to_value().to_string().len();
    fuzz("configuration", |input| {
        let Ok(text) = str::from_utf8(input) else { return };
        let Ok(loaded) = config::load(text, &Gates::default()) else { return };
        let config = loaded.in_effect();
        let _ = config.build_profiles(&plugins::registry());
        // Each profile gets the defaults of all plugins.
        bounded(input, config.to_value().to_string().len(), defaults * (config.profiles.len() + 1));
    });
}

#[test]
fn quantities() {
    fuzz("quantities", |input| {
        let Ok(text) = str::from_utf8(input) else { return };
        let Ok(quantity) = text.parse::<Quantity>() else { return };
        let _ = (quantity.value(), quantity.milli_value(), quantity.sign());
        let printed = quantity.to_string();
        bounded(input, printed.len(), 0);
        let again: Quantity = printed.parse().unwrap();
        assert_eq!(again.nanos(), quantity.nanos(), "{text} is printed as {printed}");
    });
}

#[test]
fn selectors() {
    let labels: Labels = [("app", "a"), ("cores", "4"), ("tier", "x")].into_iter().collect();
    fuzz("selectors", |input| {
        if let Ok(selector) = serde_json::from_slice::<api::LabelSelector>(input)
            && let Ok(compiled) = LabelSelector::compile(Some(&selector))
        {
            let _ = compiled.matches(&labels);
            bounded(input, compiled.requirements().map_or(0, <[_]>::len), 0);
        }
        if let Ok(selector) = serde_json::from_slice::<api::NodeSelector>(input) {
            let compiled = NodeSelector::compile(&selector);
            let _ = NodeSelector::compile_strict(&selector, "spec");
            let _ = (compiled.node_names(), compiled.error());
            bounded(input, compiled.terms().len(), 0);
        }
    });
}

#[test]
fn expressions() {
    let memory: Quantity = "40Gi".parse().unwrap();
    let mut device = DeviceView::new("gpu.example.com");
    for (name, value) in [
        ("numa", AttributeValue::Int(0)),
        ("model", AttributeValue::String("a100")),
        ("healthy", AttributeValue::Bool(true)),
        ("driverVersion", AttributeValue::Version("1.2.3")),
        ("other/x", AttributeValue::String("y")),
    ] {
        device.add_attribute(name, value).unwrap();
    }
    device.add_capacity("memory", &memory);
    fuzz("expressions", |input| {
        let Ok(text) = str::from_utf8(input) else { return };
        match Selector::compile(text) {
            Ok(selector) => {
                // Which evaluations fail is not the question.
                let _ = selector.matches(&device);
            }
            // Each of at most 100 errors shows its line.
            Err(error) => bounded(input, error.to_string().len() / 200, 1000),
        }
    });
}

#[test]
fn manifests() {
    let wanted = Wanted::of(&profiles());
    // One is read as YAML, the other as JSON.
    let file = |name| Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let files: [PathBuf; 2] = [file("fuzz-manifest.yaml"), file("fuzz-manifest.json")];
    fuzz("manifests", |input| {
        for path in &files {
            fs::write(path, input).unwrap();
            let paths = std::slice::from_ref(path);
            match wire::read(&Origin::of_paths(paths), &wanted, Validation::Warn, |_| Vec::new()) {
                Ok(read) => {
                    let objects = read.nodes.len() + read.pods.len() + read.objects.len();
                    bounded(
                        input,
                        objects + read.warnings.iter().map(String::len).sum::<usize>(),
                        1000,
                    );
                }
                Err(faults) => bounded(input, faults.to_string().len(), 1000),
            }
        }
    });
}

/// Each line of the input is an event of a watch of each kind, and the whole is a page.
#[test]
fn watches() {
    let kinds = wire::watched_kinds(&profiles());
    fuzz("watches", |input| {
        for kind in &kinds {
            let decoder = Decoder::new(kind.resource.clone(), framework::ExtraFields::default());
            let list_watch = ListWatch { path: kind.path.to_string(), field_selector: None };
            watch(&decoder, list_watch, input);
            if let Ok(page) = decoder.page(input) {
                bounded(input, page.items.len() + page.undecodable.len(), 0);
            }
        }
    });
}

/// Passes the lines to a reflector, which opens calls as it likes.
fn watch(decoder: &Decoder, list_watch: ListWatch, input: &[u8]) {
    let mut now = Time::from_secs(0);
    let mut reflector = Reflector::<Update>::new(list_watch, Options::default(), 0);
    reflector.start(now);
    let mut open: Option<Call> = None;
    let mut reported = 0;
    for line in input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        for output in reflector.take_outputs() {
            match output {
                Output::Open(call) => open = Some(call),
                Output::Updated(..) => reported += 1,
                _ => {}
            }
        }
        let Some(call) = &open else { continue };
        let input = match decoder.page(line) {
            Ok(page) if !call.is_watch => Input::Page(call.id, page),
            _ => Input::Event(call.id, decoder.watch_event(line)),
        };
        reflector.step(Input::Opened(call.id), now);
        reflector.step(input, now);
        if let Some(deadline) = reflector.next_deadline() {
            now = deadline;
            reflector.tick(now);
        }
    }
    bounded(input, reported + reflector.object_count(), 0);
}

#[test]
fn extenders() {
    fuzz("extenders", |input| {
        for node_cache_capable in [false, true] {
            if let Ok(result) = extender::filter_result(input, node_cache_capable) {
                let names = result.nodes.len() + result.failed.len();
                bounded(input, names + result.failed_and_unresolvable.len(), 0);
            }
        }
        let _ = extender::host_priorities(input);
        let _ = extender::preemption_result(input);
        if let Err(text) = extender::binding_result(input) {
            bounded(input, text.len(), 1000);
        }
    });
}

#[test]
fn traces() {
    fuzz("traces", |input| {
        match openb::read_nodes("nodes.csv", input) {
            Ok(parsed) => bounded(input, parsed.value.len() + parsed.warnings.len(), 0),
            Err(error) => bounded(input, error.to_string().len(), 1000),
        }
        match openb::read_pods("pods.csv", input) {
            Ok(parsed) => bounded(input, parsed.value.len() + parsed.warnings.len(), 0),
            Err(error) => bounded(input, error.to_string().len(), 1000),
        }
    });
}

/// Maximum number of nodes and of pods in a trace that is replayed, so that a run takes
/// milliseconds.
const MOST_REPLAYED: usize = 20;

/// The input is the list of nodes, a line with `===`, and the list of pods.
#[test]
fn replays() {
    let settings = Settings {
        seed: 1,
        percentage_of_nodes_to_score: 0,
        adaptive_sampling: false,
        queue: engine::queue::QueueConfig::default(),
        profiles: config::defaults(&Gates::default()).scheduler_profiles(),
        registry: Arc::new(plugins::registry()),
        monitor: || Box::new(()),
        extenders: None,
        limit: Limit::default(),
    };
    fuzz("replays", |input| {
        const SEPARATOR: &[u8] = b"\n===\n";
        let Some(place) = input.windows(SEPARATOR.len()).position(|part| part == SEPARATOR) else {
            return;
        };
        let (nodes, pods) = (&input[..place], &input[place + SEPARATOR.len()..]);
        let Ok(mut nodes) = openb::read_nodes("nodes.csv", nodes) else { return };
        let Ok(mut pods) = openb::read_pods("pods.csv", pods) else { return };
        nodes.value.truncate(MOST_REPLAYED);
        pods.value.truncate(MOST_REPLAYED);
        let trace = Trace { nodes: nodes.value, pods: pods.value };
        if let Ok(course) = simulator::replay::replay(&trace, &settings, true, &()) {
            assert_eq!(course.samples.len(), trace.pods.len());
        }
    });
}

/// Whole files, in which a frame that is damaged is noticed.
#[test]
fn recordings() {
    fuzz("recordings", |input| {
        let Ok((mut reader, _)) = FileReader::open(input) else { return };
        let mut decoder = recording::Decoder::default();
        while let Ok(Some(frame)) = reader.next_frame() {
            // Deflate makes at most 1,032 bytes of one.
            assert!(
                frame.len() <= 1032 * input.len(),
                "{} bytes became {}",
                input.len(),
                frame.len()
            );
            let _ = decoder.read(&frame, |_| true);
        }
        let _ = reader.ending();
    });
}

/// The content of frames.
#[test]
fn operations() {
    fuzz("operations", |input| {
        let mut count = 0;
        let read = recording::Decoder::default().read(input, |operation| {
            count += 1;
            // Printing reads all of an operation.
            !operation.to_string().is_empty()
        });
        assert!(count <= input.len(), "an operation takes at least a byte");
        if let Ok(taken) = read {
            assert_eq!(taken, input.len());
        }
    });
}
