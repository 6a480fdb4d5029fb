//! What an expression may make: filters, tests and functions of minijinja's behind a bound on the size of what goes in and comes
//! out, so that none panics, runs for hours or takes all memory. Does not know what they do.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
};

use minijinja::{
    Environment, Error, ErrorKind, State, filters, functions, tests as builtin_tests,
    value::{Kwargs, Rest, Value, ValueKind, ValueOrKwargs},
};

use super::{
    faults::refused,
    fence::{NUMBER, SIZED, TEXT, fenced_template},
    scope::results,
    value::{describe, wholes},
};
use crate::reason::ExprFault;

/// Bytes that one evaluation may make and hand on, each member of a list counted as [`MEMBER`].
pub(crate) const MOST: usize = 32 << 20;
const MEMBER: usize = 8;
/// Lists and mappings in one another; journals hold them, and JSON is not read any deeper than twice this.
pub(crate) const DEEPEST: usize = 64;
/// Characters that `format` pads a value to.
const WIDEST: usize = 1000;
/// Characters that `tojson` indents by.
const FURTHEST: usize = 16;

/// What has been made so far in an evaluation.
#[derive(Default)]
struct Made(usize);

fn too_large() -> Error {
    refused(ExprFault::MakesTooMuch { most: (MOST >> 20) as u64 })
}

/// Counts a value in; the error ends the evaluation.
fn count(state: &mut State<'_, '_>, size: usize) -> Result<(), Error> {
    let made = state.get_or_insert_extension(Made::default());
    made.0 = made.0.saturating_add(size);
    if made.0 > MOST { Err(too_large()) } else { Ok(()) }
}

/// The size of a value; none where it is larger than this or nests too deep. What is lazy in it is looked at member by member.
pub(crate) fn weight(value: &Value, most: usize) -> Option<usize> {
    let mut left = most;
    let fits = weigh(value, &mut left, 0);
    fits.then(|| most - left)
}

fn weigh(value: &Value, left: &mut usize, depth: usize) -> bool {
    // Results of other steps are not copied, and to read them would name their artifacts.
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

/// Puts everything that expressions have into their environment, with filters of one's own.
pub(super) fn fill(env: &mut Environment<'_>, own: Vec<(&'static str, Value)>) {
    // What is for programmers of templates shows everything there is, however large.
    env.remove_filter("pprint");
    env.remove_global("debug");
    // A value that holds itself could be shown for ever.
    env.remove_global("namespace");
    for (name, filter) in builtin().into_iter().chain(own) {
        env.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args: Vec<Value> = args.0.into_iter().map(ValueOrKwargs::into_value).collect();
            before(name, state, &args)?;
            let args = if matches!(name, "join" | "string") { args.iter().map(wholes).collect() } else { args };
            let made = filter.call(state, &args)?;
            count(state, weight(&made, MOST).ok_or_else(too_large)?)?;
            Ok::<Value, Error>(made)
        });
    }
    env.add_filter(SIZED, |state: &mut State<'_, '_>, value: Value| {
        count(state, weight(&value, MOST).ok_or_else(too_large)?)?;
        Ok::<Value, Error>(value)
    });
    env.add_filter(TEXT, |state: &mut State<'_, '_>, value: Value| {
        count(state, weight(&value, MOST).ok_or_else(too_large)?)?;
        Ok::<Value, Error>(wholes(&value))
    });
    env.add_filter(NUMBER, |value: Value| match value.kind() {
        ValueKind::Number | ValueKind::Bool | ValueKind::Undefined => Ok(value),
        _ => Err(refused(ExprFault::MultipliesNoNumber { value: describe(&value) })),
    });
    for (name, test) in comparing() {
        env.add_test(name, move |state: &mut State<'_, '_>, args: Rest<Value>| {
            before(name, state, &args)?;
            test.call(state, &args)
        });
    }
    env.add_test("divisibleby", |value: Value, by: Value| {
        if i128::try_from(by.clone()).is_ok_and(|by| by == 0) {
            return Err(refused(ExprFault::DividesByZero { value: value.to_string() }));
        }
        // The one other division of whole numbers that has no result.
        Ok(i128::try_from(by.clone()).is_ok_and(|by| by == -1 && value.is_integer())
            || builtin_tests::is_divisibleby(&value, &by))
    });
    env.add_function("range", |from: i64, to: Option<i64>, step: Option<i64>| {
        const FAR: i64 = 1 << 53;
        let near = |n: i64| (-FAR..=FAR).contains(&n);
        if ![Some(from), to, step].into_iter().flatten().all(near) {
            return Err(refused(ExprFault::RangeTooFar { most: FAR.unsigned_abs() }));
        }
        functions::range(from as isize, to.map(|n| n as isize), step.map(|n| n as isize))
    });
}

