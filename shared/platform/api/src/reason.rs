//! Reasons of problems, with their HTTP statuses and the contract's error codes.

use serde::{Serialize, Serializer};

/// Declares all reasons of problems, each with its status, code, title and action.
macro_rules! reasons {
    ($($status:literal $code:literal {
        $($variant:ident = $name:literal, $title:literal => $action:literal;)*
    })*) => {
        /// Reason why a request was refused or failed, as clients see it. It determines the HTTP
        /// status and the code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $title] $variant,)*)*
        }

        impl Reason {
            /// All reasons, in the order of `openapi.yaml`.
            pub const ALL: &[Self] = &[$($(Self::$variant,)*)*];

            /// Returns the HTTP status of the reason.
            pub const fn status(self) -> u16 {
                match self {
                    $($(Self::$variant)|* => $status,)*
                }
            }

            /// Returns the member `code` of problems with this reason, which is common to similar
            /// reasons.
            pub const fn code(self) -> &'static str {
                match self {
                    $($(Self::$variant)|* => $code,)*
                }
            }

            /// Returns the member `reason` of problems with this reason.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(Self::$variant => $name,)*)*
                }
            }

            /// Returns the member `title` of problems with this reason: a short sentence that is
            /// the same for every occurrence (RFC 9457, section 3.1.4).
            pub const fn title(self) -> &'static str {
                match self {
                    $($(Self::$variant => $title,)*)*
                }
            }

            /// Returns what the operator or the caller should do, for the log and `docs/errors.md`.
            /// The member `detail` of a problem tells the caller.
            pub const fn action(self) -> &'static str {
                match self {
                    $($(Self::$variant => $action,)*)*
                }
            }
        }
    };
}

