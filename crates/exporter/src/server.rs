//! HTTP, with or without TLS.

use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use hyper_util::rt::TokioTimer;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::answers::TextPlaces;
use crate::auth::{UserAccess, Users};
use crate::config::TlsFiles;
use crate::exposition::TextFormat;
use crate::hub::Hub;
use crate::scrapes::ScrapeCounts;
use crate::streams::LimitedAcceptor;

/// For how long a client may be silent before a request, and send its head.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// For how long open requests may go on when the exporter ends.
const GRACE: Duration = Duration::from_secs(3);

/// The data that requests are answered with.
#[derive(Debug)]
pub struct ServerState {
    /// The counters.
    pub hub: Hub,
    /// The users.
    pub users: Users,
    /// Counts of scrapes.
    pub scrapes: Arc<ScrapeCounts>,
    /// Places for the texts of answers.
    pub texts: TextPlaces,
}

/// The pages.
pub fn router(state: Arc<ServerState>) -> Router {
    let guarded = Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn_with_state(Arc::clone(&state), authenticate));
    // A probe of liveness has no password.
    guarded.route("/healthz", get(|| async { "ok\n" })).with_state(state)
}

async fn index() -> &'static str {
    "cyclometer-exporter: the metrics are at /metrics\n"
}

async fn metrics(State(state): State<Arc<ServerState>>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = TextFormat::accepted(accept);
    let snapshot = match state.hub.snapshot().await {
        Ok(snapshot) => snapshot,
        Err(reason) => return busy(&state, reason),
    };
    let Some(text) = snapshot.text(format, &state.texts) else {
        return busy(&state, "too many older answers are being sent");
    };
    state.scrapes.answer();
    ([(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()))], text).into_response()
}

fn busy(state: &ServerState, reason: impl Display) -> Response {
    state.scrapes.refuse();
    let again = [(header::RETRY_AFTER, HeaderValue::from_static("1"))];
    (StatusCode::SERVICE_UNAVAILABLE, again, format!("{reason}\n")).into_response()
}

async fn authenticate(State(state): State<Arc<ServerState>>, request: Request, next: Next) -> Response {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match state.users.check(header).await {
        UserAccess::Granted => next.run(request).await,
        UserAccess::Busy => busy(&state, "too many passwords are being checked"),
        UserAccess::Denied => {
            let how = HeaderValue::from_static("Basic realm=\"cyclometer\", charset=\"UTF-8\"");
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, how)], "user and password, please\n")
                .into_response()
        }
    }
}

/// Listens on an address.
///
/// # Errors
///
/// The reason in words, with the address and the remedy.
pub fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    let explained = |error: io::Error| {
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; another program uses the port: end it, or choose another with --listen"
            }
            io::ErrorKind::PermissionDenied => {
                "; ports below 1024 need CAP_NET_BIND_SERVICE: choose another with --listen"
            }
            io::ErrorKind::AddrNotAvailable => "; no interface of this machine has the address",
            _ => "",
        };
        format!("cannot listen on {address}: {error}{remedy}")
    };
    let listener = TcpListener::bind(address).map_err(explained)?;
    listener.set_nonblocking(true).map_err(explained)?;
    Ok(listener)
}

/// Reads certificate and key.
///
/// # Errors
///
/// The reason in words, with the file and the key of the configuration.
pub fn tls_config(files: &TlsFiles) -> Result<RustlsConfig, String> {
    let wrong =
        |key: &str, file: &Path, reason: &dyn Display| format!("tls.{key}: {}: {reason}", file.display());
    let of_certificate = |reason: &dyn Display| wrong("certificate", &files.certificate, reason);
    let of_key = |reason: &dyn Display| wrong("key", &files.key, reason);
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| of_certificate(&error))?;
    if certificates.is_empty() {
        return Err(of_certificate(&"the file has no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| match error {
        pem::Error::NoItemsFound => of_key(&"the file has no private key in PEM that is not encrypted"),
        error => of_key(&error),
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| of_certificate(&error))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => of_key(&"it does not belong to the certificate"),
            rustls::Error::InvalidCertificate(_) => {
                of_certificate(&"the certificate cannot be read as X.509")
            }
            error => of_key(&format!(
                "{error}; usable keys: RSA of 2048 bits or more, ECDSA P-256 or P-384, Ed25519"
            )),
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(RustlsConfig::from_config(Arc::new(config)))
}

/// Where and how is served.
pub struct ServerSetup {
    /// The open port.
    pub listener: TcpListener,
    /// TLS, if it is wanted.
    pub tls: Option<RustlsConfig>,
    /// Number of connections at the same time.
    pub connections: usize,
    /// For how long a client may be silent before a request, and send its head.
    pub head_timeout: Duration,
}

/// Serves until the future `end` is ready, and then lets open requests end.
///
/// # Errors
///
/// The operating system's.
pub async fn serve(
    service: ServerSetup,
    state: Arc<ServerState>,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let handle = Handle::new();
    let ending = handle.clone();
    tokio::spawn(async move {
        end.await;
        ending.graceful_shutdown(Some(GRACE));
    });
    let limited =
        LimitedAcceptor::new(service.connections, Arc::clone(&state.scrapes), service.tls.is_none());
    let pages = router(state).into_make_service();
    let mut server = axum_server::from_tcp(service.listener)?.handle(handle);
    server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(service.head_timeout);
    // `acceptor` forgets the version of HTTP. Without it, the server waits for the preface of HTTP/2, and no
    // time-out holds for a client that sends nothing.
    match service.tls {
        None => server.acceptor(limited).http1_only().serve(pages).await,
        Some(config) => {
            let secured = RustlsAcceptor::new(config).acceptor(limited);
            server.acceptor(secured).http1_only().serve(pages).await
        }
    }
}
