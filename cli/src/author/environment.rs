//! What of the environment reaches a build. All else is cleared: a variable that only one machine has
//! must not change what is built.

use std::ffi::OsString;

/// Names that are kept: where programs and their own files are, and how people want to be spoken to.
const NAMES: [&str; 20] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "CARGO_BUILD_JOBS",
    "LD_LIBRARY_PATH",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "SOURCE_DATE_EPOCH",
];

/// Starts of names that are kept: how sources are fetched, and how cargo talks.
const STARTS: [&str; 7] = [
    "CARGO_NET_",
    "CARGO_HTTP_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_SOURCE_",
    "CARGO_TERM_",
    "RUSTUP_DIST_",
];

/// The variables that a build sees.
pub(super) fn kept() -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept)).collect()
}

fn is_kept(name: &str) -> bool {
    NAMES.contains(&name) || STARTS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_change_a_build_does_not_reach_it() {
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_RUSTFLAGS",
            "CARGO_PROFILE_STEP_OPT_LEVEL",
            "CARGO_TARGET_WASM32_WASIP2_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_INCREMENTAL",
            "RUSTC",
            "RUSTC_BOOTSTRAP",
            "RUSTC_WRAPPER",
            "RUSTUP_TOOLCHAIN",
            "USER",
            "HOSTNAME",
        ] {
            assert!(!is_kept(name), "{name}");
        }
        assert!(is_kept("PATH") && is_kept("CARGO_NET_OFFLINE") && is_kept("CARGO_REGISTRIES_TEAM_TOKEN"));
    }
}
