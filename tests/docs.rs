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

/// Returns the pages and the Rust files in a folder.
fn files(folder: &str) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() && !path.ends_with("target") => folders.push(path),
                Some("md" | "rs") => files.push(path),
                _ => {}
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

/// Tells whether a test or a script exists. The test `a::b::c` is one of these:
///
/// * the function `c` in `a/b.rs` or `a/b/mod.rs`, below a folder of tests, promises or sources
/// * the function `c` in the module `b` of `a.rs`
/// * a function in `wheel/src/tests.rs`, if `a` is `wheel`
fn exists(test: &str) -> bool {
    if test.starts_with(".ci/") {
        return root().join(test).exists();
    }
    let Some((modules, function)) = test.rsplit_once("::") else {
        return false;
    };
    let (outer, last) = modules.rsplit_once("::").unwrap_or(("", modules));
    let read = |folder: &str, modules: &str| {
        // The package `wheel` is a folder of its own.
        let module = match modules.strip_prefix("wheel::") {
            Some(module) => PathBuf::from("wheel/src").join(module),
            None => Path::new(folder).join(modules.replace("::", "/")),
        };
        let file: PathBuf = match modules {
            "wheel" => "wheel/src/tests.rs".into(),
            _ => module.with_extension("rs"),
        };
        let text = fs::read_to_string(root().join(file));
        text.or_else(|_| fs::read_to_string(root().join(module).join("mod.rs")))
            .unwrap_or_default()
    };
    ["tests/promises", "tests", "src", "util/tests", "util/src"]
        .iter()
        .any(|folder| {
            let within = read(folder, outer);
            let module = within
                .split_once(&format!("\nmod {last} {{\n"))
                .and_then(|(_, rest)| rest.split_once("\n}"));
            has_test(&read(folder, modules), function)
                || module.is_some_and(|(module, _)| has_test(module, function))
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
    let pages = files("docs")
        .into_iter()
        .filter(|page| page.extension().unwrap() == "md");
    let pages = pages.map(|page| {
        let text = fs::read_to_string(&page).unwrap();
        (page.display().to_string(), text)
    });
    let heads = [PROMISES, ATTACKS].map(|file| (file.to_owned(), head(file)));
    let mut found = 0;
    let mut missing = Vec::new();
    for (page, text) in pages.chain(heads) {
        let tests = tests(&text);
        found += tests.len();
        let wrong = tests.into_iter().filter(|test| !exists(test));
        missing.extend(wrong.map(|test| format!("{page}: {test}")));
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
fn imported(code: &str) -> Vec<&str> {
    let code = code.split("mod tests {").next().unwrap();
    let uses = code
        .split("use ")
        .skip(1)
        .map(|rest| rest.split(';').next().unwrap());
    let ours = uses.filter(|it| it.starts_with("crate::") || it.starts_with("super::"));
    ours.flat_map(|it| it.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .collect()
}

/// No file imports from a higher layer, and no imports form a circle.
///
/// The test relies on imports by `use`, which name the module of each item.
#[test]
fn imports_go_down_only() {
    let (mut wrong, mut imports) = (Vec::new(), Vec::new());
    let mut modules = BTreeSet::new();
    for file in files("src") {
        let path = file
            .strip_prefix(root().join("src"))
            .unwrap()
            .with_extension("");
        let mut names: Vec<_> = path
            .iter()
            .map(|name| name.to_str().unwrap().to_owned())
            .collect();
        if names == ["lib"] || names.iter().any(|name| TESTS.contains(&name.as_str())) {
            continue;
        }
        names.retain(|name| name != "mod");
        let layer = LAYERS
            .iter()
            .position(|layer| layer.contains(&names[0].as_str()));
        let layer = layer.unwrap_or_else(|| panic!("`{}` must be in LAYERS", names[0]));
        let module = names.pop().unwrap();
        for word in imported(&fs::read_to_string(&file).unwrap()) {
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
        let importing: BTreeSet<_> = imports.iter().map(|(from, _)| from.clone()).collect();
        let imported: BTreeSet<_> = imports.iter().map(|(_, to)| to.clone()).collect();
        imports.retain(|(from, to)| imported.contains(from) && importing.contains(to));
    }
    wrong.extend(
        imports
            .iter()
            .map(|(from, to)| format!("{from} imports {to} in a circle")),
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}
