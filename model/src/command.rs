//! From a command profile and a step's arguments to an argument vector. Nothing is interpolated.

use std::collections::BTreeMap;

use regex::Regex;

use crate::credential::CredentialType;
use crate::policy::{ArgumentRule, CommandProfile, PathPassing, ValueRule};

/// One element of the argument vector that the host builds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Passed as it is.
    Literal(String),
    /// `root/below/it`, which the host resolves.
    Path {
        /// The path.
        path: String,
        /// What the program gets for it.
        pass: PathPassing,
    },
    /// A handle of a credential, which is passed in the environment and not as an argument.
    Credential {
        /// What it must be.
        credential_type: CredentialType,
        /// What the step gave.
        handle: String,
        /// Which variable gets which part of it.
        variables: BTreeMap<String, String>,
    },
}

/// Why arguments do not fit a profile; the text names the argument, the rule and what it allows.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentError(String);

/// Compiles a profile's pattern so that it must match the whole value.
///
/// # Errors
/// What is wrong with the pattern, as a sentence.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    regex::RegexBuilder::new(&format!(r"\A(?:{pattern})\z"))
        .size_limit(1 << 20)
        .build()
        .map_err(|_| format!("`{pattern}` is not a regular expression that can be used here"))
}

/// The arguments after the program's name: the fixed ones, then the given ones in the profile's order.
///
/// # Errors
/// When an argument is missing, unknown, given twice, or breaks its rule.
pub fn arguments(profile: &CommandProfile, given: &[(String, String)]) -> Result<Vec<Argument>, ArgumentError> {
    let rules = profile.arg_schema.as_deref().unwrap_or_default();
    for (index, (name, _)) in given.iter().enumerate() {
        if !rules.iter().any(|rule| rule.name.as_str() == name) {
            let names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
            let allowed =
                if names.is_empty() { "it takes none".to_owned() } else { format!("it takes {}", names.join(", ")) };
            return Err(ArgumentError(format!("profile `{}` has no argument `{name}`; {allowed}", profile.id)));
        }
        if given.iter().take(index).any(|(earlier, _)| earlier == name) {
            return Err(ArgumentError(format!("argument `{name}` of profile `{}` is given twice", profile.id)));
        }
    }
    let mut vector: Vec<Argument> = profile.allowed_args.iter().cloned().map(Argument::Literal).collect();
    for rule in rules {
        match given.iter().find(|(name, _)| name == rule.name.as_str()) {
            Some((_, value)) => {
                let value = checked(profile, rule, value)?;
                vector.extend(rule.option.clone().map(Argument::Literal));
                vector.push(value);
            }
            None if rule.required => {
                return Err(ArgumentError(format!(
                    "profile `{}` needs argument `{}`: {}",
                    profile.id,
                    rule.name,
                    describe(&rule.value)
                )));
            }
            None => {}
        }
    }
    Ok(vector)
}

fn checked(profile: &CommandProfile, rule: &ArgumentRule, value: &str) -> Result<Argument, ArgumentError> {
    let fits = match &rule.value {
        ValueRule::Enumeration(values) => values.contains(value),
        ValueRule::Integer { minimum, maximum } => value
            .parse::<i64>()
            .is_ok_and(|number| (minimum..=maximum).contains(&&number) && number.to_string() == value),
        ValueRule::Pattern(pattern) => {
            !value.starts_with('-')
                && !value.contains('\0')
                && compile(pattern).is_ok_and(|regex| regex.is_match(value))
        }
        ValueRule::Path { root, .. } => is_path_below(value, root.as_str()),
        // Whether it is a handle is the host's to say.
        ValueRule::Credential { .. } => true,
    };
    if !fits {
        return Err(ArgumentError(format!(
            "argument `{}` of profile `{}` does not take `{}`: {}",
            rule.name,
            profile.id,
            value.chars().take(100).collect::<String>(),
            describe(&rule.value)
        )));
    }
    Ok(match &rule.value {
        ValueRule::Path { pass, .. } => Argument::Path { path: value.to_owned(), pass: *pass },
        ValueRule::Credential { credential_type, variables } => Argument::Credential {
            credential_type: *credential_type,
            handle: value.to_owned(),
            variables: variables.clone(),
        },
        ValueRule::Enumeration(_) | ValueRule::Integer { .. } | ValueRule::Pattern(_) => {
            Argument::Literal(value.to_owned())
        }
    })
}

