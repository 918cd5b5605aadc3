//! Connections of clients that do not do what a browser or Prometheus does.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use cyclometer_exporter::answers::TextPlaces;
use cyclometer_exporter::auth::Users;
use cyclometer_exporter::hub;
use cyclometer_exporter::scrapes::ScrapeCounts;
use cyclometer_exporter::server::{self, ServerSetup, ServerState};
use tokio::sync::oneshot;

/// A server without counters, which ends with the test.
struct Server {
    address: SocketAddr,
    _end: oneshot::Sender<()>,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    fn start(head_timeout: Duration) -> Server {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let setup = ServerSetup { listener, tls: None, connections: 4, head_timeout };
        let (hub, _) = hub::channel(Duration::ZERO, Duration::from_secs(1));
        let (users, scrapes) = (Users::new(BTreeMap::new()), Arc::new(ScrapeCounts::default()));
        let state = Arc::new(ServerState { hub, users, scrapes, texts: TextPlaces::new(1) });
        runtime.spawn(server::serve(setup, state, async {
            let _ = ended.await;
        }));
        Server { address, _end: end, _runtime: runtime }
    }

    /// The bytes that a client gets until the server closes, which it must do by itself.
    fn answer(&self, sent: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        stream.write_all(sent).unwrap();
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("not closed: {error}"),
            _ => answer,
        }
    }
}

#[test]
fn a_client_that_is_silent_or_stops_within_the_head_is_disconnected() {
    let server = Server::start(Duration::from_millis(100));
    for sent in ["", "G", "GET /healthz HTTP/1.1\r\nHost: x\r\n", "PRI * HT"] {
        let answer = server.answer(sent.as_bytes());
        assert!(answer.is_empty(), "{sent:?}: {}", String::from_utf8_lossy(&answer));
    }
    let kept = server.answer(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(kept.ends_with(b"ok\n"), "a request is answered before its connection is closed");
}

#[test]
fn the_preface_of_http_2_gets_no_settings_frame() {
    let server = Server::start(Duration::from_secs(5));
    let answer = server.answer(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let text = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || text.starts_with("HTTP/1.1 "), "{text:?}");
}
