//! The active clients, all in one thread. They send on a fixed schedule, whether the server answers
//! or not.
//!
//! The time of an answer counts from the scheduled time of its request. So a server that stalls for
//! 100 ms at 10,000 requests a second makes a thousand requests late, and not only one. The thread
//! sleeps between requests. rustix waits with nanosecond precision because its feature `linux_5_11`
//! is on. Without that feature, each wait takes whole milliseconds.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    num::NonZeroU64,
};

use anyhow::{Context as _, bail};
use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    fd::OwnedFd,
    io::Errno,
    thread::set_current_timer_slack,
};
use serde::{Deserialize, Serialize};

use crate::{
    child,
    net::{self, Frame, Frames},
};

/// The schedule of the requests. Times are in nanoseconds.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Load {
    /// The scheduled time of the first request.
    pub(crate) start: u64,
    /// The time between two scheduled requests. The next request uses the next connection.
    pub(crate) gap: u64,
    /// The number of requests.
    pub(crate) count: u64,
    /// The time at which to stop waiting for answers.
    pub(crate) patience: u64,
    /// Every `marked`th request has the word 1, and all others have the word 0. With 0, all
    /// requests have the word 0.
    pub(crate) marked: u64,
}

impl Load {
    /// Returns the scheduled time of the `i`th request.
    pub(crate) fn due(&self, i: u64) -> u64 {
        self.start + i * self.gap
    }

    fn word(&self, i: u64) -> u64 {
        u64::from(self.marked > 0 && i.is_multiple_of(self.marked))
    }
}

/// The results of a [`Load`].
#[derive(Serialize, Deserialize)]
pub(crate) struct Answers {
    /// For each request, how many nanoseconds after its scheduled time the answer came, and the
    /// word of the answer. `None` if no answer came.
    pub(crate) answers: Vec<Option<(u64, u64)>>,
}

/// Connects, and sends the loads that the parent requests until the parent closes standard input.
pub(crate) fn run(server: SocketAddr, connections: u64) -> anyhow::Result<()> {
    // By default the kernel may wake a sleeping thread 50 us late.
    set_current_timer_slack(NonZeroU64::new(1))?;
    let mut clients = Clients::new(net::connect_std(server, connections)?)?;
    child::answer(&())?;
    while let Some(load) = child::told()? {
        child::answer(&clients.send(load)?)?;
    }
    Ok(())
}

struct Clients {
    epoll: OwnedFd,
    clients: Vec<(TcpStream, Frames)>,
    /// The number of the first request of the next load.
    first: u64,
}

impl Clients {
    fn new(streams: Vec<TcpStream>) -> anyhow::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (i, stream) in (0..).zip(&streams) {
            epoll::add(&epoll, stream, EventData::new_u64(i), EventFlags::IN)?;
        }
        let clients = streams
            .into_iter()
            .map(|stream| (stream, Frames::new()))
            .collect();
        Ok(Self {
            epoll,
            clients,
            first: 0,
        })
    }

    fn send(&mut self, load: Load) -> anyhow::Result<Answers> {
        let mut answers = vec![None; load.count as usize];
        let (mut sent, mut answered) = (0, 0);
        let mut events = Vec::with_capacity(self.clients.len());
        while answered < load.count {
            let now = net::now();
            if now >= load.patience {
                break;
            }
            while sent < load.count && load.due(sent) <= now {
                self.request(sent, load.word(sent))?;
                sent += 1;
            }
            let next = if sent < load.count {
                load.due(sent)
            } else {
                load.patience
            };
            events.clear();
            let wait = timespec(next.saturating_sub(net::now()));
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&wait)) {
                Err(Errno::INTR) => continue,
                result => result.context("cannot wait by epoll_pwait2, which needs Linux 5.11")?,
            };
            for event in &events {
                let (stream, frames) = &mut self.clients[event.data.u64() as usize];
                let read = match stream.read(frames.room()) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    read => read.context("the server closed the connection of an active client")?,
                };
                if read == 0 {
                    bail!("the server closed an active connection");
                }
                let now = net::now();
                for Frame { number, word } in frames.take(read) {
                    // The answer belongs to an earlier load and comes too late.
                    let Some(i) = number.checked_sub(self.first) else {
                        continue;
                    };
                    answers[i as usize] = Some((now - load.due(i), word));
                    answered += 1;
                }
            }
        }
        self.first += load.count;
        Ok(Answers { answers })
    }

    fn request(&mut self, i: u64, word: u64) -> anyhow::Result<()> {
        let number = self.first + i;
        let client = number as usize % self.clients.len();
        let frame = Frame { number, word }.to_bytes();
        let (stream, _) = &mut self.clients[client];
        stream.write_all(&frame).context("cannot send a request")
    }
}

fn timespec(nanos: u64) -> Timespec {
    Timespec {
        tv_sec: (nanos / 1_000_000_000) as i64,
        tv_nsec: (nanos % 1_000_000_000) as i64,
    }
}
