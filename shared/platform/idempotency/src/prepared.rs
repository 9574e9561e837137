//! Responses that are stored before the effect of the work is final, for example before messages
//! are removed from a queue.

use api::Reply;
use serde::Serialize;

use crate::error::StoreError;

/// Beginning of a prepared response's body, labelled as certain: the effect of the work is final.
const CERTAIN: &str = r#"{"deliveryInDoubt":false,"#;
/// Beginning of a prepared response's body, labelled as in doubt: the effect of the work may be
/// final or not.
const IN_DOUBT: &str = r#"{"deliveryInDoubt":true,"#;

/// Response that is stored before the effect of the work (for example that messages are removed) is
/// final, and can be labelled as in doubt later. Its body is a JSON object whose first member is
/// the label `deliveryInDoubt`.
///
/// The label is found by its position at the beginning of the body. The other members are not
/// parsed, so their values cannot interfere with it.
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
    /// Builds a JSON response from the label and `members`, a struct or a map.
    ///
    /// # Errors
    /// [`StoreError::Unlabelled`] if `members` is empty, or does not serialize to a JSON object.
    pub fn json(status: u16, members: &impl Serialize) -> Result<Self, StoreError> {
        let body = serde_json::to_string(&Labelled { delivery_in_doubt: false, members })
            .map_err(|error| StoreError::Unlabelled(error.into()))?;
        let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
        Self::stored(Reply { status, headers, body })
    }

    /// Wraps a response that has the label already, such as one that was read from a record.
    ///
    /// # Errors
    /// [`StoreError::Unlabelled`] if its body does not begin with `deliveryInDoubt` and the value
    /// false.
    pub(crate) fn stored(response: Reply) -> Result<Self, StoreError> {
        if response.body.starts_with(CERTAIN) {
            Ok(Self(response))
        } else {
            Err(StoreError::Unlabelled("the stored response has no label".into()))
        }
    }

    /// Returns the response with the label `"deliveryInDoubt": false`.
    #[must_use]
    pub fn response(&self) -> &Reply {
        &self.0
    }

    /// Unwraps the response with the label `"deliveryInDoubt": false`.
    #[must_use]
    pub fn into_response(self) -> Reply {
        self.0
    }

    /// Returns the response with the label `"deliveryInDoubt": true`: the effect of the work may be
    /// final or not.
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
