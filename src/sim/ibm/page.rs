//! Pages of a list: `start`, `limit`, `first`, `next`.
//!
//! A token is a position, so that nothing is missed or repeated when the list changes between two pages; it does not
//! hold the filters, which the caller must repeat.

use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::faults::{FaultKind, Faults};
use super::ids;

/// The page size without `limit`.
const LIMIT_DEFAULT: usize = 50;
/// The largest page.
const LIMIT_MAX: usize = 100;
/// Makes tokens look like what they are: none of the caller's business.
const TOKEN_MASK: u64 = 0x5bd1_e995_9e37_79b9;

/// One page: which items, and how to go on.
pub(super) struct Page {
    ids: Vec<String>,
    limit: usize,
    total: usize,
    next: Option<String>,
}

/// Cuts the page that `ask` wants out of `items`, which are in order of their (unique) position.
pub(super) fn cut(ask: &Ask, faults: &mut Faults, items: &[(u64, String)]) -> Result<Page, Refusal> {
    let most = limit(ask)?;
    let mut limit = most;
    let after = ask
        .query("start")
        .map(|token| position(token).ok_or_else(|| expired(token)))
        .transpose()?;
    if let (Some(token), true) = (ask.query("start"), after.is_some()) {
        if faults.hits(FaultKind::PageTokenExpired, ask.operation) {
            return Err(expired(token));
        }
        if faults.hits(FaultKind::PageFails, ask.operation) {
            return Err(Refusal::server(http::StatusCode::INTERNAL_SERVER_ERROR));
        }
    }
    if faults.may_hit(FaultKind::SmallPages, ask.operation) {
        // Of any magnitude alike: evenly drawn up to a hundred, a list of ten would hardly ever have a second page.
        let magnitude = most.min(1 << faults.pick(7));
        limit = faults.pick(magnitude) + 1;
    }
    let mut from = after.map_or(0, |after| items.partition_point(|(at, _)| *at <= after));
    if from > 0 && faults.hits(FaultKind::PageMisses, ask.operation) {
        from = (from + 1).min(items.len());
    }
    let repeat = usize::from(from > 0 && faults.hits(FaultKind::PageRepeats, ask.operation));
    let to = (from + limit).min(items.len());
    if to < (from + most).min(items.len()) {
        faults.note(FaultKind::SmallPages, ask.operation);
    }
    let next = (to < items.len())
        .then(|| to.checked_sub(1).map(|last| token(items[last].0)))
        .flatten();
    let ids = items[from - repeat..to]
        .iter()
        .map(|(_, id)| id.clone())
        .collect();
    Ok(Page {
        ids,
        limit,
        total: items.len(),
        next,
    })
}

impl Page {
    /// The answer: `path` is the collection's below `/v1`, `name` the field with the items.
    pub(super) fn answer(
        self,
        region: &str,
        path: &str,
        name: &str,
        body: impl Fn(&str) -> Option<Value>,
    ) -> Answer {
        let items: Vec<Value> = self.ids.iter().filter_map(|id| body(id)).collect();
        let href =
            |rest: &str| json!({ "href": format!("{}?limit={}{rest}", ids::href(region, path), self.limit) });
        let mut answer =
            json!({ "first": href(""), "limit": self.limit, "total_count": self.total, name: items });
        if let Some(token) = &self.next {
            answer["next"] = href(&format!("&start={token}"));
        }
        Answer::ok(answer)
    }
}

fn limit(ask: &Ask) -> Result<usize, Refusal> {
    let Some(text) = ask.query("limit") else {
        return Ok(LIMIT_DEFAULT);
    };
    let refuse =
        |code: &str| Refusal::parameter(code, "limit", Some(text), format!("limit must be 1..{LIMIT_MAX}"));
    match text.parse::<usize>() {
        Err(_) => Err(refuse("validation_invalid_field_type")),
        Ok(0) => Err(refuse("validation_min_value")),
        Ok(limit) if limit > LIMIT_MAX => Err(refuse("validation_max_value")),
        Ok(limit) => Ok(limit),
    }
}

fn token(position: u64) -> String {
    format!("{:016x}", position ^ TOKEN_MASK)
}

fn position(token: &str) -> Option<u64> {
    u64::from_str_radix(token, 16)
        .ok()
        .filter(|_| token.len() == 16)
        .map(|masked| masked ^ TOKEN_MASK)
}

fn expired(token: &str) -> Refusal {
    Refusal::parameter(
        "bad_field",
        "start",
        Some(token),
        "The start token is not valid or has expired",
    )
}
