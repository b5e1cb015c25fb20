//! The command line of the daemon: errors and exit codes of kube-scheduler.

use super::loadmaster;

/// Returns the last line of standard error of a call that is refused as in kube-scheduler.
#[track_caller]
fn error(args: &[&str]) -> String {
    let error = loadmaster(args).refused(1);
    error.lines().last().unwrap_or_default().to_owned()
}

/// Returns the `err` of the only line that a failed start logs last.
#[track_caller]
fn failure(args: &[&str]) -> String {
    let line = error(args);
    let (header, err) =
        line.split_once("] \"command failed\" err=").unwrap_or_else(|| panic!("{line}"));
    assert!(header.starts_with('E'), "{line}");
    serde_json::from_str(err).unwrap()
}

#[test]
fn invalid_flags_print_the_usage_and_the_error_of_kube_scheduler() {
    let rows: [(&[&str], &str); 8] = [
        (&["--bogus"], "Error: unknown flag: --bogus"),
        (&["--bogus=1", "--v=2"], "Error: unknown flag: --bogus"),
        (&["run", "--bogus"], "Error: unknown flag: --bogus"),
        (&["-x"], "Error: unknown shorthand flag: 'x' in -x"),
        (&["--config"], "Error: flag needs an argument: --config"),
        (
            &["--leader-elect=maybe"],
            "Error: invalid argument \"maybe\" for \"--leader-elect\" flag: strconv.ParseBool: \
             parsing \"maybe\": invalid syntax",
        ),
        (
            &["-v", "x"],
            "Error: invalid argument \"x\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"x\": \
             invalid syntax",
        ),
        (
            &["--leader-elect-lease-duration=15"],
            "Error: invalid argument \"15\" for \"--leader-elect-lease-duration\" flag: time: \
             missing unit in duration \"15\"",
        ),
    ];
    for (args, expected) in rows {
        let text = loadmaster(args).refused(1);
        assert!(text.starts_with("Usage: loadmaster"), "{text}");
        assert_eq!(text.lines().last(), Some(expected));
    }
}

#[test]
fn similar_flags_and_commands_are_suggested() {
    let text = loadmaster(&["--leader-elct"]).refused(1);
    assert!(text.contains("Did you mean --leader-elect?\n"), "{text}");
    let text = loadmaster(&["confg"]).refused(1);
    assert!(text.contains("Did you mean config?\n"), "{text}");
}

#[test]
fn positional_arguments_are_refused() {
    let expected = "Error: \"loadmaster\" does not take any arguments, got [\"42\"]\n";
    assert_eq!(loadmaster(&["42"]).refused(1), expected);
    let expected = "Error: \"loadmaster run\" does not take any arguments, got [\"42\"]\n";
    assert_eq!(loadmaster(&["run", "42"]).refused(1), expected);
    let expected = "Error: \"loadmaster run\" does not take any arguments, got [\"false\"]\n";
    assert_eq!(loadmaster(&["run", "--leader-elect", "false"]).refused(1), expected);
}

#[test]
fn invalid_gates_and_versions_are_logged() {
    let rows = [
        ("--feature-gates=Bogus=true", "unrecognized feature gate: Bogus"),
        ("--feature-gates=other:X=true", "component not registered: other"),
        (
            "--feature-gates=NodeSwap=false",
            "cannot set feature gate NodeSwap to false, feature is locked to true",
        ),
        (
            "--emulated-version=1.30",
            "emulation version 1.30 is not between [1.36, 1.38.0]; omit --emulated-version to follow the \
             version of the API server",
        ),
        (
            "--emulated-version=1.37 --feature-gates=GangScheduling=true",
            "unrecognized feature gate: GangScheduling (it exists at level 1.36, and level 1.37 is followed)",
        ),
    ];
    for (flags, expected) in rows {
        assert_eq!(failure(&flags.split(' ').collect::<Vec<_>>()), expected);
    }
}

#[test]
fn invalid_log_settings_are_printed_without_a_header() {
    let rows = [
        ("--logging-format=xml", "format: Invalid value: \"xml\": Unsupported log format\n"),
        (
            "--log-json-split-stream",
            "options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled\n",
        ),
    ];
    for (flag, expected) in rows {
        assert_eq!(loadmaster(&[flag]).refused(1), expected);
    }
}

#[test]
fn gates_of_other_components_start_the_daemon() {
    let args = ["--feature-gates=NodeLogQuery=true,MemoryQoS=false", "--config=/no/such.yaml"];
    let text = loadmaster(&args).refused(1);
    let notice = "\"Warning: setting GA feature gate. It will be removed in a future release.\" \
                  featureGate=\"NodeLogQuery\" value=true";
    let elsewhere = "\"Warning: the gate has no effect here, only other components read it\" \
                     featureGate=\"MemoryQoS\" value=false";
    assert!(text.contains(notice) && text.contains(elsewhere), "{text}");
    assert_eq!(failure(&args), "open /no/such.yaml: no such file or directory");
}

#[test]
fn flags_are_logged_at_verbosity_one() {
    let text = loadmaster(&["--secure-port=0", "--config=/no/such.yaml", "-v=1"]).refused(1);
    let flags: Vec<_> = text.lines().filter_map(|line| line.split_once("] FLAG: ")).collect();
    let shown = |flag: &str| flags.iter().any(|(_, shown)| *shown == flag);
    assert!(
        shown("--secure-port=\"0\"") && shown("--leader-elect-lease-duration=\"15s\""),
        "{text}"
    );
}

#[test]
fn split_streams_write_only_errors_to_standard_error() {
    let answer = loadmaster(&[
        "--feature-gates=LoggingAlphaOptions=true",
        "--log-text-split-stream",
        "--log-text-info-buffer-size=1Mi",
        "--config=/no/such.yaml",
    ]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.out.contains("\"Starting Loadmaster\""), "{}", answer.out);
    assert!(answer.err.starts_with('E') && answer.err.lines().count() == 1, "{}", answer.err);
}

#[test]
fn version_is_printed() {
    let text = loadmaster(&["--version"]).text();
    assert_eq!(text, format!("loadmaster {}\n", env!("CARGO_PKG_VERSION")));
    let text = loadmaster(&["--version=raw"]).text();
    assert!(text.contains("\nkubernetes: 1.37\nplatform: linux/"), "{text}");
    let expected = format!(
        "Error: invalid argument \"v1.36.2\" for \"--version\" flag: the reported version cannot be \
         replaced: Loadmaster reports {}",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(error(&["--version=v1.36.2"]), expected);
}
