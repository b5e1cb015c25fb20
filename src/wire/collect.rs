//! Classifies objects, and collects nodes and pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use engine::profile::Profiles;
use framework::{
    EventResource, Extra, ExtraFields, Node, Pod, PodClaimSource, PodKey, PodVolumeSource, Problem,
    Time, Uid, api,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::absent_kinds::{self, DUMP};
use super::admission::{Admission, Admitted, admit_claims};
use super::defaults::{self, DEFAULT_NAMESPACE};
use super::doubts::{Doubts, Validation};
use super::kinds::needed_kinds;
use super::objects::{Found, Object, Stray};
use super::plurals::Plurals;
use super::watched_object::{self, NAME_LABEL, Unreadable, WatchedObject};
use super::whole::Whole;
use super::workloads;
use super::{Fault, Faults, Location};
use super::{known_kinds, label_keys};

/// Number of names that a warning lists.
const NAMED: usize = 3;

/// The content of the input.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Nodes, in the order of the input.
    pub nodes: Vec<Node>,
    /// Nodes as they were read, by name, if they are [wanted whole](Wanted::with_whole).
    pub read_nodes: BTreeMap<Arc<str>, Arc<RawValue>>,
    /// Pods that have not ended, in the order of the input.
    pub pods: Vec<PodObject>,
    /// Number of pods that have ended (`Succeeded` or `Failed`); they are left out.
    pub ended: usize,
    /// Objects of kinds that a plugin reads, in the order of the input.
    pub objects: Vec<WatchedObject>,
    /// ResourceClaimTemplates, if a plugin reads claims; a controller would make claims from them.
    pub claim_templates: Vec<Value>,
    /// Workloads, from which controllers would make pods, in the order of the input.
    pub workloads: Vec<Box<RawValue>>,
    /// Number of objects of every other kind.
    pub others: BTreeMap<String, usize>,
    /// Files of folders that are left out because they cannot be parsed, and workloads without a
    /// name. They may hold anything.
    pub unreadable: Vec<Fault>,
    /// Pods that are left out because an API server would refuse them, with the reason.
    pub refused: BTreeMap<PodKey, String>,
    /// Warnings about input that is usable but probably a mistake.
    pub warnings: Vec<String>,
}

/// Fields and kinds that plugins read in addition to the built-in ones.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    fields: ExtraFields,
    whole: Whole,
    /// By name, `<plural>.<version>[.<group>]`.
    kinds: BTreeMap<Arc<str>, EventResource>,
}

impl Wanted {
    /// Returns the fields and kinds that the plugins of these profiles read.
    pub fn of(profiles: &Profiles) -> Self {
        let kinds = needed_kinds(profiles).into_iter();
        Self {
            fields: profiles.extra_fields(),
            whole: Whole::NONE,
            kinds: kinds.map(|(resource, name)| (name, resource)).collect(),
        }
    }

    /// Keeps these objects as they were read, too.
    pub fn with_whole(mut self, whole: Whole) -> Self {
        self.whole = whole;
        self
    }

    /// Whether objects of this kind are wanted.
    pub(super) fn reads(&self, kind: &EventResource) -> bool {
        self.kinds.values().any(|wanted| wanted == kind)
    }

    /// Whether a custom kind of this `apiVersion` is wanted.
    fn has_custom_kind_of(&self, api_version: &str) -> bool {
        let Some((group, version)) = api_version.split_once('/') else { return false };
        let suffix = format!(".{version}.{group}");
        let custom = self.kinds.values().filter_map(|resource| match resource {
            EventResource::Custom(name) => Some(name),
            _ => None,
        });
        custom.into_iter().any(|name| name.ends_with(&suffix))
    }

    /// Returns the names of the kinds that `other` lacks.
    pub fn missing_from<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        let missing = self.kinds.keys().filter(|name| !other.kinds.contains_key(*name));
        missing.map(AsRef::as_ref)
    }

    /// Adds the fields and kinds of `other`.
    pub fn extend(&mut self, other: Self) {
        self.fields.extend(&other.fields);
        self.whole.extend(other.whole);
        self.kinds.extend(other.kinds);
    }
}

/// A pod, and the data for writing it to the output.
#[derive(Debug, Clone)]
pub struct PodObject {
    /// The compact form.
    pub pod: Pod,
    /// The object as it was read; `None` if the pod has a node already, no claims are made from its
    /// templates, and it is not wanted whole.
    pub raw: Option<Arc<RawValue>>,
    /// Time of its creation.
    pub created: Option<Time>,
    /// Its controller.
    pub owner: Option<Owner>,
}

