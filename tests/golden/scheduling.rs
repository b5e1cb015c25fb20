//! The scheduling areas: one pod, one cluster, every verdict and every score.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{Attempt, AttemptMut, Code, CycleState, Pod, Status};
use serde_json::{Map, Value, json};

use super::compare::{Comparison, Outcome};
use super::setting::{Setting, is_unbuilt};
use super::world::{self, World};
use super::{decision, forms, ranked};

/// The plugin that allocates devices.
const DEVICES: &str = "DynamicResources";

/// Runs a case with every form.
pub(crate) fn run(case: &Value) -> Outcome {
    decide(case).unwrap_or_else(Outcome::failed)
}

fn decide(case: &Value) -> Result<Outcome, String> {
    let setting = Setting::of(case)?;
    let mut world = World::new(&setting);
    world.apply_all(&case["objects"])?;
    let pod = Arc::new(world::pod(&case["pod"])?);
    let mut comparison = Comparison::default();
    let mut decided = Vec::new();
    for &(form, name) in forms(case) {
        let evaluation = world.evaluate(&pod, form, None)?;
        let mut actual = decision::describe(&evaluation, world.cluster());
        add_allocations(case, &pod, &world, &mut actual);
        if evaluation.error.is_some() && !case["expected"]["nodes"].is_null() {
            actual["nodes"] = verdicts_up_to_an_error(&pod, &world);
        }
        comparison.set_prefix(name);
        if !case["expected"].is_null() {
            compare(case, &actual, &setting, &mut comparison);
        }
        decided.push(actual);
    }
    let [set, one_node] = &decided[..] else {
        return Ok(Outcome { actual: decided.swap_remove(0), ..Outcome::default() });
    };
    comparison.set_prefix("the set form, held to the one-node form");
    if set != one_node {
        comparison.equal("", one_node, set);
    }
    comparison.set_prefix("rankings, held to the set form");
    let ranked = ranked::hold(case, &setting, &pod, set, &mut comparison)?;
    Ok(Outcome { ranked, ..comparison.finish(set.clone()) })
}

/// Returns the verdict on each node of an attempt that ends with an error. The engine stops at the
/// first error; the recording has all of them.
fn verdicts_up_to_an_error(pod: &Pod, world: &World) -> Value {
    let (handle, cluster) = (world.handle(), world.cluster());
    let Some(profile) = world.engine().profiles().iter().next() else { return Value::Null };
    let mut state = CycleState::new();
    let mut skipped = BTreeSet::new();
    for plugin in &profile.pre_filter {
        if plugin
            .plugin
            .pre_filter(AttemptMut::new(&mut state, pod, &handle))
            .is_err_and(|status| status.is_skip())
        {
            skipped.insert(plugin.name.clone());
        }
    }
    let verdict = |node| {
        let filters = profile.filter.iter().filter(|plugin| !skipped.contains(&plugin.name));
        let failed = filters.map(|plugin| {
            let status =
                plugin.plugin.filter(&Attempt::new(&state, pod, &handle), &cluster.node(node));
            let text = format!("running {:?} filter plugin: {}", plugin.name, status.message());
            let is_error = status.code() == Code::Error;
            if is_error { Status::error(text) } else { status }.by(&plugin.name)
        });
        let mut failed = failed.filter(|status| !status.is_success());
        decision::verdict(&failed.next().unwrap_or_default())
    };
    let nodes = cluster.nodes().iter();
    nodes
        .map(|node| (cluster.node_name(node).to_string(), verdict(node)))
        .collect::<Map<_, _>>()
        .into()
}

/// Adds the devices that each feasible node would get, if the recording has them.
fn add_allocations(case: &Value, pod: &Pod, world: &World, actual: &mut Value) {
    let Some(recorded) = case["expected"]["allocations"].as_object() else { return };
    let mut found = Map::new();
    for name in recorded.keys() {
        found.insert(name.clone(), allocations(pod, name, world));
    }
    actual["allocations"] = found.into();
}

/// Returns the devices that Reserve of DynamicResources allocates on a node, by claim.
fn allocations(pod: &Pod, node: &str, world: &World) -> Value {
    let handle = world.handle();
    let Some(profile) = world.engine().profiles().iter().next() else { return Value::Null };
    let Some(plugin) = profile.plugins.get(DEVICES) else { return Value::Null };
    let (Some(pre_filter), Some(reserve)) = (&plugin.pre_filter, &plugin.reserve) else {
        return Value::Null;
    };
    let mut state = CycleState::new();
    if let Err(status) = pre_filter.pre_filter(AttemptMut::new(&mut state, pod, &handle)) {
        return status.message().into();
    }
    let status = reserve.reserve(AttemptMut::new(&mut state, pod, &handle), node);
    let mut found = plugins::dynamic_resources::reserved_allocations(&state);
    reserve.unreserve(AttemptMut::new(&mut state, pod, &handle), node);
    handle.commands.take();
    for result in found.values_mut().filter_map(|claim| claim["devices"]["results"].as_array_mut())
    {
        for share in result.iter_mut().filter_map(|result| result.get_mut("shareID")) {
            *share = "<random>".into();
        }
    }
    if status.is_success() { found.into() } else { status.message().into() }
}

