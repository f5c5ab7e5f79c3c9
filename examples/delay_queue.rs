//! A cache whose unused entries expire.
//!
//! ```text
//! cargo run --example delay_queue
//! ```
//!
//! One task owns the cache. It answers requests from a channel, and removes expired entries. Each entry
//! has an element in a `DelayQueue`. A use of the entry resets the element. When the element expires,
//! the task removes the entry.

use std::collections::{HashMap, hash_map::Entry};

use tokio::sync::{mpsc, oneshot};
use tokio_wheel::{DelayQueue, Duration, Instant, delay_queue, sleep_until};

/// The time after which an unused entry expires.
const IDLE: Duration = Duration::from_millis(500);

type Name = &'static str;

enum Request {
    Put(Name, u32),
    Get(Name, oneshot::Sender<Option<u32>>),
}

/// The counts of requests, and the expired entries.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) puts: u32,
    pub(crate) hits: u32,
    pub(crate) misses: u32,
    /// The names of the expired entries, and the times in milliseconds since the start.
    pub(crate) expired: Vec<(Name, u128)>,
}

struct Cache {
    start: Instant,
    entries: HashMap<Name, (u32, delay_queue::Key)>,
    expirations: DelayQueue<Name>,
    report: Report,
}

impl Cache {
    async fn serve(mut self, mut requests: mpsc::Receiver<Request>) -> Report {
        loop {
            tokio::select! {
                // Expired entries come first, because a request must not use them.
                biased;
                Some(expired) = self.expirations.expired() => self.expire(expired.into_inner()),
                request = requests.recv() => match request {
                    Some(Request::Put(name, value)) => self.put(name, value),
                    // The client may have dropped the receiver.
                    Some(Request::Get(name, answer)) => drop(answer.send(self.get(name))),
                    None => break,
                },
            }
        }
        self.say("all clients are gone");
        while let Some(expired) = self.expirations.expired().await {
            self.expire(expired.into_inner());
        }
        self.report
    }

    fn put(&mut self, name: Name, value: u32) {
        match self.entries.entry(name) {
            Entry::Occupied(mut entry) => {
                let (old, expiration) = entry.get_mut();
                *old = value;
                self.expirations.reset(expiration, IDLE);
            }
            Entry::Vacant(place) => {
                let expiration = self.expirations.insert(name, IDLE);
                place.insert((value, expiration));
            }
        }
        self.report.puts += 1;
        self.say(format_args!("put {name} = {value}"));
    }

    fn get(&mut self, name: Name) -> Option<u32> {
        let Some((value, expiration)) = self.entries.get(name) else {
            self.report.misses += 1;
            self.say(format_args!("get {name}: not there"));
            return None;
        };
        self.expirations.reset(expiration, IDLE);
        self.report.hits += 1;
        self.say(format_args!("get {name}: {value}"));
        Some(*value)
    }

    fn expire(&mut self, name: Name) {
        self.entries.remove(name);
        let now = self.start.elapsed().as_millis();
        self.report.expired.push((name, now));
        self.say(format_args!("{name} has expired"));
    }

    fn say(&self, what: impl std::fmt::Display) {
        println!("{:>5} ms  {what}", self.start.elapsed().as_millis());
    }
}

/// Starts a cache, uses it, and waits until it is empty.
pub(crate) async fn run() -> Report {
    let start = Instant::now();
    let (client, requests) = mpsc::channel(16);
    let cache = Cache {
        start,
        entries: HashMap::new(),
        expirations: DelayQueue::new(),
        report: Report::default(),
    };
    let cache = tokio::spawn(cache.serve(requests));

    // The time of each request in milliseconds. A request with a value is a put, and any other a get.
    let script = [
        (0, "apple", Some(1)),
        (100, "pear", Some(2)),
        (200, "plum", Some(3)),
        (300, "apple", None),
        (650, "pear", None),
        (750, "apple", None),
        (900, "plum", Some(4)),
        (1_000, "plum", None),
        (1_100, "plum", Some(5)),
        (1_300, "apple", None),
    ];
    for (at, name, value) in script {
        sleep_until(start + Duration::from_millis(at)).await;
        match value {
            Some(value) => drop(client.send(Request::Put(name, value)).await),
            None => {
                let (answer, answered) = oneshot::channel();
                drop(client.send(Request::Get(name, answer)).await);
                drop(answered.await);
            }
        }
    }
    drop(client);
    cache.await.expect("the cache does not panic")
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    run().await;
}
