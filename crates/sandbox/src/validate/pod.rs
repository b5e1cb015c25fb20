//! The spec of a pod, alone or in a template.

use super::field::{Faults, Field};
use super::{names, resources, scheduling};

/// Checks the spec of a pod.
pub(super) fn spec(spec: &Field<'_>, faults: &mut Faults) {
    volumes(spec, faults);
    containers(spec, faults);
    faults.one_of(&spec.child("restartPolicy"), &["Always", "OnFailure", "Never"]);
    let dns_policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    faults.one_of(&spec.child("dnsPolicy"), &dns_policies);
    faults.non_negative(&spec.child("terminationGracePeriodSeconds"));
    let deadline = spec.child("activeDeadlineSeconds");
    if deadline.number().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        faults.invalid(&deadline, "must be between 1 and 2147483647, inclusive");
    }
    let node_name = spec.child("nodeName");
    if !node_name.is_empty() {
        names::subdomain(&node_name, faults);
    }
    resources::requirements(&spec.child("resources"), resources::Of::Pod, faults);
    resources::amounts(&spec.child("overhead"), faults);
    scheduling::spec(spec, faults);
    faults.one_of(&spec.child("preemptionPolicy"), &["PreemptLowerPriority", "Never"]);
    resource_claims(&spec.child("resourceClaims"), faults);
}

/// Checks the claims for devices.
fn resource_claims(claims: &Field<'_>, faults: &mut Faults) {
    for claim in claims.items() {
        let name = claim.child("name");
        if faults.require(&name) {
            names::dns_label(&name, faults);
        }
        let sources = [claim.child("resourceClaimName"), claim.child("resourceClaimTemplateName")];
        let one_of = "one of: `resourceClaimName`, `resourceClaimTemplateName`";
        match sources.each_ref().map(Field::is_set) {
            [true, true] => {
                faults.invalid(&claim, &format!("at most one may be specified of: {one_of}"));
            }
            [false, false] => faults.invalid(&claim, &format!("must specify {one_of}")),
            _ => {}
        }
        let source = sources.iter().filter(|source| source.is_set());
        source.for_each(|source| names::subdomain(source, faults));
    }
    faults.distinct(claims.items().map(|claim| claim.child("name")));
}

/// Checks that a container names claims of its pod.
fn container_claims(container: &Field<'_>, spec: &Field<'_>, faults: &mut Faults) {
    let known: Vec<&str> =
        spec.child("resourceClaims").items().map(|claim| claim.child("name").text()).collect();
    for claim in container.at(&["resources", "claims"]).items() {
        let name = claim.child("name");
        if faults.require(&name) && !known.contains(&name.text()) {
            let known = match known.as_slice() {
                [] => " which is empty".to_owned(),
                known => format!(": {}", known.join(", ")),
            };
            let why = format!("must be one of the names in pod.spec.resourceClaims{known}");
            faults.not_found_because(&claim, name.value(), &why);
        }
    }
}

fn containers(spec: &Field<'_>, faults: &mut Faults) {
    let (init, regular) = (spec.child("initContainers"), spec.child("containers"));
    if regular.is_empty() {
        faults.required(&regular, "");
    }
    for container in regular.items().chain(init.items()) {
        self::container(&container, &spec.child("volumes"), faults);
        container_claims(&container, spec, faults);
    }
    let ephemeral = spec.child("ephemeralContainers");
    let all = regular.items().chain(init.items()).chain(ephemeral.items());
    faults.distinct(all.map(|container| container.child("name")));
}

fn container(container: &Field<'_>, volumes: &Field<'_>, faults: &mut Faults) {
    let name = container.child("name");
    if faults.require(&name) {
        names::dns_label(&name, faults);
    }
    let image = container.child("image");
    faults.require(&image);
    if image.text().trim() != image.text() {
        faults.invalid(&image, "must not have leading or trailing whitespace");
    }
    let pull_policies = ["Always", "IfNotPresent", "Never"];
    faults.one_of(&container.child("imagePullPolicy"), &pull_policies);
    container.child("ports").items().for_each(|port| self::port(&port, faults));
    for variable in container.child("env").items() {
        faults.require(&variable.child("name"));
    }
    for mount in container.child("volumeMounts").items() {
        volume_mount(&mount, volumes, faults);
    }
    let resources = container.child("resources");
    resources::requirements(&resources, resources::Of::Container, faults);
}

fn port(port: &Field<'_>, faults: &mut Faults) {
    const RANGE: &str = "must be between 1 and 65535, inclusive";
    let number = port.child("containerPort");
    match number.number() {
        None | Some(0) => faults.required(&number, ""),
        Some(1..=65535) => {}
        Some(_) => faults.invalid(&number, RANGE),
    }
    let host = port.child("hostPort");
    if host.number().is_some_and(|number| !(0..=65535).contains(&number)) {
        faults.invalid(&host, RANGE);
    }
    faults.one_of(&port.child("protocol"), &["SCTP", "TCP", "UDP"]);
}

fn volume_mount(mount: &Field<'_>, volumes: &Field<'_>, faults: &mut Faults) {
    let name = mount.child("name");
    let known = || volumes.items().any(|volume| volume.child("name").text() == name.text());
    if faults.require(&name) && !known() {
        faults.not_found(&name);
    }
    faults.require(&mount.child("mountPath"));
}

fn volumes(spec: &Field<'_>, faults: &mut Faults) {
    let volumes = spec.child("volumes");
    for volume in volumes.items() {
        let name = volume.child("name");
        if faults.require(&name) {
            names::dns_label(&name, faults);
        }
        let sources = volume.value().as_object().map_or(0, |fields| fields.len());
        if sources > 2 {
            faults.forbidden(&volume, "may not specify more than 1 volume type");
        }
        let claim = volume.child("persistentVolumeClaim");
        if claim.is_set() {
            faults.require(&claim.child("claimName"));
        }
    }
    faults.distinct(volumes.items().map(|volume| volume.child("name")));
}
