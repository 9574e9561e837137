//! Responses that are stored before their effect is final.

use api::Reply;
use serde::Serialize;

use crate::error::StoreError;

/// Beginning of a prepared response's body.
const CERTAIN: &str = r#"{"deliveryInDoubt":false,"#;
/// Beginning of the body once it is unknown whether its effect became final.
const IN_DOUBT: &str = r#"{"deliveryInDoubt":true,"#;

/// A response that can be labelled: its body is a JSON object whose first member is
/// `deliveryInDoubt`.
///
/// The label is replaced in place, at the beginning of the body. The rest of the body is never
/// read, so no text in it can remove the label or change with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared(Reply);

#[derive(Serialize)]
struct Labelled<'a, T> {
    #[serde(rename = "deliveryInDoubt")]
    delivery_in_doubt: bool,
    #[serde(flatten)]
    members: &'a T,
}

impl Prepared {
    /// Builds a JSON response with the label before `members`, which are those of a struct or of a
    /// map.
    ///
    /// # Errors
    /// [`StoreError::Unlabelled`] if `members` are none, or are not an object's.
    pub fn json(status: u16, members: &impl Serialize) -> Result<Self, StoreError> {
        let body = serde_json::to_string(&Labelled { delivery_in_doubt: false, members })
            .map_err(|error| StoreError::Unlabelled(error.into()))?;
        let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
        Self::stored(Reply { status, headers, body })
    }

    /// Creates a prepared response from its stored form.
    ///
    /// # Errors
    /// [`StoreError::Unlabelled`] if its body does not begin with the label.
    pub(crate) fn stored(response: Reply) -> Result<Self, StoreError> {
        if response.body.starts_with(CERTAIN) {
            Ok(Self(response))
        } else {
            Err(StoreError::Unlabelled("the stored response has no label".into()))
        }
    }

    /// Returns the response whose effect became final.
    #[must_use]
    pub fn response(&self) -> &Reply {
        &self.0
    }

    /// Returns the response whose effect became final, by value.
    #[must_use]
    pub fn into_response(self) -> Reply {
        self.0
    }

    /// Returns the response labelled as in doubt: its effect may have become final, or not.
    #[must_use]
    pub fn in_doubt(self) -> Reply {
        let Self(mut response) = self;
        response.body.replace_range(..CERTAIN.len(), IN_DOUBT);
        response
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn doubt_changes_the_label_and_nothing_else() {
        let prepared = Prepared::json(200, &json!({"count": 1, "deliveryInDoubt": "a member"})).unwrap();
        let stored = Prepared::stored(prepared.into_response()).unwrap();
        assert_eq!(
            stored.response().body,
            r#"{"deliveryInDoubt":false,"count":1,"deliveryInDoubt":"a member"}"#
        );
        assert_eq!(
            stored.in_doubt().body,
            r#"{"deliveryInDoubt":true,"count":1,"deliveryInDoubt":"a member"}"#
        );
    }

    #[test]
    fn nothing_is_prepared_without_a_label() {
        for members in [json!({}), json!([1]), json!("text"), json!(null)] {
            let refused = Prepared::json(200, &members);
            assert!(matches!(refused, Err(StoreError::Unlabelled(_))), "{members}: {refused:?}");
        }
        for body in ["", "{}", r#"{"count":1,"deliveryInDoubt":false,"#, r#" {"deliveryInDoubt":false,"#] {
            let refused = Prepared::stored(Reply { body: body.to_owned(), ..Reply::default() });
            assert!(matches!(refused, Err(StoreError::Unlabelled(_))), "{body}: {refused:?}");
        }
    }
}
