//! An echo server over QUIC, and clients that fall silent until the idle limit closes them.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, IdleTimeout, ServerConfig,
    TransportConfig, rustls::RootCertStore, rustls::pki_types::PrivatePkcs8KeyDer,
};
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_wheel::{Instant, Metrics, Timer};

use crate::runtime::WheelRuntime;

/// Any error, for its text.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The name that the certificate is for.
const NAME: &str = "localhost";

/// The longest message that the server accepts, in bytes.
const MAX_MESSAGE: usize = 64 * 1_024;

/// How many clients connect at the same time. A handshake takes milliseconds of CPU, and the idle
/// limit already counts during the handshake.
const CONNECTING: usize = 16;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many clients connect, each over a connection of its own.
    pub clients: usize,
    /// How many messages each client sends. It sends them all at once.
    pub messages: usize,
    /// How long a connection may stay open without a packet.
    pub idle: Duration,
}

/// The results of a run.
#[derive(Debug)]
pub struct Report {
    /// The result of each client.
    pub fates: Vec<Fate>,
    /// How many connections the server saw end by its idle limit.
    pub idle_at_server: usize,
    /// The counts of the runtime's default timer.
    pub metrics: Metrics,
}

/// The result of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// How many echoes were equal to their message.
    pub echoes: usize,
    /// The time between the start of the client's last message and the end of the connection.
    pub silent: Duration,
}

/// Makes a certificate, and returns a server that has it and a client that trusts it.
pub fn configs(idle: Duration) -> Result<(ServerConfig, ClientConfig), Error> {
    let own = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let certificate = own.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(own.key_pair.serialize_der());

    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::try_from(idle)?));
    let transport = Arc::new(transport);

    let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    server.transport_config(Arc::clone(&transport));

    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client.transport_config(transport);
    Ok((server, client))
}

/// Opens an endpoint on a loopback socket, with the wheel's timers. Without `server`, the endpoint
/// accepts no connection.
pub fn endpoint(server: Option<ServerConfig>) -> io::Result<Endpoint> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let config = EndpointConfig::default();
    Endpoint::new(config, server, socket, Arc::new(WheelRuntime))
}

/// Runs the server and the clients over loopback sockets until all connections have ended.
pub async fn run(plan: Plan) -> Result<Report, Error> {
    let (server, client) = configs(plan.idle)?;
    let (server, mut clients) = (endpoint(Some(server))?, endpoint(None)?);
    clients.set_default_client_config(client);
    play(plan, server, clients).await
}

/// Runs the server and the clients on these endpoints until all connections have ended.
pub async fn play(plan: Plan, server: Endpoint, clients: Endpoint) -> Result<Report, Error> {
    let address = server.local_addr()?;
    let serve = tokio::spawn(serve(server.clone(), plan.clients));
    let connecting = Arc::new(Semaphore::new(CONNECTING));
    let mut running = JoinSet::new();
    for _ in 0..plan.clients {
        let connecting = Arc::clone(&connecting);
        running.spawn(client(clients.clone(), address, connecting, plan.messages));
    }
    let mut fates = Vec::new();
    while let Some(fate) = running.join_next().await {
        fates.push(fate??);
    }
    let idle_at_server = serve.await??;
    let metrics = Timer::current().metrics();
    Ok(Report {
        fates,
        idle_at_server,
        metrics,
    })
}

/// Serves the given number of connections. Returns how many of them ended by the idle limit.
async fn serve(endpoint: Endpoint, connections: usize) -> Result<usize, Error> {
    let mut running = JoinSet::new();
    for _ in 0..connections {
        let incoming = endpoint.accept().await;
        let incoming = incoming.ok_or("the endpoint closed before all clients had connected")?;
        running.spawn(async { answer(incoming.await?).await });
    }
    let mut idle = 0;
    while let Some(end) = running.join_next().await {
        idle += usize::from(end?? == ConnectionError::TimedOut);
    }
    Ok(idle)
}

/// Echoes each stream of a connection until the connection ends, and returns why it ended.
async fn answer(connection: Connection) -> Result<ConnectionError, Error> {
    loop {
        let (mut reply, mut message) = match connection.accept_bi().await {
            Ok(stream) => stream,
            Err(end) => return Ok(end),
        };
        let bytes = message.read_to_end(MAX_MESSAGE).await?;
        reply.write_all(&bytes).await?;
        reply.finish()?;
    }
}

/// Sends the messages at once, reads the echoes, then waits until the connection ends.
async fn client(
    endpoint: Endpoint,
    server: SocketAddr,
    connecting: Arc<Semaphore>,
    messages: usize,
) -> Result<Fate, Error> {
    let permit = connecting.acquire().await?;
    let connection = endpoint.connect(server, NAME)?.await?;
    drop(permit);
    let mut running = JoinSet::new();
    // Each later packet postpones the idle limit. So the limit fires early if it fires less than
    // `idle` after this instant.
    let last_message = Instant::now();
    for number in 0..messages {
        running.spawn(echo(connection.clone(), format!("message {number}")));
    }
    let mut echoes = 0;
    while let Some(equal) = running.join_next().await {
        echoes += usize::from(equal??);
    }
    match connection.closed().await {
        ConnectionError::TimedOut => {
            let silent = last_message.elapsed();
            Ok(Fate { echoes, silent })
        }
        other => Err(other.into()),
    }
}

/// Sends a message over a stream of its own, and returns whether the echo is equal to the message.
async fn echo(connection: Connection, message: String) -> Result<bool, Error> {
    let (mut send, mut reply) = connection.open_bi().await?;
    send.write_all(message.as_bytes()).await?;
    send.finish()?;
    Ok(reply.read_to_end(MAX_MESSAGE).await? == message.as_bytes())
}
