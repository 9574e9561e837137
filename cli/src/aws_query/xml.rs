//! Parser that turns XML responses of AWS into a tree of elements.

use xmlparser::{ElementEnd, Token, Tokenizer};

/// Deepest nesting of XML elements that is parsed. AWS has less than ten levels.
const DEEPEST: usize = 64;

/// XML element without its attributes and namespaces, which carry no information in AWS responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Name of the XML element, without its namespace prefix.
    pub(crate) name: String,
    /// Text directly in this XML element, with its character and entity references replaced.
    pub(crate) text: String,
    /// Elements inside this XML element.
    pub(crate) children: Vec<Self>,
}

impl Node {
    /// Parses an XML document; `None` if it is malformed or nested too deep.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut open: Vec<Self> = Vec::new();
        let mut root = None;
        for token in Tokenizer::from(text) {
            match token.ok()? {
                Token::ElementStart { local, .. } if open.len() < DEEPEST && root.is_none() => {
                    open.push(Self { name: local.as_str().to_owned(), ..Self::default() });
                }
                Token::ElementStart { .. } => return None,
                Token::ElementEnd { end: ElementEnd::Open, .. } => {}
                Token::ElementEnd { end, .. } => {
                    let node = open.pop()?;
                    if let ElementEnd::Close(_, local) = end
                        && local.as_str() != node.name
                    {
                        return None;
                    }
                    match open.last_mut() {
                        Some(parent) => parent.children.push(node),
                        None => root = Some(node),
                    }
                }
                Token::Text { text } => {
                    if let Some(node) = open.last_mut() {
                        node.text.push_str(unescaped(text.as_str())?.trim());
                    }
                }
                Token::Cdata { text, .. } => {
                    if let Some(node) = open.last_mut() {
                        node.text.push_str(text.as_str());
                    }
                }
                _ => {}
            }
        }
        if open.is_empty() { root } else { None }
    }

    /// Returns the first descendant element with this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Self> {
        let child = self.children.iter().find(|child| child.name == name);
        child.or_else(|| self.children.iter().find_map(|child| child.find(name)))
    }

    /// Returns the text of the first descendant element with this name; empty if there is none.
    pub(crate) fn text_of(&self, name: &str) -> &str {
        self.find(name).map_or("", |found| found.text.as_str())
    }

    /// Returns the items of the list `name`, which are elements called `member` or `item`.
    pub(crate) fn list<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Self> + use<'a> {
        self.find(name).into_iter().flat_map(|list| &list.children)
    }
}

/// Replaces the character and entity references of an XML text; `None` if one is unknown.
fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('&');
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (reference, rest) = part.split_once(';')?;
        result.push(character(reference)?);
        result.push_str(rest);
    }
    Some(result)
}

fn character(reference: &str) -> Option<char> {
    match reference {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = reference.strip_prefix('#')?;
            let number = match number.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(number.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_found_at_any_depth_and_the_nearest_first() {
        let text = "<?xml version=\"1.0\"?>\n<a:R xmlns:a=\"urn:a\">\n  <L><item><id>1</id></item>\n\
<item><id>&lt;2&#62;</id></item></L><id/><C><![CDATA[a & b]]></C></a:R>";
        let root = Node::parse(text).unwrap();
        assert_eq!((root.name.as_str(), root.text.as_str()), ("R", ""));
        let ids: Vec<&str> = root.list("L").map(|item| item.text_of("id")).collect();
        assert_eq!(ids, ["1", "<2>"]);
        assert_eq!((root.text_of("id"), root.text_of("C"), root.text_of("none")), ("", "a & b", ""));
        assert_eq!(root.list("none").count(), 0);
    }

    #[test]
    fn what_is_no_document_is_refused() {
        let deep = "<a>".repeat(100) + &"</a>".repeat(100);
        let others = ["", "text", "<a>", "<a></b>", "<a><b></a></b>", "<a>&unknown;</a>", "<a>&amp</a>"];
        for text in others.into_iter().chain([deep.as_str()]) {
            assert_eq!(Node::parse(text), None, "{text}");
        }
    }
}
