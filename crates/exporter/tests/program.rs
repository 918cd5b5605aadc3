//! The program as users run it, on loopback.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_cyclometer-exporter"))
}

/// A running exporter, which is ended with the test.
struct Exporter {
    child: Child,
    address: String,
}

impl Exporter {
    /// Starts it, with a configuration, on a port that the system chooses.
    fn start(command: &mut Command, config: &str) -> Exporter {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config).unwrap();
        let mut child = command
            .arg("--config")
            .arg(&file)
            .args(["--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line =
            lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("serving"))).unwrap().unwrap();
        let address = line.split_once("://").unwrap().1.strip_suffix("/metrics").unwrap().to_owned();
        assert!(!address.ends_with(":0"), "{line}");
        // Later messages must not meet a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Exporter { child, address }
    }

    fn request(&self, path: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SOFTWARE: &str = "machine: {events: [user_time, 'page-faults', no_such_pmu_event_is_here]}\n";

fn refused(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(125), "{text}");
    text
}

fn with_config(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    std::fs::write(&file, text).unwrap();
    refused(program().arg("--check").arg("--config").arg(&file))
}

#[test]
fn a_scrape_gets_open_metrics_or_the_older_format_and_values_move() {
    let exporter =
        Exporter::start(&mut program(), "max_age_ms: 0\nmachine: {events: [user_time, page-faults]}\n");
    let open = exporter.request("/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n");
    assert!(open.starts_with("HTTP/1.1 200"), "{open}");
    assert!(
        open.contains("content-type: application/openmetrics-text; version=1.0.0")
            && open.ends_with("# EOF\n"),
        "{open}"
    );
    assert!(open.contains("cyclometer_time_seconds_total{target=\"machine\",event=\"user_time\""), "{open}");
    assert!(open.contains("cyclometer_source_state{source=\"os\",state=\"works\""), "{open}");
    let older = exporter.request("/metrics", "");
    assert!(older.contains("content-type: text/plain; version=0.0.4") && !older.contains("# EOF"), "{older}");
    let reads = |text: &str| {
        let line =
            text.lines().find(|line| line.starts_with("cyclometer_exporter_reads_total")).unwrap().to_owned();
        line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
    };
    assert!(reads(&older) > reads(&open), "max_age_ms is 0");
    assert!(exporter.request("/healthz", "").ends_with("ok\n"));
    assert!(exporter.request("/nothing", "").starts_with("HTTP/1.1 404"));
}

#[test]
fn it_ends_by_itself_at_sigterm() {
    let mut exporter = Exporter::start(&mut program(), "");
    let pid = exporter.child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    assert_eq!(exporter.child.wait().unwrap().code(), Some(0));
}

#[test]
fn many_scrapes_at_once_are_all_answered_or_refused() {
    let exporter = Exporter::start(&mut program(), "limits: {connections: 8}\n");
    let answers: Vec<String> = std::thread::scope(|scope| {
        let scrapes: Vec<_> = (0..64)
            .map(|_| {
                scope.spawn(|| {
                    let mut stream = TcpStream::connect(&exporter.address).unwrap();
                    let _ =
                        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
                    let mut answer = String::new();
                    match stream.read_to_string(&mut answer) {
                        // Only a few refused connections stay open until the client has read.
                        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                            "HTTP/1.1 503".to_owned()
                        }
                        read => read.map(|_| answer).unwrap(),
                    }
                })
            })
            .collect();
        scrapes.into_iter().map(|scrape| scrape.join().unwrap()).collect()
    });
    let of = |status: &str| answers.iter().filter(|answer| answer.starts_with(status)).count();
    assert_eq!(
        of("HTTP/1.1 200") + of("HTTP/1.1 503"),
        64,
        "{:?}",
        answers.iter().map(|a| a.len()).collect::<Vec<_>>()
    );
    assert!(of("HTTP/1.1 200") >= 8);
}

