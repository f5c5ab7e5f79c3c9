//! Makes a pair of sockets in memory. Their packets take no time, so a paused clock works with
//! them.

use std::{
    fmt,
    io::{self, IoSliceMut},
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use quinn::{
    AsyncUdpSocket, Endpoint, EndpointConfig, ServerConfig, UdpPoller,
    udp::{RecvMeta, Transmit},
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_wheel_quic::runtime::WheelRuntime;

struct MemorySocket {
    address: SocketAddr,
    peer: SocketAddr,
    send: UnboundedSender<Vec<u8>>,
    recv: Mutex<UnboundedReceiver<Vec<u8>>>,
}

/// Returns a server's endpoint, and a client's endpoint that can connect only to this server.
pub(crate) fn endpoints(server: ServerConfig) -> io::Result<(Endpoint, Endpoint)> {
    let addresses = [1, 2].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let (to_server, at_server) = unbounded_channel();
    let (to_client, at_client) = unbounded_channel();
    let socket = |address, peer, send, recv| MemorySocket {
        address,
        peer,
        send,
        recv: Mutex::new(recv),
    };
    let endpoint = |socket, server| {
        let (config, runtime) = (EndpointConfig::default(), Arc::new(WheelRuntime));
        Endpoint::new_with_abstract_socket(config, server, Arc::new(socket), runtime)
    };
    Ok((
        endpoint(
            socket(addresses[0], addresses[1], to_client, at_server),
            Some(server),
        )?,
        endpoint(
            socket(addresses[1], addresses[0], to_server, at_client),
            None,
        )?,
    ))
}

impl AsyncUdpSocket for MemorySocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        // As on a network, a packet to a dropped endpoint is lost.
        let _ = self.send.send(transmit.contents.to_vec());
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let Some(packet) = ready!(self.recv.lock().unwrap().poll_recv(cx)) else {
            return Poll::Pending;
        };
        buffers[0][..packet.len()].copy_from_slice(&packet);
        meta[0] = RecvMeta {
            addr: self.peer,
            len: packet.len(),
            stride: packet.len(),
            ..RecvMeta::default()
        };
        Poll::Ready(Ok(1))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl fmt::Debug for MemorySocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySocket")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
