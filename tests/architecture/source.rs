//! Reads Rust source as far as the rules need it: which paths it mentions, where, and what is test code.

/// An identifier, `::` or a punctuation mark.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
}

/// Identifiers, `::` and single punctuation marks, with their lines; comments and literals left out.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut found, mut line, mut i) = (Vec::new(), 1, 0);
    while i < chars.len() {
        let start = i;
        match at(i) {
            '/' if at(i + 1) == '/' => i = skip_until(&chars, i, |c| c == '\n'),
            '/' if at(i + 1) == '*' => i = end_of_block_comment(&chars, i),
            'r' | 'b' | 'c' if raw_string_hashes(&chars, i).is_some() => {
                i = end_of_raw_string(&chars, i);
            }
            '"' => i = end_of_string(&chars, i),
            '\'' if at(i + 1) == '\\' => i = skip_until(&chars, i + 3, |c| c == '\'') + 1,
            '\'' if at(i + 2) == '\'' => i += 3,
            ':' if at(i + 1) == ':' => {
                found.push(Token {
                    text: "::".to_owned(),
                    line,
                });
                i += 2;
            }
            c if is_word(c) => {
                i = skip_until(&chars, i, |c| !is_word(c));
                found.push(Token {
                    text: chars[start..i].iter().collect(),
                    line,
                });
            }
            c => {
                if !c.is_whitespace() && c != '\'' {
                    found.push(Token {
                        text: c.to_string(),
                        line,
                    });
                }
                i += 1;
            }
        }
        line += chars[start..i.min(chars.len())]
            .iter()
            .filter(|c| **c == '\n')
            .count();
    }
    found
}

fn skip_until(chars: &[char], from: usize, stop: impl Fn(char) -> bool) -> usize {
    (from..chars.len())
        .find(|i| stop(chars[*i]))
        .unwrap_or(chars.len())
}

