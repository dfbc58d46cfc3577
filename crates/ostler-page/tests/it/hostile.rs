//! Hostile text: whatever it is, only known elements, attributes and schemes come out.

use ostler_page::markdown::{ATTRIBUTES, CLASSES, ELEMENTS, SCHEMES, to_html};
use proptest::prelude::*;

use crate::html::{Element, parse};

/// The payloads of `xss.txt`.
pub(crate) fn payloads() -> Vec<String> {
    let lines = include_str!("xss.txt").lines();
    let payloads = lines.filter(|line| !line.is_empty() && !line.starts_with("# "));
    // A heading is a payload too.
    let headings = include_str!("xss.txt")
        .lines()
        .filter(|line| line.starts_with("# <"));
    payloads.chain(headings).map(decoded).collect()
}

/// Decodes `\n`, `\\` and `\u{XXXX}`.
fn decoded(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix("u{") {
            let (code, after) = after.split_once('}').expect("a closing brace");
            out.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
            rest = after;
        } else if let Some(after) = after.strip_prefix('n') {
            out.push('\n');
            rest = after;
        } else {
            out.push('\\');
            rest = after.strip_prefix('\\').unwrap_or(after);
        }
    }
    out + rest
}

/// Checks an element against the allow-list, written out again here.
fn check(element: &Element) -> Result<(), String> {
    let fail = |why: &str| Err(format!("{why}: {element:?}"));
    if !ELEMENTS.contains(&&*element.name) {
        return fail("element");
    }
    let known = ATTRIBUTES.iter().find(|(name, _)| *name == element.name);
    let known = known.map(|(_, names)| *names).unwrap_or_default();
    for (name, value) in &element.attributes {
        let is_allowed = match (element.name.as_str(), name.as_str()) {
            ("a", "href") => {
                let scheme = value.split_once(':').map(|(scheme, _)| scheme);
                scheme.is_some_and(|scheme| SCHEMES.contains(&scheme))
            }
            ("a", "rel") => value == "noreferrer noopener",
            ("a", "target") => value == "_blank",
            ("code", "class") => value.strip_prefix("language-").is_some_and(|name| {
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic())
            }),
            ("span", "class") => CLASSES.contains(&value.as_str()),
            ("ol", "start") => value.parse::<u32>().is_ok(),
            _ => false,
        };
        if !is_allowed || !known.contains(&name.as_str()) {
            return fail("attribute");
        }
    }
    let is_link = element.name == "a";
    if is_link && (element.attribute("rel").is_none() || element.attribute("target").is_none()) {
        return fail("link");
    }
    Ok(())
}

fn check_html(text: &str) -> Result<(), String> {
    let html = to_html(text);
    let parsed = parse(&html);
    for element in &parsed.elements {
        check(element).map_err(|why| format!("{why} in {html:?} of {text:?}"))?;
    }
    if parsed.comments > 0 {
        return Err(format!("comment in {html:?} of {text:?}"));
    }
    let is_hidden = |c: char| {
        matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || (c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
    };
    if let Some(c) = html.chars().find(|c| is_hidden(*c)) {
        return Err(format!("{c:?} in {html:?} of {text:?}"));
    }
    Ok(())
}

#[test]
fn no_payload_becomes_more_than_text_and_known_links() {
    let payloads = payloads();
    assert!(payloads.len() >= 100, "{}", payloads.len());
    for payload in &payloads {
        let wrapped = [
            payload.clone(),
            format!("before {payload} after"),
            format!("- > {payload}"),
            format!("**{payload}**"),
            format!("[{payload}](https://x.org/{payload})"),
            format!("![{payload}]({payload})"),
            format!("```{payload}\n{payload}\n```"),
            format!("|a|\n|-|\n|{payload}|"),
            format!("[x]: {payload}\n\n[x]"),
        ];
        for text in wrapped {
            check_html(&text).unwrap();
        }
    }
}

/// The check itself finds what it looks for.
#[test]
fn the_check_finds_what_is_not_allowed() {
    for html in [
        "<script>",
        "<img src=x>",
        "<p id=x>",
        "<a href=\"javascript:x\" rel=\"noreferrer noopener\" target=_blank>",
        "<a href=\"/x\" rel=\"noreferrer noopener\" target=_blank>",
        "<a href=\"https://x\">",
        "<span class=\"x\">",
        "<p style=\"color:red\">",
        "<p onclick=x>",
    ] {
        let parsed = parse(html);
        assert!(check(&parsed.elements[0]).is_err(), "{html}");
    }
}

/// Text made of pieces that mean something in Markdown or HTML.
fn tricky() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "<",
        ">",
        "\"",
        "'",
        "`",
        "```",
        "\n",
        "\n\n",
        "[",
        "]",
        "(",
        ")",
        "![",
        "](",
        "<a href=",
        "<img src=x onerror=alert(1)>",
        "javascript:",
        "https://x.org",
        "&lt;",
        "&#x3c;",
        "|",
        "|-|",
        "- ",
        "> ",
        "# ",
        "    ",
        "\t",
        "*",
        "_",
        "~~",
        "</p>",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<script>",
        "</script>",
        "<style>",
        "<svg>",
        "<math>",
        "\u{202e}",
        "\u{0}",
        "\u{1b}",
        "\u{2028}",
        "\\",
        "=",
        "class=",
        " style=",
        "[x]: ",
        "mailto:",
        "data:",
        "{#id}",
        "$",
        "^",
    ]);
    let any = prop_oneof![6 => pieces.prop_map(str::to_owned), 1 => ".{0,6}"];
    prop::collection::vec(any, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_becomes_only_known_elements(text in tricky()) {
        prop_assert_eq!(check_html(&text), Ok(()));
    }

    #[test]
    fn any_characters_become_only_known_elements(text in "\\PC*|.*") {
        prop_assert_eq!(check_html(&text), Ok(()));
    }
}
