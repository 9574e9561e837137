use bytes::{BufMut as _, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

type Failure = Box<dyn std::error::Error + Sync + Send>;

/// Location of a row in its table, as PostgreSQL's `tid` encodes it: the number of its block, and
/// its number in the block. It is valid as long as no other transaction can change the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowLocation(pub(crate) [u8; 6]);

impl<'a> FromSql<'a> for RowLocation {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        Ok(Self(raw.try_into()?))
    }

    accepts!(TID);
}

impl ToSql for RowLocation {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(TID);
    to_sql_checked!();
}
