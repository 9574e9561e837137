//! Names of the MQI calls, and the warnings of each call that are harmless, because the call had
//! the requested effect.

use libmqm_sys::{self as mq, MQLONG};

/// Declares [`Verb`] from its variants and IBM's names of the calls that they stand for.
macro_rules! verbs {
    ($($(#[$doc:meta])* $verb:ident $name:literal,)*) => {
        /// MQI call, in some cases with the purpose for which the gateway makes it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Verb {
            $($(#[$doc])* $verb,)*
        }

        impl Verb {
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$verb),*];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$verb => $name,)* }
            }
        }
    };
}

verbs! {
    Connect "MQCONNX",
    /// MQCONNX with TLS settings that another connection of this process already uses.
    Join "MQCONNX",
    Commit "MQCMIT",
    BackOut "MQBACK",
    Disconnect "MQDISC",
    Open "MQOPEN",
    Put "MQPUT",
    Get "MQGET",
    /// MQGET that only releases the lock of a browsed message.
    Unlock "MQGET",
    Inquire "MQINQ",
    Close "MQCLOSE",
    CreateHandle "MQCRTMH",
    DeleteHandle "MQDLTMH",
    SetProperty "MQSETMP",
    InquireProperty "MQINQMP",
}

/// Reason codes of warnings with which MQGET still returns the message. They concern conversion, or
/// a header in the body.
const OF_GETS: [MQLONG; 26] = [
    mq::MQRC_TRUNCATED_MSG_ACCEPTED,
    mq::MQRC_FORMAT_ERROR,
    mq::MQRC_SOURCE_CCSID_ERROR,
    mq::MQRC_SOURCE_INTEGER_ENC_ERROR,
    mq::MQRC_SOURCE_DECIMAL_ENC_ERROR,
    mq::MQRC_SOURCE_FLOAT_ENC_ERROR,
    mq::MQRC_TARGET_CCSID_ERROR,
    mq::MQRC_TARGET_INTEGER_ENC_ERROR,
    mq::MQRC_TARGET_DECIMAL_ENC_ERROR,
    mq::MQRC_TARGET_FLOAT_ENC_ERROR,
    mq::MQRC_NOT_CONVERTED,
    mq::MQRC_CONVERTED_MSG_TOO_BIG,
    mq::MQRC_DH_ERROR,
    mq::MQRC_DLH_ERROR,
    mq::MQRC_SOURCE_LENGTH_ERROR,
    mq::MQRC_TARGET_LENGTH_ERROR,
    mq::MQRC_SOURCE_BUFFER_ERROR,
    mq::MQRC_TARGET_BUFFER_ERROR,
    mq::MQRC_IIH_ERROR,
    mq::MQRC_DBCS_ERROR,
    mq::MQRC_CONVERTED_STRING_TOO_BIG,
    mq::MQRC_MDE_ERROR,
    mq::MQRC_PARTIALLY_CONVERTED,
    mq::MQRC_WIH_ERROR,
    mq::MQRC_RFH_ERROR,
    mq::MQRC_RFH_FORMAT_ERROR,
];

impl Verb {
    /// Returns the reason codes of warnings that count as success for this call. Any other warning
    /// counts as a failure, since it may report for example a pending commit, different TLS
    /// settings, or a missing attribute.
    pub(crate) const fn harmless_warnings(self) -> &'static [MQLONG] {
        match self {
            // The queue manager lacks a cluster workload exit.
            Self::Connect => &[mq::MQRC_CLUSTER_EXIT_LOAD_ERROR],
            // The earlier settings remain in force, and they are the same.
            Self::Join => &[mq::MQRC_CLUSTER_EXIT_LOAD_ERROR, mq::MQRC_SSL_ALREADY_INITIALIZED],
            // At the end of a connection, the queue manager must back out all remaining work.
            Self::Disconnect => &[mq::MQRC_BACKED_OUT],
            // The message was put, with the highest possible priority, or without a report that the
            // queue manager does not know.
            Self::Put => &[mq::MQRC_PRIORITY_EXCEEDS_MAXIMUM, mq::MQRC_UNKNOWN_REPORT_OPTION],
            Self::Get => &OF_GETS,
            Self::Unlock => &[mq::MQRC_NO_MSG_LOCKED],
            Self::Close => &[mq::MQRC_INCOMPLETE_GROUP, mq::MQRC_INCOMPLETE_MSG],
            Self::InquireProperty => &[
                mq::MQRC_RFH_FORMAT_ERROR,
                mq::MQRC_PROP_VALUE_NOT_CONVERTED,
                mq::MQRC_PROP_TYPE_NOT_SUPPORTED,
                mq::MQRC_PROP_NAME_NOT_CONVERTED,
            ],
            Self::Commit
            | Self::BackOut
            | Self::Open
            | Self::Inquire
            | Self::CreateHandle
            | Self::DeleteHandle
            | Self::SetProperty => &[],
        }
    }
}
