//! Runs every input of the corpus, without a fuzzer.

use std::{collections::BTreeSet, fmt::Debug, fs, path::Path};

use arbitrary::{Arbitrary, Unstructured};
use tokio_wheel_fuzz::{delay_queue_program, wheel_program};

/// Runs each input of a target's corpus as the fuzzer does. The inputs must contain all operations.
/// Otherwise they are older than the latest change of the program.
fn run<P: Debug + for<'a> Arbitrary<'a>>(target: &str, run: fn(P), operations: &str) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let mut missing: BTreeSet<&str> = operations.split_whitespace().collect();
    for input in fs::read_dir(corpus).unwrap() {
        let path = input.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let program = P::arbitrary_take_rest(Unstructured::new(&bytes)).unwrap();
        let text = format!("{program:?}");
        for word in text.split(|c: char| !c.is_alphabetic()) {
            missing.remove(word);
        }
        println!("{}: {text}", path.display());
        run(program);
    }
    assert_eq!(missing, BTreeSet::new(), "no input has these");
}

#[test]
fn wheel() {
    run(
        "wheel",
        wheel_program::Program::run,
        "Register RegisterAt Deregister Later Reset Advance AdvanceBy AdvanceOneByOne Leap Reserve \
         ShrinkToFit Compact Clear AdvanceOnce CatchUp Few Edge Any",
    );
}

#[test]
fn delay_queue() {
    run(
        "delay_queue",
        delay_queue_program::Program::run,
        "Insert InsertAt InsertLate Remove Reset ResetAt ResetLate Peek PollOnce PollAll Advance \
         Compact ShrinkToFit Reserve Clear Millis Micros Ticks Edge Max",
    );
}
