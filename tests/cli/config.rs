//! `loadmaster config`: validation, defaults and display.

use serde_json::{Value, json};

use super::{loadmaster, loadmaster_with, written};

/// A configuration with these additional fields.
fn configuration(fields: &str) -> String {
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{fields}"
    )
}

/// One profile with a single scoring plugin.
fn mine() -> String {
    configuration(
        "profiles:
- schedulerName: mine
  percentageOfNodesToScore: 30
  plugins:
    score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit, weight: 7}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}]}}
",
    )
}

/// Returns the error for an invalid configuration.
#[track_caller]
fn refusal(text: &str) -> String {
    loadmaster_with(&["config", "validate", "-"], text).refused(1)
}

/// Returns the plugins of the only profile at this extension point, from the JSON output.
fn plugins_at<'a>(shown: &'a Value, point: &str) -> &'a Vec<Value> {
    let points = shown["profiles"][0]["extensionPoints"].as_array().unwrap();
    let found = points.iter().find(|entry| entry["extensionPoint"] == point).unwrap();
    found["plugins"].as_array().unwrap()
}

#[test]
fn valid_file_is_accepted() {
    let path = written("config-good.yaml", mine().as_bytes());
    let text = loadmaster(&["config", "validate", &path]).text();
    assert_eq!(text, format!("{path} is valid; profiles: mine\n"));
}

#[test]
fn valid_standard_input_is_accepted() {
    let text = configuration("profiles: [{schedulerName: a}, {schedulerName: b}]\n");
    let answer = loadmaster_with(&["config", "validate", "-"], &text);
    assert_eq!(answer.text(), "- is valid; profiles: a, b\n");
}

#[test]
fn arguments_of_unknown_and_disabled_plugins_are_warned_of() {
    let text = configuration(
        "profiles:
- schedulerName: a
- schedulerName: b
  plugins: {multiPoint: {disabled: [{name: VolumeBinding}]}}
  pluginConfig: [{name: NodeAffinity}, {name: Nope, args: {x: 1}}, {name: VolumeBinding}]
",
    );
    let answer = loadmaster_with(&["config", "validate", "-"], &text);
    let expected = "warning: profiles[1].pluginConfig[1]: the plugin \"Nope\" does not exist, so its \
                    arguments have no effect\n\
                    warning: profiles[1].pluginConfig[2]: the plugin \"VolumeBinding\" is not enabled in \
                    this profile, so its arguments have no effect\n";
    assert!(answer.err.ends_with(expected), "{}", answer.err);
    assert_eq!(answer.text(), "- is valid; profiles: a, b\n");
}

#[test]
fn json_is_accepted_like_yaml() {
    let config = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"});
    let answer = loadmaster_with(&["config", "validate", "-"], &config.to_string());
    assert_eq!(answer.text(), "- is valid; profiles: default-scheduler\n");
}

#[test]
fn invalid_file_has_the_error_text_of_kube_scheduler() {
    let text = configuration("parallelism: -1\nprofiles: [{percentageOfNodesToScore: 101}]\n");
    let path = written("config-bad.yaml", text.as_bytes());
    let error = loadmaster(&["config", "validate", &path]).refused(1);
    let expected = "error: [parallelism: Invalid value: -1: should be an integer value greater \
                    than zero, profiles[0].percentageOfNodesToScore: Invalid value: 101: not in \
                    valid range [0-100]]\n";
    assert_eq!(error, expected);
}

#[test]
fn decoding_error_names_the_field() {
    let good = configuration("");
    let rows = [
        (configuration("bogus: 1\n"), "strict decoding error: unknown field \"bogus\""),
        (configuration("parallelism: 1\nparallelism: 2\n"), "parallelism"),
        (good.replace("/v1", "/v9"), "for version \"kubescheduler.config.k8s.io/v9\""),
        (good.replace("KubeSchedulerConfiguration", "Pod"), "no kind \"Pod\" is registered"),
        (configuration("parallelism: many\n"), "parallelism"),
        (String::new(), "'Kind' is missing"),
    ];
    for (text, expected) in rows {
        let error = refusal(&text);
        assert!(error.starts_with("error: ") && error.contains(expected), "{text}{error}");
    }
}

#[test]
fn unknown_plugin_is_reported_once() {
    let text = configuration("profiles: [{plugins: {filter: {enabled: [{name: Nope}]}}}]\n");
    let expected = "error: initializing profiles: creating profile for scheduler name \
                    default-scheduler: FilterPlugin \"Nope\" does not exist\n";
    assert_eq!(refusal(&text), expected);
}

#[test]
fn missing_file_has_the_error_text_of_go() {
    for action in ["validate", "show"] {
        let error = loadmaster(&["config", action, "/no/such.yaml"]).refused(1);
        assert_eq!(error, "error: open /no/such.yaml: no such file or directory\n");
    }
}

