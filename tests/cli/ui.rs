//! `ui`: the page, over HTTP and in Chromium.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{fixtures, loadmaster};

const FILES: [&str; 3] = ["--dump", "nodes.yaml", "pods.json"];

/// A page that is served until the end of the test.
struct Page {
    process: Child,
    /// `127.0.0.1:PORT`.
    host: String,
    token: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves a page over the dump.
fn page() -> Page {
    page_of(&FILES)
}

/// Serves a page with these arguments.
fn page_of(args: &[&str]) -> Page {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadmaster"));
    command.arg("ui").args(args).current_dir(fixtures()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (host, token) =
        line.trim().strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
    Page { process, host: host.to_owned(), token: token.to_owned() }
}

impl Page {
    fn address(&self) -> String {
        format!("http://{}/?token={}", self.host, self.token)
    }

    /// Posts a change. Returns status and body.
    fn try_change(&self, origin: Option<&str>, cookie: &str, change: &str) -> (u16, String) {
        let mut connection = TcpStream::connect(&self.host).unwrap();
        let origin = origin.map(|origin| format!("Origin: {origin}\r\n")).unwrap_or_default();
        let request = format!(
            "POST /whatif HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n{origin}Content-Length: {}\r\nConnection: close\r\n\r\n{change}",
            self.host,
            change.len()
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// Returns status, headers and body.
    fn get(&self, path: &str, host: &str, cookie: &str) -> (u16, String, String) {
        let mut connection = TcpStream::connect(&self.host).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), head.to_lowercase(), body.to_owned())
    }

    fn cookie(&self) -> String {
        let (status, head, _) = self.get(&format!("/?token={}", self.token), &self.host, "");
        assert_eq!(status, 303);
        let line = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        assert!(line.contains("httponly") && line.contains("samesite=strict"), "{line}");
        line.split_once(';').unwrap().0.to_owned()
    }
}

#[test]
fn page_needs_its_token_and_its_own_host_name() {
    let page = page();
    for path in ["/", "/?token=wrong", "/explain/cluster", "/app.js", "/source"] {
        let (status, _, body) = page.get(path, &page.host, "loadmaster-ui=wrong");
        assert_eq!((status, body.contains("needs its token")), (401, true), "{path}");
    }
    let cookie = page.cookie();
    let (status, head, body) = page.get("/", &page.host, &cookie);
    assert_eq!((status, body.contains("<main")), (200, true));
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    let (status, ..) = page.get("/explain/cluster", "evil.example", &cookie);
    assert_eq!(status, 421, "a name of another site may lead to the page");
}

#[test]
fn page_answers_like_the_command_and_says_why_there_is_no_answer() {
    let page = page();
    let cookie = page.cookie();
    let (_, _, body) = page.get("/explain/pods/b/huge?node=small", &page.host, &cookie);
    let shown: Value = serde_json::from_str(&body).unwrap();
    let args = ["explain", "pod", "huge", "-n", "b", "--node", "small", "-o", "json"];
    assert_eq!(shown, loadmaster(&[&args[..], &FILES].concat()).json());
    let (status, _, body) = page.get("/explain/nodes", &page.host, &cookie);
    let nodes: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, nodes["nodes"].as_array().map(Vec::len)), (200, Some(2)));
    let (status, _, body) = page.get("/explain/pods/b/never", &page.host, &cookie);
    assert_eq!((status, body.contains("the dump has no pod b/never")), (502, true), "{body}");
}

#[test]
fn placed_pod_can_be_asked_about_again_and_again() {
    let page = page();
    let cookie = page.cookie();
    let (_, _, body) = page.get("/explain/nodes/small", &page.host, &cookie);
    let node: Value = serde_json::from_str(&body).unwrap();
    let pod = &node["placed"][0];
    let path = format!(
        "/explain/pods/{}/{}",
        pod["namespace"].as_str().unwrap(),
        pod["name"].as_str().unwrap()
    );
    let ask = || {
        let (_, _, body) = page.get(&path, &page.host, &cookie);
        serde_json::from_str::<Value>(&body).unwrap()["now"].clone()
    };
    let first = ask();
    assert_eq!(first["nodes"], 2, "{first}");
    assert_eq!(ask(), first);
    assert_eq!(page.get("/explain/nodes/small", &page.host, &cookie).2, body);
}

