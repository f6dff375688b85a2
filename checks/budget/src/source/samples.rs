//! The samples of a Prometheus vector, read one after another: only what counts is kept of each.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The mark on the parts of the probe's answer that are not about the freshness metric.
pub(super) const MARK: &str = "budget_check_probe";

/// How many samples an answer may have.
const MOST: usize = 20_000;

/// One sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// The value of the account label, unless that is empty.
    pub(super) namespace: Option<Arc<str>>,
    /// The mark that the query gives to a part of its result.
    pub(super) mark: Option<Box<str>>,
    pub(super) value: f64,
}

/// The samples in `body`: an answer whose result is a vector. The namespace is in `label`.
pub(super) fn read(body: &[u8], label: &str) -> Result<Vec<Sample>, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let result = Field("result", Samples(label));
    let samples = Field("data", result).deserialize(&mut json)?;
    Ok(samples.flatten().unwrap_or_default())
}

/// A list of at most so many elements.
pub(super) fn at_most<'de, const MOST: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(List::<MOST, PhantomData<T>>(PhantomData))
}

/// A list of at most so many elements, each read by the seed.
struct List<const MOST: usize, S>(S);

impl<'de, const MOST: usize, S: DeserializeSeed<'de> + Copy> Visitor<'de> for List<MOST, S> {
    type Value = Vec<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = list.next_element_seed(self.0)? {
            if all.len() >= MOST {
                return Err(A::Error::custom(format_args!(
                    "it has a list of more than {MOST} elements"
                )));
            }
            all.push(element);
        }
        Ok(all)
    }
}

/// The value of one field of an object. The others are skipped.
struct Field<S>(&'static str, S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Field<S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Field<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the field {}", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut seed, mut found) = (Some(self.1), None);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match seed.take_if(|_| key == self.0) {
                Some(seed) => found = Some(map.next_value_seed(seed)?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// All samples; the namespace is in this label.
struct Samples<'l>(&'l str);

impl<'de> DeserializeSeed<'de> for Samples<'_> {
    type Value = Vec<Sample>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(List::<MOST, _>(Element(self.0)))
    }
}

#[derive(Clone, Copy)]
struct Element<'l>(&'l str);

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = Sample;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Sample, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = Sample;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sample with metric and value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sample, A::Error> {
        let (mut sample, mut value) = (Sample::default(), None);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "metric" => sample = map.next_value_seed(Labels(self.0))?,
                "value" => {
                    let (_, text) = map.next_value::<(f64, Cow<'de, str>)>()?;
                    let number = text.parse::<f64>();
                    let number = number
                        .map_err(|_| A::Error::custom(format_args!("`{text}` is no number")))?;
                    value = Some(number);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let value = value.ok_or_else(|| A::Error::missing_field("value"))?;
        Ok(Sample { value, ..sample })
    }
}

/// The labels that count, as a sample without a value.
struct Labels<'l>(&'l str);

impl<'de> DeserializeSeed<'de> for Labels<'_> {
    type Value = Sample;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Sample, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Labels<'_> {
    type Value = Sample;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sample, A::Error> {
        let mut sample = Sample::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == self.0 {
                let name = map.next_value::<Cow<'de, str>>()?;
                sample.namespace = (!name.is_empty()).then(|| name.into());
            } else if key == MARK {
                sample.mark = Some(map.next_value::<Cow<'de, str>>()?.into());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(sample)
    }
}