#[test]
fn defaults_cause_no_warning_about_missing_plugins() {
    let answer = loadmaster_with(&["config", "validate", "-"], &configuration(""));
    assert!(!answer.err.contains("not built"), "{}", answer.err);
    answer.text();
}

#[test]
fn the_defaults_are_valid() {
    let yaml = loadmaster(&["config", "defaults"]).text();
    assert!(yaml.starts_with("apiVersion: kubescheduler.config.k8s.io/v1\n"), "{yaml}");
    let answer = loadmaster_with(&["config", "validate", "-"], &yaml);
    assert_eq!(answer.text(), "- is valid; profiles: default-scheduler\n");
}

#[test]
fn defaults_are_equal_as_json_as_yaml_and_when_written() {
    let defaults = loadmaster(&["config", "defaults", "-o", "json"]).json();
    assert_eq!(defaults["kind"], "KubeSchedulerConfiguration");
    assert_eq!(defaults["profiles"][0]["schedulerName"], "default-scheduler");
    let target = written("config-written.yaml", b"");
    let args = ["config", "validate", "-", "--write-config-to", &target];
    loadmaster_with(&args, &configuration("")).text();
    let yaml = loadmaster(&["config", "defaults"]).text();
    assert_eq!(std::fs::read_to_string(&target).unwrap(), yaml);
}

#[test]
fn table_shows_points_and_weights() {
    let path = written("config-shown.yaml", mine().as_bytes());
    let text = loadmaster(&["config", "show", &path]).text();
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(text.contains("\nProfile mine looks at 30 % of the nodes\n"), "{text}");
    for line in [
        ["POINT", "PLUGIN", "WEIGHT"].as_slice(),
        &["score", "NodeResourcesFit", "7"],
        &["bind", "DefaultBinder"],
    ] {
        assert!(lines.iter().any(|found| found == line), "{line:?} in {text}");
    }
    let missing: Vec<_> = text.lines().filter(|line| line.contains("not built")).collect();
    assert_eq!(missing, [""; 0], "{text}");
    assert!(text.contains("\"type\":\"MostAllocated\""), "{text}");
    assert!(!text.contains('\u{1b}'), "no colour in a pipe");
}

