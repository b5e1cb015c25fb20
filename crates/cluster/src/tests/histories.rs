//! Random histories: the incremental counts equal a full scan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestCaseResult;
use serde_json::{Value, json};

use super::super::*;
use crate::testing::{SetJson, node, pod};
use crate::{Namespaces, PodQuery};
use ::api::{ControllerKind, EventResource, LabelSelector, PodAffinityTerm, api};

const NAMESPACES: [&str; 3] = ["blue", "green", "red"];
/// Number of nodes. The last three are never created, so pods on them are on ghosts.
const NODES: usize = 11;
const CREATED_NODES: usize = 8;
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "example.com/host";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// A change of a cluster. There are few names, so changes collide.
#[derive(Debug, Clone)]
enum Step {
    SetNode { number: usize, zone: Option<&'static str>, host: bool },
    RemoveNode(usize),
    Place { node: usize, pod: PodShape },
    Update { pick: Index, node: usize, pod: PodShape },
    UpdateInPlace { pick: Index, pod: PodShape, same_spec: bool },
    RemovePod(Index),
    Ask(usize),
    AskOf(Index),
    SetNamespace(usize, Option<Value>),
    SetService { namespace: usize, number: usize, object: Option<Value> },
    SetController { kind: ControllerKind, namespace: usize, number: usize, object: Option<Value> },
}

/// The fields of a pod that these tests vary.
#[derive(Debug, Clone)]
struct PodShape {
    namespace: usize,
    app: Option<&'static str>,
    tier: Option<&'static str>,
    /// Carries its own name as a label, like the pods of a StatefulSet.
    named: bool,
    terminating: bool,
    terms: Vec<(u8, usize)>,
    controller: Option<(ControllerKind, usize)>,
}

fn pod_shape() -> impl Strategy<Value = PodShape> {
    let app = prop::option::weighted(0.8, select(vec!["web", "db", "job"]));
    let tier = prop::option::of(select(vec!["front", "back"]));
    let terms = prop::collection::vec((0..4_u8, 0..TERMS), 0..3);
    let controller = prop::option::of((owner_kind(), 0..2_usize));
    let (named, terminating) = (prop::bool::weighted(0.3), prop::bool::weighted(0.2));
    (0..NAMESPACES.len(), app, tier, named, terminating, terms, controller).prop_map(
        |(namespace, app, tier, named, terminating, terms, controller)| PodShape {
            namespace,
            app,
            tier,
            named,
            terminating,
            terms,
            controller,
        },
    )
}

/// Generates the kind of the controller of a pod.
fn owner_kind() -> impl Strategy<Value = ControllerKind> {
    let others = select(vec![ControllerKind::Job, ControllerKind::Node, ControllerKind::Other]);
    prop_oneof![4 => controller_kind(), 1 => others]
}

fn controller_kind() -> impl Strategy<Value = ControllerKind> {
    use ControllerKind::{ReplicaSet, ReplicationController, StatefulSet};
    select(vec![ReplicaSet, ReplicationController, StatefulSet])
}

/// Generates an absent object, one of the wrong shape, or one with a selector.
fn object(selector: fn(&str) -> Value) -> impl Strategy<Value = Option<Value>> {
    let good = select(vec!["web", "db", "job"]).prop_map(selector).prop_map(Some);
    let odd = select(vec![
        None,
        Some(json!({})),
        Some(json!({ "selector": {} })),
        Some(json!({ "selector": null })),
        Some(json!({ "selector": "web" })),
        Some(json!({ "selector": { "app": 1 } })),
        Some(json!({ "selector": { "matchLabels": { "app": "x".repeat(64) } } })),
        Some(json!({ "selector": { "app": "x".repeat(64) } })),
        Some(json!([1, 2])),
    ]);
    let spec = prop_oneof![3 => good, 2 => odd];
    spec.prop_map(|spec| spec.map(|spec| json!({ "spec": spec })))
}

fn namespace_object() -> impl Strategy<Value = Option<Value>> {
    let labels = select(vec![
        json!({ "team": "a" }),
        json!({ "team": "b", "old": "yes" }),
        json!({}),
        json!("labels"),
        json!({ "team": 7 }),
    ]);
    prop::option::weighted(
        0.8,
        labels.prop_map(|labels| json!({ "metadata": { "labels": labels } })),
    )
}

fn step() -> impl Strategy<Value = Step> {
    let zone = prop::option::weighted(0.8, select(vec!["z0", "z1", "z2"]));
    let service = |app: &str| json!({ "selector": { "app": app } });
    let controller = |app: &str| match app {
        "job" => json!({ "selector": { "app": "job", "tier": "back" } }),
        _ => json!({ "selector": { "matchLabels": { "app": app } } }),
    };
    prop_oneof![
        3 => (0..CREATED_NODES, zone, any::<bool>())
            .prop_map(|(number, zone, host)| Step::SetNode { number, zone, host }),
        1 => (0..CREATED_NODES).prop_map(Step::RemoveNode),
        8 => (0..NODES, pod_shape()).prop_map(|(node, pod)| Step::Place { node, pod }),
        4 => (any::<Index>(), 0..NODES, pod_shape())
            .prop_map(|(pick, node, pod)| Step::Update { pick, node, pod }),
        4 => (any::<Index>(), pod_shape(), any::<bool>())
            .prop_map(|(pick, pod, same_spec)| Step::UpdateInPlace { pick, pod, same_spec }),
        7 => any::<Index>().prop_map(Step::RemovePod),
        2 => (0..QUERIES).prop_map(Step::Ask),
        2 => any::<Index>().prop_map(Step::AskOf),
        1 => (0..NAMESPACES.len(), namespace_object())
            .prop_map(|(namespace, object)| Step::SetNamespace(namespace, object)),
        1 => (0..NAMESPACES.len(), 0..3_usize, object(service)).prop_map(
            |(namespace, number, object)| Step::SetService { namespace, number, object }
        ),
        1 => (controller_kind(), 0..NAMESPACES.len(), 0..2_usize, object(controller)).prop_map(
            |(kind, namespace, number, object)| Step::SetController {
                kind, namespace, number, object
            }
        ),
    ]
}

fn selector(labels: &[(&str, &str)], expressions: &[(&str, &str, &[&str])]) -> api::LabelSelector {
    let own = |text: &&str| (*text).to_owned();
    let expressions = expressions.iter().map(|(key, operator, values)| api::SelectorRequirement {
        key: own(key),
        operator: own(operator),
        values: values.iter().map(own).collect(),
    });
    api::LabelSelector {
        match_labels: labels.iter().map(|(key, value)| (own(key), own(value))).collect(),
        match_expressions: expressions.collect(),
    }
}

/// Returns selectors of every kind; the last one is invalid.
fn selectors() -> [Option<api::LabelSelector>; 11] {
    [
        None,
        Some(selector(&[], &[])),
        Some(selector(&[("app", "web")], &[])),
        Some(selector(&[("app", "web"), ("tier", "front")], &[])),
        Some(selector(&[], &[("app", "In", &["db", "web", "db"])])),
        Some(selector(&[], &[("app", "In", &["db", "web"]), ("app", "NotIn", &["db"])])),
        Some(selector(&[], &[("app", "NotIn", &["web"])])),
        Some(selector(&[], &[("tier", "Exists", &[])])),
        Some(selector(&[("app", "db")], &[("tier", "DoesNotExist", &[])])),
        Some(selector(&[], &[(POD_NAME, "In", &["p1", "p2", "p3"])])),
        Some(selector(&[("app", "not valid")], &[])),
    ]
}

const QUERIES: usize = 10 * 5;

fn query(number: usize) -> PodQuery {
    let selector = LabelSelector::compile(selectors()[number % 10].as_ref()).unwrap();
    let namespaces = match number / 10 {
        0 => Namespaces::All,
        1 => Namespaces::these([]),
        2 => Namespaces::these(["green".into()]),
        3 => Namespaces::all_but(["red".into(), "unheard-of".into()]),
        _ => Namespaces::these(["red".into(), "blue".into(), "unheard-of".into()]),
    };
    PodQuery { namespaces, selector }
}

/// Returns the query for the pods of the same namespace with the labels of this pod.
fn query_of(pod: &Pod) -> PodQuery {
    let labels = pod.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let selector = LabelSelector::from_set(&labels.collect());
    PodQuery { namespaces: Namespaces::one(&pod.key.namespace), selector }
}

const TERMS: usize = 11 * 4;

fn term(number: usize) -> api::PodAffinityTerm {
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let (namespaces, namespace_selector) = match number / 11 {
        0 => (Vec::new(), None),
        1 => (named(&["red", "green", "red"]), None),
        2 => (Vec::new(), Some(selector(&[("team", "a")], &[]))),
        _ => (named(&["blue"]), Some(selector(&[], &[("old", "DoesNotExist", &[])]))),
    };
    api::PodAffinityTerm {
        label_selector: selectors()[number % 11].clone(),
        namespaces,
        namespace_selector,
        topology_key: ZONE.to_owned(),
        ..api::PodAffinityTerm::default()
    }
}

fn a_pod(number: usize, shape: &PodShape) -> Arc<Pod> {
    let name = format!("p{number}");
    let mut builder = pod(&name).namespace(NAMESPACES[shape.namespace]);
    for (key, value) in [("app", shape.app), ("tier", shape.tier)] {
        builder = value.into_iter().fold(builder, |builder, value| builder.label(key, value));
    }
    if shape.named {
        builder = builder.label(POD_NAME, &name);
    }
    builder = builder.cpu(&format!("{}m", 100 * (number % 7))).memory("64Mi");
    if !number.is_multiple_of(3) {
        builder = builder.request(["example.com/gpu", "example.com/nic"][number % 2], "2");
    }
    let built = builder.with(|pod| {
        pod.metadata.deletion_timestamp =
            shape.terminating.then(|| "2026-01-01T00:00:00Z".to_owned());
        pod.metadata
            .owner_references
            .extend(shape.controller.map(|(kind, number)| owner(kind, number)));
        let affinity = pod.spec.affinity.get_or_insert_default();
        for (kind, number) in &shape.terms {
            let side = match kind % 2 {
                0 => affinity.pod_affinity.get_or_insert_default(),
                _ => affinity.pod_anti_affinity.get_or_insert_default(),
            };
            let term = term(*number);
            match kind / 2 {
                0 => side.required.push(term),
                _ => {
                    let weight = 1 + i32::try_from(number % 3).unwrap();
                    let weighted = api::WeightedPodAffinityTerm { weight, pod_affinity_term: term };
                    side.preferred.push(weighted);
                }
            }
        }
    });
    Arc::new(built.build())
}

fn owner(kind: ControllerKind, number: usize) -> api::OwnerReference {
    let (api_version, kind) = match kind {
        ControllerKind::ReplicationController => ("v1", "ReplicationController"),
        ControllerKind::ReplicaSet => ("apps/v1", "ReplicaSet"),
        ControllerKind::StatefulSet => ("apps/v1", "StatefulSet"),
        ControllerKind::DaemonSet => ("apps/v1", "DaemonSet"),
        ControllerKind::Job => ("batch/v1", "Job"),
        ControllerKind::Node => ("v1", "Node"),
        ControllerKind::Other => ("example.com/v1", "Task"),
    };
    api::OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: format!("c{number}"),
        uid: String::new(),
        controller: true,
    }
}