fn end_of_string(chars: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// The number of `#` of a raw string that starts here, after `r`, `br` or `cr`.
fn raw_string_hashes(chars: &[char], start: usize) -> Option<usize> {
    if start > 0 && (chars[start - 1].is_alphanumeric() || chars[start - 1] == '_') {
        return None;
    }
    let r = if chars[start] == 'r' { start } else { start + 1 };
    let hashes = chars.get(r + 1..)?.iter().take_while(|c| **c == '#').count();
    (chars.get(r) == Some(&'r') && chars.get(r + 1 + hashes) == Some(&'"')).then_some(hashes)
}

fn end_of_raw_string(chars: &[char], start: usize) -> usize {
    let hashes = raw_string_hashes(chars, start).unwrap_or(0);
    let opened = skip_until(chars, start, |c| c == '"') + 1;
    let closes = |i: &usize| {
        chars[*i] == '"' && chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    (opened..chars.len())
        .find(closes)
        .map_or(chars.len(), |i| i + 1 + hashes)
}

fn end_of_block_comment(chars: &[char], start: usize) -> usize {
    let (mut depth, mut i) = (0, start);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

/// The tokens without the items behind `#[cfg(test)]`.
pub(super) fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let text = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
    let (mut kept, mut i) = (Vec::new(), 0);
    while i < tokens.len() {
        if text(i) == "#" && text(i + 1) == "[" {
            let end = matching(tokens, i + 1) + 1;
            let attribute: Vec<&str> = (i..end).map(text).collect();
            if attribute.contains(&"cfg") && attribute.contains(&"test") && !attribute.contains(&"not") {
                i = end_of_item(tokens, end);
                continue;
            }
        }
        kept.push(tokens[i].clone());
        i += 1;
    }
    kept
}

/// The index of the bracket that closes the one at `open`.
fn matching(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    tokens.len()
}

/// The index after the item that starts at `start`: after its `;` or its block.
fn end_of_item(tokens: &[Token], start: usize) -> usize {
    let mut i = start;
    while i < tokens.len() {
        match tokens[i].text.as_str() {
            ";" => return i + 1,
            "{" => return matching(tokens, i) + 1,
            "}" => return i,
            "(" | "[" => i = matching(tokens, i) + 1,
            _ => i += 1,
        }
    }
    i
}

/// Every path in the code with its line, groups expanded; those into this crate start with `crate::`.
pub(super) fn paths(code: &[Token], module: &[String]) -> Vec<(usize, String)> {
    let text = |i: usize| code.get(i).map_or("", |token| token.text.as_str());
    let mut here = module.to_vec();
    let (mut found, mut inline, mut i) = (Vec::new(), Vec::new(), 0);
    while i < code.len() {
        if text(i) == "mod" && text(i + 2) == "{" {
            inline.push(matching(code, i + 2));
            here.push(text(i + 1).to_owned());
            i += 3;
            continue;
        }
        if inline.last() == Some(&i) {
            inline.pop();
            here.pop();
        }
        let starts_path =
            is_name(text(i)) && text(i + 1) == "::" && (i == 0 || !["::", "."].contains(&text(i - 1)));
        if starts_path || (i > 0 && text(i - 1) == "use" && is_name(text(i))) {
            i = tree(code, i, &[], &here, &mut found);
        } else {
            i += 1;
        }
    }
    found
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads one path or use tree at `i`, below `prefix`; the index after it.
fn tree(
    code: &[Token],
    mut i: usize,
    prefix: &[String],
    here: &[String],
    found: &mut Vec<(usize, String)>,
) -> usize {
    let text = |i: usize| code.get(i).map_or("", |token| token.text.as_str());
    let mut path = prefix.to_vec();
    let line = code.get(i).map_or(0, |token| token.line);
    loop {
        if text(i) == "{" {
            let end = matching(code, i);
            i += 1;
            while i < end {
                i = if is_name(text(i)) || text(i) == "{" {
                    tree(code, i, &path, here, found)
                } else {
                    i + 1
                };
            }
            return end + 1;
        }
        if !is_name(text(i)) {
            break;
        }
        path.push(text(i).to_owned());
        i += 1;
        if text(i) != "::" {
            break;
        }
        i += 1;
    }
    if text(i) == "as" {
        i += 2;
    }
    found.push((line, resolve(&path, here)));
    i
}

/// The path as seen from the root of the crate, or from that of the other crate it leads to.
fn resolve(path: &[String], here: &[String]) -> String {
    let mut base = here.to_vec();
    let mut rest = path;
    let mut relative = false;
    while let Some((first, after)) = rest.split_first() {
        match first.as_str() {
            "crate" | "karpenter_ibm" => base.clear(),
            "super" => {
                base.pop();
            }
            "self" => {}
            _ => break,
        }
        (rest, relative) = (after, true);
    }
    if !relative {
        return path.join("::");
    }
    std::iter::once("crate")
        .chain(base.iter().chain(rest).map(String::as_str))
        .collect::<Vec<_>>()
        .join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths_in(module: &[&str], text: &str) -> Vec<String> {
        let module: Vec<String> = module.iter().map(|name| (*name).to_owned()).collect();
        paths(&without_tests(&tokens(text)), &module)
            .into_iter()
            .map(|(_, path)| path)
            .collect()
    }

    #[test]
    fn groups_are_expanded() {
        let found = paths_in(&["a"], "use crate::{b::{self, c as d}, e}; use std::fmt::*;");
        assert_eq!(found, ["crate::b::self", "crate::b::c", "crate::e", "std::fmt"]);
    }

    #[test]
    fn super_is_resolved_from_the_module_that_says_it() {
        assert_eq!(
            paths_in(&["a", "b"], "use super::c; use super::super::d;"),
            ["crate::a::c", "crate::d"]
        );
        let inline = "mod inner { use super::c; } use super::d;";
        assert_eq!(paths_in(&["a", "b"], inline), ["crate::a::b::c", "crate::a::d"]);
    }

    #[test]
    fn paths_in_code_count_as_well_as_those_in_use() {
        let found = paths_in(
            &["a"],
            "fn f<'a>(x: &'a b::C) -> Vec<d::E> { x.g::<h::I>(':', '\\'', \"j::k\") }",
        );
        assert_eq!(found, ["b::C", "d::E", "h::I"]);
    }

    #[test]
    fn lines_are_counted_through_literals_and_comments() {
        let text = "/* \n */ const A: &str = \"\n\\\"\n\";\nconst B: &str = r#\"\n\"#; b::c";
        let last = paths(&tokens(text), &[]).pop();
        assert_eq!(last, Some((6, "b::c".to_owned())));
    }

    #[test]
    fn only_the_item_behind_cfg_test_is_test_code() {
        let text = "#[cfg(test)] use a::b; #[cfg(all(test, unix))] #[x] fn f(y: [u8; 3]) { c::d } e::f";
        assert_eq!(paths_in(&[], text), ["e::f"]);
    }
}