macro_rules! named {
    ($($name:ident)*) => { vec![$((stringify!($name), Value::from_function(filters::$name))),*] };
}

/// The filters of minijinja's that are of use here.
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

/// A list without what has no place in an order: NaN, and members that lack the attribute by which they are compared. The library
/// takes these for the largest, and whoever asks for the best of a sweep would get what diverged.
fn comparable(list: Value, how: &Kwargs) -> Result<Value, Error> {
    let attribute = how.get::<Option<&str>>("attribute")?.unwrap_or_default();
    let keys: Vec<&str> = attribute.split(',').map(str::trim).filter(|key| !key.is_empty()).collect();
    // The library says what is wrong with what is no list.
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

/// What a path of names and numbers leads to, `metrics.loss`, as the library goes it.
fn at(value: &Value, path: &str) -> Result<Value, Error> {
    path.split('.').try_fold(value.clone(), |value, part| match part.parse() {
        Ok(index) => value.get_item_by_index(index),
        Err(_) => value.get_attr(part),
    })
}

fn is_nan(value: &Value) -> bool {
    value.kind() == ValueKind::Number && f64::try_from(value.clone()).is_ok_and(f64::is_nan)
}

/// The tests of minijinja's that look at all of what they are given.
fn comparing() -> Vec<(&'static str, Value)> {
    macro_rules! tests {
        ($($test:ident: $($name:literal)*,)*) => {
            vec![$($(($name, Value::from_function(builtin_tests::$test))),*),*]
        };
    }
    tests![
        is_eq: "eq" "equalto" "==",
        is_ne: "ne" "!=",
        is_lt: "lt" "lessthan" "<",
        is_le: "le" "<=",
        is_gt: "gt" "greaterthan" ">",
        is_ge: "ge" ">=",
        is_in: "in",
        is_startingwith: "startingwith",
        is_endingwith: "endingwith",
        is_lower: "lower",
        is_upper: "upper",
    ]
}

/// Refuses what a filter would make too much of, told from what goes in.
fn before(name: &str, state: &mut State<'_, '_>, args: &[Value]) -> Result<(), Error> {
    let sizes: Vec<usize> = args.iter().map(|arg| weight(arg, MOST).ok_or_else(too_large)).collect::<Result<_, _>>()?;
    count(state, sizes.iter().sum())?;
    let [value, others @ ..] = args else { return Ok(()) };
    let size = sizes[0];
    let other: usize = sizes[1..].iter().sum();
    let members = value.len().unwrap_or(size / MEMBER);
    let most = |what: usize| if what > MOST { Err(too_large()) } else { Ok(()) };
    match name {
        // Each member meets what else is given, or has it beside it.
        "join" | "select" | "reject" | "selectattr" | "rejectattr" => most(members.saturating_mul(other)),
        "sum" if given(others, 1, "start").is_some_and(|start| !start.is_number()) => {
            most(members.saturating_mul(size))
        }
        "split" | "list" | "lines" => most(size.saturating_mul(MEMBER)),
        // A quote is quoted by three characters.
        "sh" => most(size.saturating_mul(3)),
        "replace" => {
            let [from, to] = [0, 1].map(|n| others.get(n).map(Value::to_string).unwrap_or_default());
            let text = value.to_string();
            most(text.matches(&from).count().saturating_mul(to.len()).saturating_add(text.len()))
        }
        "indent" => most(number(others, 0, "width").saturating_mul(size)),
        "batch" | "slice" => most(number(others, 0, "count").saturating_mul(MEMBER)),
        "tojson" if number(others, 0, "indent") > FURTHEST => {
            Err(refused(ExprFault::IndentsTooFar { most: FURTHEST as u64 }))
        }
        "format" => {
            let text = value.as_str().unwrap_or_default();
            if too_wide(text) {
                return Err(refused(ExprFault::PadsTooFar { most: WIDEST as u64 }));
            }
            // A mapping can stand in every place.
            most(text.matches('%').count().saturating_mul(other + WIDEST))
        }
        _ => Ok(()),
    }
}

/// An argument by its place behind the value, or by its name.
fn given(others: &[Value], place: usize, name: &str) -> Option<Value> {
    let named = others.last().and_then(|last| Kwargs::try_from(last.clone()).ok());
    match named {
        Some(named) => {
            named.get::<Option<Value>>(name).ok().flatten().or_else(|| others[..others.len() - 1].get(place).cloned())
        }
        None => others.get(place).cloned(),
    }
}

fn number(others: &[Value], place: usize, name: &str) -> usize {
    let number = given(others, place, name).filter(Value::is_number);
    number.map_or(0, |number| usize::try_from(number).unwrap_or(usize::MAX))
}

/// Somewhere behind a `%` stands a width or a precision beyond bounds, or one that an argument gives.
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

/// A library is at work on this thread whose panics are caught, so that nothing is to be said of them.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// A template of somebody's rendered within the bounds that expressions have.
///
/// # Errors
/// What is wrong with it, in words.
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
    let text = fenced_template(text).map_err(|e| e.to_string())?;
    let mut made = Page(Vec::new());
    let render = || env.template_from_named_str(name, &text)?.render_captured_to(page, &mut made).map(drop);
    guarded(render).map_err(|fault| fault.to_string())?.map_err(|e| match e.kind() {
        ErrorKind::WriteFailure => format!("it comes to more than {} MiB", MOST >> 20),
        _ => e.to_string(),
    })?;
    String::from_utf8(made.0).map_err(|e| e.to_string())
}

