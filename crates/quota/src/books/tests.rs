use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::verdict::{Reading, Refusal, Request, Sums};
use api::device::ResourceClaim;
use api::{ExtraFields, api as raw};

fn quota(namespace: &str, name: &str, object: Value) -> (QuotaKey, Arc<ElasticQuota>) {
    let raw: raw::ElasticQuota = serde_json::from_value(object).unwrap();
    let key = QuotaKey { namespace: namespace.into(), name: name.into() };
    (key, Arc::new(ElasticQuota::from_api(&raw).unwrap()))
}

fn pod_of(namespace: &str, name: &str, spec: Value, label: Option<&str>) -> Pod {
    let mut metadata = json!({"namespace": namespace, "name": name, "uid": name});
    if let Some(label) = label {
        metadata["labels"] = json!({api::QUOTA_NAME_LABEL: label});
    }
    Pod::from_json(&json!({"metadata": metadata, "spec": spec}), &ExtraFields::default()).unwrap()
}

fn requesting(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
}

fn books(quotas: impl IntoIterator<Item = (&'static str, &'static str, Value)>) -> Books {
    let mut books = Books::default();
    books.count();
    for (namespace, name, object) in quotas {
        let (key, quota) = quota(namespace, name, object);
        books.set_quota(&key, Some(quota));
    }
    books
}

impl Books {
    fn named(&self, namespace: &str, name: &str) -> QuotaView<'_> {
        self.get(&QuotaKey { namespace: namespace.into(), name: name.into() }).unwrap()
    }

    fn cpu_used(&self, namespace: &str, name: &str) -> i128 {
        self.named(namespace, name).used(ResourceIx::CPU)
    }

    /// Everything that the books know, without ids.
    fn state(&self) -> Vec<String> {
        let amounts = |amounts: &Amounts| {
            let mut named: Vec<_> =
                amounts.iter().map(|(own, n)| format!("{} {n}", self.resource_name(own))).collect();
            named.sort_unstable();
            named.join(", ")
        };
        let mut lines: Vec<String> = Vec::new();
        for view in self.quotas() {
            let node = self.node(view.ix);
            let parent = view.parent().map(|parent| parent.key().to_string());
            let mut children: Vec<_> =
                view.children().map(|child| child.key().to_string()).collect();
            children.sort_unstable();
            lines.push(format!(
                "{} counts {} parent {parent:?} children {children:?} used [{}] demand [{}] \
                 waiting {} withheld [{}]",
                view.key(),
                node.counts,
                amounts(&node.used),
                amounts(&node.demand),
                node.waiting,
                amounts(&node.withheld),
            ));
        }
        let Root { tops, used, governed, withheld, min } = &self.root;
        lines.push(format!(
            "{} tops, used [{}] governed [{}] withheld [{}] min [{}] mentions [{}]",
            tops.len(),
            amounts(used),
            amounts(governed),
            amounts(withheld),
            amounts(&min.sum),
            amounts(&min.mentions),
        ));
        lines.push(format!("{} choices, {} labels", self.choices.len(), self.by_label.len()));
        for (choice, chosen) in &self.choices {
            let quota = chosen.quota.map(|ix| self.node(ix).key.to_string());
            let Usage { used, demand, waiting } = &chosen.usage;
            let (used, demand) = (amounts(used), amounts(demand));
            lines.push(format!(
                "{choice:?} {quota:?} {} [{used}] [{demand}] {waiting}",
                chosen.pods
            ));
        }
        lines.push(format!("{:?}", self.claims));
        lines
    }
}

#[test]
fn quota_that_appears_after_its_pods_counts_them() {
    let mut books = books([]);
    books.set_placed(&pod_of("a", "p", requesting("2"), None), true);
    let (key, own) = quota("a", "q", json!({"spec": {"min": {"cpu": "4"}}}));
    books.set_quota(&key, Some(own));
    assert_eq!(books.cpu_used("a", "q"), 2000);
    books.set_placed(&pod_of("a", "p", requesting("2"), None), false);
    assert_eq!(books.cpu_used("a", "q"), 0);
}