/// Compares every entry that built plugins decide.
fn compare(case: &Value, actual: &Value, setting: &Setting, comparison: &mut Comparison) {
    let expected = &case["expected"];
    let nominated = case["pod"]["status"]["nominatedNodeName"].as_str();
    let mut held =
        Held { expected, actual, nominated, setting, deferred: BTreeMap::new(), comparison };
    held.equal("allocations", &expected["allocations"], &actual["allocations"]);
    if held.pre_filter() {
        held.nodes();
        held.feasible();
        held.preemption();
    }
}

/// The comparison of one decision.
struct Held<'a> {
    expected: &'a Value,
    actual: &'a Value,
    /// The nominated node.
    nominated: Option<&'a str>,
    setting: &'a Setting,
    /// Nodes that a plugin rejected that is not built, with that plugin.
    deferred: BTreeMap<&'a str, &'a str>,
    comparison: &'a mut Comparison,
}

/// Compares the entries that depend on the feasible nodes.
const OUTCOME: [&str; 7] =
    ["feasible", "scores", "rawScores", "best", "unschedulablePlugins", "message", "error"];

impl<'a> Held<'a> {
    /// Returns whether there are verdicts to compare.
    fn pre_filter(&mut self) -> bool {
        let (expected, actual) = (&self.expected["preFilter"], &self.actual["preFilter"]);
        match expected["plugin"].as_str() {
            Some(plugin) if is_unbuilt(plugin) => {
                self.defer_outcome(&BTreeSet::from([plugin]));
                for entry in ["nodes", "preemption", "fullMessage"] {
                    self.comparison.defer_entry(&[entry], [plugin]);
                }
                false
            }
            _ => {
                self.equal("preFilter", &normal(expected), &normal(actual));
                expected.is_null() == actual.is_null()
            }
        }
    }

    fn nodes(&mut self) {
        let (expected, actual) = (&self.expected["nodes"], &self.actual["nodes"]);
        let (recorded, computed) = (fields(expected), fields(actual));
        let names: BTreeSet<&'a String> =
            recorded.into_iter().chain(computed).flat_map(Map::keys).collect();
        for name in names {
            let (expected, actual) = (&expected[name], &actual[name]);
            match expected["plugin"].as_str().filter(|plugin| is_unbuilt(plugin)) {
                Some(plugin) => self.deferred_node(name, plugin, actual),
                None => self.equal(&format!("nodes.{name}"), &normal(expected), &normal(actual)),
            }
        }
    }

    /// A plugin that is not built rejects the node, so the plugins before it must accept it.
    fn deferred_node(&mut self, name: &'a str, plugin: &'a str, actual: &Value) {
        self.deferred.insert(name, plugin);
        self.comparison.defer_entry(&["nodes", name], [plugin]);
        let later =
            actual["plugin"].as_str().is_some_and(|by| self.setting.filters_later(by, plugin));
        if actual["code"] != "Success" && !later {
            let expected = json!(format!("Success, or the verdict of a plugin behind {plugin}"));
            self.comparison.difference(&format!("nodes.{name}"), expected, actual.clone());
        }
    }

    fn feasible(&mut self) {
        let (expected, actual) = (self.expected, self.actual);
        let plugins: BTreeSet<&str> = self.deferred.values().copied().collect();
        let failed = !expected["error"].is_null() && !plugins.is_empty();
        let nominated = self.nominated.is_some_and(|node| self.deferred.contains_key(node));
        if failed || nominated {
            self.defer_outcome(&plugins);
            return;
        }
        let surplus = self.surplus();
        if surplus.is_empty() {
            self.equal("feasible", &expected["feasible"], &actual["feasible"]);
            self.equal("error", &expected["error"], &actual["error"]);
            if expected["feasible"] == actual["feasible"] {
                self.scores();
            }
        } else {
            let mut without = actual["feasible"].clone();
            if let Some(names) = without.as_array_mut() {
                names.retain(|name| !surplus.contains(name.as_str().unwrap_or_default()));
            }
            self.equal("feasible without deferred nodes", &expected["feasible"], &without);
            for entry in ["feasible", "scores", "rawScores", "best"] {
                self.comparison.defer_entry(&[entry], plugins.iter().copied());
            }
        }
        self.texts(&plugins);
    }

