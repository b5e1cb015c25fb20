//! Pods with volumes: rankings follow the volumes, their claims, and what CSI drivers say of nodes.

use engine::Change;
use engine::cycle::Form;
use fastrand::Rng;
use framework::{EventResource, ObjectKey, Pod, PodKey, Time};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde_json::json;
use testkit::{PodBuilder, StorageObject, bound_claim, csi_node, pod, volume, volume_attachment};

use super::{HOST, Scheduler, ZONE, any_node};

/// Number of histories.
const HISTORIES: u64 = 40;
/// Number of changes in each.
const STEPS: i64 = 60;
/// Number of claims, each with a volume.
const CLAIMS: usize = 6;
const TEMPLATES: usize = 6;
const NODES: usize = 24;
const DRIVER: &str = "disk.example.com";

/// A pod of one of the templates with one of the claims.
fn any_pod(name: &str, template: usize, number: usize) -> PodBuilder {
    let disk = |read_only: bool| {
        let disk = json!({"pdName": format!("d{number}"), "readOnly": read_only});
        json!({ "gcePersistentDisk": disk })
    };
    let claim = format!("c{number}");
    let pod = pod(name).label("app", &format!("a{template}")).cpu("100m").memory("64Mi");
    match template {
        0 | 1 => pod.claim(&claim),
        2 => pod.claim(&claim).claim("c0").cpu("1").priority(10),
        3 => pod.volume(disk(false)),
        4 => pod.volume(disk(true)).claim(&claim),
        _ => pod,
    }
}

/// The volume of a claim, by the node, the zone or the label that it is tied to.
fn any_volume(number: usize, rng: &mut Rng) -> StorageObject {
    let tied_to = |key: &str, value: String| {
        let term = json!({"key": key, "operator": "In", "values": [value]});
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}})
    };
    let (zone, node) = (format!("z{}", rng.u8(..3)), format!("n{}", rng.usize(..NODES)));
    let csi = json!({"driver": DRIVER, "volumeHandle": format!("v{number}")});
    let name = format!("v{number}");
    match rng.u8(..6) {
        0 => volume(&name, json!({"local": {"path": "/"}, "nodeAffinity": tied_to(HOST, node)})),
        1 => volume(&name, json!({"csi": csi, "nodeAffinity": tied_to(ZONE, zone)})),
        2 => volume(&name, json!({ "csi": csi })).label(ZONE, &zone),
        3 => {
            let disk = json!({ "pdName": name });
            volume(&name, json!({ "gcePersistentDisk": disk })).label(ZONE, &zone)
        }
        _ => volume(&name, json!({ "csi": csi })),
    }
}

fn any_claim(number: usize, rng: &mut Rng) -> StorageObject {
    let modes = match rng.u8(..5) {
        0 => json!(["ReadWriteOncePod"]),
        _ => json!(["ReadWriteMany"]),
    };
    let claim = bound_claim(&format!("c{number}"), &format!("v{number}"));
    claim.set("/spec/accessModes", modes)
}

fn any_csi_node(number: usize, rng: &mut Rng) -> StorageObject {
    let limit = rng.bool().then(|| rng.i32(1..4));
    let node = csi_node(&format!("n{number}"), &[(DRIVER, limit)]);
    match rng.bool() {
        true => node,
        false => {
            node.annotation("storage.alpha.kubernetes.io/migrated-plugins", "kubernetes.io/gce-pd")
        }
    }
}

/// Returns the change that an object of this kind is there, or that it is gone.
fn change(kind: EventResource, object: &StorageObject, is_there: bool) -> Change {
    let text = |field| object.json()["metadata"][field].as_str().unwrap_or_default();
    let key = ObjectKey::namespaced(kind, text("namespace").into(), text("name").into());
    Change::decode(key, is_there.then(|| object.json().clone())).expect("the object decodes")
}

