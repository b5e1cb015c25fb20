//! The fields of the messages of Kubernetes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// All messages.
pub(super) static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| Schema::parse(include_str!("messages.txt")));

/// The name for messages that all APIs share.
const META: &str = "meta/v1";
/// `apiVersion` of the core group, whose messages other APIs use.
const CORE: &str = "v1";

/// The messages by their API.
#[derive(Debug)]
pub(super) struct Schema {
    messages: Vec<Message>,
    places: Places,
}

/// The indices of messages by `apiVersion` and name.
type Places = BTreeMap<(&'static str, &'static str), usize>;

/// The fields of a message by number.
#[derive(Debug)]
pub(super) struct Message {
    fields: BTreeMap<u64, Field>,
    /// The numbers of the fields with names.
    numbers: BTreeMap<&'static str, u64>,
    /// The numbers of the fields whose messages are inline.
    inline: Vec<u64>,
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) place: Place,
    /// The type of its value, of the items of its list or of the values of its map.
    pub(super) holds: Type,
}

/// The place of a field in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A named field.
    Named {
        name: &'static str,
        /// Whether an empty string, 0 or false differs from an absent field.
        keeps_zero: bool,
    },
    /// The fields of the enclosing object.
    Inline,
    /// An item of the list of this name.
    List(&'static str),
    /// An entry of the map of this name, which has strings as keys.
    Map(&'static str),
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    Int,
    String,
    Bytes,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// A message around JSON: `RawExtension`, `FieldsV1`.
    Raw,
    /// A message around a list of strings: `ExtraValue`.
    Strings,
    /// Another message, by its index.
    Message(usize),
}

impl Schema {
    /// Returns the message of a kind. Options of requests exist in every API.
    pub(super) fn kind(&self, api_version: &str, kind: &str) -> Option<&Message> {
        find(&self.places, api_version, kind).map(|place| self.message(place))
    }

    /// Returns the message that a [`Type::Message`] refers to.
    pub(super) fn message(&self, place: usize) -> &Message {
        &self.messages[place]
    }

    fn parse(table: &'static str) -> Self {
        let definitions = definitions(table);
        let places: Places = definitions
            .iter()
            .enumerate()
            .map(|(place, definition)| ((definition.api, definition.name), place))
            .collect();
        let messages = definitions.iter().map(|definition| definition.message(&places)).collect();
        Self { messages, places }
    }
}

impl Message {
    pub(super) fn field(&self, number: u64) -> Option<&Field> {
        self.fields.get(&number)
    }

    #[cfg(test)]
    pub(super) fn fields(&self) -> impl Iterator<Item = (u64, &Field)> {
        self.fields.iter().map(|(number, field)| (*number, field))
    }

    /// Returns the field that is at the name of a JSON object.
    pub(super) fn named(&self, name: &str) -> Option<(u64, &Field)> {
        let number = self.numbers.get(name)?;
        Some((*number, self.fields.get(number)?))
    }

    /// Returns the fields whose messages hold further fields of the same JSON object.
    pub(super) fn inline(&self) -> impl Iterator<Item = (u64, &Field)> {
        self.inline.iter().filter_map(|number| Some((*number, self.fields.get(number)?)))
    }
}

/// Finds a message in its own API, then among the shared ones.
fn find(places: &Places, api: &str, name: &str) -> Option<usize> {
    [api, CORE, META].iter().find_map(|api| places.get(&(*api, name)).copied())
}

/// A message as in the table.
struct Definition {
    api: &'static str,
    name: &'static str,
    fields: Vec<&'static str>,
}

fn definitions(table: &'static str) -> Vec<Definition> {
    let mut api = "";
    let mut definitions: Vec<Definition> = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        match (line.strip_prefix("api "), definitions.last_mut()) {
            (Some(next), _) => api = next,
            (None, Some(last)) if line.starts_with(' ') => last.fields.extend(words),
            (None, _) => {
                let name = words.next().unwrap_or_default();
                definitions.push(Definition { api, name, fields: words.collect() });
            }
        }
    }
    definitions
}

impl Definition {
    fn message(&self, places: &Places) -> Message {
        let fields: BTreeMap<u64, Field> =
            self.fields.iter().map(|field| self.field(field, places)).collect();
        let (mut numbers, mut inline) = (BTreeMap::new(), Vec::new());
        for (number, field) in &fields {
            match field.place {
                Place::Inline => inline.push(*number),
                Place::Named { name, .. } | Place::List(name) | Place::Map(name) => {
                    numbers.insert(name, *number);
                }
            }
        }
        Message { fields, numbers, inline }
    }

    fn field(&self, text: &'static str, places: &Places) -> (u64, Field) {
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().expect("the table has number:name:type");
        let (number, name, holds) = (part(), part(), part());
        let (place, holds) = place(name, holds);
        let number = number.parse().expect("the table has numbers before names");
        (number, Field { place, holds: self.type_of(holds, places) })
    }

    fn type_of(&self, text: &str, places: &Places) -> Type {
        match text {
            "bool" => Type::Bool,
            "int" => Type::Int,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "Quantity" => Type::Quantity,
            "IntOrString" => Type::IntOrString,
            "Time" => Type::Time,
            "MicroTime" => Type::MicroTime,
            "RawExtension" | "FieldsV1" => Type::Raw,
            "ExtraValue" => Type::Strings,
            name => {
                let place = find(places, self.api, name);
                Type::Message(place.expect("the table defines every message it names"))
            }
        }
    }
}

/// Returns the place of a field, and the rest of its type.
fn place(name: &'static str, holds: &'static str) -> (Place, &'static str) {
    let inside = |open, close| holds.strip_prefix(open)?.strip_suffix(close);
    if name == "inline" {
        (Place::Inline, holds)
    } else if let Some(item) = inside('[', ']') {
        (Place::List(name), item)
    } else if let Some(value) = inside('{', '}') {
        (Place::Map(name), value)
    } else if let Some(scalar) = holds.strip_suffix('!') {
        (Place::Named { name, keeps_zero: true }, scalar)
    } else {
        (Place::Named { name, keeps_zero: false }, holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{ALL, CUSTOMRESOURCEDEFINITIONS, PODGROUPS};

    /// Clients send CustomResourceDefinitions as JSON. The numbers of the fields of PodGroups are
    /// not in the table, so the sandbox takes and sends them as JSON alone.
    #[test]
    fn every_resource_but_definitions_and_pod_groups_has_a_message() {
        let json_only = [CUSTOMRESOURCEDEFINITIONS, PODGROUPS];
        for resource in ALL.iter().filter(|resource| !json_only.contains(resource)) {
            let api_version = resource.api_version();
            let found = SCHEMA.places.contains_key(&(&*api_version, resource.kind));
            assert!(found, "{api_version} {}", resource.kind);
        }
    }

    /// Decoding never recurses deeper than the table.
    #[test]
    fn no_message_contains_itself() {
        for place in 0..SCHEMA.messages.len() {
            follow(place, &mut Vec::new());
        }
    }

    fn follow(place: usize, path: &mut Vec<usize>) {
        assert!(!path.contains(&place), "{path:?}");
        path.push(place);
        for field in SCHEMA.message(place).fields.values() {
            if let Type::Message(place) = field.holds {
                follow(place, path);
            }
        }
        path.pop();
    }
}
