//! Bugs that are planted by hand, in places that random mutations seldom hit.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::mutation::{Function, Mutation, SWITCH};

/// The name of the function in the keys of these bugs.
const FUNCTION: &str = "planted by hand";

/// A bug that is planted by hand.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bug {
    /// What the scheduler does with the bug.
    pub(crate) name: String,
    /// The path in the workspace.
    pub(crate) file: PathBuf,
    /// An expression or a statement that occurs once in the file.
    code: String,
    /// The expression or statements in its place. Without them the statement is skipped.
    becomes: Option<String>,
    /// What else finds the bug, or why the simulation does not.
    pub(crate) note: Option<String>,
    /// Why the bug changes nothing that the scheduler does.
    pub(crate) harmless: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    bug: Vec<Bug>,
}

/// Reads a file of bugs.
///
/// # Errors
/// The file cannot be read, or it is not a list of bugs.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Bug>> {
    let context = || path.display().to_string();
    let text = fs::read_to_string(path).with_context(context)?;
    let file: File = toml::from_str(&text).with_context(context)?;
    Ok(file.bug)
}

impl Bug {
    /// Returns the bug as a mutation of the text of its file.
    ///
    /// # Errors
    /// The code does not occur once.
    pub(crate) fn plant(&self, number: usize, text: &str) -> anyhow::Result<Mutation> {
        let Self { name, code, becomes, .. } = self;
        let code = code.trim();
        ensure!(text.matches(code).count() == 1, "{name:?}: the code does not occur once");
        let start = text.find(code).unwrap_or_default();
        let range = start..start + code.len();
        let on = format!("{SWITCH}({number})");
        let (before, after) = match becomes {
            None => (format!("if !{on} {{ "), " }".to_owned()),
            Some(becomes) => {
                let becomes = becomes.split_whitespace().collect::<Vec<_>>().join(" ");
                (format!("(if {on} {{ {becomes} }} else {{ "), " })".to_owned())
            }
        };
        let line = |end: usize| 1 + text[..end].matches('\n').count();
        let lines = line(range.start)..=line(range.end);
        let function = Function { name: FUNCTION.to_owned(), lines: lines.clone() };
        Ok(Mutation { number, lines, function, change: name.clone(), range, before, after })
    }
}

#[cfg(test)]
mod tests {
    use super::super::mutation::rewrite;
    use super::Bug;

    const TEXT: &str = "fn f(a: u8) {\n    if a < 3 {\n        g(a);\n    }\n}\n";

    fn bug(code: &str, becomes: Option<&str>) -> Bug {
        let becomes = becomes.map(str::to_owned);
        let (name, file, code) = ("b".into(), "f.rs".into(), code.to_owned());
        Bug { name, file, code, becomes, note: None, harmless: None }
    }

    #[test]
    fn bugs_are_planted() {
        for (bug, planted) in [
            (bug("a < 3", Some("a\n != 3")), "(if crate::mutant(90) { a != 3 } else { "),
            (bug("g(a);", None), "if !crate::mutant(90) { "),
        ] {
            let text = rewrite(TEXT, &[bug.plant(90, TEXT).unwrap()]);
            assert!(text.contains(planted), "{text}");
            syn::parse_file(&text).unwrap();
            assert_eq!(text.lines().count(), TEXT.lines().count());
        }
    }

    #[test]
    fn code_that_does_not_occur_once_is_an_error() {
        for code in ["h(a)", "a"] {
            assert!(bug(code, None).plant(90, TEXT).is_err(), "{code}");
        }
    }
}
