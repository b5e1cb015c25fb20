//! The handles that CSI drivers use for volumes of in-tree plugins.

use std::collections::BTreeSet;
use std::fmt;

use super::zones_of;
use crate::Labels;
use crate::storage::{InTreePlugin, InTreeVolume};

/// The placeholder for the project or zone that a GCE disk does not name.
const UNSPECIFIED: &str = "UNSPECIFIED";
/// Labels that name the zones of a GCE disk, in order of precedence.
const ZONE_LABELS: [&str; 2] =
    ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"];

/// The prefix of errors about the zones of a GCE disk.
const NO_REGION: &str = "failed to get region from zones";

/// The reason a volume of an in-tree plugin has no CSI handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TranslationError {
    /// The ID of an EBS volume is a URL without a volume name.
    EbsVolumeId(String),
    /// A GCE zone is not of the form `locale-region-zone`.
    GceZone(String),
    /// The zones of a GCE disk are in several regions.
    GceRegions(BTreeSet<String>),
}

impl fmt::Display for TranslationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EbsVolumeId(id) => write!(
                f,
                "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume \
                 ({id})"
            ),
            Self::GceZone(zone) => write!(
                f,
                "{NO_REGION}: zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, \
                 got: {zone}"
            ),
            Self::GceRegions(regions) => {
                let regions: Vec<_> =
                    regions.iter().map(|region| format!("{region}:{{}}")).collect();
                let regions = regions.join(" ");
                write!(
                    f,
                    "{NO_REGION}: multiple or no regions gotten from zones, got: map[{regions}]"
                )
            }
        }
    }
}

/// Returns the handle of a volume with this source and these labels.
pub(super) fn translated(
    volume: &InTreeVolume,
    labels: &Labels,
) -> Result<String, TranslationError> {
    match volume.plugin {
        InTreePlugin::AwsElasticBlockStore => ebs_volume(&volume.disk),
        InTreePlugin::GcePersistentDisk => gce_disk(&volume.disk, labels),
        _ => Ok(volume.disk.to_string()),
    }
}

/// Returns `vol-1` for `vol-1` and for `aws://zone/vol-1`.
fn ebs_volume(id: &str) -> Result<String, TranslationError> {
    let Some(location) = id.strip_prefix("aws://") else { return Ok(id.to_owned()) };
    let path = location.split(['?', '#']).next().unwrap_or_default();
    let name = path.split_once('/').map_or("", |(_zone, name)| name.trim_matches('/'));
    match name.starts_with("vol-") && !name.contains('/') {
        true => Ok(name.to_owned()),
        false => Err(TranslationError::EbsVolumeId(id.to_owned())),
    }
}

fn gce_disk(name: &str, labels: &Labels) -> Result<String, TranslationError> {
    let mut labels = ZONE_LABELS.iter().filter_map(|label| labels.get(label));
    let zones: Vec<_> =
        zones_of(labels.find(|zones| !zones.is_empty()).unwrap_or_default()).collect();
    let place = match zones[..] {
        [""] => format!("zones/{UNSPECIFIED}"),
        [zone] => format!("zones/{zone}"),
        _ => format!("regions/{}", gce_region(&zones)?),
    };
    Ok(format!("projects/{UNSPECIFIED}/{place}/disks/{name}"))
}

/// Returns the region of the zones. All zones must be in one region.
fn gce_region(zones: &[&str]) -> Result<String, TranslationError> {
    let region = |zone: &&str| match zone.split('-').collect::<Vec<_>>()[..] {
        [locale, region, _] => Ok(format!("{locale}-{region}")),
        _ => Err(TranslationError::GceZone((*zone).to_owned())),
    };
    let mut regions: BTreeSet<String> = zones.iter().map(region).collect::<Result<_, _>>()?;
    match regions.len() {
        1 => Ok(regions.pop_first().unwrap_or_default()),
        _ => Err(TranslationError::GceRegions(regions)),
    }
}
