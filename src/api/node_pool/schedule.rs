//! When a budget begins, as cron writes it: five fields, or one word. Says only whether that can be read.
//!
//! What can be read is what upstream's cron reads: lists, ranges, steps and names in each field, days of the week from 0
//! to 6. The CRD's pattern lets anything pass that has five parts.

const WORDS: [&str; 7] = [
    "annually", "yearly", "monthly", "weekly", "daily", "midnight", "hourly",
];

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// What one field of a schedule counts.
struct Unit {
    name: &'static str,
    least: u32,
    most: u32,
    /// The names of its values, from the least on.
    names: &'static [&'static str],
}

const UNITS: [Unit; 5] = [
    unit("minute", 0, 59, &[]),
    unit("hour", 0, 23, &[]),
    unit("day of the month", 1, 31, &[]),
    unit("month", 1, 12, &MONTHS),
    unit("day of the week", 0, 6, &DAYS),
];

const fn unit(name: &'static str, least: u32, most: u32, names: &'static [&'static str]) -> Unit {
    Unit {
        name,
        least,
        most,
        names,
    }
}

/// Why a schedule cannot be read, if it cannot.
pub(super) fn problem(schedule: &str) -> Option<String> {
    if let Some(word) = schedule.trim().strip_prefix('@') {
        let is_known = WORDS.contains(&word);
        return (!is_known).then(|| format!("{schedule:?} is none of @{}", WORDS.join(", @")));
    }
    let fields: Vec<&str> = schedule.split_ascii_whitespace().collect();
    if fields.len() != UNITS.len() {
        let names = UNITS.map(|unit| unit.name).join(", ");
        return Some(format!("{schedule:?} does not have five fields: {names}"));
    }
    let mut fields = fields.iter().zip(&UNITS);
    fields.find_map(|(field, unit)| unit.problem(field))
}

impl Unit {
    fn problem(&self, field: &str) -> Option<String> {
        let Self {
            name, least, most, ..
        } = self;
        let wrong = field.split(',').find(|item| !self.reads(item))?;
        Some(format!("{wrong:?} is no {name}, which is from {least} to {most}"))
    }

    /// Whether an item of a list can be read: a range, and every how many of it.
    fn reads(&self, item: &str) -> bool {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let is_step = |step: &str| number(step).is_some_and(|step| step > 0);
        step.is_none_or(is_step) && self.reads_range(range)
    }

    fn reads_range(&self, range: &str) -> bool {
        if matches!(range, "*" | "?") {
            return true;
        }
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let ends = self.value(first).zip(self.value(last));
        ends.is_some_and(|(first, last)| first <= last)
    }

    fn value(&self, text: &str) -> Option<u32> {
        let mut values = (self.least..).zip(self.names);
        let named = values.find(|(_, name)| text.eq_ignore_ascii_case(name));
        let value = named.map(|(value, _)| value).or_else(|| number(text))?;
        (self.least..=self.most).contains(&value).then_some(value)
    }
}

/// Digits alone: signs are no part of cron.
fn number(text: &str) -> Option<u32> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cron_reads_has_no_problem() {
        for schedule in [
            "0 9 * * 1-5",
            "*/15 0-23/2 1,15 jan-MAR Mon,wed-FRI",
            "5/10 * ? * ?",
            "0 0 31 2 *",
            "59 23 31 12 6",
            " 0\t9 *  * * ",
            "@hourly",
            "@midnight",
            "@annually",
        ] {
            assert_eq!(problem(schedule), None, "{schedule}");
        }
    }

    #[test]
    fn what_it_does_not_read_is_told_by_the_part_that_is_wrong() {
        for (schedule, part) in [
            ("99 99 * * *", "\"99\" is no minute, which is from 0 to 59"),
            ("0 24 * * *", "\"24\" is no hour"),
            ("0 0 0 * *", "\"0\" is no day of the month"),
            ("0 0 1 13 *", "\"13\" is no month"),
            ("0 0 1 mon *", "\"mon\" is no month"),
            ("0 0 * * 7", "\"7\" is no day of the week"),
            ("0 0 * * 5-1", "\"5-1\" is no day of the week"),
            ("0 0 * * fri-mon", "\"fri-mon\" is no day"),
            ("*/0 * * * *", "\"*/0\" is no minute"),
            ("1-2-3 * * * *", "\"1-2-3\" is no minute"),
            ("1/2/3 * * * *", "\"1/2/3\" is no minute"),
            ("1,,2 * * * *", "\"\" is no minute"),
            ("+1 * * * *", "\"+1\" is no minute"),
            ("-1 * * * *", "\"-1\" is no minute"),
            ("*-5 * * * *", "\"*-5\" is no minute"),
            ("99999999999 * * * *", "is no minute"),
            ("0 9 * * 1 2026", "does not have five fields"),
            ("0 9 * *", "does not have five fields"),
            ("", "does not have five fields"),
            ("@hourlyish", "is none of @annually, @yearly"),
            ("@every 5m", "is none of @annually"),
            ("@", "is none of @annually"),
        ] {
            let told = problem(schedule).unwrap_or_default();
            assert!(told.contains(part), "{schedule}: {told}");
        }
    }
}