/// The controller of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its kind.
    pub kind: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

impl Owner {
    fn of(owners: &[api::OwnerReference]) -> Option<Self> {
        let owner = owners.iter().find(|owner| owner.controller)?;
        Some(Self { kind: owner.kind.as_str().into(), name: owner.name.as_str().into() })
    }
}

impl PodObject {
    /// Whether the pod is pending.
    pub fn is_pending(&self) -> bool {
        self.pod.node_name.is_none()
    }
}

/// Collects objects one by one.
#[derive(Debug, Clone)]
pub(crate) struct Collector<'a> {
    wanted: &'a Wanted,
    input: Input,
    nodes: Placed<Arc<str>>,
    pods: Placed<PodKey>,
    /// The places of objects of other kinds, by group and kind, namespace and name.
    others: HashMap<(String, String, String), Location>,
    /// The same of the objects of a change.
    changed: HashMap<(String, String, String), Location>,
    /// Number of names that were made after each `generateName`.
    generated: BTreeMap<String, u64>,
    admission: Admission,
    /// Objects that limit the pods of a namespace or a queue, which nothing reads.
    quotas: Vec<String>,
    /// The namespaces of claims that no API server has stored.
    new_claims: BTreeSet<String>,
    strays: Vec<Stray>,
    plurals: Plurals,
    unnamed: Vec<Unnamed>,
    validation: Validation,
    doubts: Doubts,
    /// Number of objects of the input.
    taken: usize,
    /// Whether objects replace others on purpose.
    is_change: bool,
    /// Whether kinds without an object have none in the cluster either.
    is_complete: bool,
    faults: Vec<Fault>,
}

/// An object whose plural a later CustomResourceDefinition may define.
#[derive(Debug, Clone)]
struct Unnamed {
    at: Location,
    version: String,
    kind: String,
    object: Value,
}

/// A pod as it was read.
struct ReadPod {
    pod: Pod,
    problems: Vec<Problem>,
    created: Option<Time>,
    owner: Option<Owner>,
}

/// The index in the result and the source of each object, by name.
type Placed<K> = HashMap<K, (usize, Location)>;

impl<'a> Collector<'a> {
    pub(crate) fn new(wanted: &'a Wanted, validation: Validation) -> Self {
        Self {
            wanted,
            input: Input::default(),
            nodes: Placed::new(),
            pods: Placed::new(),
            others: HashMap::new(),
            changed: HashMap::new(),
            generated: BTreeMap::new(),
            admission: Admission::default(),
            quotas: Vec::new(),
            new_claims: BTreeSet::new(),
            strays: Vec::new(),
            plurals: Plurals::default(),
            unnamed: Vec::new(),
            validation,
            doubts: Doubts::default(),
            taken: 0,
            is_change: false,
            is_complete: false,
            faults: Vec::new(),
        }
    }

    /// Collects changes of what a scheduler knows, which lacks no kind.
    pub(crate) fn of_scheduler(known: Input, wanted: &'a Wanted, validation: Validation) -> Self {
        let mut collector =
            Self { input: known, is_complete: true, ..Self::new(wanted, validation) };
        collector.find_places(&Location::named("the cluster"));
        collector
    }

