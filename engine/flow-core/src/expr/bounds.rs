//! What flow changes in minijinja: a limit on how deep an expression nests, filters that leave out NaN, and panics as
//! errors. The author is trusted, so the size of values has no limit.

use std::panic::{AssertUnwindSafe, catch_unwind};

use minijinja::{
    Environment, Error, State, filters,
    value::{Kwargs, Rest, Value, ValueKind, ValueOrKwargs},
};

use super::{
    faults::refused,
    scan::{Token, WORDS, tokens},
    value::wholes,
};
use crate::{Diagnostic, reason::ExprFault};

/// Max operators, dots, filters and brackets that depend on one another.
const LINKS: usize = 250;

/// Refuses an expression that nests too deep: minijinja compiles by recursion, and a stack overflow would end flow.
/// minijinja itself limits brackets.
pub(super) fn check_nesting(text: &str) -> Result<(), Diagnostic> {
    let mut links = 0;
    for token in tokens(text) {
        match token {
            // The members of a list do not depend on one another.
            Token::Sign(',' | ':') => links = 0,
            // `==` counts as nothing and `<=` once: comparisons are a list.
            Token::Literal(_) | Token::Sign('=') => {}
            Token::Name(name) => links += usize::from(WORDS.contains(&&*name)),
            Token::Dot | Token::Pipe | Token::Sign(_) => links += 1,
        }
        if links > LINKS {
            let what =
                format!("the expression has more than {LINKS} operators, dots and filters that depend on one another");
            return Err(Diagnostic::new(what).help("take it apart: a parameter can hold a part of it"));
        }
    }
    Ok(())
}

/// Changes some of minijinja's filters and adds our own.
pub(super) fn fill(env: &mut Environment<'_>, own: Vec<(&'static str, Value)>) {
    // It could hold itself, and showing it would not end.
    env.remove_global("namespace");
    env.remove_global("debug");
    let with_wholes = [
        ("join", Value::from_function(filters::join)),
        ("string", Value::from_function(filters::string)),
        ("round", Value::from_function(filters::round)),
        ("sum", Value::from_function(filters::sum)),
    ];
    for (name, filter) in with_wholes.into_iter().chain(orderings()).chain(own) {
        env.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args = args.0.into_iter().map(ValueOrKwargs::into_value);
            let args: Vec<Value> = match name {
                "join" | "string" => args.map(|arg| wholes(&arg)).collect(),
                _ => args.collect(),
            };
            let made = filter.call(state, &args)?;
            Ok::<Value, Error>(if matches!(name, "round" | "sum") { wholes(&made) } else { made })
        });
    }
}

/// Filters that compare the members of a list.
fn orderings() -> [(&'static str, Value); 3] {
    macro_rules! ordering {
        ($name:ident) => {
            (
                stringify!($name),
                Value::from_function(|state: &State<'_, '_>, list: Value, how: Kwargs| {
                    filters::$name(state, comparable(list, &how)?, how)
                }),
            )
        };
    }
    [ordering!(max), ordering!(min), ordering!(sort)]
}

/// A list without NaN, and without members that lack the attribute by which they are compared. minijinja sorts these
/// last, so the max of a sweep would be the run that diverged.
fn comparable(list: Value, how: &Kwargs) -> Result<Value, Error> {
    let attribute = how.get::<Option<&str>>("attribute")?.unwrap_or_default();
    let keys: Vec<&str> = attribute.split(',').map(str::trim).filter(|key| !key.is_empty()).collect();
    // minijinja's error for a value that is not a list is good.
    let members = if list.is_undefined() { None } else { list.try_iter().ok() };
    let Some(members) = members.map(|members| members.collect::<Vec<Value>>()) else { return Ok(list) };
    let has = |member: &Value, key: &&str| {
        let value = at(member, key).unwrap_or_default();
        !matches!(value.kind(), ValueKind::Undefined | ValueKind::Invalid) && !is_nan(&value)
    };
    let kept: Vec<Value> =
        members.iter().filter(|member| !is_nan(member) && keys.iter().all(|key| has(member, key))).cloned().collect();
    if kept.is_empty() && !members.is_empty() && !keys.is_empty() {
        return Err(refused(ExprFault::NothingToCompare { attribute: attribute.to_owned() }));
    }
    Ok(Value::from(kept))
}

/// The value at a path of names and numbers, such as `metrics.loss`, as minijinja finds it.
fn at(value: &Value, path: &str) -> Result<Value, Error> {
    path.split('.').try_fold(value.clone(), |value, part| match part.parse() {
        Ok(index) => value.get_item_by_index(index),
        Err(_) => value.get_attr(part),
    })
}

fn is_nan(value: &Value) -> bool {
    value.kind() == ValueKind::Number && f64::try_from(value.clone()).is_ok_and(f64::is_nan)
}

/// Computes the lazy members of a value, so that a panic in one is caught.
pub(super) fn force(value: &Value) {
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        value.try_iter().into_iter().flatten().for_each(|member| force(&member));
    }
}

thread_local! {
    static GUARDED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Panics on this thread are caught and become errors, so no panic message should be printed.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// Renders a user's template with the filters of expressions.
///
/// # Errors
/// The mistake in it, in words.
pub fn render(mut env: Environment<'_>, name: &str, text: &str, page: Value) -> Result<String, String> {
    fill(&mut env, Vec::new());
    let rendered = guarded(|| env.template_from_named_str(name, text)?.render(page));
    rendered.map_err(|fault| fault.to_string())?.map_err(|e| e.to_string())
}

/// Calls a library that can panic on its arguments; the panic's message becomes the error.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, ExprFault> {
    let before = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(before);
    result.map_err(|panicked| {
        let words =
            panicked.downcast_ref::<String>().map(String::as_str).or_else(|| panicked.downcast_ref::<&str>().copied());
        ExprFault::CannotBeComputed { message: words.unwrap_or("the library that does it failed").to_owned() }
    })
}

