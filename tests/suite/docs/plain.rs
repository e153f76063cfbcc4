//! The pages name what they speak of.

use super::figures::Bare;
use super::page::ALL;

/// Words that stand where a noun belongs: a reader has to find out which client, token, hold or order is meant.
const VAGUE: [&str; 9] =
    ["whoever", "whom", "somebody", "someone", "nobody", "anybody", "anyone", "everybody", "everyone"];

#[test]
fn every_sentence_has_its_noun() {
    let mut found = vec![];
    for page in &ALL {
        for (number, line) in Bare::of(page.text).text().lines().enumerate() {
            let words = line.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase);
            let vague = words.filter(|word| VAGUE.contains(&word.as_str()));
            found.extend(vague.map(|word| format!("{}:{}: {word}", page.path, number + 1)));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// No screen shows longer ones beside each other.
#[test]
fn no_cell_of_a_table_is_a_paragraph() {
    let mut long = vec![];
    for page in &ALL {
        for (number, line) in page.text.lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
            let cells = line.split('|').map(|cell| cell.chars().count());
            long.extend(
                cells.filter(|length| *length > 300).map(|length| format!("{}:{}: {length}", page.path, number + 1)),
            );
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}
