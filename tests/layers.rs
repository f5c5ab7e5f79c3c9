//! The modules of the crate form floors. CONTRIBUTING.md shows a drawing of them. Two rules hold:
//!
//! * No file imports from a higher floor.
//! * No imports form a circle.
//!
//! The test reads `use` items, and paths that begin with a module of the crate. A `pub use` is not an import: a file
//! that uses the name imports the item behind it. A test module inside a file counts as its file. Only the files and
//! folders in [`TESTS`] may import anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{
    ItemMod, ItemUse, UseTree, Visibility,
    ext::IdentExt,
    parse_file,
    spanned::Spanned,
    visit::{self, Visit},
};

/// The rooms of each floor. The lowest floor comes first. A room is a file or a folder in `src/`.
const FLOORS: [(&str, &[&str]); 6] = [
    ("ground", &["error", "ground", "wheel"]),
    ("driver", &["driver"]),
    ("timer", &["timer"]),
    ("futures", &["futures"]),
    ("services", &["delay_queue", "idle", "schedule"]),
    ("adapters", &["http", "hyper", "io", "stream", "tower"]),
];

/// Files and folders that are compiled only for tests.
const TESTS: [&str; 6] = [
    "harness",
    "loom_tests",
    "oracle",
    "simulation",
    "starved",
    "tests",
];

/// The path of a module, without `crate`.
type Module = Vec<String>;

/// A path that a module uses, and its line.
struct Import {
    path: Module,
    line: usize,
}

/// Collects the imports of a file.
struct Imports<'a> {
    modules: &'a BTreeMap<Module, PathBuf>,
    module: Module,
    found: Vec<Import>,
    /// The names that the file re-exports, and the items behind them.
    reexports: BTreeMap<Module, Module>,
}

impl Imports<'_> {
    /// Returns the path from the root. Returns `None` if the path begins with another crate or with a local name.
    fn absolute(&self, path: &[String]) -> Option<Module> {
        let mut absolute = match path.first().map(String::as_str) {
            Some("crate") => Module::new(),
            Some("super" | "self") => self.module.clone(),
            Some(first) => {
                let child = [&self.module[..], &[first.to_owned()]].concat();
                if !self.modules.contains_key(&child) {
                    return None;
                }
                self.module.clone()
            }
            None => return None,
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

    fn note(&mut self, path: &[String], line: usize) {
        if let Some(path) = self.absolute(path) {
            self.found.push(Import { path, line });
        }
    }

    fn tree(&mut self, path: &mut Vec<String>, tree: &UseTree, is_reexport: bool) {
        let (ident, name) = match tree {
            UseTree::Path(next) => {
                path.push(next.ident.unraw().to_string());
                self.tree(path, &next.tree, is_reexport);
                path.pop();
                return;
            }
            UseTree::Group(group) => {
                let trees = group.items.iter();
                return trees.for_each(|tree| self.tree(path, tree, is_reexport));
            }
            UseTree::Glob(glob) => return self.note(path, glob.span().start().line),
            UseTree::Name(name) => (&name.ident, &name.ident),
            UseTree::Rename(rename) => (&rename.ident, &rename.rename),
        };
        path.push(ident.unraw().to_string());
        if is_reexport {
            if let Some(of) = self.absolute(path) {
                let name = [&self.module[..], &[name.unraw().to_string()]].concat();
                self.reexports.insert(name, of);
            }
        } else {
            self.note(path, ident.span().start().line);
        }
        path.pop();
    }
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        // The imports of an inline module count as imports of its file.
        self.module.push(item.ident.unraw().to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_reexport = !matches!(item.vis, Visibility::Inherited);
        self.tree(&mut Vec::new(), &item.tree, is_reexport);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<_> = (path.segments.iter())
            .map(|segment| segment.ident.unraw().to_string())
            .collect();
        if parts.len() > 1 {
            self.note(&parts, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let tokens = item.tokens.to_string();
        let line = item.span().start().line;
        for (start, _) in tokens.match_indices("crate ::") {
            let path = tokens[start..].split(" :: ");
            let words = path.map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '_'));
            let mut parts = Vec::new();
            for mut word in words {
                parts.push(word.next().unwrap_or_default().to_owned());
                if word.next().is_some() {
                    break;
                }
            }
            self.note(&parts, line);
        }
        visit::visit_macro(self, item);
    }
}

/// Returns the modules of the crate, without the root, and their files.
fn modules(source: &Path) -> BTreeMap<Module, PathBuf> {
    let mut modules = BTreeMap::new();
    let mut folders = vec![(Module::new(), source.to_owned())];
    while let Some((of, folder)) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if TESTS.contains(&&*name) {
                continue;
            }
            let mut module = of.clone();
            if name != "mod" {
                module.push(name);
            }
            if path.is_dir() {
                folders.push((module, path));
            } else if module != ["lib"] {
                modules.insert(module, path);
            }
        }
    }
    modules
}

