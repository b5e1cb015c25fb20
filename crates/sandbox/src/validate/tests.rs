//! Objects and their faults.

use framework::merge_patch;
use serde_json::json;

use super::*;
use crate::defaults;
use crate::recorded;
use crate::resources;

/// Returns `path: message` of all faults of a new object, after defaulting.
fn faults(resource: &Resource, object: Value) -> Vec<String> {
    let mut object = object;
    defaults::set_defaults(resource, &mut object);
    messages(create(resource, &object))
}

fn messages(result: Result<(), Status>) -> Vec<String> {
    match result {
        Ok(()) => Vec::new(),
        Err(status) if status.code == 422 => {
            status.details.unwrap().causes.iter().map(ToString::to_string).collect()
        }
        Err(status) => vec![status.message],
    }
}

fn pod(change: &Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec})
}

#[test]
fn recorded_objects_are_valid_and_recorded_faults_have_their_texts() {
    for dialogue in recorded::dialogues().iter().filter(|it| it.creates()) {
        if dialogue.resource() != resources::EVENTS_V1 {
            assert_eq!(create(dialogue.resource(), dialogue.response_body()), Ok(()));
        }
    }
    let Some(dialogue) = recorded::dialogue("create pod invalid: 422") else { return };
    let mut pod = dialogue.request_body().clone();
    pod["metadata"]["namespace"] = json!("default");
    let refused = create(resources::PODS, &pod).unwrap_err();
    assert_eq!(&refused.to_value(), dialogue.response_body());
}

#[test]
fn plain_pod_is_valid() {
    assert_eq!(faults(resources::PODS, pod(&json!({}))), [""; 0]);
}

#[test]
fn stateful_set_may_mount_the_claims_of_its_pods() {
    let container =
        json!({"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
    let set = json!({
        "metadata": {"name": "x", "namespace": "n"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    assert_eq!(faults(resources::STATEFULSETS, set.clone()), [""; 0]);
    assert_eq!(
        faults(resources::REPLICASETS, set),
        ["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\""]
    );
}

#[test]
fn names_and_labels_must_have_their_forms() {
    let object = |metadata: Value| json!({"metadata": metadata});
    let cases = [
        (
            resources::NODES,
            json!({}),
            "metadata.name: Required value: name or generateName is required",
        ),
        (
            resources::NODES,
            json!({"name": "n", "namespace": "x"}),
            "metadata.namespace: Forbidden: not allowed on this type",
        ),
        (
            resources::NODES,
            json!({"name": "n", "labels": {"a": "-"}}),
            "metadata.labels: Invalid value: \"-\": a valid label must be an empty string or \
             consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ];
    for (resource, metadata, expected) in cases {
        assert_eq!(faults(resource, object(metadata)), [expected]);
    }
    let two = json!({"name": "n", "ownerReferences": [
        {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": true},
        {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": true},
    ]});
    let found = faults(resources::NODES, object(two));
    assert!(found[0].contains("Only one reference can have Controller set to true"), "{found:?}");
}

#[test]
fn pods_must_follow_their_rules() {
    let resources = |requests: Value, limits: Value| {
        json!({"containers": [{"name": "c", "image": "i", "resources": {
            "requests": requests, "limits": limits,
        }}]})
    };
    let cases = [
        (json!({"containers": [{"name": "c"}]}), "spec.containers[0].image: Required value"),
        (
            json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}),
            "spec.containers[1].name: Duplicate value: \"c\"",
        ),
        (
            json!({"containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 70000}]},
            ]}),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 \
             and 65535, inclusive",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "volumeMounts": [
                {"name": "v", "mountPath": "/"},
            ]}]}),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            resources(json!({"cpu": "2"}), json!({"cpu": "1"})),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or \
             equal to cpu limit of 1",
        ),
        (
            resources(json!({"x.io/gpu": "1"}), json!({"x.io/gpu": "2"})),
            "spec.containers[0].resources.requests: Invalid value: \"1\": must be equal to \
             x.io/gpu limit of 2",
        ),
        (
            resources(json!({"x.io/gpu": "1"}), json!({})),
            "spec.containers[0].resources.limits: Required value: Limit must be set for non \
             overcommitable resources",
        ),
        (
            resources(json!({"cpu": "-1"}), json!({})),
            "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater \
             than or equal to 0",
        ),
        (
            json!({"restartPolicy": "Sometimes"}),
            "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \
             \"OnFailure\", \"Never\"",
        ),
        (
            json!({"nodeName": "n", "schedulingGates": [{"name": "g"}]}),
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ),
        (
            json!({"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]}),
            "spec.tolerations[0].operator: Invalid value: \"Exists\": value must be empty when \
             `operator` is 'Exists'",
        ),
        (
            json!({"tolerations": [{"key": "k", "tolerationSeconds": 1, "effect": "NoSchedule"}]}),
            "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be \
             'NoExecute' when `tolerationSeconds` is set",
        ),
        (
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []},
            }}}),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.\
             nodeSelectorTerms: Required value: must have at least one node selector term",
        ),
        (
            json!({"affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}],
            }}}),
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].\
             topologyKey: Required value: can not be empty",
        ),
        (
            json!({"topologySpreadConstraints": [
                {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
            ]}),
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than \
             zero",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(faults(resources::PODS, pod(&change)), [expected]);
    }
}

