//! Values that have parts, written part by part.

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};
use serde_json::Error;

use super::Encoder;

/// A list, tuple, map, record or variant that is being written.
pub(in crate::cassette) struct Compound<'e, 'a> {
    encoder: &'e mut Encoder<'a>,
    first: bool,
    start: usize,
    /// A list of bytes is noticed at its first element.
    may_be_bytes: bool,
    secret: bool,
    close: &'static [u8],
}

impl<'e, 'a> Compound<'e, 'a> {
    /// Something between two brackets.
    pub(super) fn open(encoder: &'e mut Encoder<'a>, open: u8, close: &'static [u8]) -> Self {
        let start = encoder.text.len();
        encoder.text.push(open);
        Self { encoder, first: true, start, may_be_bytes: false, secret: false, close }
    }

    /// A list, which may turn out to be one of bytes.
    pub(super) fn list(encoder: &'e mut Encoder<'a>) -> Self {
        Self { may_be_bytes: true, ..Self::open(encoder, b'[', b"]") }
    }

    /// A record, which may be a secret.
    pub(super) fn record(encoder: &'e mut Encoder<'a>, secret: bool) -> Self {
        Self { secret, ..Self::open(encoder, b'{', b"}") }
    }

    fn separate(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.encoder.text.push(b',');
        }
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if self.encoder.bytes.is_some() && self.may_be_bytes {
            return value.serialize(&mut *self.encoder);
        }
        let first = self.first;
        self.separate();
        let begin = self.encoder.text.len();
        value.serialize(&mut *self.encoder)?;
        if let (true, true, Some((position, byte))) = (first, self.may_be_bytes, self.encoder.last_byte)
            && position == begin
        {
            self.encoder.text.truncate(begin);
            self.encoder.bytes = Some(vec![byte]);
        } else {
            self.may_be_bytes = false;
        }
        Ok(())
    }

    fn field<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), Error> {
        self.separate();
        self.encoder.name(key);
        self.encoder.text.push(b':');
        value.serialize(&mut *self.encoder)
    }

    fn close(self) -> Result<(), Error> {
        if self.may_be_bytes
            && let Some(bytes) = self.encoder.bytes.take()
        {
            self.encoder.text.truncate(self.start);
            return self.encoder.put_bytes(&bytes);
        }
        self.encoder.text.extend_from_slice(self.close);
        if self.secret { self.encoder.put_secret(self.start) } else { Ok(()) }
    }
}

impl SerializeSeq for Compound<'_, '_> {
    type Error = Error;
    type Ok = ();

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

impl SerializeTuple for Compound<'_, '_> {
    type Error = Error;
    type Ok = ();

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

impl SerializeTupleStruct for Compound<'_, '_> {
    type Error = Error;
    type Ok = ();

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

impl SerializeTupleVariant for Compound<'_, '_> {
    type Error = Error;
    type Ok = ();

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

impl SerializeMap for Compound<'_, '_> {
    type Error = Error;
    type Ok = ();

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.separate();
        key.serialize(&mut *self.encoder)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.encoder.text.push(b':');
        value.serialize(&mut *self.encoder)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

impl SerializeStruct for Compound<'_, '_> {
    type Error = Error;
    type Ok = ();

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        self.field(key, value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

impl SerializeStructVariant for Compound<'_, '_> {
    type Error = Error;
    type Ok = ();

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        self.field(key, value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}
