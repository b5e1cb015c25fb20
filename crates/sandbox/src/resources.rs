//! The resource table: the kinds that a scheduler reads or writes, and the kinds that users create
//! beside them.

use kinds::Kind;

use crate::custom::Definition;

/// A kind of object that the API serves: one row of the resource table.
#[derive(Debug, Clone, Copy)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// The served version.
    pub version: &'static str,
    /// Name in paths, for example `pods`.
    pub plural: &'static str,
    /// Singular name, for example `pod`.
    pub singular: &'static str,
    /// Kind, for example `Pod`.
    pub kind: &'static str,
    /// Short names for kubectl, for example `po`.
    pub short_names: &'static [&'static str],
    /// Categories it is listed in, for example `all`.
    pub categories: &'static [&'static str],
    /// Whether its objects belong to namespaces.
    pub namespaced: bool,
    /// Whether objects are stored; reviews and bindings are not.
    pub stored: bool,
    /// Subresources of its objects.
    pub subresources: &'static [Subresource],
    /// Whether `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// Whether DELETE answers with the deleted object instead of a Status.
    pub returns_deleted: bool,
    /// Field selectors besides `metadata.name` and `metadata.namespace`.
    pub fields: &'static [Field],
    /// Definition of a custom resource, `None` for a built-in one.
    pub custom: Option<&'static Definition>,
}

/// A subresource, for example `pods/binding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subresource {
    /// Last segment of the path.
    pub name: &'static str,
    /// Group of its kind, empty if it is the group of the resource.
    pub group: &'static str,
    /// Version of its kind, empty if it is the version of the resource.
    pub version: &'static str,
    /// Its kind, empty if it is the kind of the resource.
    pub kind: &'static str,
    /// Verbs that it supports.
    pub verbs: &'static [&'static str],
}

/// A field that objects can be selected by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name in the selector.
    pub label: &'static str,
    /// JSON pointer to it in the stored object.
    pub pointer: &'static str,
    /// Value of an object without the field.
    pub absent: &'static str,
}

const STORED_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The verbs of custom resources, in the order in which the API server lists them.
const CUSTOM_VERBS: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

impl Resource {
    pub(crate) const fn new(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        singular: &'static str,
        kind: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            plural,
            singular,
            kind,
            short_names: &[],
            categories: &[],
            namespaced: true,
            stored: true,
            subresources: &[],
            generation: false,
            returns_deleted: false,
            fields: &[],
            custom: None,
        }
    }

    const fn of(kind: &Kind) -> Self {
        let Kind { group, version, plural, singular, name, namespaced, .. } = *kind;
        Self { namespaced, ..Self::new(group, version, plural, singular, name) }
    }

    const fn in_version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    const fn answered_only(mut self) -> Self {
        self.stored = false;
        self
    }

    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    const fn in_all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    const fn with(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }

    const fn counted(mut self) -> Self {
        self.generation = true;
        self
    }

    const fn returned(mut self) -> Self {
        self.returns_deleted = true;
        self
    }

    const fn selected_by(mut self, fields: &'static [Field]) -> Self {
        self.fields = fields;
        self
    }

    /// Returns `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Returns resource and group as messages write them, for example
    /// `poddisruptionbudgets.policy`.
    pub fn qualified(&self) -> String {
        qualified(self.plural, self.group)
    }

    /// Returns kind and group as messages write them, for example `PodDisruptionBudget.policy`.
    pub fn qualified_kind(&self) -> String {
        qualified(self.kind, self.group)
    }

    /// Returns the verbs that it supports.
    pub fn verbs(&self) -> &'static [&'static str] {
        match (self.stored, self.plural) {
            _ if self.custom.is_some() => CUSTOM_VERBS,
            (false, _) => &["create"],
            (true, "namespaces") => NAMESPACE_VERBS,
            (true, _) => STORED_VERBS,
        }
    }

    /// Returns the kind of its lists.
    pub fn list_kind(&self) -> String {
        match self.custom {
            Some(definition) => definition.list_kind().to_owned(),
            None => format!("{}List", self.kind),
        }
    }

    /// Returns the subresource `name`.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Returns whether the status has a subresource.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Returns the resource under which its objects are stored: both groups of Events share one
    /// collection, and so do both versions of PodGroups.
    pub fn storage(&'static self) -> &'static Self {
        match self {
            _ if *self == *EVENTS_V1 => EVENTS,
            _ if *self == *PODGROUPS => PODGROUPS,
            _ => self,
        }
    }

    /// Whether its objects are stored in another group or version.
    pub(crate) fn is_converted(&'static self) -> bool {
        let storage = self.storage();
        (storage.group, storage.version) != (self.group, self.version)
    }
}