#[test]
fn other_kinds_must_follow_their_rules() {
    let named = |mut object: Value, namespace: &str| {
        object["metadata"] = json!({"name": "x", "namespace": namespace});
        object
    };
    let template = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let cases = [
        (
            resources::NODES,
            named(json!({"spec": {"taints": [{"key": "k", "effect": "Never"}]}}), ""),
            "spec.taints[0].effect: Unsupported value: \"Never\": supported values: \
             \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
        ),
        (
            resources::REPLICASETS,
            named(json!({"spec": {"template": template}}), "n"),
            "spec.selector: Required value",
        ),
        (
            resources::REPLICASETS,
            named(
                json!({"spec": {"selector": {"matchLabels": {"a": "c"}}, "template": template}}),
                "n",
            ),
            "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not \
             match template `labels`",
        ),
        (
            resources::JOBS,
            named(json!({"spec": {"template": template}}), "n"),
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \
             \"Never\"",
        ),
        (
            resources::PODDISRUPTIONBUDGETS,
            named(json!({"spec": {"minAvailable": "x"}}), "n"),
            "spec.minAvailable: Invalid value: \"x\": a valid percent string must be a numeric \
             string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation \
             is '[0-9]+%')",
        ),
        (
            resources::PRIORITYCLASSES,
            named(json!({"value": 2_000_000_000}), ""),
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ),
        (resources::STORAGECLASSES, named(json!({}), ""), "provisioner: Required value"),
    ];
    for (resource, mut object, expected) in cases {
        if !resource.namespaced {
            object["metadata"].as_object_mut().unwrap().remove("namespace");
        }
        assert_eq!(faults(resource, object), [expected]);
    }
}

#[test]
fn objects_of_another_shape_are_bad_requests() {
    let cases = [
        json!({"metadata": {"name": "p", "labels": {"a": 1}}}),
        json!({"metadata": {"name": "p"}, "spec": {"containers": "x"}}),
        json!({"metadata": 1}),
        pod(&json!({"overhead": {"cpu": "much"}})),
        json!("pod"),
    ];
    for object in cases {
        assert_eq!(create(resources::PODS, &object).unwrap_err().code, 400, "{object}");
    }
}

fn changed(from: &Value, to: &Value) -> Vec<String> {
    let object = |spec: &Value| {
        let mut object = pod(spec);
        defaults::set_defaults(resources::PODS, &mut object);
        object
    };
    messages(update(resources::PODS, &object(from), &object(to)))
}

