//! The house has floors, and imports go down only (CONTRIBUTING.md has the drawing): no file imports
//! from a higher floor, and no two files import each other, directly or round about.
//!
//! Looks at the `use` items and at the paths in code that begin with a module of the crate. A module
//! that gives a name on (`pub use`) does not import it: who names it imports what it stands for. Tests
//! may look up.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{
    Attribute, ItemMod, ItemUse, Meta, Token, UseTree, Visibility,
    ext::IdentExt,
    parse_file,
    punctuated::Punctuated,
    spanned::Spanned,
    visit::{self, Visit},
};

/// The rooms of each floor, from the lowest to the highest. A room is a file or a folder of `src/`.
const FLOORS: [(&str, &[&str]); 6] = [
    ("ground", &["error", "ground", "wheel"]),
    ("driver", &["driver"]),
    ("timer", &["timer"]),
    ("futures", &["futures"]),
    ("services", &["delay_queue", "idle", "schedule"]),
    ("adapters", &["http", "hyper", "io", "stream", "tower"]),
];

/// Files and folders that are compiled for tests alone.
const TESTS: [&str; 6] = [
    "harness",
    "loom_tests",
    "oracle",
    "simulation",
    "starved",
    "tests",
];

/// A module by its path, without `crate`.
type Module = Vec<String>;

/// A path that a module names, and the line.
struct Import {
    path: Module,
    line: usize,
}

/// Collects what a file imports.
struct Imports<'a> {
    modules: &'a BTreeMap<Module, PathBuf>,
    module: Module,
    found: Vec<Import>,
    /// The names that the file gives on, and what they stand for.
    given_on: BTreeMap<Module, Module>,
}

impl Imports<'_> {
    /// A path from the root, if it begins with `crate`, `self`, `super` or a module of this one.
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

    fn tree(&mut self, path: &mut Vec<String>, tree: &UseTree, gives_on: bool) {
        let (ident, name) = match tree {
            UseTree::Path(next) => {
                path.push(next.ident.unraw().to_string());
                self.tree(path, &next.tree, gives_on);
                path.pop();
                return;
            }
            UseTree::Group(group) => {
                let trees = group.items.iter();
                return trees.for_each(|tree| self.tree(path, tree, gives_on));
            }
            UseTree::Glob(glob) => return self.note(path, glob.span().start().line),
            UseTree::Name(name) => (&name.ident, &name.ident),
            UseTree::Rename(rename) => (&rename.ident, &rename.rename),
        };
        path.push(ident.unraw().to_string());
        if gives_on {
            if let Some(of) = self.absolute(path) {
                let name = [&self.module[..], &[name.unraw().to_string()]].concat();
                self.given_on.insert(name, of);
            }
        } else {
            self.note(path, ident.span().start().line);
        }
        path.pop();
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    let mut cfgs = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"));
    cfgs.any(|cfg| {
        cfg.parse_args()
            .is_ok_and(|condition| asks_for_tests(&condition))
    })
}

/// Whether a condition is `test`, or all of some of which that is one.
fn asks_for_tests(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => {
            let conditions = Punctuated::<Meta, Token![,]>::parse_terminated;
            let conditions = list.parse_args_with(conditions).unwrap();
            conditions.iter().any(asks_for_tests)
        }
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        // What a module of the same file imports counts as the file's.
        if !is_for_tests(&item.attrs) {
            self.module.push(item.ident.unraw().to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_for_tests(&item.attrs) {
            let gives_on = !matches!(item.vis, Visibility::Inherited);
            self.tree(&mut Vec::new(), &item.tree, gives_on);
        }
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

/// The modules of the crate but the root, and their files.
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
        panic!("`{}` is on no floor: name it in tests/layers.rs", module[0]);
    })
}

/// What a path stands for, if names on the way were given on. A module and what it gives on may have
/// one name: `futures::sleep` is a module and a function of that.
fn resolve(mut path: Module, given_on: &BTreeMap<Module, Module>) -> Module {
    let mut length = 1;
    while length <= path.len() {
        let name = path[..length].to_vec();
        match given_on.get(&name) {
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
    let mut given_on = BTreeMap::new();
    for (module, file) in &modules {
        let mut imports = Imports {
            modules: &modules,
            module: module.clone(),
            found: Vec::new(),
            given_on: BTreeMap::new(),
        };
        imports.visit_file(&parse_file(&fs::read_to_string(file).unwrap()).unwrap());
        given_on.extend(imports.given_on);
        found.extend(imports.found.into_iter().map(|import| (module, import)));
    }
    assert!(
        found.len() > 200,
        "most imports are overlooked: {}",
        found.len()
    );
    let mut wrong = Vec::new();
    // A name that is given on takes part in no circle, but comes from below as well.
    for (name, of) in &given_on {
        let (name, of) = (name.to_owned(), resolve(of.clone(), &given_on));
        if floor(&of) > floor(&name) {
            wrong.push(format!(
                "crate::{} goes up: crate::{}",
                name.join("::"),
                of.join("::")
            ));
        }
    }
    let mut imports: BTreeMap<&Module, BTreeMap<&Module, String>> = BTreeMap::new();
    for (module, Import { path, line }) in found {
        let path = resolve(path, &given_on);
        let file = modules[module].strip_prefix(&source).unwrap().display();
        let line = format!("src/{file}:{line}: crate::{}", path.join("::"));
        // The module itself, or the one that has the item.
        let imported = (1..=path.len())
            .rev()
            .find_map(|length| modules.get_key_value(&path[..length]));
        let Some((imported, _)) = imported else {
            wrong.push(format!("{line} comes by way of the root: name its module"));
            continue;
        };
        if floor(imported) > floor(module) {
            let (from, to) = (FLOORS[floor(module)].0, FLOORS[floor(imported)].0);
            wrong.push(format!("{line} goes up, from {from} to {to}"));
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

/// The lines that make circles of imports.
fn circles(imports: &BTreeMap<&Module, BTreeMap<&Module, String>>) -> Vec<String> {
    let mut left: Vec<_> = (imports.iter())
        .flat_map(|(from, imported)| imported.iter().map(|(to, line)| (*from, *to, line)))
        .collect();
    // Who imports nothing that is left, or is imported by nobody, is in no circle.
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