#[test]
fn change_is_tried_for_the_page_itself_and_for_no_other() {
    let page = page();
    let (cookie, own) = (page.cookie(), format!("http://{}", page.host));
    let change = "apiVersion: whatif.loadmaster.io/v1\nkind: Changes\ndrain: [small]\n";
    let (status, body) = page.try_change(Some(&own), &cookie, change);
    assert_eq!(status, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["nodes"]["after"].as_array().map(Vec::len), Some(2), "{answer}");
    let left = ["moved", "pending", "lost"].map(|list| answer[list].as_array().unwrap().len());
    assert!(left.iter().sum::<usize>() > 0, "{answer}");
    let (status, body) = page.try_change(Some(&own), &cookie, &change.replace("small", "none"));
    assert_eq!((status, body.contains("there is no node \\\"none\\\"")), (502, true), "{body}");
    for origin in [None, Some("http://evil.example"), Some("http://127.0.0.1:1"), Some("null")] {
        assert_eq!(page.try_change(origin, &cookie, change).0, 403, "{origin:?}");
    }
    assert_eq!(page.try_change(Some(&own), "loadmaster-ui=wrong", change).0, 401);
}

/// A dump in which moves make room for the pod `ml/train`.
const ROOM: [&str; 2] = ["--dump", "whatif/room.yaml"];

#[test]
fn page_looks_for_moves_like_the_command() {
    let page = page_of(&ROOM);
    let cookie = page.cookie();
    let (status, _, body) = page.get("/room/ml/train", &page.host, &cookie);
    let shown: Value = serde_json::from_str(&body).unwrap();
    let args = ["whatif", "--make-room-for", "ml/train", "-o", "json"];
    assert_eq!((status, &shown), (200, &loadmaster(&[&args[..], &ROOM].concat()).json()));
    let (status, _, body) = page.get("/room/shop/web-1", &page.host, &cookie);
    assert_eq!((status, body.contains("no pod shop/web-1 that waits")), (502, true), "{body}");
    assert_eq!(page.get("/room/ml/train", &page.host, "").0, 401);
}

