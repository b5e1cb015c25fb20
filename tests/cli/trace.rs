//! `simulate --trace`: small traces of our own, and the published one if its files are present.

use std::path::Path;

use serde_json::json;

use super::{Answer, loadmaster, written};

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,16384,2,T4\nn1,8000,16384,0,\n";

/// Three pods want a whole GPU each; one waits until another has left.
const PODS: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,1000,1024,1,1000,,LS,Running,0,100,0
p1,1000,1024,1,1000,T4,LS,Running,10,200,10
p2,1000,1024,1,1000,,BE,Running,20,300,20
p3,1000,1024,1,1000,P100,BE,Running,30,300,30
";

fn small(name: &str, more: &[&str]) -> Answer {
    let nodes = written(&format!("{name}-nodes.csv"), NODES.as_bytes());
    let pods = written(&format!("{name}-pods.csv"), PODS.as_bytes());
    let args = ["simulate", "--trace", "openb", "--nodes", &nodes, "--pods", &pods];
    loadmaster(&[&args, more].concat())
}

#[test]
fn replayed_pods_wait_and_leave() {
    let answer = small("replay", &["--replay", "-o", "json"]).json();
    let run = &answer["runs"][0];
    let numbers = ["arrived", "atOnce", "afterWaiting", "never"].map(|key| run[key].as_u64());
    assert_eq!(numbers, [4, 2, 1, 1].map(Some));
    assert_eq!(answer["peak"]["gpu"], 100.0);
    let waiting = &answer["waiting"];
    let numbers = ["placed", "waited", "medianSeconds", "longestSeconds", "mostAtOnce"];
    let found = numbers.map(|key| waiting[key].as_u64());
    assert_eq!(found, [3, 1, 80, 80, 2].map(Some), "from second 20 to the departure in second 100");
    let over_time = answer["overTime"].as_array().unwrap();
    let at = |seconds: u64| over_time.iter().rfind(|own| own["seconds"].as_u64() <= Some(seconds));
    let gpu = [0, 15, 110].map(|seconds| at(seconds).unwrap()["gpu"].clone());
    assert_eq!(gpu, [50.0, 100.0, 100.0].map(|share| json!(share)));
    let plot = written("replay.svg", b"");
    let text = small("replay-plot", &["--replay", "--plot", &plot]).text();
    let sentence = "1 of 3 placed pods waited: half of them up to 1m20s, 95 % up to 1m20s, the longest 1m20s. At most \
                    2 pods waited at once.";
    assert!(text.contains(sentence), "{text}");
    let svg = std::fs::read_to_string(&plot).unwrap();
    assert!(svg.contains("time since the first arrival"), "{svg}");
}

/// One node with two GPUs, and pods that want one or two: the drawings end at 50 % or 100 %.
#[test]
fn means_say_over_how_many_runs_they_are() {
    let nodes = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,16384,2,T4\n";
    let pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1,1,1,1000\np1,1,1,2,1000\n";
    let (nodes, pods) =
        (written("runs-nodes.csv", nodes.as_bytes()), written("runs-pods.csv", pods.as_bytes()));
    let args = ["simulate", "--trace", "openb", "--nodes", &nodes, "--pods", &pods];
    let drive = ["--inflate", "100", "--seeds", "10"];
    let answer = loadmaster(&[&args[..], &drive, &["-o", "json"]].concat()).json();
    let marks = answer["allocation"].as_array().unwrap();
    let runs: Vec<_> = marks.iter().map(|mark| mark["runs"].as_u64().unwrap()).collect();
    assert_eq!((runs.len(), runs[0]), (2, 10), "{marks:?}");
    assert!(runs[1] < 10, "some drawings end early: {marks:?}");
    let text = loadmaster(&[&args[..], &drive].concat()).text();
    let row = ["100", &runs[1].to_string()];
    assert!(text.lines().any(|line| line.split_whitespace().take(2).eq(row)), "{text}");
}

