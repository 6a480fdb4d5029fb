//! A report as one HTML page: its Markdown, and its charts as embedded pictures. The page loads and runs nothing. Only
//! the HTML that reports use is kept: `<details>`, `<summary>` and anchors. All other HTML, which only an author can
//! have written, is shown as text.

use std::collections::BTreeMap;

use minijinja::HtmlEscape;
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html::push_html};

use crate::safe;

const STYLE: &str = include_str!("../../templates/page.css");
/// If anything that loads resources gets through, the browser refuses it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// A report in one language.
pub(super) struct Article {
    pub(super) lang: String,
    /// The language's own name.
    pub(super) name: String,
    pub(super) markdown: String,
    /// Pictures by the file named in the Markdown, in `charts/`.
    pub(super) charts: BTreeMap<String, String>,
}

/// The page: a title, navigation, and the articles.
pub(super) fn page(articles: &[Article]) -> String {
    let mut title = None;
    let mut navigation = String::new();
    let mut body = String::new();
    for Article { lang, name, .. } in articles.iter().filter(|_| articles.len() > 1) {
        navigation += &format!("<a href=\"#{lang}\" lang=\"{lang}\">{name}</a>\n");
    }
    for article in articles {
        let lang = &article.lang;
        let (html, mut headings) = typeset(article);
        // The main heading is at the top; the sections are listed below it.
        let first = headings.iter().position(|heading| heading.level == HeadingLevel::H1).map(|at| headings.remove(at));
        title = title.or(first.map(|heading| heading.text));
        headings.retain(|heading| heading.level == HeadingLevel::H2);
        let entry =
            |heading: &Heading| format!("<li><a href=\"#{}\">{}</a></li>\n", heading.id, HtmlEscape(&heading.text));
        let list = match headings.len() {
            0 | 1 => String::new(),
            _ => format!("<nav>\n<ul>\n{}</ul>\n</nav>\n", headings.iter().map(entry).collect::<String>()),
        };
        let (head, rest) =
            html.split_once("</h1>\n").map_or((String::new(), &*html), |(h, r)| (format!("{h}</h1>\n"), r));
        body += &format!("<article id=\"{lang}\" lang=\"{lang}\">\n{head}{list}{rest}</article>\n");
    }
    let navigation = if navigation.is_empty() { navigation } else { format!("<nav>\n{navigation}</nav>\n") };
    let lang = articles.first().map_or("en", |article| &article.lang);
    let title = title.unwrap_or_default();
    format!(
        "<!doctype html>\n<html lang=\"{lang}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{navigation}{body}</body>\n</html>\n",
        HtmlEscape(&title)
    )
}

struct Heading {
    level: HeadingLevel,
    id: String,
    text: String,
}

