//! Table of idempotency records, which a recount scans.

use attempt::Deadline;
use aws_sdk_dynamodb::Client;
use usage::{ATTRIBUTES, Recount};

/// DynamoDB table of idempotency records, which a recount scans.
#[derive(Clone, Debug)]
pub struct Records {
    client: Client,
    table: String,
}

impl Records {
    #[must_use]
    pub const fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// Adds all records of the table to a recount. Returns false if the deadline passed before the
    /// end of the table.
    pub(crate) async fn count(
        &self,
        recount: &mut Recount,
        deadline: Deadline,
    ) -> Result<bool, Box<aws_sdk_dynamodb::Error>> {
        let placeholder = |at: usize| format!("#a{at}");
        let names = ATTRIBUTES.into_iter().enumerate().map(|(at, name)| (placeholder(at), name.to_owned()));
        let projection: Vec<String> = (0..ATTRIBUTES.len()).map(placeholder).collect();
        let scan = self
            .client
            .scan()
            .table_name(&self.table)
            .projection_expression(projection.join(", "))
            .set_expression_attribute_names(Some(names.collect()));
        let mut pages = scan.into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| Box::new(aws_sdk_dynamodb::Error::from(error)))?;
            for item in page.items() {
                recount.add(item);
            }
            if deadline.has_passed() && page.last_evaluated_key.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