/// Calls a library that could panic on what it is given; the error has its words.
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

    use crate::expr::Expr;

    fn eval(text: &str) -> Result<Value, String> {
        let big = Value::from("x".repeat(1 << 20));
        let scope = Value::from_pairs([("big", big), ("n", Value::from(10)), ("list", Value::from(vec![1, 2, 3]))]);
        Expr::new(text).map_err(|d| d.to_string())?.eval(&scope).map_err(|fault| fault.to_string())
    }

    #[test]
    fn nothing_panics_or_grows_without_end() {
        for (text, words) in [
            ("10 is divisibleby(0)", "cannot be divided by 0"),
            ("[1] | select('divisibleby', 0) | list", "cannot be divided by 0"),
            ("(-170141183460469231731687303715884105727 - 1) is divisibleby(0)", "cannot be divided by 0"),
            ("'%.3000000000f' | format(1)", "pads to 1000 characters"),
            ("'%-99999999999d' | format(1)", "pads to 1000 characters"),
            ("'%(k)99999d' | format({'k': 1})", "pads to 1000 characters"),
            ("'%*d' | format(1000000000, 1)", "pads to 1000 characters"),
            ("['%.3000000000f'] | map('format', 1) | list", "pads to 1000 characters"),
            ("('%s' * 2)", "multiplies numbers, and this is the text"),
            ("2 * 'a'", "multiplies numbers, and this is the text"),
            ("'a' * 10**10", "multiplies numbers, and this is the text"),
            ("[0] * 10**8 * 10**8", "multiplies numbers, and this is the list"),
            ("'a' | indent(10**12, true)", "more than 32 MiB"),
            ("'a' | indent(width=10**12, first=true)", "more than 32 MiB"),
            ("[1] | tojson(10**12)", "by 16 at most"),
            ("[1] | tojson(indent=10**12)", "by 16 at most"),
            ("range(10**9)", "too many"),
            ("range(-9223372036854775807, 9223372036854775807, -9223372036854775807)", "counts up to"),
            ("range(100000) | select('in', range(100000)) | list", "more than 32 MiB"),
            ("[1] | batch(10**12, 0)", "more than 32 MiB"),
            ("[1] | slice(10**12, 0)", "more than 32 MiB"),
            ("big | replace('', big)", "more than 32 MiB"),
            ("big | replace('x', 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy')", "more than 32 MiB"),
            ("range(1000) | join(big)", "more than 32 MiB"),
            ("range(1000) | join(d=big)", "more than 32 MiB"),
            (
                "big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big \
              ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big",
                "more than 32 MiB",
            ),
            ("range(100000) | map('string') | sum(start='')", "more than 32 MiB"),
            (&format!("'\"' ~ \"'\"{}", "|sh".repeat(60)), "more than 32 MiB"),
            (&format!("[{}]", "big[1:], ".repeat(100)), "more than 32 MiB"),
            (&format!("[{}]", "range(90000)[:80000], ".repeat(100)), "more than 32 MiB"),
            (&format!("{{'a': [{}]}}", "[big], ".repeat(100)), "more than 32 MiB"),
            (&format!("[{}]", "1 in range(50000), ".repeat(100)), "more than 32 MiB"),
            (&format!("[{}]", "1 not in range(50000), ".repeat(100)), "more than 32 MiB"),
            (&format!("[{}]", "big == big, ".repeat(100)), "more than 32 MiB"),
            (&format!("[{}]", "list <= big, ".repeat(100)), "more than 32 MiB"),
            (&format!("[{}]", "0 is in(range(50000)), ".repeat(100)), "more than 32 MiB"),
            (&format!("[{}]", "big is eq big, ".repeat(100)), "more than 32 MiB"),
            (&format!("[{}]", "big is not startingwith('y'), ".repeat(100)), "more than 32 MiB"),
            (&format!("[{}]", "big[1000000:1000001], ".repeat(100)), "more than 32 MiB"),
            (&format!("[{}]", "{big: 1}, ".repeat(100)), "more than 32 MiB"),
            (&format!("[{}]", "{}[big] is defined, ".repeat(100)), "more than 32 MiB"),
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
        // What a library does with these is its own business, as long as it is said.
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
            ("10 is divisibleby 5 and not 10 is divisibleby(3) and 7 is divisibleby(-1)", "True"),
            ("range(3) | list == range(0, 6, 2) | map('int') | list", "False"),
            ("big | length", "1048576"),
            ("2 ** 3 * -n", "-80"),
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
        let doubled = "{% set x = 'aaaaaaaa' %}".to_owned() + &"{% set x = x ~ x %}".repeat(40);
        let caught = "{% set x = 'aaaaaaaa' %}".to_owned() + &"{% set x %}{{ x }}{{ x }}{% endset %}".repeat(40);
        let lists = "{% set x = [1] %}".to_owned() + &"{% set x = [x, x] %}".repeat(40) + "{{ x == x }}";
        let deep = "{% set x = [1] %}".to_owned() + &"{% set x = [x] %}".repeat(100_000);
        for (text, words) in [
            ("{{ 'a' * 10**9 }}", "multiplies numbers"),
            (&doubled, "more than 32 MiB"),
            (&caught, "more than 32 MiB"),
            (&lists, "more than 32 MiB"),
            (&deep, "more than 32 MiB"),
            ("{% set ns = namespace(x=[]) %}{% set ns.x = ns %}{{ ns }}", "namespace is unknown"),
            ("{% for i in range(100000) %}{{ big }}{% endfor %}", "more than 32 MiB"),
            ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion limit"),
            ("{{ 10 is divisibleby(0) }}", "cannot be divided by 0"),
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
}
