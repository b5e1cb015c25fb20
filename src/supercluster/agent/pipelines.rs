//! The file of `agent --agent-config`: the sampling pipeline and the binding pipeline.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use supercluster::agent::{NamedCheck, Strategies};
use supercluster::message::CopyKind;
use supercluster::registry::PipelineRegistry;

use super::super::file::{self, FileError, PluginEntry};
use super::PROFILE;
use crate::config::{self, Configuration, Gates};

/// The pipelines of an agent.
#[derive(Clone, Default)]
pub struct AgentPipelines {
    /// The sampling strategies that it serves.
    pub(super) strategies: Strategies,
    /// The checks after the Filter plugins.
    pub(super) checks: Vec<NamedCheck>,
    /// The kinds of objects that are copied from the management cluster with a delegate.
    pub(super) copies: BTreeSet<CopyKind>,
    /// A KubeSchedulerConfiguration with the profile of both pipelines; `None` for the profile of
    /// `--config`.
    profile: Option<String>,
}

impl fmt::Debug for AgentPipelines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentPipelines")
            .field("strategies", &self.strategies)
            .field("checks", &self.checks.len())
            .field("copies", &self.copies)
            .field("profile", &self.profile)
            .finish()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    kind: String,
    sampling_pipeline: Option<SamplingPipeline>,
    binding_pipeline: Option<BindingPipeline>,
    #[serde(default)]
    copies: BTreeSet<CopyKind>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SamplingPipeline {
    /// The strategies; those in the tree without it.
    strategies: Option<Vec<PluginEntry>>,
    /// As in a profile of a KubeSchedulerConfiguration.
    plugins: Option<Value>,
    plugin_config: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BindingPipeline {
    plugins: Vec<PluginEntry>,
}

impl AgentPipelines {
    /// The kind of the file.
    pub(in super::super) const KIND: &'static str = "AgentConfiguration";

    /// Reads the file, and makes its plugins.
    ///
    /// # Errors
    /// The file cannot be read, or has a field that is unknown or not valid.
    pub fn read(path: &Path, registry: &PipelineRegistry) -> Result<Self, FileError> {
        file::read(path, |text| Self::parse(text, registry))
    }

    pub(in super::super) fn parse(text: &str, registry: &PipelineRegistry) -> Result<Self, String> {
        let Document { api_version, kind, sampling_pipeline, binding_pipeline, copies } =
            yaml::decode(text)?;
        file::check_kind(&api_version, &kind, Self::KIND)?;
        let mut own = Self { copies, ..Self::default() };
        if let Some(sampling) = sampling_pipeline {
            if let Some(entries) = &sampling.strategies {
                own.strategies = strategies(entries, registry)?;
            }
            own.profile = sampling.profile();
        }
        let entries = binding_pipeline.map(|binding| binding.plugins).unwrap_or_default();
        for (place, entry) in entries.iter().enumerate() {
            let at = |text: String| format!("bindingPipeline.plugins[{place}].{text}");
            without_weight(entry).map_err(at)?;
            let plugin = registry.check(&entry.name, &entry.args()).map_err(at)?;
            own.checks.push(NamedCheck { name: entry.name.as_str().into(), plugin });
        }
        Ok(own)
    }

    /// Checks the plugins of the sampling pipeline, except that they exist.
    pub(in super::super) fn check_profile(&self, gates: &Gates) -> Result<(), String> {
        self.loaded_profile(gates).map(drop)
    }

    /// Puts the plugins of the sampling pipeline into the first profile of a configuration.
    ///
    /// # Errors
    /// They are not valid.
    pub fn apply(&self, config: &mut Configuration, gates: &Gates) -> Result<(), String> {
        if let Some(loaded) = self.loaded_profile(gates)?
            && let Some(profile) = config.profiles.first_mut()
        {
            (profile.plugins, profile.plugin_config) = (loaded.plugins, loaded.plugin_config);
        }
        Ok(())
    }

    fn loaded_profile(&self, gates: &Gates) -> Result<Option<config::Profile>, String> {
        let Some(text) = &self.profile else { return Ok(None) };
        let loaded = config::load(text, gates)
            .map_err(|error| error.to_string().replace("profiles[0]", "samplingPipeline"))?;
        Ok(loaded.config.profiles.into_iter().next())
    }
}

impl SamplingPipeline {
    /// Returns the KubeSchedulerConfiguration with these plugins.
    fn profile(&self) -> Option<String> {
        let mut profile = json!({"schedulerName": PROFILE});
        let fields = [("plugins", &self.plugins), ("pluginConfig", &self.plugin_config)];
        let given = fields.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let mut is_given = false;
        for (name, value) in given {
            is_given = true;
            profile[name] = value.clone();
        }
        let document = json!({"apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration", "profiles": [profile]});
        is_given.then(|| document.to_string())
    }
}

fn strategies(entries: &[PluginEntry], registry: &PipelineRegistry) -> Result<Strategies, String> {
    if entries.is_empty() {
        return Err("samplingPipeline.strategies: is empty".to_owned());
    }
    let (mut strategies, mut names) = (Strategies::none(), BTreeSet::new());
    for (place, entry) in entries.iter().enumerate() {
        let at = |text: String| format!("samplingPipeline.strategies[{place}].{text}");
        without_weight(entry).map_err(at)?;
        if !names.insert(&entry.name) {
            return Err(at(format!("name: {:?} is listed twice", entry.name)));
        }
        let strategy = registry.strategy(&entry.name, &entry.args()).map_err(at)?;
        strategies.register(&entry.name, strategy);
    }
    Ok(strategies)
}

fn without_weight(entry: &PluginEntry) -> Result<(), String> {
    match entry.weight {
        Some(_) => Err("weight: belongs to the decision pipeline".to_owned()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework::{ExtensionPoint, PluginArgs};
    use supercluster::agent::{CheckConflicts, CommitView};
    use supercluster::message::Conflict;

    use super::*;

    struct Agrees;

    impl CheckConflicts for Agrees {
        fn check(&self, _: &CommitView<'_>) -> Result<(), Conflict> {
            Ok(())
        }
    }

    fn parse(fields: &str) -> Result<AgentPipelines, String> {
        let mut registry = PipelineRegistry::new();
        let check = |args: &PluginArgs| match args.decode::<bool>()? {
            true => Ok(Arc::new(Agrees) as Arc<dyn CheckConflicts>),
            false => Err("must be true".to_owned()),
        };
        registry.register_check("Agrees", check).unwrap();
        let head = "apiVersion: supercluster.loadmaster.io/v1alpha1\nkind: AgentConfiguration\n";
        AgentPipelines::parse(&format!("{head}{fields}"), &registry)
    }

    #[test]
    fn strategies_and_checks_are_those_of_the_file() {
        let own = parse("samplingPipeline: {strategies: [{name: best}, {name: all}]}\n").unwrap();
        let names: Vec<&str> = own.strategies.names().map(AsRef::as_ref).collect();
        assert_eq!((names, own.checks.len()), (vec!["all", "best"], 0));
        let own = parse("bindingPipeline: {plugins: [{name: Agrees, args: true}]}\n").unwrap();
        assert_eq!((own.strategies.names().count(), own.checks.len()), (4, 1));
    }

    #[test]
    fn plugins_of_the_sampling_pipeline_replace_those_of_the_first_profile() {
        let gates = Gates::default();
        let mut config = config::defaults(&gates);
        let before = config.profiles[0].clone();
        parse("").unwrap().apply(&mut config, &gates).unwrap();
        assert_eq!(config.profiles[0], before);
        let own = parse(
            "samplingPipeline:\n  plugins: {score: {disabled: [{name: ImageLocality}]}}\n  \
             pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 7}}]\n",
        );
        own.unwrap().apply(&mut config, &gates).unwrap();
        let profile = &config.profiles[0];
        assert_eq!(profile.scheduler_name, before.scheduler_name);
        let disabled = &profile.plugins.at(ExtensionPoint::Score).disabled;
        assert!(disabled.iter().any(|own| own.name.as_str() == "ImageLocality"), "{disabled:?}");
        let args = profile.args_of("InterPodAffinity").unwrap().to_value();
        assert_eq!(args["hardPodAffinityWeight"], 7);
    }

    #[test]
    fn invalid_field_is_named() {
        let rows = [
            ("samplingPipelin: {}", "samplingPipelin: unknown field `samplingPipelin`"),
            ("samplingPipeline: {strategies: []}", "samplingPipeline.strategies: is empty"),
            (
                "samplingPipeline: {strategies: [{name: all}, {name: al}]}",
                "samplingPipeline.strategies[1].name: \"al\" is no sampling strategy; one of all, best",
            ),
            (
                "samplingPipeline: {strategies: [{name: all}, {name: all}]}",
                "samplingPipeline.strategies[1].name: \"all\" is listed twice",
            ),
            (
                "samplingPipeline: {strategies: [{name: all, weight: 1}]}",
                "samplingPipeline.strategies[0].weight: belongs to the decision pipeline",
            ),
            (
                "bindingPipeline: {plugins: [{name: Agrees}]}",
                "bindingPipeline.plugins[0].args: must be true",
            ),
            ("bindingPipeline: {plugins: [{nam: Agrees}]}", "bindingPipeline.plugins[0].nam: "),
            ("copies: [pods]", "copies[0]: "),
            ("bindingPipeline: {}", "bindingPipeline: "),
        ];
        for (fields, expected) in rows {
            let text = parse(fields).unwrap_err();
            assert!(text.starts_with(expected), "{text}");
        }
        let profile = parse("samplingPipeline: {plugins: {scores: {}}}").unwrap();
        let error = profile.check_profile(&Gates::default()).unwrap_err();
        assert!(error.contains("samplingPipeline.plugins.scores"), "{error}");
    }
}
