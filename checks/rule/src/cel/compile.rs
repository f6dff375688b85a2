//! Compilation of text to a program.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::Env;

use super::checker::Checker;
use super::run::SizedRegex;
use super::scope::{Mistake, Scope, Uses, place};
use super::tree::Node;
use super::types::Type;

/// The maximum number of characters of an expression.
pub const LONGEST: usize = 8192;
/// The stack size in bytes for parsing: the parser calls itself for each level.
const STACK: usize = 128 * 1024 * 1024;

/// A checked expression.
#[derive(Debug)]
pub struct Program {
    pub(crate) root: Node,
    pub(crate) regexes: HashMap<Arc<str>, SizedRegex>,
    /// The maximum number of variables of comprehensions.
    pub(crate) locals: usize,
    kind: Type,
    uses: Uses,
    text: String,
}

impl Program {
    /// Checks `text`, which may use the names in `scope`.
    ///
    /// # Errors
    /// The first mistake.
    pub fn new(text: &str, scope: &Scope) -> Result<Self, Mistake> {
        if text.chars().count() > LONGEST {
            return Err(Mistake {
                line: 1,
                column: 1,
                message: format!("the expression has more than {LONGEST} characters"),
            });
        }
        std::thread::scope(|threads| {
            let builder = std::thread::Builder::new().stack_size(STACK);
            let parsing = builder.spawn_scoped(threads, || parse(text, scope));
            let result = parsing.map(std::thread::ScopedJoinHandle::join);
            match result {
                Ok(Ok(result)) => result,
                Ok(Err(_)) | Err(_) => Err(Mistake {
                    line: 1,
                    column: 1,
                    message: "the expression can't be parsed".to_owned(),
                }),
            }
        })
    }

    /// Returns the type of its value.
    pub fn kind(&self) -> &Type {
        &self.kind
    }

    /// Returns the data that it reads.
    pub fn uses(&self) -> &Uses {
        &self.uses
    }

    /// Returns its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the line and the column of a position in it.
    pub fn place(&self, at: u32) -> (usize, usize) {
        place(&self.text, at)
    }
}

fn parse(text: &str, scope: &Scope) -> Result<Program, Mistake> {
    let parsed = LANGUAGE.compile(text).map_err(|errors| {
        let first = errors.errors.first();
        let (line, column) = first.map_or((1, 1), |error| error.pos);
        let least = |number: isize| usize::try_from(number).unwrap_or(1).max(1);
        Mistake {
            line: least(line),
            column: least(column),
            message: syntax(first.map_or("", |error| error.msg.as_str())),
        }
    })?;
    let mut checker = Checker::new(scope, parsed.source_info(), text);
    let (root, kind) = checker.node(parsed.expression())?;
    Ok(Program {
        root,
        regexes: checker.regexes,
        locals: checker.most_locals,
        kind,
        uses: checker.uses,
        text: text.to_owned(),
    })
}

/// The parser leaves macros as calls; the checker handles them.
static LANGUAGE: LazyLock<Env> = LazyLock::new(Env::default);

/// Returns the parser's message, without the list of all tokens that could follow.
fn syntax(message: &str) -> String {
    let short = message.split(" expecting ").next().unwrap_or_default();
    let short = short.strip_prefix("Syntax error: ").unwrap_or(short);
    if short.contains("Recursion limit") {
        return "it is nested too deeply: use `variables`".to_owned();
    }
    match short.trim() {
        "" => "the expression can't be parsed".to_owned(),
        short => format!("syntax: {short}"),
    }
}
