//! The image and the workflows of a release: what they use is pinned, and versions agree.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod doctests;
mod notes;
mod threats;
mod walls;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The version of Rust that builds this package, as `Cargo.toml` names it.
const RUST: &str = env!("CARGO_PKG_RUST_VERSION");

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn read(relative: &str) -> String {
    fs::read_to_string(path(relative)).unwrap()
}

/// Returns the workflows by file name.
fn workflows() -> Vec<(String, Value)> {
    let files = fs::read_dir(path(".github/workflows")).unwrap();
    let workflows = files.map(|file| {
        let file = file.unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        (file.file_name().into_string().unwrap(), yaml::decode(&text).unwrap())
    });
    workflows.collect()
}

/// Collects the text of every field with this name, at any depth.
fn fields<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields_of) => {
            found.extend(fields_of.get(name).and_then(Value::as_str));
            fields_of.values().for_each(|inner| fields(inner, name, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| fields(inner, name, found)),
        _ => {}
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[test]
fn base_images_are_pinned_by_digest() {
    let dockerfile = read("Dockerfile");
    let bases = dockerfile.lines().filter_map(|line| line.strip_prefix("FROM "));
    let bases = bases.filter_map(|from| from.split(' ').find(|word| !word.starts_with("--")));
    let bases: Vec<&str> = bases.filter(|base| *base != "scratch").collect();
    let expected = format!("rust:{RUST}.");
    let [base] = bases[..] else { panic!("{bases:?}") };
    assert!(base.starts_with(&expected), "{base} is not Rust {RUST}");
    let digest = base.split_once("@sha256:").map(|(_, digest)| digest);
    assert!(digest.is_some_and(|digest| is_hex(digest, 64)), "{base}");
}

#[test]
fn debug_variant_of_the_image_has_profiles_frame_pointers_and_symbols() {
    let dockerfile = read("Dockerfile");
    assert!(dockerfile.contains("\nARG VARIANT=release\n"), "{dockerfile}");
    let (_, debug) = dockerfile.split_once(" debug) \\\n").unwrap();
    let (debug, _) = debug.split_once(";;").unwrap();
    for part in ["features=profiling", "force-frame-pointers=yes", "STRIP=none"] {
        assert!(debug.contains(part), "{debug} lacks {part}");
    }
    // Heap profiles: the allocator samples from the start, and writes them to a folder that a
    // container has.
    assert!(read(".cargo/config.toml").contains(r#"JEMALLOC_SYS_WITH_MALLOC_CONF = "prof:true""#));
    assert!(read(".dockerignore").lines().any(|line| line == "!.cargo"));
    assert!(dockerfile.contains("\nENV TMPDIR=/dev/shm\n"), "{dockerfile}");
}

#[test]
fn final_stage_of_the_image_has_no_base_and_a_numeric_user() {
    let dockerfile = read("Dockerfile");
    let (_, last) = dockerfile.rsplit_once("\nFROM ").unwrap();
    assert!(last.starts_with("scratch\n"), "{last}");
    assert!(last.contains("\nUSER 65532:65532\n"), "{last}");
}

#[test]
fn actions_are_pinned_by_commit() {
    for (name, workflow) in workflows() {
        let mut actions = Vec::new();
        fields(&workflow, "uses", &mut actions);
        assert!(!actions.is_empty(), "{name}");
        for action in actions.into_iter().filter(|action| !action.starts_with("./")) {
            let commit = action.split_once('@').map(|(_, commit)| commit);
            assert!(commit.is_some_and(|commit| is_hex(commit, 40)), "{name}: {action}");
        }
    }
}

#[test]
fn workflows_may_only_read_unless_a_job_asks_for_more() {
    for (name, workflow) in workflows() {
        assert_eq!(workflow["permissions"], serde_json::json!({"contents": "read"}), "{name}");
    }
}

#[test]
fn end_to_end_tests_run_on_every_supported_kubernetes() {
    let (_, kind) = workflows().into_iter().find(|(name, _)| name == "kind.yml").unwrap();
    let matrix = kind["jobs"]["end-to-end"]["strategy"]["matrix"]["include"].as_array().unwrap();
    let mut versions = BTreeSet::new();
    for entry in matrix {
        let (version, image) =
            (entry["kubernetes"].as_str().unwrap(), entry["image"].as_str().unwrap());
        let (tag, digest) = image.split_once("@sha256:").unwrap();
        assert!(tag.starts_with(&format!("kindest/node:v{version}.")), "{version}: {image}");
        assert!(is_hex(digest, 64), "{image}");
        versions.insert(version);
    }
    assert_eq!(versions, BTreeSet::from(["1.33", "1.34", "1.35", "1.36", "1.37"]));
}
