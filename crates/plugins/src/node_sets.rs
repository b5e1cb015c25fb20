//! Node selectors in set form. Labels are looked up once per value, not once per node.

use std::collections::BTreeSet;

use framework::{
    Cluster, FieldOperator, FieldRequirement, LabelSelector, NodeBits, NodeIx, NodeSelector,
    NodeSelectorTerm, Operator, Posting, RequiredNodeAffinity, Requirement,
};

/// Adds amounts for sets of nodes to the sums of listed nodes.
pub(crate) struct NodeSums<'a> {
    nodes: &'a [NodeIx],
    /// The sum of `nodes[i]` is `sums[i]`.
    sums: &'a mut [i64],
    is_sorted: bool,
}

impl<'a> NodeSums<'a> {
    /// Sets all sums to 0.
    pub(crate) fn new(nodes: &'a [NodeIx], sums: &'a mut [i64]) -> Self {
        sums.fill(0);
        // The processor compares several nodes at once.
        let descents = nodes.iter().zip(nodes.iter().skip(1)).filter(|(one, next)| one > next);
        Self { nodes, sums, is_sorted: descents.count() == 0 }
    }

    /// Adds an amount for each listed node in a set.
    pub(crate) fn add(&mut self, set: &Posting, amount: i64) {
        if !self.is_sorted {
            return self.add_if(|node| set.contains(node), amount);
        }
        set.for_each_of(self.nodes, |place| {
            self.sums[place] = self.sums[place].saturating_add(amount);
        });
    }

    /// Adds an amount for each listed node in a set.
    pub(crate) fn add_if(&mut self, is_in_set: impl Fn(NodeIx) -> bool, amount: i64) {
        for (node, sum) in self.nodes.iter().zip(&mut *self.sums) {
            if is_in_set(*node) {
                *sum = sum.saturating_add(amount);
            }
        }
    }
}

/// Retains the nodes on which a pod that requires `affinity` may run.
pub(crate) fn retain_required(
    affinity: &RequiredNodeAffinity,
    cluster: &Cluster,
    nodes: &mut NodeBits,
) {
    if let Some(labels) = affinity.labels() {
        retain_labelled(labels, cluster, nodes);
    }
    if let Some(selector) = affinity.selector() {
        retain_selected(selector, cluster, nodes);
    }
}

/// Retains the nodes whose labels meet all requirements of some term. Field requirements are
/// ignored.
pub(crate) fn retain_any_term<'a>(
    terms: impl IntoIterator<Item = &'a [Requirement]>,
    cluster: &Cluster,
    nodes: &mut NodeBits,
) {
    let mut met = NodeBits::with_len(cluster.table_len());
    let mut matched = NodeBits::default();
    for term in terms {
        matched.copy_from(nodes);
        term.iter().for_each(|own| retain_meeting(own, cluster, &mut matched));
        met.union(&matched);
    }
    nodes.intersect(&met);
}

/// Adds the nodes whose labels match `selector`.
pub(crate) fn union_labelled(selector: &LabelSelector, cluster: &Cluster, nodes: &mut NodeBits) {
    match selector.requirements() {
        // A single `Equals` or `In` requirement is the most frequent node selector. Its set of
        // nodes is small.
        Some([own]) if matches!(own.operator(), Operator::Equals | Operator::In) => {
            let values = own.values().iter();
            let labelled = values.filter_map(|value| cluster.with_label(own.key(), value));
            labelled.for_each(|labelled| labelled.union_into(nodes));
        }
        _ => {
            let mut matched = cluster.nodes().clone();
            retain_labelled(selector, cluster, &mut matched);
            nodes.union(&matched);
        }
    }
}

/// Retains the nodes whose labels match `selector`.
fn retain_labelled(selector: &LabelSelector, cluster: &Cluster, nodes: &mut NodeBits) {
    match selector.requirements() {
        Some(requirements) => {
            requirements.iter().for_each(|own| retain_meeting(own, cluster, nodes));
        }
        None => nodes.clear(),
    }
}