#[test]
fn only_a_few_fields_of_a_pod_may_change() {
    let image = |image: &str| json!({"containers": [{"name": "c", "image": image}]});
    let pull = |image: &str| {
        let container = json!({"name": "c", "image": image, "imagePullPolicy": "Always"});
        json!({"containers": [container]})
    };
    let gates = |names: &[&str]| {
        let gates: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"schedulingGates": gates})
    };
    let toleration = json!({"key": "k", "operator": "Exists"});
    let allowed = [
        (pull("a"), pull("b")),
        (gates(&["a", "b"]), gates(&["b"])),
        (json!({}), json!({"tolerations": [toleration]})),
        (json!({}), json!({"activeDeadlineSeconds": 5})),
        (
            json!({"schedulingGates": [{"name": "a"}], "nodeSelector": {"a": "b"}}),
            json!({"schedulingGates": [{"name": "a"}], "nodeSelector": {"a": "b", "c": "d"}}),
        ),
    ];
    for (from, to) in allowed {
        assert_eq!(changed(&from, &to), [""; 0], "{from} to {to}");
    }
    let refused = [
        (
            gates(&["a"]),
            gates(&["b"]),
            "spec.schedulingGates[0]: Forbidden: only deletion is allowed, but found new \
             scheduling gate 'b'",
        ),
        (
            json!({"tolerations": [toleration]}),
            json!({}),
            "spec.tolerations: Forbidden: existing toleration can not be modified except its \
             tolerationSeconds",
        ),
        (
            json!({"activeDeadlineSeconds": 5}),
            json!({"activeDeadlineSeconds": 6}),
            "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous \
             value",
        ),
        (
            json!({"schedulingGates": [{"name": "a"}], "nodeSelector": {"a": "b"}}),
            json!({"schedulingGates": [{"name": "a"}]}),
            "spec.nodeSelector: Invalid value: null: only additions to spec.nodeSelector are \
             allowed (no mutations or deletions)",
        ),
    ];
    for (from, to, expected) in refused {
        assert_eq!(changed(&from, &to), [expected], "{from} to {to}");
    }
    for (from, to) in [
        (json!({}), json!({"nodeName": "n"})),
        (json!({}), json!({"nodeSelector": {"a": "b"}})),
        (json!({}), json!({"schedulerName": "other"})),
        (image("a"), image("b:1")),
    ] {
        let found = changed(&from, &to);
        assert!(found[0].starts_with("spec: Forbidden: pod updates may not"), "{to}: {found:?}");
    }
}

#[test]
fn changed_scheduler_name_is_refused_with_the_recorded_text() {
    let Some(dialogue) = recorded::dialogue("immutable field: 422") else { return };
    let found =
        changed(&json!({"schedulerName": "loadmaster"}), &json!({"schedulerName": "other"}));
    let recorded = dialogue.response_body()["details"]["causes"][0]["message"].as_str().unwrap();
    let (rule, changes) = found[0].strip_prefix("spec: ").unwrap().split_once('\n').unwrap();
    assert_eq!(Some(rule), recorded.lines().next());
    assert!(changes.lines().all(|line| recorded.lines().any(|recorded| recorded == line)));
}

#[test]
fn identities_and_selectors_are_immutable() {
    let object = |uid: &str, app: &str| {
        json!({
            "metadata": {"name": "x", "namespace": "n", "uid": uid},
            "spec": {
                "selector": {"matchLabels": {"app": app}},
                "template": {
                    "metadata": {"labels": {"app": app}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            },
        })
    };
    let updated = |new: &Value| messages(update(resources::REPLICASETS, &object("1", "a"), new));
    assert_eq!(updated(&object("1", "a")), [""; 0]);
    assert_eq!(
        updated(&object("2", "a")),
        ["metadata.uid: Invalid value: \"2\": field is immutable"]
    );
    assert_eq!(
        updated(&object("1", "b")),
        ["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable"]
    );
}

fn volume_spec(change: &Value) -> Value {
    let mut spec = json!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
    });
    merge_patch(&mut spec, change);
    spec
}

fn claim_spec(change: &Value) -> Value {
    let mut spec = json!({
        "resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"],
    });
    merge_patch(&mut spec, change);
    spec
}

#[test]
fn volumes_and_claims_must_follow_their_rules() {
    let faults_of_volume = |change: Value| {
        let metadata = json!({"name": "x"});
        faults(
            resources::PERSISTENTVOLUMES,
            json!({"metadata": metadata, "spec": volume_spec(&change)}),
        )
    };
    for (change, expected) in [
        (json!({"accessModes": []}), "spec.accessModes: Required value"),
        (json!({"hostPath": null}), "spec: Required value: must specify a volume type"),
        (
            json!({"csi": {"driver": "d", "volumeHandle": "h"}}),
            "spec.hostPath: Forbidden: may not specify more than 1 volume type",
        ),
        (
            json!({"hostPath": null, "local": {"path": "/data"}}),
            "spec.nodeAffinity: Required value: Local volume requires node affinity",
        ),
    ] {
        assert_eq!(faults_of_volume(change.clone()), [expected], "{change}");
    }
    for (modes, expected) in [
        (json!([]), "spec.accessModes: Required value: at least 1 access mode is required"),
        (
            json!(["Write"]),
            "spec.accessModes: Unsupported value: \"Write\": supported values: \"ReadOnlyMany\", \
             \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
        ),
        (
            json!(["ReadWriteOncePod", "ReadOnlyMany"]),
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
        ),
    ] {
        let metadata = json!({"name": "x", "namespace": "n"});
        let spec = claim_spec(&json!({"accessModes": modes}));
        let found =
            faults(resources::PERSISTENTVOLUMECLAIMS, json!({"metadata": metadata, "spec": spec}));
        assert_eq!(found, [expected]);
    }
}

