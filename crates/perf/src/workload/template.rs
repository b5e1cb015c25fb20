//! Templates: manifests with expressions of Go templates.
//!
//! The files of scheduler_perf use `.Index`, `.Count`, `DivideInt`, `Mod` and the names of
//! `templateParams`. Nothing else is supported.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// The numbers of an operation without `templateParams`.
pub(super) static NO_PARAMS: TemplateParams = TemplateParams::new();

/// The maps that operations write to.
const MAPS: [&str; 6] = [
    "/metadata",
    "/metadata/labels",
    "/spec",
    "/status",
    "/status/capacity",
    "/status/allocatable",
];

/// The numbers that an operation gives to the names of its templates.
pub type TemplateParams = BTreeMap<String, i64>;

/// A template and the numbers with which an operation uses it.
#[derive(Debug, Clone, Copy)]
pub struct TemplateUse<'a> {
    /// The path of the template.
    pub path: &'a Path,
    /// The numbers.
    pub params: &'a TemplateParams,
}

impl<'a> TemplateUse<'a> {
    /// A template without names.
    pub const fn plain(path: &'a Path) -> Self {
        Self { path, params: &NO_PARAMS }
    }
}

/// The template of an object.
#[derive(Debug, Clone)]
pub struct Template {
    path: PathBuf,
    pieces: Vec<Piece>,
    /// The object, if it has no expressions.
    constant: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Expression { source: String, expression: Expression },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Expression {
    Plain(Operand),
    DivideInt(Operand, Operand),
    Mod(Operand, Operand),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operand {
    Index,
    Count,
    Number(i64),
    /// A name of `templateParams`.
    Named(String),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// The file cannot be read, or has an expression that is not supported.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        let text = fs::read_to_string(path)
            .with_context(|| format!("{}: cannot read the template", name()))?;
        let pieces = pieces(&text).with_context(name)?;
        Ok(Self { path: path.to_owned(), pieces, constant: None })
    }

    /// Returns the template with numbers in place of names.
    ///
    /// # Errors
    /// A name has no number, an expression divides by zero, or its result is not valid YAML.
    pub fn bound(&self, params: &TemplateParams) -> anyhow::Result<Self> {
        let bind = |piece: &Piece| match piece {
            Piece::Text(_) => Ok(piece.clone()),
            Piece::Expression { source, expression } => {
                let expression = expression.bound(params).with_context(|| {
                    format!("{}: {source}: the name is not in templateParams", self.path.display())
                })?;
                anyhow::Ok(Piece::Expression { source: source.clone(), expression })
            }
        };
        let pieces = self.pieces.iter().map(bind).collect::<Result<_, _>>()?;
        let mut template = Self { path: self.path.clone(), pieces, constant: None };
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
pub struct Templates(HashMap<PathBuf, Template>);

impl Templates {
    /// Reads the templates at these paths.
    ///
    /// # Errors
    /// A template cannot be used.
    pub fn read<'a>(uses: impl IntoIterator<Item = TemplateUse<'a>>) -> anyhow::Result<Self> {
        let mut templates = Self::default();
        for own in uses {
            if !templates.0.contains_key(own.path) {
                templates.0.insert(own.path.to_owned(), Template::read(own.path)?);
            }
            templates.get(own)?;
        }
        Ok(templates)
    }

    /// Returns a template with the numbers of an operation.
    ///
    /// # Errors
    /// It was not read, or cannot be used with these numbers.
    pub fn get(&self, own: TemplateUse<'_>) -> anyhow::Result<Arc<Template>> {
        let TemplateUse { path, params } = own;
        let template = self.0.get(path);
        let template = template.with_context(|| format!("{}: no such template", path.display()))?;
        template.bound(params).map(Arc::new)
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
                "{source}: not supported; expressions are .Index, .Count, names of templateParams, \
                 DivideInt A B and Mod A B, of these and numbers"
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

    /// Returns the expression with numbers in place of names; `None` if a name has none.
    fn bound(&self, params: &TemplateParams) -> Option<Self> {
        Some(match self {
            Self::Plain(operand) => Self::Plain(operand.bound(params)?),
            Self::DivideInt(a, b) => Self::DivideInt(a.bound(params)?, b.bound(params)?),
            Self::Mod(a, b) => Self::Mod(a.bound(params)?, b.bound(params)?),
        })
    }

    /// Returns the value; `None` for a division by zero.
    fn value(&self, index: usize, count: usize) -> Option<i64> {
        let value = |operand: &Operand| operand.value(index, count);
        match self {
            Self::Plain(operand) => value(operand),
            Self::DivideInt(a, b) => value(a)?.checked_div(value(b)?),
            Self::Mod(a, b) => value(a)?.checked_rem(value(b)?),
        }
    }
}

impl Operand {
    fn parse(word: &str) -> Option<Self> {
        let is_name = |name: &&str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match word {
            ".Index" => Some(Self::Index),
            ".Count" => Some(Self::Count),
            word => match word.strip_prefix('.') {
                Some(name) => Some(name).filter(is_name).map(|name| Self::Named(name.to_owned())),
                None => word.parse().ok().map(Self::Number),
            },
        }
    }

    fn bound(&self, params: &TemplateParams) -> Option<Self> {
        match self {
            Self::Named(name) => params.get(name).copied().map(Self::Number),
            other => Some(other.clone()),
        }
    }

    /// Returns the value; `None` for a name, which has none by itself.
    fn value(&self, index: usize, count: usize) -> Option<i64> {
        match self {
            Self::Index => i64::try_from(index).ok(),
            Self::Count => i64::try_from(count).ok(),
            Self::Number(number) => Some(*number),
            Self::Named(_) => None,
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
            ("{{DivideInt .Index .perGroup}}", "2"),
            ("{{.perGroup}}", "3"),
            ("nothing", "nothing"),
        ];
        let params = TemplateParams::from([("perGroup".to_owned(), 3)]);
        for (text, expected) in rows {
            let rendered: String = pieces(text)
                .unwrap()
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) => text.clone(),
                    Piece::Expression { expression, .. } => {
                        expression.bound(&params).unwrap().value(7, 20).unwrap().to_string()
                    }
                })
                .collect();
            assert_eq!(rendered, expected, "{text}");
        }
    }

    #[test]
    fn other_expressions_are_named() {
        let rows = [
            ("{{ .Name.x }}", "{{ .Name.x }}: not supported"),
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
            let bound = Template::read(&path).unwrap().bound(&TemplateParams::new());
            assert_eq!(bound.unwrap_err().to_string(), format!("{}: {expected}", path.display()));
        }
    }

    #[test]
    fn name_without_a_number_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        fs::write(&path, "{ apiVersion: v1, kind: Pod, spec: { x: {{.pods}} } }").unwrap();
        let read = |params: &TemplateParams| {
            Templates::read([TemplateUse { path: &path, params }]).map(drop)
        };
        let error = read(&TemplateParams::new()).unwrap_err().to_string();
        let expected =
            format!("{}: {{{{.pods}}}}: the name is not in templateParams", path.display());
        assert_eq!(error, expected);
        assert!(read(&TemplateParams::from([("pods".to_owned(), 3)])).is_ok());
    }

    #[test]
    fn division_by_zero_is_no_value() {
        assert_eq!(Expression::parse("Mod .Index 0").unwrap().value(1, 1), None);
        assert_eq!(Expression::parse("DivideInt 1 .Index").unwrap().value(0, 1), None);
    }
}
