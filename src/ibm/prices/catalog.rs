//! Looks prices up in the Global Catalog, along the one way through its tree that ends at them.
//!
//! Profiles name the plan that sells them; the plan's children are its deployments, one per region (or, for gen2, one
//! per profile and region); the deployment has the price. Asked one level higher the catalogue answers 200 with
//! zeros. Public entries need no token.

use std::collections::BTreeMap;
use std::future::Future;

use futures::StreamExt;
use futures::stream;
use http::Method;
use serde::de::DeserializeOwned;

use super::body::{Entries, Entry, Pricing, Profile};
use super::select::{self, Form, Published};
use super::table::Extent;
use crate::cloud::{Answer, Effect, Error};
use crate::ibm::http::page::{self, Page};
use crate::ibm::http::{Api, Call, Operation, Service};

/// Look-ups under way at once. A full reading is about 206 plans, each listed and priced, and some 60 gen2 profiles
/// of one plan: 480 calls. At 0.3 s a call eight at once make 27 a second, more than any sensible rate limit gives, so
/// the limit decides (10 a second: 48 s), and none of the eight waits for its permit as much as a second.
const IN_FLIGHT_MAX: usize = 8;

/// A reading is given up after this many look-ups in a row without an answer: the catalogue is down, and at up to half
/// a minute of retries each the other 400 would take longer than the wait for the next reading. Failures in between
/// answers are only counted.
const FAILURES_IN_A_ROW_MAX: usize = 10;

/// How many rate limits one look-up sits out. Each lasts two minutes at most, so a catalogue that refuses everything
/// is left alone after a quarter of an hour.
const RATE_LIMITS_MAX: usize = 3;

/// The largest page that is known to work.
const PAGE_ENTRIES: usize = 200;

const LIST_PROFILES: Operation = Operation::list(Service::Catalog, "list catalogue profiles");
const LIST_DEPLOYMENTS: Operation = Operation::on(Service::Catalog, "list catalogue deployments", "plan");
const READ_PRICING: Operation = Operation::on(Service::Catalog, "read catalogue pricing", "deployment");

/// The Global Catalog.
#[derive(Clone)]
pub struct Catalog {
    api: Api,
}

/// What one walk through the catalogue gave.
#[derive(Debug, Default)]
pub struct Reading {
    /// By profile, wherever all its look-ups were answered.
    pub published: BTreeMap<String, Published>,
    /// How many look-ups were not answered.
    pub failures: usize,
    /// The first of them, as an example.
    pub first_failure: Option<Error>,
    failures_in_a_row: usize,
}

/// A profile and the deployments that have its price.
struct Offer {
    profile: Profile,
    deployments: Vec<(String, Form)>,
}

impl Reading {
    /// Whether anything is missing.
    pub fn extent(&self) -> Extent {
        if self.failures == 0 {
            Extent::Complete
        } else {
            Extent::Partial
        }
    }
}

impl Catalog {
    /// The catalogue behind `api`, which needs no authentication. Its 429s are about these look-ups alone, so `api`
    /// should draw from a budget of its own, or a reading can hold up the buying of machines.
    pub fn new(api: Api) -> Self {
        Self { api }
    }

    /// Reads the prices of all profiles in `region`. Fails if not even the profiles can be listed; look-ups that fail
    /// further down leave out their profiles and are counted.
    pub async fn read(&self, region: &str) -> Result<Reading, Error> {
        let mut plans: BTreeMap<String, Vec<Profile>> = BTreeMap::new();
        for profile in self.profiles().await? {
            plans.entry(profile.plan.clone()).or_default().push(profile);
        }
        let mut reading = Reading::default();
        let plans = plans
            .into_iter()
            .map(|(plan, profiles)| self.offers(plan, profiles, region))
            .collect();
        let offers = reading.gather(plans).await.into_iter().flatten();
        let prices = offers.map(|offer| self.published(offer, region)).collect();
        reading.published = reading.gather(prices).await.into_iter().collect();
        Ok(reading)
    }

    async fn profiles(&self) -> Result<Vec<Profile>, Error> {
        let entries = self
            .entries(LIST_PROFILES, &[""], "kind:instance.profile", "metadata.other")
            .await?;
        let profiles: Vec<Profile> = entries.iter().filter_map(Entry::profile).collect();
        if profiles.is_empty() {
            // Any JSON object reads as a page without entries; IBM selling nothing is the less likely reason.
            let message = "there is no profile in the answer".to_owned();
            let answer = Box::new(Answer {
                operation: LIST_PROFILES.name,
                message,
                ..Answer::default()
            });
            return Err(Error::Undecodable {
                effect: Effect::None,
                answer,
            });
        }
        Ok(profiles)
    }

