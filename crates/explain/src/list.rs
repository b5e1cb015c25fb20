//! Lists of pods and groups, and names that contain a text.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{NodeIx, Pod};

use crate::answer::{GroupRow, GroupsAnswer, NamesAnswer, PodRow, PodsAnswer};
use crate::group::{group_of, waiting};
use crate::lab::Lab;
use crate::node::requests;
use crate::now::NOW;

/// Which rows a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Words that a row contains, in any case, separated by spaces.
    pub words: String,
    /// Leaves out pods with a node, and groups of which no pod waits.
    pub pending: bool,
    /// Maximum number of rows.
    pub limit: usize,
}

impl Filter {
    /// Whether one of the texts of a row contains each word.
    pub(crate) fn selects(&self, texts: &[&str]) -> bool {
        let mut words = self.words.split_whitespace();
        words.all(|word| texts.iter().any(|text| contains(text, word)))
    }
}

/// Whether a text contains a word of ASCII in any case, without an allocation for each of many
/// pods.
fn contains(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

/// Lists pods: waiting ones first, then the others, by name.
pub fn list_pods(lab: &Lab<'_>, filter: &Filter) -> PodsAnswer {
    let cluster = lab.cluster();
    let mut waiting = waiting(lab);
    waiting.sort_by(|a, b| a.key.cmp(&b.key));
    let waiting = waiting.into_iter().map(|pod| (pod, None));
    let mut placed: Vec<(Arc<Pod>, Option<NodeIx>)> = match filter.pending {
        true => Vec::new(),
        false => cluster.pods().map(|own| (own.pod.clone(), Some(own.node))).collect(),
    };
    placed.sort_by(|(a, _), (b, _)| a.key.cmp(&b.key));
    let mut answer = PodsAnswer { as_of: NOW.to_owned(), ..PodsAnswer::default() };
    for (pod, node) in waiting.chain(placed) {
        answer.total += 1;
        let node = node.map_or("", |node| cluster.node_name(node));
        let key = &pod.key;
        let group = group_of(&pod).map(|(_, name)| name);
        if !filter.selects(&[&key.namespace, &key.name, node, group.as_deref().unwrap_or_default()])
        {
            continue;
        }
        answer.matching += 1;
        if answer.pods.len() < filter.limit {
            answer.pods.push(row(&pod, node));
        }
    }
    answer
}

fn row(pod: &Pod, node: &str) -> PodRow {
    PodRow {
        namespace: pod.key.namespace.to_string(),
        name: pod.key.name.to_string(),
        node: Some(node.to_owned()).filter(|node| !node.is_empty()),
        group: group_of(pod).map(|(_, name)| name),
        priority: pod.priority(),
        requests: requests(pod),
    }
}

/// Lists the controllers of pods: those with the most waiting pods first.
pub fn list_groups(lab: &Lab<'_>, filter: &Filter) -> GroupsAnswer {
    let mut groups: BTreeMap<(String, String, String), (usize, usize)> = BTreeMap::new();
    let mut count = |pod: &Pod, is_placed: bool| {
        let Some((kind, name)) = group_of(pod) else { return };
        let group = groups.entry((pod.key.namespace.to_string(), kind, name)).or_default();
        group.0 += 1;
        group.1 += usize::from(is_placed);
    };
    waiting(lab).iter().for_each(|pod| count(pod, false));
    lab.cluster().pods().for_each(|placed| count(&placed.pod, true));
    let total = groups.len();
    let selected = groups.into_iter().filter(|((namespace, kind, name), (pods, placed))| {
        filter.selects(&[namespace, kind, name]) && (!filter.pending || placed < pods)
    });
    let mut groups: Vec<GroupRow> = selected
        .map(|((namespace, kind, name), (pods, placed))| GroupRow {
            namespace,
            kind,
            name,
            pods,
            placed,
        })
        .collect();
    groups.sort_by_key(|own| Reverse(own.pods - own.placed));
    let matching = groups.len();
    groups.truncate(filter.limit);
    GroupsAnswer { as_of: NOW.to_owned(), total, matching, groups }
}

/// Returns names of pods, nodes and groups that contain the words, a few of each. Waiting pods come
/// first.
pub fn find_names(lab: &Lab<'_>, filter: &Filter) -> NamesAnswer {
    let cluster = lab.cluster();
    let name = |node: NodeIx| cluster.node_name(node).to_string();
    let nodes = cluster.nodes().iter().map(name);
    let mut nodes: Vec<String> = nodes.filter(|name| filter.selects(&[name])).collect();
    nodes.sort_unstable();
    nodes.truncate(filter.limit);
    let waiting = waiting(lab);
    let placed = cluster.pods().map(|placed| &placed.pod);
    let selected = waiting.iter().chain(placed).map(|pod| &pod.key);
    let selected = selected.filter(|key| filter.selects(&[&key.namespace, &key.name]));
    let pods = selected.take(filter.limit).map(ToString::to_string).collect();
    let groups = list_groups(lab, filter).groups;
    let groups = groups.into_iter().map(|own| format!("{}/{}", own.namespace, own.name)).collect();
    NamesAnswer { as_of: NOW.to_owned(), pods, nodes, groups }
}
