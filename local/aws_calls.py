"""Records which AWS calls each function makes, as the rights that IAM would ask for.

A function is known by `app/<logical id>` in the user agent of its SDK, which `AWS_SDK_UA_APP_ID` puts
there. A presigned request is its sender's, so it has none.
"""

import base64
import json
import re
from urllib.parse import parse_qs

FUNCTION = re.compile(rb"\bapp/([A-Za-z0-9]+)")
SERVICE = re.compile(rb"Credential=[^/]+/[^/]+/[^/]+/([^/]+)/")
INVOCATION = re.compile(r"/2015-03-31/functions/([^/]+)/(invocations|response-streaming-invocations)$")
# Parts of a transaction need the rights of the same writes outside of one.
IN_TRANSACTION = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem", "Get": "GetItem"}
# Members that name the resource of a call. A text within another one has a backslash before its
# quotation marks, so a search finds the member alone, and quicker than a parser.
NAMED_BY = {
    "dynamodb": "TableName",
    "sqs": "QueueUrl|QueueName",
    "secretsmanager": "SecretId",
    "states": "stateMachineArn|executionArn",
    "ssm": "Name",
    "logs": "logGroupName",
    "kms": "KeyId",
    "logs": "logGroupName",
}
NAMED_BY = {service: re.compile(rb'"(?:%s)"\s*:\s*"([^"]+)"' % members.encode()) for service, members in NAMED_BY.items()}
STREAM = re.compile(rb":table/([^/\"]+)/stream/")
INDEX = re.compile(rb'"IndexName"\s*:\s*"([^"]+)"')


def named(service, body):
    found = NAMED_BY[service].search(body)
    return found.group(1).decode() if found else "*"


def dynamodb(operation, body):
    if operation in ("TransactWriteItems", "TransactGetItems"):
        for item in json.loads(body)["TransactItems"]:
            for kind, part in item.items():
                yield IN_TRANSACTION[kind], part["TableName"]
    elif operation in ("BatchGetItem", "BatchWriteItem"):
        yield from ((operation, table) for table in json.loads(body)["RequestItems"])
    elif operation in ("DescribeStream", "GetShardIterator", "GetRecords"):
        iterator = json.loads(body).get("ShardIterator")
        # The stand-in's iterators are JSON in base64, with the stream's ARN.
        found = STREAM.search(base64.urlsafe_b64decode(iterator) if iterator else body)
        yield operation, f"{found.group(1).decode()}/stream" if found else "*"
    else:
        index = INDEX.search(body) if operation in ("Query", "Scan") else None
        yield operation, named("dynamodb", body) + (f"/index/{index.group(1).decode()}" if index else "")


def s3(method, path, query, headers):
    bucket, _, key = path.lstrip("/").partition("/")
    if not key:
        listing = {"GET": "ListBucketVersions" if "versions" in query else "ListBucketMultipartUploads" if "uploads" in query else "ListBucket", "HEAD": "ListBucket"}
        yield listing.get(method, f"{method} {'&'.join(sorted(query))}"), bucket
        return
    # A name that has digits is one of many.
    place = "/".join([bucket, *("*" if re.search("[0-9]", part) else part for part in key.split("/"))])
    version = "Version" if "versionId" in query else ""
    if "tagging" in query:
        yield {"GET": f"GetObject{version}Tagging", "PUT": f"PutObject{version}Tagging", "DELETE": f"DeleteObject{version}Tagging"}[method], place
    elif method in ("GET", "HEAD"):
        yield "ListMultipartUploadParts" if "uploadId" in query else f"GetObject{version}", place
    elif method == "DELETE":
        yield "AbortMultipartUpload" if "uploadId" in query else f"DeleteObject{version}", place
    else:
        yield "PutObject", place
        if b"x-amz-tagging" in headers:
            yield "PutObjectTagging", place
        if b"x-amz-copy-source" in headers:
            yield from s3("GET", "/" + headers[b"x-amz-copy-source"].decode().lstrip("/").partition("?")[0], {}, {})


def calls(scope, headers, body):
    """(right, resource) of each thing that a request does."""
    service = SERVICE.search(headers.get(b"authorization", b""))
    service = service.group(1).decode() if service else "unsigned"
    target = headers.get(b"x-amz-target", b"").decode()
    operation = target.rpartition(".")[2]
    path, query = scope["path"], parse_qs(scope["query_string"].decode(), keep_blank_values=True)
    if service == "dynamodb":
        found = dynamodb(operation, body)
    elif service == "s3":
        found = s3(scope["method"], path, query, headers)
    elif service == "lambda" and INVOCATION.search(path):
        qualifier = f":{query['Qualifier'][0]}" if "Qualifier" in query else ""
        found = [("InvokeFunction", INVOCATION.search(path).group(1) + qualifier)]
    elif service == "sns":
        form = parse_qs(body.decode())
        found = [(form["Action"][0].removesuffix("Batch"), form.get("TopicArn", ["*"])[0])]
    elif service == "events":
        found = [(operation, entry.get("EventBusName", "default")) for entry in json.loads(body).get("Entries", [{}])]
    elif service in NAMED_BY and operation:
        found = [(operation.removesuffix("Batch"), named(service, body))]
    else:
        # No right has such a name, so it is reported.
        found = [(operation or f"{scope['method']} {path}", "*")]
    return [(f"{service}:{right}", resource) for right, resource in found]


class Recorder:
    """Passes requests on, and writes a line for each call that a function had not made yet."""

    def __init__(self, app, path):
        self.app = app
        self.known = set()
        self.file = open(path, "a", buffering=1)

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", []))
        function = FUNCTION.search(headers.get(b"x-amz-user-agent", b""))
        if function is None:
            await self.app(scope, receive, send)
            return
        # Objects are large, and no call depends on what is in them.
        is_object = b"x-amz-content-sha256" in headers
        body, is_whole = bytearray(), is_object

        async def kept():
            nonlocal is_whole
            message = await receive()
            if message["type"] == "http.request" and not is_object:
                body.extend(message.get("body", b""))
                is_whole = not message.get("more_body", False)
            return message

        try:
            await self.app(scope, kept, send)
        finally:
            if is_whole:
                self.record(function.group(1).decode(), scope, headers, bytes(body))

    def record(self, function, scope, headers, body):
        try:
            found = calls(scope, headers, body)
        except (ValueError, KeyError, AttributeError) as error:
            found = [(f"unreadable:{type(error).__name__} {scope['method']} {scope['path']}", "*")]
        for right, resource in found:
            if (function, right, resource) not in self.known:
                self.known.add((function, right, resource))
                self.file.write(json.dumps([function, right, resource]) + "\n")
