//! The pages name only tests and scripts that exist, and the workflow runs each step of `.ci/run`.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the names of the tests on a page: in tables with a column `test` or `test, or reason`, and after
/// `migration::`.
///
/// Each row of a table with a column `test` must name a test.
fn tests(page: &str) -> Vec<&str> {
    fn codes(text: &str) -> Vec<&str> {
        text.split('`').skip(1).step_by(2).collect()
    }
    let mut tests = codes(page);
    tests.retain(|code| code.starts_with("migration::"));
    let mut column = None;
    let mut may_have_reason = false;
    let mut is_table = false;
    for line in page.lines() {
        let mut cells = line.split('|').map(str::trim);
        if !line.starts_with('|') {
            is_table = false;
        } else if !is_table {
            is_table = true;
            may_have_reason = line.contains("| test, or reason |");
            column = cells.position(|cell| cell == "test" || cell == "test, or reason");
        } else if let (Some(column), false) = (column, line.contains("---|")) {
            let named = codes(cells.nth(column).unwrap_or_default());
            let is_complete = may_have_reason || !named.is_empty();
            assert!(is_complete, "the row names no test: {line}");
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
/// * the function `c` in `a/b.rs` or `a/b/mod.rs`, below a folder of tests or sources
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
    ["tests", "src", "util/tests", "util/src"]
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

#[test]
fn the_pages_name_tests_that_exist() {
    let pages = fs::read_dir(root().join("docs")).unwrap();
    let mut pages: Vec<_> = pages.map(|page| page.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root().join("SECURITY.md"));
    let mut found = 0;
    let mut missing = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let tests = tests(&text);
        found += tests.len();
        let wrong = tests.into_iter().filter(|test| !exists(test));
        missing.extend(wrong.map(|test| format!("{}: {test}", page.display())));
    }
    assert!(found > 80, "expected more than 80 names, found {found}");
    assert!(missing.is_empty(), "these tests do not exist: {missing:#?}");
}

/// A step that only `.ci/run` has would never run on a pull request.
#[test]
fn the_workflow_runs_each_step_of_ci_run() {
    let run = fs::read_to_string(root().join(".ci/run")).unwrap();
    let workflow = fs::read_to_string(root().join(".github/workflows/ci.yml")).unwrap();
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
}
