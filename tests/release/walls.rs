//! The core depends on none of the rooms around it.

use std::collections::BTreeSet;
use std::fs;

use super::{path, read};

/// Returns the packages that `make core` compiles, without the prefix of their names.
fn core() -> BTreeSet<String> {
    let makefile = read("Makefile").replace("\\\n", " ");
    let listed = makefile.lines().find_map(|line| line.strip_prefix("CORE := ")).unwrap();
    listed.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn core_depends_on_the_core_alone() {
    let core = core();
    let crates: BTreeSet<String> = fs::read_dir(path("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(core.is_subset(&crates), "{core:?}");
    for package in &core {
        let manifest: toml::Table = read(&format!("crates/{package}/Cargo.toml")).parse().unwrap();
        for section in ["dependencies", "dev-dependencies"] {
            let dependencies = manifest.get(section).and_then(toml::Value::as_table);
            for name in dependencies.into_iter().flat_map(toml::Table::keys) {
                let is_outside = crates.contains(name) && !core.contains(name);
                assert!(!is_outside, "{package} depends on {name}");
                let is_io = ["tokio", "kube", "hyper", "axum"].contains(&name.as_str());
                assert!(!is_io, "{package} does no I/O, but depends on {name}");
            }
        }
    }
}
