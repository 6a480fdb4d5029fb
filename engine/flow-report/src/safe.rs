//! Makes text by others safe for its place: in Markdown, in a picture, in a CSV cell. Text by others is everything
//! except flow's catalogues and the Markdown of a workflow's author: its titles, notes, and set-up lines. In a report
//! it reads as it was written, and has no other effect.

use flow_core::reason::BuiltinFault;
use flow_core::{is_hidden, visible};

/// The text on one line, with invisible characters written out.
fn one_line(text: &str) -> String {
    visible(&text.replace("\r\n", " ").replace(['\n', '\r', '\t'], " ")).into_owned()
}

/// The text as Markdown that reads as it was written, in a sentence, a heading, a link or a table cell, whose bars the
/// table escapes. An empty text becomes `""`. Characters without a meaning in their place stay as they are:
/// `mobilenet_v2`, `solo[batch=16]`, `C++`.
pub(crate) fn text(text: &str) -> String {
    if text.is_empty() {
        return "\"\"".into();
    }
    let line = one_line(text);
    let chars: Vec<char> = line.chars().collect();
    let word = |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(|c| c.is_alphanumeric());
    let mut out = String::with_capacity(line.len());
    let mut point = 0;
    for (at, c) in chars.iter().enumerate() {
        let inside = word(at.checked_sub(1)) && word(Some(at + 1));
        if *c == '[' && word(at.checked_sub(1)) {
            point = end_of_point(&chars, at).unwrap_or(point);
        }
        let sign = match c {
            '*' | '`' | '<' | '\\' | '~' | '$' => true,
            '[' | ']' => at >= point,
            '_' => !inside,
            '&' => entity(&chars[at + 1..]),
            // At the end of a heading, `#` would belong to the heading's mark.
            '#' => at + 1 == chars.len() && !word(at.checked_sub(1)),
            _ => false,
        };
        if sign {
            out.push('\\');
        }
        out.push(*c);
    }
    out
}

/// The position after the bracket that closes the point of an instance, `[version=v7,batch=16]`, if one begins here.
fn end_of_point(chars: &[char], at: usize) -> Option<usize> {
    let plain = |c: &char| c.is_alphanumeric() || matches!(c, '=' | ',' | '.' | '_' | '-' | '+');
    let end = at + 1 + chars[at + 1..].iter().take_while(|c| plain(c)).count();
    (chars.get(end) == Some(&']') && !matches!(chars.get(end + 1), Some('(' | '[' | ':'))).then_some(end + 1)
}

/// Whether the text after a `&` may be the name of a character.
fn entity(rest: &[char]) -> bool {
    let name = rest.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '#').count();
    name > 0 && rest.get(name).is_none_or(|c| *c == ';')
}

/// The text as code. If it contains characters that code cannot show everywhere, it stays text.
pub(crate) fn code(text: &str) -> String {
    match text.trim().is_empty() || text.contains(['`', '|']) {
        true => self::text(text),
        false => format!("`{}`", one_line(text)),
    }
}

/// A sentence, usually by flow, with names between backticks as code: "`photos/1.jpg` changed while it ran".
pub(crate) fn prose(sentence: &str) -> String {
    let parts: Vec<&str> = sentence.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return text(sentence);
    }
    let part = |(at, part): (usize, &&str)| match (at % 2, part.is_empty()) {
        (0, true) => String::new(),
        (1, true) => text("``"),
        (1, false) => code(part),
        _ => text(part),
    };
    parts.iter().enumerate().map(part).collect()
}