    /// Records an error.
    pub(crate) fn refuse(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Adds a part of the input.
    pub(super) fn take_found(&mut self, found: Found) {
        match found {
            Found::Object(object) => self.take(object),
            Found::Fault(fault) => self.refuse(fault),
            Found::Stray(stray) => self.strays.push(stray),
        }
    }

    /// Adds an object of the input.
    pub(crate) fn take(&mut self, object: Object) {
        self.taken += 1;
        self.validate(&object);
        let Object { at, api_version, kind, mut value, .. } = object;
        self.make_name(&mut value);
        self.note_identity(&at, &api_version, &kind, &value);
        if dry_run::workloads::is_workload(&value) {
            if text(&value, "name").is_empty() {
                let fault = Fault::new(at, format!("{kind} metadata.name: is missing"));
                self.warn(format!("{fault}; it is left out"));
                return self.input.unreadable.push(fault);
            }
            if let Err(message) = workloads::check(&value, &api_version, &kind) {
                return self.refuse(Fault::new(at, message));
            }
            self.input.workloads.extend(to_raw_value(&value));
        }
        self.add(at, &api_version, &kind, value);
    }

    /// Gives an object with `generateName` its own name, as the API server does.
    fn make_name(&mut self, object: &mut Value) {
        let prefix = text(object, "generateName").to_owned();
        if prefix.is_empty() || !text(object, "name").is_empty() {
            return;
        }
        let number = self.generated.entry(prefix.clone()).or_default();
        object["metadata"]["name"] = dry_run::workloads::name_after(&prefix, *number).into();
        *number += 1;
    }

    /// Warns of an object that is given twice: in the input, or in the change. Nodes and pods of
    /// the input are looked at when they are taken.
    fn note_identity(&mut self, at: &Location, version: &str, kind: &str, object: &Value) {
        let name = text(object, "name");
        let is_own = version == "v1" && ["Node", "Pod"].contains(&kind);
        if name.is_empty() || (is_own && !self.is_change) {
            return;
        }
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let namespace = match text(object, "namespace") {
            "" => DEFAULT_NAMESPACE,
            given => given,
        };
        let key = (format!("{kind}.{group}"), namespace.to_owned(), name.to_owned());
        let seen = if self.is_change { &mut self.changed } else { &mut self.others };
        if let Some(before) = seen.insert(key, at.clone()) {
            let name = match text(object, "namespace") {
                "" => name.to_owned(),
                given => format!("{given}/{name}"),
            };
            self.warn(replaces(at, &before, kind, &name));
        }
    }

    /// Adds the manifests of a change, which replace objects of the same name. What no one reads of
    /// them is an error, unless nothing is validated.
    pub(crate) fn take_changes(&mut self, objects: Vec<Object>) {
        self.is_change = true;
        let doubts = std::mem::take(&mut self.doubts);
        objects.into_iter().for_each(|object| self.take(object));
        let own = std::mem::replace(&mut self.doubts, doubts);
        self.faults.extend(own.faults());
    }

    /// Changes what has been taken.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Input) -> Result<(), Faults>) {
        self.admit_pods();
        if let Err(Faults(mut faults)) = change(&mut self.input) {
            self.faults.append(&mut faults);
        }
        let at = Location::named("the change");
        self.find_places(&at);
    }

    /// Notes the place of every node and pod.
    fn find_places(&mut self, at: &Location) {
        let nodes = self.input.nodes.iter().enumerate();
        self.nodes = nodes.map(|(place, node)| (node.name.clone(), (place, at.clone()))).collect();
        let pods = self.input.pods.iter().enumerate();
        self.pods = pods.map(|(place, own)| (own.pod.key.clone(), (place, at.clone()))).collect();
    }

    fn add(&mut self, at: Location, api_version: &str, kind: &str, value: Value) {
        let taken = match (api_version, kind) {
            ("v1", "Node") => self.take_node(&at, &value),
            ("v1", "Pod") => self.take_pod(&at, value),
            _ => {
                self.take_other(&at, api_version, kind, value);
                Ok(())
            }
        };
        taken.unwrap_or_else(|message| self.refuse(Fault::new(at, message)));
    }

    /// Returns what has been taken, for the controllers that make further objects from it.
    pub(crate) fn input(&self) -> &Input {
        &self.input
    }

    /// Adds objects that controllers made. A claim that the input has stays as it is.
    pub(crate) fn take_made(&mut self, objects: Vec<Value>) {
        let key = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
        let claims = self.input.objects.iter();
        let claims = claims.filter(|own| own.kind == EventResource::PersistentVolumeClaim);
        let claims: BTreeSet<_> = claims.map(|own| key(&own.namespace, &own.name)).collect();
        for value in objects {
            let text =
                |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let [version, kind] = ["/apiVersion", "/kind"].map(|field| text(field).to_owned());
            let is_claim = kind == "PersistentVolumeClaim";
            if is_claim
                && claims.contains(&key(text("/metadata/namespace"), text("/metadata/name")))
            {
                continue;
            }
            self.add(Location::named("workloads"), &version, &kind, value);
        }
    }

    /// Records what no one reads of an object: its kind, or some of its fields.
    fn validate(&mut self, object: &Object) {
        if self.validation == Validation::Ignore {
            return;
        }
        let Object { at, api_version, kind, value, repeated } = object;
        if let Some(doubt) = known_kinds::doubt(api_version, kind) {
            self.doubts.add_kind(at, doubt);
        }
        if !known_kinds::is_read(api_version, kind) {
            return;
        }
        let unknown = yaml::known_fields::unknown(kind, value);
        if unknown.is_empty() && repeated.is_empty() {
            return;
        }
        let name = described(value, kind);
        let unknown = unknown.iter().map(|path| ("unknown", path));
        for (fault, path) in unknown.chain(repeated.iter().map(|path| ("duplicate", path))) {
            self.doubts.add_field(at, kind, &name, fault, path);
        }
    }

