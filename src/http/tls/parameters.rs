//! Versions, cipher suites and curves, under the names of Go.

use std::fmt;
use std::str::FromStr;

use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{NamedGroup, ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion};

/// The minimum version of TLS (`--tls-min-version`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2. An empty flag and the values for older versions select it too.
    #[default]
    V12,
    /// TLS 1.3.
    V13,
}

impl TlsVersion {
    /// Returns this version and those after it.
    pub(super) fn and_newer(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::V12 => vec![&TLS13, &TLS12],
            Self::V13 => vec![&TLS13],
        }
    }
}

/// An error for an unknown version of TLS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown tls version {0:?}")]
pub struct UnknownTlsVersion(String);

impl FromStr for TlsVersion {
    type Err = UnknownTlsVersion;

    fn from_str(name: &str) -> Result<Self, UnknownTlsVersion> {
        match name {
            "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => Ok(Self::V12),
            "VersionTLS13" => Ok(Self::V13),
            _ => Err(UnknownTlsVersion(name.to_owned())),
        }
    }
}

/// A cipher suite (`--tls-cipher-suites`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CipherSuite(SupportedCipherSuite);

impl CipherSuite {
    fn all() -> impl Iterator<Item = Self> {
        ring::ALL_CIPHER_SUITES.iter().copied().map(Self)
    }
}

impl fmt::Display for CipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.suite().as_str().unwrap_or_default();
        f.write_str(&name.replacen("TLS13_", "TLS_", 1))
    }
}

impl FromStr for CipherSuite {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        // The names that Go had for these suites first.
        let full = match name.strip_suffix("_CHACHA20_POLY1305") {
            Some(start) => format!("{start}_CHACHA20_POLY1305_SHA256"),
            None => name.to_owned(),
        };
        Self::all().find(|suite| suite.to_string() == full).ok_or_else(|| {
            format!(
                "Cipher suite {name} not supported or doesn't exist; supported: {}",
                list(Self::all())
            )
        })
    }
}

/// A curve for the key exchange (`--tls-curve-preferences`), given by its number in TLS.
#[derive(Debug, Clone, Copy)]
pub struct Curve(&'static dyn SupportedKxGroup);

impl Curve {
    fn all() -> impl Iterator<Item = Self> {
        ring::ALL_KX_GROUPS.iter().copied().map(Self)
    }

    fn number(self) -> u16 {
        self.0.name().into()
    }
}

impl PartialEq for Curve {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0.name() {
            NamedGroup::secp256r1 => "CurveP256",
            NamedGroup::secp384r1 => "CurveP384",
            NamedGroup::X25519 => "X25519",
            _ => "unknown",
        };
        write!(f, "{} ({name})", self.number())
    }
}

impl FromStr for Curve {
    type Err = String;

    fn from_str(number: &str) -> Result<Self, String> {
        Self::all().find(|curve| number.trim().parse() == Ok(curve.number())).ok_or_else(|| {
            format!(
                "Curve {number} not supported or doesn't exist; supported: {}",
                list(Self::all())
            )
        })
    }
}

fn list<T: fmt::Display>(all: impl Iterator<Item = T>) -> String {
    all.map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns the cryptography with these cipher suites and curves; none given stands for all. As in
/// Go, the suites of TLS 1.3 cannot be left out.
pub(super) fn provider(suites: &[CipherSuite], curves: &[Curve]) -> CryptoProvider {
    let mut provider = ring::default_provider();
    if !suites.is_empty() {
        provider.cipher_suites.retain(|suite| {
            suite.version().version == ProtocolVersion::TLSv1_3
                || suites.contains(&CipherSuite(*suite))
        });
    }
    if !curves.is_empty() {
        provider.kx_groups.retain(|group| curves.contains(&Curve(*group)));
    }
    provider
}
