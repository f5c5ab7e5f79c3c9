//! What the pages of documentation name exists.

use std::{fs, path::Path};

/// The table of each row, by its heading cells, and the row's cells.
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

/// Whether there is a function of this name that is a test, or that a macro makes one of.
fn has_test(source: &str, function: &str) -> bool {
    let definition = format!("fn {function}(");
    source.match_indices(&definition).any(|(at, _)| {
        let (before, after) = source.split_at(at);
        let above = before.rsplit('\n').skip(1).map(str::trim_start);
        let mut attributes = above.take_while(|line| line.starts_with("#["));
        // The macros that compare two crates name the one and what it tells.
        let is_of_macro = after[definition.len()..].starts_with("time");
        is_of_macro || attributes.any(|line| line.contains("test]") || line.contains("test("))
    })
}

/// Whether `a::b::c` is a function `c` in the file `a.rs` or `a/b.rs` of `tests` or `src`, or in a module `b`
/// of the former; or one of the wheel's own tests. A script has to be there as well, but in a package, which has
/// none.
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

/// Each row of each table of that page names tests, and they exist.
fn names_tests(page: &str, least_rows: usize) {
    let page = fs::read_to_string(root().join(page)).unwrap();
    let rows = rows(&page);
    assert!(rows.len() > least_rows, "{} rows were found", rows.len());
    let mut missing = Vec::new();
    for (heading, cells) in &rows {
        let column = heading.iter().position(|cell| *cell == "test");
        let cell = column.and_then(|column| cells.get(column));
        let tests: Vec<_> = cell.map_or(Vec::new(), |cell| {
            cell.split('`').skip(1).step_by(2).collect()
        });
        assert!(!tests.is_empty(), "a row without a test: {cells:?}");
        missing.extend(tests.into_iter().filter(|test| !exists(test)));
    }
    assert!(missing.is_empty(), "there are no such tests: {missing:#?}");
}

#[test]
fn the_tests_that_the_page_on_classic_timers_names_exist() {
    names_tests("docs/classics.md", 30);
}

#[test]
fn the_tests_that_the_page_on_security_names_exist() {
    names_tests("SECURITY.md", 20);
}

#[test]
fn the_tests_that_the_page_on_testing_names_exist() {
    names_tests("docs/testing.md", 25);
}