#[cfg(test)]
mod tests {
    use minijinja::value::Value;

    use super::check_nesting;
    use crate::expr::Expr;

    fn eval(text: &str) -> Result<Value, String> {
        let big = Value::from("x".repeat(1 << 20));
        let scope = Value::from_pairs([("big", big), ("n", Value::from(10)), ("list", Value::from(vec![1, 2, 3]))]);
        Expr::new(text).map_err(|d| d.to_string())?.eval(&scope).map_err(|fault| fault.to_string())
    }

    #[test]
    fn nothing_panics() {
        for (text, words) in [
            ("10 is divisibleby(0)", "divisor of zero"),
            ("[1] | select('divisibleby', 0) | list", "divisor of zero"),
            ("'a' * 10**10", "repeated string is too large"),
            ("[0] * 10**8 * 10**8", "repeated sequence is too large"),
            ("range(10**9)", "too many"),
            ("2 ** 200", "unable to calculate"),
            ("-(-170141183460469231731687303715884105727 - 1)", "overflow"),
            ("(-170141183460469231731687303715884105727 - 1) | abs", "overflow"),
            ("1 / 0", "unable to calculate"),
        ] {
            let error = eval(text).map(|v| v.kind()).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
        // minijinja may do what it likes with these, but not panic.
        for text in ["'abc'[0:2:-1]", "'abc'[::-9223372036854775807 - 1]", "[1, 2][5:1:-1] | list", "1 << 200"] {
            drop(eval(text));
        }
    }

    #[test]
    fn what_is_of_use_goes_on_working() {
        for (text, value) in [
            ("'%.3f' | format(n / 3)", "3.333"),
            ("'%-5s|' | format('a')", "a    |"),
            ("'%(a)05d' | format({'a': 7})", "00007"),
            ("'100%' ~ '%'", "100%%"),
            ("n * 2 + list | sum", "26"),
            ("(list | batch(2) | list | length) * (list | slice(2) | list | length)", "4"),
            ("list | map('string') | join('-')", "1-2-3"),
            ("list + [4] | list", "[1, 2, 3, 4]"),
            ("list | sum(attribute='real') | default(0)", "0"),
            ("[{'v': 1}, {'v': 2}] | sum(attribute='v')", "3"),
            ("[[1], [2]] | sum(start=[]) | list", "[1, 2]"),
            ("'a b' | replace(' ', '_') | indent(2, first=true)", "  a_b"),
            ("list | tojson(indent=2) | length", "17"),
            ("list | select('divisibleby', 3) | list", "[3]"),
            ("missing | default('x') ~ true * 2", "x2"),
            ("10 is divisibleby 5 and not 10 is divisibleby(3)", "True"),
            ("range(3) | list == range(0, 6, 2) | map('int') | list", "False"),
            ("big | length", "1048576"),
            ("2 ** 3 * -n", "-80"),
            ("'ab' * 2 ~ [0] * 2", "abab[0, 0]"),
            ("'acc ' ~ (n * 9.3) | round ~ '%'", "acc 93%"),
            ("2 in list and 4 not in list and 'x' in big and 1 < n <= 10 and n is ge 10 and n is in([10])", "True"),
            ("missing is defined or list | select('>', 2) | list == [3]", "True"),
        ] {
            let made = eval(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(made.to_string(), value, "{text}");
        }
    }

    #[test]
    fn a_template_that_fails_is_an_error() {
        let rendered = |text: &str| {
            let mut env = minijinja::Environment::new();
            env.set_fuel(Some(1_000_000));
            super::render(env, "page", text, Value::UNDEFINED)
        };
        for (text, words) in [
            ("{% for i in range(100000) %}{% for i in range(100000) %}{% endfor %}{% endfor %}", "ran out of fuel"),
            ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion limit"),
            ("{{ 10 is divisibleby(0) }}", "divisor of zero"),
        ] {
            let error = rendered(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
        assert_eq!(rendered("{% for x in [1, 2] -%} {{ x + 1 }};{%- endfor %}").as_deref(), Ok("2;3;"));
    }

    #[test]
    fn a_panic_is_an_error() {
        assert!(!super::is_guarded());
        let error = super::guarded(|| {
            if super::is_guarded() {
                panic!("too much")
            }
        })
        .expect_err("a panic");
        assert_eq!(error.to_string(), "it cannot be computed: too much");
        assert!(!super::is_guarded());
    }

    #[test]
    fn what_is_too_deep_is_refused() {
        let brackets = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        for text in ["1+".repeat(300) + "1", "not ".repeat(300) + "x", "-".repeat(300) + "1", "x|f".repeat(300)] {
            let refused = check_nesting(&text).map_err(|d| d.to_string());
            assert!(refused.as_ref().is_err_and(|words| words.contains("take it apart")), "{text}: {refused:?}");
        }
        assert!(Expr::new(&brackets(200)).is_err());
        // Long is not deep.
        for text in ["a.b * 2, ", "(a + b), ", "-1, ", "f(x=1) == 'a + b', "] {
            assert!(check_nesting(&format!("[{}]", text.repeat(3000))).is_ok(), "{text}");
        }
        // The limit fits in the stack of a thread.
        for deepest in [brackets(40), "1+".repeat(250) + "1", "not ".repeat(250) + "true", "-".repeat(250) + "1"] {
            assert!(Expr::new(&deepest).is_ok_and(|expr| expr.eval(&Value::UNDEFINED).is_ok()), "{deepest}");
        }
    }
}