#[test]
fn older_of_two_quotas_of_a_namespace_counts() {
    let object = |second: u32| {
        json!({"metadata": {"creationTimestamp": format!("2026-01-01T00:00:0{second}Z")},
            "spec": {"min": {"cpu": "4"}}})
    };
    let mut books = books([("a", "young", object(9)), ("b", "other", object(3))]);
    books.set_placed(&pod_of("a", "p", requesting("2"), None), true);
    assert_eq!(books.cpu_used("a", "young"), 2000);
    let (key, old) = quota("a", "old", object(1));
    books.set_quota(&key, Some(old));
    assert_eq!((books.cpu_used("a", "young"), books.cpu_used("a", "old")), (0, 2000));
    assert!(!books.named("a", "young").counts());
    assert_eq!(books.total_min(ResourceIx::CPU), Some(8000));
    books.set_quota(&key, None);
    assert_eq!(books.cpu_used("a", "young"), 2000);
}

#[test]
fn pods_count_up_the_tree_and_choose_by_label_before_namespace() {
    let top = json!({"metadata": {"labels": {api::QUOTA_IS_PARENT_LABEL: "true"}},
        "spec": {"min": {"cpu": "10"}}});
    let leaf = json!({"metadata": {"labels": {api::QUOTA_PARENT_LABEL: "lab"}},
        "spec": {"min": {"cpu": "4"}}});
    let mut books = books([("a", "one", leaf.clone()), ("b", "two", leaf), ("x", "lab", top)]);
    books.set_placed(&pod_of("a", "p", requesting("2"), None), true);
    books.set_placed(&pod_of("a", "q", requesting("3"), Some("two")), true);
    books.set_pending(&pod_of("b", "r", requesting("5"), Some("unknown")), true);
    let view = books.named("x", "lab");
    assert_eq!((view.used(ResourceIx::CPU), view.demand(ResourceIx::CPU)), (5000, 10_000));
    assert_eq!((books.cpu_used("a", "one"), books.cpu_used("b", "two")), (2000, 3000));
    assert_eq!((view.waiting(), books.total_min(ResourceIx::CPU)), (1, Some(10_000)));
    assert_eq!(books.tops().count(), 1);
}

#[test]
fn circle_of_parents_is_cut_and_heals() {
    let node = |parent: &str| {
        json!({"metadata": {"labels": {api::QUOTA_IS_PARENT_LABEL: "true",
            api::QUOTA_PARENT_LABEL: parent}}})
    };
    let mut books = books([("x", "a", node("b")), ("x", "b", node("c")), ("x", "c", node("a"))]);
    assert_eq!(books.tops().count(), 1);
    let (key, healed) = quota("x", "c", node(""));
    books.set_quota(&key, Some(healed));
    let tops: Vec<_> = books.tops().map(|top| top.key().name.to_string()).collect();
    assert_eq!(tops, ["c"]);
    assert_eq!(books.named("x", "a").path().count(), 3);
}

fn request(books: &Books, pod: &Pod) -> Request {
    Request { own: books.request_of(pod), beside: Sums::default() }
}

#[test]
fn resource_that_is_not_mentioned_is_governed_only_in_strict_reading() {
    let mut books = books([
        ("a", "q", json!({"spec": {"min": {"example.com/gpu": 4}, "max": {"example.com/gpu": 8}}})),
        ("b", "r", json!({"spec": {"min": {"cpu": "1"}}})),
    ]);
    let gpus = |count: i64| {
        json!({"containers": [{"name": "c", "resources": {"requests":
            {"cpu": "4", "example.com/gpu": count}}}]})
    };
    let admit = |books: &Books, pod: &Pod, reading| {
        let quota = books.quota_of(pod).unwrap().ix();
        books.admit(quota, &request(books, pod), &Sums::default(), reading)
    };
    let pod = |name: &str, count| pod_of("a", name, gpus(count), None);
    assert_eq!(admit(&books, &pod("p", 4), Reading::Mentioned), Ok(()));
    let quota = books.named("a", "q").ix();
    let cpu = Err(Refusal::Max { quota, resource: ResourceIx::CPU });
    assert_eq!(admit(&books, &pod("p", 4), Reading::Strict), cpu);
    let resource = books.resource("example.com/gpu").unwrap();
    let most = Err(Refusal::Max { quota, resource });
    assert_eq!(admit(&books, &pod("p", 9), Reading::Mentioned), most);
    let total = Err(Refusal::Total { resource });
    assert_eq!(admit(&books, &pod("p", 5), Reading::Mentioned), total);
    books.set_placed(&pod("p", 4), true);
    assert_eq!(admit(&books, &pod("q", 1), Reading::Mentioned), total);
    // The CPU of namespace a is not governed, so that it takes nothing from namespace b.
    let other = pod_of("b", "o", requesting("1"), None);
    assert_eq!(admit(&books, &other, Reading::Mentioned), Ok(()));
    let cpu = Err(Refusal::Total { resource: ResourceIx::CPU });
    assert_eq!(admit(&books, &other, Reading::Strict), cpu);
    assert!(!books.is_over_min(quota, &Sums::default(), &Amounts::default(), Reading::Mentioned));
    assert!(books.is_over_min(quota, &Sums::default(), &Amounts::default(), Reading::Strict));
}