/// The author's own Markdown, on one line. It may come from a file that somebody else wrote, so HTML and pictures
/// outside of code read as they were written.
pub(crate) fn authors(markdown: &str) -> String {
    let line = one_line(markdown.trim());
    let mut out = String::with_capacity(line.len());
    let mut rest = &*line;
    while let Some(first) = rest.chars().next() {
        let run = rest.len() - rest.trim_start_matches('`').len();
        let (escaped, taken) = match first {
            '\\' if rest.len() == 1 => (true, 1),
            '\\' if rest[1..].starts_with(|c: char| c.is_ascii_punctuation()) => (false, 2),
            '`' => end_of_code(&rest[run..], run).map_or((true, 1), |end| (false, run + end)),
            '<' => (!is_link(rest), 1),
            '!' => (rest[1..].starts_with('['), 1),
            other => (false, other.len_utf8()),
        };
        if escaped {
            out.push('\\');
        }
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}

/// The position after the backticks that close the code which begins here with `run` backticks.
fn end_of_code(rest: &str, run: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(from) = rest[at..].find('`') {
        let here = &rest[at + from..];
        let ticks = here.len() - here.trim_start_matches('`').len();
        at += from + ticks;
        if ticks == run {
            return Some(at);
        }
    }
    None
}

/// Whether this is `<https://…>` or `<mailto:…>`, which is a link and not HTML.
fn is_link(rest: &str) -> bool {
    let inside = rest[1..].split_once('>').map_or("", |(inside, _)| inside);
    ["http://", "https://", "mailto:"].iter().any(|scheme| inside.starts_with(scheme))
        && !inside.contains(|c: char| c.is_whitespace() || c == '<')
}

/// Finished Markdown for the beginning of a line. Its first characters do not make it a heading, list, quotation or
/// code.
pub(crate) fn line(markdown: &str) -> String {
    let markdown = markdown.trim_start();
    if markdown.starts_with(['#', '>', '-', '+', '=']) {
        return format!("\\{markdown}");
    }
    let digits = markdown.len() - markdown.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match markdown[digits..].starts_with(['.', ')']) && digits > 0 {
        true => format!("{}\\{}", &markdown[..digits], &markdown[digits..]),
        false => markdown.to_owned(),
    }
}

/// The target of a link in a form that Markdown and browsers read correctly. Characters of `also` are encoded too.
pub(crate) fn target(path: &str, also: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if is_hidden(c) || " \"'()<>[]\\^`{|}&*".contains(c) || also.contains(c) {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// A link by the author as Markdown.
///
/// # Errors
/// The problem: the link leads neither to the web, nor to an e-mail address, nor to a file next to the report.
pub(crate) fn link(to: &str) -> Result<String, BuiltinFault> {
    const SCHEMES: [&str; 3] = ["http", "https", "mailto"];
    if to.is_empty() {
        return Err(BuiltinFault::LinkEmpty);
    }
    if to.contains(|c: char| c.is_whitespace() || is_hidden(c)) {
        return Err(BuiltinFault::LinkWithBlanks { link: visible(to).to_string() });
    }
    match to.split(['/', '?', '#']).next().and_then(|first| first.split_once(':')) {
        Some((scheme, _)) if SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)) => {
            Ok(format!("<{}>", to.replace('<', "%3C").replace('>', "%3E")))
        }
        Some((scheme, _)) => Err(BuiltinFault::LinkOfOtherScheme { scheme: format!("{scheme}:") }),
        None if to.starts_with("//") || to.contains('\\') => Err(BuiltinFault::LinkNowhere { link: to.to_owned() }),
        None => Ok(format!("[{}]({})", text(to), target(to, ""))),
    }
}

/// The text without the folders of a machine: each absolute path of two or more names becomes its last name,
/// `…/photos`.
pub(crate) fn without_folders(text: &str) -> String {
    let ends = |c: char| c.is_whitespace() || "\"'`)]},;<>|，；、）”".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let before = &text[..text.len() - rest.len()];
        let end = if is_path(before, rest) { rest.find(ends).unwrap_or(rest.len()) } else { 0 };
        // The character at the end of the path may be escaped, and its `\` stays with it.
        let backslashes = rest[..end].len() - rest[..end].trim_end_matches('\\').len();
        let end = end - backslashes % 2;
        let names = names(&rest[..end]).into_iter().filter(|name| !name.is_empty() && !name.ends_with(':'));
        match names.collect::<Vec<_>>().as_slice() {
            [_, .., last] => {
                out.push_str("…/");
                out.push_str(last);
                rest = &rest[end..];
            }
            _ => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// The names of a path in Markdown. A `\` before a punctuation character belongs to that character; `\\` is one
/// backslash, which separates names.
fn names(path: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut from = 0;
    let mut chars = path.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let escaped = chars.next_if(|(_, next)| c == '\\' && next.is_ascii_punctuation());
        if c == '/' || c == '\\' && escaped.is_none_or(|(_, sign)| sign == '\\') {
            names.push(&path[from..at]);
            from = escaped.map_or(at, |(at, _)| at) + 1;
        }
    }
    names.push(&path[from..]);
    names
}

/// Whether an absolute path begins here. The rest of a link, and a link within the same site, are not paths.
fn is_path(before: &str, rest: &str) -> bool {
    let drive = matches!(rest.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    let sign = |c: char| c.is_whitespace() || "\"'([{=,;`>|：，（“".contains(c);
    let apart = before.is_empty() || before.ends_with(sign) && !before.ends_with("](") && !before.ends_with("](<");
    (drive || rest.starts_with('/') && !rest.starts_with("//")) && (apart || before.ends_with("file://"))
}

/// `without_folders` for a value that may be a path as a whole, including spaces.
pub fn value_without_folders(value: &str) -> String {
    let path = value.trim().trim_end_matches('/');
    match path.rsplit_once('/') {
        Some((_, name)) if path.starts_with('/') && !path.starts_with("//") => format!("…/{name}"),
        _ => without_folders(value),
    }
}

/// The text that a reader sees of a line of flow's Markdown: without escapes, code marks and bold.
pub(crate) fn plain(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    let mut chars = markdown.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek().is_some_and(char::is_ascii_punctuation) => out.extend(chars.next()),
            '`' => {}
            '*' if chars.next_if_eq(&'*').is_some() => {}
            c => out.push(c),
        }
    }
    out
}

/// The text for a picture. XML forbids hidden characters, and the drawing library would read text between two dollar
/// signs as a formula.
pub(crate) fn picture(text: &str) -> String {
    one_line(text).replace('$', "\\$")
}

/// The text as a CSV cell. Spreadsheets take some first characters for a formula, so an apostrophe marks those cells as
/// text.
pub fn cell(text: &str) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err() {
        true => format!("'{text}"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_stays_readable() {
        for plain in ["solo[version=v7,batch=16]", "mobilenet_v2", "C++", "批大小 16", "a & b", "AT&T x", "1.5", "-3"]
        {
            assert_eq!(text(plain), plain);
        }
        let told =
            ["x*y*", "_u_", "<b>", "[a](b)", "a[b](c)", "`c`", "&lt;", "~x~", "$x$", "a\nb\u{9b}", "", "x #", "a\\"];
        insta::assert_snapshot!(told.map(text).join("\n"), @r#"
        x\*y\*
        \_u\_
        \<b>
        \[a\](b)
        a\[b\](c)
        \`c\`
        \&lt;
        \~x\~
        \$x\$
        a b\\u{9b}
        ""
        x \#
        a\\
        "#);
        insta::assert_snapshot!(["solo[batch=16]", "a`b", "a|b", "x\ny"].map(code).join("\n"), @r#"
        `solo[batch=16]`
        a\`b
        a|b
        `x y`
        "#);
        insta::assert_snapshot!(["`photos` changed", "a ` b", "<x> `<y>` ``"].map(prose).join("\n"), @r"
        `photos` changed
        a \` b
        \<x> `<y>` \`\`
        ");
        insta::assert_snapshot!(["# a", "1. b", "2) c", "- d", "> e", "   f", "16: g", "**h**", "v7: i"].map(line).join("\n"), @r"
        \# a
        1\. b
        2\) c
        \- d
        \> e
        f
        16: g
        **h**
        v7: i
        ");
    }

    #[test]
    fn what_authors_write_has_neither_html_nor_pictures() {
        let same = [
            "**v7** against *v11*",
            "`a<b>` and ``x ` <y>``",
            "[a](https://x)",
            "<https://x.org>",
            "a \\< b",
            "a & b",
            "$x$",
        ];
        assert_eq!(same.map(authors), same);
        for (written, shown) in [
            ("a <b>b</b>", "a \\<b>b\\</b>"),
            ("![p](https://x/p.png)", "\\![p](https://x/p.png)"),
            ("![p][1]", "\\![p][1]"),
            ("<img src=https://x/p.png>", "\\<img src=https://x/p.png>"),
            ("<https://x onerror=y>", "\\<https://x onerror=y>"),
            // The backslash is escaped, and the next character is not.
            ("\\\\<b>", "\\\\\\<b>"),
            // A single backtick would turn following text into code, and code into HTML.
            ("a ` b", "a \\` b"),
            ("``` <b>", "\\`\\`\\` \\<b>"),
            ("`a`` <b>", "\\`a\\`\\` \\<b>"),
            ("a\\", "a\\\\"),
            ("<", "\\<"),
            ("a\n<b>", "a \\<b>"),
        ] {
            assert_eq!(authors(written), shown, "{written}");
        }
    }

    #[test]
    fn links_lead_to_the_web_to_mail_and_to_files() {
        let links = [
            "https://x.org/a_(b)?c=1&d#e",
            "HTTP://x",
            "mailto:a@b.c",
            "notes/a b.md",
            "notes/a(b)&amp;.md#c",
            "javascript:alert(1)",
            "java\nscript:alert(1)",
            "\u{1}javascript:x",
            "data:text/html,x",
            "vbscript:x",
            "//x.org",
            "\\\\x",
            "",
            "https://x>y<z",
            "javascript&#58;alert(1)",
            "./a:b",
        ];
        let told = links.map(|to| link(to).unwrap_or_else(|e| format!("! {e}")));
        insta::assert_snapshot!(told.join("\n"), @r"
        <https://x.org/a_(b)?c=1&d#e>
        <HTTP://x>
        <mailto:a@b.c>
        ! the link `notes/a b.md` has blanks or control characters in it; a blank is `%20`
        [notes/a(b)\&amp;.md#c](notes/a%28b%29%26amp;.md#c)
        ! a link cannot lead to `javascript:`
        ! the link `java\nscript:alert(1)` has blanks or control characters in it; a blank is `%20`
        ! the link `\u{1}javascript:x` has blanks or control characters in it; a blank is `%20`
        ! a link cannot lead to `data:`
        ! a link cannot lead to `vbscript:`
        ! `//x.org` is neither an address nor a path
        ! `\\x` is neither an address nor a path
        ! the link is empty
        <https://x%3Ey%3Cz>
        [javascript\&#58;alert(1)](javascript%26#58;alert%281%29)
        [./a:b](./a:b)
        ");
    }

    #[test]
    fn folders_of_a_machine_are_left_out_and_links_stay() {
        let told = [
            "/home/me/lab/photos/ of mine",
            "in `/data/x.csv`, (/mnt/a/b) and C:\\Users\\me\\x.txt",
            "数据集：/home/me/photos，见 file:///home/me/a",
            "https://x.org/a/b //x.org/a [a](/docs/a.md) v7/v11 and/or /s 1 /a",
            "</p> <https://x.org/a/b> …/photos ./a/b ~/a/b ../a/b",
            "/!\\[ x and /data/my\\_photos",
            "/\\\\®\\<b> C:\\\\Users\\\\me /data/a\\<b>",
        ];
        insta::assert_snapshot!(told.map(without_folders).join("\n"), @r#"
        …/photos of mine
        in `…/x.csv`, (…/b) and …/x.txt
        数据集：…/photos，见 file://…/a
        https://x.org/a/b //x.org/a [a](/docs/a.md) v7/v11 and/or /s 1 /a
        </p> <https://x.org/a/b> …/photos ./a/b ~/a/b ../a/b
        /!\[ x and …/my\_photos
        /\\®\<b> …/me …/a\<b>
        "#);
        let values =
            ["/photos", "/home/me/my photos/", "./photos", "synthetic photographs, 1000 in 10 classes", "/", "[/a/b]"];
        insta::assert_snapshot!(values.map(value_without_folders).join("\n"), @r#"
        …/photos
        …/my photos
        ./photos
        synthetic photographs, 1000 in 10 classes
        /
        […/b]
        "#);
    }

    #[test]
    fn a_cell_is_no_formula_and_a_number_is_a_number() {
        let cells = ["=1+1", "+x", "-x", "@x", "-3", "+1e5", "v7", "−3"].map(cell);
        assert_eq!(cells, ["'=1+1", "'+x", "'-x", "'@x", "-3", "+1e5", "v7", "−3"]);
    }
}