fn is_path_below(value: &str, root: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    value
        .strip_prefix(root)
        .is_some_and(|rest| rest.is_empty() || (rest.starts_with('/') && rest.split('/').skip(1).all(plain)))
}

fn describe(rule: &ValueRule) -> String {
    match rule {
        ValueRule::Enumeration(values) => format!("one of {}", values.iter().cloned().collect::<Vec<_>>().join(", ")),
        ValueRule::Integer { minimum, maximum } => format!("an integer from {minimum} to {maximum}"),
        ValueRule::Pattern(pattern) => format!("a value that matches `{pattern}` and does not start with `-`"),
        ValueRule::Credential { credential_type, .. } => {
            format!("the handle of a credential of type {credential_type}")
        }
        ValueRule::Path { root, .. } => format!("a path below root `{root}`, like `{root}/name`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> CommandProfile {
        crate::document::read(
            "id: tool
command: /usr/bin/tool
allowed_args: [--quiet]
arg_schema:
  - { name: mode, value: { enumeration: [fast, slow] } }
  - { name: count, option: --count, required: false, value: { integer: { minimum: 1, maximum: 9 } } }
  - { name: tag, required: false, value: { pattern: '[a-z-]+' } }
  - { name: file, required: false, value: { path: { root: models } } }
",
        )
        .unwrap()
    }

    fn run(given: &[(&str, &str)]) -> Result<Vec<Argument>, String> {
        let given: Vec<_> = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        arguments(&profile(), &given).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_come_in_the_profiles_order() {
        let literal = |text: &str| Argument::Literal(text.to_owned());
        assert_eq!(
            run(&[("file", "models/a/b"), ("count", "3"), ("mode", "fast")]),
            Ok(vec![
                literal("--quiet"),
                literal("fast"),
                literal("--count"),
                literal("3"),
                Argument::Path { path: "models/a/b".to_owned(), pass: PathPassing::Descriptor }
            ])
        );
    }

    #[test]
    fn what_breaks_a_rule_is_refused_with_the_rule() {
        for (given, expected) in [
            (&[][..], "needs argument `mode`: one of fast, slow"),
            (&[("mode", "odd")], "does not take `odd`: one of fast, slow"),
            (&[("mode", "fast"), ("count", "10")], "an integer from 1 to 9"),
            (&[("mode", "fast"), ("count", "+3")], "an integer from 1 to 9"),
            (&[("mode", "fast"), ("count", "03")], "an integer from 1 to 9"),
            (&[("mode", "fast"), ("tag", "-rf")], "does not start with `-`"),
            (&[("mode", "fast"), ("tag", "a;b")], "does not take `a;b`"),
            (&[("mode", "fast"), ("tag", "a\nb")], "does not take"),
            (&[("mode", "fast"), ("file", "models/../etc")], "a path below root `models`"),
            (&[("mode", "fast"), ("file", "/etc/passwd")], "a path below root `models`"),
            (&[("mode", "fast"), ("file", "models-old/a")], "a path below root `models`"),
            (&[("mode", "fast"), ("shell", "x")], "has no argument `shell`; it takes mode, count, tag, file"),
            (&[("mode", "fast"), ("mode", "slow")], "is given twice"),
        ] {
            let error = run(given).unwrap_err();
            assert!(error.contains(expected), "{given:?}: {error}");
        }
    }
}
