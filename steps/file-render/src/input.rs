//! What is rendered, and where it goes.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is rendered, and where it goes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// A Jinja template. It sees `values` and nothing else; a variable that is not there is an error.
    pub(crate) template: String,
    /// What the template's variables are.
    #[serde(default)]
    pub(crate) values: Map<String, Value>,
    /// The file: `root/relative/path`.
    pub(crate) path: String,
    /// Permission bits in octal.
    #[serde(default)]
    pub(crate) mode: Mode,
    /// The owner, as a number: a step cannot look names up, so could not tell whether one holds. The
    /// host's own when left out, and then not looked at.
    pub(crate) owner: Option<u32>,
    /// The group, as a number.
    pub(crate) group: Option<u32>,
}

/// The file as it is now.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Where it is: `root/relative/path`.
    pub(crate) path: String,
    /// `sha256:<hex>` of its content.
    pub(crate) digest: String,
    /// Bytes.
    pub(crate) size: u64,
}

/// Permission bits, in JSON an octal text: `"0644"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Mode(pub(crate) u32);

impl Default for Mode {
    fn default() -> Self {
        Self(0o644)
    }
}

impl TryFrom<String> for Mode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix('0').filter(|rest| rest.len() == 3).unwrap_or(&text);
        if digits.len() == 3 && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
            return u32::from_str_radix(digits, 8).map(Self).map_err(|error| error.to_string());
        }
        Err(format!(
            "`{text}` is not a mode; write three octal digits, like \"0644\": set-user-id and the like are refused"
        ))
    }
}

impl JsonSchema for Mode {
    fn schema_name() -> Cow<'static, str> {
        "Mode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^0?[0-7]{3}$", "default": "0644" })
    }
}
