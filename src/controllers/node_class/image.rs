//! Which image a class means: by id, by exact name, or the newest that its selector describes.
//!
//! IBM's own images say in their names what they are (`ibm-ubuntu-24-04-4-minimal-amd64-6`: system, version, variant,
//! architecture, build); an image of the account is described by its operating system (`ubuntu-24-04-amd64`).

use std::collections::BTreeSet;

use super::allow::AllowLists;
use super::judge::Problem;
use crate::api::{IBMNodeClassSpec, ImageSelector};
use crate::cloud::{Image, ImageQuery, ImageState, Owner};

/// What stock images are called, and everything that others call them.
const RED_HAT: [&str; 3] = ["red", "redhat", "rhel"];
/// The variant that is taken where several fit: what a node needs and little else.
const PREFERRED_VARIANT: &str = "minimal";

/// An image, and what there is to say about the choice.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) image: Image,
    pub(super) notes: Vec<String>,
}

/// What to ask the cloud for.
pub(super) fn query(spec: &IBMNodeClassSpec) -> ImageQuery {
    let owner = if spec.wants_stock_image() {
        Owner::Provider
    } else {
        Owner::Account
    };
    match &spec.image {
        Some(id) if spec.has_image_id() => ImageQuery::Id(id.clone()),
        Some(name) => ImageQuery::Named(name.clone(), owner),
        None => ImageQuery::All(owner),
    }
}

/// The image that the class means, among those that the cloud gave for [`query`].
pub(super) fn choose(
    spec: &IBMNodeClassSpec,
    images: &[Image],
    allowed: &AllowLists,
) -> Result<Chosen, Problem> {
    let chosen = match (&spec.image, &spec.image_selector) {
        (Some(written), _) => by_name(written, images),
        (None, Some(selector)) => by_description(selector, images, allowed),
        (None, None) => Err(Problem::new(
            "ImageNotFound",
            "the class names no image: set spec.image or spec.imageSelector".to_owned(),
        )),
    };
    chosen.map(|mut chosen| {
        if chosen.image.state == ImageState::Deprecated {
            let name = &chosen.image.name;
            chosen
                .notes
                .push(format!("image {name} is deprecated and will be withdrawn"));
        }
        chosen
    })
}

fn by_name(written: &str, images: &[Image]) -> Result<Chosen, Problem> {
    let mut usable: Vec<&Image> = images.iter().filter(|image| is_usable(image)).collect();
    usable.sort_by_key(|image| (image.state == ImageState::Available, image.created_at, &image.id));
    let Some(newest) = usable.last() else {
        return Err(match images.first() {
            Some(Image {
                state: ImageState::Unusable(word),
                ..
            }) => Problem::new(
                "ImageNotUsable",
                format!("image {written} cannot be booted, it is {word}: name another"),
            ),
            _ => Problem::new(
                "ImageNotFound",
                format!(
                    "there is no image {written} in this region that may be used: check spec.image and spec.imageOwner"
                ),
            ),
        });
    };
    let notes = (usable.len() > 1)
        .then(|| {
            format!(
                "{} images are called {written}: the newest, {}, is used; name one by id",
                usable.len(),
                newest.id
            )
        })
        .into_iter()
        .collect();
    Ok(Chosen {
        image: (*newest).clone(),
        notes,
    })
}

fn by_description(
    selector: &ImageSelector,
    images: &[Image],
    allowed: &AllowLists,
) -> Result<Chosen, Problem> {
    let fitting: Vec<(Traits, &Image)> = images
        .iter()
        .filter(|image| is_usable(image))
        .map(|image| (Traits::of(image), image))
        .filter(|(traits, _)| traits.fit(selector))
        .collect();
    let found_any = !fitting.is_empty();
    let allowed_ones = fitting.iter().filter(|(_, image)| allowed.has_image(image));
    let Some((best, image)) = allowed_ones.max_by_key(|(traits, image)| traits.rank(image)) else {
        let message = "no usable image fits spec.imageSelector: check os, versions, architecture and variant";
        return Err(if found_any {
            Problem::new(
                "NotAllowed",
                "no image that fits spec.imageSelector is among what --allowed-images allows".to_owned(),
            )
        } else {
            Problem::new("ImageNotFound", message.to_owned())
        });
    };
    let rivals = fitting
        .iter()
        .filter(|(traits, _)| traits.minor() == best.minor());
    let variants: BTreeSet<String> = rivals.map(|(traits, _)| traits.variant()).collect();
    let is_ambiguous = selector.variant.is_none() && variants.len() > 1;
    let notes = is_ambiguous
        .then(|| {
            let all: Vec<String> = variants.into_iter().collect();
            format!(
                "several variants fit ({}): {} is used; set spec.imageSelector.variant",
                all.join(", "),
                best.variant()
            )
        })
        .into_iter()
        .collect();
    Ok(Chosen {
        image: (*image).clone(),
        notes,
    })
}

fn is_usable(image: &Image) -> bool {
    !matches!(image.state, ImageState::Unusable(_))
}