    fn take_node(&mut self, at: &Location, value: &Value) -> Result<(), String> {
        let mut object: api::Node = decode(value, "Node")?;
        defaults::complete_node(&mut object, value);
        if object.metadata.name.is_empty() {
            self.warn(format!("{at}: Node: metadata.name: is missing; the node is left out"));
            return Ok(());
        }
        let (mut node, problems) = Node::from_api(&object);
        node.extra = Extra::of(value, &self.wanted.fields.node);
        for problem in problems.into_iter().chain(defaults::faults_of_node(&object, &node)) {
            self.warn(format!("{at}: Node {}: {problem}", node.name));
        }
        let name = node.name.clone();
        if self.wanted.whole.nodes {
            let read = to_raw_value(value).ok().map(Arc::from);
            self.input.read_nodes.extend(read.map(|read| (name.clone(), read)));
        }
        match self.nodes.insert(name.clone(), (self.input.nodes.len(), at.clone())) {
            None => self.input.nodes.push(node),
            Some((index, before)) => {
                if !self.is_change {
                    self.warn(replaces(at, &before, "Node", &name));
                }
                self.input.nodes[index] = node;
                self.nodes.insert(name, (index, at.clone()));
            }
        }
        Ok(())
    }

    fn take_pod(&mut self, at: &Location, raw: Value) -> Result<(), String> {
        let ReadPod { mut pod, problems, created, owner } = self.read_pod(at, &raw)?;
        if pod.terminal {
            self.input.ended += 1;
            return Ok(());
        }
        self.admission.remember(&pod.key, &raw);
        let pending = pod.node_name.is_none();
        if pending {
            pod.replace_problems(problems.into());
        } else {
            for problem in problems {
                self.warn(format!("{at}: Pod {}: {problem}", pod.key));
            }
        }
        let is_kept = pending || has_claim_templates(&pod) || self.wanted.whole.placed_pods;
        let raw = if is_kept { to_raw_value(&raw).ok().map(Arc::from) } else { None };
        self.add_pod(at, PodObject { pod, raw, created, owner });
        Ok(())
    }

    /// Decodes a pod.
    fn read_pod(&self, at: &Location, raw: &Value) -> Result<ReadPod, String> {
        let mut object: api::Pod = decode(raw, "Pod")?;
        let mut problems = defaults::faults_of_pod(&object);
        defaults::complete_pod(&mut object, at);
        label_keys::merge(&mut object);
        let mut pod = Pod::from_api(&object);
        pod.extra = Extra::of_pod(&object, raw, &self.wanted.fields);
        problems.extend(pod.replace_problems(Box::default()));
        problems.extend(defaults::broken_selectors(&pod));
        let created = object.metadata.creation_timestamp.as_deref();
        let created = created.and_then(|text| Time::parse_rfc3339(text).ok());
        let owner = Owner::of(&object.metadata.owner_references);
        Ok(ReadPod { pod, problems, created, owner })
    }

    /// Fills in what admission fills into pods that no API server has admitted, once all classes
    /// are known.
    fn admit_pods(&mut self) {
        if self.admission.is_idle() {
            return;
        }
        for place in 0..self.input.pods.len() {
            let key = self.input.pods[place].pod.key.clone();
            let raw = match self.admission.admitted(&key) {
                None => continue,
                Some(Admitted::Pod(raw)) => raw,
                Some(Admitted::Refused(reason)) => {
                    self.input.refused.insert(key, reason);
                    continue;
                }
            };
            let at = self.pods.get(&key).map_or_else(|| Location::named("-"), |own| own.1.clone());
            match self.read_pod(&at, &raw) {
                Ok(ReadPod { mut pod, problems, .. }) => {
                    if pod.node_name.is_none() {
                        pod.replace_problems(problems.into());
                    }
                    let own = &mut self.input.pods[place];
                    own.pod = pod;
                    if self.wanted.whole.pending_pods && own.raw.is_some() {
                        own.raw = to_raw_value(&raw).ok().map(Arc::from);
                    }
                }
                Err(message) => self.refuse(Fault::new(at, message)),
            }
        }
        let warnings = self.admission.take_warnings();
        self.input.warnings.extend(warnings);
        let Input { pods, refused, .. } = &mut self.input;
        pods.retain(|own| !refused.contains_key(&own.pod.key));
    }

