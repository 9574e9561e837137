"""The AWS stand-in, and a project as `sam build` leaves it, for SAM CLI to deploy."""

import copy
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import boto3
from botocore.config import Config
from cloudformation import ROOT, source

PYTHON = ROOT / ".local/python/bin/python"
PROGRAM = ROOT / "local/aws_stand_in.py"
SAM = Path(sys.executable).parent / "sam"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}

# Answers every invocation, and CloudFormation where a custom resource asks.
BOOTSTRAP = """#!{python}
import json, os, urllib.request
runtime = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/invocation/"
while True:
    with urllib.request.urlopen(runtime + "next") as answer:
        request, event = answer.headers["Lambda-Runtime-Aws-Request-Id"], json.load(answer)
    if "ResponseURL" in event:
        body = {{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}}
        body |= {{"Status": "SUCCESS", "PhysicalResourceId": "schema"}}
        put = urllib.request.Request(event["ResponseURL"], json.dumps(body).encode(), {{"Content-Type": ""}}, method="PUT")
        urllib.request.urlopen(put).read()
    urllib.request.urlopen(urllib.request.Request(runtime + request + "/response", b"{{}}", method="POST")).read()
"""


class StandIn:
    """The local stack's, on a port of its own, in a directory of its own."""

    def __init__(self, directory, **variables):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{port}"
        self.directory = directory
        environment = {
            **CREDENTIALS,
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "TMPDIR": str(directory),
            "STATE_DIR": str(directory / "state"),
            "S3_DATA_DIR": str(directory / "s3"),
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            "LAMBDA_EXECUTOR": "local",
            "AWS_ENDPOINT_URL": self.endpoint,
            "PYTHONDONTWRITEBYTECODE": "1",
            **variables,
        }
        self.log = (directory / "log").open("w")
        self.process = subprocess.Popen([PYTHON, PROGRAM], cwd=directory, env=environment, stdout=self.log, stderr=subprocess.STDOUT)
        end = time.monotonic() + 600
        while True:
            try:
                urllib.request.urlopen(f"{self.endpoint}/_ministack/health", timeout=1).read()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    self.stop()
                    raise RuntimeError((directory / "log").read_text()) from None
                time.sleep(0.1)

    def client(self, service):
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(s3={"addressing_style": "path"}),
        )

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Project:
    """template.yaml and samconfig.toml in a directory of their own, with small programs in place of the functions' binaries."""

    def __init__(self, directory, standin):
        self.directory, self.standin = directory, standin
        shutil.copy(ROOT / "samconfig.toml", directory)
        self.build("1")

    def build(self, release):
        """What `sam build` leaves: the template with the place of each function's code, as JSON, which SAM CLI reads faster."""
        built = self.directory / ".aws-sam/build"
        template = copy.deepcopy(source())
        del template["Globals"]["Function"]["CodeUri"]
        # The stand-in refuses an alarm on a sum of metrics. The others of these name all alarms.
        without = {"AWS::CloudWatch::CompositeAlarm", "AWS::CloudWatch::Dashboard"}
        template["Resources"] = {
            name: resource
            for name, resource in template["Resources"].items()
            if "Metrics" not in resource["Properties"] and resource["Type"] not in without
        }
        for name, resource in template["Resources"].items():
            if resource["Type"] == "AWS::Serverless::Function":
                resource["Properties"]["CodeUri"] = name
                program = built / name / "bootstrap"
                program.parent.mkdir(parents=True, exist_ok=True)
                program.write_text(BOOTSTRAP.format(python=sys.executable) + f"# release {release} of {name}\n")
                program.chmod(0o755)
        (built / "template.yaml").write_text(json.dumps(template))

    def sam(self, *arguments, answers="", timeout=1200):
        """What SAM CLI prints. Every answer is a line; where they end, the question aborts."""
        environment = {
            **CREDENTIALS,
            "PATH": os.environ["PATH"],
            "HOME": str(self.directory),
            "AWS_ENDPOINT_URL": self.standin.endpoint,
            "SAM_CLI_TELEMETRY": "0",
            "SAM_CLI_POLL_DELAY": "1",
            "PYTHONWARNINGS": "ignore",
            "COLUMNS": "120",
        }
        command = [SAM, *arguments, *(["--use-json"] if arguments[0] == "deploy" else [])]
        return subprocess.run(command, cwd=self.directory, env=environment, input=answers, capture_output=True, text=True, timeout=timeout)
