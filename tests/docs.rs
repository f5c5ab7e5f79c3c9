//! The pages name only files, tests and scripts that exist, the workflow runs each step of `.ci/run`, the layers of the
//! core are those of ARCHITECTURE.md, and no imports of the packages form a circle.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn name(path: &Path) -> &str {
    path.file_name().map_or("", |name| name.to_str().unwrap())
}

/// Returns the modules and the texts of the files in some folders whose names end so.
fn files(folders: &[&str], extension: &str) -> Vec<(PathBuf, String)> {
    let mut folders: Vec<_> = folders.iter().map(PathBuf::from).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == extension) {
                let text = read(path.to_str().unwrap());
                let is_of_folder = path.ends_with("mod.rs") || path.ends_with("lib.rs");
                let module = path.with_extension("");
                files.push((if is_of_folder { folder.clone() } else { module }, text));
            }
        }
    }
    files
}

/// Returns the documentation at the head of a source file.
fn head(path: &str) -> String {
    let text = read(path);
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let lines = lines.map(|line| line.trim_start().to_owned() + "\n");
    lines.collect()
}

/// Returns the pieces of code in a text.
fn codes(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Returns the first cells of the rows of all tables on a page that have this many columns.
fn first_cells(page: &str, columns: usize) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let rows = rows.filter(|line| line.matches('|').count() == columns + 1);
    rows.map(|line| line.split('|').nth(1).unwrap().trim())
        .collect()
}

/// Returns the names of the tests on a page: in comments, such as ``<!-- test: `a::b` -->``, which readers do not see, and
/// in tables with a column `test`, of which each row must name one.
fn tests(page: &str) -> Vec<&str> {
    let comments = page.split("<!-- test: ").skip(1);
    let comments = comments.map(|rest| rest.split("-->").next().unwrap());
    let mut tests: Vec<_> = comments.flat_map(codes).collect();
    let mut column = None;
    let mut is_table = false;
    for line in page.lines() {
        let mut cells = line.split('|').map(str::trim);
        if !line.starts_with('|') {
            is_table = false;
        } else if !is_table {
            is_table = true;
            column = cells.position(|cell| cell == "test");
        } else if let (Some(column), false) = (column, line.contains("---|")) {
            let named = codes(cells.nth(column).unwrap_or_default());
            assert!(!named.is_empty(), "the row names no test: {line}");
            tests.extend(named);
        }
    }
    tests
}

/// Tells whether `source` has a test named `function`. A macro may make the test.
fn has_test(source: &str, function: &str) -> bool {
    let definition = format!("fn {function}(");
    source.match_indices(&definition).any(|(at, _)| {
        let (before, after) = source.split_at(at);
        let above = before.rsplit('\n').skip(1).map(str::trim_start);
        let mut attributes = above.take_while(|line| line.starts_with("#["));
        // Bodies for the macros that compare two crates have a first parameter `time`.
        let is_of_macro = after[definition.len()..].starts_with("time");
        is_of_macro || attributes.any(|line| line.contains("test]") || line.contains("test("))
    })
}

/// Tells whether a test or a script exists. A file has the test `a::b::c` if it has a test `c`, and `a` and `b` are
/// names on its path. A module `tests` is within its file.
fn exists(test: &str, sources: &[(PathBuf, String)]) -> bool {
    let mut modules: Vec<_> = test.split("::").filter(|it| *it != "tests").collect();
    let function = modules.pop().unwrap();
    let is_on = |path: &Path, module: &&str| path.iter().any(|name| name == *module);
    (test.starts_with(".ci/") && root().join(test).exists())
        || sources.iter().any(|(path, text)| {
            modules.iter().all(|module| is_on(path, module)) && has_test(text, function)
        })
}

/// The files that list the promises, and the tests of SECURITY.md.
const PROMISES: &str = "tests/promises/mod.rs";
const ATTACKS: &str = "tests/promises/attacks.rs";

#[test]
fn each_promise_and_each_row_of_security_has_tests() {
    let promises = head(PROMISES);
    let numbers = first_cells(&promises, 3);
    let files = fs::read_dir(root().join("tests/promises")).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let files = files.filter(|file| file.starts_with('p')).count();
    let expected: Vec<_> = (1..=files).map(|number| number.to_string()).collect();
    assert_eq!(numbers[1..], expected, "{PROMISES} must list each promise");
    let testing = read("docs/testing.md");
    assert!(testing.contains(&format!("makes {files} promises")));

    let (security, attacks) = (read("SECURITY.md"), head(ATTACKS));
    let [security, attacks] = [&security, &attacks].map(|page| first_cells(page, 2));
    assert_eq!(security, attacks, "{ATTACKS} must have these rows");
}

/// ARCHITECTURE.md names files of the core without `src/`, and in the questions about `util/src/`, without that.
#[test]
fn the_map_of_the_source_is_right() {
    let architecture = read("ARCHITECTURE.md");
    let files = codes(&architecture).into_iter().filter(|code| {
        let is_path = code.ends_with(".rs") || code.ends_with('/');
        is_path && !code.contains("NAME")
    });
    let is_missing = |file: &&str| {
        let mut folders = ["", "src", "util/src"].iter();
        !folders.any(|folder| root().join(folder).join(file).exists())
    };
    let (files, missing): (Vec<_>, Vec<_>) = files.partition(|file| !is_missing(file));
    assert!(files.len() > 20, "found only {} files", files.len());
    assert!(missing.is_empty(), "these do not exist: {missing:?}");

    for (layer, modules) in LAYERS.iter().enumerate() {
        let module = modules.last().unwrap();
        let is_drawn = architecture.contains(&format!(" {layer}  {module} "));
        assert!(is_drawn, "the drawing must show {module} in layer {layer}");
    }
}

