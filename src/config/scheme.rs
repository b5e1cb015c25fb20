//! Kinds and versions: from a text to the configuration as written.

use super::args::{Arguments, KINDS};
use super::decode::{Decoder, Faults};
use super::raw::Raw;
use super::tree::Tree;
use super::v1::{KubeSchedulerConfiguration, PluginConfig};
use super::{json, yaml};

/// Group of all kinds.
const GROUP: &str = "kubescheduler.config.k8s.io";
/// Group and version of all kinds.
pub(crate) const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
/// The kind of the configuration itself.
pub(crate) const KIND: &str = "KubeSchedulerConfiguration";

/// Name of kube-scheduler's scheme in messages.
const SCHEME: &str = "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme/scheme.go:29";

/// The type fields of an object, as Go prints them in messages.
const TYPE_FIELDS: &str = concat!(
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; "#,
    r#"Kind string "json:\"kind,omitempty\"" }"#,
);

/// A configuration that cannot be decoded, with the texts of kube-scheduler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The text is neither YAML nor JSON, or a value does not match its field.
    #[error("{0}")]
    Unreadable(String),
    /// `kind` is missing.
    #[error("Object 'Kind' is missing in '{0}'")]
    NoKind(String),
    /// `apiVersion` is missing.
    #[error("Object 'apiVersion' is missing in '{0}'")]
    NoVersion(String),
    /// The kind is not registered in this version.
    #[error("no kind {kind:?} is registered for version {version:?} in scheme {SCHEME:?}")]
    UnknownKind {
        /// The kind.
        kind: String,
        /// Group and version.
        version: String,
    },
    /// The kind is registered and is not the configuration.
    #[error("couldn't decode as {KIND}, got {API_VERSION}, Kind={0}: ")]
    OtherKind(String),
    /// Fields are unknown or repeated.
    #[error("strict decoding error: {}", .0.join(", "))]
    Strict(Vec<String>),
    /// Arguments of a plugin cannot be decoded.
    #[error("decoding .profiles[{profile}].pluginConfig[{place}]: {message}")]
    Arguments {
        /// Index of the profile.
        profile: usize,
        /// Index of the entry in `pluginConfig`.
        place: usize,
        /// The error in the arguments.
        message: String,
    },
}

/// Group, version and kind of an object; empty if absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TypeMeta {
    group: String,
    version: String,
    kind: String,
}

/// Decodes YAML or JSON.
///
/// # Errors
/// The first error that makes the text undecodable, or else all unknown and repeated fields.
pub(super) fn decode(text: &str) -> Result<KubeSchedulerConfiguration, DecodeError> {
    let (tree, repeated) = parse(text)?;
    let meta = TypeMeta::of(&tree).map_err(DecodeError::Unreadable)?;
    if meta.kind.is_empty() {
        return Err(DecodeError::NoKind(text.to_owned()));
    }
    if meta.version.is_empty() {
        return Err(DecodeError::NoVersion(text.to_owned()));
    }
    if meta.kind != KIND || !meta.is_ours() {
        return Err(decode_other(&meta, &tree, repeated));
    }
    let (mut config, faults) = Decoder::document::<KubeSchedulerConfiguration>(&tree);
    let mut strict = strict_faults(repeated, faults)?;
    strict.extend(decode_arguments(&mut config)?);
    none_or(strict)?;
    Ok(config)
}

/// The document, and errors for repeated keys.
fn parse(text: &str) -> Result<(Tree, Vec<String>), DecodeError> {
    if json::is_json(text) {
        let tree = json::read(text).map_err(|fault| {
            DecodeError::Unreadable(format!("couldn't get version/kind; json parse error: {fault}"))
        })?;
        return Ok((tree, Vec::new()));
    }
    let yaml::Document { tree, repeated } = yaml::read(text).map_err(DecodeError::Unreadable)?;
    let lines: Vec<String> = repeated.iter().map(|key| format!("\n  {key}")).collect();
    let told = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:{}", lines.concat()));
    Ok((tree, told.into_iter().collect()))
}

/// The error for a document that is not the configuration.
fn decode_other(meta: &TypeMeta, tree: &Tree, repeated: Vec<String>) -> DecodeError {
    let decoded = meta.is_ours().then(|| Arguments::decode(&meta.kind, tree)).flatten();
    let Some((_, faults)) = decoded else {
        return meta.unknown();
    };
    match strict_faults(repeated, faults).and_then(none_or) {
        Ok(()) => DecodeError::OtherKind(meta.kind.clone()),
        Err(error) => error,
    }
}

/// Adds the strict errors of decoding to the errors of parsing.
fn strict_faults(
    mut strict: Vec<String>,
    faults: Option<Faults>,
) -> Result<Vec<String>, DecodeError> {
    match faults {
        Some(Faults::Misfit(misfit)) => return Err(DecodeError::Unreadable(misfit)),
        Some(Faults::Strict(found)) => strict.extend(found),
        None => {}
    }
    Ok(strict)
}

