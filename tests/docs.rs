//! The pages name only files, tests and scripts that exist, the workflow runs each step of `.ci/run`, and the layers of
//! the core are those of ARCHITECTURE.md.

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

/// Returns the paths and the texts of the files in some folders whose names end so.
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
                files.push((path.with_extension(""), text));
            }
        }
    }
    files
}

/// Returns the documentation at the head of a source file.
fn head(path: &str) -> String {
    let text = read(path);
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines
        .map(|line| line.trim_start().to_owned() + "\n")
        .collect()
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
    let expected = (1..=files).map(|number| number.to_string());
    assert_eq!(
        numbers[1..],
        *expected.collect::<Vec<_>>(),
        "{PROMISES} must list each promise"
    );
    let testing = read("docs/testing.md");
    assert!(testing.contains(&format!("makes {files} promises")));

    let security = read("SECURITY.md");
    let attacks = head(ATTACKS);
    assert_eq!(
        first_cells(&security, 2),
        first_cells(&attacks, 2),
        "SECURITY.md and {ATTACKS} must have the same rows"
    );
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
    let sources = files(
        &["src", "tests", "util/src", "util/tests", "wheel/src"],
        "rs",
    );
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
    let named: Vec<_> = codes(&table)
        .into_iter()
        .filter(|it| *it != ".ci/run")
        .collect();
    assert!(
        named.starts_with(&in_matrix),
        "CONTRIBUTING.md must name the steps of the workflow: {in_matrix:?}"
    );
}

/// The modules of each layer in `src/`, as ARCHITECTURE.md draws them. The lowest layer comes first.
const LAYERS: [&[&str]; 4] = [&["error", "ground"], &["driver"], &["timer"], &["futures"]];
/// Files and folders that are compiled only for tests. They may import anything.
const TESTS: [&str; 5] = ["harness", "loom_tests", "simulation", "starved", "tests"];

/// Returns the words of the imports from this crate in a source file, without those of its tests.
fn imported(code: &str) -> impl Iterator<Item = &str> {
    let code = code.split("mod tests {").next().unwrap();
    let uses = code.split("use ").skip(1);
    let uses = uses.map(|rest| rest.split(';').next().unwrap());
    let ours = uses.filter(|it| it.starts_with("crate::") || it.starts_with("super::"));
    ours.flat_map(|it| it.split(|c: char| !c.is_alphanumeric() && c != '_'))
}

/// No file imports from a higher layer, and no imports form a circle.
///
/// The test relies on imports by `use`, which name the module of each item.
#[test]
fn imports_go_down_only() {
    let (mut wrong, mut imports) = (Vec::new(), Vec::new());
    let mut modules = BTreeSet::new();
    for (path, code) in files(&["src"], "rs") {
        let names = path.iter().skip(1).map(|name| name.to_str().unwrap());
        let mut names: Vec<_> = names.filter(|name| *name != "mod").collect();
        if names == ["lib"] || names.iter().any(|name| TESTS.contains(name)) {
            continue;
        }
        let layer = LAYERS.iter().position(|layer| layer.contains(&names[0]));
        let layer = layer.unwrap_or_else(|| panic!("`{}` must be in LAYERS", names[0]));
        let module = names.pop().unwrap().to_owned();
        for word in imported(&code) {
            if LAYERS[layer + 1..].concat().contains(&word) {
                wrong.push(format!("{module} imports {word} from a higher layer"));
            }
            imports.push((module.clone(), word.to_owned()));
        }
        modules.insert(module);
    }
    assert!(imports.len() > 300, "found only {} words", imports.len());
    // In a circle, each file imports a file and is imported by a file. The loop removes all other imports.
    imports.retain(|(module, word)| modules.contains(word) && module != word);
    let mut before = usize::MAX;
    while imports.len() < before {
        before = imports.len();
        let (from, to): (BTreeSet<_>, BTreeSet<_>) = imports.iter().cloned().unzip();
        imports.retain(|(module, word)| to.contains(module) && from.contains(word));
    }
    assert!(
        wrong.is_empty() && imports.is_empty(),
        "{wrong:#?}, in circles: {imports:#?}"
    );
}
