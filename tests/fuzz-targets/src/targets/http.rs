//! Requests to the exporter, over a connection of the loopback interface.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cyclometer_exporter::answers::TextPlaces;
use cyclometer_exporter::auth::Users;
use cyclometer_exporter::hub;
use cyclometer_exporter::scrapes::ScrapeCounts;
use cyclometer_exporter::server::{self, ServerSetup, ServerState};

/// The most time for an answer.
const ANSWER: Duration = Duration::from_secs(60);

/// A request after which the server closes the connection.
const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// A server that ends with this process; `None` where nothing can listen.
static SERVER: OnceLock<Option<SocketAddr>> = OnceLock::new();

/// Bytes of a client are answered or its connection is closed, and the next client is answered.
pub(super) fn requests(bytes: &[u8]) {
    let Some(address) = SERVER.get_or_init(started) else { return };
    let answer = exchanged(*address, bytes, true);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{:?}", String::from_utf8_lossy(&answer));
    let healthy = exchanged(*address, HEALTH, false);
    assert!(healthy.ends_with(b"ok\n"), "the next client: {:?}", String::from_utf8_lossy(&healthy));
}

/// The answer to the bytes of a client, up to the end of the connection. A client that says that it sends no
/// more may get no answer.
fn exchanged(address: SocketAddr, bytes: &[u8], sends_no_more: bool) -> Vec<u8> {
    let mut answer = Vec::new();
    let Ok(mut stream) = TcpStream::connect_timeout(&address, ANSWER) else {
        panic!("the server takes no connection")
    };
    // A server that has seen enough closes the connection while the client still sends.
    let _ = stream.set_read_timeout(Some(ANSWER)).and_then(|()| stream.set_write_timeout(Some(ANSWER)));
    let sent = stream.write_all(bytes);
    if sends_no_more {
        let _ = sent.and_then(|()| stream.shutdown(Shutdown::Write));
    }
    match stream.read_to_end(&mut answer) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            panic!("the connection is neither answered nor closed: {error}")
        }
        _ => answer,
    }
}

fn started() -> Option<SocketAddr> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().ok()?;
    let listener = server::listen((Ipv4Addr::LOCALHOST, 0).into()).ok()?;
    let address = listener.local_addr().ok()?;
    let setup = ServerSetup { listener, tls: None, connections: 4, head_timeout: Duration::from_secs(5) };
    let (hub, _) = hub::channel(Duration::ZERO, Duration::from_secs(1));
    let users = Users::new(BTreeMap::from([("user".to_owned(), "$2b$04$abc".to_owned())]));
    let (scrapes, texts) = (Arc::new(ScrapeCounts::default()), TextPlaces::new(1));
    let state = Arc::new(ServerState { hub, users, scrapes, texts });
    std::thread::spawn(move || runtime.block_on(server::serve(setup, state, std::future::pending())));
    Some(address)
}
