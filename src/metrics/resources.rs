//! The requests and limits of all pods, served at `/metrics/resources`.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use framework::{Pod, Resources};

use super::text::{escape, number};

/// Number of pods per chunk.
const CHUNK: usize = 200;

/// A metric, which has one sample per pod and resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Limit,
    Request,
}

impl Family {
    const fn name(self) -> &'static str {
        match self {
            Self::Limit => "kube_pod_resource_limit",
            Self::Request => "kube_pod_resource_request",
        }
    }

    const fn help(self) -> &'static str {
        match self {
            Self::Limit => "Limits of pods that have not ended, by resource.",
            Self::Request => "Requests of pods that have not ended, by resource.",
        }
    }

    fn amounts(self, pod: &Pod) -> &Resources {
        match self {
            Self::Limit => &pod.spec.limits,
            Self::Request => &pod.requests.fit,
        }
    }
}

/// The exposition of these metrics in the text format of Prometheus, in chunks. The text about a
/// large cluster has tens of megabytes, of which only one chunk is in memory.
#[derive(Debug)]
pub struct PodResources {
    /// Sorted by namespace, node and name.
    pods: Vec<Arc<Pod>>,
    family: Family,
    next: usize,
    /// Whether the family has its header.
    has_header: bool,
}

impl PodResources {
    /// Sorts the pods.
    pub fn new(pods: impl IntoIterator<Item = Arc<Pod>>) -> Self {
        let mut pods: Vec<_> = pods.into_iter().collect();
        let key = |pod: &'_ Arc<Pod>| {
            (pod.key.namespace.clone(), pod.node_name.clone(), pod.key.name.clone())
        };
        pods.sort_by_cached_key(key);
        Self { pods, family: Family::Limit, next: 0, has_header: false }
    }

    fn write_pod(&mut self, place: usize, text: &mut String) {
        let pod = &self.pods[place];
        let samples = samples(self.family.amounts(pod));
        if samples.is_empty() {
            return;
        }
        let name = self.family.name();
        if !std::mem::replace(&mut self.has_header, true) {
            let help = self.family.help();
            push(text, format_args!("# HELP {name} [STABLE] {help}\n# TYPE {name} gauge\n"));
        }
        let namespace = quoted(&pod.key.namespace);
        let node = quoted(pod.node_name.as_deref().unwrap_or_default());
        let (pod_name, priority) = (quoted(&pod.key.name), pod.priority());
        let scheduler = quoted(&pod.spec.scheduler_name);
        for (resource, unit, value) in samples {
            let (resource, value) = (quoted(resource), number(value));
            push(
                text,
                format_args!(
                    "{name}{{namespace=\"{namespace}\",node=\"{node}\",pod=\"{pod_name}\",\
                     priority=\"{priority}\",resource=\"{resource}\",scheduler=\"{scheduler}\",\
                     unit=\"{unit}\"}} {value}\n"
                ),
            );
        }
    }
}

impl Iterator for PodResources {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut text = String::new();
        while text.is_empty() {
            match (self.next == self.pods.len(), self.family) {
                (true, Family::Request) => return None,
                (true, Family::Limit) => {
                    (self.family, self.next, self.has_header) = (Family::Request, 0, false);
                }
                (false, _) => {
                    let end = self.pods.len().min(self.next + CHUNK);
                    (self.next..end).for_each(|place| self.write_pod(place, &mut text));
                    self.next = end;
                }
            }
        }
        Some(text)
    }
}

/// Returns the resources with an amount other than 0, sorted by name: name, unit and amount in that
/// unit.
fn samples(amounts: &Resources) -> Vec<(&str, &'static str, f64)> {
    let scalars = amounts.scalars.iter().map(|(name, amount)| (&**name, *amount as f64));
    let mut samples: Vec<_> = [
        ("cpu", amounts.milli_cpu as f64 / 1000.0),
        ("ephemeral-storage", amounts.ephemeral_storage as f64),
        ("memory", amounts.memory as f64),
    ]
    .into_iter()
    .chain(scalars)
    .filter(|(_, amount)| *amount != 0.0)
    .map(|(name, amount)| (name, unit(name), amount))
    .collect();
    samples.sort_unstable_by_key(|(name, ..)| *name);
    samples
}

