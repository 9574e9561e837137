//! `ministack`, the component that stands in for AWS.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::{Component, Ready};
use crate::failure::Failure;
use crate::layout::{Layout, create};

/// Region of the AWS stand-in.
pub(crate) const REGION: &str = "us-east-1";
/// Access key id of the AWS stand-in's default credentials.
pub(crate) const ACCESS_KEY_ID: &str = "test";
/// Secret access key of the AWS stand-in's default credentials.
pub(crate) const SECRET_ACCESS_KEY: &str = "test";

#[derive(Debug)]
pub(crate) struct Ministack {
    port: u16,
    /// Directory of IBM MQ's client libraries, for `LD_LIBRARY_PATH`; `None` with the stand-in's.
    libraries: Option<PathBuf>,
}

impl Ministack {
    pub(crate) fn new(port: u16, libraries: Option<&Path>) -> Self {
        Self { port, libraries: libraries.map(Path::to_owned) }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the component that stands in for AWS.
    pub(crate) fn component(&self, layout: &Layout) -> Result<Component, Failure> {
        let home = layout.component_directory("ministack")?;
        let temporary = home.join("tmp");
        create(&temporary)?;
        let mut command = Command::new(layout.python("python"));
        command
            .env_clear()
            .arg(layout.root.join("local/aws_stand_in.py"))
            .current_dir(&home)
            .env("HOME", &home)
            .env("TMPDIR", &temporary)
            .env("STATE_DIR", home.join("state"))
            .env("S3_DATA_DIR", home.join("s3"))
            .env("BIND_HOST", "127.0.0.1")
            .env("GATEWAY_PORT", self.port.to_string())
            .env("LAMBDA_EXECUTOR", "local")
            // A burst of requests is two invocations each (a function and mq-access), and every
            // running invocation holds a thread: fewer threads than that and the first half waits
            // for ever for the second.
            .env("LAMBDA_ACCOUNT_CONCURRENCY", "250")
            .env("MINISTACK_WORKER_THREADS", "400")
            .env("LAMBDA_WARM_TTL_SECONDS", "120")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("RECORDED_CALLS", home.join("calls"))
            .env("WRITTEN_LOGS", layout.log("functions"))
            // The functions inherit what follows.
            .env("AWS_ENDPOINT_URL", self.endpoint())
            .env("AWS_REGION", REGION)
            .env("AWS_DEFAULT_REGION", REGION)
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(self.libraries.iter().map(|path| ("LD_LIBRARY_PATH", path)));
        let ready = Ready::Answers(format!("{}/_ministack/health", self.endpoint()));
        Ok(Component::new("ministack", command, ready, "usually 1 s"))
    }
}