fn none_or(strict: Vec<String>) -> Result<(), DecodeError> {
    if strict.is_empty() { Ok(()) } else { Err(DecodeError::Strict(strict)) }
}

/// Decodes the arguments of all plugins; returns the strict errors.
fn decode_arguments(config: &mut KubeSchedulerConfiguration) -> Result<Vec<String>, DecodeError> {
    let mut strict = Vec::new();
    for (profile, own) in config.profiles.iter_mut().enumerate() {
        for (place, entry) in own.plugin_config.iter_mut().enumerate() {
            let at = |message| DecodeError::Arguments { profile, place, message };
            if let Some(fault) = decode_entry(entry).map_err(at)? {
                strict.push(at(DecodeError::Strict(vec![fault]).to_string()).to_string());
            }
        }
    }
    Ok(strict)
}

/// Decodes the arguments of one plugin by its name; returns the strict errors. Arguments without a
/// known kind are kept as they are.
fn decode_entry(entry: &mut PluginConfig) -> Result<Option<String>, String> {
    let Raw(raw) = std::mem::take(&mut entry.raw);
    let implied = format!("{}Args", entry.name);
    if !KINDS.contains(&implied.as_str()) {
        entry.args = raw.map(|tree| Arguments::Other(tree.to_value()));
        return Ok(None);
    }
    let decoding =
        |fault: &dyn std::fmt::Display| format!("decoding args for plugin {}: {fault}", entry.name);
    let tree = raw.unwrap_or(Tree::Object(Vec::new()));
    let meta = TypeMeta::of(&tree).map_err(|fault| decoding(&fault))?.or_implied(&implied);
    let (args, faults) = meta.decode(&tree).ok_or_else(|| decoding(&meta.unknown()))?;
    let strict = match faults {
        Some(Faults::Misfit(misfit)) => return Err(decoding(&misfit)),
        Some(Faults::Strict(found)) => Some(decoding(&DecodeError::Strict(found))),
        None => None,
    };
    match args {
        Some(args) if meta.kind == implied => entry.args = Some(args),
        _ => {
            return Err(format!(
                "args for plugin {} were not of type {implied}.{GROUP}, got {}.{GROUP}",
                entry.name, meta.kind
            ));
        }
    }
    Ok(strict)
}

impl TypeMeta {
    /// Type fields of an object; empty for null.
    fn of(tree: &Tree) -> Result<Self, String> {
        if !matches!(tree, Tree::Object(_) | Tree::Null) {
            return Err(Self::misfit(tree, &format!("value of type {TYPE_FIELDS}")));
        }
        let text = |name: &str| match tree.field(name) {
            None | Some(Tree::Null) => Ok(String::new()),
            Some(Tree::Text(text)) => Ok(text.clone()),
            Some(other) => {
                Err(Self::misfit(other, &format!("struct field .{name} of type string")))
            }
        };
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let (group, version) = match api_version.split('/').collect::<Vec<_>>()[..] {
            [version] => ("", version),
            [group, version] => (group, version),
            _ => return Err(format!("unexpected GroupVersion string: {api_version}")),
        };
        Ok(Self { group: group.to_owned(), version: version.to_owned(), kind })
    }

    fn misfit(tree: &Tree, place: &str) -> String {
        let kind = tree.kind();
        format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into Go \
             {place}"
        )
    }

    /// Completes absent type fields from the name of the plugin.
    fn or_implied(mut self, kind: &str) -> Self {
        if self.kind.is_empty() {
            kind.clone_into(&mut self.kind);
        }
        if self.version.is_empty() && (self.group.is_empty() || self.group == GROUP) {
            (self.group, self.version) = (GROUP.to_owned(), "v1".to_owned());
        }
        self
    }

    /// Decodes an object of this type, if the type exists. The configuration is such a type, but
    /// not valid as arguments.
    fn decode(&self, tree: &Tree) -> Option<(Option<Arguments>, Option<Faults>)> {
        if !self.is_ours() {
            return None;
        }
        if self.kind == KIND {
            return Some((None, Decoder::document::<KubeSchedulerConfiguration>(tree).1));
        }
        let (args, faults) = Arguments::decode(&self.kind, tree)?;
        Some((Some(args), faults))
    }

    fn is_ours(&self) -> bool {
        self.group == GROUP && self.version == "v1"
    }

    fn unknown(&self) -> DecodeError {
        let slash = if self.group.is_empty() { "" } else { "/" };
        let version = format!("{}{slash}{}", self.group, self.version);
        DecodeError::UnknownKind { kind: self.kind.clone(), version }
    }
}