/// What an image says about itself.
#[derive(Debug, PartialEq, Eq)]
struct Traits {
    os: String,
    version: Vec<u64>,
    /// Words of the name that are neither system, version, architecture nor build.
    variants: BTreeSet<String>,
    architecture: String,
    build: u64,
}

impl Traits {
    fn of(image: &Image) -> Self {
        let system = image.operating_system.as_deref().unwrap_or_default();
        let stock = image.name.strip_prefix("ibm-");
        let described: Vec<&str> = stock.unwrap_or(system).split('-').collect();
        let is_number = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let version = described
            .iter()
            .skip(1)
            .take_while(|word| is_number(word))
            .filter_map(|word| word.parse().ok())
            .collect();
        let named_architecture = system.rsplit('-').next().unwrap_or_default();
        let architecture = image.architecture.as_deref().unwrap_or(named_architecture);
        let words = image.name.split('-').filter(|word| !is_number(word));
        let os = described.first().copied().unwrap_or_default();
        Self {
            os: os.to_owned(),
            version,
            variants: words
                .filter(|word| ![os, architecture, "ibm"].contains(word))
                .map(str::to_owned)
                .collect(),
            architecture: architecture.to_owned(),
            build: image
                .name
                .rsplit('-')
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or_default(),
        }
    }

    fn fit(&self, selector: &ImageSelector) -> bool {
        let is = |written: &str, number: Option<&u64>| written.parse().ok().as_ref() == number;
        let same_os = self.os == selector.os
            || (RED_HAT.contains(&self.os.as_str()) && RED_HAT.contains(&selector.os.as_str()));
        let minor = selector.minor_version.as_deref();
        let variant = selector.variant.as_ref();
        same_os
            && self.architecture == selector.architecture()
            && is(&selector.major_version, self.version.first())
            && minor.is_none_or(|minor| is(minor, self.version.get(1)))
            && variant.is_none_or(|variant| self.variants.contains(variant))
    }

    fn minor(&self) -> Option<u64> {
        self.version.get(1).copied()
    }

    fn variant(&self) -> String {
        let words: Vec<&str> = self.variants.iter().map(String::as_str).collect();
        if words.is_empty() {
            "none".to_owned()
        } else {
            words.join("-")
        }
    }

