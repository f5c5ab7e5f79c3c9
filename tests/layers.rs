//! The modules of the crate form floors. CONTRIBUTING.md shows a drawing of them. Two rules hold:
//!
//! * No file imports from a higher floor.
//! * No imports form a circle.
//!
//! An import is a path that begins with a module of the crate, in a `use` item or elsewhere. A `pub use` is not an
//! import: a file that uses the name imports the item behind it. A test module inside a file counts as its file. Only
//! the files and folders in [`TESTS`] may import anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};

/// The rooms of each floor. The lowest floor comes first. A room is a file or a folder in `src/`.
const FLOORS: [&[&str]; 5] = [
    &["error", "ground"],
    &["driver"],
    &["timer"],
    &["futures"],
    &["schedule"],
];

/// Files and folders that are compiled only for tests.
const TESTS: [&str; 5] = ["harness", "loom_tests", "simulation", "starved", "tests"];

/// The path of a module or an item, without `crate`.
type Module = Vec<String>;

/// Collects the imports of all files.
struct Reader {
    files: BTreeMap<Module, PathBuf>,
    /// The file, the line, and what it imports.
    imports: Vec<(Module, usize, Module)>,
    /// The names that the files re-export, and the items behind them.
    reexports: BTreeMap<Module, Module>,
}

