//! Lists of the API that are returned page by page.

use serde_json::Value;

use super::{Api, with_query};
use crate::exit::Failure;

/// Route of the API that returns a list page by page, with the names that its JSON uses.
#[derive(Clone, Debug)]
pub(crate) struct List<'a> {
    /// Path of the list's route.
    pub(crate) path: &'a str,
    /// Query parameters of each request, besides the cursor.
    pub(crate) filters: Vec<(&'a str, &'a str)>,
    /// Name of the JSON member of a page that contains the items.
    pub(crate) items: &'a str,
    /// Name of the JSON member of a page that contains the cursor of the next page. The last page
    /// has none.
    pub(crate) next: &'a str,
}

impl List<'_> {
    /// Requests the pages of the list, and passes the items of each page to `take` until it returns
    /// false.
    ///
    /// # Errors
    /// If the API does not return a page, or if `take` fails.
    pub(crate) async fn each_page(
        &self,
        api: &Api,
        mut take: impl FnMut(Vec<Value>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut cursor = None::<String>;
        loop {
            let mut parameters = self.filters.clone();
            parameters.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let mut page = api.get(&with_query(self.path, &parameters)).await?;
            let items = page.get_mut(self.items).and_then(Value::as_array_mut).map(std::mem::take);
            let goes_on = take(items.unwrap_or_default())?;
            cursor = page.get(self.next).and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() || !goes_on {
                return Ok(());
            }
        }
    }

    /// Returns the first `most` items of the list, or all if there are fewer.
    ///
    /// # Errors
    /// If the API does not return a page.
    pub(crate) async fn first(&self, api: &Api, most: u32) -> Result<Vec<Value>, Failure> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut all = Vec::new();
        self.each_page(api, |items| {
            all.extend(items);
            Ok(all.len() < most)
        })
        .await?;
        all.truncate(most);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use test_support::http_server::{self, Server};

    use super::*;
    use crate::api::Schedule;

    #[tokio::test]
    async fn pages_are_read_until_there_are_enough() {
        let server = Server::start(|request| async move {
            let page = match request.uri().query().unwrap_or_default() {
                "limit=2&status=NEW" => json!({"things": [1, 2], "next": "a"}),
                "limit=2&status=NEW&cursor=a" => json!({"things": [3, 4], "next": "b"}),
                "limit=2&status=NEW&cursor=b" => json!({"things": [5], "next": null}),
                other => panic!("{other}"),
            };
            Some(http_server::response(200, page.to_string()))
        })
        .await;
        let schedule = Schedule::within(Duration::from_secs(1));
        let api = Api::at(&server.url().parse().unwrap(), Some(&"k".to_owned().into()), schedule).unwrap();
        let filters = vec![("limit", "2"), ("status", "NEW")];
        let list = List { path: "/things", filters, items: "things", next: "next" };
        assert_eq!(list.first(&api, 3).await.unwrap(), [1, 2, 3]);
        assert_eq!(list.first(&api, 9).await.unwrap(), [1, 2, 3, 4, 5]);
    }
}