#[test]
fn json_shows_points_weights_and_arguments() {
    let shown = loadmaster_with(&["config", "show", "-", "-o", "json"], &mine()).json();
    let profile = &shown["profiles"][0];
    assert_eq!(profile["schedulerName"], "mine");
    assert_eq!(profile["percentageOfNodesToScore"], 30);
    let score = plugins_at(&shown, "score");
    assert_eq!(score.len(), 1, "{score:?}");
    assert_eq!((&score[0]["name"], &score[0]["weight"]), (&"NodeResourcesFit".into(), &7.into()));
    let arguments = profile["arguments"].as_array().unwrap();
    let fit = arguments.iter().find(|entry| entry["name"] == "NodeResourcesFit").unwrap();
    let strategy = json!({"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]});
    assert_eq!(fit["args"]["scoringStrategy"], strategy);
}

#[test]
fn rate_of_requests_and_leader_election_are_shown_as_they_are_in_effect() {
    let show = |flags: &[&str]| {
        let args = [&["config", "show", "-"], flags].concat();
        let text = loadmaster_with(&args, &mine()).text();
        text.split_once("\n\n").unwrap().0.to_owned()
    };
    let elected = "Leader election: Lease kube-system/kube-scheduler, held for 15s, renewed within \
                   10s, tried every 2s";
    assert_eq!(show(&[]), format!("Requests to the API server: no limit\n{elected}"));
    assert_eq!(show(&["--kube-api-qps=9"]), show(&[]), "the file replaces the deprecated flag");
    let off = show(&["--leader-elect=false"]);
    assert!(off.ends_with("\nLeader election: off"), "{off}");
    let other = show(&["--leader-elect-resource-name=mine", "--leader-elect-lease-duration=1m"]);
    assert!(other.contains("Lease kube-system/mine, held for 1m0s,"), "{other}");

    let limited = mine() + "clientConnection: {qps: 20, burst: 30}\n";
    let text = loadmaster_with(&["config", "show", "-"], &limited).text();
    let expected = "Requests to the API server: at most 20 per second, bursts of 30\n";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn flags_without_a_file_are_in_effect() {
    let args = ["config", "show", "--kube-api-qps=50", "--leader-elect=false", "-o", "json"];
    let shown = loadmaster(&args).json();
    assert_eq!(shown["requestRate"], json!({"qps": 50.0, "burst": 100}));
    let configuration = &shown["configuration"];
    assert_eq!(configuration["kind"], "KubeSchedulerConfiguration");
    assert_eq!(configuration["leaderElection"]["leaderElect"], false);
    assert_eq!(configuration["clientConnection"]["qps"], 50.0);
    let unlimited = loadmaster(&["config", "show", "-o", "json"]).json();
    assert_eq!(unlimited["requestRate"], Value::Null);
    assert_eq!(unlimited["configuration"]["clientConnection"]["qps"], -1.0);
    let error = loadmaster(&["config", "show", "--leader-elect-retry-period=0s"]).refused(1);
    let expected =
        "error: leaderElection.retryPeriod: Invalid value: \"0s\": must be greater than zero\n";
    assert_eq!(error, expected);
}

#[test]
fn keys_of_extenders_are_not_shown() {
    let extenders =
        "extenders: [{urlPrefix: https://x, tlsConfig: {certData: c2VjcmV0, keyData: c2VjcmV0}}]\n";
    let path = written("config-secret.yaml", (mine() + extenders).as_bytes());
    for args in [
        ["config", "show", &path, "--output=yaml"],
        ["config", "show", &path, "--output=json"],
        ["run", &format!("--config={path}"), "-v=2", "--kubeconfig=/no/such"],
    ] {
        let answer = loadmaster(&args);
        let text = answer.out + &answer.err;
        assert!(text.contains("REDACTED") && !text.contains("c2VjcmV0"), "{text}");
    }
}

#[test]
fn yaml_shows_the_same_as_json() {
    let show = |output: &str| loadmaster_with(&["config", "show", "-", "-o", output], &mine());
    let yaml: Value = yaml::decode(&show("yaml").text()).unwrap();
    assert_eq!(yaml, show("json").json());
}

#[test]
fn invalid_feature_gates_are_rejected() {
    let rows = [
        ("Bogus=true", "error: unrecognized feature gate: Bogus\n"),
        ("DRAListTypeAttributes=true", "error: feature gate DRAListTypeAttributes is on, but "),
    ];
    for (gates, expected) in rows {
        for place in [["config", "defaults"], ["config", "show"], ["config", "validate"]] {
            let file: &[&str] = if place[1] == "defaults" { &[] } else { &["-"] };
            let args = [&place[..], file, &["--feature-gates", gates]].concat();
            let error = loadmaster_with(&args, &mine()).refused(1);
            assert!(error.starts_with(expected), "{args:?}: {error}");
        }
    }
}

#[test]
fn usage_errors_exit_with_2() {
    let rows: [&[&str]; 4] = [
        &["config"],
        &["config", "validate"],
        &["config", "sail"],
        &["config", "defaults", "-o", "table"],
    ];
    for args in rows {
        loadmaster(args).refused(2);
    }
}

#[test]
fn file_that_is_no_configuration_gets_a_line_about_what_to_do() {
    let refused = |name: &str, text: &str| {
        let file = written(name, text.as_bytes());
        let err = loadmaster(&["config", "validate", &file]).refused(1);
        let shown = loadmaster(&["config", "show", &file]).refused(1);
        assert_eq!(shown.lines().last(), err.lines().last(), "{shown}");
        err
    };
    let config = "kind: KubeSchedulerConfiguration";
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: own, namespace: kube-system}}\ndata:\n  config.yaml: |\n    \
         apiVersion: kubescheduler.config.k8s.io/v1\n    {config}\n"
    );
    let err = refused("map.yaml", &map);
    assert!(err.lines().next().unwrap().contains("no kind \"ConfigMap\" is registered"), "{err}");
    let expected = "the configuration is the value of \"config.yaml\" in the ConfigMap: kubectl get configmap own -n \
                    kube-system -o jsonpath='{.data.config\\.yaml}'";
    assert_eq!(err.lines().nth(1), Some(&*format!("error: {expected}")), "{err}");
    let err = refused(
        "old.yaml",
        &format!("apiVersion: kubescheduler.config.k8s.io/v1beta3\n{config}\n"),
    );
    assert!(err.contains("write `apiVersion: kubescheduler.config.k8s.io/v1`"), "{err}");
}

#[test]
fn weight_of_zero_is_warned_about() {
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: 0}]}}}]\n";
    let file = written("zero.yaml", text.as_bytes());
    for command in ["validate", "show"] {
        let answer = loadmaster(&["config", command, &file]);
        let expected =
            "profiles[0].plugins.score: the weight 0 of \"ImageLocality\" counts as not given";
        assert!(answer.code == Some(0) && answer.err.contains(expected), "{}", answer.err);
    }
}

#[test]
fn mistyped_command_gets_a_suggestion_and_completions_name_the_commands() {
    let err = loadmaster(&["explian", "pod", "web"]).refused(1);
    assert!(err.contains("Did you mean explain?"), "{err}");
    for shell in ["bash", "zsh", "fish"] {
        let script = loadmaster(&["completion", shell]).text();
        assert!(script.contains("explain") && script.contains("read-cluster"), "{shell}");
    }
}
