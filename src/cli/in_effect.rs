//! The configuration in effect: the file and the flags of the daemon.

use std::path::Path;

use anyhow::{Context, anyhow};
use serde_json::Value;

use super::complain;
use super::flags::Flags;
use crate::config::{self, API_VERSION, ConfigError, Configuration, DecodeError, Gates, Loaded};
use crate::wire;

/// Loads the configuration file, if there is one, applies the flags and validates the result.
///
/// `set_defaults` changes the defaults for a role; a configuration file replaces them.
///
/// # Errors
/// The file cannot be read, or a value is invalid.
pub(super) fn configuration(
    flags: &Flags,
    gates: &Gates,
    set_defaults: impl FnOnce(&mut Configuration),
) -> anyhow::Result<Configuration> {
    let mut config = match &flags.config {
        None => {
            let mut config = config::defaults(gates);
            set_defaults(&mut config);
            config
        }
        Some(path) => load(path, gates)?.in_effect(),
    };
    flags.apply(&mut config);
    config::validate(&config, gates)?;
    Ok(config)
}

fn load(path: &Path, gates: &Gates) -> anyhow::Result<Loaded> {
    let text = super::config::read(path)?;
    let loaded = config::load(&text, gates).map_err(|error| with_hint(error, &text));
    let loaded = loaded.with_context(|| path.display().to_string())?;
    loaded.written.zero_weights().iter().for_each(|warning| complain("warning", warning));
    Ok(loaded)
}

/// Adds a line to an error about a file that is not a configuration of this version: where the
/// configuration is, or what to convert.
pub(super) fn with_hint(error: ConfigError, text: &str) -> anyhow::Error {
    let hint = match &error {
        ConfigError::Decode(DecodeError::UnknownKind { kind, version }) => {
            hint(kind, version, text)
        }
        _ => None,
    };
    match hint {
        Some(hint) => anyhow!("{error}\n{hint}"),
        None => error.into(),
    }
}

fn hint(kind: &str, version: &str, text: &str) -> Option<String> {
    match (version, kind) {
        ("v1", "ConfigMap") => Some(of_config_map(text)),
        ("kubescheduler.config.k8s.io/v1beta1" | "kubescheduler.config.k8s.io/v1beta2"
            | "kubescheduler.config.k8s.io/v1beta3", _) => Some(format!(
            "Kubernetes has removed {version}: write `apiVersion: {API_VERSION}`, and the fields that it does not have \
             are named here"
        )),
        (_, "Policy") => Some(
            "Kubernetes 1.23 has removed policies: write a KubeSchedulerConfiguration with profiles".to_owned(),
        ),
        _ => None,
    }
}

/// Says which value of a ConfigMap is a configuration.
fn of_config_map(text: &str) -> String {
    let objects = wire::objects_of("the file", text.to_owned()).unwrap_or_default();
    let data = objects.iter().filter_map(|object| object.value["data"].as_object()).flatten();
    let is_config = |value: &Value| value.as_str().is_some_and(|own| own.contains(config::KIND));
    let key = data.filter(|(_, value)| is_config(value)).map(|(key, _)| key).next();
    let metadata = |name: &str| {
        let object = objects.first().map(|object| &object.value["metadata"][name]);
        object.and_then(Value::as_str).unwrap_or("default").to_owned()
    };
    match key {
        Some(key) => format!(
            "the configuration is the value of {key:?} in the ConfigMap: kubectl get configmap {} -n {} -o \
             jsonpath='{{.data.{}}}'",
            metadata("name"),
            metadata("namespace"),
            key.replace('.', "\\.")
        ),
        None => format!("no value of the ConfigMap is a {}", config::KIND),
    }
}