/// A cluster, and beside it plain lists of its objects for the full scan.
#[derive(Default)]
struct World {
    cluster: Cluster,
    nodes: BTreeMap<String, BTreeMap<&'static str, String>>,
    pods: Vec<(PodIx, Arc<Pod>, String)>,
    namespaces: BTreeMap<&'static str, BTreeMap<String, String>>,
    services: BTreeMap<(usize, usize), BTreeMap<String, String>>,
    controllers: BTreeMap<(ControllerKind, usize, usize), LabelSelector>,
}

impl World {
    fn take(&mut self, number: usize, step: Step) {
        match step {
            Step::SetNode { number, zone, host } => self.set_node(number, zone, host),
            Step::RemoveNode(number) => {
                let name = format!("n{number}");
                assert_eq!(self.cluster.remove_node(&name), self.nodes.remove(&name).is_some());
            }
            Step::Place { node, pod } => self.place(a_pod(number, &pod), node),
            Step::Update { pick, node, pod } => {
                if let Some(old) = self.remove(pick) {
                    let pod = Pod { key: old.key.clone(), ..(*a_pod(number, &pod)).clone() };
                    self.place(Arc::new(pod), node);
                }
            }
            Step::UpdateInPlace { pick, pod, same_spec } => {
                if !self.pods.is_empty() {
                    let pick = pick.index(self.pods.len());
                    self.update_in_place(pick, &a_pod(number, &pod), same_spec);
                }
            }
            Step::RemovePod(pick) => drop(self.remove(pick)),
            Step::Ask(number) => self.cluster.register_query(&query(number)),
            Step::AskOf(pick) => {
                if !self.pods.is_empty() {
                    let query = query_of(&pick.get(&self.pods).1);
                    self.cluster.register_query(&query);
                }
            }
            Step::SetNamespace(namespace, object) => self.set_namespace(namespace, object),
            Step::SetService { namespace, number, object } => {
                self.set_service(namespace, number, object);
            }
            Step::SetController { kind, namespace, number, object } => {
                self.set_controller(kind, namespace, number, object);
            }
        }
    }

