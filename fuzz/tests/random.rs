//! Runs random programs that are made from the corpus. Any compiler can run them, so there is a
//! little fuzzing without a fuzzer.

use std::{env, fs, path::Path};

use arbitrary::{Arbitrary, Unstructured};
use proptest::{collection::vec, prelude::*, sample};
use tokio_wheel_fuzz::{delay_queue_program, wheel_program};

/// The length of the longest input, which is the same for the fuzzer.
const MAX_LEN: usize = 1_024;

/// Makes inputs from a target's corpus. Each input is the start of one corpus file and the end of
/// another, with some bytes overwritten.
fn inputs(target: &str) -> impl Strategy<Value = Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let mut corpus: Vec<Vec<u8>> = (fs::read_dir(corpus).unwrap())
        .map(|input| fs::read(input.unwrap().path()).unwrap())
        .collect();
    // The file system lists the files in any order. Sorting them makes a seed stand for the same
    // programs on every machine.
    corpus.sort();
    let part = || (sample::select(corpus.clone()), any::<sample::Index>());
    let bytes = vec((any::<sample::Index>(), any::<u8>()), 0..16);
    let noise = vec(any::<u8>(), 0..64);
    (part(), part(), bytes, noise).prop_map(|((start, cut), (end, from), bytes, noise)| {
        let mut input = start[..cut.index(start.len())].to_vec();
        input.extend(noise);
        input.extend_from_slice(&end[from.index(end.len())..]);
        for (at, byte) in bytes {
            if !input.is_empty() {
                let at = at.index(input.len());
                input[at] = byte;
            }
        }
        input.truncate(MAX_LEN);
        input
    })
}

fn program<P: for<'a> Arbitrary<'a>>(input: &[u8]) -> P {
    P::arbitrary_take_rest(Unstructured::new(input)).unwrap()
}

/// Runs programs for some seconds, unless `PROPTEST_CASES` is set.
fn programs() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 100_000;
    }
    config
}

proptest! {
    #![proptest_config(programs())]

    #[test]
    fn wheel(input in inputs("wheel")) {
        wheel_program::Program::run(program(&input));
    }

    #[test]
    fn delay_queue(input in inputs("delay_queue")) {
        delay_queue_program::Program::run(program(&input));
    }
}
