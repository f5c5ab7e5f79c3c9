//! The guide names only tests that exist.

use std::{fs, path::Path};

#[test]
fn the_guide_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../docs/migration.md")).unwrap();
    let names = page.split('`').filter_map(|code| {
        let (file, function) = code.strip_prefix("migration::")?.split_once("::")?;
        Some((file, function))
    });
    let names: Vec<_> = names.collect();
    assert!(names.len() >= 6, "{names:?}");
    for (file, function) in names {
        let source = root.join("tests/migration").join(file).with_extension("rs");
        let source = fs::read_to_string(source).unwrap();
        let test = format!("]\nfn {function}()");
        let asynchronous = format!("]\nasync fn {function}()");
        let exists = source.contains(&test) || source.contains(&asynchronous);
        assert!(exists, "the test {file}::{function} does not exist");
    }
}