/// Returns the page as Chromium shows it at this place.
fn shown(chromium: &str, page: &Page, place: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--virtual-time-budget=10000", "--window-size=1300,900", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("{}{place}", page.address()))
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn page_lists_pods_and_completes_names() {
    let page = page();
    let cookie = page.cookie();
    let ask = |path: &str| -> Value {
        let (status, _, body) = page.get(path, &page.host, &cookie);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    };
    let all = ask("/explain/pods");
    let names: Vec<&str> =
        all["pods"].as_array().unwrap().iter().map(|pod| pod["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["web", "huge", "runs"], "pods that wait come first");
    let pending = ask("/explain/pods?pending=true&q=B%20hug&limit=5");
    assert_eq!(
        (&pending["matching"], &pending["pods"][0]["requests"]["memory"]),
        (&1.into(), &"1Ti".into())
    );
    assert_eq!(ask("/explain/pods?limit=1")["pods"].as_array().map(Vec::len), Some(1));
    let found = ask("/explain/names?q=small&limit=3");
    assert_eq!((&found["nodes"][0], &found["pods"]), (&"small".into(), &Value::Array(Vec::new())));
    let nodes = ask("/explain/nodes?label=size");
    assert_eq!(
        (&nodes["nodes"][0]["label"], &nodes["labels"]["size"]),
        (&"large".into(), &2.into())
    );
    assert_eq!(ask("/source")["live"], false);
    let (status, _, body) = page.get("/decisions", &page.host, &cookie);
    assert_eq!((status, body.as_str()), (204, ""), "a dump makes no decisions");
}

/// The gates with which the PodGroups of `podgroups.yaml` are placed in one rack.
const RACKS: &str = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true";

/// A dump with quotas of two teams, and a configuration in which they count.
const TEAMS: [&str; 4] = ["--dump", "whatif/quotas.yaml", "--config", "whatif/teams-config.yaml"];

#[test]
fn page_shows_what_quotas_guarantee_and_use() {
    let page = page_of(&TEAMS);
    let (status, _, body) = page.get("/explain/quotas", &page.host, &page.cookie());
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(status, 200, "{body}");
    let team = &answer["quotas"][0];
    assert_eq!((&team["quota"], &team["pending"]), (&"team-a/quota".into(), &12.into()));
    let bar = json!({"used": 0, "borrowed": 0, "wanted": 100, "min": 83, "share": 83});
    assert_eq!(team["resources"][0]["bar"], bar);
}

#[test]
fn page_lists_pod_groups_with_their_state() {
    let page = page_of(&["--dump", "podgroups.yaml", RACKS]);
    let cookie = page.cookie();
    let ask = |path: &str| -> Value {
        let (status, _, body) = page.get(path, &page.host, &cookie);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    };
    let all = ask("/explain/podgroups");
    let row = |place: usize| {
        let own = &all["podgroups"][place];
        json!([own["name"], own["state"], own["shortfall"], own["domains"][0]])
    };
    assert_eq!(row(0), json!(["train", "unschedulable", 1, "a"]));
    assert_eq!(row(1), json!(["runs", "running", 0, "b"]));
    let pending = ask("/explain/podgroups?pending=true");
    assert_eq!((&pending["total"], &pending["matching"]), (&2.into(), &1.into()));
    let answer = ask("/explain/podgroups/default/train");
    assert_eq!(answer["topology"]["domains"][0]["name"], "a");
}

#[test]
fn chromium_shows_the_cluster_the_nodes_and_a_decision() {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let Some(chromium) = names.iter().find(is_there) else {
        eprintln!("skipped: Chromium is not installed (package `chromium`)");
        return;
    };
    let page = page();
    let rows: [(&str, &str, &[&str]); 11] = [
        ("#/whatif", "whatif", &["<textarea", "Try it", "Drain"]),
        (
            "#/whatif?drain=small",
            "whatif",
            &["Nodes without and with the change", "lost", "other pods"],
        ),
        ("", "cluster", &["<b>2</b>", "Pending pods by cause", "Insufficient", "<canvas"]),
        ("#/nodes?q=small", "nodes", &["1 of 2 nodes", ">small</a>"]),
        ("#/?group=label%3Asize", "cluster", &["scarcest resource of each node", ">size</option>"]),
        ("#/pods?q=huge", "pods", &["1 of 3 pods", ">b/huge</a>", ">waits</span>", "memory 1Ti"]),
        ("#/groups", "groups", &["0 of 0 groups", "only those that wait"]),
        ("#/node/small", "node", &["Node small", "Pods on this node"]),
        ("#/pod/b/huge", "pod", &["What would help", "can take the pod", "NodeResourcesFit"]),
        ("#/pod/b/huge?node=small", "pod", &["small cannot take the pod"]),
        ("#/pod/b/never", "pod", &["No answer", "the dump has no pod b/never"]),
    ];
    for (place, view, texts) in rows {
        let text = shown(chromium, &page, place);
        assert!(text.contains(&format!("data-ready=\"{view}\"")), "{place}: {text}");
        texts.iter().for_each(|own| assert!(text.contains(own), "{place} lacks {own}: {text}"));
        assert!(!text.contains("[object") && !text.contains("undefined"), "{place}: {text}");
        assert!(text.contains("<form id=\"moment\" hidden"), "only a recording has moments");
    }
    let page = page_of(&["--dump", "podgroups.yaml", RACKS]);
    let rows: [(&str, &str, &[&str]); 2] = [
        ("#/podgroups", "podgroups", &["2 of 2 PodGroups", ">does not fit</span>", "closest: a"]),
        (
            "#/podgroup/default/train",
            "podgroup",
            &[
                "3 of 4",
                "Domains of rack",
                "another node like a1",
                "does not fit",
                ">default/runs</a> 1",
            ],
        ),
    ];
    for (place, view, texts) in rows {
        let text = shown(chromium, &page, place);
        assert!(text.contains(&format!("data-ready=\"{view}\"")), "{place}: {text}");
        texts.iter().for_each(|own| assert!(text.contains(own), "{place} lacks {own}: {text}"));
        assert!(!text.contains("[object") && !text.contains("undefined"), "{place}: {text}");
    }
    let page = page_of(&ROOM);
    let text = shown(chromium, &page, "#/pod/ml/train?room=yes");
    for own in ["after 2 moves, at a cost of 2.02", ">shop/web-2</a>", "No other moves cost less"] {
        assert!(text.contains(own), "the moves lack {own}: {text}");
    }
    let page = page_of(&TEAMS);
    let text = shown(chromium, &page, "#/quotas");
    let texts = [
        "data-ready=\"quotas\"",
        "2 quotas count",
        "team-a/quota",
        "cpu: 0 used of a share of 10, 10 guaranteed, 0 borrowed, 12 wanted",
        "class=\"wanted\" style=\"width: 100%",
        "class=\"guaranteed\" style=\"left: 83%",
    ];
    texts.iter().for_each(|own| assert!(text.contains(own), "the quotas lack {own}: {text}"));
    #[cfg(feature = "simulator")]
    {
        let directory = tempfile::tempdir().unwrap();
        super::replay::record(directory.path());
        let page = page_of(&["--recording", directory.path().to_str().unwrap()]);
        let text = shown(chromium, &page, "");
        assert!(text.contains("<form id=\"moment\">"), "{text}");
        assert!(text.contains("2026-03-01T02:02:38Z</output>"), "{text}");
    }
}

#[test]
#[cfg(feature = "simulator")]
fn page_moves_through_a_recording() {
    let directory = tempfile::tempdir().unwrap();
    super::replay::record(directory.path());
    let page = page_of(&["--recording", directory.path().to_str().unwrap()]);
    let cookie = page.cookie();
    let ask = |path: &str| -> Value {
        let (status, _, body) = page.get(path, &page.host, &cookie);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    };
    let nodes = || ask("/explain/nodes")["nodes"].as_array().unwrap().len();
    let moment = ask("/source")["moment"].clone();
    assert_eq!((&moment["seconds"], &moment["at"]), (&158.into(), &158.into()), "{moment}");
    assert_eq!(nodes(), 3);
    let moment = ask("/explain/moment?seconds=60");
    assert_eq!(moment["time"], "2026-03-01T02:01:00Z");
    assert_eq!(nodes(), 2);
    let facts = ask("/explain/pods/default/large")["facts"].clone();
    assert_eq!((&facts["node"], &facts["attempts"]), (&Value::Null, &1.into()), "{facts}");
    let (status, _, body) = page.get("/explain/pods/default/hopeless", &page.host, &cookie);
    assert_eq!(status, 502);
    assert!(body.contains("no pod default/hopeless was known at 2026-03-01T02:"), "{body}");
    let (status, _, body) = page.get("/explain/moment?seconds=x", &page.host, &cookie);
    assert!(status == 502 && body.contains("no number of seconds"), "{body}");
    // The time is beyond the end.
    assert_eq!(ask("/explain/moment?seconds=9999")["at"], 158);
    assert_eq!(nodes(), 3);
}