/// A change of some object of storage. Most objects are there afterwards.
fn any_storage_change(rng: &mut Rng) -> Change {
    let is_there = rng.u8(..5) > 0;
    let (claim, node) = (rng.usize(..CLAIMS), rng.usize(..NODES));
    match rng.u8(..4) {
        0 => change(EventResource::PersistentVolume, &any_volume(claim, rng), is_there),
        1 => change(EventResource::PersistentVolumeClaim, &any_claim(claim, rng), is_there),
        2 => change(EventResource::CsiNode, &any_csi_node(node, rng), is_there),
        _ => {
            let (volume, node) = (format!("v{claim}"), format!("n{node}"));
            let attachment = volume_attachment(DRIVER, &volume, &node);
            change(EventResource::VolumeAttachment, &attachment, is_there)
        }
    }
}

/// Runs one history by the full pass, by rankings, and by rankings of which each decision is
/// checked. Returns the numbers of decisions by a ranking and of failed attempts without a full
/// pass.
fn compare(seed: u64) -> (u64, u64) {
    let mut rng = Rng::with_seed(seed);
    let new = |form, check_one_in| Scheduler::with(seed, form, check_one_in, &[]);
    let mut all = [new(Form::Set, u64::MAX), new(Form::Ranked, u64::MAX), new(Form::Ranked, 1)];
    let apply = |all: &mut [Scheduler; 3], change: Change, now: Time| {
        all.iter_mut().for_each(|scheduler| scheduler.apply(change.clone(), now));
    };
    let start = Time::from_secs(0);
    for number in 0..NODES {
        apply(&mut all, Change::Node(any_node(number, &mut rng).build()), start);
        let node = change(EventResource::CsiNode, &any_csi_node(number, &mut rng), true);
        apply(&mut all, node, start);
    }
    for number in 0..CLAIMS {
        let (volume, claim) = (any_volume(number, &mut rng), any_claim(number, &mut rng));
        apply(&mut all, change(EventResource::PersistentVolume, &volume, true), start);
        apply(&mut all, change(EventResource::PersistentVolumeClaim, &claim, true), start);
    }
    let mut names = 0;
    for step in 0..STEPS {
        let now = Time::from_secs(step * 7);
        match rng.u8(..16) {
            0..9 => {
                let (template, number) = (rng.usize(..TEMPLATES), rng.usize(..CLAIMS));
                for _ in 0..rng.usize(1..8) {
                    names += 1;
                    let pod = any_pod(&format!("p{names}"), template, number);
                    let pod = pod.uid(&names.to_string()).build();
                    apply(&mut all, Change::Pod(Box::new(pod)), now);
                }
            }
            9..12 => {
                let known: Vec<(PodKey, Pod)> = all[0].pods.clone().into_iter().collect();
                if let Some((key, pod)) = rng.choice(known) {
                    apply(&mut all, Change::PodDeleted { key, uid: pod.uid }, now);
                }
            }
            12 => {
                let node = any_node(rng.usize(..NODES), &mut rng).build();
                apply(&mut all, Change::Node(node), now);
            }
            13 => {
                let name = format!("n{}", rng.usize(..NODES));
                apply(&mut all, Change::NodeDeleted(name.into()), now);
            }
            _ => apply(&mut all, any_storage_change(&mut rng), now),
        }
        all.iter_mut().for_each(|scheduler| scheduler.run(now));
        let [full, ranked, checked] = &mut all;
        assert_eq!(full.effects, ranked.effects, "seed {seed}, step {step}");
        assert_eq!(full.effects, checked.effects, "checked, seed {seed}, step {step}");
        assert_eq!(checked.differing, 0, "a check found a difference: seed {seed}, step {step}");
        all.iter_mut().for_each(|scheduler| scheduler.effects.clear());
    }
    (all[1].engine.ranked_decisions(), all[1].engine.repeated_rejections())
}

#[test]
fn decisions_about_pods_with_volumes_are_those_of_the_full_pass() {
    let counts = (0..HISTORIES).into_par_iter().map(compare);
    let (ranked, repeated) =
        counts.reduce(|| (0, 0), |one, other| (one.0 + other.0, one.1 + other.1));
    assert!(ranked > 20 * HISTORIES, "only {ranked} decisions were made by rankings");
    assert!(repeated > 4 * HISTORIES, "only {repeated} attempts failed without a full pass");
}
