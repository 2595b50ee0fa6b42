//! The indexes of a job's pods, and sets of them as the API writes them: `0,2-5,7`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

/// The label and annotation with a pod's index.
pub(super) const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The index of a pod.
pub(super) fn index(pod: &Pod) -> Option<i32> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(COMPLETION_INDEX)?.parse().ok()
}

/// Reads a set of indexes; what makes no sense is left out.
pub(super) fn parse(text: &str) -> BTreeSet<i32> {
    let ranges = text.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    });
    ranges.flatten().collect()
}

/// Writes a set of indexes; three or more in a row are a range.
pub(super) fn format(indexes: &BTreeSet<i32>) -> String {
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let parts: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        })
        .collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_are_written_as_ranges() {
        assert_eq!(format(&[0, 2, 3, 5, 6, 7].into()), "0,2,3,5-7");
        assert_eq!(format(&BTreeSet::new()), "");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(indexes in proptest::collection::btree_set(0i32..50, 0..30)) {
            prop_assert_eq!(parse(&format(&indexes)), indexes);
        }
    }
}
