import os

import pytest

# The translator asks boto3 for a region, and for nothing else.
os.environ.update(AWS_DEFAULT_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true", SAM_CLI_TELEMETRY="0")
for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
    os.environ.pop(name, None)

from standin import StandIn  # noqa: E402


@pytest.fixture(scope="session")
def standin(tmp_path_factory):
    """One for all that SAM CLI deploys, since its start takes seconds. Each test has stacks of its own."""
    standin = StandIn(tmp_path_factory.mktemp("standin"))
    yield standin
    standin.stop()
