//! Answers requests with the page's files and with data of the run. No file is opened by a path from an address.

use std::{cell::RefCell, io::Write, rc::Rc, sync::Arc};

use flate2::{Compression, write::GzEncoder};
use flow_core::{AttemptId, InstanceId};
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Bytes,
    header::{self, HeaderName, HeaderValue},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    axes::ChartRequest,
    guard::{Guard, RefusalReason},
    record::Record,
};

/// Longer answers are compressed, in bytes: a page may be far away.
const LONG: usize = 64 << 10;
/// Maximum number of connections.
const MOST: usize = 256;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// The files of the page.
const FILES: &[(&str, &str, &str)] = &[
    ("/style.css", "text/css; charset=utf-8", include_str!("../page/style.css")),
    ("/app.js", SCRIPT, include_str!("../page/app.js")),
    ("/fold.js", SCRIPT, include_str!("../page/fold.js")),
    ("/draw.js", SCRIPT, include_str!("../page/draw.js")),
    ("/card.js", SCRIPT, include_str!("../page/card.js")),
    ("/words.js", SCRIPT, include_str!("../page/words.js")),
    ("/steps.js", SCRIPT, include_str!("../page/steps.js")),
    ("/curves.js", SCRIPT, include_str!("../page/curves.js")),
    ("/catalogue.js", SCRIPT, concat!("export default ", include_str!("../words.json"))),
    ("/icon.svg", "image/svg+xml", include_str!("../page/icon.svg")),
];
const INDEX: &str = include_str!("../page/index.html");

/// No inline script or style, nothing from elsewhere, in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// A report is a page of its own, which runs nothing, loads nothing, and is only framed by this page.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; base-uri 'none'; \
                             form-action 'none'; frame-ancestors 'self'";
static HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Shared by all connections.
#[derive(Clone)]
pub(crate) struct Page {
    guard: Rc<Guard>,
    /// The run, and the one that it is compared with.
    records: Rc<Vec<RefCell<Record>>>,
    places: Arc<Semaphore>,
}

type Answer = Response<Full<Bytes>>;

impl Page {
    pub(crate) fn new(guard: Guard, records: Vec<Record>) -> Page {
        let places = Arc::new(Semaphore::new(MOST));
        let records = Rc::new(records.into_iter().map(RefCell::new).collect());
        Page { guard: Rc::new(guard), records, places }
    }

    /// A place for one more connection, once there is one.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().acquire_owned().await.ok()
    }

    pub(crate) fn answer<B>(&self, request: &Request<B>) -> Answer {
        let mut answer = self.admitted(request).unwrap_or_else(refusal);
        for (name, value) in &HEADERS {
            answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
        }
        if request.method() == Method::HEAD {
            *answer.body_mut() = Full::default();
        }
        answer
    }

    fn admitted<B>(&self, request: &Request<B>) -> Result<Answer, RefusalReason> {
        let headers = request.headers();
        self.guard.admit(request.method(), headers)?;
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        if path == "/"
            && let Some(token) = value(query, "token")
        {
            if !self.guard.is_token(token) {
                return Err(RefusalReason::Token);
            }
            // The page with the cookie. Not a redirect: if another page had the link, a browser would not send the cookie
            // with it.
            let mut answer = self.content(path, query, headers);
            let cookie = HeaderValue::from_str(&self.guard.cookie());
            answer.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
            return Ok(answer);
        }
        self.guard.identify(headers)?;
        Ok(self.content(path, query, headers))
    }

    fn content(&self, path: &str, query: &str, headers: &HeaderMap) -> Answer {
        let none = || text(StatusCode::NOT_FOUND, TEXT, "there is nothing here".to_owned());
        if path == "/" {
            let lang = value(query, "lang").filter(|lang| ["en", "zh"].contains(lang)).unwrap_or(language(headers));
            return text(StatusCode::OK, HTML, INDEX.replacen("lang=\"en\"", &format!("lang=\"{lang}\""), 1));
        }
        if let Some((_, kind, content)) = FILES.iter().find(|(name, ..)| *name == path) {
            return text(StatusCode::OK, kind, (*content).to_owned());
        }
        let run = value(query, "run").map_or(Some(0), |run| run.parse::<usize>().ok());
        let Some(record) = run.and_then(|run| self.records.get(run)) else { return none() };
        let mut record = record.borrow_mut();
        let json = |value: Option<serde_json::Value>| value.map(|value| text(StatusCode::OK, JSON, value.to_string()));
        let found = match path.strip_prefix("/api/").and_then(|rest| rest.split_once('/').or(Some((rest, "")))) {
            Some(("updates", "")) => {
                let from = value(query, "from").and_then(|from| from.parse().ok()).unwrap_or(0);
                Some(events(record.updates(from, self.records.len(), crate::now()), headers))
            }
            Some(("report", id)) => {
                let lang = value(query, "lang").unwrap_or("en");
                let page = id.parse().ok().and_then(|id| record.report(InstanceId(id), lang));
                page.map(report)
            }
            Some(("result", id)) => json(id.parse().ok().and_then(|id| record.result(InstanceId(id)))),
            Some(("series", id)) => json(id.parse().ok().and_then(|id| record.series(InstanceId(id)))),
            Some(("axes", id)) => {
                let number = |name: &str| value(query, name).and_then(|value| value.parse::<f64>().ok());
                let index = |name: &str, or: usize| number(name).map_or(or, |value| value as usize);
                let wanted = ChartRequest {
                    parallel: value(query, "form") == Some("parallel"),
                    value: index("value", 0),
                    x: index("x", 0),
                    y: index("y", 1),
                    width: number("width").map_or(800.0, |width| width.clamp(200.0, 3000.0)),
                    lang: usize::from(value(query, "lang") == Some("zh")),
                };
                let until = number("until").map_or(u64::MAX, |until| until as u64);
                json(id.parse().ok().and_then(|id| record.axes(InstanceId(id), until, &wanted)))
            }
            Some(("log", id)) => {
                let log = id.parse().ok().and_then(|id| record.log(AttemptId(id)));
                log.map(|log| text(StatusCode::OK, TEXT, log))
            }
            _ => None,
        };
        found.unwrap_or_else(none)
    }
}

