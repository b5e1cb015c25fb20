//! `make doctests` runs the packages whose documentation has examples, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{path, read};

/// Languages of blocks that are Rust; without a language a block is Rust, too.
const RUST: [&str; 5] = ["", "rust", "no_run", "should_panic", "compile_fail"];

/// Whether a source file has an example in its documentation.
fn has_example(source: &str) -> bool {
    let mut is_open = false;
    for line in source.lines() {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            is_open = false;
            continue;
        };
        let Some(language) = text.trim().strip_prefix("```") else { continue };
        if !is_open && RUST.contains(&language.split(',').next().unwrap_or_default()) {
            return true;
        }
        is_open = !is_open;
    }
    false
}

/// Whether a source file in this folder, at any depth, has an example.
fn has_examples(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => has_examples(&path),
            false => {
                path.extension().is_some_and(|own| own == "rs")
                    && has_example(&fs::read_to_string(&path).unwrap())
            }
        }
    })
}

fn package(manifest: &str) -> String {
    let manifest: toml::Table = manifest.parse().unwrap();
    manifest["package"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn packages_with_examples_are_those_that_make_doctests_runs() {
    let makefile = read("Makefile");
    let listed = makefile.lines().find_map(|line| line.strip_prefix("DOCTESTED := ")).unwrap();
    let listed: BTreeSet<_> = listed.split_whitespace().map(str::to_owned).collect();
    // The pages of the guide for plugins are the examples of this package.
    let mut with_examples = BTreeSet::from(["loadmaster".to_owned()]);
    for members in ["crates", "examples/plugins"] {
        for member in fs::read_dir(path(members)).unwrap() {
            let member = member.unwrap().path();
            if has_examples(&member.join("src")) {
                let manifest = fs::read_to_string(member.join("Cargo.toml")).unwrap();
                with_examples.insert(package(&manifest));
            }
        }
    }
    assert_eq!(listed, with_examples, "DOCTESTED in the Makefile");
}

#[test]
fn examples_are_told_from_other_blocks() {
    let rows = [
        ("/// ```\n/// let a = 1;\n/// ```", true),
        ("    //! ```no_run\n    //! ```", true),
        ("/// ```text\n/// a\n/// ```", false),
        ("/// ```text\n/// a\n/// ```\n/// ```rust,ignore\n/// ```", true),
        ("// ```\n// ```\nlet a = \"```\";", false),
    ];
    for (source, expected) in rows {
        assert_eq!(has_example(source), expected, "{source}");
    }
}