fn floor(module: &Module) -> usize {
    let is_of = |(_, rooms): &(&str, &[&str])| rooms.contains(&&*module[0]);
    FLOORS.iter().position(is_of).unwrap_or_else(|| {
        panic!("module `{}` must be in FLOORS", module[0]);
    })
}

/// Returns the path of the item behind a path that may contain re-exported names.
///
/// A module and an item that it re-exports may have the same name. For example, `futures::sleep` is a module and a
/// function.
fn resolve(mut path: Module, reexports: &BTreeMap<Module, Module>) -> Module {
    let mut length = 1;
    while length <= path.len() {
        let name = path[..length].to_vec();
        match reexports.get(&name) {
            Some(of) if !of.starts_with(&name) => {
                path.splice(..length, of.iter().cloned());
                length = 1;
            }
            _ => length += 1,
        }
    }
    path
}

#[test]
fn imports_go_down_only() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let modules = modules(&source);
    let mut found = Vec::new();
    let mut reexports = BTreeMap::new();
    for (module, file) in &modules {
        let mut imports = Imports {
            modules: &modules,
            module: module.clone(),
            found: Vec::new(),
            reexports: BTreeMap::new(),
        };
        imports.visit_file(&parse_file(&fs::read_to_string(file).unwrap()).unwrap());
        reexports.extend(imports.reexports);
        found.extend(imports.found.into_iter().map(|import| (module, import)));
    }
    assert!(
        found.len() > 200,
        "expected more than 200 imports, found {}",
        found.len()
    );
    let mut wrong = Vec::new();
    // A re-export is no part of a circle, but its item must not be on a higher floor.
    for (name, of) in &reexports {
        let (name, of) = (name.to_owned(), resolve(of.clone(), &reexports));
        if floor(&of) > floor(&name) {
            wrong.push(format!(
                "crate::{} re-exports from a higher floor: crate::{}",
                name.join("::"),
                of.join("::")
            ));
        }
    }
    let mut imports: BTreeMap<&Module, BTreeMap<&Module, String>> = BTreeMap::new();
    for (module, Import { path, line }) in found {
        let path = resolve(path, &reexports);
        let file = modules[module].strip_prefix(&source).unwrap().display();
        let line = format!("src/{file}:{line}: crate::{}", path.join("::"));
        // The path of a module, or the path of an item in this module.
        let imported = (1..=path.len())
            .rev()
            .find_map(|length| modules.get_key_value(&path[..length]));
        let Some((imported, _)) = imported else {
            wrong.push(format!(
                "{line} is imported from the root instead of its module"
            ));
            continue;
        };
        if floor(imported) > floor(module) {
            let (from, to) = (FLOORS[floor(module)].0, FLOORS[floor(imported)].0);
            wrong.push(format!(
                "{line} is on the higher floor {to}, and its user is on the floor {from}"
            ));
        }
        if imported != module {
            imports
                .entry(module)
                .or_default()
                .entry(imported)
                .or_insert(line);
        }
    }
    wrong.extend(circles(&imports));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Returns the lines whose imports form circles.
fn circles(imports: &BTreeMap<&Module, BTreeMap<&Module, String>>) -> Vec<String> {
    let mut left: Vec<_> = (imports.iter())
        .flat_map(|(from, imported)| imported.iter().map(|(to, line)| (*from, *to, line)))
        .collect();
    // In a circle, each file imports a file and is imported by a file. The loop removes all other imports.
    loop {
        let importing: BTreeSet<_> = left.iter().map(|(from, ..)| *from).collect();
        let imported: BTreeSet<_> = left.iter().map(|(_, to, _)| *to).collect();
        let before = left.len();
        left.retain(|(from, to, _)| imported.contains(from) && importing.contains(to));
        if left.len() == before {
            break;
        }
    }
    left.iter()
        .map(|(.., line)| format!("{line} is part of a circle"))
        .collect()
}
