//! Tests `tokio_wheel_util::hyper` with hyper's own servers and clients, mostly under the paused clock.

#![cfg(feature = "hyper")]

pub(crate) mod server;

mod connections;
mod counted_io;
mod drive;
mod event_polls;
mod lost;
mod recheck;
mod requests;
mod stages;
mod timer;

use std::{
    convert::Infallible,
    fmt,
    future::{Future, pending, poll_fn},
    io::{self, Read as _, Write as _},
    mem, net,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::{Pin, pin},
    sync::{
        Arc, Barrier,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{self, Relaxed},
        },
        mpsc,
    },
    task::{Context, Poll, Waker, ready},
    thread,
};

use http_body_util::{BodyExt as _, Empty, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Method, Request, Response,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    client,
    rt::{self, Timer as _},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{
        AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf, duplex,
    },
    join,
    net::TcpStream,
    runtime::{Handle, Runtime},
    sync::oneshot,
    task::{JoinHandle, coop, yield_now},
};
use tokio_wheel::{Duration, Instant, Sleep, Timer, advance, sleep, sleep_until};
use tokio_wheel_util::hyper::{
    ConnectionGuard, Connections, Ended, Limits, OpenError, Reason, WheelTimer,
};

use server::*;

use crate::support::{
    Wakes, beside_a_greedy_sibling, current_thread, dawdle, does_not_hang,
    hostile::{Hook, quiet_panic},
    log::side_by_side,
    ms, multi_thread,
    panics::assert_panics,
    paused, poll, poll_once, secs, settle, wait_until,
};
