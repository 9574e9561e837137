"""What who deploys has to be allowed, derived from the resource types in the translated template.

`python tests/deployment/deployer_policy.py` writes deploy/deployer-policy.json, deploy/deployer-options-policy.json,
deploy/operator-policy.json and deploy/access-policy.json.
"""

import json
import os
import re
from fnmatch import fnmatchcase

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

from cloudformation import ROOT, deploy  # noqa: E402
from scenarios import EXISTING_DATABASE, GATEWAY, SCENARIOS  # noqa: E402
from schemas import permissions  # noqa: E402

# A managed policy holds no more, white space not counted.
LIMIT = 6144

# Of features that the template does not use, and of data: the schemas name what any such resource
# might need.
NOT_USED = """
    dynamodb:*Replica dynamodb:*Item dynamodb:Query dynamodb:Scan dynamodb:ImportTable dynamodb:EnableKinesis* dynamodb:DisableKinesis*
    dynamodb:PutResourcePolicy dynamodb:DeleteResourcePolicy dynamodb:UpdateContributorInsights dynamodb:UpdateKinesis*
    ec2:UpdateSecurityGroupRuleDescriptions* ec2:DescribeInternetGateways ec2:DescribeInstances ec2:DescribeAccountAttributes
    elasticfilesystem:* firehose:* kinesis:* organizations:* s3files:* s3tables:* vpc-lattice:* vpce:*
    iam:AttachGroupPolicy iam:AttachUserPolicy iam:DetachGroupPolicy iam:DetachUserPolicy
    lambda:*CapacityProvider lambda:AssociateRuntimeAlias lambda:DeleteFunctionCodeSigningConfig lambda:DeleteProvisionedConcurrencyConfig
    lambda:PutFunctionCodeSigningConfig lambda:PutFunctionScalingConfig lambda:PutProvisionedConcurrencyConfig
    lambda:PutRuntimeManagementConfig
    logs:*DataProtectionPolicy logs:*IndexPolicy logs:CreateLogStream logs:PutLogEvents logs:PutBearerTokenAuthentication logs:PutLogGroupDeletionProtection
    rds:*HttpEndpoint rds:*ReadReplica rds:*Replication rds:*RoleFrom* rds:*RoleTo* rds:RestoreDBInstance* rds:RemoveFromGlobalCluster
    rds:CreateDBSnapshot rds:DescribeDBSnapshots rds:RestoreDBClusterToPointInTime
    s3:*BucketMetadata* s3:*ObjectLock* s3:CreateBucketMetadata* s3:DeleteBucketAnalyticsConfiguration s3:DeleteBucketMetricsConfiguration
    s3:DeleteBucketReplication s3:DeleteBucketWebsite s3:DeleteObject s3:GetObjectMetadata s3:PutAccelerateConfiguration s3:PutAnalyticsConfiguration
    s3:PutBucketAbac s3:PutBucketAcl s3:PutBucketLogging s3:PutBucketReplication s3:PutBucketWebsite s3:PutIntelligentTieringConfiguration
    s3:PutInventoryConfiguration s3:PutMetricsConfiguration s3:PutObjectAcl s3:PutReplicationConfiguration s3:REST* s3:getObject
    codedeploy:RegisterOnPremisesInstance
    cloudtrail:*Insight* cloudtrail:PutEventConfiguration cloudtrail:GetEventConfiguration
    amplify:* apprunner:* appsync:* bedrock-agentcore:* cognito-idp:* ec2:*VerifiedAccess* elasticloadbalancing:* wafv2:*PermissionPolicy
""".split()

# What SAM CLI and CloudFormation do besides: the stack and its bucket for code, the API's access
# log, the call of the migration, and what docs/production.md does to the stack.
ALWAYS = {
    *(f"cloudformation:{action}" for action in ("CreateChangeSet", "DeleteChangeSet", "DeleteStack", "DescribeChangeSet", "DescribeStackEvents")),
    *(f"cloudformation:{action}" for action in ("DescribeStacks", "ExecuteChangeSet", "GetTemplate", "GetTemplateSummary", "ListStackResources")),
    *(f"cloudformation:{action}" for action in ("SetStackPolicy", "UpdateTerminationProtection", "ValidateTemplate")),
    *(f"logs:{action}" for action in ("CreateLogDelivery", "DeleteLogDelivery", "GetLogDelivery", "ListLogDeliveries", "UpdateLogDelivery")),
    *("logs:DescribeResourcePolicies", "logs:PutResourcePolicy", "lambda:InvokeFunction", "s3:PutObject", "s3:PutBucketVersioning"),
}
# An interface endpoint has a private name; RDS makes the secret of its password, and its own
# service-linked role; Lambda looks at the network of a function that has one.
OPTIONS = {
    *("route53:AssociateVPCWithHostedZone", "secretsmanager:CreateSecret", "secretsmanager:TagResource", "iam:CreateServiceLinkedRole"),
    *(f"ec2:Describe{what}" for what in ("NetworkInterfaces", "SecurityGroups", "Subnets", "Vpcs")),
}

