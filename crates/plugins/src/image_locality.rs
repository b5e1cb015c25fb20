//! ImageLocality: prefers nodes that already have the images of the pod. Larger images score
//! higher.
//!
//! An image counts with its size times the share of nodes that have it. Otherwise a rare image
//! would draw every pod to the same few nodes. The limits of the score grow with the number of
//! containers and image volumes of the pod. Kubernetes 1.36 counts only the containers.
//!
//! The weighted size of an image is the same on every node that has the image. The set form
//! therefore looks up each image once and visits only the nodes that have it.
//!
//! The share uses the current number of nodes that have the image. kube-scheduler uses the number
//! at the time of the last change of each node.

use framework::{
    Attempt, AttemptMut, Cluster, Dependence, ImageState, NodeView, PerNode, Plugin, PluginArgs,
    Pod, Score, ScoreScope, Status,
};

use crate::node_sets::NodeSums;

/// Name of the plugin.
pub const NAME: &str = "ImageLocality";

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    Ok(Plugin::new(NAME, ImageLocality).score().no_events().build())
}

struct ImageLocality;

const MEBIBYTE: i64 = 1 << 20;
/// Size in bytes up to which the score is 0.
const MIN_BYTES: i64 = 23 * MEBIBYTE;
/// Maximum number of images of a pod for which a key of a node has a bit each.
const MAX_IMAGES_IN_KEY: usize = 63;
/// Size in bytes per image of the pod from which the score is 100.
const MAX_BYTES_PER_IMAGE: i64 = 1000 * MEBIBYTE;

impl Score for ImageLocality {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let cluster = node.cluster();
        let present = images(attempt.pod, cluster).filter(|image| image.nodes.contains(node.ix()));
        let bytes = present.map(|image| spread_bytes(image, cluster)).fold(0, i64::saturating_add);
        Ok(score(bytes, attempt.pod))
    }

    /// The score of a node depends on which of the images it has.
    fn dependence(&self, attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        let images = attempt.pod.spec.images.len() + attempt.pod.spec.image_volumes.len();
        let scope = if images <= MAX_IMAGES_IN_KEY { ScoreScope::Key } else { ScoreScope::Cluster };
        Some(Dependence::on(scope).without_pods())
    }

    fn key_set(&self, attempt: &Attempt<'_>, keys: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: keys, .. } = keys;
        let names =
            attempt.pod.spec.images.iter().chain(&attempt.pod.spec.image_volumes).enumerate();
        let mut bits = NodeSums::new(nodes, keys);
        for (place, name) in names {
            if let Some(image) = attempt.handle.cluster.image(name) {
                bits.add(&image.nodes, 1 << place);
            }
        }
        Ok(())
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: scores, .. } = scores;
        let Attempt { pod, handle, .. } = *attempt;
        let cluster = handle.cluster;
        let mut bytes = NodeSums::new(nodes, scores);
        images(pod, cluster)
            .for_each(|image| bytes.add(&image.nodes, spread_bytes(image, cluster)));
        let mut last = (0, score(0, pod));
        for place in scores {
            if *place != last.0 {
                last = (*place, score(*place, pod));
            }
            *place = last.1;
        }
        Ok(())
    }
}

/// Returns the images of containers and image volumes that some node has. An image appears once for
/// each reference to it.
fn images<'a>(pod: &'a Pod, cluster: &'a Cluster) -> impl Iterator<Item = &'a ImageState> {
    pod.spec.images.iter().chain(&pod.spec.image_volumes).filter_map(|name| cluster.image(name))
}

/// Returns the size of an image times the share of nodes that have it.
fn spread_bytes(image: &ImageState, cluster: &Cluster) -> i64 {
    let share = image.nodes.len() as f64 / cluster.node_count() as f64;
    (image.size as f64 * share) as i64
}

/// Scales `bytes` between the limits of this pod to 0 to 100.
fn score(bytes: i64, pod: &Pod) -> i64 {
    let images = pod.spec.images.len() + pod.spec.image_volumes.len();
    let max = MAX_BYTES_PER_IMAGE.saturating_mul(i64::try_from(images).unwrap_or(i64::MAX));
    let bytes = if bytes < MIN_BYTES { MIN_BYTES } else { bytes.min(max) };
    let hundredfold = bytes.saturating_sub(MIN_BYTES).saturating_mul(100);
    hundredfold / (max - MIN_BYTES)
}

#[cfg(test)]
mod tests {
    use framework::{CycleState, Node, NodeIx, api};
    use proptest::prelude::*;
    use testkit::{handle, node, pod};

    use super::*;
    use crate::arbitrary::{self, World, history};
    use crate::forms;

