"""Deploys template.yaml into the local AWS stand-in, with the development binaries as code.

The stand-in applies the SAM transform and CloudFormation; this program packages (as `sam package` does) and reads
from the template what the stand-in is known not to do: the routes of both APIs and the tables' time to live.
It also makes what a deployment uses and does not own: a bucket, and a bus and a topic for events.
It writes all of them, with the physical names, to one JSON file for the local stack.
"""

import argparse
import json
import os
import re
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import boto3
import yaml
from botocore.config import Config
from botocore.exceptions import ClientError
from samtranslator.yaml_helper import intrinsics_multi_constructor

ARTIFACTS = "integrahub-artifacts"
DEPLOY_SECONDS = 120
FUNCTION = "AWS::Serverless::Function"
TABLE = "AWS::DynamoDB::Table"


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Reads the short forms of CloudFormation as SAM does. The reader that is written in Python, which SAM takes, needs seconds for a template of this size."""


Loader.add_multi_constructor("!", intrinsics_multi_constructor)


# What the functions here do otherwise than by themselves: short pauses between attempts, no TLS to
# a database that is on this machine, too, and the shortest interval between checks for stopped
# batches.
VARIABLES = {"RETRY_BASE_SECONDS": "1", "DATABASE_TLS": "off", "RECONCILE_MINUTES": "2"}
SCHEDULE = "rate(2 minutes)"


class Refused(Exception):
    """A sentence for the person at the terminal."""


def resources(template, kind):
    return {name: r for name, r in template["Resources"].items() if r["Type"] == kind}


def package(template, binaries, s3):
    """Uploads every function's binary and points its CodeUri at it."""

    def upload(item):
        name, resource = item
        binary = resource.get("Metadata", {}).get("BuildProperties", {}).get("Binary")
        if binary is None:
            raise Refused(f"{name} in the template lacks Metadata.BuildProperties.Binary, which names its binary.")
        path = binaries / binary
        if not path.is_file():
            raise Refused(f"The binary {path} of {name} is missing: run `cargo build --workspace --bins`.")
        s3.put_object(Bucket=ARTIFACTS, Key=f"{binary}.zip", Body=zipped(path))
        resource.setdefault("Properties", {})["CodeUri"] = {"Bucket": ARTIFACTS, "Key": f"{binary}.zip"}

    functions = resources(template, FUNCTION)
    template.get("Globals", {}).get("Function", {}).pop("CodeUri", None)
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(upload, functions.items()))
    return len(functions)


def zipped(binary):
    entry = zipfile.ZipInfo("bootstrap")
    entry.external_attr = 0o100755 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", compresslevel=1) as archive:
        archive.writestr(entry, binary.read_bytes(), compresslevel=1)
    return buffer.getvalue()


def without_kafka(template):
    """The stand-in has no event source mapping for a cluster that is not its own; local/kafka/poller.py plays it."""
    for name, mapping in resources(template, "AWS::Lambda::EventSourceMapping").items():
        if "SelfManagedEventSource" in mapping["Properties"]:
            del template["Resources"][name]


def without_metric_math(template):
    """The stand-in refuses an alarm on a sum of metrics. It raises no alarms, so nothing misses one, nor what names them all."""
    for name, alarm in resources(template, "AWS::CloudWatch::Alarm").items():
        if "Metrics" in alarm["Properties"]:
            del template["Resources"][name]
    for kind in ("AWS::CloudWatch::CompositeAlarm", "AWS::CloudWatch::Dashboard"):
        for name in resources(template, kind):
            del template["Resources"][name]


def create(template, stack, parameters, endpoint, s3, cloudformation):
    s3.put_object(Bucket=ARTIFACTS, Key="template.json", Body=json.dumps(template).encode())
    try:
        cloudformation.create_stack(
            StackName=stack,
            TemplateURL=f"{endpoint}/{ARTIFACTS}/template.json",
            Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
    except ClientError as error:
        raise Refused(f"CloudFormation refused template.yaml: {error.response['Error']['Message']}") from error


def wait(stack, cloudformation):
    """The created stack, or a refusal that names every resource that failed and why."""
    end = time.monotonic() + DEPLOY_SECONDS
    while time.monotonic() < end:
        found = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
        if found["StackStatus"] == "CREATE_COMPLETE":
            return found
        if not found["StackStatus"].endswith("IN_PROGRESS") or "ROLLBACK" in found["StackStatus"]:
            raise Refused(failures(stack, found, cloudformation))
        time.sleep(0.1)
    raise Refused(f"The deployment is still {found['StackStatus']} after {DEPLOY_SECONDS} s.")


def failures(stack, found, cloudformation):
    events = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
    lines = [
        f"  {e['LogicalResourceId']} ({e.get('ResourceType', 'unknown type')}): {e['ResourceStatusReason']}"
        for e in reversed(events)
        if e["ResourceStatus"].endswith("FAILED") and e.get("ResourceStatusReason")
    ]
    lines = lines or [f"  {found.get('StackStatusReason', found['StackStatus'])}"]
    return "\n".join(["template.yaml could not be deployed:", *lines])


def physical_names(stack, cloudformation):
    pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack)
    return {
        r["LogicalResourceId"]: r["PhysicalResourceId"] for page in pages for r in page["StackResourceSummaries"]
    }


def body(template, api):
    return template["Resources"][api]["Properties"]["DefinitionBody"]


def routes(template, api, names):
    """The routes of an API to functions that are there: some depend on conditions."""
    for path, methods in body(template, api)["paths"].items():
        if "Fn::If" in methods:
            methods = methods["Fn::If"][1]
        for method, operation in methods.items():
            uri = operation["x-amazon-apigateway-integration"]["uri"]["Fn::Sub"]
            function = re.search(r"\$\{(\w+)\.Alias\}", uri)[1]
            if function in names:
                yield {"key": path if path == "$default" else f"{method.upper()} {path}", "function": function}


