//! The connections that expire. Each connection says once how long it may be silent, and is then
//! silent. The process blocks afterwards. It does not notice when the server closes the
//! connections, so it takes no CPU time from the server.

use std::io::{Read as _, Write as _};

use anyhow::Context as _;

use crate::{
    child, connect, files,
    storm::Storm,
    wire::{Frame, LENGTH},
};

/// Connects, and tells the server until when each connection may be silent.
pub(crate) fn run(args: &connect::Args) -> anyhow::Result<()> {
    files::raise()?;
    let mut streams = args.connect()?;
    child::answer(&())?;
    let Some(storm) = child::told::<Storm>()? else {
        return Ok(());
    };
    for (number, stream) in (0..).zip(&mut streams) {
        stream.set_nonblocking(false)?;
        let word = storm.deadline(number);
        stream.write_all(&Frame { number, word }.to_bytes())?;
    }
    for stream in &mut streams {
        let answer = stream.read_exact(&mut [0; LENGTH]);
        answer.context("the server has not answered an idle connection")?;
    }
    child::answer(&())?;
    // Waits until the parent closes standard input.
    child::told::<()>().map(drop)
}

pub(crate) use connect::Args;
