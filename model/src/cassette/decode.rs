//! Values of the contract out of a cassette, or out of what an author wrote by hand.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{
        self, DeserializeOwned, DeserializeSeed, EnumAccess, Error as _, IntoDeserializer as _, Unexpected,
        VariantAccess, Visitor,
        value::{MapDeserializer, SeqDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::Value;

use super::{SECRET, name};
use crate::digest::Digest;

/// Bulk bytes by digest.
pub type Blobs = BTreeMap<Digest, Vec<u8>>;

/// Why a value is not what the contract says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Reads a value: names as in WIT, `{"bytes": ...}` or `{"text": ...}` for a list of bytes, `{"secret": n}`
/// for a secret, which becomes a text of the same number.
///
/// # Errors
/// The place in the value and what the contract wants there.
pub fn decode<T: DeserializeOwned>(value: Value, blobs: &Blobs) -> Result<T, DecodeError> {
    serde_path_to_error::deserialize(Decoder { value, blobs }).map_err(|error| {
        let path = error.path().to_string();
        let DecodeError(message) = error.into_inner();
        if path == "." { DecodeError(message) } else { DecodeError(format!("{path}: {message}")) }
    })
}

struct Decoder<'a> {
    value: Value,
    blobs: &'a Blobs,
}

impl<'a> Decoder<'a> {
    const fn of(&self, value: Value) -> Decoder<'a> {
        Decoder { value, blobs: self.blobs }
    }

    /// The bytes of a list of bytes; none when it is another list.
    fn bytes(&self) -> Result<Option<Vec<u8>>, DecodeError> {
        let Value::Object(fields) = &self.value else { return Ok(None) };
        if let Some(Value::String(text)) = fields.get("text") {
            return Ok(Some(text.clone().into_bytes()));
        }
        if let Some(Value::String(text)) = fields.get("bytes") {
            return STANDARD
                .decode(text)
                .map(Some)
                .map_err(|error| DecodeError(format!("`bytes` is not base64: {error}; `text` takes plain text")));
        }
        let Some(blob) = fields.get("blob") else { return Ok(None) };
        let digest = Digest::deserialize(blob).map_err(DecodeError::custom)?;
        let found = self.blobs.get(&digest).cloned();
        found.map(Some).ok_or_else(|| DecodeError(format!("the cassette lacks blob {digest}, which a call refers to")))
    }

    fn secret(&self) -> Option<String> {
        self.value.get("secret").map(|number| format!("secret-{number}"))
    }

    fn unexpected(&self) -> Unexpected<'_> {
        match &self.value {
            Value::Null => Unexpected::Option,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Number(_) => Unexpected::Other("a number"),
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        }
    }

    fn float(&self) -> Option<f64> {
        match self.value.as_str()? {
            "nan" => Some(f64::NAN),
            "inf" => Some(f64::INFINITY),
            "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        }
    }
}

impl<'de> Deserializer<'de> for Decoder<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => {
                if let Some(value) = number.as_u64() {
                    visitor.visit_u64(value)
                } else if let Some(value) = number.as_i64() {
                    visitor.visit_i64(value)
                } else {
                    visitor.visit_f64(number.as_f64().unwrap_or_default())
                }
            }
            Value::String(text) => visitor.visit_string(text),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(fields) => {
                let blobs = self.blobs;
                let pairs = fields.into_iter().map(|(key, value)| (key, Decoder { value, blobs }));
                visitor.visit_map(MapDeserializer::new(pairs))
            }
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.float() {
            Some(value) => visitor.visit_f64(value),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.secret().filter(|_| name == SECRET) {
            Some(text) => visitor.visit_newtype_struct(self.of(Value::String(text))),
            None => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if let Some(bytes) = self.bytes()? {
            return visitor.visit_seq(SeqDeserializer::new(bytes.into_iter()));
        }
        let blobs = self.blobs;
        match self.value {
            Value::Array(items) => {
                visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(|value| Decoder { value, blobs })))
            }
            _ => Err(DecodeError::invalid_type(self.unexpected(), &visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let blobs = self.blobs;
        if let Some(text) = self.secret().filter(|_| name == SECRET) {
            let pairs = fields.iter().map(|field| (*field, Decoder { value: Value::String(text.clone()), blobs }));
            return visitor.visit_map(MapDeserializer::new(pairs));
        }
        let Value::Object(given) = self.value else {
            return Err(DecodeError::invalid_type(self.unexpected(), &visitor));
        };
        let mut pairs = Vec::with_capacity(given.len());
        for (key, value) in given {
            pairs.push((known(&key, fields, "field")?, Decoder { value, blobs }));
        }
        visitor.visit_map(MapDeserializer::new(pairs.into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let blobs = self.blobs;
        let (case, payload) = match self.value {
            Value::String(case) => (case, None),
            Value::Object(fields) if fields.len() == 1 => match fields.into_iter().next() {
                Some((case, payload)) => (case, Some(payload)),
                None => return Err(DecodeError(format!("expected one of {}", all(variants)))),
            },
            _ => return Err(DecodeError(format!("expected one of {}", all(variants)))),
        };
        let case = known(&case, variants, "case")?;
        visitor.visit_enum(Case { case, payload: payload.map(|value| Decoder { value, blobs }) })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 char str string bytes byte_buf unit unit_struct tuple_struct map
        identifier ignored_any
    }
}

impl<'de> de::IntoDeserializer<'de, DecodeError> for Decoder<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The Rust name of what was written in WIT's form.
fn known(written: &str, names: &'static [&'static str], what: &str) -> Result<&'static str, DecodeError> {
    let found = names.iter().find(|candidate| name::is_wit(written, candidate));
    found.copied().ok_or_else(|| DecodeError(format!("there is no {what} `{written}`; there is {}", all(names))))
}

fn all(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|known| format!("`{}`", name::wit(known))).collect();
    names.join(", ")
}

/// One case of a variant.
struct Case<'a> {
    case: &'static str,
    payload: Option<Decoder<'a>>,
}

impl<'de, 'a> EnumAccess<'de> for Case<'a> {
    type Error = DecodeError;
    type Variant = Payload<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Payload<'a>), DecodeError> {
        let case: StrDeserializer<'static, DecodeError> = self.case.into_deserializer();
        Ok((seed.deserialize(case)?, Payload { case: self.case, payload: self.payload }))
    }
}

struct Payload<'a> {
    case: &'static str,
    payload: Option<Decoder<'a>>,
}

impl<'a> Payload<'a> {
    fn present(self) -> Result<Decoder<'a>, DecodeError> {
        let case = name::wit(self.case);
        self.payload.ok_or_else(|| DecodeError(format!("case `{case}` has a value; write {{\"{case}\": ...}}")))
    }
}

impl<'de> VariantAccess<'de> for Payload<'_> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        match self.payload {
            Some(payload) if !payload.value.is_null() => {
                Err(DecodeError(format!("case `{}` has no value", name::wit(self.case))))
            }
            _ => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DecodeError> {
        // `ok` of a result without a value may be written without one.
        match self.payload {
            Some(payload) => seed.deserialize(payload),
            None if self.case == "Ok" => seed.deserialize(Decoder { value: Value::Null, blobs: &Blobs::new() }),
            None => self.present().and_then(|payload| seed.deserialize(payload)),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, DecodeError> {
        self.present()?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.present()?.deserialize_struct("", fields, visitor)
    }
}