#[test]
fn guarantee_that_is_not_lent_is_kept_from_others() {
    let spec = json!({"min": {"cpu": "4"}});
    let closed = json!({"metadata": {"labels": {api::QUOTA_LENDS_LABEL: "false"}}, "spec": spec});
    let mut books = books([("a", "q", json!({ "spec": spec })), ("b", "r", closed)]);
    let quota = books.named("a", "q").ix();
    let pod = |name: &str, cpu: &str| pod_of("a", name, requesting(cpu), None);
    let admit = |books: &Books, pod: &Pod| {
        books.admit(quota, &request(books, pod), &Sums::default(), Reading::Mentioned)
    };
    assert_eq!(admit(&books, &pod("p", "4")), Ok(()));
    assert_eq!(admit(&books, &pod("p", "5")), Err(Refusal::Total { resource: ResourceIx::CPU }));
    let share = |books: &Books| books.share_of(quota, ResourceIx::CPU);
    books.set_pending(&pod("p", "9"), true);
    assert_eq!(share(&books), 4000);
}

#[test]
fn devices_of_a_shared_claim_count_once() {
    let mut books = books([(
        "a",
        "q",
        json!({"spec": {"max":
        {"gpu.deviceclass.resource.k8s.io/devices": 2}}}),
    )]);
    let of_claim = |name: &str| {
        json!({"resourceClaims": [{"name": "d", "resourceClaimName": "c"}],
        "containers": [{"name": name}]})
    };
    let pods = ["p", "q"].map(|name| pod_of("a", name, of_claim(name), None));
    books.set_placed(&pods[0], true);
    let claim: raw::ResourceClaim = serde_json::from_value(json!({
        "metadata": {"namespace": "a", "name": "c"},
        "spec": {"devices": {"requests": [
            {"name": "x", "exactly": {"deviceClassName": "gpu", "count": 2}}]}},
    }))
    .unwrap();
    let claim = ResourceClaim::from_api(&claim);
    books.set_claim(&"a".into(), &"c".into(), Some(&claim.spec));
    let resource = books.resource("gpu.deviceclass.resource.k8s.io/devices").unwrap();
    assert_eq!(books.named("a", "q").used(resource), 2);
    assert_eq!(books.request_of(&pods[1]).get(resource), 0);
    books.set_placed(&pods[1], true);
    assert_eq!(books.named("a", "q").used(resource), 2);
    books.set_claim(&"a".into(), &"c".into(), None);
    books.set_placed(&pods[0], false);
    assert_eq!(books.named("a", "q").used(resource), 2);
    books.set_placed(&pods[1], false);
    assert_eq!(books.named("a", "q").used(resource), 0);
}

#[derive(Debug, Clone)]
enum Step {
    Quota { key: usize, kind: usize },
    NoQuota(usize),
    Placed(usize, bool),
    Pending(usize, bool),
    Claim(bool),
}

const KEYS: [(&str, &str); 7] = [
    ("a", "one"),
    ("a", "two"),
    ("b", "one"),
    ("b", "leaf"),
    ("x", "top"),
    ("x", "mid"),
    ("c", "leaf"),
];