#[test]
fn the_pages_name_tests_that_exist() {
    let folders = ["src", "tests", "util/src", "util/tests", "wheel/src"];
    let sources = files(&folders, "rs");
    let pages = files(&["docs"], "md").into_iter();
    let heads = [PROMISES, ATTACKS].map(|file| (file.into(), head(file)));
    let (mut found, mut missing) = (0, Vec::new());
    for (page, text) in pages.chain(heads) {
        let tests = tests(&text);
        found += tests.len();
        let wrong = tests.into_iter().filter(|test| !exists(test, &sources));
        missing.extend(wrong.map(|test| format!("{}: {test}", page.display())));
    }
    assert!(found > 80, "expected more than 80 names, found {found}");
    assert!(missing.is_empty(), "these tests do not exist: {missing:#?}");
}

/// A step that only `.ci/run` has would never run on a pull request.
#[test]
fn the_workflow_runs_each_step_of_ci_run() {
    let run = read(".ci/run");
    let workflow = read(".github/workflows/ci.yml");
    let between = |text: &str, from: &str, to: &str| {
        let (_, rest) = text.split_once(from).unwrap();
        rest.split_once(to).unwrap().0.to_owned()
    };
    let matrix = between(&workflow, "step: [", "]");
    let in_matrix: Vec<_> = matrix.split(", ").collect();
    let steps = between(&run, "for step in ", "; do");
    let missing = steps.split_whitespace().find(|step| {
        !in_matrix.contains(step) && !workflow.contains(&format!("bash .ci/{step}\n"))
    });
    assert_eq!(missing, None, "the workflow must run this step");
    let contributing = read("CONTRIBUTING.md");
    let table = between(&contributing, "| step | runs |", "\n\n");
    let mut named = codes(&table);
    named.retain(|it| in_matrix.contains(it));
    assert_eq!(named, in_matrix, "CONTRIBUTING.md must name these steps");
}

/// The modules of each layer in `src/`, as ARCHITECTURE.md draws them. The lowest layer comes first.
const LAYERS: [&[&str]; 4] = [&["error", "ground"], &["driver"], &["timer"], &["futures"]];
/// Files and folders that are compiled only for tests. They may import anything.
const TESTS: [&str; 5] = ["harness", "loom_tests", "simulation", "starved", "tests"];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Returns the names by which other files import a module: its own name and the names of its items.
fn names<'a>(module: &'a Path, code: &'a str) -> BTreeSet<&'a str> {
    const KINDS: [&str; 6] = ["fn ", "struct ", "enum ", "trait ", "type ", "const "];
    let lines = code.lines().filter(|line| line.starts_with("pub"));
    let items = lines.filter_map(|line| KINDS.iter().find_map(|kind| line.split_once(kind)));
    let items = items.filter_map(|(_, item)| words(item).next());
    items.chain([name(module)]).collect()
}

/// No file imports from a higher layer, and no imports form a circle.
///
/// The test relies on imports by `use` at the head of a file, which name the module of each item.
#[test]
fn imports_go_down_only() {
    let mut sources = files(&["src", "util/src", "wheel/src"], "rs");
    sources.retain(|(path, _)| !path.ancestors().any(|it| TESTS.contains(&name(it))));
    let modules = sources
        .iter()
        .map(|(path, code)| (&**path, names(path, code)));
    let modules: Vec<_> = modules.collect();
    let mut imports = BTreeSet::new();
    for (from, code) in &sources {
        for tree in code.split("\nuse ").skip(1) {
            let tree = tree.split(';').next().unwrap();
            let base = match tree.starts_with("crate::") {
                true => from.ancestors().find(|it| it.ends_with("src")),
                false => from.ancestors().nth(tree.matches("super::").count()),
            };
            let named: BTreeSet<_> = words(tree).collect();
            imports.extend(modules.iter().filter_map(|(to, names)| {
                let mut folders = to.strip_prefix(base?).ok()?.ancestors().skip(1);
                let is_there = folders.all(|it| named.contains(name(it))) && from != to;
                (is_there && !names.is_disjoint(&named)).then_some((&**from, *to))
            }));
        }
    }
    let layer = |module: &Path| {
        let top = module.strip_prefix("src").ok()?.iter().next()?.to_str()?;
        LAYERS.iter().position(|layer| layer.contains(&top))
    };
    let wrong = imports.iter().find(|(from, to)| layer(from) < layer(to));
    assert_eq!(wrong, None, "this import is from a higher layer");
    assert!(imports.len() > 250, "found only {} imports", imports.len());
    // In a circle, each file imports a file and is imported by a file. The loop removes all other imports.
    let mut before = usize::MAX;
    while imports.len() < before {
        before = imports.len();
        let (from, to): (BTreeSet<_>, BTreeSet<_>) = imports.iter().copied().unzip();
        imports.retain(|(module, other)| to.contains(module) && from.contains(other));
    }
    assert!(imports.is_empty(), "in circles: {imports:#?}");
}
