//! Warnings: what a client should hear although its request succeeds.
//!
//! They are said wherever something is noticed, and travel in `Warning` headers of the answer to the request whose
//! task noticed it.

use std::cell::RefCell;

use axum::response::Response;
use http::{HeaderValue, header};

tokio::task_local! {
    static SAID: RefCell<Vec<String>>;
}

/// Says something to the client of the request that is being answered; the same thing is said once.
pub fn say(text: &str) {
    // Outside of a request nobody listens.
    let _ = SAID.try_with(|said| {
        let mut said = said.borrow_mut();
        if !said.iter().any(|earlier| earlier == text) {
            said.push(text.to_owned());
        }
    });
}

/// Answers a request, with the warnings that were said meanwhile.
pub async fn with_warnings(answer: impl Future<Output = Response>) -> Response {
    SAID.scope(RefCell::default(), async {
        let mut response = answer.await;
        for text in SAID.with(RefCell::take) {
            add(&mut response, &text);
        }
        response
    })
    .await
}

/// Adds a warning to an answer: code 299, nobody in particular, the text quoted.
pub fn add(response: &mut Response, text: &str) {
    if let Ok(value) = HeaderValue::from_str(&format!("299 - {text:?}")) {
        response.headers_mut().append(header::WARNING, value);
    }
}