    fn add_pod(&mut self, at: &Location, object: PodObject) {
        let key = object.pod.key.clone();
        match self.pods.insert(key.clone(), (self.input.pods.len(), at.clone())) {
            None => self.input.pods.push(object),
            Some((index, before)) => {
                if !self.is_change {
                    self.warn(replaces(at, &before, "Pod", &key));
                }
                self.input.pods[index] = object;
                self.pods.insert(key, (index, at.clone()));
            }
        }
    }

    fn take_other(&mut self, at: &Location, version: &str, kind: &str, object: Value) {
        if self.admission.take(version, kind, &object) {
            return;
        }
        match (version, kind) {
            ("v1", "PersistentVolumeClaim") if text(&object, "creationTimestamp").is_empty() => {
                let given = Some(text(&object, "namespace")).filter(|own| !own.is_empty());
                self.new_claims.insert(given.unwrap_or(DEFAULT_NAMESPACE).to_owned());
            }
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => self.plurals.learn(&object),
            ("resource.k8s.io/v1", "ResourceClaimTemplate")
                if self.wanted.reads(&EventResource::ResourceClaim) =>
            {
                return self.input.claim_templates.push(object);
            }
            _ => {}
        }
        let name = self.plurals.resource_name(version, kind, &object);
        match name.and_then(|name| self.wanted.kinds.get(name.as_str()).cloned()) {
            Some(resource) => self.add_other(at, &resource, kind, object),
            None if self.wanted.has_custom_kind_of(version) => {
                let (at, version, kind) = (at.clone(), version.to_owned(), kind.to_owned());
                self.unnamed.push(Unnamed { at, version, kind, object });
            }
            None => self.leave_out(kind, &object),
        }
    }

    /// Counts an object that no plugin reads. Workloads count as read, because pods are made from
    /// them.
    fn leave_out(&mut self, kind: &str, object: &Value) {
        if is_quota(kind) {
            let name = [text(object, "namespace"), text(object, "name")].join("/");
            self.quotas.push(format!("{kind} {}", name.trim_start_matches('/')));
        }
        if !dry_run::workloads::is_followed(object) {
            *self.input.others.entry(kind.to_owned()).or_default() += 1;
        }
    }

    fn add_other(&mut self, at: &Location, resource: &EventResource, kind: &str, object: Value) {
        match WatchedObject::read(resource, object) {
            Ok(object) => self.input.objects.push(object),
            Err(Unreadable { message, substitute }) => {
                let taken = self.take_substitute(substitute);
                self.warn(format!("{at}: {kind} {message}; {taken}"));
            }
        }
    }

