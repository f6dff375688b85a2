//! The grammar of label selectors, with the parse errors of the real server.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec::IntoIter;

use super::requirement::{Requirement, Test};
use crate::names;

/// A token of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// One of `= == != ! ( ) , > <`.
    Symbol(&'static str),
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<Token> {
    let (mut rest, mut tokens) = (text.trim_start(), Vec::new());
    while !rest.is_empty() {
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
        if let Some(symbol) = symbol {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let ends = |c: char| c.is_whitespace() || "=!(),><".contains(c);
            let end = rest.find(ends).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    tokens
}

/// Parses the requirements of a selector.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser {
        tokens: tokens(text).into_iter().peekable(),
    };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            None => return Ok(requirements),
            Some(Token::Word(_) | Token::Symbol("!")) => {
                let requirement = parser.requirement();
                let requirement =
                    requirement.map_err(|why| format!("unable to parse requirement: {why}"))?;
                requirements.push(requirement);
            }
            Some(_) => return parser.expected(", expected: !, identifier, or 'end of string'"),
        }
        match parser.tokens.next() {
            None => return Ok(requirements),
            Some(Token::Symbol(",")) => {}
            other => return Err(found(other.as_ref(), ", expected: ',' or 'end of string'")),
        }
        if !matches!(parser.peek(), Some(Token::Word(_) | Token::Symbol("!"))) {
            return parser.expected(", expected: identifier after ','");
        }
    }
}

struct Parser {
    tokens: Peekable<IntoIter<Token>>,
}

fn found(token: Option<&Token>, expected: &str) -> String {
    let text = match token {
        None => "",
        Some(Token::Word(word)) => word,
        Some(Token::Symbol(symbol)) => symbol,
    };
    format!("found '{text}'{expected}")
}

impl Parser {
    fn peek(&mut self) -> Option<&Token> {
        self.tokens.peek()
    }

    fn expected<T>(&mut self, expected: &str) -> Result<T, String> {
        Err(found(self.tokens.next().as_ref(), expected))
    }

    fn take(&mut self, symbol: &str) -> bool {
        let there = matches!(self.peek(), Some(Token::Symbol(s)) if *s == symbol);
        if there {
            self.tokens.next();
        }
        there
    }

    /// Returns true if a requirement ends here.
    fn at_end(&mut self) -> bool {
        matches!(self.peek(), None | Some(Token::Symbol(",")))
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let missing = self.take("!");
        let key = match self.tokens.next() {
            Some(Token::Word(key)) => key,
            other => return Err(found(other.as_ref(), ", expected: identifier")),
        };
        check_key(&key)?;
        let test = if missing {
            Test::Missing
        } else if self.at_end() {
            Test::Exists
        } else {
            self.test(&key)?
        };
        Ok(Requirement { key, test })
    }

    fn test(&mut self, key: &str) -> Result<Test, String> {
        let operator = self.tokens.next();
        let word = match &operator {
            Some(Token::Word(word)) => word.as_str(),
            Some(Token::Symbol(symbol)) => symbol,
            None => "",
        };
        match word {
            "in" => Ok(Test::In(checked(key, self.values()?)?)),
            "notin" => Ok(Test::NotIn(checked(key, self.values()?)?)),
            "=" | "==" => Ok(Test::In(checked(key, vec![self.value()?])?)),
            "!=" => Ok(Test::NotIn(checked(key, vec![self.value()?])?)),
            ">" => Ok(Test::Greater(bound(&self.value()?)?)),
            "<" => Ok(Test::Less(bound(&self.value()?)?)),
            _ => {
                let expected = ", expected: in, notin, =, ==, !=, gt, lt";
                Err(found(operator.as_ref(), expected))
            }
        }
    }

    fn value(&mut self) -> Result<String, String> {
        if self.at_end() {
            return Ok(String::new());
        }
        match self.tokens.next() {
            Some(Token::Word(value)) => Ok(value),
            other => Err(found(other.as_ref(), ", expected: identifier")),
        }
    }

    /// Parses `(a,b)`; nothing between commas is the empty value.
    fn values(&mut self) -> Result<Vec<String>, String> {
        if !self.take("(") {
            return self.expected(" expected: '('");
        }
        let mut values = Vec::new();
        loop {
            match self.peek() {
                Some(Token::Word(_)) => values.push(self.value()?),
                Some(Token::Symbol("," | ")")) => values.push(String::new()),
                _ => return self.expected(", expected: ',', ')' or identifier"),
            }
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return self.expected(", expected: ',' or ')'");
            }
        }
    }
}

fn bound(value: &str) -> Result<i64, String> {
    value.parse().map_err(|_| {
        format!(
            "values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
        )
    })
}

fn check_key(key: &str) -> Result<(), String> {
    match names::label_key(key).first() {
        None => Ok(()),
        Some(why) => Err(format!("<nil>: Invalid value: \"{key}\": {why}")),
    }
}

fn checked(key: &str, values: Vec<String>) -> Result<BTreeSet<String>, String> {
    for (index, value) in values.iter().enumerate() {
        if let Some(why) = names::label_value(value).first() {
            return Err(format!(
                "values[{index}][{key}]: Invalid value: \"{value}\": {why}"
            ));
        }
    }
    Ok(values.into_iter().collect())
}