    /// Returns the scores, after checking that both forms agree.
    fn scores(nodes: impl IntoIterator<Item = Node>, pod: &Pod) -> Vec<i64> {
        let cluster = testkit::cluster(nodes, []);
        let nodes: Vec<_> = cluster.nodes().iter().collect();
        let (state, mut scores) = (CycleState::new(), vec![-1; nodes.len()]);
        ImageLocality
            .score_set(
                &Attempt::new(&state, pod, &handle(&cluster)),
                PerNode::new(&nodes, &mut scores),
            )
            .unwrap();
        let one = |node: &NodeIx| {
            ImageLocality
                .score(&Attempt::new(&state, pod, &handle(&cluster)), &cluster.node(*node))
                .unwrap()
        };
        assert_eq!(nodes.iter().map(one).collect::<Vec<_>>(), scores);
        scores
    }

    #[test]
    fn image_counts_by_size_and_share_of_nodes() {
        let with = |name: &str, mebibytes: i64| node(name).image("app:v1", mebibytes * MEBIBYTE);
        let app = pod("p").image("app:v1").build();
        let twice = pod("p").image("app:v1").container(&[]).build();
        let rows = [
            (vec![with("a", 250), node("b")], &app, vec![10, 0]),
            (vec![with("a", 250), with("b", 250)], &app, vec![23, 23]),
            (vec![with("a", 250), node("b")], &twice, vec![5, 0]),
            (vec![with("a", 1000)], &app, vec![100]),
            (vec![with("a", 23)], &app, vec![0]),
            (vec![with("a", i64::MAX >> 20), node("b")], &app, vec![100, 0]),
            (vec![with("a", -5)], &app, vec![0]),
        ];
        for (nodes, pod, expected) in rows {
            assert_eq!(scores(nodes.into_iter().map(|node| node.build()), pod), expected);
        }
    }

    #[test]
    fn image_volumes_count_and_get_the_default_tag() {
        let volume = api::ImageVolumeSource { reference: "data".to_owned() };
        let with_volume = pod("p").image("app").with(|pod| {
            pod.spec.volumes.push(api::Volume { image: Some(volume), ..api::Volume::default() });
        });
        let nodes = [
            node("both").image("app:latest", 400 * MEBIBYTE).image("data:latest", 400 * MEBIBYTE),
            node("data").image("data:latest", 400 * MEBIBYTE),
            node("none"),
        ];
        let scores = scores(nodes.map(|node| node.build()), &with_volume.build());
        assert_eq!(scores, [19, 12, 0]);
    }

    #[test]
    fn image_volume_scores_like_a_container_image() {
        let volume = api::ImageVolumeSource { reference: "data:v1".to_owned() };
        let volume = api::Volume { image: Some(volume), ..api::Volume::default() };
        let in_volume = pod("p").image("app:v1").with(|pod| pod.spec.volumes.push(volume)).build();
        let in_container = pod("p").image("app:v1").container(&[]).with(|pod| {
            pod.spec.containers[1].image = "data:v1".to_owned();
        });
        let in_container = in_container.build();
        let nodes = || {
            let with = |name: &str, image: &str| node(name).image(image, 800 * MEBIBYTE).build();
            [with("app", "app:v1"), with("data", "data:v1"), node("none").build()]
        };
        let expected = scores(nodes(), &in_container);
        assert_eq!(scores(nodes(), &in_volume), expected);
        assert!(expected[1] > 0, "{expected:?}");
    }

    #[test]
    fn pod_without_containers_scores_zero() {
        let empty = pod("p").with(|pod| pod.spec.containers.clear()).build();
        assert_eq!(scores([node("a").build()], &empty), [0]);
    }

    fn tagged(image: &str) -> String {
        let tagged = image.rfind(':') > image.rfind('/');
        if tagged { image.to_owned() } else { format!("{image}:latest") }
    }

    /// Computes the score from API objects. Where nodes disagree about the size of an image, the
    /// first node that reports the name decides.
    fn oracle(world: &World, pod: &api::Pod, node: &api::Node) -> i64 {
        let has = |node: &api::Node, name: &String| {
            node.status.images.iter().any(|image| image.names.contains(name))
        };
        let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
        let volumes = pod.spec.volumes.iter().filter_map(|volume| volume.image.as_ref());
        let references = containers.map(|container| &container.image);
        let references = references.chain(volumes.map(|image| &image.reference));
        let names: Vec<String> = references.map(|name| tagged(name)).collect();
        let mut sum = 0;
        for name in names.iter().filter(|name| has(node, name)) {
            let having = world.nodes.values().filter(|node| has(node, name)).count();
            let size = world.cluster.image(name).unwrap().size;
            sum += (size as f64 * (having as f64 / world.nodes.len() as f64)) as i64;
        }
        let (min, max) = (23 << 20, (1000 << 20) * names.len() as i64);
        100 * (sum.clamp(min, max) - min) / (max - min)
    }

    proptest! {
        #![proptest_config(forms::config())]

        #[test]
        fn forms_agree(history in history(), pod in arbitrary::pod(), choice: u64) {
            let (world, plugin) = (history.replay(), plugin(&PluginArgs::default()).unwrap());
            forms::check_score(&plugin, &world, &pod, choice, |node| oracle(&world, &pod, node));
        }
    }
}