/// Resources are equal if their groups and names are; versions of a resource are equal.
impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        (self.plural, self.group) == (other.plural, other.group)
    }
}

impl Eq for Resource {}

/// Returns the resource named `plural` in `group`.
pub fn resource(group: &str, plural: &str) -> Option<&'static Resource> {
    ALL.iter().copied().find(|resource| resource.plural == plural && resource.group == group)
}

/// Returns every resource in every version that is served.
pub fn in_all_versions() -> impl Iterator<Item = &'static Resource> {
    ALL.iter().copied().chain([PODGROUPS_V1ALPHA2])
}

/// Returns the resource whose objects have this `apiVersion` and `kind`.
pub fn of_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    in_all_versions().find(|resource| {
        resource.kind == kind && resource.group == group && resource.version == version
    })
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

pub(crate) const STATUS: Subresource = Subresource {
    name: "status",
    group: "",
    version: "",
    kind: "",
    verbs: &["get", "patch", "update"],
};
const SCALE: Subresource =
    Subresource { name: "scale", group: "autoscaling", version: "v1", kind: "Scale", ..STATUS };
const BINDING: Subresource =
    Subresource { name: "binding", kind: "Binding", verbs: &["create"], ..STATUS };
const EVICTION: Subresource = Subresource {
    name: "eviction",
    group: "policy",
    version: "v1",
    kind: "Eviction",
    verbs: &["create"],
};
const LOG: Subresource = Subresource { name: "log", verbs: &["get"], ..STATUS };
const RESIZE: Subresource = Subresource { name: "resize", ..STATUS };
const TOKEN: Subresource = Subresource {
    name: "token",
    group: "authentication.k8s.io",
    version: "v1",
    kind: "TokenRequest",
    verbs: &["create"],
};

const fn field(label: &'static str, pointer: &'static str) -> Field {
    Field { label, pointer, absent: "" }
}

const fn flag(label: &'static str, pointer: &'static str) -> Field {
    Field { label, pointer, absent: "false" }
}

const fn number(label: &'static str, pointer: &'static str) -> Field {
    Field { label, pointer, absent: "0" }
}

