//! Command lines from manifests and documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::{Args, Parser};

use super::*;
use crate::config;
use crate::http::{Certificate, KeyPairFiles, TlsVersion};
use crate::logs::{Format, Options};

#[derive(Debug, Parser)]
#[command(args_override_self = true)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
}

fn try_parse(line: &str) -> Result<Flags, String> {
    let args = with_dashes(line.split_whitespace().map(OsString::from));
    let args = std::iter::once("loadmaster".into()).chain(args);
    Cli::try_parse_from(args).map(|cli| cli.flags).map_err(|error| error.to_string())
}

fn parse(line: &str) -> Flags {
    try_parse(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Returns the configuration in effect, without a file or with an empty one.
fn configuration(flags: &Flags) -> Configuration {
    let mut config = config::defaults(&Gates::default());
    flags.apply(&mut config);
    config
}

/// Returns the settings of the log with these feature gates.
fn logging(flags: &Flags, gates: &str) -> Result<Options, String> {
    let gates = Gates::parse([gates]).unwrap();
    flags.logs.options(&gates).map_err(|errors| errors.to_string())
}

#[test]
fn defaults_are_those_of_kube_scheduler() {
    let flags = parse("");
    let serving = flags.serving.serving().unwrap();
    assert_eq!(serving.address.to_string(), "0.0.0.0:10259");
    assert_eq!(serving.tls.certificate, Certificate::SelfSigned);
    assert_eq!(serving.tls.min_version, TlsVersion::V12);
    assert_eq!(serving.max_streams, Some(100));
    let authentication = flags.authentication.options();
    assert!(authentication.tolerate_lookup_failure && !authentication.skip_lookup);
    assert_eq!(authentication.token_ttl.as_secs(), 10);
    let names = authentication.request_header_names;
    assert_eq!(names.username, ["x-remote-user"]);
    assert_eq!(names.group, ["x-remote-group"]);
    assert_eq!(names.extra_prefix, ["x-remote-extra-"]);
    assert!(names.uid.is_empty() && names.allowed.is_empty());
    let authorization = flags.authorization.options();
    assert_eq!(authorization.always_allow_paths, ["/healthz", "/readyz", "/livez"]);
    let ttl = [authorization.authorized_ttl, authorization.unauthorized_ttl];
    assert_eq!(ttl.map(|ttl| ttl.as_secs()), [10, 10]);
    let log = logging(&flags, "").unwrap();
    assert_eq!(
        (log.format, log.levels, log.flush_frequency.as_secs()),
        (Format::Text, 0.into(), 5)
    );
    assert_eq!(flags.max_in_unschedulable(), Duration::from_secs(300));
    assert_eq!(configuration(&flags), config::defaults(&Gates::default()));
    assert!(!flags.adaptive_sampling);
    assert_eq!(flags.warnings(), [""; 0]);
}

#[test]
fn values_are_in_the_notation_of_go() {
    let flags = parse(
        "--pod-max-in-unschedulable-pods-duration=90s --authentication-skip-lookup --secure-port=1 \
         --kube-api-qps=5e1 --requestheader-allowed-names=a,b --tls-cipher-suites=TLS_AES_128_GCM_SHA256 \
         --allow-metric-labels=m,l=a,b --tls-curve-preferences=23 --tls-curve-preferences=29 --tls-sni-cert-key=c,k:a --tls-sni-cert-key=d,l --feature-gates=A=true,kube:B=false --leader_elect=F -v=2",
    );
    let values: BTreeMap<_, _> = flags.values().collect();
    for (flag, expected) in [
        ("pod-max-in-unschedulable-pods-duration", "1m30s"),
        ("leader-elect-lease-duration", "15s"),
        ("authentication-skip-lookup", "true"),
        ("permit-port-sharing", "false"),
        ("secure-port", "1"),
        ("kube-api-qps", "50"),
        ("requestheader-allowed-names", "[a,b]"),
        ("requestheader-uid-headers", "[]"),
        ("authorization-always-allow-paths", "[/healthz,/readyz,/livez]"),
        ("tls-cipher-suites", "[TLS_AES_128_GCM_SHA256]"),
        ("tls-curve-preferences", "[23,29]"),
        ("tls-sni-cert-key", "[c,k:a;d,l]"),
        ("feature-gates", ":A=true,kube:B=false"),
        ("allow-metric-labels", "[\"m,l=a,b\"]"),
        ("leader-elect", "false"),
        ("config", ""),
        ("v", "2"),
    ] {
        assert_eq!(values.get(flag), Some(&expected), "{flag}");
    }
    assert!(flags.values().map(|(flag, _)| flag).is_sorted());
}

#[test]
fn kubeadm_static_pod_arguments_parse() {
    let flags = parse(
        "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf \
         --authorization-kubeconfig=/etc/kubernetes/scheduler.conf --bind-address=127.0.0.1 \
         --kubeconfig=/etc/kubernetes/scheduler.conf --leader-elect=true",
    );
    let kubeconfig = configuration(&flags).client_connection.kubeconfig;
    assert_eq!(kubeconfig, "/etc/kubernetes/scheduler.conf");
    let kubeconfigs =
        [flags.authentication.options().kubeconfig, flags.authorization.options().kubeconfig];
    let expected = Some(Path::new("/etc/kubernetes/scheduler.conf"));
    assert_eq!(kubeconfigs.each_ref().map(Option::as_deref), [expected; 2]);
    let expected = [""; 0];
    assert_eq!(flags.warnings(), expected);
}

#[test]
fn second_scheduler_manifests_parse() {
    for file in [
        "/etc/kubernetes/my-scheduler/my-scheduler-config.yaml",
        "/etc/kubernetes/scheduler-config.yaml",
    ] {
        let flags = parse(&format!("--config={file}"));
        assert_eq!(flags.config.as_deref(), Some(Path::new(file)));
        assert_eq!(flags.warnings(), [""; 0]);
    }
}

#[test]
fn every_flag_of_kube_scheduler_parses() {
    let flags = "config=f master=m write-config-to=f bind-address=0.0.0.0 secure-port=1 cert-dir=d \
        tls-cert-file=c tls-private-key-file=k tls-sni-cert-key=c,k tls-cipher-suites=TLS_AES_128_GCM_SHA256 \
        tls-min-version=VersionTLS13 tls-curve-preferences=29 disable-http2-serving \
        http2-max-streams-per-connection=5 permit-address-sharing permit-port-sharing=false \
        authentication-kubeconfig=k authentication-skip-lookup \
        authentication-token-webhook-cache-ttl=1s authentication-tolerate-lookup-failure=false \
        client-ca-file=f requestheader-allowed-names=a,b requestheader-client-ca-file=f \
        requestheader-extra-headers-prefix=x requestheader-group-headers=x \
        requestheader-uid-headers=x requestheader-username-headers=x \
        authorization-always-allow-paths=/a authorization-kubeconfig=k \
        authorization-webhook-cache-authorized-ttl=1s \
        authorization-webhook-cache-unauthorized-ttl=1s \
        kubeconfig=k kube-api-qps=5.5 kube-api-burst=5 kube-api-content-type=application/json \
        profiling contention-profiling=false pod-max-in-unschedulable-pods-duration=1m \
        leader-elect leader-elect-lease-duration=15s leader-elect-renew-deadline=10s \
        leader-elect-retry-period=2s leader-elect-resource-lock=leases \
        leader-elect-resource-name=n leader-elect-resource-namespace=n feature-gates=AllBeta=true \
        emulated-version=kube=1.36 min-compatibility-version=1.35 allow-metric-labels=m,l=v \
        allow-metric-labels-manifest=f disabled-metrics=m show-hidden-metrics-for-version=1.35 \
        logging-format=json v=2 vmodule=f=3 log-flush-frequency=5s log-json-split-stream=true \
        log-text-split-stream log-json-info-buffer-size=1Mi log-text-info-buffer-size=0";
    let line = |join: &str| {
        let dashed = flags.split_whitespace().map(|flag| format!("--{}", flag.replace('-', join)));
        dashed.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(parse(&line("_")).warnings(), parse(&line("-")).warnings());
}

#[test]
fn booleans_and_verbosities_parse_as_in_go() {
    let elect = |line: &str| configuration(&parse(line)).leader_election.leader_elect;
    assert!(elect("--leader-elect"));
    assert!(elect("--leader-elect=T"));
    assert!(!elect("--leader-elect=false"));
    assert!(!elect("--leader_elect=0 --v=1"));
    assert!(!elect("--leader-elect --leader-elect=false"));
    for (line, expected) in [
        ("", VersionRequest::No),
        ("--version", VersionRequest::Version),
        ("--version=T", VersionRequest::Version),
        ("--version=raw", VersionRequest::Raw),
        ("--version=false", VersionRequest::No),
    ] {
        assert_eq!(parse(line).version, expected, "{line}");
    }
    let level = |line: &str| logging(&parse(line), "").unwrap().levels.verbosity;
    for (line, expected) in
        [("-v=2", 2), ("--v=3", 3), ("-v 4", 4), ("-v5", 5), ("--v 6", 6), ("-v=1000", 255)]
    {
        assert_eq!(level(line), expected, "{line}");
    }
}

#[test]
fn only_leader_election_flags_override_the_file() {
    let flags = parse(
        "--config=f --leader-elect-resource-name=mine --leader-elect-lease-duration=1m \
         --kube-api-qps=7 --profiling=false",
    );
    let config = configuration(&flags);
    assert_eq!(config.leader_election.resource_name, "mine");
    assert_eq!(config.leader_election.lease_duration, Duration::from_secs(60));
    assert_eq!(config.client_connection, config::defaults(&Gates::default()).client_connection);
    assert!(config.enable_profiling);
    let expected = ["kube-api-qps", "profiling"].map(|flag| {
        format!("--{flag} has no effect: --config is given, set it in that file instead")
    });
    assert_eq!(flags.warnings(), expected);

    let config = configuration(&parse("--kube-api-qps=7 --kube-api-burst=9 --profiling=false"));
    let client = config.client_connection;
    assert_eq!((client.qps.0, client.burst, config.enable_profiling), (7.0, 9, false));
}

#[test]
fn kubeconfig_flag_applies_unless_the_file_names_one() {
    let flags = parse("--config=f --kubeconfig=mine");
    assert_eq!(configuration(&flags).client_connection.kubeconfig, "mine");
    let mut config = config::defaults(&Gates::default());
    config.client_connection.kubeconfig = "of-the-file".to_owned();
    flags.apply(&mut config);
    assert_eq!(config.client_connection.kubeconfig, "of-the-file");
}

#[test]
fn feature_gates_may_be_repeated() {
    let flags = "--feature-gates=SchedulerPopFromBackoffQ=false,AllBeta=true \
                 --feature-gates=StorageCapacityScoring=true";
    let gates = parse(flags).gates(Level::V1_36).unwrap();
    assert!(gates.is_on("StorageCapacityScoring") && !gates.is_on("SchedulerPopFromBackoffQ"));
    assert!(parse("--feature-gates=Nope=true").gates(Level::V1_36).is_err());
}

#[test]
fn port_zero_disables_serving_and_certificates_can_be_given() {
    assert!(parse("--secure-port=0").serving.serving().is_none());
    let certificate = |line: &str| parse(line).serving.serving().unwrap().tls.certificate;
    let files = KeyPairFiles { certificate: "c".into(), key: "k".into() };
    let given = "--tls-cert-file=c --tls-private-key-file=k --cert-dir=d";
    assert_eq!(certificate(given), Certificate::Files(files));
    assert_eq!(certificate("--cert-dir=d"), Certificate::Folder("d".into()));
    let serving = parse("--disable-http2-serving").serving.serving().unwrap();
    assert_eq!(serving.max_streams, None);
    let named = "--tls-sni-cert-key=c,k:a,b --tls-sni-cert-key=d,l";
    let named = parse(named).serving.serving().unwrap().tls.named;
    assert_eq!([named[0].names.len(), named[1].names.len()], [2, 0]);
}

#[test]
fn invalid_values_have_the_error_texts_of_kube_scheduler() {
    for (line, expected) in [
        (
            "--secure-port=70000",
            "--secure-port 70000 must be between 1 and 65535, inclusive. It cannot be turned off \
             with 0",
        ),
        ("--tls-min-version=VersionTLS9", "unknown tls version \"VersionTLS9\""),
        ("--leader-elect-retry-period=2", "time: missing unit in duration \"2\""),
        ("--leader-elect=maybe", "strconv.ParseBool: parsing \"maybe\": invalid syntax"),
        ("--kube-api-burst=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("--kube-api-burst=4000000000", "parsing \"4000000000\": value out of range"),
        ("--kube-api-qps=x", "strconv.ParseFloat: parsing \"x\": invalid syntax"),
        ("--v=-1", "strconv.ParseUint: parsing \"-1\": invalid syntax"),
        ("--vmodule=run", "\"run\" does not have the pattern=N format"),
        ("--log-json-info-buffer-size=x", "quantities must match the regular expression"),
        ("--version=v1.36.2", "the reported version cannot be replaced"),
        ("--tls-cert-file=c", "--tls-private-key-file"),
        ("--tls-cipher-suites=RC4", "Cipher suite RC4 not supported or doesn't exist"),
        ("--tls-curve-preferences=29,4588", "Curve 4588 not supported or doesn't exist"),
        ("--tls-sni-cert-key=c", "expected comma separated certificate and key file paths"),
        ("--authorization-always-allow-paths=/a*b", "only trailing * allowed in \"/a*b\""),
        ("--requestheader-username-headers=a,,b", "empty value"),
        ("--bogus", "--bogus"),
        ("foo", "foo"),
    ] {
        let error = try_parse(line).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn log_settings_that_do_not_go_together_have_the_error_texts_of_kubernetes() {
    let forbidden =
        |option| format!("options.{option}: Forbidden: Feature LoggingAlphaOptions is disabled");
    let xml = "format: Invalid value: \"xml\": Unsupported log format";
    let vmodule = "vmodule: Forbidden: Only supported for text log format";
    for (line, expected) in [
        ("--logging-format=xml", xml.to_owned()),
        ("--logging-format=json --vmodule=run=4", vmodule.to_owned()),
        ("--logging-format=xml --vmodule=run=4", format!("[{xml}, {vmodule}]")),
        ("--log-json-split-stream", forbidden("json.splitStream")),
        ("--log-text-info-buffer-size=1Ki", forbidden("text.infoBufferSize")),
        (
            "--log-text-split-stream --log-json-info-buffer-size=1",
            format!("[{}, {}]", forbidden("text.splitStream"), forbidden("json.infoBufferSize")),
        ),
    ] {
        assert_eq!(logging(&parse(line), "").unwrap_err(), expected);
    }
    assert!(logging(&parse("--vmodule=run=4"), "").is_ok());
    let flags = parse("--log-text-split-stream --log-text-info-buffer-size=1Ki");
    let options = logging(&flags, "LoggingAlphaOptions=true").unwrap();
    assert!(format!("{:?}", options.streams).contains("size: 1024"), "{options:?}");
    let json = parse("--logging-format=json --log-text-split-stream");
    let options = logging(&json, "LoggingAlphaOptions=true").unwrap();
    assert!(matches!(options.streams, crate::logs::Streams::Single), "each format has its own");
}

#[test]
fn level_is_the_emulated_version() {
    let level = |line: &str| parse(line).level().map_err(|error| error.to_string());
    for (line, expected) in [
        ("", None),
        ("--emulated-version=1.36", Some(Level::V1_36)),
        ("--emulated-version=kube=1.37", Some(Level::V1_37)),
        ("--emulated-version=v1.38.0", Some(Level::V1_38)),
    ] {
        assert_eq!(level(line), Ok(expected), "{line}");
    }
    let outside = "is not between [1.36, 1.38.0]; omit --emulated-version to follow the version of the API \
                   server";
    for (line, expected) in [
        ("--emulated-version=kube=1.35", format!("emulation version 1.35 {outside}")),
        ("--emulated-version=1.39", format!("emulation version 1.39 {outside}")),
        ("--emulated-version=2.36", format!("emulation version 2.36 {outside}")),
        (
            "--emulated-version=x",
            "could not parse \"x\" as version; give a version like 1.37".to_owned(),
        ),
        ("--emulated-version=1", "illegal version string \"1\"".to_owned()),
        ("--emulated-version=1.36.2", "patch version not allowed, got: kube=1.36.2".to_owned()),
        ("--emulated-version=other=1.36", "component not registered: other".to_owned()),
        (
            "--emulated-version=1.36,kube=1.36",
            "duplicate version flag, kube=1.36 and kube=1.36".to_owned(),
        ),
    ] {
        assert_eq!(level(line), Err(expected), "{line}");
    }
}

#[test]
fn oldest_compatible_version_is_at_most_the_level() {
    let oldest = |line: &str, level| {
        let gates = parse(line).gates(level).map_err(|error| error.to_string());
        gates.map(|gates| gates.min_compatibility())
    };
    for (line, level, expected) in [
        ("", Level::V1_36, 35),
        ("", Level::V1_37, 36),
        ("--min-compatibility-version=1.33", Level::V1_36, 33),
        ("--min-compatibility-version=kube=1.37", Level::V1_37, 37),
    ] {
        assert_eq!(oldest(line, level), Ok(expected), "{line} at {level}");
    }
    for (line, level, version) in [
        ("--min-compatibility-version=1.37", Level::V1_36, "1.37"),
        ("--min-compatibility-version=1.32", Level::V1_37, "1.32"),
    ] {
        let expected = format!(
            "minCompatibilityVersion version {version} is not between [1.33, {level}]; Kubernetes {level} is \
             followed"
        );
        assert_eq!(oldest(line, level), Err(expected), "{line} at {level}");
    }
}

/// The flags of kube-scheduler 1.36 and 1.37 with their defaults in the notation of Go.
const DEFAULTS: &str = "
    allow-metric-labels=[] allow-metric-labels-manifest= authentication-kubeconfig=
    authentication-skip-lookup=false authentication-token-webhook-cache-ttl=10s
    authentication-tolerate-lookup-failure=true
    authorization-always-allow-paths=[/healthz,/readyz,/livez] authorization-kubeconfig=
    authorization-webhook-cache-authorized-ttl=10s authorization-webhook-cache-unauthorized-ttl=10s
    bind-address=0.0.0.0 cert-dir= client-ca-file= config= contention-profiling=true
    disable-http2-serving=false disabled-metrics=[] emulated-version=[] feature-gates=
    http2-max-streams-per-connection=0 kube-api-burst=100
    kube-api-content-type=application/vnd.kubernetes.protobuf kube-api-qps=50 kubeconfig=
    leader-elect=true leader-elect-lease-duration=15s leader-elect-renew-deadline=10s
    leader-elect-resource-lock=leases leader-elect-resource-name=kube-scheduler
    leader-elect-resource-namespace=kube-system leader-elect-retry-period=2s log-flush-frequency=5s
    log-json-info-buffer-size=0 log-json-split-stream=false log-text-info-buffer-size=0
    log-text-split-stream=false logging-format=text master= min-compatibility-version=[]
    permit-address-sharing=false permit-port-sharing=false
    pod-max-in-unschedulable-pods-duration=5m0s profiling=true requestheader-allowed-names=[]
    requestheader-client-ca-file= requestheader-extra-headers-prefix=[x-remote-extra-]
    requestheader-group-headers=[x-remote-group] requestheader-uid-headers=[]
    requestheader-username-headers=[x-remote-user] secure-port=10259
    show-hidden-metrics-for-version= tls-cert-file= tls-cipher-suites=[] tls-curve-preferences=[]
    tls-min-version= tls-private-key-file= tls-sni-cert-key=[] v=0 version=false vmodule=
    write-config-to=";

/// Flags of Loadmaster.
const OWN: [&str; 12] = [
    "adaptive-sampling=false",
    "agent-config=",
    "clusters=",
    "longest-preemption-pause=5m0s",
    "no-rankings=false",
    "record-limit=2Gi",
    "record=",
    "schedule-group-members-alone=false",
    "strict-takeover=false",
    "tracing-config-file=",
    "unsupported-kube-api-over-localhost=false",
    "whatif=false",
];

#[test]
fn every_flag_has_the_default_of_kube_scheduler() {
    let flags = parse("");
    let own: BTreeSet<_> = flags.values().map(|(flag, value)| format!("{flag}={value}")).collect();
    let reference: BTreeSet<_> = DEFAULTS.split_whitespace().map(str::to_owned).collect();
    let only_here: Vec<_> = own.difference(&reference).collect();
    assert_eq!(only_here, OWN);
    let only_there: Vec<_> = reference.difference(&own).collect();
    assert_eq!(only_there, [""; 0]);
}

#[test]
fn invalid_selections_of_metrics_have_the_errors_of_kube_scheduler() {
    let error = |line: &str| parse(line).metrics.selection(None).unwrap_err().to_string();
    for (line, expected) in [
        (
            "--show-hidden-metrics-for-version=1.30",
            "metrics.showHiddenMetricsForVersion: Invalid value: \"1.30\": must be omitted or have the \
             value '1.35' or '1.36'; only the previous minor version is allowed",
        ),
        (
            "--disabled-metrics=a,2b",
            "metrics.disabledMetrics: Invalid value: [\"a\",\"2b\"]: must be fully qualified metric names \
             matching \"^[a-zA-Z_:][a-zA-Z0-9_:]*$\", got \"2b\"",
        ),
        (
            "--allow-metric-labels=m=v",
            "metrics.allowListMapping: Invalid value: {\"m\":\"v\"}: must have keys with format \
             `metricName,labelName` where metricName matches \"[a-zA-Z_:][a-zA-Z0-9_:]*\" and labelName \
             matches \"[a-zA-Z_][a-zA-Z0-9_]*\"",
        ),
        (
            "--allow-metric-labels-manifest=/no/such/file",
            "metrics.allowListMappingManifest: Invalid value: \"/no/such/file\": failed to read allow \
             list manifest: open /no/such/file: no such file or directory",
        ),
    ] {
        assert_eq!(error(line), expected);
    }
    let shown = |version: &str, level| {
        let flags = parse(&format!("--show-hidden-metrics-for-version={version}"));
        flags.metrics.selection(level).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!([shown("1.35", None), shown("1.36", None)], [Ok(()), Ok(())]);
    assert_eq!(shown("1.36", Some(Level::V1_37)), Ok(()));
    let error = shown("1.35", Some(Level::V1_37)).unwrap_err();
    assert!(
        error.ends_with("the value '1.36'; only the previous minor version is allowed"),
        "{error}"
    );
    assert!(parse("--show-hidden-metrics-for-version=").metrics.selection(None).is_ok());
}

#[test]
fn limits_on_the_command_line_go_before_those_of_the_file() {
    let file = std::env::temp_dir().join(format!("loadmaster-limits-{}", std::process::id()));
    std::fs::write(&file, "scheduler_pending_pods,queue: active,gated\n").unwrap();
    let limited = |line: &str| {
        let line = format!("--allow-metric-labels-manifest={} {line}", file.display());
        format!("{:?}", parse(&line).metrics.selection(None).unwrap())
    };
    let of_file = limited("");
    assert!(of_file.contains("\"queue\": {\"active\", \"gated\"}"), "{of_file}");
    let of_flag = limited("--allow-metric-labels=m,l=v --allow-metric-labels=n,k=w");
    assert!(of_flag.contains("\"m\"") && of_flag.contains("\"n\""), "{of_flag}");
    assert!(!of_flag.contains("queue"), "{of_flag}");
    std::fs::write(&file, "m: v\n").unwrap();
    let error = parse(&format!("--allow-metric-labels-manifest={}", file.display()));
    let error = error.metrics.selection(None).unwrap_err().to_string();
    assert!(error.contains("invalid allow list mapping in manifest"), "{error}");
    std::fs::remove_file(file).unwrap();
}

/// The flags as tables, one per group of the help.
fn documented() -> String {
    let command = Flags::augment_args(clap::Command::new("loadmaster"));
    let flags = parse("");
    let defaults: BTreeMap<_, _> = flags.values().collect();
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for arg in command.get_arguments() {
        let (Some(name), Some(help)) = (arg.get_long(), arg.get_help()) else { continue };
        let group = arg.get_help_heading().unwrap_or_default().to_owned();
        let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
        let default = match defaults.get(name) {
            None | Some(&("" | "[]")) => String::new(),
            Some(default) => format!("`{default}`"),
        };
        let help = help.to_string().replace('|', "\\|");
        groups
            .entry(group)
            .or_default()
            .push(format!("| {short}`--{name}` | {default} | {help} |"));
    }
    let tables = groups.into_iter().map(|(group, mut rows)| {
        rows.sort();
        format!("\n## {group}\n\n| Flag | Default | Effect |\n|---|---|---|\n{}\n", rows.join("\n"))
    });
    tables.collect()
}

#[test]
fn flags_are_documented() {
    let page = include_str!("../../../docs/flags.md");
    let (introduction, tables) = page.split_at(page.find("\n## ").unwrap_or(page.len()));
    let expected = documented();
    if tables != expected {
        let written = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/flags.md");
        std::fs::write(&written, format!("{introduction}{expected}")).unwrap();
        panic!("docs/flags.md is out of date: replace it by {}", written.display());
    }
}