    /// Adds the substitute of an object that does not decode, unless a version of the object is
    /// known. Returns what is taken of the object.
    fn take_substitute(&mut self, substitute: Option<WatchedObject>) -> &'static str {
        let Some(substitute) = substitute else { return "it is left out" };
        if self.input.objects.iter().any(|own| own.is_version_of(&substitute)) {
            return "the version before it stays";
        }
        self.input.objects.push(substitute);
        "only what it holds or protects counts"
    }

    /// Adds the objects whose plural a later definition has defined.
    fn add_unnamed(&mut self) {
        let mut unknown = BTreeMap::<(String, String), usize>::new();
        for Unnamed { at, version, kind, object } in std::mem::take(&mut self.unnamed) {
            let Some(name) = self.plurals.resource_name(&version, &kind, &object) else {
                self.leave_out(&kind, &object);
                *unknown.entry((version, kind)).or_default() += 1;
                continue;
            };
            match self.wanted.kinds.get(name.as_str()).cloned() {
                Some(resource) => self.add_other(&at, &resource, &kind, object),
                None => self.leave_out(&kind, &object),
            }
        }
        for ((version, kind), number) in unknown {
            self.warn(format!(
                "{} of {version} left out: a plugin reads resources of that version, and only the \
                 CustomResourceDefinition of {kind} says which one it is; add it to the input (kubectl get crd -o yaml)",
                count(number, &kind)
            ));
        }
    }

    fn warn(&mut self, warning: String) {
        self.input.warnings.push(warning);
    }

    /// Returns the result after the last object.
    ///
    /// # Errors
    /// All errors, and doubts if validation is strict.
    pub(crate) fn finish(mut self) -> Result<Input, Faults> {
        self.leave_out_strays();
        let doubts = std::mem::take(&mut self.doubts).faults();
        match self.validation {
            Validation::Strict => self.faults.extend(doubts),
            _ => self.input.warnings.extend(doubts.iter().map(ToString::to_string)),
        }
        if !self.faults.is_empty() {
            return Err(Faults(self.faults));
        }
        self.add_unnamed();
        self.admit_pods();
        if !self.faults.is_empty() {
            return Err(Faults(self.faults));
        }
        admit_claims(&mut self.input.objects);
        self.warn_of_quotas();
        self.make_uids_unique();
        self.warn_of_unknown_nodes();
        if !self.is_complete {
            self.input.warnings.extend(absent_kinds::warnings(&self.input, self.wanted));
        }
        self.add_unseen_namespaces();
        Ok(self.input)
    }

    fn leave_out_strays(&mut self) {
        for stray in std::mem::take(&mut self.strays) {
            if stray.is_unreadable {
                self.input.unreadable.push(stray.fault.clone());
            }
            match self.validation {
                Validation::Strict => self.faults.push(stray.fault),
                Validation::Warn => self.warn(stray.to_string()),
                Validation::Ignore => {}
            }
        }
    }

    /// Returns an error that says what the input has, if that is nothing to schedule and no node.
    pub(crate) fn nothing(&self, source: &str) -> Option<Faults> {
        let input = &self.input;
        if !(input.nodes.is_empty() && input.pods.is_empty() && input.workloads.is_empty()) {
            return None;
        }
        let found = match (self.taken, input.ended) {
            (0, _) => "no object".to_owned(),
            (taken, 0) => format!("no node, pod or workload among {}", count(taken, "object")),
            (_, ended) => format!("no node, and no pod but {ended} that ended"),
        };
        let nothing =
            Fault::new(Location::named(source), format!("{found}; a complete dump: {DUMP}"));
        let strays = self.strays.iter().map(|stray| stray.fault.clone());
        Some(Faults(strays.chain([nothing]).collect()))
    }

    fn warn_of_quotas(&mut self) {
        if !self.quotas.is_empty() {
            let names = some_of(self.quotas.iter().map(String::as_str));
            self.warn(format!("quotas are not read ({names}): pods beyond them count as admitted"));
        }
        let ranges = self.admission.ranges_of_claims(&self.new_claims);
        if !ranges.is_empty() {
            let names = some_of(ranges.iter().map(String::as_str));
            self.warn(format!(
                "LimitRanges are not read for claims ({names}): claims beyond them count as admitted"
            ));
        }
    }

    /// Every pod has a namespace, but not every dump contains it.
    fn add_unseen_namespaces(&mut self) {
        if !self.wanted.reads(&EventResource::Namespace) {
            return;
        }
        let mut pods = self.input.pods.iter().map(|object| &object.pod);
        let unseen = watched_object::unseen_namespaces(pods.clone(), &self.input.objects);
        if !unseen.is_empty() && pods.any(watched_object::selects_namespaces) {
            self.warn(format!(
                "namespaces of pods are not in the input ({}): of their labels only {NAME_LABEL} \
                 is known",
                some_of(unseen.iter().map(AsRef::as_ref))
            ));
        }
        self.input.objects.extend(unseen.into_iter().filter_map(WatchedObject::namespace));
    }

    /// Copied manifests may repeat the uid of another pod; a uid must belong to one pod only.
    fn make_uids_unique(&mut self) {
        let mut owners: HashMap<Uid, PodKey> = HashMap::new();
        for PodObject { pod, .. } in &mut self.input.pods {
            if let Some(owner) = owners.get(&pod.uid) {
                self.input.warnings.push(format!(
                    "Pod {}: metadata.uid: is that of {owner}; another one is made up",
                    pod.key
                ));
                pod.uid = defaults::made_up_uid(&pod.key);
            }
            owners.insert(pod.uid.clone(), pod.key.clone());
        }
    }

    fn warn_of_unknown_nodes(&mut self) {
        let of_pod = |object: &PodObject| object.pod.node_name.clone();
        let on_unknown: Vec<Arc<str>> = self.input.pods.iter().filter_map(of_pod).collect();
        let on_unknown: Vec<&str> =
            on_unknown.iter().map(AsRef::as_ref).filter(|n| !self.nodes.contains_key(*n)).collect();
        let unknown: BTreeSet<&str> = on_unknown.iter().copied().collect();
        if !unknown.is_empty() {
            let warning = format!(
                "{} run on nodes that are not in the input ({}): they count nowhere",
                count(on_unknown.len(), "pod"),
                some_of(unknown.into_iter())
            );
            self.warn(warning);
        }
    }
}

