//! Values of the contract as JSON text, straight into the recording: names as in WIT, lists of bytes as
//! base64 or as the digest of what is kept beside the calls, secrets as numbers.

mod compound;

use std::{collections::BTreeMap, fmt::Display, io::Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::Error;

use self::compound::Compound;
use super::{INLINE_BYTES, SECRET, name};
use crate::digest::Digest;

/// What calls refer to instead of containing it.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// Bulk bytes, once each.
    pub(super) blobs: BTreeMap<Digest, Vec<u8>>,
    /// Their sum.
    pub(super) blob_bytes: usize,
    /// Secrets in the order in which they were met.
    secrets: Vec<Vec<u8>>,
}

/// Writes one value.
pub(super) struct Encoder<'a> {
    pub(super) text: &'a mut Vec<u8>,
    pub(super) side: &'a mut Side,
    /// The bytes of the list that is being written, when it is one of bytes.
    bytes: Option<Vec<u8>>,
    /// Where the last number that is a byte begins in `text`, and the byte.
    last_byte: Option<(usize, u8)>,
}

impl<'a> Encoder<'a> {
    pub(super) const fn new(text: &'a mut Vec<u8>, side: &'a mut Side) -> Self {
        Self { text, side, bytes: None, last_byte: None }
    }

    fn display(&mut self, value: impl Display) -> Result<(), Error> {
        write!(self.text, "{value}").map_err(Error::custom)
    }

    fn float(&mut self, value: f64, shown: impl Display) -> Result<(), Error> {
        if value.is_nan() {
            self.text.extend_from_slice(b"\"nan\"");
            Ok(())
        } else if value.is_infinite() {
            self.text.extend_from_slice(if value > 0.0 { b"\"inf\"" } else { b"\"-inf\"" });
            Ok(())
        } else {
            self.display(shown)
        }
    }

    fn name(&mut self, rust: &str) {
        self.text.push(b'"');
        name::push_wit(self.text, rust);
        self.text.push(b'"');
    }

    fn open_variant(&mut self, variant: &str) {
        self.text.push(b'{');
        self.name(variant);
        self.text.push(b':');
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() <= INLINE_BYTES {
            return self.display(format_args!("{{\"bytes\":\"{}\"}}", STANDARD.encode(bytes)));
        }
        let digest = Digest::of(bytes);
        if !self.side.blobs.contains_key(&digest) {
            self.side.blob_bytes += bytes.len();
            self.side.blobs.insert(digest, bytes.to_vec());
        }
        self.display(format_args!("{{\"blob\":\"{digest}\",\"size\":{}}}", bytes.len()))
    }

    /// Replaces what was written from `start` on by the number of the secret that it is.
    fn put_secret(&mut self, start: usize) -> Result<(), Error> {
        let written = self.text.split_off(start);
        let known = self.side.secrets.iter().position(|secret| *secret == written);
        let number = known.unwrap_or_else(|| {
            self.side.secrets.push(written);
            self.side.secrets.len() - 1
        });
        self.display(format_args!("{{\"secret\":{}}}", number + 1))
    }
}

impl<'e, 'a> Serializer for &'e mut Encoder<'a> {
    type Error = Error;
    type Ok = ();
    type SerializeMap = Compound<'e, 'a>;
    type SerializeSeq = Compound<'e, 'a>;
    type SerializeStruct = Compound<'e, 'a>;
    type SerializeStructVariant = Compound<'e, 'a>;
    type SerializeTuple = Compound<'e, 'a>;
    type SerializeTupleStruct = Compound<'e, 'a>;
    type SerializeTupleVariant = Compound<'e, 'a>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.display(value)
    }

    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.display(value)
    }

    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.display(value)
    }

    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.display(value)
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.display(value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        if let Some(bytes) = &mut self.bytes {
            bytes.push(value);
            return Ok(());
        }
        self.last_byte = Some((self.text.len(), value));
        self.display(value)
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.display(value)
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.display(value)
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.display(value)
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.float(value.into(), value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.float(value, value)
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        serde_json::to_writer(&mut *self.text, value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.put_bytes(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.text.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result<(), Error> {
        self.name(variant);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<(), Error> {
        let start = self.text.len();
        value.serialize(&mut *self)?;
        if name == SECRET { self.put_secret(start) } else { Ok(()) }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.open_variant(variant);
        value.serialize(&mut *self)?;
        self.text.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Self::SerializeSeq, Error> {
        Ok(Compound::list(self))
    }

    fn serialize_tuple(self, _length: usize) -> Result<Self::SerializeTuple, Error> {
        Ok(Compound::open(self, b'[', b"]"))
    }

    fn serialize_tuple_struct(self, _name: &'static str, _length: usize) -> Result<Self::SerializeTupleStruct, Error> {
        Ok(Compound::open(self, b'[', b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        self.open_variant(variant);
        Ok(Compound::open(self, b'[', b"]}"))
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Self::SerializeMap, Error> {
        Ok(Compound::open(self, b'{', b"}"))
    }

    fn serialize_struct(self, name: &'static str, _length: usize) -> Result<Self::SerializeStruct, Error> {
        Ok(Compound::record(self, name == SECRET))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        self.open_variant(variant);
        Ok(Compound::open(self, b'{', b"}}"))
    }
}
