//! Limits against accidents in an expression: how deep it nests, and how large its values become. The author is
//! trusted, so this does not defend against attacks. Does not know what filters do, except how large their results can
//! be.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
};

use minijinja::{
    Environment, Error, ErrorKind, State, filters,
    value::{Kwargs, Rest, Value, ValueKind, ValueOrKwargs},
};

use super::{
    faults::refused,
    scan::{Token, WORDS, tokens},
    scope::results,
    value::wholes,
};
use crate::{Diagnostic, reason::ExprFault};

/// Max bytes of a value. A member of a list counts as [`MEMBER`].
pub(crate) const MOST: usize = 32 << 20;
const MEMBER: usize = 8;
/// Max nesting of lists and mappings. Journals store them as JSON, which is read up to twice this depth.
pub(crate) const DEEPEST: usize = 64;
/// Max characters that `format` pads a value to.
const WIDEST: usize = 1000;
/// Max bytes of an expression.
const LONGEST: usize = 64 << 10;
/// Max nesting of brackets in an expression.
const BRACKETS: usize = 40;
/// Max operators, dots, filters and brackets that depend on one another.
const LINKS: usize = 250;

/// Refuses an expression that nests too deep: minijinja parses and compiles by recursion, and a stack overflow would end flow.
pub(super) fn check_nesting(text: &str) -> Result<(), Diagnostic> {
    let too = |what: String| {
        let advice = "take it apart: a parameter can hold a part of it, a program can compute more";
        Err(Diagnostic::new(what).help(advice))
    };
    if text.len() > LONGEST {
        return too(format!("the expression has {} bytes, and {LONGEST} are the most", text.len()));
    }
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    for token in tokens(text) {
        match token {
            Token::Sign('(' | '[' | '{') => {
                level.links += 1;
                let before = level.before + level.links;
                outer.push(std::mem::replace(&mut level, Level { before, ..Level::default() }));
            }
            Token::Sign(')' | ']' | '}') => {
                let within = level.longest.max(level.links);
                level = outer.pop().unwrap_or_default();
                level.links += within;
            }
            // The members of a list do not depend on one another.
            Token::Sign(',' | ':') => {
                level.longest = level.longest.max(level.links);
                level.links = 0;
            }
            // `==` counts as nothing and `<=` once: comparisons are a list.
            Token::Literal(_) | Token::Sign('=') => {}
            Token::Name(name) => level.links += usize::from(WORDS.contains(&&*name)),
            Token::Dot | Token::Pipe | Token::Sign(_) => level.links += 1,
        }
        if outer.len() > BRACKETS {
            return too(format!("the expression has more than {BRACKETS} brackets in one another"));
        }
        if level.before + level.links > LINKS {
            return too(format!(
                "the expression has more than {LINKS} operators, dots and filters that depend on one another"
            ));
        }
    }
    Ok(())
}

/// What stands between two brackets.
#[derive(Default)]
struct Level {
    /// Links of all outer levels.
    before: usize,
    /// Links of the current member, and of the member that has the most.
    links: usize,
    longest: usize,
}

fn too_large() -> Error {
    refused(ExprFault::MakesTooMuch { most: (MOST >> 20) as u64 })
}

/// The size of a value. `None` if it is larger than `most` or nests too deep. Lazy members are computed one by one.
pub(crate) fn weight(value: &Value, most: usize) -> Option<usize> {
    let mut left = most;
    let fits = weigh(value, &mut left, 0);
    fits.then(|| most - left)
}

fn weigh(value: &Value, left: &mut usize, depth: usize) -> bool {
    // Results of other steps are not copied. Reading them would list their artifacts as used.
    let results = results(value);
    let own = value.as_str().map_or(0, str::len) + results.unwrap_or(1) * MEMBER;
    let Some(rest) = left.checked_sub(own) else { return false };
    *left = rest;
    let map = value.kind() == ValueKind::Map;
    if results.is_some() || !map && !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return true;
    }
    let mut members = value.try_iter().into_iter().flatten();
    depth < DEEPEST
        && members.all(|member| {
            let of_key = if map { value.get_item(&member).ok() } else { None };
            weigh(&member, left, depth + 1) && of_key.is_none_or(|value| weigh(&value, left, depth + 1))
        })
}

/// Adds minijinja's filters, with a limit on the size of their arguments and results, and filters of our own.
pub(super) fn fill(env: &mut Environment<'_>, own: Vec<(&'static str, Value)>) {
    // These show all that there is, however large.
    env.remove_filter("pprint");
    env.remove_global("debug");
    // It could hold itself, and showing it would not end.
    env.remove_global("namespace");
    for (name, filter) in builtin().into_iter().chain(own) {
        env.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args: Vec<Value> = args.0.into_iter().map(ValueOrKwargs::into_value).collect();
            check_size(name, &args)?;
            let args = if matches!(name, "join" | "string") { args.iter().map(wholes).collect() } else { args };
            let made = filter.call(state, &args)?;
            Ok::<Value, Error>(if matches!(name, "round" | "sum") { wholes(&made) } else { made })
        });
    }
}

