//! The registry: factories of plugins, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::{Behaviours, Level, Plugin};

/// The name of a plugin, as profiles, statuses and metrics use it.
pub type PluginName = Arc<str>;

/// The level that is followed, the feature gates that in-tree plugins read in addition to their
/// arguments, and a flag of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginGates {
    /// The version of Kubernetes that is followed.
    pub level: Level,
    /// TaintTolerationComparisonOperators: tolerations with `Lt` and `Gt` compare numbers.
    pub toleration_comparison: bool,
    /// VolumeLimitScaling: a node without a CSI driver that says so takes no pod with its volumes.
    pub volume_limit_scaling: bool,
    /// DRADeviceTaintRules: rules add taints to devices.
    pub device_taint_rules: bool,
    /// DRADeviceTaints: taints of devices keep requests away that do not tolerate them.
    pub device_taints: bool,
    /// DRAPartitionableDevices: devices share counters, and name their nodes one by one.
    pub partitionable_devices: bool,
    /// DRAConsumableCapacity: several requests share a device.
    pub consumable_capacity: bool,
    /// DRAPrioritizedList: requests have alternatives.
    pub prioritized_list: bool,
    /// DRAExtendedResource: devices provide extended resources.
    pub extended_resources: bool,
    /// DRAFractionalCapacityRange: ranges of consumable capacity have fractions.
    pub fractional_capacity_range: bool,
    /// GenericWorkload: the pods of a PodGroup are decided together.
    pub generic_workload: bool,
    /// GenericWorkload without GangScheduling of 1.36: every PodGroup is a basic one.
    pub only_basic_groups: bool,
    /// WorkloadAwarePreemption, a part of GenericWorkload since 1.37: a PodGroup that does not fit
    /// preempts pods.
    pub workload_aware_preemption: bool,
    /// PodGroupPreemptionPolicy: the pods of a PodGroup must have its preemption policy.
    pub pod_group_preemption_policy: bool,
    /// DRAWorkloadResourceClaims: the pods of a PodGroup share its claims, which are reserved for
    /// the group.
    pub workload_claims: bool,
    /// `--schedule-group-members-alone`: profiles without a plugin for groups do not gate the pods
    /// of groups.
    pub group_members_alone: bool,
}

impl PluginGates {
    /// Returns the defaults of a level.
    pub const fn at(level: Level) -> Self {
        let since_1_37 = level.is_at_least(Level::V1_37);
        Self {
            level,
            toleration_comparison: false,
            volume_limit_scaling: since_1_37,
            device_taint_rules: since_1_37,
            device_taints: true,
            partitionable_devices: true,
            consumable_capacity: true,
            prioritized_list: true,
            extended_resources: true,
            // Its default also depends on the oldest version that the scheduler is compatible with.
            fractional_capacity_range: level.is_at_least(Level::V1_38),
            generic_workload: false,
            only_basic_groups: false,
            workload_aware_preemption: false,
            pod_group_preemption_policy: false,
            workload_claims: false,
            group_members_alone: false,
        }
    }

    /// Returns the behaviours of the level.
    pub const fn behaviours(&self) -> Behaviours {
        Behaviours::of(self.level)
    }
}

/// The defaults of the default level.
impl Default for PluginGates {
    fn default() -> Self {
        Self::at(Level::default())
    }
}

/// The arguments of a plugin, as given in `pluginConfig`, and the feature gates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginArgs {
    given: Option<serde_json::Value>,
    gates: PluginGates,
}

impl PluginArgs {
    /// Wraps the arguments given in the configuration.
    pub fn new(args: serde_json::Value) -> Self {
        Self { given: Some(args), gates: PluginGates::default() }
    }

    /// Returns the arguments with these feature gates.
    #[must_use]
    pub fn with_gates(self, gates: PluginGates) -> Self {
        Self { gates, ..self }
    }

    /// Returns the feature gates.
    pub const fn gates(&self) -> PluginGates {
        self.gates
    }

    /// Decodes the arguments without `apiVersion` and `kind`; absent arguments give `T::default()`.
    /// Declare `T` with `#[serde(deny_unknown_fields)]` to reject unknown fields.
    ///
    /// # Errors
    /// The message of the decoder, with the name of the field.
    pub fn decode<T: DeserializeOwned + Default>(&self) -> Result<T, String> {
        let Some(args) = &self.given else { return Ok(T::default()) };
        let mut args = args.clone();
        if let Some(fields) = args.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        serde_json::from_value(args).map_err(|error| error.to_string())
    }
}

/// Makes a plugin from its arguments. It is called once per profile that enables the plugin, and
/// its error names the argument at fault.
pub type Factory = Arc<dyn Fn(&PluginArgs) -> Result<Plugin, String> + Send + Sync>;

