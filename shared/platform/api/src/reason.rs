//! Error codes of the contract.

use serde::{Serialize, Serializer};

/// Declares every reason once, with its status and code.
macro_rules! reasons {
    ($($status:literal $code:literal { $($variant:ident = $name:literal, $title:literal;)* })*) => {
        /// Reason why a request was refused or failed, as clients see it. The reason decides status
        /// and code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $title] $variant,)*)*
        }

        impl Reason {
            /// All reasons, in the order of the contract.
            pub const ALL: &[Self] = &[$($(Self::$variant,)*)*];

            /// HTTP status of the reason.
            pub const fn status(self) -> u16 {
                match self {
                    $($(Self::$variant)|* => $status,)*
                }
            }

            /// Class of the reason: `code` of a problem.
            pub const fn code(self) -> &'static str {
                match self {
                    $($(Self::$variant)|* => $code,)*
                }
            }

            /// Name of the reason: `reason` of a problem.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(Self::$variant => $name,)*)*
                }
            }

            /// Short sentence that is the same for every occurrence (RFC 9457, section 3.1.4).
            pub const fn title(self) -> &'static str {
                match self {
                    $($(Self::$variant => $title,)*)*
                }
            }
        }
    };
}

reasons! {
    400 "ERR400_MISSING_OR_MALFORMED_HEADER" {
        IdempotencyKeyRequired = "IDEMPOTENCY_KEY_REQUIRED", "The header Idempotency-Key is required";
        IdempotencyKeyMalformed = "IDEMPOTENCY_KEY_MALFORMED", "The header Idempotency-Key is malformed";
        IdempotencyExpiryOutOfRange = "IDEMPOTENCY_EXPIRY_OUT_OF_RANGE", "The header Idempotency-Expiry-Seconds is out of range";
        LoadTypeRequired = "LOAD_TYPE_REQUIRED", "The header X-Inova-Load-Type is required";
        LoadTypeInvalid = "LOAD_TYPE_INVALID", "The header X-Inova-Load-Type is neither delta nor full";
        PartialItemsInvalid = "PARTIAL_ITEMS_INVALID", "The header X-Inova-Partial-Items is neither refuse nor warn";
    }
    400 "ERR400_INVALID_PAYLOAD" {
        MalformedJson = "MALFORMED_JSON", "The body is not JSON";
        DuplicateMember = "DUPLICATE_MEMBER", "The body has a member twice";
        NumberOutOfRange = "NUMBER_OUT_OF_RANGE", "The body has a number beyond what JSON carries safely";
        SchemaViolation = "SCHEMA_VIOLATION", "The body does not have the form that the operation takes";
        ContentCorrupt = "CONTENT_CORRUPT", "The body is not the gzip that it claims to be";
    }
    400 "ERR400_INVALID_PARAMETER" {
        InvalidParameter = "INVALID_PARAMETER", "A value in the path or the query is wrong";
    }
    401 "ERR401_UNAUTHORIZED" {
        ApiKeyRequired = "API_KEY_REQUIRED", "The header X-Api-Key is required";
        ApiKeyInvalid = "API_KEY_INVALID", "The API key is not known";
    }
    403 "ERR403_FORBIDDEN" {
        ScopeRequired = "SCOPE_REQUIRED", "The API key lacks a scope";
        TargetNotAllowed = "TARGET_NOT_ALLOWED", "The target is not allowed";
        SecretNotAllowed = "SECRET_NOT_ALLOWED", "The secret is not allowed for the target";
    }
    404 "ERR404_NOT_FOUND" {
        QueueNotFound = "QUEUE_NOT_FOUND", "The queue does not exist";
        ExchangeNotFound = "EXCHANGE_NOT_FOUND", "The exchange does not exist";
        TargetRefNotFound = "TARGET_REF_NOT_FOUND", "The target profile does not exist";
        BodyNotFound = "BODY_NOT_FOUND", "The stored body does not exist";
        BatchNotFound = "BATCH_NOT_FOUND", "The batch does not exist";
        ErrorsFileNotFound = "ERRORS_FILE_NOT_FOUND", "The batch has no file of its items in error";
        RouteNotFound = "ROUTE_NOT_FOUND", "There is nothing at this path";
    }
    405 "ERR405_INVALID_OPERATION" {
        MethodNotAllowed = "METHOD_NOT_ALLOWED", "The path does not take this method";
    }
    409 "ERR409_SERVER_STATE_CONFLICT" {
        ConflictingIdempotentRequest = "CONFLICTING_IDEMPOTENT_REQUEST", "The idempotency key was used with another body";
        ConflictingIdempotentRights = "CONFLICTING_IDEMPOTENT_RIGHTS", "The idempotency key was used with other rights";
        IdempotentRequestInProgress = "IDEMPOTENT_REQUEST_IN_PROGRESS", "The same request is being executed";
        BatchNotReplayable = "BATCH_NOT_REPLAYABLE", "The batch cannot be replayed";
    }
    413 "ERR413_PAYLOAD_TOO_LARGE" {
        MaxPayloadExceeded = "MAX_PAYLOAD_EXCEEDED", "The body is too large";
        UseUpload = "USE_UPLOAD", "The body is too large for one request and has to be uploaded";
    }
    415 "ERR415_UNSUPPORTED_MEDIA_TYPE" {
        ContentType = "CONTENT_TYPE", "The content type is not supported";
        ContentEncoding = "CONTENT_ENCODING", "The content encoding is not supported";
    }
    422 "ERR422_UNPROCESSABLE" {
        UnsupportedByBroker = "UNSUPPORTED_BY_BROKER", "The broker cannot do this";
        ExceedsTimeBudget = "EXCEEDS_TIME_BUDGET", "The work takes longer than one request may";
        ExceedsVolume = "EXCEEDS_VOLUME", "The messages have more bytes than one request may put";
        MessageTooLarge = "MESSAGE_TOO_LARGE", "A message is too large";
    }
    429 "ERR429_TOO_MANY_REQUESTS" {
        TenantRateLimit = "TENANT_RATE_LIMIT", "The tenant has too many requests under way";
        KeyReuseAbuse = "KEY_REUSE_ABUSE", "Idempotency keys were used with other bodies too often";
    }
    502 "ERR502_BROKER_ERROR" {
        BrokerRejected = "BROKER_REJECTED", "The broker refused the operation";
        AuthenticationFailed = "AUTHENTICATION_FAILED", "The broker refused the credentials";
        QueueFull = "QUEUE_FULL", "The queue is full";
        OutcomeInDoubt = "OUTCOME_IN_DOUBT", "The broker's answer never came; the work may have been done";
    }
    503 "ERR503_UNAVAILABLE" {
        BrokerUnreachable = "BROKER_UNREACHABLE", "The broker cannot be reached";
        StoreUnavailable = "STORE_UNAVAILABLE", "A store that the gateway needs cannot be reached";
        PoolTimeout = "POOL_TIMEOUT", "No connection to the broker became free";
        Busy = "BUSY", "The gateway is at its limit";
    }
    504 "ERR504_TIMEOUT" {
        BrokerTimeout = "BROKER_TIMEOUT", "The broker did not answer in time";
    }
}

impl Reason {
    /// Returns the seconds after which a client should try again, if the contract promises the
    /// header.
    #[must_use]
    pub const fn default_retry_after(self) -> Option<u32> {
        match self.status() {
            // A retry with the same key continues where the work may have ended.
            _ if matches!(self, Self::OutcomeInDoubt) => Some(1),
            429 => Some(60),
            503 => Some(1),
            504 => Some(5),
            _ => None,
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
