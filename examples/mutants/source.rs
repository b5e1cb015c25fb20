//! The workspace, and its copy with mutations.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::bugs::{self, Bug};
use super::mutation::{Key, Mutation, rewrite};
use super::planter::plant;

/// The parts of the scheduler in which mutations are planted, and their files and folders.
const MODULES: [(&str, &[&str]); 10] = [
    ("queue", &["crates/engine/src/queue"]),
    ("world", &["crates/engine/src/world"]),
    ("binding", &["crates/engine/src/binding"]),
    ("preemption", &["crates/engine/src/preemption", "crates/framework/src/preemption"]),
    ("API dispatcher", &["crates/control/src/api_dispatcher"]),
    ("reflector", &["crates/control/src/reflector"]),
    (
        "leader election and driver",
        &["crates/control/src/leader_election", "crates/control/src/scheduler.rs"],
    ),
    ("VolumeBinding", &["crates/plugins/src/volume_binding"]),
    ("DynamicResources", &["crates/plugins/src/dynamic_resources"]),
    ("structured allocator", &["crates/structured/src"]),
];

/// The bugs that are planted by hand.
const BUGS: &str = "examples/mutants/bugs.toml";

/// The part of the scheduler that files with such bugs only belong to.
const ELSEWHERE: &str = "elsewhere";

/// The function that mutations ask, for the end of each `lib.rs`. Without the variable that
/// switches some on, it writes the numbers of the mutations that the program reaches into a file.
const SWITCH: &str = r#"
#[doc(hidden)]
#[inline]
pub(crate) fn mutant(number: usize) -> bool {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    static ON: LazyLock<Option<Vec<usize>>> = LazyLock::new(|| {
        let numbers = std::env::var("LOADMASTER_MUTANTS").ok()?;
        Some(numbers.split(',').filter_map(|number| number.parse().ok()).collect())
    });
    static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    match &*ON {
        Some(on) => on.contains(&number),
        None => {
            if !REACHED[number].swap(true, Ordering::Relaxed)
                && let Some(path) = std::env::var_os("LOADMASTER_REACHED")
            {
                let file = std::fs::File::options().append(true).create(true).open(path);
                let mut file = file.expect("the file for reached mutations can be opened");
                std::io::Write::write_all(&mut file, format!("{number}\n").as_bytes())
                    .expect("the file for reached mutations can be written");
            }
            false
        }
    }
}
"#;

/// The library of the root package in the copy: what the simulation uses of it. All of it takes
/// minutes to compile.
const LIBRARY: &str = "//! The parts of the daemon that the simulation runs.\n
pub mod config;\npub mod wire;\n";

/// A source file with its mutations.
pub(crate) struct SourceFile {
    /// The path in the workspace.
    pub(crate) path: PathBuf,
    /// The part of the scheduler.
    pub(crate) module: &'static str,
    text: String,
    pub(crate) mutations: Vec<Mutation>,
    /// The mutations that are planted by hand.
    pub(crate) by_hand: Vec<Mutation>,
}

impl SourceFile {
    /// Returns all mutations.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Mutation> {
        self.mutations.iter().chain(&self.by_hand)
    }
}

/// The files of the workspace.
pub(crate) struct Source {
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// The files with mutations.
    pub(crate) planted: Vec<SourceFile>,
    /// The bugs that are planted by hand, with their numbers.
    pub(crate) bugs: Vec<(usize, Bug)>,
}

impl Source {
    /// Reads the workspace and finds its mutations: the random ones, or with `by_hand` those that
    /// are planted by hand. They could not all be compiled into one program.
    ///
    /// # Errors
    /// A file cannot be read or parsed, or a bug is not in its file.
    pub(crate) fn read(root: &Path, by_hand: bool) -> anyhow::Result<Self> {
        let mut files = BTreeMap::new();
        read_folder(root, Path::new(""), &mut files)?;
        let mut planted = Vec::new();
        let mut next = 0;
        for (module, path) in planted_files(&files) {
            let text = String::from_utf8(files[&path].clone())?;
            let mutations = match by_hand {
                true => Vec::new(),
                false => plant(&text, next).with_context(|| path.display().to_string())?,
            };
            next += mutations.len();
            planted.push(SourceFile { path, module, text, mutations, by_hand: Vec::new() });
        }
        let bugs = if by_hand { bugs::read(&root.join(BUGS))? } else { Vec::new() };
        let bugs: Vec<(usize, Bug)> = (0..).zip(bugs).collect();
        for (number, bug) in &bugs {
            let file = match planted.iter_mut().position(|file| file.path == bug.file) {
                Some(place) => &mut planted[place],
                None => {
                    let text = files.get(&bug.file).cloned();
                    let text = text.with_context(|| bug.file.display().to_string())?;
                    let (path, text) = (bug.file.clone(), String::from_utf8(text)?);
                    let (mutations, by_hand) = (Vec::new(), Vec::new());
                    planted.push(SourceFile { path, module: ELSEWHERE, text, mutations, by_hand });
                    planted.last_mut().context("it was added")?
                }
            };
            let mutation = bug.plant(*number, &file.text)?;
            file.by_hand.push(mutation);
        }
        Ok(Self { files, planted, bugs })
    }

