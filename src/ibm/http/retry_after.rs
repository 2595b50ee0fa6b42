//! `Retry-After`: seconds or an HTTP date, believed only up to a cap.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use jiff::Timestamp;

use crate::clock::between;

/// The longest wait a server can impose. IBM's windows are seconds to a minute; a header that says 10⁹ s is a fault,
/// and believing it would stop the provisioner for 30 years.
pub const RETRY_AFTER_MAX: Duration = Duration::from_mins(2);

/// How long the server asks us to wait, capped; `None` if it does not say so in a form that can be read.
pub fn parse(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    seconds(text)
        .or_else(|| until_date(text, now))
        .map(|wait| wait.min(RETRY_AFTER_MAX))
}

fn seconds(text: &str) -> Option<Duration> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs))
}

fn until_date(text: &str, now: Timestamp) -> Option<Duration> {
    let date = httpdate::parse_http_date(text).ok()?;
    Some(between(now, Timestamp::try_from(date).unwrap_or(Timestamp::MAX)))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn wait(value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(value).unwrap());
        parse(&headers, "2026-11-16T10:00:00Z".parse().unwrap())
    }

    #[test]
    fn seconds_and_dates_are_understood() {
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(
            wait("Mon, 16 Nov 2026 10:00:30 GMT"),
            Some(Duration::from_secs(30))
        );
    }

    #[test]
    fn a_date_in_the_past_means_now() {
        assert_eq!(wait("Mon, 16 Nov 2026 09:00:00 GMT"), Some(Duration::ZERO));
    }

    #[test]
    fn an_absurd_wait_is_capped() {
        assert_eq!(wait("1000000000"), Some(RETRY_AFTER_MAX));
        assert_eq!(wait("99999999999999999999999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(wait("Fri, 31 Dec 9999 23:59:59 GMT"), Some(RETRY_AFTER_MAX));
    }

    #[test]
    fn garbage_says_nothing() {
        for garbage in ["", "-1", "1.5", "soon", "0x10", "Mon, 99 Nov 2026 10:00:30 GMT"] {
            assert_eq!(wait(garbage), None, "{garbage}");
        }
    }

    proptest! {
        #[test]
        fn parsing_is_total_and_capped(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value);
            if let Some(wait) = parse(&headers, Timestamp::UNIX_EPOCH) {
                prop_assert!(wait <= RETRY_AFTER_MAX);
            }
        }
    }
}
