//! Certificates of a fleet: its own authority, and the server's certificate. The only door to the
//! library that generates them.

use std::time::Duration;

use ostler_core::event::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// How long the certificates are valid: ten years.
const VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// How far clocks may differ.
const SKEW: Duration = Duration::from_secs(24 * 3600);

/// Certificates and keys, as PEM.
pub(super) struct Certificates {
    /// Certificate of the authority, which every member needs.
    pub(super) authority: String,
    /// Certificate of the server.
    pub(super) server: String,
    /// Key of the server.
    pub(super) server_key: String,
}

/// Certificates that cannot be generated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot generate certificates: {0}")]
pub struct CertificateError(String);

impl From<rcgen::Error> for CertificateError {
    fn from(error: rcgen::Error) -> Self {
        Self(error.to_string())
    }
}

/// Generates an authority, and a certificate for a server with these names and addresses. The key
/// of the authority is dropped, so that it cannot sign another one.
pub(super) fn generate(hosts: &[String], now: Timestamp) -> Result<Certificates, CertificateError> {
    let seconds = u64::try_from(now.0 / 1000).unwrap_or(0);
    let since_epoch = Duration::from_secs(seconds);
    let from = date_time_ymd(1970, 1, 1) + since_epoch.saturating_sub(SKEW);
    let until = date_time_ymd(1970, 1, 1) + since_epoch.saturating_add(VALIDITY);

    let authority_key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "Ostler fleet");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = (from, until);
    let authority = params.self_signed(&authority_key)?;
    let issuer = Issuer::new(params, authority_key);

    let server_key = KeyPair::generate()?;
    let mut names = hosts.to_vec();
    for local in ["localhost", "127.0.0.1", "::1"] {
        if !names.iter().any(|name| name == local) {
            names.push(local.to_owned());
        }
    }
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "Ostler fleet server");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = (from, until);
    let server = params.signed_by(&server_key, &issuer)?;
    Ok(Certificates {
        authority: authority.pem(),
        server: server.pem(),
        server_key: server_key.serialize_pem(),
    })
}
