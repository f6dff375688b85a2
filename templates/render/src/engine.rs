//! Liquid, with the filters that cargo-generate adds.

use std::collections::BTreeMap;
use std::fmt;

use heck::{
    ToKebabCase, ToLowerCamelCase, ToPascalCase, ToShoutyKebabCase, ToShoutySnakeCase, ToSnakeCase,
    ToTitleCase, ToUpperCamelCase,
};
use liquid_core::parser::{
    Filter, FilterArguments, FilterReflection, ParameterReflection, ParseFilter,
};
use liquid_core::{Runtime, ValueView};

/// The value of a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A boolean.
    Flag(bool),
}

/// The values of all placeholders, by name.
pub type Values = BTreeMap<String, Value>;

/// A template engine for texts.
pub struct Engine {
    parser: liquid::Parser,
    globals: liquid::Object,
}

/// A function that changes the notation of a name.
type Change = fn(&str) -> String;

/// The filters, by name.
const FILTERS: [(&str, Change); 8] = [
    ("kebab_case", |text| text.to_kebab_case()),
    ("lower_camel_case", |text| text.to_lower_camel_case()),
    ("pascal_case", |text| text.to_pascal_case()),
    ("shouty_kebab_case", |text| text.to_shouty_kebab_case()),
    ("shouty_snake_case", |text| text.to_shouty_snake_case()),
    ("snake_case", |text| text.to_snake_case()),
    ("title_case", |text| text.to_title_case()),
    ("upper_camel_case", |text| text.to_upper_camel_case()),
];

impl Engine {
    /// Creates an engine with these values.
    ///
    /// # Errors
    /// Liquid's own; a template cannot cause any.
    pub fn new(values: &Values) -> Result<Self, String> {
        let mut builder = liquid::ParserBuilder::with_stdlib();
        for (name, change) in FILTERS {
            builder = builder.filter(Case { name, change });
        }
        let scalar = |value: &Value| match value {
            Value::Text(text) => liquid::model::Value::scalar(text.clone()),
            Value::Flag(flag) => liquid::model::Value::scalar(*flag),
        };
        Ok(Self {
            parser: builder.build().map_err(|error| error.to_string())?,
            globals: values
                .iter()
                .map(|(name, value)| (name.clone().into(), scalar(value)))
                .collect(),
        })
    }

    /// Renders `text`.
    ///
    /// # Errors
    /// If it is no liquid, or uses an undefined variable. (cargo-generate treats that as an empty
    /// text.)
    pub fn render(&self, text: &str) -> Result<String, String> {
        let template = self.parser.parse(text).map_err(|error| error.to_string())?;
        template
            .render(&self.globals)
            .map_err(|error| error.to_string())
    }
}

/// A filter that changes the notation of a name.
#[derive(Clone, Debug)]
struct Case {
    name: &'static str,
    change: Change,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Filter for Case {
    fn evaluate(
        &self,
        input: &dyn ValueView,
        _: &dyn Runtime,
    ) -> liquid_core::Result<liquid::model::Value> {
        let text = input
            .as_scalar()
            .ok_or_else(|| liquid_core::Error::with_msg("String expected"))?;
        Ok(liquid::model::Value::scalar((self.change)(
            &text.into_string(),
        )))
    }
}

impl ParseFilter for Case {
    fn parse(&self, mut arguments: FilterArguments<'_>) -> liquid_core::Result<Box<dyn Filter>> {
        if arguments.positional.next().is_some() || arguments.keyword.next().is_some() {
            return Err(liquid_core::Error::with_msg(format!(
                "{} takes no arguments",
                self.name
            )));
        }
        Ok(Box::new(self.clone()))
    }

    fn reflection(&self) -> &dyn FilterReflection {
        self
    }
}

impl FilterReflection for Case {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &'static str {
        "writes a name in another way"
    }

    fn positional_parameters(&self) -> &'static [ParameterReflection] {
        &[]
    }

    fn keyword_parameters(&self) -> &'static [ParameterReflection] {
        &[]
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("globals", &self.globals)
            .finish_non_exhaustive()
    }
}