#[test]
fn clients_that_send_nothing_leave_others_their_answers() {
    let exporter = Exporter::start(&mut program(), "limits: {connections: 4}\n");
    let silent: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(&exporter.address).unwrap()).collect();
    assert!(exporter.request("/metrics", "").starts_with("HTTP/1.1 200"));
    drop(silent);
}

#[test]
fn a_pid_file_that_is_a_pipe_holds_up_neither_scrapes_nor_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = format!("processes: [{{name: p, pid_file: {}}}]\n", pipe.display());
    let mut exporter = Exporter::start(&mut program(), &config);
    let text = exporter.request("/metrics", "");
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("it is no regular file"), "{text}");
    let pid = exporter.child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    assert_eq!(exporter.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_password_is_wanted_where_there_are_users() {
    let hash = bcrypt::hash("sesame", 4).unwrap();
    let exporter = Exporter::start(&mut program(), &format!("users: {{ali: '{hash}'}}\n"));
    assert!(exporter.request("/metrics", "").starts_with("HTTP/1.1 401"));
    assert!(exporter.request("/", "").starts_with("HTTP/1.1 401"));
    let header = |text: &str| format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(text));
    assert!(exporter.request("/metrics", &header("ali:wrong")).starts_with("HTTP/1.1 401"));
    assert!(exporter.request("/metrics", &header("ali:sesame")).starts_with("HTTP/1.1 200"));
    assert!(exporter.request("/healthz", "").starts_with("HTTP/1.1 200"));
}

/// A certificate for 127.0.0.1 with its key, in a folder.
fn certificate(folder: &Path) -> (rcgen::CertifiedKey<rcgen::KeyPair>, String) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("c.pem"), folder.join("k.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let config = format!("tls: {{certificate: {}, key: {}}}\n", certificate.display(), key.display());
    (made, config)
}

#[test]
fn tls_serves_the_same_metrics() {
    use std::sync::Arc;
    let folder = tempfile::tempdir().unwrap();
    let (made, config) = certificate(folder.path());
    let exporter = Exporter::start(&mut program(), &config);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "127.0.0.1".try_into().unwrap();
    let mut session = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
    let mut socket = TcpStream::connect(&exporter.address).unwrap();
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("cyclometer_build_info"), "{answer}");
    // A client without TLS is not answered, and harms nobody.
    let mut plain = TcpStream::connect(&exporter.address).unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes);
    assert!(!String::from_utf8_lossy(&bytes).contains("cyclometer"));
}

#[test]
fn files_of_tls_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (_, good) = certificate(folder.path());
    let missing = good.replace("c.pem", "none.pem");
    let text = with_config(&missing);
    assert!(text.contains("tls.certificate: ") && text.contains("none.pem: "), "{text}");
    let swapped = good.replace("k.pem", "c.pem");
    let text = with_config(&swapped);
    assert!(text.contains("tls.key: ") && text.contains("no private key in PEM"), "{text}");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let text = with_config(&good.replace("c.pem", "empty.pem"));
    assert!(text.contains("the file has no certificate"), "{text}");
    std::fs::write(&empty, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let text = with_config(&good.replace("c.pem", "empty.pem"));
    assert!(text.contains("tls.certificate: ") && text.contains("cannot be read as X.509"), "{text}");
    let other = tempfile::tempdir().unwrap();
    let (_, _) = certificate(other.path());
    let foreign = good.replace(
        &folder.path().join("k.pem").display().to_string(),
        &other.path().join("k.pem").display().to_string(),
    );
    assert!(with_config(&foreign).contains("it does not belong to the certificate"), "{foreign}");
}