reasons! {
    400 "ERR400_MISSING_OR_MALFORMED_HEADER" {
        IdempotencyKeyRequired = "IDEMPOTENCY_KEY_REQUIRED", "The header Idempotency-Key is required"
            => "Send the header Idempotency-Key, with a new key for each new request";
        IdempotencyKeyMalformed = "IDEMPOTENCY_KEY_MALFORMED", "The header Idempotency-Key is malformed"
            => "Send one Idempotency-Key of the form that `detail` describes";
        IdempotencyExpiryOutOfRange = "IDEMPOTENCY_EXPIRY_OUT_OF_RANGE", "The header Idempotency-Expiry-Seconds is out of range"
            => "Send a number of seconds that `detail` allows, or leave the header out";
        LoadTypeRequired = "LOAD_TYPE_REQUIRED", "The header X-Inova-Load-Type is required"
            => "Send the header X-Inova-Load-Type as delta or full";
        LoadTypeInvalid = "LOAD_TYPE_INVALID", "The header X-Inova-Load-Type is neither delta nor full"
            => "Send X-Inova-Load-Type once, as delta or full in lower case";
        PartialItemsInvalid = "PARTIAL_ITEMS_INVALID", "The header X-Inova-Partial-Items is neither refuse nor warn"
            => "Send X-Inova-Partial-Items once, as refuse or warn in lower case, or leave it out";
    }
    400 "ERR400_INVALID_PAYLOAD" {
        MalformedJson = "MALFORMED_JSON", "The body is not JSON"
            => "Send valid JSON in UTF-8: `detail` says where the body is not";
        DuplicateMember = "DUPLICATE_MEMBER", "The body has a member twice"
            => "Send each member of an object once";
        NumberOutOfRange = "NUMBER_OUT_OF_RANGE", "The body has a number beyond what JSON carries safely"
            => "Send a number within ±(2^53-1), or an integer of a header as `detail` says";
        SchemaViolation = "SCHEMA_VIOLATION", "The body does not have the form that the operation takes"
            => "Correct the members that `errors` names";
        ContentCorrupt = "CONTENT_CORRUPT", "The body is not the gzip that it claims to be"
            => "Send the gzip byte for byte, and let nothing on the way treat it as text";
    }
    400 "ERR400_INVALID_PARAMETER" {
        InvalidParameter = "INVALID_PARAMETER", "A value in the path or the query is wrong"
            => "Correct the parameter that `parameter` names";
    }
    401 "ERR401_UNAUTHORIZED" {
        ApiKeyRequired = "API_KEY_REQUIRED", "The header X-Api-Key is required"
            => "Send the API key in the header that `detail` names";
        ApiKeyInvalid = "API_KEY_INVALID", "The API key is not known"
            => "Send one complete API key of this deployment, or ask its operator for one";
        TokenInvalid = "TOKEN_INVALID", "The token is not accepted"
            => "Send a new token of the issuer, or correct what `detail` names";
    }
    403 "ERR403_FORBIDDEN" {
        ScopeRequired = "SCOPE_REQUIRED", "The API key lacks a scope"
            => "Ask the operator to give the API key the scope that `detail` names";
        TargetNotAllowed = "TARGET_NOT_ALLOWED", "The target is not allowed"
            => "Name a target that the API key may reach, or ask the operator to allow this one";
        SecretNotAllowed = "SECRET_NOT_ALLOWED", "The secret is not allowed for the target"
            => "Name a secret that is granted for the target, turn ssl.enabled on if `detail` says so, or ask the operator to grant this one";
    }
    404 "ERR404_NOT_FOUND" {
        QueueNotFound = "QUEUE_NOT_FOUND", "The queue does not exist"
            => "Correct the name of the queue or the routing key under a new key, or let the broker's operator create the queue or its binding";
        ExchangeNotFound = "EXCHANGE_NOT_FOUND", "The exchange does not exist"
            => "Correct the name of the exchange under a new key, or let the broker's operator create it";
        TargetRefNotFound = "TARGET_REF_NOT_FOUND", "The target profile does not exist"
            => "Correct `targetRef`, or ask the operator to store the profile";
        BodyNotFound = "BODY_NOT_FOUND", "The stored body does not exist"
            => "Upload the body again, or read a stored body before its response expires";
        BatchNotFound = "BATCH_NOT_FOUND", "The batch does not exist"
            => "Check the batch's id, and send an API key that covers all establishments of the batch";
        ErrorsFileNotFound = "ERRORS_FILE_NOT_FOUND", "The batch has no file of its items in error"
            => "Read the batch's list of errors instead";
        TestNotFound = "TEST_NOT_FOUND", "The load test does not exist"
            => "Check the test's id: GET /tests lists those of the tenant that are kept";
        RequestNotFound = "REQUEST_NOT_FOUND", "The request does not exist"
            => "Check the operation and the idempotency key; a request that expired is forgotten";
        RouteNotFound = "ROUTE_NOT_FOUND", "There is nothing at this path"
            => "Correct the path: GET /docs shows which there are";
    }
    405 "ERR405_INVALID_OPERATION" {
        MethodNotAllowed = "METHOD_NOT_ALLOWED", "The path does not take this method"
            => "Use a method that the header Allow names";
    }
    409 "ERR409_SERVER_STATE_CONFLICT" {
        ConflictingIdempotentRequest = "CONFLICTING_IDEMPOTENT_REQUEST", "The idempotency key was used with another body"
            => "Use a new idempotency key for a new request";
        ConflictingIdempotentRights = "CONFLICTING_IDEMPOTENT_RIGHTS", "The idempotency key was used with other rights"
            => "Send the request with the API key that sent it first, or under a new idempotency key";
        IdempotentRequestInProgress = "IDEMPOTENT_REQUEST_IN_PROGRESS", "The same request is being executed"
            => "Wait for Retry-After, and send the same request with the same key again";
        BatchNotReplayable = "BATCH_NOT_REPLAYABLE", "The batch cannot be replayed"
            => "Wait until the batch is final, or do what `detail` says";
        TestNotFinal = "TEST_NOT_FINAL", "The load test is still under way"
            => "Stop the test, and send the request again when its status is final";
    }
    413 "ERR413_PAYLOAD_TOO_LARGE" {
        MaxPayloadExceeded = "MAX_PAYLOAD_EXCEEDED", "The body is too large"
            => "Send less in a request, under a new key; never split the full load of an establishment: ask the operator to raise MaxPayloadBytes";
        UseUpload = "USE_UPLOAD", "The body is too large for one request and has to be uploaded"
            => "Ask POST /v1/inovafarma/products/uploads for a URL, and upload the body there";
    }
    415 "ERR415_UNSUPPORTED_MEDIA_TYPE" {
        ContentType = "CONTENT_TYPE", "The content type is not supported"
            => "Send one of the media types that `detail` lists";
        ContentEncoding = "CONTENT_ENCODING", "The content encoding is not supported"
            => "Send the body as it is, or compressed once with gzip";
    }
    422 "ERR422_UNPROCESSABLE" {
        UnsupportedByBroker = "UNSUPPORTED_BY_BROKER", "The broker cannot do this"
            => "Leave out what `detail` names, under a new key, or use a broker that can do it";
        ExceedsTimeBudget = "EXCEEDS_TIME_BUDGET", "The work takes longer than one request may"
            => "Send fewer messages in a request, or at a higher rate";
        ExceedsVolume = "EXCEEDS_VOLUME", "The messages have more bytes than one request may put"
            => "Send fewer messages in a request, under another idempotency key";
        ExceedsTestLimit = "EXCEEDS_TEST_LIMIT", "The load test is larger than the deployment allows"
            => "Ask for a smaller test, under a new key, or ask the operator to raise the limit that `detail` names";
        MessageTooLarge = "MESSAGE_TOO_LARGE", "A message is too large"
            => "Send a smaller message under a new key or raise the broker's limit; consume one that no response can carry with `large: store`";
    }
    429 "ERR429_TOO_MANY_REQUESTS" {
        TenantRateLimit = "TENANT_RATE_LIMIT", "The tenant has reached a limit of its requests"
            => "Wait for Retry-After, send the same request with the same key again, and send fewer at once or a second";
        TargetRateLimit = "TARGET_RATE_LIMIT", "The tenant has reached a limit of this target"
            => "Wait for Retry-After, send the same request with the same key again, and send fewer requests, messages or bytes a second to this target";
        BudgetExceeded = "BUDGET_EXCEEDED", "The tenant has spent its budget of the month"
            => "Ask the operator to raise the tenant's budget, or wait for Retry-After until the month is over";
        KeyReuseAbuse = "KEY_REUSE_ABUSE", "Idempotency keys were used with other bodies too often"
            => "Correct the client: each new request needs a new idempotency key";
    }
    502 "ERR502_BROKER_ERROR" {
        BrokerRejected = "BROKER_REJECTED", "The broker refused the operation"
            => "Correct the request under a new key, or the broker's configuration: `detail` says what was refused, and `broker` the reply if there was one";
        AuthenticationFailed = "AUTHENTICATION_FAILED", "The broker refused the credentials"
            => "Correct the login or the key repository that `detail` names, or the user's rights on the broker, and use a new key for another request";
        QueueFull = "QUEUE_FULL", "The queue is full"
            => "Consume messages or raise the queue's limit, and send the same request with the same key again";
        OutcomeInDoubt = "OUTCOME_IN_DOUBT", "The broker's answer never came; the work may have been done"
            => "Wait for Retry-After, and send the same request with the same key again";
    }
    503 "ERR503_UNAVAILABLE" {
        BrokerUnreachable = "BROKER_UNREACHABLE", "The broker cannot be reached"
            => "Check that the broker runs and that its address can be reached, and send the same request with the same key again";
        StoreUnavailable = "STORE_UNAVAILABLE", "A store that the gateway needs cannot be reached"
            => "Send the same request with the same key again, and repair the store or the profile that the log names if that does not help";
        PoolTimeout = "POOL_TIMEOUT", "No connection to the broker became free"
            => "Send the same request again, with the same key if it has one, and raise ConnectionCap if this happens often";
        Busy = "BUSY", "The gateway is at its limit"
            => "Send the same request again, with the same key if it has one, and look at the alarms GatewayThrottles and GatewayErrors if this happens often";
    }
    504 "ERR504_TIMEOUT" {
        BrokerTimeout = "BROKER_TIMEOUT", "The broker did not answer in time"
            => "Send the same request again, with the same key if it has one, and find out why the broker is slow if this happens often";
    }
}

impl Reason {
    /// Returns the seconds of `Retry-After` that problems with this reason have by default; `None`
    /// if they have no such header.
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
