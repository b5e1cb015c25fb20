//! The columns of the kinds.

use framework::Time;
use serde_json::{Value, json};

use super::{age, descriptions, device, node, pod, storage, workloads};
use crate::object::{condition_status, text};
use crate::resources::Resource;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    description: &'static str,
    /// 1 for columns that only `-o wide` shows.
    priority: u8,
    /// The cell of an object.
    pub(super) cell: fn(&Value, Time) -> Value,
}

impl Column {
    /// Returns a column of text.
    pub(super) const fn text(
        name: &'static str,
        description: &'static str,
        cell: fn(&Value, Time) -> Value,
    ) -> Self {
        Self { name, kind: "string", format: "", description, priority: 0, cell }
    }

    /// Returns a column of integers.
    pub(super) const fn integer(
        name: &'static str,
        description: &'static str,
        cell: fn(&Value, Time) -> Value,
    ) -> Self {
        Self { kind: "integer", ..Self::text(name, description, cell) }
    }

    /// Returns a column of booleans.
    pub(super) const fn boolean(
        name: &'static str,
        description: &'static str,
        cell: fn(&Value, Time) -> Value,
    ) -> Self {
        Self { kind: "boolean", ..Self::text(name, description, cell) }
    }

    /// Returns the column for `-o wide` only.
    pub(super) const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }

    /// Returns the same with other cells.
    pub(super) const fn showing(self, cell: fn(&Value, Time) -> Value) -> Self {
        Self { cell, ..self }
    }

    /// Returns its entry in `columnDefinitions`.
    pub(super) fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }
}

/// The name.
pub(super) const NAME: Column = Column {
    format: "name",
    ..Column::text("Name", descriptions::NAME, |object, _| text(object, "/metadata/name").into())
};

/// The time since creation.
pub(super) const AGE: Column = Column::text("Age", descriptions::AGE, |object, now| {
    age::since(&object["metadata"]["creationTimestamp"], now).into()
});

/// The columns of kinds without their own.
const OTHERS: &[Column] = &[
    NAME,
    Column {
        kind: "date",
        ..Column::text("Created At", descriptions::AGE, |object, _| {
            object["metadata"]["creationTimestamp"].clone()
        })
    },
];

const NAMESPACE: &[Column] = &[
    NAME,
    Column::text("Status", "The status of the namespace", |namespace, _| {
        text(namespace, "/status/phase").into()
    }),
    AGE,
];

const CONFIG_MAP: &[Column] = &[
    NAME,
    Column::integer("Data", "Number of entries.", |object, _| {
        (count(object, "/data") + count(object, "/binaryData")).into()
    }),
    AGE,
];

const SECRET: &[Column] = &[
    NAME,
    Column::text("Type", "Used to tell kinds of secrets apart.", |object, _| {
        text(object, "/type").into()
    }),
    Column::integer("Data", "Number of entries.", |object, _| count(object, "/data").into()),
    AGE,
];

const LEASE: &[Column] = &[
    NAME,
    Column::text("Holder", "Who holds the lease.", |lease, _| {
        text(lease, "/spec/holderIdentity").into()
    }),
    AGE,
];

const PRIORITY_CLASS: &[Column] = &[
    NAME,
    Column::integer("Value", "Priority of pods of this class.", |class, _| class["value"].clone()),
    Column::boolean("Global-Default", "Whether pods without a class get it.", |class, _| {
        (class["globalDefault"] == true).into()
    }),
    AGE,
    Column::text("PreemptionPolicy", "Whether its pods may preempt.", |class, _| {
        text(class, "/preemptionPolicy").into()
    }),
];

const POD_GROUP: &[Column] = &[
    NAME,
    Column::text("Policy", "How its pods are scheduled.", |group, _| {
        match group.pointer("/spec/schedulingPolicy/gang") {
            Some(_) => "Gang",
            None => "Basic",
        }
        .into()
    }),
    Column::text("Workload", "The Workload that it was made for.", |group, _| {
        text_or(group, "/spec/podGroupTemplateRef/workload/workloadName", "<none>").into()
    }),
    Column::text("Status", "Whether its pods are scheduled.", |group, _| {
        let scheduled = ["PodGroupScheduled", "PodGroupInitiallyScheduled"];
        let mut of_scheduler = scheduled.iter().map(|name| condition_status(group, name));
        match of_scheduler.find(|status| !status.is_empty()) {
            Some("True") => "Scheduled",
            Some(_) => "Unschedulable",
            None => "Pending",
        }
        .into()
    }),
    AGE,
];

