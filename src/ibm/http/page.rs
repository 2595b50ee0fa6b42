//! Lists in pages: all of it or an error, never a part.

use std::collections::BTreeSet;

use super::Operation;
use crate::cloud::{Answer, Effect, Error};

/// Far beyond any account (at 100 items a page: a million); a list that goes on after that is a server gone wrong.
const PAGES_MAX: usize = 10_000;

/// One page, in whichever form the service has it.
#[derive(Debug)]
pub struct Page<T> {
    /// Its items.
    pub items: Vec<T>,
    /// What to send to get the next one; `None` on the last.
    pub next: Option<String>,
    /// How many items the server says there are in all, if it says so.
    pub total: Option<u64>,
}

/// Follows every page. `fetch` must send the same filters each time: a token need not carry them. `identity` is what
/// no two different items share, so that an item seen on two pages counts once.
///
/// Guarantees: each item once; an error if any page fails, if a token repeats, or if fewer items came than every
/// page's total announced (an item lost between pages).
///
/// `fetch` is a closure that returns a future, not an async closure: whether the future of one of those may move
/// between threads cannot be told by the compiler yet, and then no list could be read in a spawned task.
pub async fn all<T, F>(
    operation: Operation,
    identity: fn(&T) -> &str,
    mut fetch: impl FnMut(Option<String>) -> F,
) -> Result<Vec<T>, Error>
where
    F: Future<Output = Result<Page<T>, Error>>,
{
    let mut items: Vec<T> = Vec::new();
    let (mut seen, mut tokens) = (BTreeSet::new(), BTreeSet::new());
    let (mut token, mut announced): (Option<String>, Option<u64>) = (None, None);
    for _ in 0..PAGES_MAX {
        let page = fetch(token).await?;
        announced = [announced, page.total].into_iter().flatten().min();
        for item in page.items {
            if seen.insert(identity(&item).to_owned()) {
                items.push(item);
            }
        }
        let Some(next) = page.next else {
            return complete(operation, items, announced);
        };
        if !tokens.insert(next.clone()) {
            return Err(broken(operation, "the server repeats a page token"));
        }
        token = Some(next);
    }
    Err(broken(
        operation,
        &format!("the list has more than {PAGES_MAX} pages"),
    ))
}

fn complete<T>(operation: Operation, items: Vec<T>, announced: Option<u64>) -> Result<Vec<T>, Error> {
    let announced = announced.unwrap_or(0);
    if (items.len() as u64) < announced {
        return Err(broken(
            operation,
            &format!("{} of at least {announced} items came", items.len()),
        ));
    }
    Ok(items)
}

fn broken(operation: Operation, problem: &str) -> Error {
    let answer = Answer {
        operation: operation.name,
        message: problem.to_owned(),
        ..Answer::default()
    };
    Error::Transient {
        effect: Effect::None,
        answer: Box::new(answer),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ibm::http::Service;

    const LIST: Operation = Operation::list(Service::Vpc, "list things");

    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
    struct Thing(String);

    fn things(names: &[u32]) -> Vec<Thing> {
        names.iter().map(|n| Thing(n.to_string())).collect()
    }

    fn list(pages: Vec<Result<Page<Thing>, Error>>) -> Result<Vec<Thing>, Error> {
        let mut pages = pages.into_iter();
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(all(
                LIST,
                |thing: &Thing| &thing.0,
                |_| std::future::ready(pages.next().expect("one page too many")),
            ))
    }

    #[expect(clippy::unnecessary_wraps, reason = "stands beside pages that fail")]
    fn page(names: &[u32], next: Option<&str>, total: Option<u64>) -> Result<Page<Thing>, Error> {
        Ok(Page {
            items: things(names),
            next: next.map(str::to_owned),
            total,
        })
    }

    #[test]
    fn a_repeated_token_is_an_error_and_no_endless_loop() {
        let pages = vec![
            page(&[1], Some("a"), None),
            page(&[2], Some("b"), None),
            page(&[3], Some("a"), None),
        ];
        assert_eq!(list(pages).unwrap_err().kind(), "transient");
    }

    #[test]
    fn an_item_lost_between_pages_is_an_error() {
        let pages = vec![page(&[1, 2], Some("a"), Some(4)), page(&[4], None, Some(4))];
        assert_eq!(list(pages).unwrap_err().kind(), "transient");
    }

    #[test]
    fn a_list_that_grows_or_shrinks_meanwhile_is_no_error() {
        let grown = vec![page(&[1, 2], Some("a"), Some(2)), page(&[3], None, Some(3))];
        assert_eq!(list(grown).unwrap(), things(&[1, 2, 3]));
        let shrunk = vec![page(&[1, 2], Some("a"), Some(4)), page(&[3], None, Some(3))];
        assert_eq!(list(shrunk).unwrap(), things(&[1, 2, 3]));
    }

    proptest! {
        #[test]
        fn any_split_into_pages_gives_the_same_set_or_an_error(
            names in prop::collection::btree_set(any::<u32>(), 0..60),
            cuts in prop::collection::vec(1usize..20, 1..30),
            fails_at in prop::option::of(0usize..12),
            repeats in prop::bool::ANY,
        ) {
            let names: Vec<u32> = names.into_iter().collect();
            let mut rest = names.as_slice();
            let mut pages = Vec::new();
            let mut cuts = cuts.into_iter().cycle();
            while !rest.is_empty() || pages.is_empty() {
                let (head, tail) = rest.split_at(rest.len().min(cuts.next().unwrap()));
                // An item may show up again on the next page when the list shifts under the reader.
                let shown: Vec<u32> = head.iter().copied().chain(tail.first().copied().filter(|_| repeats)).collect();
                let token = format!("t{}", pages.len());
                pages.push(page(&shown, (!tail.is_empty()).then_some(token.as_str()), Some(names.len() as u64)));
                rest = tail;
            }
            let broken_page = fails_at.filter(|at| *at < pages.len());
            if let Some(at) = broken_page {
                pages[at] = Err(broken(LIST, "page fails"));
            }
            match list(pages) {
                Ok(items) => {
                    prop_assert!(broken_page.is_none());
                    prop_assert_eq!(items, things(&names));
                }
                Err(_) => prop_assert!(broken_page.is_some()),
            }
        }
    }
}