    /// Returns the feasible nodes that a plugin would reject that is not built.
    fn surplus(&self) -> BTreeSet<&'a str> {
        let feasible = self.actual["feasible"].as_array().into_iter().flatten();
        let names = feasible.filter_map(Value::as_str);
        names.filter(|name| self.deferred.contains_key(name)).collect()
    }

    /// Over equal nodes, the scores of built plugins do not depend on other plugins.
    fn scores(&mut self) {
        let (expected, actual) = (self.expected, self.actual);
        let mut extra: BTreeMap<&str, BTreeMap<&str, i64>> = BTreeMap::new();
        for (node, scores) in fields(&expected["scores"]).into_iter().flatten() {
            for (plugin, score) in fields(scores).into_iter().flatten() {
                if is_unbuilt(plugin) {
                    self.comparison.defer(plugin);
                    extra.entry(plugin).or_default().insert(node, score.as_i64().unwrap_or(0));
                }
            }
        }
        let scores = without_unbuilt(&expected["scores"], &extra);
        self.equal("scores", &scores, &actual["scores"]);
        let raw = without_unbuilt(&expected["rawScores"], &BTreeMap::new());
        self.equal("rawScores", &raw, &actual["rawScores"]);
        for (plugin, scores) in &extra {
            for (node, _) in scores.iter().filter(|(_, score)| **score != 0) {
                self.comparison.defer_entry(&["scores", node, "total"], [*plugin]);
            }
        }
        let tips =
            |scores: &BTreeMap<&str, i64>| scores.values().collect::<BTreeSet<_>>().len() > 1;
        let tipping: Vec<&str> =
            extra.iter().filter(|(_, scores)| tips(scores)).map(|(plugin, _)| *plugin).collect();
        match tipping.is_empty() {
            true => self.equal("best", &expected["best"], &actual["best"]),
            false => self.comparison.defer_entry(&["best"], tipping),
        }
    }

    /// The texts count the verdicts of all nodes.
    fn texts(&mut self, plugins: &BTreeSet<&str>) {
        let (expected, actual) = (self.expected, self.actual);
        if plugins.is_empty() {
            for entry in ["unschedulablePlugins", "message"] {
                self.equal(entry, &expected[entry], &actual[entry]);
            }
            return;
        }
        for entry in ["unschedulablePlugins", "message"] {
            self.comparison.defer_entry(&[entry], plugins.iter().copied());
        }
    }

    /// Compares the result of PostFilter, if built plugins decide it.
    fn preemption(&mut self) {
        let (expected, actual) = (&self.expected["preemption"], self.actual);
        let plugins: BTreeSet<&str> = self.deferred.values().copied().collect();
        if !plugins.is_empty() {
            for entry in ["preemption", "fullMessage"] {
                self.comparison.defer_entry(&[entry], plugins.iter().copied());
            }
            return;
        }
        let expected = settle_tie(expected, &actual["preemption"]);
        self.equal("preemption", &expected, &actual["preemption"]);
        self.equal("fullMessage", &self.expected["fullMessage"], &actual["fullMessage"]);
    }

    fn defer_outcome(&mut self, plugins: &BTreeSet<&str>) {
        for entry in OUTCOME {
            self.comparison.defer_entry(&[entry], plugins.iter().copied());
        }
    }

    fn equal(&mut self, path: &str, expected: &Value, actual: &Value) {
        self.comparison.equal(path, expected, actual);
    }
}

/// Returns the recording with, of several equally good nominations, the computed one.
fn settle_tie(recorded: &Value, actual: &Value) -> Value {
    let mut expected = recorded.clone();
    let Some(fields) = expected.as_object_mut() else { return expected };
    let acceptable = fields.remove("acceptableNominations").unwrap_or_default();
    let nominated = &actual["nominated"];
    if acceptable.as_array().is_some_and(|nodes| nodes.contains(nominated)) {
        let node = nominated.as_str().unwrap_or_default();
        fields.insert("victims".to_owned(), recorded["candidates"][node]["victims"].clone());
        fields.insert("nominated".to_owned(), nominated.clone());
    }
    expected
}

/// Returns a verdict with sorted reasons.
fn normal(verdict: &Value) -> Value {
    let mut verdict = verdict.clone();
    if let Some(reasons) = verdict.get_mut("reasons").and_then(Value::as_array_mut) {
        reasons.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    }
    verdict
}

/// Returns the scores by node and plugin without plugins that are not built; `extra` is subtracted
/// from the totals.
fn without_unbuilt(scores: &Value, extra: &BTreeMap<&str, BTreeMap<&str, i64>>) -> Value {
    let mut scores = scores.clone();
    let Some(nodes) = scores.as_object_mut() else { return scores };
    for (node, scores) in nodes.iter_mut() {
        let Some(scores) = scores.as_object_mut() else { continue };
        scores.retain(|plugin, _| !is_unbuilt(plugin));
        let of_node = extra.values().filter_map(|scores| scores.get(node.as_str()));
        if let Some(total) = scores.get_mut("total") {
            *total = json!(total.as_i64().unwrap_or(0) - of_node.sum::<i64>());
        }
    }
    nodes.retain(|_, scores| scores.as_object().is_none_or(|scores| !scores.is_empty()));
    if nodes.is_empty() { Value::Null } else { scores }
}

fn fields(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object()
}
