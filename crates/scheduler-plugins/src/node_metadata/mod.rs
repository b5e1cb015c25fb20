//! NodeMetadata: prefers nodes by a number or a time in a label or an annotation.

mod layout;

use framework::{
    Attempt, AttemptMut, Dependence, NodeView, NormalizeScore, PerNode, Plugin, PluginArgs, Score,
    ScoreScope, Status,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::Faults;
use crate::min_max;
use layout::Layout;

/// Name of the plugin.
pub const NAME: &str = "NodeMetadata";

/// RFC 3339 as a layout of Go.
const RFC3339: &str = "2006-01-02T15:04:05Z07:00";

/// The raw score of a node without a value that can be read.
const INVALID: i64 = i64::MIN;

/// `NodeMetadataArgs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NodeMetadataArgs {
    /// The key of the label or annotation.
    pub metadata_key: String,
    /// `Label` or `Annotation`.
    pub metadata_source: String,
    /// `Number` or `Timestamp`.
    pub metadata_type: String,
    /// `Highest` or `Lowest` number, `Newest` or `Oldest` time.
    pub scoring_strategy: String,
    /// The layout of times, as package time of Go has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timestamp_format: String,
    /// The value of nodes without the key; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub default_value: String,
}

impl NodeMetadataArgs {
    /// Fills in the layout and checks the arguments.
    fn checked(mut self) -> Result<Self, String> {
        if self.metadata_type == "Timestamp" && self.timestamp_format.is_empty() {
            RFC3339.clone_into(&mut self.timestamp_format);
        }
        let mut faults = Faults::default();
        let mut invalid = |path: &str, value: &str, detail: &str| {
            faults.invalid(path, format_args!("{value:?}"), detail);
        };
        let Self { metadata_key, metadata_source, metadata_type, scoring_strategy, .. } = &self;
        if metadata_key.is_empty() {
            invalid("metadataKey", metadata_key, "metadataKey cannot be empty");
        }
        if !["Label", "Annotation"].contains(&&**metadata_source) {
            let detail = "metadataSource must be either \"Label\" or \"Annotation\"";
            invalid("metadataSource", metadata_source, detail);
        }
        let strategy = "scoringStrategy";
        if !["Number", "Timestamp"].contains(&&**metadata_type) {
            let detail = "metadataType must be either \"Number\" or \"Timestamp\"";
            invalid("metadataType", metadata_type, detail);
        }
        match (&**scoring_strategy, &**metadata_type) {
            ("Newest" | "Oldest", "Number") => {
                let detail = "scoringStrategy \"Newest\" and \"Oldest\" are only valid for \
                              metadataType \"Timestamp\"";
                invalid(strategy, scoring_strategy, detail);
            }
            ("Highest" | "Lowest", "Timestamp") => {
                let detail = "scoringStrategy \"Highest\" and \"Lowest\" are only valid for \
                              metadataType \"Number\"";
                invalid(strategy, scoring_strategy, detail);
            }
            ("Newest" | "Oldest" | "Highest" | "Lowest", _) => {}
            _ => {
                let detail = "scoringStrategy must be one of \"Highest\", \"Lowest\", \"Newest\", \
                              or \"Oldest\"";
                invalid(strategy, scoring_strategy, detail);
            }
        }
        faults.none_or(self)
    }
}

/// The plugin.
#[derive(Debug)]
struct NodeMetadata {
    key: Key,
    reads: Reads,
    default: Option<String>,
    /// Whether low values are preferred.
    lowest: bool,
}

/// Where the value is.
#[derive(Debug)]
enum Key {
    Label(String),
    /// The JSON pointer of the annotation.
    Annotation(String),
}

/// What the value is.
#[derive(Debug)]
enum Reads {
    Number,
    Timestamp(Layout),
}

/// Makes the plugin from [`NodeMetadataArgs`].
///
/// # Errors
/// The arguments do not decode or do not fit together, or the layout has a part that is not known.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let checked = args.decode::<NodeMetadataArgs>()?.checked();
    let args = checked.map_err(|error| format!("invalid NodeMetadataArgs: {error}"))?;
    let key = match &*args.metadata_source {
        "Label" => Key::Label(args.metadata_key.clone()),
        _ => {
            let key = args.metadata_key.replace('~', "~0").replace('/', "~1");
            Key::Annotation(format!("/metadata/annotations/{key}"))
        }
    };
    let reads = match &*args.metadata_type {
        "Number" => Reads::Number,
        _ => Reads::Timestamp(
            Layout::parse(&args.timestamp_format)
                .map_err(|error| format!("timestampFormat: {error}"))?,
        ),
    };
    let pointer = match &key {
        Key::Label(_) => None,
        Key::Annotation(pointer) => Some(pointer.clone()),
    };
    let plugin = NodeMetadata {
        key,
        reads,
        default: Some(args.default_value.clone()).filter(|value| !value.is_empty()),
        lowest: ["Lowest", "Oldest"].contains(&&*args.scoring_strategy),
    };
    let plugin = Plugin::new(NAME, plugin)
        .score()
        .normalize_score()
        .no_events()
        .decides_by_template()
        .args(&args);
    let plugin = pointer.iter().fold(plugin, |plugin, own| plugin.keep_node_field(own));
    Ok(plugin.build())
}

impl NodeMetadata {
    fn value<'a>(&'a self, node: &NodeView<'a>) -> Option<&'a str> {
        let own = match &self.key {
            Key::Label(key) => node.label(key),
            Key::Annotation(pointer) => node.extra(pointer).and_then(Value::as_str),
        };
        own.or(self.default.as_deref())
    }

    /// Returns the value as a whole number, of seconds for a time.
    fn read(&self, text: &str) -> Option<i64> {
        let number = match &self.reads {
            Reads::Number => {
                text.parse::<f64>().ok().filter(|number| number.is_finite())?.trunc() as i64
            }
            Reads::Timestamp(layout) => layout.read(text)?,
        };
        // The lowest number stands for none.
        let number = number.max(INVALID + 1);
        Some(if self.lowest { -number } else { number })
    }
}

impl Score for NodeMetadata {
    fn score(&self, _attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        Ok(self.value(node).and_then(|text| self.read(text)).unwrap_or(INVALID))
    }

    /// All pods have the same scores.
    fn dependence(&self, _attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(Dependence::on(ScoreScope::Node).without_pods().of_requests())
    }
}

impl NormalizeScore for NodeMetadata {
    /// Nodes with a value get 1 to 100, the others 0.
    fn normalize_score(&self, _attempt: &Attempt<'_>, scores: PerNode<'_>) -> Status {
        min_max::normalize(scores.values, 1, |score| score != INVALID);
        Status::success()
    }
}

#[cfg(test)]
mod tests;