    /// Returns the part of the scheduler that a file with mutations belongs to.
    pub(crate) fn module_of(&self, path: &Path) -> &'static str {
        let file = self.planted.iter().find(|file| file.path == path);
        file.map_or(ELSEWHERE, |file| file.module)
    }

    /// Returns a number that changes with the code of the simulation and of what it runs.
    pub(crate) fn fingerprint(&self) -> u64 {
        const CODE: [&str; 5] =
            ["Cargo.lock", "crates", "examples/faults.rs", "src", "tests/simulation"];
        let mut hasher = DefaultHasher::new();
        let is_code = |path: &Path| CODE.iter().any(|code| path.starts_with(code));
        self.files.iter().filter(|(path, _)| is_code(path)).for_each(|it| it.hash(&mut hasher));
        for mutation in self.planted.iter().flat_map(SourceFile::all) {
            (mutation.number, &mutation.range, &mutation.before).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns what identifies each mutation across changes of the code, by its number.
    pub(crate) fn keys(&self) -> BTreeMap<usize, Key> {
        let mut keys = BTreeMap::new();
        for file in &self.planted {
            let mut equal: BTreeMap<(&str, &str), usize> = BTreeMap::new();
            for mutation in file.all() {
                let (function, change) =
                    (mutation.function.name.as_str(), mutation.change.as_str());
                let nth = equal.entry((function, change)).or_default();
                *nth += 1;
                let (function, change) = (function.to_owned(), change.to_owned());
                let key = Key { file: file.path.clone(), function, change, nth: *nth };
                keys.insert(mutation.number, key);
            }
        }
        keys
    }

    /// Writes the workspace with all mutations but the `rejected` ones into `folder`. Files that
    /// are right already keep their time, so that cargo compiles no more than it must.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn write(&self, folder: &Path, rejected: &[usize]) -> anyhow::Result<()> {
        let count: usize = self.planted.iter().map(|file| file.all().count()).sum();
        let mut files = self.files.clone();
        files.insert("src/lib.rs".into(), LIBRARY.into());
        for file in &self.planted {
            let path = &file.path;
            let kept = file.all().filter(|it| !rejected.contains(&it.number));
            files.insert(path.clone(), rewrite(&file.text, kept).into_bytes());
            let depth = if path.starts_with("crates") { 3 } else { 1 };
            let library: PathBuf = path.iter().take(depth).chain(["lib.rs".as_ref()]).collect();
            let root = files.get_mut(&library).context("a crate has a lib.rs")?;
            let switch = SWITCH.replace("COUNT", &count.to_string());
            if !root.ends_with(switch.as_bytes()) {
                root.extend(switch.as_bytes());
            }
        }
        for (path, contents) in files {
            let path = folder.join(path);
            if fs::read(&path).is_ok_and(|present| present == contents) {
                continue;
            }
            fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
            fs::write(&path, contents).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// Reads the files of a folder of the workspace, without hidden ones and what cargo has built.
fn read_folder(
    root: &Path,
    folder: &Path,
    files: &mut BTreeMap<PathBuf, Vec<u8>>,
) -> anyhow::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name();
        let path = folder.join(&name);
        if name == "target" || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.path().is_dir() {
            read_folder(root, &path, files)?;
        } else {
            let contents = fs::read(entry.path()).with_context(|| path.display().to_string())?;
            files.insert(path, contents);
        }
    }
    Ok(())
}

/// Returns the files of each module, without tests and the models of the simulation.
fn planted_files(files: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<(&'static str, PathBuf)> {
    const OTHERS: [&str; 4] = ["tests", "tests.rs", "simulation", "simulation.rs"];
    let is_code = |path: &&PathBuf| {
        let is_other = path.iter().any(|part| OTHERS.iter().any(|other| part == *other));
        path.extension().is_some_and(|it| it == "rs") && !is_other
    };
    let mut planted = Vec::new();
    for (module, places) in MODULES {
        let own = |path: &&PathBuf| places.iter().any(|place| path.starts_with(place));
        let paths = files.keys().filter(is_code).filter(own);
        planted.extend(paths.map(|path| (module, path.clone())));
    }
    planted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bugs_are_in_the_source() {
        let source = Source::read(Path::new(env!("CARGO_MANIFEST_DIR")), true).unwrap();
        let names: BTreeMap<&str, usize> =
            source.bugs.iter().map(|(number, bug)| (&*bug.name, *number)).collect();
        assert_eq!(names.len(), source.bugs.len(), "two bugs have the same name");
    }
}
