//! Runs quinn's timers on the wheel. A program can copy this file without changes.
//!
//! Each connection of quinn has one timer. quinn resets it with nearly every packet. The timer
//! serves loss detection, acknowledgments, pacing, keep-alive and the idle limit.
//!
//! The runtime follows two rules:
//!
//! * `now` reads tokio's clock, as the wheel does. So a paused clock stops both.
//!   `a_timer_fires_at_its_deadline` proves this.
//! * A timer can be reset and polled at any time, even after it has fired. quinn polls it after
//!   each reset. `a_poll_after_a_reset_sees_the_new_deadline` proves this.
//!
//! A paused clock does not work with packets that take time. When no task is ready, tokio moves a
//! paused clock to the next deadline at once. A packet from another thread or host then arrives
//! after the idle limit, and quinn ends the connection. For tests, use the real clock or sockets in
//! memory, like the sockets in `examples/quic/tests/quic/memory.rs`.

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use tokio_wheel::{Sleep, sleep_until};

/// A [`Runtime`] for quinn with tokio's tasks and sockets, and with the wheel's timers.
///
/// Its timers use the default timer of the tokio runtime that runs the connection. For another
/// timer, replace `sleep_until` with [`Timer::sleep_until`](tokio_wheel::Timer::sleep_until).
#[derive(Clone, Copy, Debug, Default)]
pub struct WheelRuntime;

impl Runtime for WheelRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(WheelTimer(sleep_until(deadline.into())))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(future);
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        tokio_wheel::Instant::now().into_std()
    }
}

/// An [`AsyncTimer`] for quinn that contains a [`Sleep`] of the wheel.
struct WheelTimer(Sleep);

impl AsyncTimer for WheelTimer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        Pin::new(&mut self.0).reset(deadline.into());
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl fmt::Debug for WheelTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