fn refusal(why: RefusalReason) -> Answer {
    let (status, phrase) = match why {
        RefusalReason::Method => (StatusCode::METHOD_NOT_ALLOWED, "this page only shows: GET"),
        RefusalReason::Host => (StatusCode::FORBIDDEN, "this page is served as 127.0.0.1 or localhost only"),
        RefusalReason::Origin => (StatusCode::FORBIDDEN, "another page asked for this; open the link in a new tab"),
        RefusalReason::Token => (
            StatusCode::FORBIDDEN,
            "Open the link that `flow view` printed, with its token. A new `flow view` has a new link.\n\
             请打开 `flow view` 打印的链接（含 token）；每次启动 `flow view` 的链接都不同。",
        ),
    };
    let mut answer = text(status, TEXT, phrase.to_owned());
    // Other users of the machine keep no place.
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Events, compressed if they are long and the browser can read that.
fn events(body: String, headers: &HeaderMap) -> Answer {
    let wanted = headers.get(header::ACCEPT_ENCODING).and_then(|wanted| wanted.to_str().ok()).unwrap_or_default();
    if body.len() < LONG || !wanted.contains("gzip") {
        return text(StatusCode::OK, JSON, body);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    match packed.write_all(body.as_bytes()).and_then(|()| packed.finish()) {
        Ok(packed) => {
            let mut answer = text(StatusCode::OK, JSON, String::new());
            *answer.body_mut() = Full::new(Bytes::from(packed));
            answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            answer
        }
        Err(_) => text(StatusCode::OK, JSON, body),
    }
}

fn report(page: String) -> Answer {
    let mut answer = text(StatusCode::OK, HTML, page);
    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(REPORT_POLICY));
    answer
}

fn text(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// A value of a query. The page's own values need no decoding.
fn value<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// The page's language: the first of the browser's that it has.
fn language(headers: &HeaderMap) -> &'static str {
    let wanted = headers.get(header::ACCEPT_LANGUAGE).and_then(|wanted| wanted.to_str().ok()).unwrap_or_default();
    let known = |one: &str| match one.trim().get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("zh") => Some("zh"),
        Some("en") => Some("en"),
        _ => None,
    };
    wanted.split(',').find_map(known).unwrap_or("en")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_are_compressed_for_browsers_that_can_read_that() {
        let gzip = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static("br, gzip"))]);
        let is_packed = |length: usize, headers: &HeaderMap| {
            events("7".repeat(length), headers).headers().contains_key(header::CONTENT_ENCODING)
        };
        assert!(is_packed(LONG, &gzip) && !is_packed(LONG - 1, &gzip) && !is_packed(LONG, &HeaderMap::new()));
    }
}