def unrouted(template):
    """The body with which the REST API answers what no route takes."""
    responses = body(template, "RestApi")["x-amazon-apigateway-gateway-responses"]
    return responses["MISSING_AUTHENTICATION_TOKEN"]["responseTemplates"]["application/json"]


def number_concurrency(template, parameters):
    """The stand-in leaves a parameter's number a text here, and then cannot compare it."""
    defaults = {name: parameter.get("Default") for name, parameter in template["Parameters"].items()}
    for function in resources(template, FUNCTION).values():
        for event in function["Properties"].get("Events", {}).values():
            scaling = (event.get("Properties") or {}).get("ScalingConfig", {})
            concurrency = scaling.get("MaximumConcurrency")
            if isinstance(concurrency, dict):
                name = concurrency["Ref"]
                scaling["MaximumConcurrency"] = int(parameters.get(name, defaults[name]))


def schedule(template):
    for function in resources(template, FUNCTION).values():
        for event in function["Properties"].get("Events", {}).values():
            if event["Type"] == "Schedule" and event["Properties"]["Schedule"] != "rate(1 minute)":
                event["Properties"]["Schedule"] = SCHEDULE


def name_functions(template):
    """Each function says in its calls who it is, for the record that the stand-in keeps of them (local/aws_calls.py)."""
    for name, function in resources(template, FUNCTION).items():
        variables = function["Properties"].setdefault("Environment", {}).setdefault("Variables", {})
        variables["AWS_SDK_UA_APP_ID"] = name


def turn_on_time_to_live(template, names, dynamodb):
    for name, table in resources(template, TABLE).items():
        specification = table["Properties"].get("TimeToLiveSpecification")
        if specification and name in names:
            dynamodb.update_time_to_live(TableName=names[name], TimeToLiveSpecification=specification)


def queue_arn(url):
    """A queue's URL ends with its account and its name."""
    return ":".join(["arn:aws:sqs", os.environ["AWS_DEFAULT_REGION"], *url.split("/")[-2:]])


def drop_bucket(bucket, notifications, s3):
    """A bucket that the deployment does not own, with the notifications that its owner configures."""
    s3.create_bucket(Bucket=bucket)
    notified = {
        "QueueArn": queue_arn(notifications),
        "Events": ["s3:ObjectCreated:*"],
        "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": "drop/"}]}},
    }
    s3.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"QueueConfigurations": [notified]}
    )


def event_destinations(parameters, client):
    """The topic, and the bus with a rule to a queue, whose URL it returns."""
    if "EventBusArn" not in parameters:
        return ""
    bus, events = parameters["EventBusArn"].rpartition("/")[2], client("events")
    client("sns").create_topic(Name=parameters["EventTopicArn"].rpartition(":")[2])
    # A queue without a reader keeps an event for an hour.
    kept = {"MessageRetentionPeriod": "3600"}
    queue_url = client("sqs").create_queue(QueueName=bus, Attributes=kept)["QueueUrl"]
    events.create_event_bus(Name=bus)
    events.put_rule(Name=bus, EventBusName=bus, EventPattern=json.dumps({"source": ["integrahub"]}))
    events.put_targets(Rule=bus, EventBusName=bus, Targets=[{"Id": "queue", "Arn": queue_arn(queue_url)}])
    return queue_url


def deploy(arguments):
    def client(service):
        # Path style, because bucket host names need not resolve here.
        return boto3.client(service, endpoint_url=arguments.endpoint, config=Config(s3={"addressing_style": "path"}))

    s3, cloudformation = client("s3"), client("cloudformation")
    template = yaml.load(arguments.template.read_text(), Loader)
    s3.create_bucket(Bucket=ARTIFACTS)
    count = package(template, arguments.binaries, s3)
    print(f"uploaded {count} functions", flush=True)
    parameters = json.loads(arguments.parameters)
    variables = dict(VARIABLES)
    if library := arguments.ibm_mq_library:
        # Beside the stand-in's library are the sockets of its queue manager.
        variables |= {"IBM_MQ_LIBRARY": library, "MQM_STANDIN_DIR": str(Path(library).parent)}
    template["Globals"]["Function"]["Environment"]["Variables"] |= variables
    name_functions(template)
    number_concurrency(template, parameters)
    schedule(template)
    without_kafka(template)
    without_metric_math(template)
    create(template, arguments.stack, parameters, arguments.endpoint, s3, cloudformation)
    stack = wait(arguments.stack, cloudformation)
    names = physical_names(arguments.stack, cloudformation)
    turn_on_time_to_live(template, names, client("dynamodb"))
    print(f"created {len(names)} resources", flush=True)
    drop_bucket(parameters["AcceptDrops"], names["NotificationsQueue"], s3)
    return {
        "routes": list(routes(template, "Api", names)),
        "rest_routes": list(routes(template, "RestApi", names)),
        "rest_unrouted": unrouted(template),
        "events_queue": event_destinations(parameters, client),
        "names": names,
        # What was compared with the policies of another deployment would be wrong.
        "parameters": parameters,
        "outputs": {o["OutputKey"]: o["OutputValue"] for o in stack.get("Outputs", [])},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--template", type=Path, required=True)
    parser.add_argument("--binaries", type=Path, required=True)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--stack", required=True)
    parser.add_argument("--parameters", required=True, help="JSON object of names and values")
    parser.add_argument("--ibm-mq-library", help="absolute path of the library that mq-access loads for IBM MQ")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        deployment = deploy(arguments)
    except Refused as refused:
        sys.exit(str(refused))
    arguments.output.write_text(json.dumps(deployment, indent=1))


if __name__ == "__main__":
    main()
