//! Templates: manifests with expressions of Go templates.
//!
//! The files of scheduler_perf use `.Index`, `.Count`, `DivideInt` and `Mod`. Nothing else is
//! supported.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// The maps that operations write to.
const MAPS: [&str; 6] = [
    "/metadata",
    "/metadata/labels",
    "/spec",
    "/status",
    "/status/capacity",
    "/status/allocatable",
];

/// The template of an object.
#[derive(Debug)]
pub struct Template {
    path: PathBuf,
    pieces: Vec<Piece>,
    /// The object, if it has no expressions.
    constant: Option<Value>,
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Expression { source: String, expression: Expression },
}

#[derive(Debug, PartialEq, Eq)]
enum Expression {
    Plain(Operand),
    DivideInt(Operand, Operand),
    Mod(Operand, Operand),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operand {
    Index,
    Count,
    Number(i64),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// The file cannot be read, has an expression that is not supported, or is not YAML.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        let text = fs::read_to_string(path)
            .with_context(|| format!("{}: cannot read the template", name()))?;
        let pieces = pieces(&text).with_context(name)?;
        let mut template = Self { path: path.to_owned(), pieces, constant: None };
        // Rendered once to find errors early.
        let object = template.object(0, 1)?;
        if template.pieces.iter().all(|piece| matches!(piece, Piece::Text(_))) {
            template.constant = Some(object);
        }
        Ok(template)
    }

    /// Returns the object with this index among `count` objects.
    ///
    /// # Errors
    /// An expression divides by zero, or its result is not valid YAML.
    pub fn object(&self, index: usize, count: usize) -> anyhow::Result<Value> {
        if let Some(object) = &self.constant {
            return Ok(object.clone());
        }
        let name = || self.path.display().to_string();
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Expression { source, expression } => {
                    let value = expression.value(index, count);
                    let value =
                        value.with_context(|| format!("{}: {source}: division by zero", name()))?;
                    text.push_str(&value.to_string());
                }
            }
        }
        let object = yaml::read(&text).with_context(name)?.value;
        ensure!(
            object["apiVersion"].is_string() && object["kind"].is_string(),
            "{}: the template has to have an apiVersion and a kind",
            name()
        );
        for field in MAPS {
            let is_map = |value: &Value| value.is_object() || value.is_null();
            ensure!(
                object.pointer(field).is_none_or(is_map),
                "{}: {} has to be a map",
                name(),
                field.trim_start_matches('/').replace('/', ".")
            );
        }
        Ok(object)
    }
}

/// Templates by path, each read once.
#[derive(Debug, Default)]
pub struct Templates(HashMap<PathBuf, Arc<Template>>);

impl Templates {
    /// Reads the templates at these paths.
    ///
    /// # Errors
    /// A template cannot be used.
    pub fn read<'a>(paths: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<Self> {
        let mut templates = Self::default();
        for path in paths {
            if !templates.0.contains_key(path) {
                templates.0.insert(path.to_owned(), Arc::new(Template::read(path)?));
            }
        }
        Ok(templates)
    }

    /// Returns the template at this path.
    ///
    /// # Errors
    /// It was not read.
    pub fn get(&self, path: &Path) -> anyhow::Result<Arc<Template>> {
        self.0.get(path).cloned().with_context(|| format!("{}: no such template", path.display()))
    }
}

fn pieces(text: &str) -> anyhow::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inside, after)) = after.split_once("}}") else {
            bail!("{{{{ without }}}}");
        };
        let source = format!("{{{{{inside}}}}}");
        let expression = Expression::parse(inside).with_context(|| {
            format!(
                "{source}: not supported; expressions are .Index, .Count, DivideInt A B and Mod A B, \
                 of these and numbers"
            )
        })?;
        pieces.push(Piece::Text(before.to_owned()));
        pieces.push(Piece::Expression { source, expression });
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Ok(pieces)
}

impl Expression {
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Some(match words.as_slice() {
            [operand] => Self::Plain(Operand::parse(operand)?),
            ["DivideInt", a, b] => Self::DivideInt(Operand::parse(a)?, Operand::parse(b)?),
            ["Mod", a, b] => Self::Mod(Operand::parse(a)?, Operand::parse(b)?),
            _ => return None,
        })
    }

    /// Returns the value; `None` for a division by zero.
    fn value(&self, index: usize, count: usize) -> Option<i64> {
        let value = |operand: Operand| operand.value(index, count);
        match *self {
            Self::Plain(operand) => value(operand),
            Self::DivideInt(a, b) => value(a)?.checked_div(value(b)?),
            Self::Mod(a, b) => value(a)?.checked_rem(value(b)?),
        }
    }
}

impl Operand {
    fn parse(word: &str) -> Option<Self> {
        match word {
            ".Index" => Some(Self::Index),
            ".Count" => Some(Self::Count),
            number => number.parse().ok().map(Self::Number),
        }
    }

    fn value(self, index: usize, count: usize) -> Option<i64> {
        match self {
            Self::Index => i64::try_from(index).ok(),
            Self::Count => i64::try_from(count).ok(),
            Self::Number(number) => Some(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated() {
        let rows = [
            ("a {{.Index}} b", "a 7 b"),
            ("{{ .Count }}{{ .Index }}", "207"),
            ("{{DivideInt .Index 5}}", "1"),
            ("{{ DivideInt 30000 .Count }}Mi", "1500Mi"),
            ("{{Mod .Index 5}}", "2"),
            ("{{ 42 }}", "42"),
            ("nothing", "nothing"),
        ];
        for (text, expected) in rows {
            let rendered: String = pieces(text)
                .unwrap()
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) => text.clone(),
                    Piece::Expression { expression, .. } => {
                        expression.value(7, 20).unwrap().to_string()
                    }
                })
                .collect();
            assert_eq!(rendered, expected, "{text}");
        }
    }

    #[test]
    fn other_expressions_are_named() {
        let rows = [
            ("{{ .Name }}", "{{ .Name }}: not supported"),
            ("{{if .Index}}", "{{if .Index}}: not supported"),
            ("{{DivideInt .Index}}", "{{DivideInt .Index}}: not supported"),
            ("{{AddInt .Index 1}}", "{{AddInt .Index 1}}: not supported"),
            ("x {{ .Index", "{{ without }}"),
        ];
        for (text, expected) in rows {
            let error = pieces(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn objects_have_a_kind_and_maps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        let rows = [
            ("kind: Pod", "the template has to have an apiVersion and a kind"),
            ("{ apiVersion: v1, kind: Pod, spec: 1 }", "spec has to be a map"),
            (
                "{ apiVersion: v1, kind: Pod, metadata: { labels: [] } }",
                "metadata.labels has to be a map",
            ),
        ];
        for (text, expected) in rows {
            fs::write(&path, text).unwrap();
            let error = Template::read(&path).unwrap_err().to_string();
            assert_eq!(error, format!("{}: {expected}", path.display()));
        }
    }

    #[test]
    fn division_by_zero_is_no_value() {
        assert_eq!(Expression::parse("Mod .Index 0").unwrap().value(1, 1), None);
        assert_eq!(Expression::parse("DivideInt 1 .Index").unwrap().value(0, 1), None);
    }
}
