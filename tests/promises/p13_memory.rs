//! Promise 13, memory: a pending sleep takes at most 80 bytes, its future and its entry together.
//!
//! `wheel::nodes::tests::a_waker_takes_40_bytes` checks the entry, and `tests/alone/memory.rs` checks both together.

use super::*;

#[test]
fn a_sleep_is_small() {
    // A call site takes eight bytes.
    let most = 32 + 8 * usize::from(cfg!(feature = "call-sites"));
    assert!(size_of::<Sleep>() <= most, "{} bytes", size_of::<Sleep>());
}

#[test]
fn a_timeout_adds_nothing_to_its_future_and_its_sleep() {
    let limited = size_of_val(&timeout(ms(1), std::future::ready([0_u64; 8])));
    let inner = size_of_val(&std::future::ready([0_u64; 8]));
    assert_eq!(limited, inner + size_of::<Sleep>());
}