    fn set_node(&mut self, number: usize, zone: Option<&str>, host: bool) {
        let name = format!("n{number}");
        let mut labels = BTreeMap::new();
        labels.extend(zone.map(|zone| (ZONE, zone.to_owned())));
        labels.extend(host.then(|| (HOST, name.clone())));
        let add = |builder: crate::testing::NodeBuilder, (key, value): (&&str, &String)| {
            builder.label(key, value)
        };
        self.cluster.set_node(&labels.iter().fold(node(&name), add).build());
        self.nodes.insert(name, labels);
    }

    fn place(&mut self, pod: Arc<Pod>, node: usize) {
        let node = format!("n{node}");
        self.pods.push((self.cluster.place_pod(pod.clone(), &node), pod, node));
    }

    fn update_in_place(&mut self, pick: usize, shape: &Pod, same_spec: bool) {
        let (ix, pod, _) = &mut self.pods[pick];
        let mut new = Pod { key: pod.key.clone(), uid: pod.uid.clone(), ..shape.clone() };
        if same_spec {
            (new.spec, new.labels) = (pod.spec.clone(), pod.labels.clone());
        }
        *pod = Arc::new(new);
        self.cluster.update_pod(*ix, pod.clone());
    }

    fn remove(&mut self, pick: Index) -> Option<Arc<Pod>> {
        if self.pods.is_empty() {
            return None;
        }
        let (ix, pod, _) = self.pods.swap_remove(pick.index(self.pods.len()));
        assert_eq!(self.cluster.remove_pod(ix).pod, pod);
        Some(pod)
    }

