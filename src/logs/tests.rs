//! Lines of the log.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tracing::{debug, error, info, trace, warn};

use super::*;

/// Collects the output.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap()
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the output of `say` at these verbosities.
fn logged(format: Format, levels: impl Into<Levels>, say: impl FnOnce(&Verbosity)) -> String {
    let buffer = Buffer::default();
    let writer = buffer.clone();
    let (layer, verbosity) = layer(format, levels, move || writer.clone());
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || say(&verbosity));
    buffer.text()
}

/// Returns what is logged as text without verbosity.
pub(crate) fn captured(say: impl FnOnce()) -> String {
    logged(Format::Text, 0, |_| say())
}

/// Captures what this thread logs as text without verbosity.
pub(crate) struct Capture {
    buffer: Buffer,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Capture {
    pub(crate) fn start() -> Self {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let (layer, _) = layer(Format::Text, 0, move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(layer);
        Self { buffer, _guard: tracing::subscriber::set_default(subscriber) }
    }

    pub(crate) fn text(&self) -> String {
        self.buffer.text()
    }
}

fn json_of(say: impl FnOnce()) -> Value {
    serde_json::from_str(&logged(Format::Json, 4, |_| say())).unwrap()
}

/// Returns a line without its header: severity, and the text after the place in the source.
fn body(text: &str) -> (char, &str) {
    let (header, body) = text.split_once("] ").unwrap();
    assert!(header.contains(" tests.rs:"), "{header}");
    (header.chars().next().unwrap(), body.trim_end())
}

/// The output of the thread that runs a test; the panic hook is that of the process.
#[test]
fn panic_is_logged_in_the_format_of_the_log() {
    let default = std::panic::take_hook();
    log_panics();
    let text = logged(Format::Text, 0, |_| {
        std::panic::catch_unwind(|| panic!("index {}", 7)).unwrap_err();
    });
    std::panic::set_hook(default);
    assert!(text.starts_with('E'), "{text}");
    assert!(text.contains("\"Observed a panic\""), "{text}");
    assert!(text.contains("panic=\"index 7\" location=\"src/logs/tests.rs:"), "{text}");
}

#[test]
fn header_is_that_of_klog() {
    let record = Record {
        level: tracing::Level::WARN,
        caller: ("http/serving.rs", 42),
        message: "Hello".to_owned(),
        is_line: false,
        error: None,
        fields: Vec::new(),
    };
    let time: Timestamp = "2026-11-20T20:53:55.810991Z".parse().unwrap();
    let expected = r#"W1120 20:53:55.810991   19029 serving.rs:42] "Hello""#;
    assert_eq!(text::line(&record, time, 19029), expected);
    let expected = r#"{"ts":1795208035810.991,"caller":"http/serving.rs:42","msg":"Hello","v":0}"#;
    assert_eq!(json::line(&record, time), expected);
}

#[test]
fn text_quotes_strings_and_puts_the_error_first() {
    let text = logged(Format::Text, 0, |_| {
        let (pod, cause) = ("ns/name", "it \"broke\"");
        error!(pod, nodes = 3, ready = false, share = 0.5, err = %cause, "Failed to bind pod");
    });
    let expected =
        r#""Failed to bind pod" err="it \"broke\"" pod="ns/name" nodes=3 ready=false share=0.5"#;
    assert_eq!(body(&text), ('E', expected));
}

/// The lines of kube-scheduler that dashboards and scripts select by.
#[test]
fn lines_about_binds_and_failed_attempts_have_the_keys_of_kube_scheduler_in_its_order() {
    use engine::record::Choice;
    use engine::{Attempt, Outcome};

    use crate::scheduling_loop::{FailureLog, log_attempt, log_bound};

    let pod = testkit::pod("web").build();
    let choice = Choice { node: "n1".into(), ties: 2, total: Some(7), feasible: 3, evaluated: 5 };
    let bound = || log_bound(&pod, &choice);
    let name = format!("pod=\"{}\"", pod.key);
    let expected = format!(
        "\"Successfully bound pod to node\" {name} node=\"n1\" evaluatedNodes=5 feasibleNodes=3"
    );
    let line = |format, say: &dyn Fn()| logged(format, 2, |_| say());
    let after_caller = |line: &str| line.trim_end().split_once("] ").unwrap().1.to_owned();
    assert_eq!(after_caller(&line(Format::Text, &bound)), expected);
    let object =
        format!("{{\"name\":\"{}\",\"namespace\":\"{}\"}}", pod.key.name, pod.key.namespace);
    let json = line(Format::Json, &bound);
    let end = format!(
        "\"msg\":\"Successfully bound pod to node\",\"v\":2,\"pod\":{object},\"node\":\"n1\",\
         \"evaluatedNodes\":5,\"feasibleNodes\":3}}"
    );
    assert!(json.trim_end().ends_with(&end), "{json}");

    let pod = std::sync::Arc::new(pod);
    let outcome = Outcome::Unschedulable("0/1 nodes are available: 1 x.".to_owned());
    let attempt = Attempt { pod, outcome };
    let failed = || log_attempt(&attempt, &mut FailureLog::default(), framework::Time::ZERO);
    let expected = format!(
        "\"Unable to schedule pod; no fit; waiting\" {name} err=\"0/1 nodes are available: 1 x.\""
    );
    assert_eq!(after_caller(&line(Format::Text, &failed)), expected);
    let json = line(Format::Json, &failed);
    let end = format!(
        "\"msg\":\"Unable to schedule pod; no fit; waiting\",\"v\":2,\"pod\":{object},\
         \"err\":\"0/1 nodes are available: 1 x.\"}}"
    );
    assert!(json.trim_end().ends_with(&end), "{json}");
}

#[test]
fn whole_lines_are_not_quoted() {
    let line = || info!(target: LINE, "FLAG: --v={:?}", "2");
    assert_eq!(body(&logged(Format::Text, 0, |_| line())), ('I', "FLAG: --v=\"2\""));
    assert_eq!(json_of(line)["msg"], "FLAG: --v=\"2\"");
}

#[test]
fn values_of_several_lines_are_indented() {
    let text = logged(Format::Text, 0, |_| info!(config = "a: 1\nb: 2\n", n = 1, "Using"));
    assert_eq!(body(&text), ('I', "\"Using\" config=<\n\ta: 1\n\tb: 2\n > n=1"));
}

#[test]
fn every_level_has_its_severity() {
    let severity = |say: fn()| body(&logged(Format::Text, 4, |_| say())).0;
    assert_eq!(severity(|| error!("x")), 'E');
    assert_eq!(severity(|| warn!("x")), 'W');
    assert_eq!(severity(|| info!("x")), 'I');
    assert_eq!(severity(|| debug!("x")), 'I');
    assert_eq!(severity(|| trace!("x")), 'I');
}

#[test]
fn json_has_the_verbosity_of_all_but_errors() {
    assert_eq!(json_of(|| info!("x"))["v"], 0);
    assert_eq!(json_of(|| debug!("x"))["v"], 2);
    assert_eq!(json_of(|| trace!("x"))["v"], 4);
    let error = json_of(|| error!(err = "why", "x"));
    assert_eq!((error.get("v"), &error["err"]), (None, &json!("why")));
}

#[test]
fn json_has_the_parts_of_objects() {
    let line = json_of(|| info!(pod = "ns/name", node = "n1", count = 2, other = "a/b", "x"));
    assert_eq!(line["pod"], json!({"name": "name", "namespace": "ns"}));
    assert_eq!(line["node"], "n1");
    assert_eq!((&line["count"], &line["other"]), (&json!(2), &json!("a/b")));
    let caller = line["caller"].as_str().unwrap();
    assert!(caller.starts_with("logs/tests.rs:"), "{caller}");
}

#[test]
fn verbosity_filters_events_and_can_be_changed() {
    let all = || {
        info!("info");
        debug!("debug");
        trace!("trace");
    };
    let shown = |verbosity| {
        let text = logged(Format::Text, verbosity, |_| all());
        ["info", "debug", "trace"].map(|word| text.contains(word))
    };
    assert_eq!(shown(0), [true, false, false]);
    assert_eq!(shown(1), [true, false, false]);
    assert_eq!(shown(2), [true, true, false]);
    assert_eq!(shown(4), [true, true, true]);
    let text = logged(Format::Text, 0, |verbosity| {
        verbosity.set(5);
        assert_eq!(verbosity.get(), 5);
        all();
    });
    assert!(text.contains("trace"), "{text}");
}

#[test]
fn libraries_log_only_warnings_below_verbosity_six() {
    let shown = |verbosity| {
        let text = logged(Format::Text, verbosity, |_| {
            info!(target: "hyper::client", "noise");
            warn!(target: "kube_client", "warning");
        });
        ["noise", "warning"].map(|word| text.contains(word))
    };
    assert_eq!(shown(0), [false, true]);
    assert_eq!(shown(5), [false, true]);
    assert_eq!(shown(6), [true, true]);
}

#[test]
fn vmodule_raises_the_verbosity_of_the_files_it_matches() {
    let shown = |verbosity, vmodule: &str| {
        let levels = Levels { verbosity, vmodule: vmodule.parse().unwrap() };
        let text = logged(Format::Text, levels, |_| {
            debug!("debug");
            trace!("trace");
        });
        ["debug", "trace"].map(|word| text.contains(word))
    };
    assert_eq!(shown(0, ""), [false, false]);
    assert_eq!(shown(0, "tests=4"), [true, true]);
    assert_eq!(shown(0, "t*s=2"), [true, false]);
    assert_eq!(shown(0, "other=9,tests=2,t*=9"), [true, false], "the first match counts");
    assert_eq!(shown(2, "tests=0"), [true, false], "the verbosity of all files stays");
    assert_eq!(shown(0, "logs=9"), [false, false], "folders do not match");
}

#[test]
fn vmodule_stays_when_the_verbosity_changes() {
    let levels = Levels { verbosity: 4, vmodule: "tests=2".parse().unwrap() };
    let text = logged(Format::Text, levels, |verbosity| {
        verbosity.set(0);
        debug!("debug");
        trace!("trace");
    });
    assert!(text.contains("debug") && !text.contains("trace"), "{text}");
}
