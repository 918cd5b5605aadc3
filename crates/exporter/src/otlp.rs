//! The same families as OTLP messages, sent to a collector by HTTP.
//!
//! Sums are cumulative, so that a message that is lost loses no counts.
//!
//! # Source
//!
//! <https://opentelemetry.io/docs/specs/otlp/>, "OTLP/HTTP"; the messages are those of `opentelemetry-proto`.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

use crate::families::{FamilyKind, MetricFamily, MetricSample};
use crate::hub::Hub;
use crate::snapshot::Snapshot;

/// The path that the protocol adds to an address.
const PATH: &str = "/v1/metrics";

/// For how long a collector may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest answer that is read, in bytes.
const LONGEST_ANSWER: usize = 1 << 16;

/// Sends snapshots to one collector.
#[derive(Debug)]
pub struct OtlpSender {
    client: Client<HttpConnector, Full<Bytes>>,
    address: Uri,
    started: SystemTime,
}

impl OtlpSender {
    /// A sender to a collector, by the address that `OTEL_EXPORTER_OTLP_ENDPOINT` would have.
    ///
    /// # Errors
    ///
    /// An address that is none of HTTP, in words.
    pub fn new(url: &str) -> Result<OtlpSender, String> {
        let address = collector_address(url)?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        Ok(OtlpSender { client, address, started: SystemTime::now() })
    }

    /// Sends one snapshot.
    ///
    /// # Errors
    ///
    /// The reason in words, with the address.
    pub async fn send(&self, snapshot: &Snapshot) -> Result<(), String> {
        let wrong = |reason: String| format!("cannot send to {}: {reason}", self.address);
        let body = message(snapshot, self.started).encode_to_vec();
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.address)
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| wrong(error.to_string()))?;
        let exchange = async {
            let answer = self.client.request(request).await.map_err(|error| wrong(chain(&error)))?;
            let status = answer.status();
            let _ = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
            if status.is_success() { Ok(()) } else { Err(wrong(format!("it answered {status}"))) }
        };
        let late = |_| wrong(format!("no answer within {} s", TIMEOUT.as_secs()));
        tokio::time::timeout(TIMEOUT, exchange).await.map_err(late)?
    }
}