    fn set(&mut self, kind: EventResource, namespace: &str, name: &str, object: Option<Value>) {
        self.cluster.set_json(&kind, namespace, name, object.map(Arc::new));
    }

    fn set_namespace(&mut self, namespace: usize, object: Option<Value>) {
        let name = NAMESPACES[namespace];
        match &object {
            Some(object) => {
                let labels = serde_json::from_value(object["metadata"]["labels"].clone());
                if let Ok::<Option<_>, _>(labels) = labels {
                    self.namespaces.insert(name, labels.unwrap_or_default());
                }
            }
            None => drop(self.namespaces.remove(name)),
        }
        self.set(EventResource::Namespace, "", name, object);
    }

    fn set_service(&mut self, namespace: usize, number: usize, object: Option<Value>) {
        let selector = object.as_ref().map(|object| object["spec"]["selector"].clone());
        match selector.map_or(Ok(None), serde_json::from_value) {
            Ok(Some(set)) => drop(self.services.insert((namespace, number), set)),
            Ok(None) => drop(self.services.remove(&(namespace, number))),
            Err(_) => {}
        }
        let name = format!("s{number}");
        self.set(EventResource::Service, NAMESPACES[namespace], &name, object);
    }

    fn set_controller(
        &mut self,
        kind: ControllerKind,
        namespace: usize,
        number: usize,
        object: Option<Value>,
    ) {
        let raw = object.as_ref().map(|object| object["spec"]["selector"].clone());
        let raw = raw.filter(|raw| !raw.is_null());
        let is_gone = raw.is_none();
        let selector = match kind {
            ControllerKind::ReplicationController => raw
                .and_then(|raw| serde_json::from_value(raw).ok())
                .map(|set| LabelSelector::from_set(&set)),
            _ => raw
                .and_then(|raw| serde_json::from_value::<api::LabelSelector>(raw).ok())
                .and_then(|raw| LabelSelector::compile(Some(&raw)).ok()),
        };
        let key = (kind, namespace, number);
        match selector {
            Some(selector) => drop(self.controllers.insert(key, selector)),
            None if is_gone => drop(self.controllers.remove(&key)),
            None => {}
        }
        let resource = match kind {
            ControllerKind::ReplicationController => EventResource::ReplicationController,
            ControllerKind::ReplicaSet => EventResource::ReplicaSet,
            ControllerKind::StatefulSet => EventResource::StatefulSet,
            other => panic!("{other:?} has no selector"),
        };
        self.set(resource, NAMESPACES[namespace], &format!("c{number}"), object);
    }
}