#[test]
fn claims_change_only_once_or_when_bound() {
    let claim = |phase: &str, change: &Value| {
        json!({"metadata": {"name": "x", "namespace": "n"}, "spec": claim_spec(change),
            "status": {"phase": phase}})
    };
    let size = |size: &str| json!({"resources": {"requests": {"storage": size}}});
    for (phase, from, to, is_allowed) in [
        ("Pending", json!({}), json!({"volumeName": "a"}), true),
        ("Bound", json!({"volumeName": "a"}), json!({"volumeName": "b"}), false),
        ("Pending", json!({}), json!({"storageClassName": "a"}), true),
        ("Pending", json!({"storageClassName": ""}), json!({"storageClassName": "a"}), false),
        ("Bound", size("1Gi"), size("2Gi"), true),
        ("Pending", size("1Gi"), size("2Gi"), false),
        ("Pending", json!({}), json!({"accessModes": ["ReadOnlyMany"]}), false),
    ] {
        let (old, new) = (claim(phase, &from), claim(phase, &to));
        let found = messages(update(resources::PERSISTENTVOLUMECLAIMS, &old, &new));
        let refused = "spec: Forbidden: spec is immutable after creation except \
                       resources.requests and volumeAttributesClassName for bound claims";
        let expected = if is_allowed { vec![] } else { vec![refused] };
        assert_eq!(found, expected, "{phase}: {from} to {to}");
    }
}

#[test]
fn volume_sources_are_immutable() {
    let terms = |zone: &str| {
        let zone = json!([{"key": "zone", "operator": "In", "values": [zone]}]);
        json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": zone}]}}})
    };
    for (from, to, expected) in [
        (json!({}), json!({"claimRef": {"namespace": "n", "name": "c"}}), None),
        (json!({}), terms("a"), None),
        (terms("a"), terms("b"), Some("nodeAffinity: Invalid value: ")),
        (json!({}), json!({"volumeMode": "Block"}), Some("volumeMode: Invalid value: \"Block\"")),
        (
            json!({}),
            json!({"hostPath": {"path": "/other"}}),
            Some(
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable \
                 after creation",
            ),
        ),
    ] {
        let volume = |change| json!({"metadata": {"name": "x"}, "spec": volume_spec(change)});
        let found = messages(update(resources::PERSISTENTVOLUMES, &volume(&from), &volume(&to)));
        let begins = |(found, expected): (&String, &str)| found.starts_with(expected);
        assert!(found.len() == expected.iter().len(), "{found:?}");
        assert!(found.iter().zip(expected).all(begins), "{found:?}");
    }
}

