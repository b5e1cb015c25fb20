//! The file of `--tracing-config-file`, as the API server and the kubelet have it.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

/// Versions of the document.
const API_VERSIONS: [&str; 3] = [
    "apiserver.config.k8s.io/v1",
    "apiserver.config.k8s.io/v1beta1",
    "apiserver.config.k8s.io/v1alpha1",
];
const KIND: &str = "TracingConfiguration";
/// The endpoint of a collector on this host.
const DEFAULT_ENDPOINT: &str = "localhost:4317";
/// The highest sampling rate: every pod.
const MILLION: i64 = 1_000_000;

/// Where spans go, and which pods are traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracingConfiguration {
    /// Host and port of a collector that takes OTLP over gRPC without TLS.
    pub endpoint: String,
    /// Number of pods of a million that are traced.
    pub sampling_rate_per_million: u32,
}

/// A reason for which there are no traces.
#[derive(Debug, Error)]
pub enum TracingError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// The document is not valid.
    #[error("{0}")]
    Invalid(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    kind: String,
    endpoint: Option<String>,
    sampling_rate_per_million: Option<i64>,
}

impl TracingConfiguration {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not valid.
    pub fn read(path: &Path) -> Result<Self, TracingError> {
        let bytes = std::fs::read(path)
            .map_err(|error| TracingError::Read { path: path.to_owned(), error })?;
        let text = yaml::text_of(bytes).map_err(|error| error.to_string());
        let parsed = text.and_then(|text| Self::parse(&text));
        parsed.map_err(|message| TracingError::Invalid(format!("{}: {message}", path.display())))
    }

    /// Parses a document. The texts about fields are the texts of Kubernetes.
    ///
    /// # Errors
    /// Field and reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document: Document = yaml::decode(text)?;
        if !API_VERSIONS.contains(&document.api_version.as_str()) || document.kind != KIND {
            let (version, kind) = (document.api_version, document.kind);
            let expected = API_VERSIONS[0];
            return Err(format!(
                "apiVersion and kind are {version:?} and {kind:?}, not {expected:?} and {KIND:?}"
            ));
        }
        Ok(Self {
            endpoint: endpoint(document.endpoint.as_deref().unwrap_or(DEFAULT_ENDPOINT))?,
            sampling_rate_per_million: rate(document.sampling_rate_per_million.unwrap_or(0))?,
        })
    }
}

fn rate(rate: i64) -> Result<u32, String> {
    let wrong = match rate {
        ..0 => "sampling rate must be positive",
        0..=MILLION => return Ok(u32::try_from(rate).unwrap_or_default()),
        _ => "sampling rate per million must be less than or equal to one million",
    };
    Err(format!("samplingRatePerMillion: Invalid value: {rate}: {wrong}"))
}

/// Returns host and port of an endpoint.
fn endpoint(text: &str) -> Result<String, String> {
    let invalid = |why: &str| format!("endpoint: Invalid value: {text:?}: {why}");
    let address = match text.split_once("//") {
        None => text,
        // The authority in `dns://AUTHORITY/HOST:PORT` is a DNS server, and usually empty.
        Some(("dns:", rest)) => rest.split_once('/').map_or(rest, |(_, address)| address),
        Some(("unix:" | "unix-abstract:", _)) => return Err(invalid("unix sockets are not built")),
        Some((scheme, _)) => {
            return Err(invalid(&format!(
                "unsupported scheme: {}.  Options are none, dns, unix, or unix-abstract.  See \
                 https://github.com/grpc/grpc/blob/master/doc/naming.md",
                scheme.trim_end_matches(':')
            )));
        }
    };
    match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(address.to_owned())
        }
        _ => Err(invalid("host and port are missing, as in localhost:4317")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &str) -> Result<TracingConfiguration, String> {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";
        TracingConfiguration::parse(&format!("{head}{fields}"))
    }

    #[test]
    fn fields_have_the_defaults_of_kubernetes() {
        let own = |endpoint: &str, sampling_rate_per_million| {
            Ok(TracingConfiguration { endpoint: endpoint.to_owned(), sampling_rate_per_million })
        };
        assert_eq!(parse(""), own("localhost:4317", 0));
        let text = "endpoint: otel.monitoring:4317\nsamplingRatePerMillion: 100\n";
        assert_eq!(parse(text), own("otel.monitoring:4317", 100));
        assert_eq!(parse("endpoint: dns:///otel:4317"), own("otel:4317", 0));
        assert_eq!(parse("endpoint: \"[::1]:4317\""), own("[::1]:4317", 0));
    }

    #[test]
    fn invalid_fields_have_the_texts_of_kubernetes() {
        let rows = [
            (
                "samplingRatePerMillion: -1",
                "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
            ),
            (
                "samplingRatePerMillion: 1000001",
                "samplingRatePerMillion: Invalid value: 1000001: sampling rate per million must be \
                 less than or equal to one million",
            ),
            (
                "endpoint: http://otel:4318",
                "endpoint: Invalid value: \"http://otel:4318\": unsupported scheme: http.  Options \
                 are none, dns, unix, or unix-abstract.  See \
                 https://github.com/grpc/grpc/blob/master/doc/naming.md",
            ),
            (
                "endpoint: unix:///run/otel",
                "endpoint: Invalid value: \"unix:///run/otel\": unix sockets are not built",
            ),
            (
                "endpoint: otel",
                "endpoint: Invalid value: \"otel\": host and port are missing, as in localhost:4317",
            ),
        ];
        for (fields, expected) in rows {
            assert_eq!(parse(fields).unwrap_err(), expected);
        }
        let error = parse("samplingRate: 1").unwrap_err();
        assert!(error.contains("unknown field `samplingRate`"), "{error}");
        let error = TracingConfiguration::parse("apiVersion: v1\nkind: Pod\n").unwrap_err();
        assert!(error.starts_with("apiVersion and kind are \"v1\" and \"Pod\", not "), "{error}");
    }
}
