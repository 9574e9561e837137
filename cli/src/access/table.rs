//! Client of the access table in DynamoDB.

use access::pk;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use super::change::{Action, Change, Write};
use super::entry::{Entry, PK};
use super::snapshot::Snapshot;
use crate::aws::{Aws, failed};
use crate::context::Context;
use crate::exit::Failure;

/// Error code of DynamoDB for a conditional write whose condition is false: another caller has
/// changed the item.
const OVERTAKEN: &str = "ConditionalCheckFailedException";

/// Client of a deployment's access table in DynamoDB.
#[derive(Debug)]
pub(crate) struct Table {
    dynamodb: Client,
    name: String,
}

impl Table {
    /// Finds the access table of the context's deployment.
    ///
    /// # Errors
    /// If the name of the table is not known, and the outputs of the stack cannot be read.
    pub(crate) async fn of(context: &Context) -> Result<Self, Failure> {
        let aws = Aws::of(context).await?;
        Ok(Self { dynamodb: aws.dynamodb(), name: aws.access_table().await? })
    }

    /// Reads the whole access table, with a strongly consistent scan.
    ///
    /// # Errors
    /// If DynamoDB does not answer, or does not permit the call.
    pub(crate) async fn read(&self) -> Result<Snapshot, Failure> {
        let scan = self.dynamodb.scan().table_name(&self.name).consistent_read(true);
        let (mut items, mut snapshot) = (scan.into_paginator().items().send(), Snapshot::default());
        while let Some(item) = items.next().await {
            snapshot.add(item.map_err(|error| failed(&format!("read the table `{}`", self.name), &error))?);
        }
        Ok(snapshot)
    }

    /// Writes one change to the access table. The removal of an API key or tenant also removes the
    /// item with the key's last use or the tenant's spending.
    ///
    /// # Errors
    /// If another caller changed the entry meanwhile, or DynamoDB does not answer or permit the
    /// call.
    pub(crate) async fn make(&self, change: &Change) -> Result<(), Failure> {
        let Write { pk, action, condition, names, values } = change.write()?;
        let names = Some(names).filter(|names| !names.is_empty());
        let values = Some(values).filter(|values| !values.is_empty());
        let (table, pk) = (&self.name, AttributeValue::S(pk));
        match action {
            Action::Put(item) => {
                let request = self.dynamodb.put_item().table_name(table).set_item(Some(item));
                let request = request.condition_expression(condition).set_expression_attribute_names(names);
                let sent = request.set_expression_attribute_values(values).send().await;
                sent.map(|_| ()).map_err(|error| refused(change, &error))
            }
            Action::Update(expression) => {
                let request = self.dynamodb.update_item().table_name(table).key(PK, pk);
                let request = request.update_expression(expression).condition_expression(condition);
                let request = request.set_expression_attribute_names(names);
                let sent = request.set_expression_attribute_values(values).send().await;
                sent.map(|_| ()).map_err(|error| refused(change, &error))
            }
            Action::Delete => {
                let request = self.dynamodb.delete_item().table_name(table).key(PK, pk);
                let request = request.condition_expression(condition).set_expression_attribute_names(names);
                let sent = request.set_expression_attribute_values(values).send().await;
                sent.map_err(|error| refused(change, &error))?;
                match usage_item_of(change.entry()) {
                    Some(item) => self.remove(item).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Removes an item from the access table, if it exists.
    async fn remove(&self, pk: String) -> Result<(), Failure> {
        let key = AttributeValue::S(pk.clone());
        let sent = self.dynamodb.delete_item().table_name(&self.name).key(PK, key).send().await;
        sent.map(|_| ()).map_err(|error| failed(&format!("remove the item `{pk}`"), &error))
    }
}

/// Returns the partition key of the item in which functions record an API key's last use or a
/// tenant's spending. Entries of other kinds have no such item.
fn usage_item_of(entry: &Entry) -> Option<String> {
    match entry {
        Entry::Key(hash, _) => Some(pk::used(hash)),
        Entry::Tenant(tenant, _) => Some(pk::spent(tenant)),
        _ => None,
    }
}

fn refused<E, R>(change: &Change, error: &SdkError<E, R>) -> Failure
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug + 'static,
{
    let title = change.title();
    if error.as_service_error().and_then(ProvideErrorMetadata::code) != Some(OVERTAKEN) {
        return failed(&format!("write the {title}"), error);
    }
    let why = match change {
        Change::Create(_) => "somebody else has created it meanwhile",
        Change::Update(..) | Change::Remove(_) => "somebody else has changed or removed it meanwhile",
    };
    Failure::refused(format!("the {title} was left as it is"))
        .why(why)
        .next("look at it, and run the command again")
}

#[cfg(test)]
mod tests {
    use access::{ApiKey, TenantItem};

    use super::super::entry::tests::{ACME, budget, key};
    use super::*;

    #[test]
    fn what_functions_noted_goes_with_the_key_and_with_the_tenant() {
        let hash = ApiKey::from("k").hash();
        assert_eq!(usage_item_of(&Entry::Key(hash, key("orders", &[]))), Some(format!("USED#{hash}")));
        let tenant = Entry::Tenant(ACME.to_owned(), TenantItem::default());
        assert_eq!(usage_item_of(&tenant), Some(format!("SPENT#{ACME}")));
        assert_eq!(usage_item_of(&Entry::Budget(ACME.to_owned(), budget())), None);
    }
}