/// The address that messages are sent to.
///
/// # Errors
///
/// An address that is none of HTTP, or that has a password, in words.
pub fn collector_address(url: &str) -> Result<Uri, String> {
    // The URL is not repeated: messages get into logs.
    if url.contains('@') {
        return Err("--otlp: the URL has a user or a password, which would not be sent: \
            leave out everything from // to @"
            .to_owned());
    }
    let base = url.trim_end_matches('/');
    let whole = if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") };
    let address: Uri = whole.parse().map_err(|error| format!("--otlp: '{url}' is no URL: {error}"))?;
    match address.scheme_str() {
        Some("http") if address.host().is_some() => Ok(address),
        Some("https") => {
            Err(format!("--otlp: '{url}': TLS is not supported; send to a collector on this machine"))
        }
        _ => Err(format!("--otlp: '{url}' is no URL such as http://127.0.0.1:4318")),
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Sends a snapshot at each interval. The first failure of a row and the next success are reported on
/// standard error.
pub async fn run(sender: OtlpSender, hub: Hub, interval: Duration) {
    let mut beat = tokio::time::interval(interval);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut fails = false;
    loop {
        beat.tick().await;
        let result = match hub.snapshot().await {
            Ok(snapshot) => sender.send(&snapshot).await,
            Err(reason) => Err(reason.to_string()),
        };
        if fails != result.is_err() {
            fails = !fails;
            let text = result.err().unwrap_or_else(|| format!("sending to {} again", sender.address));
            let _ = writeln!(std::io::stderr(), "cyclometer-exporter: {text}");
        }
    }
}

/// A snapshot as a message; sums began when `started`.
pub fn message(snapshot: &Snapshot, started: SystemTime) -> ExportMetricsServiceRequest {
    let times = PointTimes { start: nanos(started), now: nanos(snapshot.wall) };
    let families = snapshot.families.iter().filter(|family| !family.samples.is_empty());
    let scope = InstrumentationScope {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let metrics = families.map(|family| metric(family, times)).collect();
    let resource = Resource {
        attributes: vec![
            attribute("service.name", "cyclometer-exporter"),
            attribute("host.name", &host_name()),
        ],
        ..Resource::default()
    };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        }],
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

#[derive(Clone, Copy)]
struct PointTimes {
    start: u64,
    now: u64,
}

fn nanos(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

fn metric(family: &MetricFamily, times: PointTimes) -> Metric {
    let data_points = family.samples.iter().map(|sample| point(sample, times)).collect();
    let data = match family.kind {
        FamilyKind::Counter => metric::Data::Sum(Sum {
            data_points,
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
            is_monotonic: true,
        }),
        FamilyKind::Gauge | FamilyKind::Info => metric::Data::Gauge(Gauge { data_points }),
    };
    let suffix = if family.kind == FamilyKind::Info { "_info" } else { "" };
    Metric {
        name: format!("{}{suffix}", family.name),
        description: family.help.to_owned(),
        unit: unit(family.unit).to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

/// The unit in UCUM, which the data model asks for.
fn unit(name: Option<&str>) -> &'static str {
    match name {
        Some("seconds") => "s",
        Some("joules") => "J",
        Some("bytes") => "By",
        _ => "1",
    }
}

fn point(sample: &MetricSample, times: PointTimes) -> NumberDataPoint {
    NumberDataPoint {
        attributes: sample.labels().map(|(name, value)| attribute(name, value)).collect(),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        value: Some(Value::AsDouble(sample.value)),
        ..NumberDataPoint::default()
    }
}

fn attribute(name: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: name.to_owned(), value: Some(value) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::time::Instant;

    fn snapshot() -> Snapshot {
        let mut events =
            MetricFamily::new("cyclometer_time_seconds", FamilyKind::Counter, Some("seconds"), "Time.");
        let target = Arc::new(vec![("cgroup", "/a\"\n".to_owned())]);
        events.samples.push(MetricSample { target, own: vec![("event", "task-clock".into())], value: 1.25 });
        let mut targets = MetricFamily::new("targets", FamilyKind::Gauge, None, "Targets.");
        targets.push(Vec::new(), 2.0);
        Snapshot::new(Instant::now(), vec![events, targets])
    }

    /// A receiver that takes one message and answers with a status.
    fn receiver(status: &'static str) -> (String, std::thread::JoinHandle<(String, Vec<u8>)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
            loop {
                let read = stream.read(&mut buffer).unwrap();
                bytes.extend_from_slice(&buffer[..read]);
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                let body = &bytes[end + 4..];
                if body.len() == length.trim().parse::<usize>().unwrap() {
                    stream
                        .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes())
                        .unwrap();
                    return (head, body.to_vec());
                }
            }
        });
        (address, thread)
    }

    fn sent(address: &str) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { OtlpSender::new(address).unwrap().send(&snapshot()).await })
    }

    #[test]
    fn a_receiver_gets_the_same_values_and_labels() {
        let (address, thread) = receiver("200 OK");
        sent(&address).unwrap();
        let (head, body) = thread.join().unwrap();
        assert!(head.starts_with("post /v1/metrics http/1.1"), "{head}");
        let got = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap();
        let metrics = &got.resource_metrics[0].scope_metrics[0].metrics;
        assert_eq!((metrics[0].name.as_str(), metrics[0].unit.as_str()), ("cyclometer_time_seconds", "s"));
        let Some(metric::Data::Sum(sum)) = &metrics[0].data else { panic!("{metrics:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
        let point = &sum.data_points[0];
        assert_eq!(point.value, Some(Value::AsDouble(1.25)));
        assert_eq!(point.attributes, [attribute("cgroup", "/a\"\n"), attribute("event", "task-clock")]);
        assert!(point.start_time_unix_nano <= point.time_unix_nano);
        assert!(matches!(&metrics[1].data, Some(metric::Data::Gauge(gauge)) if gauge.data_points.len() == 1));
    }

    #[test]
    fn a_receiver_that_refuses_or_is_not_there_is_an_error_with_its_address() {
        let (address, thread) = receiver("503 Service Unavailable");
        let error = sent(&address).unwrap_err();
        assert!(error.contains(&address) && error.contains("503"), "{error}");
        thread.join().unwrap();
        assert!(sent(&address).unwrap_err().starts_with("cannot send to http://127.0.0.1:"));
    }

    #[test]
    fn addresses_that_are_not_of_http_are_refused() {
        for url in ["https://collector:4318", "127.0.0.1:4318", "grpc://a", "", "http://"] {
            assert!(OtlpSender::new(url).unwrap_err().starts_with("--otlp: '"), "{url}");
        }
        let secret = OtlpSender::new("http://ali:sesame@a:1").unwrap_err();
        assert!(secret.contains("user or a password") && !secret.contains("sesame"), "{secret}");
        assert_eq!(OtlpSender::new("http://a:1/").unwrap().address, "http://a:1/v1/metrics");
        assert_eq!(OtlpSender::new("http://a:1/v1/metrics").unwrap().address, "http://a:1/v1/metrics");
    }
}
