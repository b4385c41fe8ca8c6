//! What the form of a policy bundle alone cannot say.

use std::collections::BTreeMap;

use super::{CommandProfile, PolicyBundle, Retries, ValueRule};
use crate::{
    credential::CredentialType,
    violation::{Violation, Violations},
};

impl PolicyBundle {
    /// Checks what the form alone cannot say.
    ///
    /// # Errors
    /// All broken rules, each with its place.
    pub fn check(&self) -> Result<(), Violations> {
        let mut found = Vec::new();
        for (index, profile) in self.profiles.iter().enumerate() {
            self.check_profile(&format!("/profiles/{index}"), profile, &mut found);
            if self.profiles.iter().take(index).any(|earlier| earlier.id == profile.id) {
                found.push(Violation::new(
                    format!("/profiles/{index}/id"),
                    format!("a profile `{}` exists already; ids are unique", profile.id),
                ));
            }
        }
        for (index, rule) in self.hardware_profiles.iter().enumerate() {
            for (kind, id) in &rule.overrides {
                if self.profile(id.as_str()).is_none() {
                    found.push(Violation::new(
                        format!("/hardware_profiles/{index}/overrides/{kind}"),
                        format!("there is no profile `{id}` in this bundle"),
                    ));
                }
            }
        }
        for (name, path) in &self.roots {
            if path.split('/').any(|part| part == "..") || path.is_empty() {
                found.push(Violation::new(
                    format!("/roots/{name}"),
                    "a root is an absolute path or one below the host's files directory, without `..`",
                ));
            }
        }
        self.egress.check("/egress", &mut found);
        self.limits.check("/limits", &mut found);
        Violations::check(found)
    }

    fn check_profile(&self, pointer: &str, profile: &CommandProfile, found: &mut Vec<Violation>) {
        let mut wrong =
            |field: &str, message: String| found.push(Violation::new(format!("{pointer}/{field}"), message));
        if !profile.command.starts_with('/') {
            wrong("command", format!("`{}` is not absolute; a profile names one fixed executable", profile.command));
        }
        let name = profile.command.rsplit('/').next().unwrap_or_default();
        if starts_programs(name) {
            wrong(
                "command",
                format!("`{}` is a shell or starts other programs; name the program itself", profile.command),
            );
        }
        if interprets(name) {
            check_interpreter(profile, &mut wrong);
        }
        if let Some(retries) = &profile.retries {
            check_retries(retries, &mut wrong);
        }
        if profile.sha256.as_ref().is_some_and(|text| text.len() != 64 || hex::decode(text).is_err()) {
            wrong("sha256", "write 64 hexadecimal digits".to_owned());
        }
        if !(1..=86_400).contains(&profile.timeout_seconds) {
            wrong("timeout_seconds", "write 1 to 86400".to_owned());
        }
        if profile.capture_limit_bytes > 1_048_576 {
            wrong("capture_limit_bytes", "at most 1048576".to_owned());
        }
        for (index, rule) in profile.arg_schema.iter().flatten().enumerate() {
            match &rule.value {
                ValueRule::Enumeration(values) if values.is_empty() => {
                    wrong(&format!("arg_schema/{index}/value"), "an enumeration names at least one value".to_owned())
                }
                ValueRule::Integer { minimum, maximum } if minimum > maximum => {
                    wrong(&format!("arg_schema/{index}/value"), "minimum is above maximum".to_owned())
                }
                ValueRule::Integer { minimum, .. } if *minimum < 0 && rule.option.is_none() => wrong(
                    &format!("arg_schema/{index}/option"),
                    "a number below zero starts with `-` and would be read as an option; name the option it belongs to"
                        .to_owned(),
                ),
                ValueRule::Pattern(pattern) => {
                    if let Err(error) = crate::command::compile(pattern) {
                        wrong(&format!("arg_schema/{index}/value"), error);
                    }
                }
                ValueRule::Path { root, .. } if !self.roots.contains_key(root) => wrong(
                    &format!("arg_schema/{index}/value/path/root"),
                    format!("there is no root `{root}` in this bundle"),
                ),
                ValueRule::Credential { .. } if rule.option.is_some() => wrong(
                    &format!("arg_schema/{index}/option"),
                    "a credential is no argument; leave `option` out".to_owned(),
                ),
                ValueRule::Credential { credential_type, variables } => {
                    if let Some(problem) = check_variables(profile, *credential_type, variables) {
                        wrong(&format!("arg_schema/{index}/value/credential/variables"), problem);
                    }
                }
                ValueRule::Enumeration(_) | ValueRule::Integer { .. } | ValueRule::Path { .. } => {}
            }
        }
    }
}

