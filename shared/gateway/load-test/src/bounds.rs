//! Numbers in a request to start a load test, each with its bounds and its default.

mq::bounded! {
    /// Number of a load test's producers, or of its consumers.
    WorkerCount: u32, 1..=10_000, default 1;
    /// Number of messages that a load test puts or takes in total, or that must wait on its queues
    /// before its consumers begin.
    MessageCount: u64, 1..=1_000_000_000_000, default 1;
    /// Duration of a load test or of one of its stages, in seconds: at most a week.
    TestSeconds: u32, 1..=604_800, default 60;
    /// Duration of a load test's warm-up, in seconds: the report's percentiles and rates leave it
    /// out.
    WarmUpSeconds: u32, 0..=604_800, default 0;
    /// Rate of one stage of a load test, in messages per second; 0 is a pause.
    StageRate: u32, 0..=1_000_000, default 0;
    /// Maximum number of messages that a producer has sent and the broker has not confirmed yet.
    ConfirmsInFlight: u32, 1..=65_535, default 1_000;
    /// Number of messages that a broker delivers to a consumer ahead of their acknowledgements
    /// (AMQP 0-9-1, basic.qos: a short integer).
    Prefetch: u32, 1..=65_535, default 100;
    /// Number of messages that a load test's consumer acknowledges together.
    AckEvery: u32, 1..=65_535, default 1;
    /// Time in milliseconds that a load test's consumer spends on each message before it takes the
    /// next.
    DelayMs: u32, 0..=60_000, default 0;
    /// Number that replaces `%d` in a load test's pattern of queue names.
    QueueNumber: u32, 0..=4_294_967_295, default 0;
}
