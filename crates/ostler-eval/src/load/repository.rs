//! Addresses of repositories: which schemes and hosts a case may name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address that a case may not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not one of the accepted schemes, such as Git's `ext::`, which runs a command.
    #[error("the scheme is not allowed; use https:, ssh:, file: or a path")]
    Scheme,
    /// It would be taken for an option.
    #[error("an address must not begin with `-`")]
    Option,
    /// It has no host.
    #[error("the address has no host")]
    NoHost,
    /// The host is an address of this machine or of a private network.
    #[error(
        "the host is this machine or in a private network; allow it with --allow-private-hosts"
    )]
    PrivateHost,
}

/// What an address refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// A server.
    Remote,
    /// A path on this machine.
    Local,
}

/// Checks the address of a repository. Names are not resolved: a name that points into a private
/// network passes.
///
/// # Errors
/// The scheme is not allowed, or the host is private and `allow_private` is false.
pub fn check_address(address: &str, allow_private: bool) -> Result<Address, AddressError> {
    if address.starts_with('-') {
        return Err(AddressError::Option);
    }
    if address.contains("::") && !address.contains("://") {
        return Err(AddressError::Scheme);
    }
    let Some((scheme, rest)) = address.split_once("://") else {
        return match scp_host(address) {
            Some(host) => check_host(host, allow_private),
            None => Ok(Address::Local),
        };
    };
    match scheme.to_ascii_lowercase().as_str() {
        "file" => Ok(Address::Local),
        "https" | "http" | "ssh" => {
            let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
            let host = authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host);
            check_host(without_port(host), allow_private)
        }
        _ => Err(AddressError::Scheme),
    }
}

/// The host of `user@host:path`, or `None` for a plain path.
fn scp_host(address: &str) -> Option<&str> {
    let (before, _) = address.split_once(':')?;
    let is_host = !before.contains(['/', '\\']) && before.len() > 1;
    is_host.then(|| before.rsplit_once('@').map_or(before, |(_, host)| host))
}

fn without_port(host: &str) -> &str {
    if let Some(bracketed) = host.strip_prefix('[') {
        return bracketed.split(']').next().unwrap_or_default();
    }
    host.split(':').next().unwrap_or_default()
}

fn check_host(host: &str, allow_private: bool) -> Result<Address, AddressError> {
    if host.starts_with('-') {
        return Err(AddressError::Option);
    }
    if host.is_empty() {
        return Err(AddressError::NoHost);
    }
    if !allow_private && is_private(host) {
        return Err(AddressError::PrivateHost);
    }
    Ok(Address::Remote)
}

fn is_private(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    if host == "localhost" || host.ends_with(".localhost") {
        return true;
    }
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => is_private_v4(address),
        Ok(IpAddr::V6(address)) => is_private_v6(address),
        // Forms such as 2130706433, 0x7f.1 or 127.1, which resolvers take for addresses.
        Err(_) => host.split('.').all(is_numeric_label),
    }
}

fn is_numeric_label(label: &str) -> bool {
    let hex = label.strip_prefix("0x");
    hex.is_some_and(|hex| hex.chars().all(|c| c.is_ascii_hexdigit()))
        || !label.is_empty() && label.chars().all(|c| c.is_ascii_digit())
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || first == 0
        || (first == 100 && (64..128).contains(&second))
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let [first, ..] = address.segments();
    address.is_loopback()
        || address.is_unspecified()
        || first & 0xfe00 == 0xfc00
        || first & 0xffc0 == 0xfe80
        || address.to_ipv4().is_some_and(is_private_v4)
}