fn made(key: usize, kind: usize) -> (QuotaKey, Arc<ElasticQuota>) {
    let (namespace, name) = KEYS[key];
    let mut labels = json!({});
    match name {
        "top" => labels[api::QUOTA_IS_PARENT_LABEL] = json!("true"),
        "mid" => {
            labels[api::QUOTA_IS_PARENT_LABEL] = json!("true");
            labels[api::QUOTA_PARENT_LABEL] = json!("top");
        }
        "leaf" => labels[api::QUOTA_PARENT_LABEL] = json!(if kind == 0 { "mid" } else { "top" }),
        _ => {}
    }
    if kind == 1 {
        labels[api::QUOTA_LENDS_LABEL] = json!("false");
    }
    let min = json!({"cpu": kind * 2, "pods": key});
    let max = if kind == 2 { json!({"cpu": "3"}) } else { json!({"memory": "1Gi"}) };
    let created = format!("2026-01-01T00:00:0{}Z", (key * 3 + kind) % 10);
    let metadata = json!({"labels": labels, "creationTimestamp": created});
    quota(namespace, name, json!({"metadata": metadata, "spec": {"min": min, "max": max}}))
}

fn nth_pod(place: usize) -> Pod {
    let label = [None, Some("one"), Some("leaf"), Some("none")][place / 3 % 4];
    let spec = match place % 2 {
        0 => requesting("1500m"),
        _ => json!({"resourceClaims": [{"name": "d", "resourceClaimName": "c"}],
            "containers": [{"name": "c"}]}),
    };
    pod_of(["a", "b", "c"][place % 3], &format!("p{place}"), spec, label)
}

fn claim() -> ResourceClaim {
    let claim = json!({"spec": {"devices": {"requests": [
        {"name": "x", "exactly": {"deviceClassName": "gpu", "count": 3}}]}}});
    ResourceClaim::from_api(&serde_json::from_value::<raw::ResourceClaim>(claim).unwrap())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..KEYS.len(), 0..3_usize).prop_map(|(key, kind)| Step::Quota { key, kind }),
        1 => (0..KEYS.len()).prop_map(Step::NoQuota),
        4 => (0..24_usize, any::<bool>()).prop_map(|(pod, is)| Step::Placed(pod, is)),
        3 => (0..24_usize, any::<bool>()).prop_map(|(pod, is)| Step::Pending(pod, is)),
        1 => any::<bool>().prop_map(Step::Claim),
    ]
}

proptest! {
    #[test]
    fn books_equal_a_recount(steps in prop::collection::vec(step(), 0..60)) {
        let mut books = books([]);
        let (mut quotas, mut placed, mut pending) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let mut has_claim = false;
        // The devices of a claim that is gone count until its last user ends.
        books.set_placed(&nth_pod(1), true);
        placed.insert(1);
        for step in steps {
            match step {
                Step::Quota { key, kind } => {
                    let (own, object) = made(key, kind);
                    books.set_quota(&own, Some(object));
                    quotas.insert(key, kind);
                }
                Step::NoQuota(key) => {
                    let (namespace, name) = KEYS[key];
                    let own = QuotaKey { namespace: namespace.into(), name: name.into() };
                    books.set_quota(&own, None);
                    quotas.remove(&key);
                }
                Step::Placed(1, _) => {}
                Step::Placed(pod, is) => {
                    books.set_placed(&nth_pod(pod), is);
                    if is { placed.insert(pod) } else { placed.remove(&pod) };
                }
                Step::Pending(pod, is) => {
                    books.set_pending(&nth_pod(pod), is);
                    if is { pending.insert(pod) } else { pending.remove(&pod) };
                }
                Step::Claim(is) if is || !has_claim => {
                    books.set_claim(&"b".into(), &"c".into(), is.then_some(&*claim().spec));
                    has_claim |= is;
                }
                Step::Claim(_) => {}
            }
        }
        let mut again = self::books([]);
        pending.iter().for_each(|pod| again.set_pending(&nth_pod(*pod), true));
        if has_claim {
            again.set_claim(&"b".into(), &"c".into(), Some(&claim().spec));
        }
        for (key, kind) in quotas.into_iter().rev() {
            let (own, object) = made(key, kind);
            again.set_quota(&own, Some(object));
        }
        placed.iter().for_each(|pod| again.set_placed(&nth_pod(*pod), true));
        prop_assert_eq!(books.state(), again.state());
        for view in books.quotas().filter(|own| own.counts()) {
            for resource in books.all_resources() {
                let parent = view.parent().map(|parent| books.share_of(parent.ix(), resource));
                let below: i128 =
                    view.children().map(|own| books.share_of(own.ix(), resource)).sum();
                let share = books.share_of(view.ix(), resource);
                prop_assert!(below <= share.max(0) || view.children().next().is_none());
                prop_assert!(parent.is_none_or(|parent| share <= parent));
            }
        }
    }
}
