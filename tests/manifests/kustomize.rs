//! The kustomizations: `secondary` is the chart with its default values, `replacement` the static
//! pod that takes the place of kube-scheduler.

use std::process::Command;

use framework::Time;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use sandbox::api::{Answer, Request};
use sandbox::store::Store;
use serde_json::{Value, json};

use super::permissions::needed;
use super::scheduler::can_be_read;
use super::{DEFAULT, documents, find, objects, path, title};

const STATIC_POD: &str = "deploy/kustomize/overlays/replacement/kube-scheduler.yaml";
const NOW: Time = Time::from_secs(1_800_000_000);

/// Returns the objects of an overlay, or nothing if kubectl is not installed.
fn build(overlay: &str) -> Option<Vec<Value>> {
    let folder = path(&format!("deploy/kustomize/overlays/{overlay}"));
    let Ok(output) = Command::new("kubectl").arg("kustomize").arg(folder).output() else {
        eprintln!("skipped: kubectl is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(documents(&String::from_utf8_lossy(&output.stdout)).collect())
}

/// Removes what kustomize does in another way than the chart: the name of the ConfigMap changes
/// with its content, in place of an annotation of the pods.
fn without_checksums(mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        if object["kind"] == "ConfigMap" {
            object["metadata"] = json!({"name": "loadmaster-config"});
        }
        if object["kind"] == "Deployment" {
            let template = &mut object["spec"]["template"];
            template["metadata"].as_object_mut().unwrap().remove("annotations");
            template["spec"]["volumes"][0]["configMap"]["name"] = json!("loadmaster-config");
        }
    }
    objects.sort_by_key(title);
    objects
}

#[test]
fn secondary_overlay_is_the_chart_with_default_values() {
    let Some(built) = build("secondary") else { return };
    let name = |kind: &str, pointer: &str| {
        let object = built.iter().find(|object| object["kind"] == kind).unwrap();
        object.pointer(pointer).unwrap().clone()
    };
    let mounted = name("Deployment", "/spec/template/spec/volumes/0/configMap/name");
    assert_eq!(name("ConfigMap", "/metadata/name"), mounted);
    assert_ne!(mounted, "loadmaster-config");
    let (built, of_chart) = (without_checksums(built), without_checksums(objects(DEFAULT)));
    assert_eq!(built.len(), of_chart.len());
    for (built, of_chart) in built.iter().zip(&of_chart) {
        assert_eq!(built, of_chart);
    }
}

#[test]
fn replacement_overlay_is_the_static_pod() {
    let Some(built) = build("replacement") else { return };
    assert_eq!(built, objects(STATIC_POD));
}

fn static_pod() -> Pod {
    find(STATIC_POD).unwrap()
}

fn container() -> Container {
    let [container] = static_pod().spec.unwrap().containers.try_into().unwrap();
    container
}

#[test]
fn binary_accepts_the_arguments_of_the_static_pod() {
    let args = container().args.unwrap();
    can_be_read(&args).unwrap();
    assert_eq!(args[0], "run");
}

/// `loadmaster explain` finds the pod by the beginning of the holder of the Lease, which is the
/// host name.
#[test]
fn static_pod_names_itself_in_the_lease() {
    let env = container().env.unwrap();
    let [own] = env.as_slice() else { panic!("{env:?}") };
    let field = own.value_from.as_ref().unwrap().field_ref.as_ref().unwrap();
    assert_eq!((own.name.as_str(), field.field_path.as_str()), ("HOSTNAME", "metadata.name"));
}

/// A static pod cannot use other objects of the API.
#[test]
fn static_pod_needs_no_other_object() {
    let spec = static_pod().spec.unwrap();
    assert_eq!((spec.service_account_name, spec.image_pull_secrets), (None, None));
    for volume in spec.volumes.unwrap() {
        assert!(volume.host_path.is_some(), "{}", volume.name);
    }
}

#[test]
fn static_pod_differs_from_the_chart_only_in_what_kubeadm_prescribes() {
    let deployment: Deployment = find(DEFAULT).unwrap();
    let [of_chart] = deployment.spec.template.spec.unwrap().containers.try_into().unwrap();
    let mut own = container();
    for (probe, of_chart) in [
        (own.startup_probe, of_chart.startup_probe),
        (own.liveness_probe, of_chart.liveness_probe),
        (own.readiness_probe, of_chart.readiness_probe),
    ] {
        let mut probe: Probe = probe.unwrap();
        let host = probe.http_get.as_mut().unwrap().host.take();
        assert_eq!(host.as_deref(), Some("127.0.0.1"));
        assert_eq!(Some(probe), of_chart);
    }
    let user = own.security_context.as_mut().unwrap().run_as_user.take();
    assert_eq!(user, Some(0));
    assert_eq!(own.security_context, of_chart.security_context);
    assert_eq!((own.image, own.ports), (of_chart.image, of_chart.ports));
    assert_eq!(own.resources, of_chart.resources);
}

/// Whether kube-scheduler's user may do this, in a cluster with the roles that every cluster has.
fn is_allowed(store: &mut Store, user: &str, attributes: &Value) -> bool {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    });
    let target = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let Answer::Whole(response) =
        store.serve(&Request::new("POST", target, review.to_string()), NOW)
    else {
        panic!("a review opened a watch")
    };
    let review: Value = serde_json::from_slice(&response.body).unwrap();
    review["status"]["allowed"].as_bool().unwrap_or_else(|| panic!("{review}"))
}

/// The resource of the one permission that kube-scheduler's user lacks: neither scheduler can
/// deallocate a claim as this user after a driver has reported about its devices.
const LACKING: &str = "resourceclaims/driver";

#[test]
fn user_of_kube_scheduler_has_every_permission_that_loadmaster_needs_but_one() {
    let mut store = Store::new(1, NOW);
    let needed = needed();
    // Without permissions on PodGroups, only their pods wait. kube-scheduler's user has them where
    // its gate is on, which it is not by default.
    let is_of_groups = |resource: &str| resource.starts_with("podgroups");
    let granted =
        needed.iter().filter(|(_, resource, _)| *resource != LACKING && !is_of_groups(resource));
    let of_cluster = granted.map(|(group, resource, verb)| {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource.as_str(), ""));
        json!({"group": group, "resource": resource, "subresource": subresource, "verb": verb})
    });
    let lease = |verb: &str| {
        json!({"group": "coordination.k8s.io", "resource": "leases", "verb": verb,
            "namespace": "kube-system", "name": "kube-scheduler"})
    };
    let authentication = json!({"group": "", "resource": "configmaps", "verb": "get",
        "namespace": "kube-system", "name": "extension-apiserver-authentication"});
    let rest = ["create", "get", "update", "watch"].map(lease).into_iter().chain([authentication]);
    for attributes in of_cluster.chain(rest) {
        assert!(is_allowed(&mut store, "system:kube-scheduler", &attributes), "{attributes}");
        assert!(!is_allowed(&mut store, "somebody", &attributes), "{attributes}");
    }
}