/// Whether an executable of this name is a shell, or exists to start other programs.
#[must_use]
pub fn starts_programs(name: &str) -> bool {
    const NAMES: [&str; 25] = [
        "ash", "bash", "busybox", "csh", "dash", "doas", "env", "fish", "ksh", "mksh", "nohup", "nsenter", "pkexec",
        "rbash", "runuser", "script", "setpriv", "setsid", "sh", "su", "sudo", "tcsh", "unshare", "xargs", "zsh",
    ];
    NAMES.contains(&name)
}

/// Whether an executable of this name runs program text: `python3.11`, `perl`.
fn interprets(name: &str) -> bool {
    const NAMES: [&str; 12] =
        ["awk", "gawk", "julia", "lua", "mawk", "node", "perl", "php", "python", "ruby", "tclsh", "Rscript"];
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    NAMES.contains(&stem)
}

/// An interpreter runs one fixed file, and no text of its command line.
fn check_interpreter(profile: &CommandProfile, wrong: &mut impl FnMut(&str, String)) {
    let takes_text = |argument: &String| {
        let short = argument.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        short.is_some_and(|rest| rest.is_empty() || rest.contains(['c', 'e', 'E', 'r', 'p']))
            || ["--eval", "--exec", "--command", "--print", "--run"].iter().any(|option| argument.starts_with(option))
    };
    let script = profile.allowed_args.iter().find(|argument| !argument.starts_with('-'));
    if let Some(argument) = profile.allowed_args.iter().find(|argument| takes_text(argument)) {
        wrong(
            "allowed_args",
            format!("`{argument}` lets `{}` run text of its command line; name a script file", profile.command),
        );
    } else if script.is_none_or(|script| !script.starts_with('/')) {
        wrong(
            "allowed_args",
            format!("`{}` runs whatever it is given; write the absolute path of its script first", profile.command),
        );
    }
}

/// Variables that a credential reaches a program in: named here alone, and of parts that there are.
fn check_variables(
    profile: &CommandProfile,
    credential_type: CredentialType,
    variables: &BTreeMap<String, String>,
) -> Option<String> {
    if variables.is_empty() {
        return Some("name the variable that the credential reaches the program in, like `TOKEN: token`".to_owned());
    }
    variables.iter().find_map(|(name, part)| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(plain) || name.starts_with("LD_") {
            return Some(format!("`{name}` is no variable for a credential; write letters, digits and `_`"));
        }
        if profile.environment.contains_key(name) || profile.env_passthrough.contains(name) {
            return Some(format!("`{name}` has a value already; name another variable"));
        }
        let parts = credential_type.parts();
        let known = parts.contains(&part.as_str());
        (!known).then(|| format!("a credential of type {credential_type} has no `{part}`; it has {}", parts.join(", ")))
    })
}

fn check_retries(retries: &Retries, wrong: &mut impl FnMut(&str, String)) {
    if !(2..=10).contains(&retries.attempts) {
        wrong("retries/attempts", "write 2 to 10, or leave `retries` out".to_owned());
    }
    if retries.backoff_milliseconds > 60_000 {
        wrong("retries/backoff_milliseconds", "at most 60000".to_owned());
    }
    if retries.exit_codes.is_empty() && !retries.timed_out && !retries.signaled {
        wrong("retries", "name the exit codes, or `timed_out` or `signaled`, that are worth another start".to_owned());
    }
}
