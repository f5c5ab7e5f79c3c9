//! The pages of the documentation name only tests that exist.

use std::{fs, path::Path};

/// Returns all rows of all tables. Each row comes with the heading of its table.
fn rows(page: &str) -> Vec<(Vec<&str>, Vec<&str>)> {
    let cells = |line| -> Vec<&str> { str::split(line, '|').map(str::trim).collect() };
    let mut heading = None;
    let mut rows = Vec::new();
    for line in page.lines() {
        if !line.starts_with('|') {
            heading = None;
        } else if let Some(heading) = &heading {
            rows.push((Vec::clone(heading), cells(line)));
        } else {
            heading = Some(cells(line));
        }
    }
    rows.retain(|(_, cells)| !cells.contains(&"---"));
    rows
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
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
/// * the function `c` in `a/b.rs`, below `tests` or `src`
/// * the function `c` in the module `b` of `a.rs`, below `tests` or `src`
/// * a function in `src/wheel/tests.rs`, if `a` is `wheel`
///
/// A published package has no scripts, so there every script counts as existing.
fn exists(test: &str) -> bool {
    if test.starts_with(".ci/") {
        return root().join(test).exists() || !root().join(".ci").exists();
    }
    let names: Vec<_> = test.split("::").collect();
    let Some((function, modules)) = names.split_last() else {
        return false;
    };
    let places = (1..=modules.len()).flat_map(|of_file| {
        let (file, within) = modules.split_at(of_file);
        let source = |folder| (root().join(folder), file, within);
        ["tests", "src"].map(source)
    });
    places.into_iter().any(|(folder, file, within)| {
        let file = match file {
            ["wheel"] => root().join("src/wheel/tests.rs"),
            file => folder.join(file.join("/")).with_extension("rs"),
        };
        let source = fs::read_to_string(file).unwrap_or_default();
        match within {
            [] => has_test(&source, function),
            [module] => source
                .split_once(&format!("\nmod {module} {{\n"))
                .and_then(|(_, rest)| rest.split_once("\n}"))
                .is_some_and(|(module, _)| has_test(module, function)),
            _ => false,
        }
    })
}

/// Checks that each row of each table on a page names tests, and that these tests exist.
fn names_tests(page: &str, least_rows: usize) {
    let page = fs::read_to_string(root().join(page)).unwrap();
    let rows = rows(&page);
    assert!(
        rows.len() > least_rows,
        "expected more than {least_rows} rows, found {}",
        rows.len()
    );
    let mut missing = Vec::new();
    for (heading, cells) in &rows {
        let column = heading.iter().position(|cell| *cell == "test");
        let cell = column.and_then(|column| cells.get(column));
        let tests: Vec<_> = cell.map_or(Vec::new(), |cell| {
            cell.split('`').skip(1).step_by(2).collect()
        });
        assert!(!tests.is_empty(), "the row names no test: {cells:?}");
        missing.extend(tests.into_iter().filter(|test| !exists(test)));
    }
    assert!(missing.is_empty(), "these tests do not exist: {missing:#?}");
}

#[test]
fn the_page_on_classic_timers_names_tests_that_exist() {
    names_tests("docs/classics.md", 30);
}

#[test]
fn the_page_on_security_names_tests_that_exist() {
    names_tests("SECURITY.md", 20);
}

#[test]
fn the_page_on_testing_names_tests_that_exist() {
    names_tests("docs/testing.md", 25);
}

/// A step that only `.ci/run` has would never run on a pull request.
#[test]
fn the_workflow_runs_each_step_of_ci_run() {
    // A published package has no scripts and no workflow.
    let Ok(run) = fs::read_to_string(root().join(".ci/run")) else {
        return;
    };
    let workflow = fs::read_to_string(root().join(".github/workflows/ci.yml")).unwrap();
    let between = |text: &str, from: &str, to: &str| {
        let (_, rest) = text.split_once(from).unwrap();
        rest.split_once(to).unwrap().0.to_owned()
    };
    let matrix = between(&workflow, "step: [", "]");
    let in_matrix: Vec<_> = matrix.split(", ").collect();
    let steps = between(&run, "for step in ", "; do");
    let missing: Vec<_> = (steps.split_whitespace())
        .filter(|step| {
            !in_matrix.contains(step) && !workflow.contains(&format!("bash .ci/{step}\n"))
        })
        .collect();
    assert!(missing.is_empty(), "the workflow leaves out {missing:?}");
}
