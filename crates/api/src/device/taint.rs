//! Taints of devices and their tolerations.

use std::sync::Arc;

use super::DeviceId;
use crate::api;

/// DeviceTaintRules as a kind to watch. The plugin does so if their gate is on.
pub const DEVICE_TAINT_RULES: &str = kinds::DEVICE_TAINT_RULE.versioned_resource;

/// A taint of a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceTaint {
    /// Key.
    pub key: Arc<str>,
    /// Value.
    pub value: Arc<str>,
    /// `NoSchedule`, `NoExecute` or another effect, which is ignored.
    pub effect: Arc<str>,
}

impl DeviceTaint {
    /// Converts the API object.
    pub fn from_api(taint: &api::DeviceTaint) -> Self {
        Self {
            key: taint.key.as_str().into(),
            value: taint.value.as_str().into(),
            effect: taint.effect.as_str().into(),
        }
    }

    /// Returns whether the taint keeps the device from being allocated, unless it is tolerated.
    pub fn prevents_allocation(&self) -> bool {
        matches!(&*self.effect, "NoSchedule" | "NoExecute")
    }
}

/// A toleration of device taints.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceToleration {
    /// Key; empty for every key.
    pub key: Arc<str>,
    /// `Exists`, `Equal` or empty, which is `Equal`.
    pub operator: Arc<str>,
    /// Value.
    pub value: Arc<str>,
    /// Effect; empty for every effect.
    pub effect: Arc<str>,
    /// For how long `NoExecute` is tolerated, in seconds.
    pub toleration_seconds: Option<i64>,
}

impl DeviceToleration {
    /// Converts the API object.
    pub fn from_api(toleration: &api::DeviceToleration) -> Self {
        Self {
            key: toleration.key.as_str().into(),
            operator: toleration.operator.as_str().into(),
            value: toleration.value.as_str().into(),
            effect: toleration.effect.as_str().into(),
            toleration_seconds: toleration.toleration_seconds,
        }
    }

    /// Returns whether it tolerates the taint.
    pub fn tolerates(&self, taint: &DeviceTaint) -> bool {
        let value_fits = match &*self.operator {
            "Exists" => true,
            "" | "Equal" => self.value == taint.value,
            _ => false,
        };
        value_fits
            && (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
    }
}

/// A DeviceTaintRule: a taint that an administrator adds to devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTaintRule {
    /// Whether the rule has a selector, which may be empty.
    pub has_selector: bool,
    /// The driver; `None` for any.
    pub driver: Option<Arc<str>>,
    /// The pool; `None` for any.
    pub pool: Option<Arc<str>>,
    /// The device; `None` for any.
    pub device: Option<Arc<str>>,
    /// The taint.
    pub taint: DeviceTaint,
}

impl DeviceTaintRule {
    /// Converts the API object.
    pub fn from_api(rule: &api::DeviceTaintRule) -> Self {
        let selector = rule.spec.device_selector.clone().unwrap_or_default();
        Self {
            has_selector: rule.spec.device_selector.is_some(),
            driver: selector.driver.map(Into::into),
            pool: selector.pool.map(Into::into),
            device: selector.device.map(Into::into),
            taint: DeviceTaint::from_api(&rule.spec.taint),
        }
    }

    /// Returns whether the rule taints this device. A rule without a selector taints every one.
    pub fn selects(&self, id: &DeviceId) -> bool {
        let fits = |wanted: &Option<Arc<str>>, own| wanted.as_ref().is_none_or(|one| one == own);
        fits(&self.driver, &id.driver)
            && fits(&self.pool, &id.pool)
            && fits(&self.device, &id.device)
    }
}