/// An article as HTML, with its headings.
fn typeset(article: &Article) -> (String, Vec<Heading>) {
    let raw = |html: String| Event::InlineHtml(CowStr::from(html));
    let mut headings: Vec<Heading> = Vec::new();
    let mut heading = false;
    let mut links = Vec::new();
    let mut pictures = 0;
    // Number of open folds.
    let mut open = 0;
    let mut out: Vec<Event<'_>> = Vec::new();
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut events = Parser::new_ext(&article.markdown, options).peekable();
    while let Some(event) = events.next() {
        match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                heading = true;
                let id = format!("{}-{}", article.lang, headings.len() + 1);
                headings.push(Heading { level, id: id.clone(), text: String::new() });
                out.push(Event::Start(Tag::Heading { level, id: Some(id.into()), classes, attrs }));
            }
            Event::End(TagEnd::Heading(_)) => {
                heading = false;
                let id = headings.last().map_or("", |heading| &heading.id);
                out.push(raw(format!(" <a class=\"anchor\" href=\"#{id}\" aria-hidden=\"true\">#</a>")));
                out.push(event);
            }
            // A wide table scrolls by itself, not the page.
            Event::Start(Tag::Table(_)) => out.extend([raw("<div class=\"table\" tabindex=\"0\">".into()), event]),
            Event::End(TagEnd::Table) => out.extend([event, raw("</div>\n".into())]),
            Event::Start(Tag::Image { dest_url, .. }) => {
                let alt = text_until(&mut events, TagEnd::Image);
                let chart = dest_url.strip_prefix("charts/").and_then(|file| article.charts.get(file));
                let Some(svg) = chart else {
                    out.push(Event::Text(alt.into()));
                    continue;
                };
                pictures += 1;
                let svg = own_ids(svg.trim_end(), &format!("{}-{pictures}", article.lang));
                let label = HtmlEscape(&alt);
                out.push(raw(format!("<span class=\"chart\" role=\"img\" aria-label=\"{label}\">{svg}</span>")));
                // A picture without a caption gets its label as one.
                if matches!(events.peek(), Some(Event::End(TagEnd::Paragraph))) {
                    out.push(raw(format!("<span class=\"caption\">{label}</span>")));
                }
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                links.push(safe::link(&dest_url).is_ok());
                // Each language has separate targets.
                let dest_url = match dest_url.strip_prefix('#') {
                    Some(target) => format!("#{}-{target}", article.lang).into(),
                    None => dest_url,
                };
                let link = Event::Start(Tag::Link { link_type, dest_url, title, id });
                out.extend(links.last().is_some_and(|leads| *leads).then_some(link));
            }
            Event::End(TagEnd::Link) => out.extend(links.pop().is_some_and(|leads| leads).then_some(event)),
            Event::Start(Tag::HtmlBlock) => {
                let html = text_until(&mut events, TagEnd::HtmlBlock);
                if let Some(kept) = folds(&html, &article.lang, &mut open) {
                    out.push(raw(kept));
                } else if !is_comment(&html) {
                    out.extend([Event::Start(Tag::Paragraph), Event::Text(html.into()), Event::End(TagEnd::Paragraph)]);
                }
            }
            Event::InlineHtml(html) | Event::Html(html) => match folds(&html, &article.lang, &mut open) {
                Some(kept) => out.push(raw(kept)),
                None => out.extend((!is_comment(&html)).then_some(Event::Text(html))),
            },
            Event::Text(ref text) | Event::Code(ref text) if heading => {
                headings.iter_mut().next_back().into_iter().for_each(|heading| heading.text += text);
                out.push(event);
            }
            other => out.push(other),
        }
    }
    out.push(raw("</details>".repeat(open)));
    let mut html = String::new();
    push_html(&mut html, out.into_iter());
    (html, headings)
}

/// The text of an element, up to its end.
fn text_until<'a>(events: &mut impl Iterator<Item = Event<'a>>, end: TagEnd) -> String {
    let mut text = String::new();
    for event in events {
        match event {
            Event::End(tag) if tag == end => break,
            Event::Text(part) | Event::Code(part) | Event::Html(part) | Event::InlineHtml(part) => text += &part,
            Event::SoftBreak | Event::HardBreak => text.push(' '),
            _ => {}
        }
    }
    text
}

/// The same HTML if it is only the start or end of a fold, its summary, or a link target. `open` counts folds, so that
/// each one that starts also ends.
fn folds(html: &str, lang: &str, open: &mut usize) -> Option<String> {
    let mut kept = String::new();
    let mut depth = *open;
    for line in html.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let inside = |begin: &str, end: &str| line.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
        if line == "<details>" {
            depth += 1;
            kept += "<details>\n";
        } else if line == "</details>" {
            depth = depth.checked_sub(1)?;
            kept += "</details>\n";
        } else if let Some(summary) = inside("<summary>", "</summary>") {
            kept += &format!("<summary>{}</summary>\n", HtmlEscape(summary));
        } else if line != "</a>" {
            let id = inside("<a id=\"", "\"></a>").or_else(|| inside("<a id=\"", "\">"))?;
            let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            if id.is_empty() || !id.chars().all(plain) {
                return None;
            }
            kept += &format!("<a id=\"{lang}-{id}\"></a>");
        }
    }
    *open = depth;
    Some(kept)
}

fn is_comment(html: &str) -> bool {
    html.trim().strip_prefix("<!--").and_then(|rest| rest.find("-->").map(|end| end + 3 == rest.len())).unwrap_or(false)
}

/// Makes the ids in a picture unique, because all pictures of a page share them.
fn own_ids(svg: &str, of: &str) -> String {
    svg.replace("id=\"clip-", &format!("id=\"{of}-clip-")).replace("url(#clip-", &format!("url(#{of}-clip-"))
}