/// Retains the nodes that match some valid term of `selector`.
pub(crate) fn retain_selected(selector: &NodeSelector, cluster: &Cluster, nodes: &mut NodeBits) {
    let mut selected = NodeBits::with_len(cluster.table_len());
    let mut matched = NodeBits::default();
    for term in selector.terms().iter().flatten() {
        matched.copy_from(nodes);
        retain_matching(term, cluster, &mut matched);
        selected.union(&matched);
    }
    nodes.intersect(&selected);
}

/// Retains the nodes that match `term`.
pub(crate) fn retain_matching(term: &NodeSelectorTerm, cluster: &Cluster, nodes: &mut NodeBits) {
    for requirement in &term.expressions {
        retain_meeting(requirement, cluster, nodes);
    }
    // A node without a name has no fields to match.
    let nameless = cluster.node_named("").filter(|node| nodes.contains(*node));
    for requirement in &term.fields {
        retain_named(requirement, cluster, nodes);
    }
    if let Some(node) = nameless {
        nodes.insert(node);
    }
}

/// Returns the sets of nodes that match `term`, of which no two have a node in common, if the term
/// wants one label with one of some values.
pub(crate) fn labelled<'a>(
    term: &NodeSelectorTerm,
    cluster: &'a Cluster,
) -> Option<Vec<&'a Posting>> {
    let [own] = &*term.expressions else { return None };
    if !term.fields.is_empty() || !matches!(own.operator(), Operator::Equals | Operator::In) {
        return None;
    }
    let values: BTreeSet<_> = own.values().iter().collect();
    Some(values.into_iter().filter_map(|value| cluster.with_label(own.key(), value)).collect())
}

/// Retains the nodes whose labels meet `requirement`.
fn retain_meeting(requirement: &Requirement, cluster: &Cluster, nodes: &mut NodeBits) {
    let key = requirement.key();
    let with_key = || cluster.with_label_key(key).into_iter();
    let with_value =
        || requirement.values().iter().filter_map(|value| cluster.with_label(key, value));
    match requirement.operator() {
        Operator::Equals | Operator::In => retain_union(with_value(), cluster, nodes),
        Operator::NotIn => with_value().for_each(|labelled| labelled.subtract_from(nodes)),
        Operator::Exists => retain_union(with_key(), cluster, nodes),
        Operator::DoesNotExist => with_key().for_each(|labelled| labelled.subtract_from(nodes)),
        Operator::Gt(_) | Operator::Lt(_) => {
            let mut wanted = NodeBits::with_len(cluster.table_len());
            let meets = |value: &str| requirement.matches(Some(value));
            cluster.union_labelled_into(key, meets, &mut wanted);
            nodes.intersect(&wanted);
        }
    }
}

/// Retains the nodes in any of `postings`.
pub(crate) fn retain_union<'a>(
    postings: impl IntoIterator<Item = &'a Posting>,
    cluster: &Cluster,
    nodes: &mut NodeBits,
) {
    let mut wanted = NodeBits::with_len(cluster.table_len());
    postings.into_iter().for_each(|posting| posting.union_into(&mut wanted));
    nodes.intersect(&wanted);
}

/// Retains the nodes whose name meets `requirement`. Other fields are the same on all nodes.
fn retain_named(requirement: &FieldRequirement, cluster: &Cluster, nodes: &mut NodeBits) {
    let named = cluster.node_named(&requirement.value);
    match (&*requirement.key, requirement.operator) {
        ("metadata.name", FieldOperator::In) => retain_only(named, nodes),
        ("metadata.name", FieldOperator::NotIn) => {
            if let Some(node) = named {
                nodes.remove(node);
            }
        }
        _ if requirement.matches("") => {}
        _ => nodes.clear(),
    }
}

/// Retains only `node`.
pub(crate) fn retain_only(node: Option<NodeIx>, nodes: &mut NodeBits) {
    let kept = node.filter(|node| nodes.contains(*node));
    nodes.clear();
    if let Some(node) = kept {
        nodes.insert(node);
    }
}
