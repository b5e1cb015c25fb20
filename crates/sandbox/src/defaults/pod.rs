//! Defaults of pods and pod templates.

use serde_json::{Value, json};

use super::fill::{Object, default, defaults, ensure, flag, get, items, text, texts};

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// Mode of files in volumes.
const FILE_MODE: i64 = 0o644;

/// Sets the defaults of a pod outside of its spec.
pub(super) fn pod(pod: &mut Object) {
    let Some(spec) = ensure(pod, "spec") else { return };
    pod_spec(spec);
    default(spec, "enableServiceLinks", true);
    for list in ["initContainers", "containers"] {
        for container in items(spec, list) {
            if let Some(resources) = get(container, "resources") {
                requests_from_limits(resources, |_| true);
            }
        }
    }
    pod_level_requests(spec);
}

/// Sets the defaults of a pod spec, also in a template.
pub(super) fn pod_spec(spec: &mut Object) {
    texts(
        spec,
        [
            ("restartPolicy", "Always"),
            ("dnsPolicy", "ClusterFirst"),
            ("schedulerName", "default-scheduler"),
        ],
    );
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "securityContext", json!({}));
    service_account(spec);
    let host_network = flag(spec, "hostNetwork");
    for list in CONTAINERS {
        for container in items(spec, list) {
            self::container(container, host_network);
        }
    }
    items(spec, "volumes").for_each(volume);
}

/// Writes `serviceAccount`, the older name of `serviceAccountName`.
fn service_account(spec: &mut Object) {
    let (name, old) = ("serviceAccountName", "serviceAccount");
    let given = spec.get(name).or_else(|| spec.get(old)).cloned();
    if let Some(given) = given {
        default(spec, name, given.clone());
        spec.insert(old.to_owned(), given);
    }
}

fn container(container: &mut Object, host_network: bool) {
    let pull_policy = image_pull_policy(text(container, "image"));
    texts(
        container,
        [
            ("terminationMessagePath", "/dev/termination-log"),
            ("terminationMessagePolicy", "File"),
            ("imagePullPolicy", pull_policy),
        ],
    );
    default(container, "resources", json!({}));
    for port in items(container, "ports") {
        default(port, "protocol", "TCP");
        if let (true, Some(number)) = (host_network, port.get("containerPort").cloned()) {
            default(port, "hostPort", number);
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        get(container, field).into_iter().for_each(probe);
    }
    if let Some(lifecycle) = get(container, "lifecycle") {
        for handler in ["postStart", "preStop"] {
            get(lifecycle, handler).into_iter().for_each(http_get);
        }
    }
    for variable in items(container, "env") {
        if let Some(source) = get(variable, "valueFrom") {
            field_ref(source);
        }
    }
}

/// Returns `Always` for images without a tag or with the tag `latest`.
fn image_pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or_default();
    if name.contains('@') {
        return "IfNotPresent";
    }
    match name.split_once(':') {
        Some((_, tag)) if tag != "latest" => "IfNotPresent",
        _ => "Always",
    }
}

fn probe(probe: &mut Object) {
    let numbers = [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ];
    for (field, number) in numbers {
        if probe.get(field).is_none_or(|value| *value == 0) {
            probe.insert(field.to_owned(), number.into());
        }
    }
    http_get(probe);
    if let Some(grpc) = get(probe, "grpc") {
        default(grpc, "service", "");
    }
}

fn http_get(handler: &mut Object) {
    if let Some(request) = get(handler, "httpGet") {
        defaults(request, [("path", "/".into()), ("scheme", "HTTP".into())]);
    }
}

fn field_ref(source: &mut Object) {
    if let Some(reference) = get(source, "fieldRef") {
        default(reference, "apiVersion", "v1");
    }
}

