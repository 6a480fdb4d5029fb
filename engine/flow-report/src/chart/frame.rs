//! Text of a picture that is copied from its page: a title above the chart, and below it the model, the machine and the
//! day.

use minijinja::HtmlEscape;
use unicode_width::UnicodeWidthChar;

use super::{FONTS, WIDTH};
use crate::safe;

/// For a title and a caption: the line height, and the terminal columns that fit into the width of a chart. A wider
/// chart has room for more.
const TITLE: (f64, f64) = (20.0, 68.0);
const CAPTION: (f64, f64) = (16.0, 92.0);
const MARGIN: f64 = 12.0;

/// The drawing with a title and a caption; unchanged if its size is unknown.
pub(crate) fn framed(svg: &str, title: &str, caption: &str) -> String {
    let Some((width, height)) = size(svg) else { return svg.to_owned() };
    let lines = |text: &str, columns: f64| wrapped(&safe::picture(text), (columns * width / WIDTH) as usize);
    let (title, caption) = (lines(title, TITLE.1), lines(caption, CAPTION.1));
    let above = MARGIN / 2.0 + TITLE.0 * title.len() as f64;
    let below = CAPTION.0 * caption.len() as f64 + MARGIN / 2.0;
    let all = above + height + below;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {all}\" width=\"{width}\" height=\"{all}\" \
         font-family=\"{}\"><rect width=\"100%\" height=\"100%\" fill=\"white\" />",
        HtmlEscape(FONTS)
    );
    let mut text = |line: &str, y: f64, style: &str| {
        out += &format!("<text x=\"{MARGIN}\" y=\"{y}\" {style}>{}</text>", HtmlEscape(line));
    };
    for (at, line) in title.iter().enumerate() {
        text(line, TITLE.0 * (at as f64 + 1.0), "font-size=\"15\" font-weight=\"bold\" fill=\"black\"");
    }
    for (at, line) in caption.iter().enumerate() {
        text(line, above + height + CAPTION.0 * (at as f64 + 1.0) - 4.0, "font-size=\"12\" fill=\"#555555\"");
    }
    out += &svg.trim_end().replacen("<svg ", &format!("<svg y=\"{above}\" "), 1);
    out += "</svg>\n";
    out
}

/// Drawings stacked vertically.
pub(super) fn stacked(svgs: &[String]) -> String {
    if let [one] = svgs {
        return one.clone();
    }
    let (mut wide, mut y, mut inside) = (0.0_f64, 0.0, String::new());
    for (n, svg) in svgs.iter().enumerate() {
        let Some((width, height)) = size(svg) else { continue };
        // Names of clip paths are shared by the whole picture.
        let svg = svg.trim_end().replace("\"clip-", &format!("\"clip-{n}-")).replace("#clip-", &format!("#clip-{n}-"));
        inside += &svg.replacen("<svg ", &format!("<svg y=\"{y}\" "), 1);
        wide = wide.max(width);
        y += height;
    }
    let head = format!(
        "<svg viewBox=\"0 0 {wide} {y}\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{y}\">"
    );
    format!("{head}{inside}</svg>\n")
}

/// The drawing's own width and height.
fn size(svg: &str) -> Option<(f64, f64)> {
    let (_, rest) = svg.split_once("viewBox=\"0 0 ")?;
    let (size, _) = rest.split_once('"')?;
    let (width, height) = size.split_once(' ')?;
    Some((width.parse().ok()?, height.parse().ok()?))
}

/// Wraps a text at this many columns, at blanks if there are any.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let (mut line, mut width, mut blank) = (String::new(), 0, None);
    for c in text.chars() {
        let of = c.width().unwrap_or(0);
        if width + of > columns {
            let rest = blank.take().map_or_else(String::new, |at: usize| line.split_off(at));
            lines.push(std::mem::take(&mut line));
            line = rest.trim_start().to_owned();
            width = line.chars().filter_map(UnicodeWidthChar::width).sum();
        }
        if c == ' ' {
            if line.is_empty() {
                continue;
            }
            blank = Some(line.len());
        }
        line.push(c);
        width += of;
    }
    lines.extend((!line.trim().is_empty()).then_some(line));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_share_no_clip_path() {
        let svg =
            "<svg viewBox=\"0 0 640 100\"><clipPath id=\"clip-0\"/><g clip-path=\"url(#clip-0)\"/></svg>".to_owned();
        let out = stacked(&[svg.clone(), svg.clone()]);
        let document = roxmltree::Document::parse(&out).expect("XML");
        assert_eq!(document.root_element().attribute("height"), Some("200"));
        assert!(out.contains("clip-path=\"url(#clip-0-0)") && out.contains("id=\"clip-1-0\""), "{out}");
        assert_eq!(stacked(std::slice::from_ref(&svg)), svg);
    }

    #[test]
    fn a_frame_has_the_texts_and_room_for_them() {
        let svg = "<svg viewBox=\"0 0 640 384\" width=\"640\" height=\"384\"><g/></svg>";
        let out = framed(svg, "Epoch time <b>", &"many words ".repeat(20));
        let document = roxmltree::Document::parse(&out).expect("XML");
        let texts: Vec<&str> =
            document.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect();
        assert_eq!(texts.len(), 4, "{texts:?}");
        assert_eq!(texts[0], "Epoch time <b>");
        assert_eq!(document.root_element().attribute("height"), Some("464"));
        assert_eq!(framed("<svg/>", "a", "b"), "<svg/>");
        assert_eq!(wrapped("批大小 一二三四五", 6), ["批大小", "一二三", "四五"]);
    }
}
