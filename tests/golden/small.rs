//! The areas without a cluster: quantities, requests of pods, selectors.

use framework::{
    Behaviours, LabelSelector, Labels, Node, NodeSelector, PodRequests, PreferredSchedulingTerms,
    Quantity, QuantityError, Resources, SelectorError, Taint, Toleration, TopologySelector,
    TopologySelectorTerm, api,
};
use serde_json::{Map, Value, json};

use super::compare::Outcome;
use super::level_of;
use super::world::{self, read};

/// Runs a case about parsing a quantity.
pub(crate) fn quantity(case: &Value) -> Outcome {
    let Some(text) = case["in"].as_str() else {
        return Outcome::failed("\"in\" is not a text".to_owned());
    };
    let parsed: Result<Quantity, QuantityError> = text.parse();
    let actual = match parsed {
        Ok(quantity) => json!({
            "value": quantity.value(),
            "milliValue": quantity.milli_value(),
            "canonical": quantity.to_string(),
            "format": format!("{:?}", quantity.format()),
            "sign": quantity.sign(),
            "error": false,
        }),
        Err(error) => json!({
            "value": 0, "milliValue": 0, "canonical": "", "sign": 0,
            "error": true, "message": error.to_string(),
        }),
    };
    held_to(case, actual)
}

/// Runs a case about the requests of a pod.
pub(crate) fn pod_requests(case: &Value) -> Outcome {
    let pod = match world::pod(&case["pod"]) {
        Ok(pod) => pod,
        Err(message) => return Outcome::failed(message),
    };
    let mut requests = PodRequests::clone(&pod.requests);
    requests.follow(Behaviours::of(level_of(case)));
    let non_zero = requests.placed_non_zero;
    let actual = json!({
        "requests": amounts(&requests.placed),
        "fitRequests": amounts(&requests.fit),
        "nonZero": {"cpuMilli": non_zero.milli_cpu, "memory": non_zero.memory},
    });
    held_to(case, actual)
}

/// Returns amounts by name, without native resources that are zero.
fn amounts(resources: &Resources) -> Value {
    let fixed = [
        ("cpu", resources.milli_cpu),
        ("memory", resources.memory),
        ("ephemeral-storage", resources.ephemeral_storage),
    ];
    let fixed = fixed.into_iter().filter(|(_, amount)| *amount != 0);
    let scalars = resources.scalars.iter().map(|(name, amount)| (&**name, *amount));
    fixed
        .chain(scalars)
        .map(|(name, amount)| (name.to_owned(), json!(amount)))
        .collect::<Map<_, _>>()
        .into()
}

/// Runs a case about whether a selector matches.
pub(crate) fn label_selectors(case: &Value) -> Outcome {
    let actual = match case["kind"].as_str() {
        Some("LabelSelector") => label_selector(case),
        Some("NodeSelector") => node_selector(case),
        Some("PreferredSchedulingTerms") => preferred_terms(case),
        Some("Toleration") => toleration(case),
        Some("TopologySelectorTerms") => topology_terms(case),
        kind => Err(format!("unknown kind {kind:?}")),
    };
    actual.map_or_else(Outcome::failed, |actual| held_to(case, actual))
}

fn label_selector(case: &Value) -> Result<Value, String> {
    let selector: Option<api::LabelSelector> = read(&case["selector"])?;
    Ok(match LabelSelector::compile(selector.as_ref()) {
        Ok(selector) => {
            let matches = selector.matches(&labels(&case["labels"])?);
            json!({"match": matches, "string": selector.to_string()})
        }
        Err(error) => failure(&error),
    })
}

fn node_selector(case: &Value) -> Result<Value, String> {
    let selector = NodeSelector::compile(&read(&case["selector"])?);
    Ok(match selector.matches(&node(case)?) {
        Ok(matches) => json!({"match": matches}),
        Err(error) => json!({"match": false, "error": error.to_string()}),
    })
}

fn preferred_terms(case: &Value) -> Result<Value, String> {
    let terms: Option<Vec<api::PreferredSchedulingTerm>> = read(&case["terms"])?;
    let node = node(case)?;
    Ok(match PreferredSchedulingTerms::compile(&terms.unwrap_or_default(), "") {
        Ok(terms) => json!({"score": terms.score(&node)}),
        Err(error) => failure(&error),
    })
}

fn toleration(case: &Value) -> Result<Value, String> {
    let toleration: api::Toleration = read(&case["toleration"])?;
    let taint: api::Taint = read(&case["taint"])?;
    Ok(json!({"tolerates": Toleration::from(&toleration).tolerates(&Taint::from(&taint))}))
}

fn topology_terms(case: &Value) -> Result<Value, String> {
    let terms: Option<Vec<TopologySelectorTerm>> = read(&case["terms"])?;
    let selector = TopologySelector::compile(&terms.unwrap_or_default());
    Ok(json!({"match": selector.matches(&labels(&case["labels"])?)}))
}

fn failure(error: &SelectorError) -> Value {
    json!({"error": error.to_string()})
}

/// The node of a case: name and labels.
fn node(case: &Value) -> Result<Node, String> {
    let name = case["node"]["name"].as_str().unwrap_or_default();
    Ok(Node { name: name.into(), labels: labels(&case["node"]["labels"])?, ..Node::default() })
}

fn labels(map: &Value) -> Result<Labels, String> {
    let map: Option<std::collections::BTreeMap<String, String>> = read(map)?;
    Ok(Labels::from(&map.unwrap_or_default()))
}

/// The possible output fields of these areas.
const OUTPUTS: [&str; 14] = [
    "value",
    "milliValue",
    "canonical",
    "format",
    "sign",
    "error",
    "message",
    "requests",
    "fitRequests",
    "nonZero",
    "match",
    "string",
    "score",
    "tolerates",
];

/// Compares with the recorded output fields, if any.
fn held_to(case: &Value, actual: Value) -> Outcome {
    let recorded: Map<String, Value> = OUTPUTS
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), case.get(key)?.clone())))
        .collect();
    let expected = if recorded.is_empty() { Value::Null } else { recorded.into() };
    Outcome::plain(&expected, actual)
}