impl Reader {
    /// Reads the code of a file, or of a part of it that is in `module`.
    fn read(&mut self, file: &Module, module: &Module, code: TokenStream) {
        let code: Vec<_> = code.into_iter().collect();
        let word = |at: usize| code.get(at).map(ToString::to_string).unwrap_or_default();
        let mut at = 0;
        while at < code.len() {
            match &code[at] {
                TokenTree::Group(group) => self.read(file, module, group.stream()),
                TokenTree::Ident(word_here) if word_here == "mod" => {
                    if let Some(TokenTree::Group(group)) = code.get(at + 2) {
                        let inner = [&module[..], &[word(at + 1)]].concat();
                        self.read(file, &inner, group.stream());
                        at += 2;
                    }
                }
                TokenTree::Ident(word_here) if word_here == "use" => {
                    let before = word(at.wrapping_sub(1));
                    let is_public = before == "pub" || before.starts_with('(');
                    at += self.path(file, module, Module::new(), &code[at + 1..], is_public);
                }
                TokenTree::Ident(_) => {
                    at += self.path(file, module, Module::new(), &code[at..], false) - 1;
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Reads a path that begins with `path` and continues in `code`. Returns the number of its tokens in `code`.
    fn path(
        &mut self,
        file: &Module,
        module: &Module,
        mut path: Module,
        code: &[TokenTree],
        is_public: bool,
    ) -> usize {
        let Some(first) = code.first() else {
            return 0;
        };
        let mut at = 0;
        let mut name = None;
        while let Some(token) = code.get(at) {
            at += 1;
            match token {
                TokenTree::Ident(part) => {
                    path.push(part.to_string().trim_start_matches("r#").to_owned());
                    let next = |n: usize| code.get(at + n).map(ToString::to_string);
                    if next(0).as_deref() == Some(":") && next(1).as_deref() == Some(":") {
                        at += 2;
                        continue;
                    }
                    let renamed = (next(0).as_deref() == Some("as"))
                        .then(|| next(1))
                        .flatten();
                    name = renamed.or_else(|| path.last().cloned());
                }
                TokenTree::Group(group) if !path.is_empty() => {
                    let list: Vec<_> = group.stream().into_iter().collect();
                    for item in list.split(|token| token.to_string() == ",") {
                        self.path(file, module, path.clone(), item, is_public);
                    }
                    return at;
                }
                _ => {}
            }
            break;
        }
        // A single word is a name, or the `super` of `pub(super)`.
        if path.len() == 1 && name.is_some() {
            return at;
        }
        let line = first.span().start().line;
        match (self.absolute(module, &path), name) {
            (Some(of), Some(name)) if is_public => {
                self.reexports.insert([&module[..], &[name]].concat(), of);
            }
            (Some(of), _) => self.imports.push((file.clone(), line, of)),
            (None, _) => {}
        }
        at
    }

    /// Returns a path in `module` from the root. Returns `None` if it begins with another crate or with a local name.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut absolute = match path.first()?.as_str() {
            "crate" => Module::new(),
            "super" | "self" => module.clone(),
            first => {
                let child = [&module[..], &[first.to_owned()]].concat();
                self.files.contains_key(&child).then(|| module.clone())?
            }
        };
        for part in path {
            match part.as_str() {
                "crate" | "self" => {}
                "super" => drop(absolute.pop()),
                part => absolute.push(part.to_owned()),
            }
        }
        Some(absolute)
    }

    /// Returns the path of the item behind a path that may contain re-exported names.
    ///
    /// A module and an item that it re-exports may have the same name. For example, `futures::sleep` is a module and a
    /// function.
    fn resolve(&self, mut path: Module) -> Module {
        let mut length = 1;
        while length <= path.len() {
            match self.reexports.get(&path[..length]) {
                Some(of) if !of.starts_with(&path[..length]) => {
                    path.splice(..length, of.iter().cloned());
                    length = 1;
                }
                _ => length += 1,
            }
        }
        path
    }
}

/// Adds the files of the modules in a folder, without the root of the crate.
fn add_files(files: &mut BTreeMap<Module, PathBuf>, of: &Module, folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let module = match &*name {
            "mod" => of.clone(),
            _ => of.iter().cloned().chain([name.clone()]).collect(),
        };
        if TESTS.contains(&&*name) || module == ["lib"] {
            continue;
        } else if path.is_dir() {
            add_files(files, &module, &path);
        } else {
            files.insert(module, path);
        }
    }
}

fn floor(module: &Module) -> usize {
    let floor = FLOORS.iter().position(|rooms| rooms.contains(&&*module[0]));
    floor.unwrap_or_else(|| panic!("module `{}` must be in FLOORS", module[0]))
}

#[test]
fn imports_go_down_only() {
    let mut reader = Reader {
        files: BTreeMap::new(),
        imports: Vec::new(),
        reexports: BTreeMap::new(),
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    add_files(&mut reader.files, &Module::new(), &source);
    for (module, file) in reader.files.clone() {
        let code = fs::read_to_string(file).unwrap().parse().unwrap();
        reader.read(&module, &module, code);
    }
    let found = reader.imports.len();
    assert!(found > 200, "expected more than 200 imports, found {found}");

    let mut wrong = Vec::new();
    // A re-export is no part of a circle, but its item must not be on a higher floor.
    for (name, of) in &reader.reexports {
        if floor(&reader.resolve(of.clone())) > floor(name) {
            wrong.push(format!(
                "crate::{} re-exports from a higher floor",
                name.join("::")
            ));
        }
    }
    let mut imports = Vec::new();
    for (module, line, path) in &reader.imports {
        let path = reader.resolve(path.clone());
        let file = reader.files[module]
            .strip_prefix(&source)
            .unwrap()
            .display();
        let line = format!("src/{file}:{line}: crate::{}", path.join("::"));
        // The path of a module, or the path of an item in this module.
        let lengths = (1..=path.len()).rev();
        let imported = { lengths }.find_map(|length| reader.files.get_key_value(&path[..length]));
        match imported {
            None => wrong.push(format!("{line} is imported from the root")),
            Some((imported, _)) => {
                if floor(imported) > floor(module) {
                    wrong.push(format!("{line} is on a higher floor"));
                }
                if imported != module {
                    imports.push((module, imported, line));
                }
            }
        }
    }
    // In a circle, each file imports a file and is imported by a file. The loop removes all other imports.
    let mut before = usize::MAX;
    while imports.len() < before {
        before = imports.len();
        let importing: BTreeSet<_> = imports.iter().map(|(from, ..)| *from).collect();
        let imported: BTreeSet<_> = imports.iter().map(|(_, to, _)| *to).collect();
        imports.retain(|(from, to, _)| imported.contains(from) && importing.contains(to));
    }
    wrong.extend((imports.iter()).map(|(.., line)| format!("{line} is part of a circle")));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