# The stack of layers/ibm-mq-client.
LAYER = {"AWS::Lambda::LayerVersion"}

# The pages whose commands are for who deploys and operates.
OF_DEPLOYING = ("docs/deploy.md", "docs/access.md", "docs/network.md", "docs/database.md", "docs/production.md", "docs/upgrade.md")
OF_OPERATING = ("docs/operate.md", "docs/runbook.md", "docs/runbook-ingest.md")
PAGES = (*OF_DEPLOYING, *OF_OPERATING, "docs/start.md", "docs/gateway.md", "docs/ibm-mq-layer.md", "docs/ingest.md", "deploy/INSTALL.md")
# Commands that call other actions than the one of their own name.
COMMANDS = {
    "aws cloudformation deploy": set(),  # is in ALWAYS
    "aws cloudformation wait": {"cloudformation:DescribeStacks"},
    "aws lambda invoke": {"lambda:InvokeFunction"},
    "aws s3 cp": {"s3:GetObject", "s3:ListBucket", "s3:PutObject"},
    "aws s3 rb": {"s3:DeleteBucket", "s3:DeleteObject", "s3:ListBucket"},
    "aws s3 sync": {"s3:ListBucket", "s3:PutObject"},
    "aws sqs start-message-move-task": {
        *(f"sqs:{action}" for action in ("DeleteMessage", "GetQueueAttributes", "ReceiveMessage", "SendMessage", "StartMessageMoveTask")),
    },
}
# `sam delete` empties its bucket for code. The Terraform module makes the stack without a change
# set, and reads what it has made.
OTHER_TOOLS = {
    *(f"s3:{action}" for action in ("DeleteObject", "DeleteObjectVersion", "ListBucketVersions")),
    *(f"cloudformation:{action}" for action in ("ContinueUpdateRollback", "CreateStack", "GetStackPolicy", "UpdateStack")),
    *(f"s3:{action}" for action in ("GetBucketLocation", "GetObject", "GetObjectTagging", "PutObjectTagging")),
}
# What `integrahub doctor` asks, beside the access table.
DOCTOR = {
    *(f"cloudformation:{action}" for action in ("DescribeStacks", "ListStackResources")),
    *(f"ec2:Describe{what}" for what in ("RouteTables", "SecurityGroups", "Subnets", "VpcAttribute", "VpcEndpoints")),
    *(f"lambda:{action}" for action in ("GetAccountSettings", "GetFunctionConcurrency", "InvokeFunction")),
    *("cloudwatch:DescribeAlarms", "logs:FilterLogEvents", "secretsmanager:DescribeSecret", "ssm:DescribeParameters"),
    *("sns:GetTopicAttributes", "sns:ListSubscriptionsByTopic"),
}


def documented():
    """The actions that the documents' commands call."""
    found = set()
    for page in PAGES:
        for service, name in re.findall(r"\baws ([a-z0-9]+) ([a-z0-9-]+)", (ROOT / page).read_text()):
            own = {f"{service}:{''.join(word.capitalize() for word in name.split('-'))}"}
            found |= COMMANDS.get(f"aws {service} {name}", own)
    return {action.replace("DbCluster", "DBCluster").replace("DbInstance", "DBInstance") for action in found}


def kinds(scenarios):
    found = {resource["Type"] for parameters in scenarios for resource in deploy(parameters).resources.values()}
    return found - {"AWS::CloudFormation::CustomResource"}


def actions(kinds):
    every = set()
    for action in {action for kind in kinds for action in permissions(kind)}:
        service, name = action.split(":")
        every.add(f"{service.lower()}:{name}")
    return {action for action in every if not any(fnmatchcase(action, pattern) for pattern in NOT_USED)}


# What holds code, data or messages, by the name that CloudFormation gives it, which begins with the
# stack's. The last bucket is SAM CLI's. Mappings have no names; their functions have.
NAMED = {
    "dynamodb": ["arn:aws:dynamodb:*:*:table/*integrahub*"],
    "lambda": ["arn:aws:lambda:*:*:function:*integrahub*", "arn:aws:lambda:*:*:event-source-mapping:*"],
    "logs": ["arn:aws:logs:*:*:log-group:*integrahub*"],
    "s3": ["arn:aws:s3:::*integrahub*", "arn:aws:s3:::aws-sam-cli-managed-*"],
    "sqs": ["arn:aws:sqs:*:*:*integrahub*"],
}
# Of these services, what IAM grants for all resources or none, and what is about others.
WHEREVER = """
    lambda:CreateEventSourceMapping lambda:ListEventSourceMappings lambda:Get*CodeSigningConfig lambda:*LayerVersion lambda:GetAccountSettings
    logs:*Delivery logs:*Deliveries logs:*ResourcePolic* logs:DescribeLogGroups logs:GetQueryResults
""".split()


