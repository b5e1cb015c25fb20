//! Measures the books of quotas: `cargo bench -p loadmaster-quota --bench quotas`.
//!
//! There are 11,110 quotas in a tree of depth 4, ten below each parent, and 100,000 pods. `flat`
//! has 10,000 quotas without parents.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{ElasticQuota, ExtraFields, Pod, QuotaKey, api as raw};
use loadmaster_quota::{Books, Reading, Request, Sums};
use serde_json::{Value, json};

const PODS: usize = 100_000;
const LEAVES: usize = 10_000;
const ROUNDS: usize = 20_000;

fn quota(books: &mut Books, name: &str, labels: Value) {
    let spec = json!({"min": {"cpu": "40", "memory": "64Gi", "example.com/gpu": 8},
        "max": {"cpu": "400", "memory": "640Gi", "example.com/gpu": 80}});
    let object = json!({"metadata": {"uid": name, "labels": labels}, "spec": spec});
    let object: raw::ElasticQuota = serde_json::from_value(object).expect("the object decodes");
    let object = ElasticQuota::from_api(&object).expect("the amounts are quantities");
    let key = QuotaKey { namespace: name.into(), name: name.into() };
    books.set_quota(&key, Some(Arc::new(object)));
}

fn tree() -> Books {
    let mut books = Books::default();
    books.count();
    let mut parents = vec![String::new()];
    for depth in 0..4 {
        let mut next = Vec::new();
        for parent in &parents {
            for child in 0..10 {
                let name = format!("{parent}{child}");
                let is_parent = if depth < 3 { "true" } else { "false" };
                let labels = json!({
                    "quota.scheduling.koordinator.sh/parent": format!("q{parent}"),
                    "quota.scheduling.koordinator.sh/is-parent": is_parent,
                });
                quota(&mut books, &format!("q{name}"), labels);
                next.push(name);
            }
        }
        parents = next;
    }
    books
}

fn flat() -> Books {
    let mut books = Books::default();
    books.count();
    (0..LEAVES).for_each(|leaf| quota(&mut books, &format!("q{leaf:04}"), json!({})));
    books
}

fn pods() -> Vec<Pod> {
    let pod = |number: usize| {
        let requests = json!({"cpu": "1", "memory": "2Gi", "example.com/gpu": "1"});
        let containers = json!([{"name": "c", "resources": {"requests": requests}}]);
        let metadata = json!({"namespace": format!("q{:04}", number % LEAVES),
            "name": format!("p{number}"), "uid": format!("u{number}")});
        let object = json!({"metadata": metadata, "spec": {"containers": containers}});
        Pod::from_json(&object, &ExtraFields::default()).expect("the pod decodes")
    };
    (0..PODS).map(pod).collect()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn measure(mut step: impl FnMut(usize)) -> Duration {
    let start = Instant::now();
    (0..ROUNDS).for_each(&mut step);
    start.elapsed() / u32::try_from(ROUNDS).unwrap_or(u32::MAX)
}

fn main() {
    let pods = pods();
    for (label, mut books) in [("tree", tree()), ("flat", flat())] {
        pods.iter().for_each(|pod| books.set_placed(pod, true));
        let own = |round: usize| &pods[round * 7919 % PODS];
        let update = measure(|round| {
            books.set_placed(own(round), false);
            books.set_placed(own(round), true);
        });
        let admit = measure(|round| {
            let pod = own(round);
            let quota = books.quota_of(pod).expect("the pod has a quota").ix();
            let request = Request { own: books.request_of(pod), beside: Sums::default() };
            let _ = black_box(books.admit(quota, &request, &Sums::default(), Reading::Mentioned));
        });
        let rounds = if label == "flat" { 100 } else { ROUNDS };
        let gpu = books.resource("example.com/gpu").expect("quotas name the resource");
        let shares = measure(|round| {
            if round < rounds {
                let quota = books.quota_of(own(round)).expect("the pod has a quota").ix();
                black_box(books.share_of(quota, gpu));
            }
        });
        let shares = shares * u32::try_from(ROUNDS / rounds).unwrap_or(1);
        println!(
            "{label}: a pod comes or goes {:?}, a request is decided {admit:?}, the share of a \
             quota {shares:?}",
            update / 2
        );
    }
}
