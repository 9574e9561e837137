//! Catalogues to send, with the expected outcomes of their batches.

use bytes::Bytes;
use ingestion::generate::{Catalogue, Layout};
use uuid::Uuid;

use super::account::Outcome;
use super::tenant::Tenant;
use crate::error::Error;
use crate::ingest::catalogue::gzipped;

/// Maximum size of a request's body in bytes. A larger catalogue is uploaded.
const LARGEST_BODY: usize = 4_500_000;
/// Share of invalid items in a catalogue with invalid items, in thousandths.
const BAD: u32 = 100;

/// Way of sending a catalogue to the ingest: by request, upload or file, and its format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) door: Door,
    pub(super) layout: Layout,
    pub(super) is_gzip: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Door {
    Request,
    Upload,
    File,
}

pub(super) const GZIP: Way = way("POST, gzip", Door::Request, Layout::Array, true);
pub(super) const UPLOAD: Way = way("upload", Door::Upload, Layout::Lines, true);
pub(super) const FILE: Way = way("file", Door::File, Layout::Array, true);
pub(super) const WAYS: [Way; 6] = [
    way("POST", Door::Request, Layout::Array, false),
    GZIP,
    way("POST of lines", Door::Request, Layout::Lines, false),
    way("POST of lines, gzip", Door::Request, Layout::Lines, true),
    UPLOAD,
    FILE,
];

const fn way(name: &'static str, door: Door, layout: Layout, is_gzip: bool) -> Way {
    Way { name, door, layout, is_gzip }
}

/// Content of a catalogue: valid, with invalid items, or not readable as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Sound,
    BadItems,
    NotJson,
    BrokenOff,
}

/// Catalogue to send, whose establishments are in no other catalogue.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) tenant: Tenant,
    pub(super) way: Way,
    pub(super) content: Content,
    pub(super) items: u32,
    pub(super) body: Bytes,
    pub(super) cnpjs: Vec<String>,
    pub(super) outcome: Outcome,
}

impl Load {
    pub(super) fn new(
        tenant: &Tenant,
        way: Way,
        content: Content,
        items: u32,
        establishments: u32,
    ) -> Result<Self, Error> {
        let (seed, _) = Uuid::new_v4().as_u64_pair();
        let bad = if content == Content::BadItems { BAD } else { 0 };
        let catalogue = Catalogue { seed, items, establishments, bad, ..Catalogue::default() };
        let text = content.text(&catalogue, way.layout);
        let body = if way.is_gzip { gzipped(&text)? } else { text };
        let way = match way.door {
            Door::Request if body.len() > LARGEST_BODY => Way { name: UPLOAD.name, door: UPLOAD.door, ..way },
            _ => way,
        };
        let cnpjs = catalogue.cnpjs().iter().map(|cnpj| cnpj.as_str().to_owned()).collect();
        let outcome = content.outcome(&catalogue, way.layout);
        Ok(Self { tenant: tenant.clone(), way, content, items, body: body.into(), cnpjs, outcome })
    }
}

impl Content {
    pub(super) const HOSTILE: [Self; 3] = [Self::BadItems, Self::NotJson, Self::BrokenOff];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::BadItems => "bad items",
            Self::NotJson => "not JSON",
            Self::BrokenOff => "broken off",
        }
    }

    const fn is_readable(self) -> bool {
        matches!(self, Self::Sound | Self::BadItems)
    }

    /// Returns the ways by which a catalogue with this content is sent. Unreadable content is not
    /// sent as lines, because there each bad line fails only its item.
    pub(super) fn ways(self) -> impl Iterator<Item = Way> {
        WAYS.into_iter().filter(move |way| self.is_readable() || way.layout == Layout::Array)
    }

    fn text(self, catalogue: &Catalogue, layout: Layout) -> Vec<u8> {
        if self == Self::NotJson {
            return b"CNPJ;SHOPID;PRODUCTID\n05927228000145;1;25901\n".to_vec();
        }
        let mut text = catalogue.payload(layout);
        if self == Self::BrokenOff {
            text.truncate(text.len() / 2);
        }
        text
    }

    fn outcome(self, catalogue: &Catalogue, layout: Layout) -> Outcome {
        if !self.is_readable() {
            return Outcome::failed("MALFORMED_JSON");
        }
        let sound = Catalogue { bad: 0, ..*catalogue };
        let is_sound =
            |index: &u32| self == Self::Sound || catalogue.item(*index, layout) == sound.item(*index, layout);
        let loaded: Vec<u32> = (0..catalogue.items).filter(is_sound).collect();
        Outcome::loaded(catalogue.items, &loaded)
    }
}
