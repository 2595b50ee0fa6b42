//! The embedded API server answers as a real one does.
//!
//! Each test sends the same requests, good and bad, to both, and compares status, reason, cause fields and object (see
//! `compare`). What a test expects is checked on each cluster alone, too, so it says something where only the embedded
//! one is at hand.
#![cfg(feature = "sim")]

mod applying;
mod compare;
mod creating;
mod defaulting;
mod deleting;
mod identity;
mod lab;
mod limiting;
mod listing;
mod objects;
mod patching;
mod pods;
mod random;
mod resources;
mod rules;
mod scaling;
mod subresources;
mod updating;
mod upgrading;
mod validating;
mod watching;
mod webhooks;
mod widgets;

use lab::Lab;

/// Where the suite's own custom kind is found: one with status and scale.
const WIDGETS: &str = "apis/conformance.example.com/v1";