fn volume(volume: &mut Object) {
    if volume.keys().all(|field| field == "name") {
        default(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "projected", "downwardAPI"] {
        if let Some(source) = get(volume, source) {
            default(source, "defaultMode", FILE_MODE);
            items(source, "items").for_each(field_ref);
            items(source, "sources").for_each(projection);
        }
    }
    if let Some(host_path) = get(volume, "hostPath") {
        default(host_path, "type", "");
    }
    let template =
        get(volume, "ephemeral").and_then(|ephemeral| get(ephemeral, "volumeClaimTemplate"));
    if let Some(spec) = template.and_then(|template| get(template, "spec")) {
        super::storage::claim_spec(spec);
    }
}

fn projection(source: &mut Object) {
    if let Some(token) = get(source, "serviceAccountToken") {
        default(token, "expirationSeconds", 3600);
    }
    if let Some(downward) = get(source, "downwardAPI") {
        items(downward, "items").for_each(field_ref);
    }
}

/// Copies limits to requests that are absent and `wanted`.
fn requests_from_limits(resources: &mut Object, wanted: impl Fn(&str) -> bool) {
    let Some(limits) = get(resources, "limits").cloned() else { return };
    let missing: Vec<_> = limits.into_iter().filter(|(name, _)| wanted(name)).collect();
    if missing.is_empty() {
        return;
    }
    if let Some(requests) = ensure(resources, "requests") {
        for (name, quantity) in missing {
            default(requests, &name, quantity);
        }
    }
}

/// Copies limits of the whole pod to its requests where no container sets any.
fn pod_level_requests(spec: &mut Object) {
    if !spec.contains_key("resources") {
        return;
    }
    let containers: Vec<Value> = ["initContainers", "containers"]
        .iter()
        .filter_map(|list| spec.get(*list)?.as_array())
        .flatten()
        .map(|container| container["resources"]["requests"].clone())
        .collect();
    if let Some(resources) = get(spec, "resources") {
        requests_from_limits(resources, |name| {
            containers.iter().all(|requests| requests.get(name).is_none())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(value: Value) -> Value {
        let Value::Object(mut object) = value else { panic!("an object") };
        pod(&mut object);
        Value::Object(object)
    }

    #[test]
    fn pull_policy_follows_the_image_tag() {
        let cases = [
            ("pause", "Always"),
            ("pause:latest", "Always"),
            ("pause:3.9", "IfNotPresent"),
            ("registry:5000/pause", "Always"),
            ("registry:5000/pause:1", "IfNotPresent"),
            ("pause@sha256:00", "IfNotPresent"),
        ];
        for (image, expected) in cases {
            assert_eq!(image_pull_policy(image), expected, "{image}");
        }
    }

    #[test]
    fn requests_default_to_limits() {
        let pod = filled(json!({"spec": {"containers": [
            {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}},
        ]}}));
        let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(requests, &json!({"cpu": "1", "memory": "1Gi"}));
    }

    #[test]
    fn pod_level_limits_are_requests_unless_containers_have_some() {
        let pod = filled(json!({"spec": {
            "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        }}));
        assert_eq!(pod["spec"]["resources"]["requests"], json!({"memory": "1Gi"}));
    }

    #[test]
    fn ports_of_host_network_pods_are_host_ports() {
        let pod = filled(json!({"spec": {
            "hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}],
        }}));
        let port = json!({"containerPort": 80, "hostPort": 80, "protocol": "TCP"});
        assert_eq!(pod["spec"]["containers"][0]["ports"], json!([port]));
    }

    #[test]
    fn probes_and_volumes_are_completed() {
        let pod = filled(json!({"spec": {
            "containers": [{"readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5}}],
            "volumes": [{"name": "a"}, {"name": "b", "secret": {}}, {"name": "c", "hostPath": {}}],
        }}));
        assert_eq!(
            pod["spec"]["containers"][0]["readinessProbe"],
            json!({
                "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "periodSeconds": 5,
                "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3,
            })
        );
        assert_eq!(
            pod["spec"]["volumes"],
            json!([
                {"name": "a", "emptyDir": {}}, {"name": "b", "secret": {"defaultMode": 420}},
                {"name": "c", "hostPath": {"type": ""}},
            ])
        );
    }

    #[test]
    fn pods_of_any_shape_are_accepted() {
        for spec in [json!(1), json!([]), json!({"containers": "x"}), json!({"containers": [1]})] {
            filled(json!({"spec": spec}));
        }
    }
}
