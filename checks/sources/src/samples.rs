//! Readers for the samples of a Prometheus vector, with the requested labels or with all.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The maximum number of samples in a response.
const MOST: usize = 20_000;

/// A sample of a vector, with the values of the requested labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<const LABELS: usize> {
    /// The values of the labels, in the requested order. An empty value is `None`.
    pub labels: [Option<Arc<str>>; LABELS],
    /// The value, which may be no number.
    pub value: f64,
}

/// A sample of a vector, with all its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct LabeledSample {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The value, which may be no number.
    pub value: f64,
}

/// Reads at most `most` samples with all their labels from `body`, a response with a vector.
pub(crate) fn read_all(body: &[u8], most: usize) -> Result<Vec<LabeledSample>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Body {
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        #[serde(deserialize_with = "at_most::<MOST, _, _>")]
        result: Vec<Labeled>,
    }
    #[derive(Deserialize)]
    struct Labeled {
        #[serde(default)]
        metric: BTreeMap<String, String>,
        value: (f64, String),
    }
    let samples = serde_json::from_slice::<Body>(body)?.data.result;
    if samples.len() > most {
        let problem = format!(
            "it has {} samples, and at most {most} are read",
            samples.len()
        );
        return Err(serde_json::Error::custom(problem));
    }
    let read = |sample: Labeled| {
        let value = sample.value.1.parse().map_err(serde_json::Error::custom)?;
        let labels = sample.metric;
        Ok(LabeledSample { labels, value })
    };
    samples.into_iter().map(read).collect()
}

/// Reads the samples, with the values of `labels`, from `body`, a response with a vector.
pub(crate) fn read<const LABELS: usize>(
    body: &[u8],
    labels: [&str; LABELS],
) -> Result<Vec<Sample<LABELS>>, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let result = Field("result", Samples(labels));
    let samples = Field("data", result).deserialize(&mut json)?;
    Ok(samples.flatten().unwrap_or_default())
}

/// Deserializes a list of at most `MOST` elements, for `deserialize_with`.
///
/// # Errors
/// It has more, or is not a list.
pub fn at_most<'de, const MOST: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(List::<MOST, PhantomData<T>>(PhantomData))
}

/// A list of at most `MOST` elements, each read by the seed.
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

/// All samples, with the values of these labels.
struct Samples<'l, const LABELS: usize>([&'l str; LABELS]);

impl<'de, const LABELS: usize> DeserializeSeed<'de> for Samples<'_, LABELS> {
    type Value = Vec<Sample<LABELS>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(List::<MOST, _>(Element(self.0)))
    }
}

#[derive(Clone, Copy)]
struct Element<'l, const LABELS: usize>([&'l str; LABELS]);

impl<'de, const LABELS: usize> DeserializeSeed<'de> for Element<'_, LABELS> {
    type Value = Sample<LABELS>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const LABELS: usize> Visitor<'de> for Element<'_, LABELS> {
    type Value = Sample<LABELS>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sample with metric and value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut labels, mut value) = ([const { None }; LABELS], None);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "metric" => labels = map.next_value_seed(Labels(self.0))?,
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
        Ok(Sample { labels, value })
    }
}

/// The values of these labels.
struct Labels<'l, const LABELS: usize>([&'l str; LABELS]);

impl<'de, const LABELS: usize> DeserializeSeed<'de> for Labels<'_, LABELS> {
    type Value = [Option<Arc<str>>; LABELS];

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const LABELS: usize> Visitor<'de> for Labels<'_, LABELS> {
    type Value = [Option<Arc<str>>; LABELS];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = [const { None }; LABELS];
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if let Some(place) = self.0.iter().position(|label| key == *label) {
                let value = map.next_value::<Cow<'de, str>>()?;
                values[place] = (!value.is_empty()).then(|| value.into());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(samples: &str) -> String {
        format!(
            r#"{{"status": "success", "data": {{"resultType": "vector", "result": {samples}}}}}"#
        )
    }

    #[test]
    fn samples_have_the_requested_labels() {
        let text = body(
            r#"[{"metric": {"job": "a", "team": "", "other": "x"}, "value": [1, "2.5"]},
                {"metric": {"team": "nlp"}, "value": [1, "NaN"], "histogram": []}]"#,
        );
        let samples = read(text.as_bytes(), ["team", "job"]).unwrap();
        assert_eq!(samples[0].labels, [None, Some("a".into())]);
        assert_eq!(samples[1].labels, [Some("nlp".into()), None]);
        assert!(samples[0].value.to_string() == "2.5" && samples[1].value.is_nan());
        assert_eq!(read(text.as_bytes(), []).unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_vector_or_too_long_is_rejected() {
        let long = format!(
            "[{}0]",
            r#"{"metric": {}, "value": [1, "1"]},"#.repeat(MOST + 1)
        );
        for (samples, part) in [
            (
                r#"[{"metric": {}, "value": [1, "many"]}]"#,
                "`many` is no number",
            ),
            (r#"[{"metric": {}}]"#, "missing field `value`"),
            ("[7]", "a sample with metric and value"),
            (&long, "more than 20000 elements"),
        ] {
            let error = read(body(samples).as_bytes(), ["team"]).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
