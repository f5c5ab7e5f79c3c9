//! Runs operations on a wheel beside a sorted map of deadlines. The wheel has the real geometry or
//! a tiny one.

use arbitrary::Arbitrary;

use bounded_wheel::oracle::{self, Pair};

/// The most operations that a program runs. More operations would only slow an input down.
const MOST: usize = 300;

#[derive(Arbitrary, Debug)]
pub struct Program {
    /// Whether the wheel has 2 levels of 4 slots.
    tiny: bool,
    ops: Vec<Op>,
}

/// Stands for `oracle::Op`, in a form that few bytes can choose. Numbers of entries are taken
/// modulo the number of entries registered so far.
#[derive(Arbitrary, Debug)]
enum Op {
    Register(Ticks),
    RegisterAt(u64),
    Deregister(u16),
    Later(u16, Ticks),
    Reset(u16, Ticks),
    Advance(Ticks),
    AdvanceBy(Ticks, u8),
    AdvanceOneByOne(Ticks),
    Leap,
    Reserve(u8),
    ShrinkToFit,
    Compact,
    Clear,
    AdvanceOnce(Ticks, u8),
    CatchUp(Ticks),
}

/// A number of ticks.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Ticks {
    Few(u8),
    /// A number around a power of two, where levels begin.
    Edge(u8, i8),
    Any(u64),
}

impl Ticks {
    fn number(self) -> u64 {
        match self {
            Self::Few(ticks) => ticks.into(),
            Self::Edge(bit, off) => (1_u64 << (bit % 64)).saturating_add_signed(off.into()),
            Self::Any(ticks) => ticks,
        }
    }
}

impl Op {
    fn of_oracle(self) -> oracle::Op {
        match self {
            Self::Register(after) => oracle::Op::Register(after.number()),
            Self::RegisterAt(deadline) => oracle::Op::RegisterAt(deadline),
            Self::Deregister(key) => oracle::Op::Deregister(key.into()),
            Self::Later(key, by) => oracle::Op::Later(key.into(), by.number()),
            Self::Reset(key, by) => oracle::Op::Reset(key.into(), by.number()),
            Self::Advance(by) => oracle::Op::Advance(by.number()),
            // A budget of zero would never finish.
            Self::AdvanceBy(by, budget) => {
                oracle::Op::AdvanceBy(by.number(), usize::from(budget).max(1))
            }
            Self::AdvanceOneByOne(by) => oracle::Op::AdvanceOneByOne(by.number()),
            Self::Leap => oracle::Op::Leap,
            Self::Reserve(additional) => oracle::Op::Reserve(additional.into()),
            Self::ShrinkToFit => oracle::Op::ShrinkToFit,
            Self::Compact => oracle::Op::ShrinkToFit,
            Self::Clear => oracle::Op::Clear,
            Self::AdvanceOnce(by, steps) => {
                oracle::Op::AdvanceOnce(by.number(), usize::from(steps).max(1))
            }
            Self::CatchUp(by) => oracle::Op::CatchUp(by.number()),
        }
    }
}

impl Program {
    pub fn run(self) {
        let ops: Vec<_> = (self.ops.into_iter().take(MOST))
            .map(Op::of_oracle)
            .collect();
        if self.tiny {
            for mut pair in Pair::<3, 4>::all() {
                ops.iter().for_each(|op| pair.apply(op.clone().tame()));
            }
        } else {
            for mut pair in Pair::<12, 64>::all() {
                ops.iter().for_each(|op| pair.apply(op.clone()));
            }
        }
    }
}