/// Returns the unit of a resource; empty if Kubernetes has none for it.
fn unit(resource: &str) -> &'static str {
    match resource {
        "cpu" => "cores",
        "memory" | "storage" | "ephemeral-storage" => "bytes",
        _ if resource.starts_with("hugepages-") => "bytes",
        _ if resource.starts_with("attachable-volumes-") => "integer",
        _ => "",
    }
}

/// Escapes the value of a label. Names of objects need no escapes.
fn quoted(text: &str) -> Cow<'_, str> {
    match text.contains(['\\', '"', '\n']) {
        true => escape(text, true).into(),
        false => text.into(),
    }
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(line);
}

#[cfg(test)]
mod tests {
    use testkit::{PodBuilder, pod};

    use super::*;

    fn limit(pod: PodBuilder, resource: &str, amount: &str) -> PodBuilder {
        let amount = framework::api::QuantityText(amount.to_owned());
        pod.with(|pod| {
            pod.spec.containers[0].resources.limits.insert(resource.to_owned(), amount);
        })
    }

    fn render(pods: impl IntoIterator<Item = PodBuilder>) -> String {
        PodResources::new(pods.into_iter().map(|pod| Arc::new(pod.build()))).collect()
    }

    #[test]
    fn samples_have_labels_and_units_of_kubernetes() {
        let assigned = pod("web").namespace("shop").on("node-1").priority(7).scheduler("other");
        let assigned = assigned.cpu("1500m").memory("1Gi").request("example.com/gpu", "2");
        let pending = pod("wait").request("hugepages-2Mi", "4Mi").request("ephemeral-storage", "0");
        let text = render([limit(assigned, "cpu", "2"), pending, pod("needs-nothing")]);
        let web = "namespace=\"shop\",node=\"node-1\",pod=\"web\",priority=\"7\"";
        let wait = "namespace=\"default\",node=\"\",pod=\"wait\",priority=\"0\"";
        let expected = format!(
            "# HELP kube_pod_resource_limit [STABLE] Limits of pods that have not ended, by resource.
# TYPE kube_pod_resource_limit gauge
kube_pod_resource_limit{{{web},resource=\"cpu\",scheduler=\"other\",unit=\"cores\"}} 2
# HELP kube_pod_resource_request [STABLE] Requests of pods that have not ended, by resource.
# TYPE kube_pod_resource_request gauge
kube_pod_resource_request{{{wait},resource=\"hugepages-2Mi\",scheduler=\"default-scheduler\",unit=\"bytes\"}} 4.194304e+06
kube_pod_resource_request{{{web},resource=\"cpu\",scheduler=\"other\",unit=\"cores\"}} 1.5
kube_pod_resource_request{{{web},resource=\"example.com/gpu\",scheduler=\"other\",unit=\"\"}} 2
kube_pod_resource_request{{{web},resource=\"memory\",scheduler=\"other\",unit=\"bytes\"}} 1.073741824e+09
"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn family_without_samples_is_absent() {
        assert_eq!(render([]), "");
        assert_eq!(render([pod("needs-nothing")]), "");
        assert!(!render([pod("p").cpu("1")]).contains("limit"));
    }

    #[test]
    fn chunks_add_up_to_all_pods() {
        let pods = || (0..3 * CHUNK + 1).map(|place| pod(&format!("p{place:04}")).cpu("1"));
        let pods = pods().map(|pod| Arc::new(pod.build()));
        let chunks: Vec<String> = PodResources::new(pods).collect();
        assert_eq!(chunks.len(), 4);
        let text = chunks.concat();
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 3 * CHUNK + 1);
        assert_eq!(text.matches("# TYPE").count(), 1);
    }
}
