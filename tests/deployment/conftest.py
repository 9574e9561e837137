import os

# The translator asks boto3 for a region, and for nothing else.
os.environ.update(AWS_DEFAULT_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true", SAM_CLI_TELEMETRY="0")
for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
    os.environ.pop(name, None)