#[test]
fn inflation_draws_pods_up_to_the_target_and_plots() {
    let plot = written("inflate.svg", b"");
    let more = ["--inflate", "100", "--seeds", "3", "--seed", "5", "--plot", &plot];
    let text = small("inflate", &more).text();
    assert!(
        text.contains("fragmentation inside a node")
            || text.contains("Fragmentation inside a node")
    );
    assert!(text.contains("mean over 3 seeds"), "{text}");
    let seeds = text.lines().filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    assert_eq!(seeds.take(3).collect::<Vec<_>>(), [5, 6, 7]);
    assert!(std::fs::read_to_string(&plot).unwrap().starts_with("<svg"));
}

#[test]
fn moves_within_the_budget_make_room_for_pods_that_fit_nowhere() {
    let nodes = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,16384,2,T4\nn1,8000,16384,2,T4\n";
    let pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,2000,1,1,1000\np1,2000,1,1,1000\n\
                p2,1,1,2,1000\n";
    let (nodes, pods) =
        (written("moves-nodes.csv", nodes.as_bytes()), written("moves-pods.csv", pods.as_bytes()));
    let args = ["simulate", "--trace", "openb", "--nodes", &nodes, "--pods", &pods];
    let drive = ["--inflate", "100", "--seeds", "40", "-o", "json"];
    let sums = |more: &[&str]| {
        let answer = loadmaster(&[&args[..], &drive, more].concat()).json();
        let runs = answer["runs"].as_array().unwrap().clone();
        let sum = |field: &str| runs.iter().map(|run| run[field].as_u64().unwrap()).sum::<u64>();
        ["arrived", "never", "moves"].map(sum)
    };
    let [arrived, never, moves] = sums(&[]);
    assert!(never > 0 && moves == 0, "{never} of {arrived} pods were never placed");
    let [same, left, moves] = sums(&["--make-room", "100"]);
    assert_eq!((same, left, moves), (arrived, 0, never), "one move for each of these pods");
    let [_, left, moves] = sums(&["--make-room", "1"]);
    assert_eq!((left, moves), (never, 0), "a hundredth of a few pods is none");
}

#[test]
fn invalid_value_names_file_line_and_column() {
    let nodes = written("bad-nodes.csv", NODES.replace("16384,2", "much,2").as_bytes());
    let pods = written("bad-pods.csv", PODS.as_bytes());
    let args = ["simulate", "--trace", "openb", "--nodes", &nodes, "--pods", &pods, "--replay"];
    let error = loadmaster(&args).refused(1);
    assert!(error.contains("bad-nodes.csv line 2: memory_mib: "), "{error}");
}

/// Returns the files of the published trace, if present.
fn openb(more: &[&str]) -> Option<Answer> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/openb");
    if !data.is_dir() {
        println!("skipped: {} is not there", data.display());
        return None;
    }
    let file = |name: &str| data.join(name).display().to_string();
    let (nodes, pods) = (file("openb_node_list_all_node.csv"), file("openb_pod_list_default.csv"));
    let args = ["simulate", "--trace", "openb", "--nodes", &nodes, "--pods", &pods];
    Some(loadmaster(&[&args, more].concat()))
}

#[test]
fn published_trace_is_replayed() {
    let Some(answer) = openb(&["--replay", "-o", "json"]) else { return };
    let run = answer.json()["runs"][0].clone();
    assert_eq!((run["arrived"].as_u64(), run["never"].as_u64()), (Some(8152), Some(0)));
}

#[test]
fn published_trace_is_inflated() {
    let args = ["--inflate", "5", "--seeds", "2", "-o", "json"];
    let (Some(first), Some(second)) = (openb(&args), openb(&args)) else { return };
    let (first, second) = (first.json(), second.json());
    assert_eq!(first, second, "equal seeds give equal runs");
    let gpu = first["allocation"].as_array().unwrap().last().unwrap()["gpu"]["mean"].as_f64();
    assert!(gpu.is_some_and(|gpu| (4.0..=5.0).contains(&gpu)), "{gpu:?}");
}
