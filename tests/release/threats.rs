//! The threat model names tests that exist.

use super::read;

/// Returns the texts in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_line_of_the_threat_model_names_a_test_that_exists() {
    let page = read("docs/security.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| Test |"));
    let mut checked = 0;
    for row in rows {
        let (_, held_by) = row.trim_end_matches(" |").rsplit_once(" | ").unwrap();
        let mut tests = Vec::new();
        let mut files = 0;
        for name in quoted(held_by) {
            if !name.contains('/') {
                tests.push(name);
                continue;
            }
            let file = read(name);
            for test in tests.drain(..) {
                let (head, _) = file
                    .split_once(&format!("fn {test}("))
                    .unwrap_or_else(|| panic!("{name} has no test {test}"));
                let attribute = head.rfind("#[").map(|start| &head[start..]).unwrap_or_default();
                assert!(attribute.contains("test"), "{test} in {name} is not a test");
                checked += 1;
            }
            files += 1;
        }
        assert!(files > 0 && tests.is_empty(), "no test and file: {row}");
    }
    assert!(checked > 30, "{checked}");
}