/// Whether objects of this kind limit the resources of pods.
fn is_quota(kind: &str) -> bool {
    kind.ends_with("Quota") || ["ClusterQueue", "Queue"].contains(&kind)
}

/// Returns a text of the metadata; an absent one is empty.
fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Whether controllers make claims for the pod, from templates that only the object has.
fn has_claim_templates(pod: &Pod) -> bool {
    let mut volumes = pod.spec.volumes.iter();
    let mut claims = pod.spec.resource_claims.iter();
    volumes.any(|own| own.source == PodVolumeSource::Ephemeral)
        || claims.any(|own| own.source == PodClaimSource::Template)
}

/// Formats a number with its noun.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Formats the first few names and the number of the others.
pub(crate) fn some_of<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let first = names.take(NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

fn replaces(at: &Location, before: &Location, kind: &str, name: &impl std::fmt::Display) -> String {
    format!("{at}: {kind} {name} is given twice; it replaces the one in {before}")
}

/// Decodes an object; the error names it and the field.
pub(super) fn decode<T: DeserializeOwned>(value: &Value, kind: &str) -> Result<T, String> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| format!("{}: {}: {}", described(value, kind), error.path(), error.inner()))
}

/// Returns kind and name of an object.
fn described(value: &Value, kind: &str) -> String {
    let text = |field: &str| value["metadata"][field].as_str();
    match (text("namespace"), text("name")) {
        (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
        (None, Some(name)) => format!("{kind} {name}"),
        (_, None) => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::{self, Gates};
    use crate::wire::unrolled;

    fn collect(objects: impl IntoIterator<Item = Value>) -> Result<Input, Faults> {
        let profiles = config::defaults(&Gates::default()).build_profiles(&plugins::registry());
        let wanted = Wanted::of(&profiles.unwrap());
        let mut collector = Collector::new(&wanted, Validation::Warn);
        for object in objects.into_iter().flat_map(unrolled) {
            match object {
                Ok(object) => collector.take(object),
                Err(fault) => collector.refuse(fault),
            }
        }
        collector.finish()
    }

    fn pod(name: &str, uid: &str, node: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "uid": uid},
            "spec": {"nodeName": node, "containers": [{"name": "c"}]},
        })
    }

    #[test]
    fn kinds_of_other_groups_are_distinguished() {
        let mut metrics = pod("a", "", "");
        metrics["apiVersion"] = "example.com/v1".into();
        let input = collect([metrics]).unwrap();
        assert_eq!((input.pods.len(), input.others["Pod"]), (0, 1));
    }

    #[test]
    fn definition_further_down_names_the_plural() {
        let kind = EventResource::Custom("chassis.v1.example.com".into());
        let kinds = [("chassis.v1.example.com".into(), kind.clone())].into();
        let wanted = Wanted { kinds, ..Wanted::default() };
        let object = |kind: &str| json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "a"}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "chassis.example.com"},
            "spec": {"group": "example.com", "names": {"kind": "Chassis", "plural": "chassis"}},
        });
        let mut collector = Collector::new(&wanted, Validation::Warn);
        for object in [object("Chassis"), object("Rack"), definition].into_iter().flat_map(unrolled)
        {
            collector.take(object.unwrap());
        }
        let input = collector.finish().unwrap();
        assert_eq!(input.objects.len(), 1);
        assert_eq!((input.others["Rack"], input.others.get("Chassis")), (1, None));
        let [warning] = &input.warnings[..] else { panic!("{:?}", input.warnings) };
        let expected = "1 Rack of example.com/v1 left out: ";
        assert!(warning.starts_with(expected), "no plural is guessed: {warning}");
    }

    #[test]
    fn undecodable_object_is_named_and_a_claim_keeps_its_devices() {
        let mut claim = object("resource.k8s.io/v1", "ResourceClaim", "a", "c");
        let device = json!({"driver": "d", "pool": "p", "device": "x"});
        claim["status"] = json!({"allocation": {"devices": {"results": {"all": [device]}}}});
        let mut namespace = object("v1", "Namespace", "", "a");
        namespace["metadata"]["labels"] = json!(7);
        let input = collect([claim, namespace]).unwrap();
        let has = |parts: [&str; 2]| {
            let mut warnings = input.warnings.iter();
            warnings.any(|warning| parts.iter().all(|part| warning.contains(part)))
        };
        let warnings = &input.warnings;
        assert!(
            has(["ResourceClaim a/c: status.allocation.", "only what it holds"]),
            "{warnings:?}"
        );
        assert!(has(["Namespace a: metadata.labels: ", "it is left out"]), "{warnings:?}");
        let claims = input.objects.iter().filter(|own| own.kind == EventResource::ResourceClaim);
        let held: Vec<_> = claims
            .map(|own| own.value()["status"]["allocation"]["devices"]["results"][0].clone())
            .collect();
        assert_eq!(held.len(), 1);
        assert_eq!(held[0]["device"], "x");
    }

    #[test]
    fn repeated_uid_is_replaced() {
        let input = collect([pod("a", "7", ""), pod("b", "7", "")]).unwrap();
        assert_eq!(input.pods[1].pod.uid.to_string(), "default/b");
        assert_eq!(input.warnings.len(), 1);
    }

    #[test]
    fn pods_on_missing_nodes_cause_one_warning() {
        let pods = ["a", "b", "c", "d", "e"].map(|name| pod(name, "", &format!("gone-{name}")));
        let input = collect(pods).unwrap();
        let expected = "5 pods run on nodes that are not in the input (gone-a, gone-b, gone-c and \
                        2 more): they count nowhere";
        assert_eq!(input.warnings, [expected]);
    }

    fn object(version: &str, kind: &str, namespace: &str, name: &str) -> Value {
        let metadata = json!({"namespace": namespace, "name": name});
        json!({"apiVersion": version, "kind": kind, "metadata": metadata})
    }

    #[test]
    fn objects_that_plugins_read_are_kept_with_their_namespaces() {
        let namespaced = [
            ("v1", "Service", EventResource::Service),
            ("v1", "ReplicationController", EventResource::ReplicationController),
            ("apps/v1", "ReplicaSet", EventResource::ReplicaSet),
            ("apps/v1", "StatefulSet", EventResource::StatefulSet),
        ];
        for (version, kind, resource) in namespaced {
            let both = ["", "shop"].map(|namespace| object(version, kind, namespace, "a"));
            let input = collect(both).unwrap();
            assert!(input.objects.iter().all(|object| object.kind == resource), "{kind}");
            let found = input.objects.iter().map(|object| &*object.namespace);
            assert_eq!(found.collect::<Vec<_>>(), ["default", "shop"], "{kind}");
        }
        let others = [object("v1", "ConfigMap", "", "a"), object("v1", "ReplicaSet", "", "a")];
        let input = collect(others).unwrap();
        assert_eq!((input.objects.len(), input.others.len()), (0, 2), "another group or kind");
    }

    #[test]
    fn every_namespace_has_its_name_as_a_label() {
        let mut labelled = object("v1", "Namespace", "", "shop");
        labelled["metadata"]["labels"] = json!({"team": "a"});
        let input = collect([labelled, pod("a", "", "")]).unwrap();
        let told = |object: &WatchedObject| object.value()["metadata"].to_string();
        let found: Vec<String> = input.objects.iter().map(told).collect();
        let mut expected =
            ["shop", "default"].map(|name| json!({"name": name, "labels": {NAME_LABEL: name}}));
        expected[0]["labels"]["team"] = "a".into();
        assert_eq!(found, expected.map(|metadata| metadata.to_string()));
        assert!(input.warnings.is_empty(), "nobody asks for labels: {:?}", input.warnings);
    }

    #[test]
    fn missing_namespace_causes_a_warning_if_its_labels_matter() {
        let mut asking = pod("a", "", "");
        let term = json!({"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"a": "b"}}});
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        asking["spec"]["affinity"] = json!({"podAffinity": required});
        let expected = "namespaces of pods are not in the input (default): of their labels only \
                        kubernetes.io/metadata.name is known";
        assert_eq!(collect([asking]).unwrap().warnings, [expected]);
    }

    #[test]
    fn unusable_objects_are_left_out_with_a_warning() {
        let mut odd = object("v1", "Service", "shop", "web");
        odd["spec"] = json!({"selector": ["a"]});
        let nameless = object("apps/v1", "ReplicaSet", "shop", "");
        let input =
            collect([odd, nameless, json!({"apiVersion": "v1", "kind": "Namespace"})]).unwrap();
        assert!(input.objects.is_empty());
        let starts = [
            "Service shop/web: spec.selector: ",
            "ReplicaSet metadata.name: is missing",
            "Namespace metadata.name: is missing",
        ];
        for (warning, start) in input.warnings.iter().zip(starts) {
            assert!(warning.contains(start) && warning.ends_with("; it is left out"), "{warning}");
        }
        assert_eq!(input.warnings.len(), 3);
    }
}