# The name of the table of idempotency records in `production`, which is not the stack's.
RECORDS = "arn:aws:dynamodb:*:*:table/mq-probe-idempotency"


# What `integrahub` calls to administer access: it changes the access table, reads records of
# idempotency and audit events, and asks the function that assigns establishments.
ACCESS = {
    "Stack": (["cloudformation:DescribeStacks"], ["arn:aws:cloudformation:*:*:stack/*integrahub*/*"]),
    "Access": (
        [f"dynamodb:{action}" for action in ("DeleteItem", "GetItem", "PutItem", "Scan", "UpdateItem")],
        ["arn:aws:dynamodb:*:*:table/*integrahub*-AccessTable-*"],
    ),
    "Records": (
        ["dynamodb:GetItem", "dynamodb:Query"],
        # The index of the first one is below its name.
        ["arn:aws:dynamodb:*:*:table/*integrahub*-IdempotencyTable-*", RECORDS, f"{RECORDS}/index/target-index"],
    ),
    "Owners": (["lambda:InvokeFunction"], ["arn:aws:lambda:*:*:function:*integrahub*-EstablishmentsFunction-*"]),
    "Audit": (["logs:FilterLogEvents"], ["arn:aws:logs:*:*:log-group:/audit/*integrahub*"]),
}


def is_named(action):
    return action.split(":")[0] in NAMED and not any(fnmatchcase(action, pattern) for pattern in WHEREVER)


def document(actions):
    """What holds code, data or messages, roles and policies by their names, which begin with the stack's; all else wherever it is."""
    # IAM lists all roles or none.
    iam = {action for action in actions if action.startswith("iam:")} - {"iam:ListRoles"}
    linked, passed = iam & {"iam:CreateServiceLinkedRole"}, iam & {"iam:PassRole"}
    named = {action for action in actions if is_named(action)}
    statements = [{"Sid": "Any", "Effect": "Allow", "Action": sorted(actions - iam - named), "Resource": "*"}]
    if named:
        services = {action.split(":")[0] for action in named}
        resources = [arn for service in sorted(services) for arn in NAMED[service]]
        statements.append({"Sid": "Named", "Effect": "Allow", "Action": sorted(named), "Resource": resources})
    if iam - linked - passed:
        owned = ["arn:aws:iam::*:role/*integrahub*", "arn:aws:iam::*:policy/*integrahub*"]
        statements.append({"Sid": "Roles", "Effect": "Allow", "Action": sorted(iam - linked - passed), "Resource": owned})
    if passed:
        services = {"StringEquals": {"iam:PassedToService": ["lambda.amazonaws.com", "codedeploy.amazonaws.com"]}}
        pass_on = {"Action": sorted(passed), "Resource": "arn:aws:iam::*:role/*integrahub*", "Condition": services}
        statements.append({"Sid": "Pass", "Effect": "Allow", **pass_on})
    if linked:
        own = "arn:aws:iam::*:role/aws-service-role/*"
        statements.append({"Sid": "Linked", "Effect": "Allow", "Action": sorted(linked), "Resource": own})
    return {"Version": "2012-10-17", "Statement": statements}


def documents():
    """The policy that each deployment needs, the one that a new database, networks, a domain, a REST API, rollouts, load tests and the
    audit trail need besides, the one for the commands of the documents, for Terraform, and for the removal of a stack, and the one for who
    administers access."""
    base = kinds([GATEWAY, EXISTING_DATABASE])
    needed = actions(base) | ALWAYS
    needed -= OPTIONS
    further = (actions(kinds(SCENARIOS.values()) - base | LAYER) | OPTIONS) - needed
    operating = (documented() | OTHER_TOOLS | DOCTOR) - needed
    named = {"deployer": needed, "deployer-options": further, "operator": operating}
    policies = {f"deploy/{name}-policy.json": document(actions) for name, actions in named.items()}
    statements = [{"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": arns} for sid, (actions, arns) in ACCESS.items()]
    policies["deploy/access-policy.json"] = {"Version": "2012-10-17", "Statement": statements}
    table = sorted(action for action in needed if action.startswith("dynamodb:"))
    machine = {"StringEquals": {"iam:PassedToService": "states.amazonaws.com"}}
    policies["deploy/deployer-options-policy.json"]["Statement"] += [
        {"Sid": "Records", "Effect": "Allow", "Action": table, "Resource": RECORDS},
        {"Sid": "Machine", "Effect": "Allow", "Action": ["iam:PassRole"], "Resource": "arn:aws:iam::*:role/*integrahub*", "Condition": machine},
    ]
    return policies


def text(policy):
    return json.dumps(policy, indent=2) + "\n"


if __name__ == "__main__":
    for path, policy in documents().items():
        (ROOT / path).write_text(text(policy))
        print(f"{path}: {len(json.dumps(policy, separators=(',', ':')))} of {LIMIT} characters")
