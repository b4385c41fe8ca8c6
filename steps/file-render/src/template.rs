//! Renders a template within limits.

use std::io::{self, Write};

use fettle_step::{Failure, files};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use serde_json::{Map, Value};

/// Instructions of the template engine: some hundred thousand lines of output.
const FUEL: u64 = 5_000_000;

/// Renders `template` with `values`.
pub(crate) fn render(template: &str, values: &Map<String, Value>) -> Result<String, Failure> {
    let mut output = Limited::default();
    let result = render_to(&mut output, template, values);
    match result {
        Ok(()) => String::from_utf8(output.content).map_err(|error| {
            Failure::permanent("template.not-text", format!("the template made no UTF-8 text: {error}"))
        }),
        Err(_) if output.overflowed => Err(Failure::invalid_input(
            "template.output-too-large",
            format!("the template renders to more than {} bytes; render less, or several files", files::CONTENT_LIMIT),
        )),
        Err(error) => Err(explain(&error)),
    }
}

fn render_to(output: &mut Limited, template: &str, values: &Map<String, Value>) -> Result<(), Error> {
    let environment = environment()?;
    let parsed = environment.template_from_named_str("template", template)?;
    parsed.render_captured_to(minijinja::Value::from(Serde(values)), output)?;
    Ok(())
}

/// No escaping, no loader, nothing undefined; lines that hold only a tag leave nothing behind.
fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).trim_blocks(true).lstrip_blocks(true).build()?;
    environment.set_syntax(syntax);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_debug(true);
    environment.set_fuel(Some(FUEL));
    Ok(environment)
}

fn explain(error: &Error) -> Failure {
    let place = error.line().map(|line| format!(" at line {line}")).unwrap_or_default();
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    let kind = error.kind();
    if kind == ErrorKind::UndefinedError {
        let named = expression(error).map(|text| format!(" in `{text}`")).unwrap_or_default();
        return Failure::invalid_input(
            "template.undefined-variable",
            format!("the template uses a variable that is not in `values`{place}{named}{detail}; add it to `values`"),
        );
    }
    if kind == ErrorKind::OutOfFuel {
        return Failure::invalid_input(
            "template.too-long",
            format!("the template works for too long{place}; shorten its loops"),
        );
    }
    let code = if kind == ErrorKind::SyntaxError { "template.syntax" } else { "template.failed" };
    Failure::invalid_input(code, format!("the template cannot be rendered{place}: {kind}{detail}"))
}

/// The part of the template that an error is about.
fn expression(error: &Error) -> Option<&str> {
    error.template_source()?.get(error.range()?)
}

/// Keeps what is written, as long as it fits a file that `files.write` takes.
#[derive(Default)]
struct Limited {
    content: Vec<u8>,
    overflowed: bool,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.content.len() + bytes.len()) as u64 > files::CONTENT_LIMIT {
            self.overflowed = true;
            return Err(io::Error::other("too large"));
        }
        self.content.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fettle_step::FailureClass;
    use serde_json::json;

    use super::*;

    fn with(template: &str, values: &Value) -> Result<String, Failure> {
        render(template, values.as_object().unwrap())
    }

    #[test]
    fn templates_see_their_values() {
        for (template, values, expected) in [
            ("port = {{ port }}\n", json!({"port": 80}), "port = 80\n"),
            ("<{{ a.b }}>", json!({"a": {"b": "<&>"}}), "<<&>>"),
            ("{% for n in names %}\n- {{ n }}\n{% endfor %}\nend", json!({"names": ["x", "y"]}), "- x\n- y\nend"),
            ("{{ a | tojson }}", json!({"a": {"z": 1, "b": [true, null]}}), r#"{"b": [true, null], "z": 1}"#),
            ("{{ a | default('none') }}", json!({}), "none"),
            ("{% if a is defined %}yes{% else %}no{% endif %}", json!({}), "no"),
        ] {
            assert_eq!(with(template, &values).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let long = "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}";
        let large = "{% for a in range(20000) %}".to_owned() + &"x".repeat(100) + "{% endfor %}";
        for (template, code, part) in [
            ("a\n{{ host }}\n", "template.undefined-variable", "at line 2 in `host`"),
            ("{{ a.missing.deeper }}", "template.undefined-variable", "missing"),
            ("a\n\n{% if %}", "template.syntax", "at line 3"),
            ("{% include 'other' %}", "template.syntax", "include"),
            ("{{ a | nothing }}", "template.failed", "nothing"),
            (long, "template.too-long", "works for too long"),
            (&large, "template.output-too-large", "1048576 bytes"),
        ] {
            let failure = with(template, &json!({"a": {}})).unwrap_err();
            assert_eq!((failure.class, failure.code.as_str()), (FailureClass::InvalidInput, code), "{failure}");
            assert!(failure.message.contains(part), "{failure}");
        }
    }
}
