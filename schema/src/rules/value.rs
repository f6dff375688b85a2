//! JSON as CEL values, without copying: a rule reads objects when it evaluates them.

use std::sync::OnceLock;

use cel::ExecutionError;
use cel::common::traits::{Container, Indexer, Iterable, Iterator, Sizer, Zeroer};
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelNull, CelString, MAP_TYPE, Type as CelType,
};
use cel::common::value::{CowVal, Val};
use serde_json::{Map, Value};

use crate::{Schema, Type};

/// Wraps a value of an object. Numbers are integers unless the schema has another type.
pub(super) fn wrap<'v>(value: &'v Value, schema: Option<&'v Schema>) -> Box<dyn Val + 'v> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(flag) => Box::new(CelBool::from(*flag)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) if schema.is_none_or(|s| s.kind != Type::Number) => {
                Box::new(CelInt::from(whole))
            }
            _ => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(list) => {
            let item = schema.and_then(|s| s.items.as_deref());
            let items: Vec<_> = list.iter().map(|child| wrap(child, item)).collect();
            Box::new(CelList::from(items))
        }
        Value::Object(map) => Box::new(Object {
            map,
            schema,
            keys: OnceLock::new(),
        }),
    }
}

/// A JSON object.
#[derive(Clone, Debug)]
struct Object<'v> {
    map: &'v Map<String, Value>,
    schema: Option<&'v Schema>,
    keys: OnceLock<Vec<CelString<'v>>>,
}

static TYPE: CelType = MAP_TYPE;

impl<'v> Object<'v> {
    fn find(&self, key: &str) -> Option<&'v Value> {
        // A field whose name is not an identifier has an escaped name in CEL.
        self.map.get(key).or_else(|| {
            let fields = self.schema.is_some_and(|s| !s.properties.is_empty());
            let escaped = fields && key.contains("__");
            escaped.then(|| self.map.get(&unescape(key))).flatten()
        })
    }

    fn child(&self, key: &str) -> Option<Box<dyn Val + 'v>> {
        let value = self.find(key)?;
        let below = self
            .schema
            .and_then(|s| s.properties.get(key).or(s.additional.as_ref()));
        Some(wrap(value, below.map(|b| &**b)))
    }
}

/// Returns the field of an escaped name such as `__namespace__` or `a__dash__b`.
fn unescape(name: &str) -> String {
    const RESERVED: [&str; 19] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
    ];
    let inner = name.strip_prefix("__").and_then(|n| n.strip_suffix("__"));
    if let Some(word) = inner.filter(|word| RESERVED.contains(word)) {
        return word.to_owned();
    }
    [
        ("__dot__", "."),
        ("__dash__", "-"),
        ("__slash__", "/"),
        ("__underscores__", "__"),
    ]
    .iter()
    .fold(name.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn no_such_key(key: &dyn Val) -> ExecutionError {
    match key.downcast_ref::<CelString<'_>>() {
        Some(key) => ExecutionError::no_such_key(key.inner()),
        None => ExecutionError::no_such_key(key.get_type().name()),
    }
}

impl Val for Object<'_> {
    fn get_type(&self) -> &CelType {
        &TYPE
    }

    fn cel_type() -> &'static CelType {
        &TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'w>(&'b self) -> Option<&'b (dyn Indexer + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_iterable<'b, 'w>(&'b self) -> Option<&'b (dyn Iterable + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        let size = other.as_sizer().map(|sizer| sizer.size().into_inner());
        let (Some(size), Some(other)) = (size, other.as_indexer()) else {
            return false;
        };
        size == self.size().into_inner()
            && self.map.keys().all(|key| {
                let theirs = other.get(&CelString::from(key.as_str()));
                let ours = self.child(key);
                matches!((ours, theirs), (Some(ours), Ok(theirs)) if ours.equals(&*theirs))
            })
    }

    fn clone_as_boxed<'w>(&self) -> Box<dyn Val + 'w>
    where
        Self: 'w,
    {
        Box::new(self.clone())
    }
}

impl Container for Object<'_> {
    fn contains(&self, key: &dyn Val) -> Result<bool, ExecutionError> {
        let key = key.downcast_ref::<CelString<'_>>();
        Ok(key.is_some_and(|key| self.find(key.inner()).is_some()))
    }
}

impl Indexer for Object<'_> {
    fn get<'b, 'w>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'w>, ExecutionError>
    where
        Self: 'w,
    {
        let name = key.downcast_ref::<CelString<'_>>();
        let child = name.and_then(|name| self.child(name.inner()));
        child.map_or_else(|| Err(no_such_key(key)), |child| Ok(CowVal::Owned(child)))
    }

    fn steal<'w>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'w>, ExecutionError>
    where
        Self: 'w,
    {
        let name = key.downcast_ref::<CelString<'_>>();
        let child = name.and_then(|name| self.child(name.inner()));
        match child {
            Some(child) => Ok(child),
            None => Err(no_such_key(key)),
        }
    }
}

impl Iterable for Object<'_> {
    fn iter<'b, 'w>(&'b self) -> Box<dyn Iterator<'b, 'w> + 'b>
    where
        Self: 'w,
    {
        let keys = self.keys.get_or_init(|| {
            self.map
                .keys()
                .map(|k| CelString::from(k.as_str()))
                .collect()
        });
        Box::new(Keys(keys.iter()))
    }
}

struct Keys<'b, 'v>(std::slice::Iter<'b, CelString<'v>>);

impl<'b, 'v, 'w> Iterator<'b, 'w> for Keys<'b, 'v>
where
    'v: 'w,
{
    fn next(&mut self) -> Option<&'b (dyn Val + 'w)> {
        self.0.next().map(|key| key as &'b (dyn Val + 'w))
    }
}

impl Sizer for Object<'_> {
    fn size(&self) -> CelInt {
        CelInt::from(i64::try_from(self.map.len()).unwrap_or(i64::MAX))
    }
}

impl Zeroer for Object<'_> {
    fn is_zero_value(&self) -> bool {
        self.map.is_empty()
    }
}