/// Comparisons of the cluster with a full scan.
impl World {
    fn check(&self) -> TestCaseResult {
        (0..QUERIES).try_for_each(|number| self.check_query(&query(number)))?;
        for (_, pod, _) in self.pods.iter().take(20) {
            self.check_query(&query_of(pod))?;
            self.check_terms(pod)?;
            self.check_selectors(pod)?;
        }
        for namespace in NAMESPACES {
            let known = self.namespaces.get(namespace).cloned().unwrap_or_default();
            prop_assert_eq!(self.cluster.namespace_labels(namespace), &Labels::from(&known));
        }
        let names: Vec<&str> = self.cluster.namespaces().map(|(name, _)| &**name).collect();
        prop_assert_eq!(names, self.namespaces.keys().copied().collect::<Vec<_>>());
        [ZONE, HOST].into_iter().try_for_each(|key| self.check_topology(key))
    }

    fn check_query(&self, query: &PodQuery) -> TestCaseResult {
        let mut expected: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        let mut sums = PodSums::default();
        for (_, pod, node) in &self.pods {
            if query.namespaces.contains(&pod.key.namespace) && query.selector.matches(&pod.labels)
            {
                sums.pods += 1;
                sums.requests.add(&pod.requests.placed);
                let (live, terminating) = expected.entry(node).or_default();
                *(if pod.terminating { terminating } else { live }) += 1;
            }
        }
        let counted = self.cluster.matching_pods(query);
        let counted: BTreeMap<&str, (u32, u32)> = (counted.iter())
            .map(|(node, count)| (self.name_of(node), (count.live, count.terminating)))
            .collect();
        prop_assert_eq!(counted, expected, "{:?}", query);
        prop_assert_eq!(self.cluster.requested_by(query), sums, "{:?}", query);
        Ok(())
    }

    fn name_of(&self, node: NodeIx) -> &str {
        self.cluster.node_name(node)
    }

    fn check_terms(&self, incoming: &Pod) -> TestCaseResult {
        let no_labels = BTreeMap::new();
        let namespace = self.namespaces.get(&*incoming.key.namespace).unwrap_or(&no_labels);
        let namespace = Labels::from(namespace);
        let mut expected = HashMap::default();
        for (_, pod, node) in &self.pods {
            for (kind, term) in terms_of(pod) {
                if term.matches(incoming, &namespace) {
                    *expected.entry((kind, term, node.as_str())).or_insert(0_u32) += 1;
                }
            }
        }
        let mut found = HashMap::default();
        for carried in self.cluster.terms_matching(incoming) {
            for (node, count) in carried.carriers.iter() {
                let key = (carried.kind, &*carried.term, self.name_of(node));
                prop_assert_eq!(found.insert(key, count), None, "a term comes twice");
            }
        }
        prop_assert_eq!(found, expected);
        Ok(())
    }

