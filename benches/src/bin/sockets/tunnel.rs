//! `tunnel` measures the throughput of `io::tunnel` with limits beside `tokio::io::copy_bidirectional`, over loopback TCP.

use std::{
    io::{self, BufReader, Write as _},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use tokio::{io::copy_bidirectional_with_sizes, net, runtime::Runtime};
use tokio_wheel_benches::{
    lab, machine,
    process::thread_cpu_time,
    stats::{in_round, median, number, print_table},
};
use tokio_wheel_util::io::tunnel;

use crate::report::Compare;

/// How many bytes client and server write and read at a time.
const BLOCK: usize = 256 << 10;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many MiB a direction copies each time.
    #[arg(long, default_value_t = 256)]
    mebibytes: usize,
    /// The sizes of the buffers in KiB.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 8, 64])]
    buffers: Vec<usize>,
}

pub(crate) fn run(args: &Args, rounds: u32) -> anyhow::Result<()> {
    machine::warn();
    println!("Machine: {}. {} rounds.", machine::name(), rounds);
    let heads = ["", "MiB/s", "time, tunnel / tokio", "CPU, tunnel / tokio"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.push(vec!["A tunnel with limits".to_owned()]);
    let runtime = lab::runtime(0);
    for (ways, caption) in [(1, "one way"), (2, "both ways")] {
        for kib in &args.buffers {
            let mut runs = [Vec::new(), Vec::new()];
            for round in 0..rounds {
                for limited in in_round(vec![false, true], round) {
                    let bytes = args.mebibytes << 20;
                    let (time, cpu) = copy(&runtime, limited, kib << 10, ways, bytes)?;
                    runs[usize::from(limited)].push((time.as_secs_f64(), cpu.as_secs_f64()));
                }
            }
            let [tokio, tunnel] = &runs;
            let rate = tunnel
                .iter()
                .map(|run| (ways * args.mebibytes) as f64 / run.0);
            let both = || tokio.iter().zip(tunnel);
            rows.push(vec![
                format!("  {caption}, {kib} KiB"),
                number(median(rate)),
                Compare::Times.text(both().map(|(tokio, tunnel)| (tokio.0, tunnel.0))),
                Compare::Times.text(both().map(|(tokio, tunnel)| (tokio.1, tunnel.1))),
            ]);
        }
    }
    print_table(&rows);
    Ok(())
}

/// Copies between a client and a server, one way or both. Returns how long it took, and the CPU time of the copy.
fn copy(
    runtime: &Runtime,
    limited: bool,
    buffer: usize,
    ways: usize,
    bytes: usize,
) -> anyhow::Result<(Duration, Duration)> {
    let ([client, a], [b, server]) = (pair()?, pair()?);
    let start = (Instant::now(), thread_cpu_time());
    let mut peers = Vec::new();
    for (from, to, sent) in [
        (&client, &server, bytes),
        (&server, &client, bytes * (ways - 1)),
    ] {
        let (mut from, to) = (from.try_clone()?, to.try_clone()?);
        peers.push(thread::spawn(move || {
            (0..sent / BLOCK).try_for_each(|_| from.write_all(&[1; BLOCK]))?;
            from.shutdown(Shutdown::Write).map(|()| 0)
        }));
        peers.push(thread::spawn(move || {
            io::copy(&mut BufReader::with_capacity(BLOCK, to), &mut io::sink())
        }));
    }
    a.set_nonblocking(true)?;
    b.set_nonblocking(true)?;
    runtime.block_on(async {
        let [mut a, mut b] = [net::TcpStream::from_std(a)?, net::TcpStream::from_std(b)?];
        if limited {
            let limits = tunnel(a, b).buffer(buffer).idle(Duration::from_secs(60));
            drop(limits.half_close(Duration::from_secs(10)).await);
        } else {
            copy_bidirectional_with_sizes(&mut a, &mut b, buffer, buffer).await?;
        }
        anyhow::Ok(())
    })?;
    let took = (start.0.elapsed(), thread_cpu_time() - start.1);
    let received = peers.into_iter().map(|peer| peer.join().expect("it ends"));
    let received = received.sum::<io::Result<u64>>()?;
    anyhow::ensure!(
        received == (ways * bytes) as u64,
        "{received} bytes arrived"
    );
    Ok(took)
}

fn pair() -> anyhow::Result<[TcpStream; 2]> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    Ok([one, listener.accept()?.0])
}