/// Makes the factory of a plugin for one scheduler.
type Opener = Arc<dyn Fn() -> Factory + Send + Sync>;

/// The factories of plugins, by plugin name.
#[derive(Clone, Default)]
pub struct Registry {
    openers: BTreeMap<PluginName, Opener>,
    gates: PluginGates,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// The error for a name that is registered twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a plugin named {0} already exists")]
pub struct RegistryError(pub PluginName);

impl Registry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the registry with the feature gates of its plugins.
    #[must_use]
    pub fn with_gates(self, gates: PluginGates) -> Self {
        Self { gates, ..self }
    }

    /// Returns the feature gates of the plugins.
    pub const fn gates(&self) -> PluginGates {
        self.gates
    }

    /// Adds a plugin under `name`.
    ///
    /// # Errors
    /// The name is already registered.
    pub fn register(
        &mut self,
        name: &str,
        factory: impl Fn(&PluginArgs) -> Result<Plugin, String> + Send + Sync + 'static,
    ) -> Result<(), RegistryError> {
        let factory: Factory = Arc::new(factory);
        self.add(name.into(), Arc::new(move || factory.clone()))
    }

    /// Adds a plugin under `name`. All profiles of one scheduler share one `T`, such as a cache.
    ///
    /// # Errors
    /// The name is already registered.
    pub fn register_shared<T: Default + Send + Sync + 'static>(
        &mut self,
        name: &str,
        factory: impl Fn(&PluginArgs, &Arc<T>) -> Result<Plugin, String> + Send + Sync + 'static,
    ) -> Result<(), RegistryError> {
        let factory = Arc::new(factory);
        let open = move || -> Factory {
            let (factory, shared) = (factory.clone(), Arc::<T>::default());
            Arc::new(move |args| factory(args, &shared))
        };
        self.add(name.into(), Arc::new(open))
    }

    fn add(&mut self, name: PluginName, opener: Opener) -> Result<(), RegistryError> {
        if self.openers.contains_key(&name) {
            return Err(RegistryError(name));
        }
        self.openers.insert(name, opener);
        Ok(())
    }

    /// Adds all plugins of `other`.
    ///
    /// # Errors
    /// A name is in both registries.
    pub fn merge(&mut self, other: Self) -> Result<(), RegistryError> {
        other.openers.into_iter().try_for_each(|(name, opener)| self.add(name, opener))
    }

    /// Returns a registry for one scheduler, which shares no state of plugins with other
    /// schedulers.
    pub fn for_scheduler(&self) -> Self {
        let open = |(name, opener): (&PluginName, &Opener)| {
            let factory = opener();
            (name.clone(), Arc::new(move || factory.clone()) as Opener)
        };
        Self { openers: self.openers.iter().map(open).collect(), gates: self.gates }
    }

    /// Returns the factory of the plugin called `name`. Profiles [share](Self::register_shared)
    /// state only if their factories come from one registry made with
    /// [`for_scheduler`](Self::for_scheduler).
    pub fn get(&self, name: &str) -> Option<Factory> {
        self.openers.get(name).map(|open| open())
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &PluginName> {
        self.openers.keys()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default, deny_unknown_fields)]
    struct Args {
        weight: i64,
    }

    #[test]
    fn unknown_argument_is_rejected() {
        let args = |value| PluginArgs::new(value).decode::<Args>();
        assert_eq!(PluginArgs::default().decode(), Ok(Args { weight: 0 }));
        assert_eq!(args(serde_json::json!({"kind": "XArgs", "weight": 2})), Ok(Args { weight: 2 }));
        let error = args(serde_json::json!({"wieght": 2})).unwrap_err();
        assert!(error.contains("unknown field `wieght`"), "{error}");
    }

    #[test]
    fn registering_a_name_twice_fails() {
        let mut registry = Registry::new();
        let factory = |_: &PluginArgs| Err("never made".to_owned());
        registry.register("A", factory).unwrap();
        assert_eq!(registry.register("A", factory), Err(RegistryError("A".into())));
        assert_eq!(registry.merge(registry.clone()), Err(RegistryError("A".into())));
    }

    #[test]
    fn only_profiles_of_one_scheduler_share_state() {
        let mut registry = Registry::new();
        let counting = |_: &PluginArgs, made: &Arc<AtomicU32>| {
            Err(made.fetch_add(1, Ordering::Relaxed).to_string())
        };
        registry.register_shared("A", counting).unwrap();
        let made = |registry: &Registry| {
            registry.get("A").unwrap()(&PluginArgs::default()).map(|_| ()).unwrap_err()
        };
        let (one, other) = (registry.for_scheduler(), registry.for_scheduler());
        assert_eq!([&one, &one, &other, &one].map(made), ["0", "1", "0", "2"]);
    }
}