    fn check_selectors(&self, pod: &Pod) -> TestCaseResult {
        let own = |namespace: usize| NAMESPACES[namespace] == &*pod.key.namespace;
        let has = |(key, value): (&String, &String)| pod.labels.get(key) == Some(value);
        let services = self.services.iter().filter(|((namespace, _), _)| own(*namespace));
        let expected: Vec<LabelSelector> = services
            .filter(|(_, set)| set.iter().all(has))
            .map(|(_, set)| LabelSelector::from_set(set))
            .collect();
        let found: Vec<LabelSelector> =
            self.cluster.services_selecting(pod).into_iter().cloned().collect();
        prop_assert_eq!(found, expected);
        let found = self.cluster.controller_selector(pod);
        let expected = pod.controller.as_ref().and_then(|controller| {
            let mut all = self.controllers.iter();
            all.find(|((kind, namespace, number), _)| {
                let same = *kind == controller.kind && *controller.name == format!("c{number}");
                same && own(*namespace)
            })
        });
        prop_assert_eq!(found, expected.map(|((kind, _, _), selector)| (*kind, selector)));
        Ok(())
    }

    fn check_topology(&self, key: &str) -> TestCaseResult {
        let mut domains: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (node, labels) in &self.nodes {
            if let Some(value) = labels.get(key) {
                domains.entry(value).or_default().insert(node);
            }
        }
        let Some(topology) = self.cluster.topology(key) else {
            prop_assert!(domains.is_empty());
            return Ok(());
        };
        let found: BTreeMap<&str, BTreeSet<&str>> = (topology.domains())
            .map(|domain| {
                let nodes = topology.nodes(domain).iter().map(|node| self.name_of(node));
                (&**topology.value(domain), nodes.collect())
            })
            .collect();
        prop_assert_eq!(&found, &domains);
        for node in 0..self.cluster.table_len() {
            let node = NodeIx::new(node);
            let domain = topology.domain_of(node);
            prop_assert!(domain.is_none_or(|domain| domain.index() < topology.len()));
            prop_assert_eq!(domain.is_some(), topology.present().contains(node));
            let value = domain.map(|domain| &**topology.value(domain));
            let labels = self.nodes.get(self.name_of(node));
            prop_assert_eq!(value, labels.and_then(|own| own.get(key)).map(String::as_str));
        }
        Ok(())
    }
}

/// Returns the terms of an existing pod: a category with a malformed term is empty.
fn terms_of(pod: &Pod) -> Vec<(AffinityTermKind, &PodAffinityTerm)> {
    use AffinityTermKind as Kind;
    let mut terms = Vec::new();
    if let Some(near) = &pod.spec.pod_affinity {
        terms.extend(near.required.iter().flatten().map(|term| (Kind::RequiredAffinity, term)));
        terms.extend(
            near.preferred.iter().flatten().map(|weighted| {
                (Kind::PreferredAffinity { weight: weighted.weight }, &weighted.term)
            }),
        );
    }
    if let Some(far) = &pod.spec.pod_anti_affinity {
        terms.extend(far.required.iter().flatten().map(|term| (Kind::RequiredAntiAffinity, term)));
        terms.extend(far.preferred.iter().flatten().map(|weighted| {
            (Kind::PreferredAntiAffinity { weight: weighted.weight }, &weighted.term)
        }));
    }
    terms
}

fn run(steps: Vec<Step>, check_every: usize) -> TestCaseResult {
    let mut world = World::default();
    for (number, step) in steps.into_iter().enumerate() {
        world.take(number, step);
        if number % check_every == 0 {
            world.check()?;
        }
    }
    world.check()?;
    for pick in std::mem::take(&mut world.pods) {
        world.cluster.remove_pod(pick.0);
    }
    world.check()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, ..ProptestConfig::default() })]

    #[test]
    fn counts_equal_a_full_scan_after_each_step(steps in prop::collection::vec(step(), 0..40)) {
        run(steps, 1)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, ..ProptestConfig::default() })]

    #[test]
    fn counts_equal_a_full_scan_after_thousands_of_steps(
        steps in prop::collection::vec(step(), 3_000),
    ) {
        run(steps, 100)?;
    }
}
