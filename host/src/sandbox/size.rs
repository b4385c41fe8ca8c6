//! How many bytes a value of the contract carries: its text, its bytes, its numbers as wide as they are.

use serde::{
    Serialize,
    ser::{self, Serializer},
};

/// Bytes of a value; a nested value counts with all that is in it.
pub(super) fn of(value: &impl Serialize) -> u64 {
    let mut size = Size(0);
    // Nothing here fails, and a value that refuses to be serialised carries what was counted so far.
    let _ = value.serialize(&mut size);
    size.0
}

struct Size(u64);

/// What serde wants an error for.
#[derive(Debug, thiserror::Error)]
#[error("a value refuses to be counted")]
struct Refused;

impl ser::Error for Refused {
    fn custom<T: std::fmt::Display>(_message: T) -> Self {
        Self
    }
}

type Counted = Result<(), Refused>;

impl Size {
    const fn add(&mut self, bytes: usize) -> Counted {
        self.0 = self.0.saturating_add(bytes as u64);
        Ok(())
    }
}

macro_rules! fixed {
    ($($function:ident: $type:ty),* $(,)?) => {
        $(fn $function(self, _value: $type) -> Counted {
            self.add(size_of::<$type>())
        })*
    };
}

impl<'a> Serializer for &'a mut Size {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fixed! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_f32: f32, serialize_f64: f64, serialize_char: char,
    }

    fn serialize_str(self, value: &str) -> Counted {
        self.add(value.len())
    }

    fn serialize_bytes(self, value: &[u8]) -> Counted {
        self.add(value.len())
    }

    fn serialize_none(self) -> Counted {
        self.add(1)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Counted {
        self.add(1)?;
        value.serialize(self)
    }

    fn serialize_unit(self) -> Counted {
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Counted {
        Ok(())
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, _variant: &'static str) -> Counted {
        self.add(1)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Counted {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        value: &T,
    ) -> Counted {
        self.add(1)?;
        value.serialize(self)
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<&'a mut Size, Refused> {
        Ok(self)
    }

    fn serialize_tuple(self, _length: usize) -> Result<&'a mut Size, Refused> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _name: &'static str, _length: usize) -> Result<&'a mut Size, Refused> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<&'a mut Size, Refused> {
        Ok(self)
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<&'a mut Size, Refused> {
        Ok(self)
    }

    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<&'a mut Size, Refused> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<&'a mut Size, Refused> {
        Ok(self)
    }
}

macro_rules! parts {
    ($($trait:ident: $function:ident $(($name:ty))?),* $(,)?) => {
        $(impl ser::$trait for &mut Size {
            type Ok = ();
            type Error = Refused;

            fn $function<T: Serialize + ?Sized>(&mut self, $(_name: $name,)? value: &T) -> Counted {
                value.serialize(&mut **self)
            }

            fn end(self) -> Counted {
                Ok(())
            }
        })*
    };
}

parts! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
    SerializeStruct: serialize_field(&'static str),
    SerializeStructVariant: serialize_field(&'static str),
}

impl ser::SerializeMap for &mut Size {
    type Ok = ();
    type Error = Refused;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Counted {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Counted {
        value.serialize(&mut **self)
    }

    fn end(self) -> Counted {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[derive(serde::Serialize)]
    struct Record<'a> {
        name: &'a str,
        content: Vec<u8>,
        size: Option<u64>,
    }

    #[test]
    fn everything_in_a_value_is_counted() {
        let record = Record { name: "four", content: vec![0; 1000], size: Some(7) };
        assert_eq!(of(&record), 4 + 1000 + 1 + 8);
        assert_eq!(of(&vec![&record, &record]), 2 * 1013);
        assert_eq!(of(&(&"abc", &Some(Err::<(), _>("de")))), 3 + 1 + 1 + 2);
        assert_eq!(of(&std::collections::BTreeMap::from([("key", "value")])), 8);
    }
}
