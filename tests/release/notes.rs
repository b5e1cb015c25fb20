//! `.ci/release-notes`, on a copy of the files that it reads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::path;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A copy of the repository's files that name the version, with a section for the version in the
/// changelog.
struct Repository {
    root: PathBuf,
}

impl Repository {
    fn new(test: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("release-notes").join(test);
        for folder in [".ci", "charts/loadmaster"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in
            [".ci/release-notes", "Cargo.toml", "Cargo.lock", "charts/loadmaster/Chart.yaml"]
        {
            fs::copy(path(file), root.join(file)).unwrap();
        }
        let changelog = format!(
            "# Changelog\n\n## Unreleased\n\n- Later.\n\n## {VERSION} - 2026-01-31\n\n### Added\n\n- \
             A thing.\n\n## {VERSION}0 - 2025-01-31\n\n- Earlier.\n"
        );
        fs::write(root.join("CHANGELOG.md"), changelog).unwrap();
        Self { root }
    }

    fn replace(&self, file: &str, from: &str, to: &str) {
        let file = self.root.join(file);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(file, text.replace(from, to)).unwrap();
    }

    fn notes(&self, tag: &str) -> Output {
        Command::new(self.root.join(".ci/release-notes")).arg(tag).output().unwrap()
    }

    /// Returns the error of the script.
    fn error(&self, tag: &str) -> String {
        let output = self.notes(tag);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(output.stdout, b"");
        String::from_utf8(output.stderr).unwrap()
    }
}

fn tag() -> String {
    format!("v{VERSION}")
}

#[test]
fn notes_are_the_section_of_the_version() {
    let output = Repository::new("section").notes(&tag());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "### Added\n\n- A thing.\n");
}

#[test]
fn release_without_its_section_in_the_changelog_is_refused() {
    let repository = Repository::new("no-section");
    repository.replace("CHANGELOG.md", &format!("## {VERSION} - 2026-01-31"), "## Soon");
    let expected =
        format!("release-notes: CHANGELOG.md has no section '## {VERSION} - YYYY-MM-DD'\n");
    assert_eq!(repository.error(&tag()), expected);
}

#[test]
fn file_with_another_version_is_named() {
    let (own, other) = (format!("version: {VERSION}\n"), "version: 9.9.9\n");
    let repository = Repository::new("chart");
    repository.replace("charts/loadmaster/Chart.yaml", &own, other);
    let expected = format!(
        "release-notes: charts/loadmaster/Chart.yaml: version: expected {VERSION}, found 9.9.9\n"
    );
    assert_eq!(repository.error(&tag()), expected);
}

#[test]
fn tag_of_another_version_is_refused() {
    let repository = Repository::new("tag");
    let expected = format!("release-notes: Cargo.toml: expected 9.9.9, found {VERSION}\n");
    assert_eq!(repository.error("v9.9.9"), expected);
    for tag in ["", "1.2.3", "v1.2", "v1.2.3-rc.1"] {
        let expected = format!("release-notes: expected a tag like v1.2.3, got '{tag}'\n");
        assert_eq!(repository.error(tag), expected);
    }
}
