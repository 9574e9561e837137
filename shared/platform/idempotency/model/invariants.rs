//! Invariants of the idempotency protocol, which the model checker tests in every state.

/// Invariant of the idempotency protocol. Each variant is named after the error that occurs in a
/// state which breaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Invariant {
    ResultChanged,
    OtherBody,
    NotFenced,
    TwoAtOnce,
    DoneAgain,
    OwnNotKnown,
    Lost,
    Unlabelled,
    Missing,
    RefusedInTime,
    NeverThere,
    TooMany,
}

impl Invariant {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ResultChanged => "a recorded result changed within its life",
            Self::OtherBody => "a request was answered with the result of another body",
            Self::NotFenced => "a record was changed by an execution that did not own it",
            Self::TwoAtOnce => "two executions worked at the same time",
            Self::DoneAgain => "a request was executed although its result was recorded",
            Self::OwnNotKnown => "a claim did not recognise its own record",
            Self::Lost => "a message that was removed is in no answer, in no record and at no other place",
            Self::Unlabelled => "messages are there twice and no answer says so",
            Self::Missing => "an answer counts a message that is not on its queue",
            Self::RefusedInTime => "an order that came in time was refused as too late",
            Self::TooMany => "more messages were moved than were asked for and than attempts had in hand",
            Self::NeverThere => "a place is named at which nothing can have been put",
        }
    }
}