    /// Where the prices of `profiles`, all sold by `plan`, are in `region`.
    async fn offers(&self, plan: String, profiles: Vec<Profile>, region: &str) -> Result<Vec<Offer>, Error> {
        let listed = self
            .entries(LIST_DEPLOYMENTS, &[&plan, "deployment"], region, "*")
            .await;
        let entries = or_nothing(listed)?;
        let alone = profiles.len() == 1;
        let offer = |profile: Profile| {
            let name = format!("{}-{region}", profile.name);
            let composite = |entry: &&Entry| entry.is_composite() && entry.name() == name;
            let whole = |entry: &&Entry| alone && !entry.is_composite() && entry.location() == region;
            let of_form = |form| move |entry: &Entry| (entry.id().to_owned(), form);
            let mut deployments: Vec<_> = entries
                .iter()
                .filter(composite)
                .map(of_form(Form::Composite))
                .collect();
            if deployments.is_empty() {
                deployments = entries.iter().filter(whole).map(of_form(Form::Whole)).collect();
            }
            Offer { profile, deployments }
        };
        Ok(profiles.into_iter().map(offer).collect())
    }

    /// What all deployments of the offer say together. Composite ones come in duplicates at times.
    async fn published(&self, offer: Offer, region: &str) -> Result<(String, Published), Error> {
        let mut said = Vec::new();
        for (deployment, form) in &offer.deployments {
            let call = || Call::new(READ_PRICING, Method::GET, &[deployment, "pricing"]).about(deployment);
            let pricing: Pricing = or_nothing(self.fetch(call).await)?;
            said.push(select::select(&pricing, &offer.profile, region, *form));
        }
        Ok((offer.profile.name, select::agree(&said)))
    }

    /// All pages of the list at `path`.
    async fn entries(
        &self,
        operation: Operation,
        path: &[&str],
        query: &str,
        include: &str,
    ) -> Result<Vec<Entry>, Error> {
        page::all(operation, Entry::id, |token| async move {
            let offset = token.unwrap_or_else(|| "0".to_owned());
            let call = || {
                Call::new(operation, Method::GET, path)
                    .about(path[0])
                    .query("q", query)
                    .query("include", include)
                    .query("_offset", offset.as_str())
                    .query("_limit", PAGE_ENTRIES.to_string())
            };
            let Entries { total, entries } = self.fetch(call).await?;
            let seen = offset.parse().unwrap_or(0) + entries.len();
            let more = match total {
                Some(total) => !entries.is_empty() && (seen as u64) < total,
                None => entries.len() >= PAGE_ENTRIES,
            };
            // The total steers the pages but is not enforced: a price table takes nothing away for what it does not
            // see, so a list that fell short of its announcement is better than none.
            Ok(Page {
                items: entries,
                next: more.then(|| seen.to_string()),
                total: None,
            })
        })
        .await
    }

    /// Sends the call, and again when a rate limit is over: nobody waits for prices, so a reading has the time that a
    /// request has not.
    async fn fetch<T: DeserializeOwned>(&self, call: impl Fn() -> Call) -> Result<T, Error> {
        for _ in 0..RATE_LIMITS_MAX {
            match self.api.fetch(call()).await {
                Err(Error::RateLimited { until, .. }) => tokio::time::sleep_until(until).await,
                outcome => return outcome,
            }
        }
        self.api.fetch(call()).await
    }
}

impl Reading {
    /// Runs `calls`, a bounded number at once, and keeps the answers; counts the failures and stops at too many in a
    /// row.
    async fn gather<T>(&mut self, calls: Vec<impl Future<Output = Result<T, Error>>>) -> Vec<T> {
        let mut answers = Vec::new();
        let mut running = stream::iter(calls).buffer_unordered(IN_FLIGHT_MAX);
        while self.failures_in_a_row < FAILURES_IN_A_ROW_MAX {
            match running.next().await {
                Some(Ok(answer)) => {
                    self.failures_in_a_row = 0;
                    answers.push(answer);
                }
                Some(Err(error)) => {
                    self.failures += 1;
                    self.failures_in_a_row += 1;
                    self.first_failure.get_or_insert(error);
                }
                None => break,
            }
        }
        answers
    }
}

/// What is not in the catalogue has no price there; that is an answer and no failure.
fn or_nothing<T: Default>(outcome: Result<T, Error>) -> Result<T, Error> {
    match outcome {
        Err(Error::NotFound(_)) => Ok(T::default()),
        other => other,
    }
}
