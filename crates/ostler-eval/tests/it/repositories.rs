//! Addresses of repositories: which schemes and hosts are accepted.

use ostler_eval::load::{Address, AddressError, check_address};

// Catalogue 31: private addresses are ranges, not prefixes of texts.
#[test]
fn private_addresses_are_refused() {
    for host in [
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "127.0.0.1",
        "127.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "172.20.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "169.254.169.254",
        "[::1]",
        "[fe80::1]",
        "[fd00::1]",
        "[::ffff:10.0.0.1]",
        "2130706433",
        "0x7f000001",
        "100.64.0.1",
        "user:pass@127.0.0.1:8080",
    ] {
        for address in [format!("https://{host}/x.git"), format!("http://{host}/x")] {
            let found = check_address(&address, false);
            assert_eq!(found, Err(AddressError::PrivateHost), "{address}");
            assert_eq!(
                check_address(&address, true),
                Ok(Address::Remote),
                "{address}"
            );
        }
    }
    assert_eq!(
        check_address("git@127.0.0.1:x.git", false),
        Err(AddressError::PrivateHost)
    );
}

#[test]
fn public_addresses_are_accepted() {
    for address in [
        "https://git.example.org/x.git",
        "https://172.15.0.1/x",
        "https://172.32.0.1/x",
        "https://172.160.0.1/x",
        "https://10.example.org/x",
        "ssh://git@example.org:22/x",
        "git@example.org:team/x.git",
        "https://user@example.org/x@127.0.0.1",
    ] {
        assert_eq!(
            check_address(address, false),
            Ok(Address::Remote),
            "{address}"
        );
    }
}

#[test]
fn schemes_that_run_commands_are_refused() {
    for address in [
        "ext::sh -c whoami",
        "fd::17",
        "git://example.org/x",
        "ftp://example.org/x",
    ] {
        assert_eq!(
            check_address(address, true),
            Err(AddressError::Scheme),
            "{address}"
        );
    }
    assert_eq!(
        check_address("--upload-pack=x", true),
        Err(AddressError::Option)
    );
    assert_eq!(check_address("https:///x", true), Err(AddressError::NoHost));
    assert_eq!(
        check_address("ssh://-oProxyCommand=x/y", true),
        Err(AddressError::Option)
    );
    for path in ["./x", "../x", "/srv/x.git", "x", "file:///srv/x"] {
        assert_eq!(check_address(path, false), Ok(Address::Local), "{path}");
    }
}
