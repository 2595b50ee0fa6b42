//! Many short entries on few lines.

/// How wide a page is.
const PAGE: usize = 100;
/// What is between two columns.
const GAP: &str = "  ";

/// The lines of a table: a name and numbers in each entry, in order down the first column and then down the next, as many
/// columns as a page has room for.
pub(super) fn columns<const N: usize>(entries: &[(&str, [u64; N])]) -> Vec<String> {
    let name_width = entries
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(|at| {
        let lengths = entries.iter().map(|(_, numbers)| short(numbers[at]).len());
        lengths.max().unwrap_or_default()
    });
    let cells: Vec<String> = entries
        .iter()
        .map(|(name, numbers)| cell(name, name_width, numbers, &widths))
        .collect();
    let width = cells.first().map_or(PAGE, String::len);
    let count = ((PAGE + GAP.len()) / (width + GAP.len())).max(1);
    let height = cells.len().div_ceil(count);
    let line = |row: usize| {
        let of_row: Vec<&str> = cells
            .iter()
            .skip(row)
            .step_by(height)
            .map(String::as_str)
            .collect();
        of_row.join(GAP)
    };
    (0..height).map(line).collect()
}

fn cell<const N: usize>(name: &str, name_width: usize, numbers: &[u64; N], widths: &[usize; N]) -> String {
    let mut text = format!("{name:<name_width$}");
    for (number, &width) in numbers.iter().zip(widths) {
        text = format!("{text} {:>width$}", short(*number));
    }
    text
}

/// A number in four characters at most: what matters of a large one is how large it is.
fn short(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}M", number / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_go_down_one_column_and_then_the_next() {
        let name = "x".repeat(44);
        let entries = [(name.as_str(), [1, 20]), ("b", [3, 4]), ("c", [5, 6_789])];
        assert_eq!(
            columns(&entries),
            [
                format!("{name} 1 20  c{} 5 6k", " ".repeat(43)),
                format!("b{} 3  4", " ".repeat(43)),
            ]
        );
    }

    #[test]
    fn what_is_wider_than_the_page_has_a_line_of_its_own() {
        let name = "x".repeat(120);
        assert_eq!(columns(&[(name.as_str(), [1]), ("b", [2])]).len(), 2);
        assert_eq!(columns::<2>(&[]), [] as [&str; 0]);
    }

    #[test]
    fn a_large_number_is_short() {
        let told = [0, 999, 1_000, 999_999, 1_000_000, 54_321_000].map(short);
        assert_eq!(told, ["0", "999", "1k", "999k", "1M", "54M"]);
    }
}