const POD_FIELDS: &[Field] = &[
    field("spec.nodeName", "/spec/nodeName"),
    field("spec.restartPolicy", "/spec/restartPolicy"),
    field("spec.schedulerName", "/spec/schedulerName"),
    field("spec.serviceAccountName", "/spec/serviceAccountName"),
    flag("spec.hostNetwork", "/spec/hostNetwork"),
    field("status.phase", "/status/phase"),
    field("status.podIP", "/status/podIP"),
    field("status.nominatedNodeName", "/status/nominatedNodeName"),
];
const EVENT_FIELDS: &[Field] = &[
    field("involvedObject.kind", "/involvedObject/kind"),
    field("involvedObject.namespace", "/involvedObject/namespace"),
    field("involvedObject.name", "/involvedObject/name"),
    field("involvedObject.uid", "/involvedObject/uid"),
    field("involvedObject.apiVersion", "/involvedObject/apiVersion"),
    field("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
    field("involvedObject.fieldPath", "/involvedObject/fieldPath"),
    field("reason", "/reason"),
    field("reportingComponent", "/reportingComponent"),
    field("source", "/source/component"),
    field("type", "/type"),
];
const EVENT_V1_FIELDS: &[Field] = &[
    field("regarding.kind", "/involvedObject/kind"),
    field("regarding.namespace", "/involvedObject/namespace"),
    field("regarding.name", "/involvedObject/name"),
    field("regarding.uid", "/involvedObject/uid"),
    field("regarding.apiVersion", "/involvedObject/apiVersion"),
    field("regarding.resourceVersion", "/involvedObject/resourceVersion"),
    field("regarding.fieldPath", "/involvedObject/fieldPath"),
    field("reason", "/reason"),
    field("reportingController", "/reportingComponent"),
    field("type", "/type"),
];

/// Defines the resources as statics, and [`ALL`] in the same order.
macro_rules! resources {
    ($($(#[$doc:meta])* $name:ident = $resource:expr;)*) => {
        $($(#[$doc])* pub static $name: &Resource = &$resource;)*

        /// Every resource in the version that is stored, by group in the order of discovery and
        /// by name.
        pub static ALL: &[&Resource] = &[$($name),*];
    };
}

resources! {
    /// Bindings of pods, the older form of `pods/binding`.
    BINDINGS = Resource::of(kinds::BINDING).answered_only();
    /// ConfigMaps.
    CONFIGMAPS = Resource::of(kinds::CONFIG_MAP).short(&["cm"]);
    /// Endpoints.
    ENDPOINTS = Resource::of(kinds::ENDPOINTS).short(&["ep"]);
    /// Events; events of `events.k8s.io` are stored in this form.
    EVENTS = Resource::of(kinds::EVENT).short(&["ev"]).selected_by(EVENT_FIELDS);
    /// LimitRanges.
    LIMITRANGES = Resource::of(kinds::LIMIT_RANGE).short(&["limits"]);
    /// Namespaces.
    NAMESPACES = Resource::of(kinds::NAMESPACE)
        .short(&["ns"]).with(&[STATUS]).returned()
        .selected_by(&[field("status.phase", "/status/phase")]);
    /// Nodes.
    NODES = Resource::of(kinds::NODE)
        .short(&["no"]).with(&[STATUS])
        .selected_by(&[flag("spec.unschedulable", "/spec/unschedulable")]);
    /// PersistentVolumeClaims.
    PERSISTENTVOLUMECLAIMS = Resource::of(kinds::PERSISTENT_VOLUME_CLAIM)
        .short(&["pvc"]).with(&[STATUS]).returned();
    /// PersistentVolumes.
    PERSISTENTVOLUMES = Resource::of(kinds::PERSISTENT_VOLUME)
        .short(&["pv"]).with(&[STATUS]).returned();
    /// Pods.
    PODS = Resource::of(kinds::POD)
        .short(&["po"]).in_all().with(&[BINDING, EVICTION, LOG, RESIZE, STATUS])
        .counted().returned()
        .selected_by(POD_FIELDS);
    /// PodTemplates.
    PODTEMPLATES = Resource::of(kinds::POD_TEMPLATE).counted().returned();
    /// ReplicationControllers.
    REPLICATIONCONTROLLERS = Resource::of(kinds::REPLICATION_CONTROLLER)
        .short(&["rc"]).in_all().with(&[SCALE, STATUS]).counted()
        .selected_by(&[number("status.replicas", "/status/replicas")]);
    /// ResourceQuotas.
    RESOURCEQUOTAS = Resource::of(kinds::RESOURCE_QUOTA)
        .short(&["quota"]).with(&[STATUS]).returned();
    /// Secrets.
    SECRETS = Resource::of(kinds::SECRET).selected_by(&[field("type", "/type")]);
    /// ServiceAccounts.
    SERVICEACCOUNTS = Resource::of(kinds::SERVICE_ACCOUNT).short(&["sa"]).with(&[TOKEN]).returned();
    /// Services.
    SERVICES = Resource::of(kinds::SERVICE)
        .short(&["svc"]).in_all().with(&[STATUS]).returned()
        .selected_by(&[
            field("spec.clusterIP", "/spec/clusterIP"),
            field("spec.type", "/spec/type"),
        ]);

    /// CustomResourceDefinitions.
    CUSTOMRESOURCEDEFINITIONS = Resource::of(kinds::CUSTOM_RESOURCE_DEFINITION)
        .short(&["crd", "crds"]).with(&[STATUS]).counted().returned();

    /// ControllerRevisions.
    CONTROLLERREVISIONS = Resource::of(kinds::CONTROLLER_REVISION);
    /// DaemonSets.
    DAEMONSETS = Resource::of(kinds::DAEMON_SET).short(&["ds"]).in_all().with(&[STATUS]).counted();
    /// Deployments.
    DEPLOYMENTS = Resource::of(kinds::DEPLOYMENT)
        .short(&["deploy"]).in_all().with(&[SCALE, STATUS]).counted();
    /// ReplicaSets.
    REPLICASETS = Resource::of(kinds::REPLICA_SET)
        .short(&["rs"]).in_all().with(&[SCALE, STATUS]).counted()
        .selected_by(&[number("status.replicas", "/status/replicas")]);
    /// StatefulSets.
    STATEFULSETS = Resource::of(kinds::STATEFUL_SET)
        .short(&["sts"]).in_all().with(&[SCALE, STATUS]).counted();

    /// Events of `events.k8s.io`, another form of [`EVENTS`].
    EVENTS_V1 = Resource::of(kinds::EVENT_OF_EVENTS).short(&["ev"]).selected_by(EVENT_V1_FIELDS);

    /// SelfSubjectReviews: the user of the request.
    SELFSUBJECTREVIEWS = Resource::of(kinds::SELF_SUBJECT_REVIEW).answered_only();
    /// TokenReviews: the user of a token.
    TOKENREVIEWS = Resource::of(kinds::TOKEN_REVIEW).answered_only();
    /// LocalSubjectAccessReviews: permissions of a user in one namespace.
    LOCALSUBJECTACCESSREVIEWS = Resource::of(kinds::LOCAL_SUBJECT_ACCESS_REVIEW).answered_only();
    /// SelfSubjectAccessReviews: one permission of the caller.
    SELFSUBJECTACCESSREVIEWS = Resource::of(kinds::SELF_SUBJECT_ACCESS_REVIEW).answered_only();
    /// SelfSubjectRulesReviews: all permissions of the caller.
    SELFSUBJECTRULESREVIEWS = Resource::of(kinds::SELF_SUBJECT_RULES_REVIEW).answered_only();
    /// SubjectAccessReviews: one permission of a user.
    SUBJECTACCESSREVIEWS = Resource::of(kinds::SUBJECT_ACCESS_REVIEW).answered_only();

    /// HorizontalPodAutoscalers; no controller acts on them.
    HORIZONTALPODAUTOSCALERS = Resource::of(kinds::HORIZONTAL_POD_AUTOSCALER)
        .short(&["hpa"]).in_all().with(&[STATUS]);

    /// CronJobs; no controller acts on them.
    CRONJOBS = Resource::of(kinds::CRON_JOB).short(&["cj"]).in_all().with(&[STATUS]).counted();
    /// Jobs.
    JOBS = Resource::of(kinds::JOB)
        .in_all().with(&[STATUS]).counted()
        .selected_by(&[number("status.successful", "/status/succeeded")]);

    /// Ingresses.
    INGRESSES = Resource::of(kinds::INGRESS).short(&["ing"]).with(&[STATUS]).counted();
    /// IngressClasses.
    INGRESSCLASSES = Resource::of(kinds::INGRESS_CLASS).counted();
    /// NetworkPolicies.
    NETWORKPOLICIES = Resource::of(kinds::NETWORK_POLICY).short(&["netpol"]).counted();

    /// PodDisruptionBudgets.
    PODDISRUPTIONBUDGETS = Resource::of(kinds::POD_DISRUPTION_BUDGET)
        .short(&["pdb"]).with(&[STATUS]).counted();

    /// ClusterRoleBindings.
    CLUSTERROLEBINDINGS = Resource::of(kinds::CLUSTER_ROLE_BINDING);
    /// ClusterRoles.
    CLUSTERROLES = Resource::of(kinds::CLUSTER_ROLE);
    /// RoleBindings.
    ROLEBINDINGS = Resource::of(kinds::ROLE_BINDING);
    /// Roles.
    ROLES = Resource::of(kinds::ROLE);

    /// CSIDrivers.
    CSIDRIVERS = Resource::of(kinds::CSI_DRIVER).counted().returned();
    /// CSINodes.
    CSINODES = Resource::of(kinds::CSI_NODE).returned();
    /// CSIStorageCapacities.
    CSISTORAGECAPACITIES = Resource::of(kinds::CSI_STORAGE_CAPACITY).returned();
    /// StorageClasses.
    STORAGECLASSES = Resource::of(kinds::STORAGE_CLASS).short(&["sc"]).returned();
    /// VolumeAttachments.
    VOLUMEATTACHMENTS = Resource::of(kinds::VOLUME_ATTACHMENT).with(&[STATUS]).returned();
    /// VolumeAttributesClasses.
    VOLUMEATTRIBUTESCLASSES = Resource::of(kinds::VOLUME_ATTRIBUTES_CLASS)
        .short(&["vac"]).returned();

    /// PodGroups, in the version of Kubernetes 1.37 ([that of 1.36](PODGROUPS_V1ALPHA2)).
    PODGROUPS = Resource::of(kinds::POD_GROUP).in_version("v1beta1").with(&[STATUS]).counted();
    /// PriorityClasses.
    PRIORITYCLASSES = Resource::of(kinds::PRIORITY_CLASS).short(&["pc"]).counted();

    /// Leases.
    LEASES = Resource::of(kinds::LEASE);

    /// RuntimeClasses.
    RUNTIMECLASSES = Resource::of(kinds::RUNTIME_CLASS);

    /// FlowSchemas; the server stores them and queues no request.
    FLOWSCHEMAS = Resource::of(kinds::FLOW_SCHEMA).with(&[STATUS]).counted();
    /// PriorityLevelConfigurations.
    PRIORITYLEVELCONFIGURATIONS = Resource::of(kinds::PRIORITY_LEVEL_CONFIGURATION)
        .with(&[STATUS]).counted();

    /// EndpointSlices.
    ENDPOINTSLICES = Resource::of(kinds::ENDPOINT_SLICE).counted();

    /// DeviceClasses.
    DEVICECLASSES = Resource::of(kinds::DEVICE_CLASS).counted().returned();
    /// DeviceTaintRules, which an API server serves if this beta version is enabled.
    DEVICETAINTRULES = Resource::of(kinds::DEVICE_TAINT_RULE).counted().with(&[STATUS]).returned();
    /// ResourceClaims.
    RESOURCECLAIMS = Resource::of(kinds::RESOURCE_CLAIM).with(&[STATUS]).returned();
    /// ResourceClaimTemplates.
    RESOURCECLAIMTEMPLATES = Resource::of(kinds::RESOURCE_CLAIM_TEMPLATE).returned();
    /// ResourceSlices.
    RESOURCESLICES = Resource::of(kinds::RESOURCE_SLICE)
        .counted().returned()
        .selected_by(&[
            field("spec.nodeName", "/spec/nodeName"),
            field("spec.driver", "/spec/driver"),
        ]);
}

/// [PodGroups](PODGROUPS) in the version of Kubernetes 1.36, which an API server serves if this
/// alpha version is enabled.
pub static PODGROUPS_V1ALPHA2: &Resource =
    &Resource::of(kinds::POD_GROUP).with(&[STATUS]).counted();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_found_by_group_and_name_and_by_kind() {
        assert_eq!(resource("", "pods"), Some(PODS));
        assert_eq!(resource("apps", "pods"), None);
        assert_eq!(of_kind("events.k8s.io/v1", "Event"), Some(EVENTS_V1));
        assert_eq!(of_kind("events.k8s.io/v2", "Event"), None);
    }

    #[test]
    fn no_resource_is_listed_twice() {
        for (index, one) in ALL.iter().enumerate() {
            assert!(!ALL[index + 1..].contains(one), "{}", one.qualified());
        }
    }

    #[test]
    fn both_groups_of_events_and_both_versions_of_pod_groups_share_one_collection() {
        assert_eq!(EVENTS_V1.storage(), EVENTS);
        assert_eq!(PODGROUPS_V1ALPHA2.storage().version, "v1beta1");
        for (resource, is_converted) in
            [(EVENTS_V1, true), (PODGROUPS_V1ALPHA2, true), (PODGROUPS, false), (PODS, false)]
        {
            assert_eq!(resource.is_converted(), is_converted, "{}", resource.qualified());
        }
        let alpha = of_kind("scheduling.k8s.io/v1alpha2", "PodGroup").unwrap();
        assert_eq!(alpha.version, "v1alpha2");
    }
}
