//! `integrahub export`: prints the access table as an access file.

use super::establishments::{Establishments, by_owner};
use super::file::{AccessFile, SCHEMA};
use super::table::Table;
use crate::args::Export;
use crate::context::Context;
use crate::exit::{Exit, Explain as _, Failure};
use crate::output::{Format, Output};

/// Runs `integrahub export`.
///
/// # Errors
/// If the tenant does not exist, or the table cannot be accessed.
pub(crate) async fn run(args: &Export, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let known = Table::of(context).await?.read().await?;
    let tenant = args.tenant.as_deref().map(|tenant| known.tenant(tenant)).transpose()?;
    let owned = match Establishments::of(context).await {
        Ok(establishments) => establishments.list(tenant.as_deref(), None).await.map(by_owner),
        Err(failure) => Err(failure),
    };
    if let Err(failure) = &owned {
        out.note(&format!("warning: the file is without establishments: {}", failure.what));
        if let Some(why) = &failure.why {
            out.note(why);
        }
    }
    let file = AccessFile::of(&known, tenant.as_deref(), owned.as_ref().ok());
    known.warn(out);
    if out.format() == Format::Text {
        let text = serde_norway::to_string(&file).or_explain(|| "write YAML".to_owned())?;
        out.line(
            "# Made by `integrahub export`, read by `integrahub apply`. It has no API key and no password.",
        );
        out.line(text.trim_end());
    } else {
        let value = serde_json::to_value(&file).or_explain(|| "write JSON".to_owned())?;
        out.json(SCHEMA, &value);
    }
    Ok(Exit::Done)
}
