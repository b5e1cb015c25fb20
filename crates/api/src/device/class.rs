//! DeviceClasses.

use std::sync::Arc;

use super::DeviceConfig;
use crate::{Time, api};

/// A condition on a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeviceSelector {
    /// An expression in CEL.
    Cel(Arc<str>),
    /// A condition of an unknown kind.
    Unknown,
}

impl DeviceSelector {
    pub(super) fn list(raw: &[api::DeviceSelector]) -> Box<[Self]> {
        let selectors = raw.iter().map(|selector| match &selector.cel {
            Some(cel) => Self::Cel(cel.expression.as_str().into()),
            None => Self::Unknown,
        });
        selectors.collect()
    }
}

/// A DeviceClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceClass {
    /// Name.
    pub name: Arc<str>,
    /// When the class was created; decides between classes of one extended resource.
    pub created: Option<Time>,
    /// Conditions on the devices of the class.
    pub selectors: Box<[DeviceSelector]>,
    /// Configuration of the devices of the class.
    pub config: Box<[DeviceConfig]>,
    /// The extended resource that the class provides, besides the implicit one.
    pub extended_resource_name: Option<Arc<str>>,
}

impl DeviceClass {
    /// Converts the API object.
    pub fn from_api(class: &api::DeviceClass) -> Self {
        let created = class.metadata.creation_timestamp.as_deref();
        let resource = class.spec.extended_resource_name.as_deref();
        Self {
            name: class.metadata.name.as_str().into(),
            created: created.and_then(|text| Time::parse_rfc3339(text).ok()),
            selectors: DeviceSelector::list(&class.spec.selectors),
            config: class.spec.config.iter().map(DeviceConfig::from_api).collect(),
            extended_resource_name: resource.filter(|name| !name.is_empty()).map(Into::into),
        }
    }
}
