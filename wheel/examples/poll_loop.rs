//! A server with an event loop of its own: it echoes, and closes each connection that is silent for 200 ms.
//!
//! ```sh
//! cargo run -p bounded-wheel --example poll_loop
//! ```

use std::{
    collections::HashMap,
    io::{self, ErrorKind, Read, Write},
    net::SocketAddr,
    ops::ControlFlow,
    thread,
    time::{Duration, Instant},
};

use bounded_wheel::{Key, Order, Tick, Wheel};
use mio::{
    Events, Interest, Poll, Token,
    net::{TcpListener, TcpStream},
};

const LISTENER: Token = Token(usize::MAX);
/// A tick is a millisecond.
const SILENCE: Tick = 200;

/// Returns the deadline of a connection that was active at the tick `now`. It rounds up, because `now` rounds down.
fn deadline(now: Tick) -> Tick {
    now + 1 + SILENCE
}
/// The number of entries that expire between two looks at the sockets.
const STEPS: usize = 128;

struct Connection {
    stream: TcpStream,
    timeout: Key,
}

fn main() -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    let address = listener.local_addr()?;
    let clients = thread::spawn(move || clients(address));

    let start = Instant::now();
    let now = || start.elapsed().as_millis() as Tick;
    let mut wheel: Wheel<Token> = Wheel::new(0);
    let mut connections: HashMap<Token, Connection> = HashMap::new();
    let mut events = Events::with_capacity(128);
    let mut accepted = 0;
    let mut closed = 0;
    while closed < 2 {
        let wait = wheel.next_expiration().map(|next| {
            // The clock rounds down, so the loop waits until the tick has begun.
            (start + Duration::from_millis(next)).saturating_duration_since(Instant::now())
        });
        poll.poll(&mut events, wait)?;
        for event in &events {
            match event.token() {
                LISTENER => {
                    while let Some(mut stream) = accept(&listener)? {
                        let token = Token(accepted);
                        accepted += 1;
                        poll.registry()
                            .register(&mut stream, token, Interest::READABLE)?;
                        let timeout = wheel.insert(deadline(now()), token);
                        connections.insert(token, Connection { stream, timeout });
                    }
                }
                token => {
                    let Some(connection) = connections.get_mut(&token) else {
                        continue;
                    };
                    if echo(&mut connection.stream)? {
                        // A later deadline is only stored.
                        wheel.reset(connection.timeout, deadline(now()));
                    }
                }
            }
        }
        // If steps run out, `next_expiration` is due, and the loop serves its sockets in between.
        let _ = wheel.advance(now(), Order::DueFirst, &mut { STEPS }, |silent| {
            connections.remove(&silent.value);
            println!("connection {} was silent", silent.value.0);
            closed += 1;
            ControlFlow::Continue(())
        });
        let _ = wheel.cascade_backlog(&mut { STEPS });
    }
    let lived = clients.join().expect("the clients do not panic")?;
    assert!(lived[0] >= Duration::from_millis(SILENCE));
    assert!(lived[1] >= Duration::from_millis(SILENCE + 3 * SILENCE / 2));
    println!("they lived {:?} and {:?}", lived[0], lived[1]);
    Ok(())
}

/// Returns the next connection that waits, if there is one.
fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => Ok(Some(stream)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends back what was received. Returns whether there was something.
fn echo(stream: &mut TcpStream) -> io::Result<bool> {
    let mut buffer = [0; 1024];
    let mut has_received = false;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(has_received),
            Ok(received) => {
                stream.write_all(&buffer[..received])?;
                has_received = true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(has_received),
            Err(error) => return Err(error),
        }
    }
}

/// Opens two connections, and talks on the second for a while. Returns how long each of them lived.
fn clients(address: SocketAddr) -> io::Result<[Duration; 2]> {
    let start = Instant::now();
    let mut silent = std::net::TcpStream::connect(address)?;
    let mut talking = std::net::TcpStream::connect(address)?;
    let talks = thread::spawn(move || -> io::Result<Duration> {
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(SILENCE / 2));
            talking.write_all(b"ping")?;
            talking.read_exact(&mut [0; 4])?;
        }
        talking.read_to_end(&mut Vec::new())?;
        Ok(start.elapsed())
    });
    silent.read_to_end(&mut Vec::new())?;
    let lived = start.elapsed();
    Ok([lived, talks.join().expect("it does not panic")?])
}
