//! A field that cannot fail to decode.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{
    Deserialize, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};

thread_local! {
    // Decoding one object happens on one thread without interruption, so the count is the object's.
    static MALFORMED_FIELDS: Cell<u32> = const { Cell::new(0) };
}

/// `T`, or its default when the value has another shape.
///
/// An API server validates what it stores, but a custom resource's schema changes between versions
/// and objects outlive it. A decoding error in one field would fail the whole list in which the
/// object is (kube-rs#774); this turns it into a default and counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lenient<T>(pub(crate) T);

/// Decodes with `decode`, and returns how many fields were not of the expected shape.
pub(crate) fn counting_malformed_fields<T>(decode: impl FnOnce() -> T) -> (T, u32) {
    let outer = MALFORMED_FIELDS.replace(0);
    let value = decode();
    (value, MALFORMED_FIELDS.replace(outer))
}

fn malformed<T: Default>() -> Lenient<T> {
    MALFORMED_FIELDS.set(MALFORMED_FIELDS.get().saturating_add(1));
    Lenient(T::default())
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientVisitor(PhantomData))
    }
}

struct LenientVisitor<T>(PhantomData<T>);

/// A scalar is consumed whole, so a mismatch leaves nothing behind.
macro_rules! scalar {
    ($($visit:ident: $type:ty),*) => {$(
        fn $visit<E: Error>(self, value: $type) -> Result<Self::Value, E> {
            Ok(T::deserialize(Present::one(IntoDeserializer::<E>::into_deserializer(value))).map_or_else(|_| malformed(), Lenient))
        }
    )*};
}

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for LenientVisitor<T> {
    type Value = Lenient<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    scalar!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str, visit_string: String);

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Lenient(T::default()))
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        if let Ok(value) = T::deserialize(Present::one(MapAccessDeserializer::new(&mut map))) {
            return Ok(Lenient(value));
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(malformed())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        if let Ok(value) = T::deserialize(Present::list(SeqAccessDeserializer::new(&mut seq))) {
            return Ok(Lenient(value));
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(malformed())
    }
}

/// A deserializer whose value is present. Unlike serde's value deserializers it decodes an `Option`
/// as `Some`, and does not accept a list for a struct whose fields are in order.
struct Present<D> {
    value: D,
    is_list: bool,
}

impl<D> Present<D> {
    fn one(value: D) -> Self {
        Self {
            value,
            is_list: false,
        }
    }

    fn list(value: D) -> Self {
        Self {
            value,
            is_list: true,
        }
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Present<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.value.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        if self.is_list {
            return Err(D::Error::custom("a list where a struct belongs"));
        }
        self.value.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    struct Inner {
        #[serde(default)]
        count: Lenient<i32>,
        #[serde(default)]
        name: Lenient<Option<String>>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    struct Outer {
        #[serde(default)]
        inner: Lenient<Inner>,
        #[serde(default)]
        list: Lenient<Vec<Lenient<Inner>>>,
        #[serde(default)]
        map: Lenient<BTreeMap<String, Lenient<String>>>,
        #[serde(default)]
        last: Lenient<bool>,
    }

    fn decode(json: &str) -> (Outer, u32) {
        let (outer, odd) =
            counting_malformed_fields(|| serde_json::from_str::<Lenient<Outer>>(json));
        (outer.unwrap().0, odd)
    }

    #[test]
    fn well_formed_values_are_kept() {
        let (outer, odd) = decode(
            r#"{"inner":{"count":3,"name":"a"},"list":[{"count":1}],"map":{"k":"v"},"last":true}"#,
        );
        assert_eq!(outer.inner.0.count.0, 3);
        assert_eq!(outer.inner.0.name.0.as_deref(), Some("a"));
        assert_eq!(outer.list.0[0].0.count.0, 1);
        assert_eq!(outer.map.0["k"].0, "v");
        assert!(outer.last.0);
        assert_eq!(odd, 0);
    }

    #[test]
    fn each_wrong_shape_becomes_its_default_and_the_rest_is_kept() {
        for (json, expected_odd) in [
            (r#"{"inner":"x","last":true}"#, 1),
            (r#"{"inner":[1,{"a":2}],"last":true}"#, 1),
            (
                r#"{"inner":{"count":"x","name":{"deep":[1,2]}},"last":true}"#,
                2,
            ),
            (r#"{"inner":7.5,"last":true}"#, 1),
            (r#"{"inner":null,"last":true}"#, 0),
            (r#"{"list":{"a":{"b":1}},"last":true}"#, 1),
            (r#"{"list":[1,"x",[],{"count":-1}],"last":true}"#, 3),
            (r#"{"map":[["k","v"]],"last":true}"#, 1),
            (r#"{"map":{"k":["v"],"l":1},"last":true}"#, 2),
            (r#"{"inner":{"count":9999999999999},"last":true}"#, 1),
            (r#"{"unknown":{"inner":[{}]},"last":true}"#, 0),
        ] {
            let (outer, odd) = decode(json);
            assert!(outer.last.0, "{json}: what follows the odd field is lost");
            assert_eq!(odd, expected_odd, "{json}");
        }
    }

    #[test]
    fn json_that_is_not_json_is_an_error() {
        assert!(serde_json::from_str::<Lenient<Outer>>(r#"{"inner":"#).is_err());
    }
}
