//! The clients of a server, all in one thread.
//!
//! In an open loop, they send on a fixed schedule, and the time of an answer counts from the scheduled time of its
//! request. So a server that stalls for 100 ms at 10,000 requests a second makes a thousand requests late, and not
//! only one. In a closed loop, each connection sends its next request when it has received an answer.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    num::NonZeroU64,
};

use anyhow::{Context as _, ensure};
use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    fd::OwnedFd,
    io::Errno,
    thread::set_current_timer_slack,
};

use crate::net::{self, Frame, LENGTH, MS};

const PATIENCE: u64 = 20_000 * MS;

/// What clients and server send each other. All answers have the same length.
pub(crate) struct Protocol {
    pub(crate) request: fn(Frame) -> Vec<u8>,
    pub(crate) answer_length: usize,
    pub(crate) answer: fn(&[u8]) -> anyhow::Result<Frame>,
}

pub(crate) const FRAMES: Protocol = Protocol {
    request: |frame| frame.to_bytes().to_vec(),
    answer_length: LENGTH,
    answer: |bytes| Ok(Frame::from_bytes(bytes.try_into()?)),
};

/// What the clients send, and when. Times are in nanoseconds.
pub(crate) struct Load<'a> {
    pub(crate) start: u64,
    /// How long the clients send requests. In a closed loop, each connection sends at least one.
    pub(crate) lasts: u64,
    /// How many requests a second are scheduled. `None` is a closed loop.
    pub(crate) rate: Option<f64>,
    pub(crate) word: &'a dyn Fn(u64) -> u64,
}

impl Load<'_> {
    pub(crate) fn closed(lasts: u64) -> Self {
        Self {
            start: net::now(),
            lasts,
            rate: None,
            word: &|_| 0,
        }
    }

    /// Returns the scheduled time of the `i`th request, or `None` after the load and in a closed loop.
    fn due(&self, i: usize) -> Option<u64> {
        let due = (i as f64 * 1e9 / self.rate?) as u64;
        (due < self.lasts).then_some(self.start + due)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Trip {
    pub(crate) due: u64,
    /// How many nanoseconds later the answer came, and its word. `None` if no answer came.
    pub(crate) answer: Option<(u64, u64)>,
}

pub(crate) struct Clients {
    epoll: OwnedFd,
    protocol: &'static Protocol,
    streams: Vec<TcpStream>,
    /// The bytes that each connection has received of its next answer.
    received: Vec<Vec<u8>>,
    next: u64,
}

impl Clients {
    pub(crate) fn connect(
        server: SocketAddr,
        connections: u64,
        protocol: &'static Protocol,
    ) -> anyhow::Result<Self> {
        // By default the kernel may wake a sleeping thread 50 us late.
        set_current_timer_slack(NonZeroU64::new(1))?;
        let streams = net::connect(server, connections)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (i, stream) in (0..).zip(&streams) {
            epoll::add(&epoll, stream, EventData::new_u64(i), EventFlags::IN)?;
        }
        Ok(Self {
            epoll,
            protocol,
            received: vec![Vec::new(); streams.len()],
            streams,
            next: 0,
        })
    }

    pub(crate) fn into_streams(self) -> Vec<TcpStream> {
        self.streams
    }

    pub(crate) fn send(&mut self, load: &Load<'_>) -> anyhow::Result<Vec<Trip>> {
        let end = load.start + load.lasts;
        let patience = end + PATIENCE;
        let first = self.next;
        let (mut trips, mut answered) = (Vec::new(), 0);
        let mut events = Vec::with_capacity(self.streams.len());
        net::wait_until(load.start);
        if load.rate.is_none() {
            for client in 0..self.streams.len() {
                self.request(client, net::now(), load, &mut trips)?;
            }
        }
        loop {
            let now = net::now();
            let mut due = load.due(trips.len());
            while let Some(at) = due.filter(|&at| at <= now) {
                let client = self.next as usize % self.streams.len();
                self.request(client, at, load, &mut trips)?;
                due = load.due(trips.len());
            }
            if now >= patience || (due.is_none() && answered == trips.len()) {
                return Ok(trips);
            }
            events.clear();
            let wait = net::until(due.unwrap_or(patience)).try_into()?;
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&wait)) {
                Err(Errno::INTR) => continue,
                result => result.context("cannot wait by epoll_pwait2, which needs Linux 5.11")?,
            };
            for event in &events {
                let client = event.data.u64() as usize;
                let answers = self.receive(client)?;
                let now = net::now();
                for Frame { number, word } in answers {
                    // The answer belongs to an earlier load and comes too late.
                    let Some(i) = number.checked_sub(first) else {
                        continue;
                    };
                    let trip: &mut Trip = &mut trips[i as usize];
                    trip.answer = Some((now - trip.due, word));
                    answered += 1;
                    if load.rate.is_none() && now < end {
                        self.request(client, now, load, &mut trips)?;
                    }
                }
            }
        }
    }

    fn request(
        &mut self,
        client: usize,
        due: u64,
        load: &Load<'_>,
        trips: &mut Vec<Trip>,
    ) -> anyhow::Result<()> {
        let frame = Frame {
            number: self.next,
            word: (load.word)(trips.len() as u64),
        };
        trips.push(Trip { due, answer: None });
        self.next += 1;
        self.streams[client]
            .write_all(&(self.protocol.request)(frame))
            .context("cannot send a request")
    }

    fn receive(&mut self, client: usize) -> anyhow::Result<Vec<Frame>> {
        let mut bytes = [0; 4_096];
        let read = match self.streams[client].read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Vec::new()),
            read => read.context("cannot read an answer")?,
        };
        ensure!(read > 0, "the server closed the connection of a client");
        let received = &mut self.received[client];
        received.extend(&bytes[..read]);
        let answers = received.chunks_exact(self.protocol.answer_length);
        let rest = answers.remainder().to_vec();
        let answers = answers.map(self.protocol.answer).collect();
        *received = rest;
        answers
    }

    /// Returns how many requests a second the server answers in a closed loop, at best of three.
    pub(crate) fn capacity(&mut self) -> anyhow::Result<f64> {
        let mut best = 0.0;
        for _ in 0..3 {
            let start = net::now();
            let answers = self.send(&Load::closed(400 * MS))?.len();
            best = f64::max(best, answers as f64 * 1e9 / (net::now() - start) as f64);
        }
        Ok(best)
    }
}
