//! Checks requests. Every user of the machine reaches a loopback port, and every web page can make a browser send requests
//! to it. Only a browser that opened the printed link is served. Knows no runs.

use hyper::{HeaderMap, Method, header};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// Another method than GET.
    Method,
    /// A foreign host name, as in DNS rebinding.
    Host,
    /// It comes from another page.
    Origin,
    /// Neither the token of the link nor the cookie.
    Token,
}

/// The secrets of this process.
#[derive(Debug)]
pub(crate) struct Guard {
    port: u16,
    /// In the link.
    token: String,
    /// In the cookie.
    session: String,
}

impl Guard {
    pub(crate) fn new(port: u16, token: String, session: String) -> Guard {
        Guard { port, token, session }
    }

    /// The link to open.
    pub(crate) fn link(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    /// Another name for each server, because all ports of a host share their cookies.
    fn cookie_name(&self) -> String {
        format!("flow-view-{}", self.session.chars().take(8).collect::<String>())
    }

    /// The cookie for a browser that has the link.
    pub(crate) fn cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie_name(), self.session)
    }

    /// Whether this token is the link's.
    pub(crate) fn is_token(&self, token: &str) -> bool {
        same(token, &self.token)
    }

    /// Checks everything but the cookie.
    pub(crate) fn admit(&self, method: &Method, headers: &HeaderMap) -> Result<(), RefusalReason> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(RefusalReason::Method);
        }
        let host = only(headers, &header::HOST).filter(|host| is_loopback(host)).ok_or(RefusalReason::Host)?;
        match only(headers, &header::ORIGIN) {
            Some(origin) if origin != format!("http://{host}") => return Err(RefusalReason::Origin),
            None if headers.contains_key(header::ORIGIN) => return Err(RefusalReason::Origin),
            _ => {}
        }
        Ok(())
    }

    /// Checks that the request comes from the page itself, or from the address bar.
    pub(crate) fn identify(&self, headers: &HeaderMap) -> Result<(), RefusalReason> {
        if headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none") {
            return Err(RefusalReason::Origin);
        }
        let name = self.cookie_name();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        match pairs.any(|(own, value)| own == name && same(value, &self.session)) {
            true => Ok(()),
            false => Err(RefusalReason::Token),
        }
    }
}

/// The value of a header that is there once.
fn only<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// Whether a `Host` names this machine's loopback interface, with any port: ssh may forward another one.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1" || name == "::1"
}

/// Compares in a time that does not depend on where they differ.
fn same(given: &str, own: &str) -> bool {
    given.len() == own.len() && given.bytes().zip(own.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_loopback_names_are_served() {
        for good in ["localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080", "[::1]"] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "0.0.0.0:1",
            "[::2]",
        ] {
            assert!(!is_loopback(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_refused_and_why() {
        let guard = Guard::new(80, "token".into(), "secret-session".into());
        let admit = |method, all: &[(&'static str, &str)]| guard.admit(&method, &headers(all));
        let home = ("host", "localhost:80");
        assert_eq!(admit(Method::GET, &[home]), Ok(()));
        assert_eq!(admit(Method::POST, &[home]), Err(RefusalReason::Method));
        assert_eq!(admit(Method::GET, &[("host", "evil.example")]), Err(RefusalReason::Host));
        assert_eq!(admit(Method::GET, &[]), Err(RefusalReason::Host));
        assert_eq!(admit(Method::GET, &[home, ("origin", "http://localhost:80")]), Ok(()));
        assert_eq!(admit(Method::GET, &[home, ("origin", "http://evil.example")]), Err(RefusalReason::Origin));
        assert_eq!(admit(Method::GET, &[home, ("origin", "null")]), Err(RefusalReason::Origin));
        let identify = |all: &[(&'static str, &str)]| guard.identify(&headers(all));
        assert_eq!(identify(&[("cookie", "a=b; flow-view-secret-s=secret-session")]), Ok(()));
        assert_eq!(identify(&[("cookie", "flow-view-secret-s=secret-sessiom")]), Err(RefusalReason::Token));
        assert_eq!(identify(&[("cookie", "flow-view-other-se=secret-session")]), Err(RefusalReason::Token));
        assert_eq!(identify(&[]), Err(RefusalReason::Token));
        assert_eq!(
            identify(&[("cookie", "flow-view-secret-s=secret-session"), ("sec-fetch-site", "cross-site")]),
            Err(RefusalReason::Origin)
        );
    }
}