#[test]
fn mistakes_are_named_with_file_line_and_key_and_unknown_events_with_the_key() {
    let text = with_config("limits:\n  series: many\n");
    assert!(text.contains("c.yaml: line 2, column 11: limits.series takes an integer"), "{text}");
    let text = with_config(SOFTWARE);
    assert!(text.contains("machine.events: ") && text.contains("no_such_pmu_event_is_here"), "{text}");
    let text = refused(program().args(["--config", "/no/such/file"]));
    assert!(text.contains("cannot read the configuration /no/such/file"), "{text}");
    let text = with_config("cgroups: {root: /no/such/folder}\n");
    assert!(text.contains("cgroups.root: cannot read the folder /no/such/folder: No such file"), "{text}");
    for address in ["9", "127.0.0.1:99999", "localhost:9753"] {
        let text = refused(program().args(["--listen", address]));
        assert!(text.contains("--listen") && text.contains("such as 127.0.0.1:9753"), "{text}");
    }
    for mode in ["--check", "--once"] {
        assert!(refused(program().args(["--otlp", "https://a", mode])).contains("TLS is not supported"));
    }
}

#[test]
fn a_port_in_use_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = refused(program().args(["--listen", &address]));
    assert!(
        text.contains(&format!("cannot listen on {address}"))
            && text.contains("another program uses the port"),
        "{text}"
    );
}

#[test]
fn sixty_four_descriptors_are_enough_to_serve() {
    let mut command = Command::new("sh");
    let script = "ulimit -n 64; exec \"$0\" \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_cyclometer-exporter")]);
    let exporter = Exporter::start(&mut command, "machine: {events: [user_time, page-faults]}\n");
    let held: Vec<_> = (0..40).filter_map(|_| TcpStream::connect(&exporter.address).ok()).collect();
    drop(held);
    let answer = exporter.request("/metrics", "");
    assert!(answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 503"), "{answer}");
    let mut text = answer;
    while !text.starts_with("HTTP/1.1 200") {
        text = exporter.request("/metrics", "");
    }
    assert!(text.contains("cyclometer_exporter_counters_limit 24"), "{text}");
}

/// Runs promtool on a text, or on a file.
fn promtool(arguments: &[&str], text: &str) -> Output {
    let mut tool = Command::new("promtool");
    let mut child =
        tool.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.as_mut().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
    Output { status: child.wait().unwrap(), stdout, stderr }
}

#[test]
fn promtool_finds_nothing_wrong_with_metrics_and_rules() {
    if !cyclometer_test_support::has("promtool") {
        return cyclometer_test_support::skip("promtool is not installed (Debian's package prometheus)");
    }
    let metrics = program().arg("--once").output().unwrap().stdout;
    let found = promtool(&["check", "metrics"], &String::from_utf8(metrics).unwrap());
    assert!(found.status.success() && found.stderr.is_empty(), "{found:?}");
    let wrong = promtool(&["check", "metrics"], "no metrics at all\n");
    assert!(!wrong.status.success(), "{wrong:?}");
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/rules.yaml");
    let found = promtool(&["check", "rules", rules], "");
    assert!(found.status.success(), "{found:?}");
}

#[test]
fn the_configurations_of_deployment_are_valid() {
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
    let checked = |text: &str| cyclometer_exporter::config::ExporterConfig::parse(text).unwrap();
    checked(&std::fs::read_to_string(format!("{deploy}/exporter.yaml")).unwrap());
    let manifest = std::fs::read_to_string(format!("{deploy}/daemonset.yaml")).unwrap();
    let inner = manifest.split_once("exporter.yaml: |\n").unwrap().1.split_once("---").unwrap().0;
    let config = checked(inner);
    assert!(!config.cgroups.include.is_empty() && !config.listen.ip().is_loopback());
}

#[test]
fn once_prints_what_a_scrape_gets() {
    let Output { status, stdout, .. } = program().args(["--once", "--events", "user_time"]).output().unwrap();
    let text = String::from_utf8(stdout).unwrap();
    assert!(status.success() && text.contains("cyclometer_time_seconds_total{target=\"machine\""), "{text}");
}

#[test]
fn the_manual_page_has_the_section_and_every_option() {
    let out = program().arg("--man").output().unwrap();
    let page = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && page.contains(".TH cyclometer-exporter 8 "), "{page}");
    for option in ["config", "listen", "otlp", "man"] {
        assert!(page.contains(&format!("\\-\\-{option}")), "{option} is missing in:\n{page}");
    }
}