macro_rules! named {
    ($($name:ident)*) => { vec![$((stringify!($name), Value::from_function(filters::$name))),*] };
}

/// minijinja's filters that an expression has.
fn builtin() -> Vec<(&'static str, Value)> {
    let mut all = named![
        abs attr batch bool capitalize chain default dictsort first float format groupby indent int items join last length
        lines list lower map reject rejectattr replace reverse round select selectattr slice split string sum
        title tojson trim unique upper zip
    ];
    all.push(("count", Value::from_function(filters::length)));
    all.push(("d", Value::from_function(filters::default)));
    macro_rules! ordering {
        ($($name:ident)*) => {
            $(all.push((stringify!($name), Value::from_function(|state: &State<'_, '_>, list: Value, how: Kwargs| {
                filters::$name(state, comparable(list, &how)?, how)
            })));)*
        };
    }
    ordering!(max min sort);
    all
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

/// Refuses arguments that are too large, and those of which a filter would make a value that is.
fn check_size(name: &str, args: &[Value]) -> Result<(), Error> {
    let sizes = args.iter().map(|arg| weight(arg, MOST).ok_or_else(too_large)).collect::<Result<Vec<usize>, _>>()?;
    let ([value, others @ ..], [size, other @ ..]) = (args, &sizes[..]) else { return Ok(()) };
    let other: usize = other.iter().sum();
    let made = match name {
        // Each member is joined to, or compared with, what else is given.
        "join" | "select" | "reject" | "selectattr" | "rejectattr" => {
            value.len().unwrap_or(size / MEMBER).saturating_mul(other)
        }
        "replace" => {
            let [from, to] = [0, 1].map(|n| others.get(n).map(Value::to_string).unwrap_or_default());
            value.to_string().matches(&from).count().saturating_mul(to.len())
        }
        "indent" => number(others, "width").saturating_mul(*size),
        "tojson" => number(others, "indent").saturating_mul(*size),
        "batch" | "slice" => number(others, "count").saturating_mul(MEMBER),
        "format" if too_wide(value.as_str().unwrap_or_default()) => {
            return Err(refused(ExprFault::PadsTooFar { most: WIDEST as u64 }));
        }
        _ => 0,
    };
    if made > MOST { Err(too_large()) } else { Ok(()) }
}

/// The first argument behind the value, which may also be given by its name. 0 if it is not a number.
fn number(others: &[Value], name: &str) -> usize {
    let named = others.last().and_then(|last| Kwargs::try_from(last.clone()).ok());
    let named = named.and_then(|named| named.get::<Option<Value>>(name).ok().flatten());
    let number = named.as_ref().or(others.first()).filter(|value| value.is_number());
    number.map_or(0, |number| usize::try_from(number.clone()).unwrap_or(usize::MAX))
}

/// A `%` is followed by a width or a precision that is too large, or that an argument gives.
fn too_wide(text: &str) -> bool {
    text.split('%').skip(1).any(|place| {
        let place = place.strip_prefix('(').and_then(|key| key.split_once(')')).map_or(place, |(_, place)| place);
        let spec = &place[..place
            .find(|c: char| !matches!(c, '0'..='9' | '.' | '*' | '+' | '-' | ' ' | '#'))
            .unwrap_or(place.len())];
        let wide = |n: &str| !n.is_empty() && n.parse::<usize>().map_or(true, |n| n > WIDEST);
        spec.contains('*') || spec.split(|c: char| !c.is_ascii_digit()).any(wide)
    })
}

thread_local! {
    static GUARDED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Panics on this thread are caught and become errors, so no panic message should be printed.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// Renders a user's template with the limits of expressions.
///
/// # Errors
/// The mistake in it, in words.
pub fn render_bounded(mut env: Environment<'_>, name: &str, text: &str, page: Value) -> Result<String, String> {
    struct Page(Vec<u8>);
    impl io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.len() + bytes.len() > MOST {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    fill(&mut env, Vec::new());
    let mut made = Page(Vec::new());
    let render = || env.template_from_named_str(name, text)?.render_captured_to(page, &mut made).map(drop);
    guarded(render).map_err(|fault| fault.to_string())?.map_err(|e| match e.kind() {
        ErrorKind::WriteFailure => format!("it comes to more than {} MiB", MOST >> 20),
        _ => e.to_string(),
    })?;
    String::from_utf8(made.0).map_err(|e| e.to_string())
}

/// Calls a library that can panic on its arguments; the panic's message becomes the error.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, ExprFault> {
    let before = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(before);
    result.map_err(|panicked| {
        let words =
            panicked.downcast_ref::<String>().map(String::as_str).or_else(|| panicked.downcast_ref::<&str>().copied());
        ExprFault::CannotBeComputed { said: words.unwrap_or("the library that does it failed").to_owned() }
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
    fn nothing_panics_or_grows_without_end() {
        for (text, words) in [
            ("10 is divisibleby(0)", "divisor of zero"),
            ("[1] | select('divisibleby', 0) | list", "divisor of zero"),
            ("'%.3000000000f' | format(1)", "pads to at most 1000 characters"),
            ("'%-99999999999d' | format(1)", "pads to at most 1000 characters"),
            ("'%(k)99999d' | format({'k': 1})", "pads to at most 1000 characters"),
            ("'%*d' | format(1000000000, 1)", "pads to at most 1000 characters"),
            ("['%.3000000000f'] | map('format', 1) | list", "pads to at most 1000 characters"),
            ("'a' * 10**10", "repeated string is too large"),
            ("('a' * 10**8) | trim", "more than 32 MiB"),
            ("[0] * 10**8 * 10**8", "repeated sequence is too large"),
            ("([0] * 10**8) | list", "more than 32 MiB"),
            ("'a' | indent(10**12, true)", "more than 32 MiB"),
            ("'a' | indent(width=10**12, first=true)", "more than 32 MiB"),
            ("[1] | tojson(10**12)", "more than 32 MiB"),
            ("[1] | tojson(indent=10**12)", "more than 32 MiB"),
            ("range(10**9)", "too many"),
            ("range(100000) | select('in', range(100000)) | list", "more than 32 MiB"),
            ("[1] | batch(10**12, 0)", "more than 32 MiB"),
            ("[1] | slice(10**12, 0)", "more than 32 MiB"),
            ("big | replace('', big)", "more than 32 MiB"),
            ("big | replace('x', 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy')", "more than 32 MiB"),
            ("range(1000) | join(big)", "more than 32 MiB"),
            ("range(1000) | join(d=big)", "more than 32 MiB"),
            ("2 ** 200", "unable to calculate"),
            ("2 ** 10**30", "unable to calculate"),
            ("-(-170141183460469231731687303715884105727 - 1)", "overflow"),
            ("(-170141183460469231731687303715884105727 - 1) | abs", "overflow"),
            ("170141183460469231731687303715884105727 * 2", "unable to calculate"),
            ("1 / 0", "unable to calculate"),
            ("1 // 0", "unable to calculate"),
            ("1 % 0", "unable to calculate"),
        ] {
            let error = eval(text).map(|v| v.kind()).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
        // minijinja may do what it likes with these, but not panic.
        for text in
            ["'abc'[0:2:-1]", "'abc'[::-9223372036854775807 - 1]", "[1, 2][5:1:-1] | list", "1 << 200", "big | pprint"]
        {
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
    fn a_template_is_bounded_too() {
        let rendered = |text: &str| {
            let mut env = minijinja::Environment::new();
            env.set_fuel(Some(1_000_000));
            let page = Value::from_pairs([("big", Value::from("x".repeat(1 << 20)))]);
            super::render_bounded(env, "page", text, page)
        };
        for (text, words) in [
            ("{{ 'a' * 10**9 }}", "repeated string is too large"),
            ("{% for i in range(100000) %}{% for i in range(100000) %}{% endfor %}{% endfor %}", "ran out of fuel"),
            ("{% for i in range(100000) %}{{ big }}{% endfor %}", "more than 32 MiB"),
            ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion limit"),
            ("{{ 10 is divisibleby(0) }}", "divisor of zero"),
        ] {
            let error = rendered(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
        let page = "{% for x in [1, 2] -%} {{ x + 1 }};{# a + b #} {%- endfor %}{% raw %}{{ a ~ b }}{% endraw %}";
        assert_eq!(rendered(page).as_deref(), Ok("2;3;{{ a ~ b }}"));
        let tree = "{%- macro m(a, b=[2]) -%}{{ a }}{{ b[0] }}{{ caller() }}{%- endmacro -%}{% call m(1) %}c{% endcall %}\
            {%- for x in [1, [2, 3]] recursive -%}{{ loop(x) if x is iterable else x }}{%- endfor -%}";
        assert_eq!(rendered(tree).as_deref(), Ok("12c123"));
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
        assert!(check_nesting(&brackets(30)).is_ok());
        for text in [
            brackets(60),
            "(".repeat(100_000),
            "1+".repeat(200_000),
            "1+".repeat(300) + "1",
            "not ".repeat(300) + "x",
            "-".repeat(300) + "1",
            "a.b".repeat(300),
            "1 if x else ".repeat(300) + "1",
            "x|f".repeat(300),
            "(a + b + c)".repeat(120),
        ] {
            let refused = check_nesting(&text).map_err(|d| d.to_string());
            assert!(refused.as_ref().is_err_and(|words| words.contains("take it apart")), "{text}: {refused:?}");
        }
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