#[test]
fn other_storage_objects_are_immutable() {
    let object = |fields: Value| {
        let mut object = json!({"metadata": {"name": "x", "namespace": "n"},
            "provisioner": "p", "volumeBindingMode": "Immediate", "storageClassName": "c",
            "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
        merge_patch(&mut object, &fields);
        object
    };
    for (resource, change, expected) in [
        (
            resources::STORAGECLASSES,
            json!({"volumeBindingMode": "WaitForFirstConsumer"}),
            "volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable",
        ),
        (
            resources::STORAGECLASSES,
            json!({"provisioner": "q"}),
            "provisioner: Forbidden: updates to provisioner are forbidden.",
        ),
        (
            resources::CSISTORAGECAPACITIES,
            json!({"storageClassName": "d"}),
            "storageClassName: Invalid value: \"d\": field is immutable",
        ),
        (
            resources::VOLUMEATTACHMENTS,
            json!({"spec": {"nodeName": "m"}}),
            "spec: Invalid value: {\"attacher\":\"a\",\"nodeName\":\"m\",\"source\":\
             {\"persistentVolumeName\":\"v\"}}: field is immutable",
        ),
    ] {
        let found = messages(update(resource, &object(json!({})), &object(change)));
        assert_eq!(found, [expected]);
    }
    let more = object(json!({"capacity": "2Gi"}));
    assert_eq!(update(resources::CSISTORAGECAPACITIES, &object(json!({})), &more), Ok(()));
}

#[test]
fn flow_schemas_and_priority_levels_are_checked() {
    let schema =
        |spec: Value| (resources::FLOWSCHEMAS, json!({"metadata": {"name": "x"}, "spec": spec}));
    let level = |spec: Value| {
        (resources::PRIORITYLEVELCONFIGURATIONS, json!({"metadata": {"name": "x"}, "spec": spec}))
    };
    let subjects = json!([{"kind": "ServiceAccount",
        "serviceAccount": {"name": "loadmaster", "namespace": "kube-system"}}]);
    let rules = json!([{"verbs": ["*"], "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"], "namespaces": ["kube-system"]}]);
    let to = json!({"name": "leader-election"});
    let response =
        |kind: &str| json!({"type": "Limited", "limited": {"limitResponse": {"type": kind}}});
    let table = [
        (
            schema(json!({"priorityLevelConfiguration": to, "matchingPrecedence": 200,
                "distinguisherMethod": {"type": "ByUser"},
                "rules": [{"subjects": subjects, "resourceRules": rules}]})),
            &[][..],
        ),
        (
            schema(json!({"matchingPrecedence": 0, "distinguisherMethod": {"type": "ByPod"},
                "rules": [{"subjects": subjects}]})),
            &[
                "spec.matchingPrecedence: Invalid value: 0: must be between 1 and 10000, inclusive",
                "spec.priorityLevelConfiguration.name: Required value",
                "spec.distinguisherMethod.type: Unsupported value: \"ByPod\": supported values: \
                 \"ByNamespace\", \"ByUser\"",
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules \
                 has to be non-empty",
            ],
        ),
        (level(response("Reject")), &[]),
        (
            level(response("Queue")),
            &[
                "spec.limited.limitResponse.queuing: Required value: must not be empty if and only if \
               limited.limitResponse.type is Queue",
            ],
        ),
        (
            level(json!({"type": "Limited"})),
            &["spec.limited: Required value: must not be empty when type is Limited"],
        ),
    ];
    for ((resource, object), expected) in table {
        assert_eq!(faults(resource, object.clone()), expected, "{object}");
    }
}

/// Returns a claim with this request for devices.
fn device_claim(request: &Value) -> Value {
    json!({"metadata": {"name": "c", "namespace": "n"}, "spec": {"devices": {"requests": [request]}}})
}

#[test]
fn claims_for_devices_have_requests_of_one_form() {
    let exactly = |exactly: Value| json!({"name": "r", "exactly": exactly});
    let selector = |expression: &str| json!([{"cel": {"expression": expression}}]);
    let alternative = json!({"name": "a", "deviceClassName": "gpu"});
    let cases = [
        (exactly(json!({"deviceClassName": "gpu"})), ""),
        (json!({"name": "r", "firstAvailable": [alternative]}), ""),
        (
            json!({"name": "r"}),
            "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` \
             is required",
        ),
        (
            json!({"name": "r", "firstAvailable": [alternative, alternative]}),
            "spec.devices.requests[0].firstAvailable[1]: Duplicate value: \"a\"",
        ),
        (
            exactly(json!({"deviceClassName": "gpu", "allocationMode": "All", "count": 2})),
            "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when \
             allocationMode is 'All'",
        ),
        (
            exactly(json!({"deviceClassName": "gpu", "count": -1})),
            "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero",
        ),
        (
            exactly(json!({"deviceClassName": "gpu", "allocationMode": "Some"})),
            "spec.devices.requests[0].exactly.allocationMode: Unsupported value: \"Some\": supported \
             values: \"All\", \"ExactCount\"",
        ),
        (
            exactly(json!({"deviceClassName": "gpu", "selectors": selector("device.driver")})),
            "spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: \
             \"device.driver\": must evaluate to bool or the unknown type, not string",
        ),
    ];
    for (request, expected) in cases {
        let found = faults(resources::RESOURCECLAIMS, device_claim(&request));
        assert_eq!(found.join("; "), expected, "{request}");
    }
    let mut claim = device_claim(&exactly(json!({"deviceClassName": "gpu"})));
    claim["spec"]["devices"]["constraints"] =
        json!([{"requests": ["r", "s"], "matchAttribute": "d.io/model"}]);
    let expected = "spec.devices.constraints[0].requests[1]: Invalid value: \"s\": must be the name \
                    of a request in the claim or the name of a request and a subrequest separated \
                    by '/'";
    assert_eq!(faults(resources::RESOURCECLAIMS, claim), [expected]);
}

#[test]
fn slices_have_valid_pools_and_devices() {
    let slice = |change: &Value| {
        let pool = json!({"name": "n", "generation": 1, "resourceSliceCount": 1});
        let mut spec = json!({"driver": "d.io", "nodeName": "n", "pool": pool});
        merge_patch(&mut spec, change);
        json!({"metadata": {"name": "s"}, "spec": spec})
    };
    let device = |device: Value| json!({"devices": [device]});
    let many: Vec<Value> = (0..129).map(|number| json!({"name": format!("d{number}")})).collect();
    let cases = [
        (json!({}), ""),
        (
            json!({"pool": {"resourceSliceCount": 0}}),
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
        ),
        (
            json!({"allNodes": true}),
            "spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, \
             `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields \
             are set",
        ),
        (json!({"devices": many}), "spec.devices: Too many: 129: must have at most 128 items"),
        (
            device(json!({"name": "d", "attributes": {"model": {}}})),
            "spec.devices[0].attributes[model]: Invalid value: \"\": exactly one value must be \
             specified",
        ),
        (
            device(json!({"name": "d", "taints": [{"key": "a", "effect": "Sometimes"}]})),
            "spec.devices[0].taints[0].effect: Unsupported value: \"Sometimes\": supported values: \
             \"NoExecute\", \"NoSchedule\", \"None\"",
        ),
        (
            device(json!({"name": "d", "consumesCounters": [{"counterSet": "c"}]})),
            "spec.devices[0].consumesCounters[0].counters: Required value",
        ),
        (
            device(json!({"name": "d", "attributes": {"d.io/a b": {"int": 1}}})),
            "spec.devices[0].attributes[d.io/a b]: Invalid value: \"a b\": a valid C identifier must \
             start with alphabetic character or '_', followed by a string of alphanumeric characters \
             or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
             '[A-Za-z_][A-Za-z0-9_]*')",
        ),
        (
            device(json!({"name": "d", "attributes": {"v": {"version": "1.2"}}})),
            "spec.devices[0].attributes[v].version: Invalid value: \"1.2\": must be a string \
             compatible with semver.org spec 2.0.0",
        ),
        (device(json!({"name": "d", "attributes": {"v": {"version": "1.2.3-rc.1+b.2"}}})), ""),
        (
            device(json!({"name": "d", "bindingConditions": ["d.io/ready"]})),
            "spec.devices[0].bindingFailureConditions: Invalid value: null: \
             bindingFailureConditions are required to use bindingConditions",
        ),
        (
            device(
                json!({"name": "d", "bindingConditions": ["a"], "bindingFailureConditions": ["a"]}),
            ),
            "spec.devices[0].bindingFailureConditions[0]: Invalid value: \"a\": \
             bindingFailureConditions must not overlap with bindingConditions",
        ),
        (
            json!({"devices": [{"name": "d"}], "sharedCounters":
                [{"name": "c", "counters": {"memory": {"value": "1"}}}]}),
            "spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(faults(resources::RESOURCESLICES, slice(&change)).join("; "), expected);
    }
    let broken = slice(&device(json!({"name": "d", "capacity": {"memory": {"value": "much"}}})));
    let found = faults(resources::RESOURCESLICES, broken);
    assert!(found[0].contains("cannot be handled as a ResourceSlice"), "{found:?}");
}

#[test]
fn pods_name_their_claims_for_devices_in_one_way() {
    let two = json!({"name": "gpu", "resourceClaimName": "c", "resourceClaimTemplateName": "t"});
    for (claim, expected) in [
        (json!({"name": "gpu", "resourceClaimName": "c"}), ""),
        (json!({"name": "gpu"}), "must specify one of"),
        (two, "at most one may be specified"),
    ] {
        let found = faults(resources::PODS, pod(&json!({"resourceClaims": [claim]}))).join("; ");
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
    }
    let container = json!({"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}});
    let expected = "spec.containers[0].resources.claims[0]: Not found: \"gpu\": must be one of the \
                    names in pod.spec.resourceClaims which is empty";
    assert_eq!(faults(resources::PODS, pod(&json!({"containers": [container]}))), [expected]);
}

#[test]
fn request_policies_agree_with_their_capacity() {
    let faults_of = |policy: Value| {
        let capacity = json!({"memory": {"value": "8Gi", "requestPolicy": policy}});
        let device = json!({"name": "d", "allowMultipleAllocations": true, "capacity": capacity});
        let pool = json!({"name": "n", "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": "d.io", "nodeName": "n", "pool": pool, "devices": [device]});
        let slice = json!({"metadata": {"name": "s"}, "spec": spec});
        let found = faults(resources::RESOURCESLICES, slice).join("; ");
        found.replace("spec.devices[0].capacity[memory].requestPolicy", "P")
    };
    let range = |range: Value| json!({"default": "2Gi", "validRange": range});
    for (policy, expected) in [
        (json!({"default": "1Gi"}), ""),
        (json!({"default": "1Gi", "validValues": ["1Gi", "4Gi"]}), ""),
        (range(json!({"min": "1Gi", "max": "7Gi", "step": "1Gi"})), ""),
        (
            json!({"default": "1Gi", "validValues": ["1Gi"], "validRange": {"min": "1Gi"}}),
            "P: Forbidden: exactly one policy can be specified, cannot specify \"validValues\" and \
             \"validRange\" at the same time",
        ),
        (
            json!({"validValues": ["1Gi"]}),
            "P.default: Required value: required when validValues is defined",
        ),
        (
            json!({"default": "2Gi", "validValues": ["4Gi", "1Gi"]}),
            "P.validValues[1]: Invalid value: \"1Gi\": values must be sorted in ascending order; \
             P.validValues: Invalid value: \"2Gi\": default value is not valid according to the \
             requestPolicy",
        ),
        (
            json!({"default": "1Gi", "validValues": ["1Gi", "1024Mi", "9Gi"]}),
            "P.validValues[2]: Invalid value: \"9Gi\": option is larger than capacity value: 8Gi; \
             P.validValues[1]: Duplicate value: \"1073741824\"",
        ),
        (
            json!({"validRange": {"min": "1Gi"}}),
            "P.default: Required value: required when validRange is defined",
        ),
        (
            range(json!({"max": "4Gi"})),
            "P.validRange.min: Required value: required when validRange is defined",
        ),
        (
            range(json!({"min": "3Gi", "max": "9Gi"})),
            "P.validRange.default: Invalid value: \"2Gi\": default is less than min: 3Gi; \
             P.validRange.max: Invalid value: \"9Gi\": max is larger than capacity value: 8Gi",
        ),
        (
            range(json!({"min": "1Gi", "step": "0"})),
            "P.validRange.step: Invalid value: \"0\": must be greater than zero",
        ),
        (
            range(json!({"min": "1Gi", "max": "5Gi", "step": "3Gi"})),
            "P.validRange.step: Invalid value: \"2Gi\": value is not a multiple of a given step (3Gi) \
             from (1Gi); P.validRange.step: Invalid value: \"5Gi\": value is not a multiple of a given \
             step (3Gi) from (1Gi)",
        ),
        (
            range(json!({"min": "2Gi", "step": "7Gi"})),
            "P.validRange.step: Invalid value: \"7Gi\": one step 9Gi is larger than capacity value: \
             8Gi",
        ),
    ] {
        assert_eq!(faults_of(policy.clone()), expected, "{policy}");
    }
}

#[test]
fn costly_selectors_are_refused() {
    let mut expression = "true".to_owned();
    for variable in ["a", "b", "c", "d"] {
        expression = format!("device.attributes['d.io'].x.all({variable}, {expression})");
    }
    let selectors = json!([{"cel": {"expression": expression}}]);
    let class = json!({"metadata": {"name": "c"}, "spec": {"selectors": selectors}});
    let expected = "spec.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit";
    assert_eq!(faults(resources::DEVICECLASSES, class), [expected]);
}

#[test]
fn rules_for_taints_select_devices_by_valid_names() {
    let rule = |spec: Value| json!({"metadata": {"name": "r"}, "spec": spec});
    let taint = json!({"key": "a", "effect": "NoSchedule"});
    for (spec, expected) in [
        (json!({"taint": taint}), ""),
        (
            json!({"deviceSelector": {"driver": "d.io", "pool": "n/1", "device": "gpu-0"}, "taint": taint}),
            "",
        ),
        (
            json!({"taint": {"key": "a", "effect": "Never"}}),
            "spec.taint.effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \
             \"NoSchedule\", \"None\"",
        ),
    ] {
        assert_eq!(faults(resources::DEVICETAINTRULES, rule(spec)).join("; "), expected);
    }
}