    /// The highest is taken: one that stays, of the highest minor version, then the newest.
    fn rank(&self, image: &Image) -> impl Ord + use<> {
        (
            image.state == ImageState::Available,
            self.minor(),
            self.variants.contains(PREFERRED_VARIANT),
            self.version.clone(),
            image.created_at,
            self.build,
            image.id.clone(),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn image(name: &str, system: &str, state: ImageState) -> Image {
        Image {
            id: format!("id-of-{name}"),
            name: name.to_owned(),
            state,
            operating_system: Some(system.to_owned()),
            architecture: Some("amd64".to_owned()),
            minimum_gb: Some(10),
            created_at: None,
        }
    }

    fn stock() -> Vec<Image> {
        let ubuntu = |name: &str| image(name, "ubuntu-24-04-amd64", ImageState::Available);
        vec![
            ubuntu("ibm-ubuntu-24-04-3-minimal-amd64-9"),
            ubuntu("ibm-ubuntu-24-04-4-minimal-amd64-6"),
            ubuntu("ibm-ubuntu-24-04-4-minimal-amd64-11"),
            image(
                "ibm-ubuntu-24-10-1-minimal-amd64-1",
                "ubuntu-24-10-amd64",
                ImageState::Deprecated,
            ),
            image(
                "ibm-redhat-9-6-minimal-amd64-3",
                "red-9-amd64",
                ImageState::Available,
            ),
        ]
    }

    fn selected(selector: &Value, images: &[Image]) -> Result<Chosen, Problem> {
        let spec = json!({"region": "us-south", "vpc": "v", "imageSelector": selector});
        let spec = serde_json::from_value(spec).unwrap();
        choose(&spec, images, &AllowLists::default())
    }

    fn name_of(selector: &Value, images: &[Image]) -> String {
        selected(selector, images).unwrap().image.name
    }

    #[test]
    fn the_newest_build_of_the_highest_version_that_fits_is_chosen() {
        let selector = json!({"os": "ubuntu", "majorVersion": "24", "minorVersion": "04"});
        assert_eq!(
            name_of(&selector, &stock()),
            "ibm-ubuntu-24-04-4-minimal-amd64-11"
        );
    }

    #[test]
    fn one_that_stays_is_preferred_to_a_deprecated_one_and_a_deprecated_one_is_told() {
        let selector = json!({"os": "ubuntu", "majorVersion": "24"});
        assert_eq!(
            name_of(&selector, &stock()),
            "ibm-ubuntu-24-04-4-minimal-amd64-11"
        );
        let only = json!({"os": "ubuntu", "majorVersion": "24", "minorVersion": "10"});
        let chosen = selected(&only, &stock()).unwrap();
        assert!(chosen.notes[0].contains("deprecated"), "{:?}", chosen.notes);
    }

    #[test]
    fn red_hat_is_found_by_any_of_its_names() {
        for os in ["red", "redhat", "rhel"] {
            let selector = json!({"os": os, "majorVersion": "9", "minorVersion": "6"});
            assert_eq!(name_of(&selector, &stock()), "ibm-redhat-9-6-minimal-amd64-3");
        }
    }

    #[test]
    fn several_variants_are_told_and_the_smallest_is_used() {
        let mut images = stock();
        images.push(image(
            "ibm-ubuntu-24-04-5-server-amd64-1",
            "ubuntu-24-04-amd64",
            ImageState::Available,
        ));
        let open = json!({"os": "ubuntu", "majorVersion": "24"});
        let chosen = selected(&open, &images).unwrap();
        assert_eq!(chosen.image.name, "ibm-ubuntu-24-04-4-minimal-amd64-11");
        assert!(chosen.notes[0].contains("minimal, server"), "{:?}", chosen.notes);
        let closed = json!({"os": "ubuntu", "majorVersion": "24", "variant": "server"});
        let chosen = selected(&closed, &images).unwrap();
        assert_eq!(chosen.image.name, "ibm-ubuntu-24-04-5-server-amd64-1");
        assert_eq!(chosen.notes, Vec::<String>::new());
    }

    #[test]
    fn an_image_of_the_account_is_described_by_its_operating_system() {
        let own = [image("team-node", "ubuntu-24-04-amd64", ImageState::Available)];
        let selector = json!({"os": "ubuntu", "majorVersion": "24", "minorVersion": "4", "variant": "team"});
        assert_eq!(name_of(&selector, &own), "team-node");
    }

    #[test]
    fn nothing_fits_another_architecture_or_version() {
        for selector in [
            json!({"os": "ubuntu", "majorVersion": "24", "architecture": "s390x"}),
            json!({"os": "ubuntu", "majorVersion": "2"}),
            json!({"os": "fedora", "majorVersion": "24"}),
        ] {
            assert_eq!(selected(&selector, &stock()).unwrap_err().reason, "ImageNotFound");
        }
    }

    #[test]
    fn only_allowed_images_are_chosen_and_their_absence_is_no_absence_of_images() {
        let spec: IBMNodeClassSpec = serde_json::from_value(json!({
            "region": "us-south", "vpc": "v", "imageSelector": {"os": "ubuntu", "majorVersion": "24"},
        }))
        .unwrap();
        let mut allowed = AllowLists::default();
        allowed
            .images
            .insert("ibm-ubuntu-24-04-3-minimal-amd64-9".to_owned());
        let chosen = choose(&spec, &stock(), &allowed).unwrap();
        assert_eq!(chosen.image.name, "ibm-ubuntu-24-04-3-minimal-amd64-9");
        allowed.images = BTreeSet::from(["other".to_owned()]);
        assert_eq!(
            choose(&spec, &stock(), &allowed).unwrap_err().reason,
            "NotAllowed"
        );
    }

    #[test]
    fn a_name_that_two_images_have_means_the_newest_and_an_obsolete_one_is_refused() {
        let spec = |image: &str| -> IBMNodeClassSpec {
            serde_json::from_value(json!({"region": "us-south", "vpc": "v", "image": image})).unwrap()
        };
        let mut twins = vec![
            image("a", "x", ImageState::Available),
            image("a", "x", ImageState::Available),
        ];
        twins[1].id = "z".to_owned();
        let chosen = choose(&spec("a"), &twins, &AllowLists::default()).unwrap();
        assert_eq!(chosen.image.id, "z");
        assert!(
            chosen.notes[0].starts_with("2 images are called a"),
            "{:?}",
            chosen.notes
        );
        let obsolete = [image("a", "x", ImageState::Unusable("obsolete".to_owned()))];
        let problem = choose(&spec("a"), &obsolete, &AllowLists::default()).unwrap_err();
        assert_eq!(problem.reason, "ImageNotUsable");
    }

    #[test]
    fn names_that_only_ibm_can_give_are_looked_for_among_its_images() {
        let spec = |fields: Value| -> IBMNodeClassSpec {
            let mut spec = json!({"region": "us-south", "vpc": "v"});
            for (field, value) in fields.as_object().unwrap() {
                spec[field] = value.clone();
            }
            serde_json::from_value(spec).unwrap()
        };
        let named = |name: &str, owner| ImageQuery::Named(name.to_owned(), owner);
        let id = "r006-0b9f1b2c-3d4e-4f5a-8b6c-7d8e9f0a1b2c";
        let selector = json!({"os": "ubuntu", "majorVersion": "24"});
        for (fields, expected) in [
            (json!({"image": id}), ImageQuery::Id(id.to_owned())),
            (json!({"image": "ibm-a"}), named("ibm-a", Owner::Provider)),
            (json!({"image": "a"}), named("a", Owner::Account)),
            (
                json!({"image": "a", "imageOwner": "ibm"}),
                named("a", Owner::Provider),
            ),
            (
                json!({"imageSelector": selector}),
                ImageQuery::All(Owner::Provider),
            ),
            (
                json!({"imageSelector": selector, "imageOwner": "account"}),
                ImageQuery::All(Owner::Account),
            ),
        ] {
            assert_eq!(query(&spec(fields)), expected);
        }
    }
}
