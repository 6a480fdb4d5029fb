//! Expressions: `${{ }}` in values. If an expression is the whole value, it keeps its type. Otherwise it is rendered
//! into the text. An undefined result is an error. Does not know which names a key may see.
//!
//! The language is minijinja's, with these additions:
//!
//! | | |
//! | --- | --- |
//! | `x \| where(version='v7')` | the members of a list at that point of the matrix; if one is left, it has `.out` and the other fields of `steps.X` |
//! | `x \| sh` | one word of a shell's command line, for a list one word each; other values in `run:` are not quoted |
//! | `KiB`, `MiB`, `GiB`, `TiB` | for sizes: `machine.gpu_memory >= 24 * GiB` |
//! | `seed` | in `run`, `with` and `env` the instance's seed, unless a parameter or an axis has that name |
//!
//! `bounds` limits how deep an expression nests.
//!
//! Inside a text, a value appears as in YAML (`true`, `0.001`), and a list or mapping as in JSON. Null is an error
//! there.

mod bounds;
mod environment;
mod faults;
mod scan;
mod scope;
mod template;
pub(crate) mod value;

use std::{borrow::Cow, cell::RefCell, fmt, rc::Rc, sync::Arc};

use indexmap::IndexMap;
use minijinja::{Expression, value::Value};

pub(crate) use bounds::guarded;
pub use bounds::{is_guarded, render};
pub(crate) use environment::{filter_names, globals, has_filter, has_test, test_names};
pub(crate) use scan::{Field, ROOTS, References, end_of_expression, paths};
pub(crate) use scope::{ITEM_FIELDS, Item, Items, Scope, whole};
pub(crate) use template::{EvalError, Node, Piece, Template};

use crate::{
    Diagnostic,
    reason::{ExprFault, Fault},
};

pub(crate) struct Expr {
    /// The text between the braces, trimmed.
    pub(crate) text: Arc<str>,
    pub(crate) reads: References,
    /// Variables as minijinja's analysis has them: none of these is an argument's or a filter's name.
    pub(crate) variables: Vec<String>,
}

/// Max compiled expressions that a thread keeps, because a matrix evaluates the same few for all of its instances. A
/// short one takes 12 KiB, and a generated workflow may have 100,000.
const KEPT: usize = 128;

thread_local! {
    static COMPILED: RefCell<IndexMap<Box<str>, Rc<Expression<'static, 'static>>>> = RefCell::default();
}

/// Compiles an expression. The error is minijinja's message.
fn compiled(text: &str) -> Result<Rc<Expression<'static, 'static>>, String> {
    if let Some(known) = COMPILED.with_borrow(|all| all.get(text).cloned()) {
        return Ok(known);
    }
    let compile = || environment::get().compile_expression_owned(text.to_owned()).map_err(|e| faults::words(&e));
    let compiled = Rc::new(guarded(compile).unwrap_or_else(|fault| Err(fault.to_string()))?);
    COMPILED.with_borrow_mut(|all| {
        if all.len() >= KEPT {
            all.clear();
        }
        all.insert(text.into(), Rc::clone(&compiled));
    });
    Ok(compiled)
}

impl Expr {
    pub(crate) fn new(text: &str) -> Result<Self, Diagnostic> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Diagnostic::new("the expression is empty"));
        }
        bounds::check_nesting(text)?;
        let compiled = compiled(text).map_err(|words| {
            let diagnostic = Diagnostic::new(format!("`{}` is no expression: {words}", shown(text)));
            if text.contains("&&") || text.contains("||") || text.contains('!') && !text.contains("!=") {
                diagnostic.help("write `and`, `or`, `not`")
            } else if words.contains("`=`") || text.contains(" = ") {
                diagnostic.help("compare with `==`")
            } else {
                diagnostic
            }
        })?;
        let mut variables: Vec<String> = compiled.undeclared_variables(false).into_iter().collect();
        variables.sort();
        Ok(Expr { reads: scan::reads(text), text: text.into(), variables })
    }

    pub(crate) fn eval(&self, scope: &Value) -> Result<Value, Fault> {
        let compiled = compiled(&self.text)?;
        let result = guarded(|| compiled.eval(scope.clone()).inspect(bounds::force))?.map_err(|e| faults::fault(&e))?;
        if result.is_undefined() {
            return Err(ExprFault::Undefined { expression: shown(&self.text).into_owned() }.into());
        }
        Ok(result)
    }

    /// It reads results of other steps, so that it has a value only once these are settled.
    pub(crate) fn is_late(&self) -> bool {
        self.reads.names.iter().any(|n| n == "steps")
    }

    /// It has a word that can skip a part of it, so it may have a value without a result that it names.
    pub(crate) fn has_branches(&self) -> bool {
        self.reads.names.iter().any(|name| matches!(&**name, "if" | "and" | "or"))
    }

    /// The condition of its branches is known, and the selected branch reads no result: `weights if weights else
    /// steps.a.out`.
    pub(crate) fn is_known_in(&self, scope: &Value) -> bool {
        // In a scope without steps, an expression that reads one has no value.
        self.has_branches() && self.eval(scope).is_ok()
    }

    /// It ends in `.out` or `.outputs.NAME` of a step, without another way to a value.
    pub(crate) fn is_artifact(&self) -> bool {
        let last: Vec<&str> = self.text.rsplit('.').take(2).map(str::trim).collect();
        let ends = matches!(last[..], ["out", ..]) || last.get(1) == Some(&"outputs");
        let is_one = !self.has_branches() && !self.text.contains(['~', '+', '"', '\'']);
        ends && is_one && self.is_late()
    }

    /// The fields of a root that it reads.
    pub(crate) fn fields(&self, root: &str) -> impl Iterator<Item = &Field> {
        self.reads.fields.iter().filter(move |f| f.root == root)
    }
}

/// An expression in a message.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    const LONG: usize = 200;
    match text.char_indices().nth(LONG) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${{{{ {} }}}}", self.text)
    }
}