const FLOW_SCHEMA: &[Column] = &[
    NAME,
    Column::text("PriorityLevel", "The priority level of its requests.", |schema, _| {
        text(schema, "/spec/priorityLevelConfiguration/name").into()
    }),
    Column::integer("MatchingPrecedence", "Schemas of lower numbers match first.", |schema, _| {
        number(schema, "/spec/matchingPrecedence").into()
    }),
    Column::text("DistinguisherMethod", "How requests form flows.", |schema, _| {
        text_or(schema, "/spec/distinguisherMethod/type", "<none>").into()
    }),
    AGE,
];

const PRIORITY_LEVEL: &[Column] = &[
    NAME,
    Column::text("Type", "Whether requests are limited.", |level, _| {
        text(level, "/spec/type").into()
    }),
    Column::integer("NominalConcurrencyShares", "Its part of the server.", |level, _| {
        let shares = ["/spec/limited", "/spec/exempt"].map(|part| format!("{part}{SHARES}"));
        shares.iter().find_map(|pointer| level.pointer(pointer)).cloned().unwrap_or_default()
    }),
    AGE,
];

const SHARES: &str = "/nominalConcurrencyShares";

/// Returns the `columnDefinitions` of a resource.
pub(super) fn definitions(resource: &Resource) -> Vec<Value> {
    match resource.custom {
        Some(definition) => {
            std::iter::once(NAME.definition()).chain(definition.column_definitions()).collect()
        }
        None => of(resource).iter().map(Column::definition).collect(),
    }
}

/// Returns the cells of an object, one for each column.
pub(super) fn cells(resource: &Resource, object: &Value, now: Time) -> Vec<Value> {
    match resource.custom {
        Some(definition) => {
            let name = (NAME.cell)(object, now);
            std::iter::once(name).chain(definition.cells(object, now)).collect()
        }
        None => of(resource).iter().map(|column| (column.cell)(object, now)).collect(),
    }
}

/// Returns the columns of a built-in kind.
pub(super) fn of(resource: &Resource) -> &'static [Column] {
    match (resource.group, resource.plural) {
        ("", "pods") => pod::COLUMNS,
        ("", "nodes") => node::COLUMNS,
        ("", "namespaces") => NAMESPACE,
        ("", "configmaps") => CONFIG_MAP,
        ("", "secrets") => SECRET,
        ("", "services") => workloads::SERVICE,
        ("", "events") | ("events.k8s.io", "events") => workloads::EVENT,
        ("", "persistentvolumes") => storage::VOLUME,
        ("", "persistentvolumeclaims") => storage::CLAIM,
        ("", "replicationcontrollers") | ("apps", "replicasets") => workloads::REPLICA_SET,
        ("apps", "deployments") => workloads::DEPLOYMENT,
        ("apps", "statefulsets") => workloads::STATEFUL_SET,
        ("apps", "daemonsets") => workloads::DAEMON_SET,
        ("batch", "jobs") => workloads::JOB,
        ("policy", "poddisruptionbudgets") => workloads::DISRUPTION_BUDGET,
        ("storage.k8s.io", "storageclasses") => storage::CLASS,
        ("storage.k8s.io", "csidrivers") => storage::CSI_DRIVER,
        ("storage.k8s.io", "csinodes") => storage::CSI_NODE,
        ("storage.k8s.io", "csistoragecapacities") => storage::CSI_STORAGE_CAPACITY,
        ("storage.k8s.io", "volumeattachments") => storage::VOLUME_ATTACHMENT,
        ("scheduling.k8s.io", "podgroups") => POD_GROUP,
        ("scheduling.k8s.io", "priorityclasses") => PRIORITY_CLASS,
        ("coordination.k8s.io", "leases") => LEASE,
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => PRIORITY_LEVEL,
        ("resource.k8s.io", "resourceclaims") => device::CLAIM,
        ("resource.k8s.io", "resourceclaimtemplates") => device::CLAIM_TEMPLATE,
        ("resource.k8s.io", "deviceclasses") => device::CLASS,
        ("resource.k8s.io", "resourceslices") => device::SLICE,
        _ => OTHERS,
    }
}

fn count(object: &Value, pointer: &str) -> usize {
    object.pointer(pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

/// Returns the text at a JSON pointer, or `absent`.
pub(super) fn text_or<'a>(object: &'a Value, pointer: &str, absent: &'a str) -> &'a str {
    match text(object, pointer) {
        "" => absent,
        text => text,
    }
}

/// Returns a number at a JSON pointer, 0 if there is none.
pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    crate::object::number(object, pointer).unwrap_or_default()
}
