"""Later deployments keep what holds data: computed from the translated template, as a change set would be."""

import json

import pytest
from changes import STATEFUL, STATEFUL_RESOURCES, change_set, denied, losses
from cloudformation import ROOT, allowed, deploy, refusals, source
from scenarios import (
    BROKERS_ENDPOINTS,
    BROKERS_VPC,
    DATABASE_VPC,
    DOMAIN,
    EVENTS,
    EVERYTHING,
    EXISTING_DATABASE,
    GATEWAY,
    IBM_MQ,
    LOAD_TESTS,
    MSK,
    NEW_DATABASE,
    ORGANISATION,
    OTHER_KAFKA,
    OTHER_KEY,
    OTHER_SECRET,
    PARTNER,
    REST,
    SCENARIOS,
    SECRET,
    WEB_ACL,
)

OFF = {"IngestEnabled": "false"}
IN_VPC = {**EXISTING_DATABASE, **DATABASE_VPC}
ELSEWHERE = {**IN_VPC, "DatabaseAddress": "db.example.com:5432/catalogue"}

TRANSITIONS = {
    "the ingest with an existing database": [GATEWAY, EXISTING_DATABASE, GATEWAY, EXISTING_DATABASE],
    "the ingest with a new database": [GATEWAY, NEW_DATABASE, {**NEW_DATABASE, **OFF}, NEW_DATABASE],
    "brokers in a VPC and out of it": [GATEWAY, BROKERS_VPC, BROKERS_ENDPOINTS, BROKERS_VPC, GATEWAY],
    "IBM MQ and back": [GATEWAY, IBM_MQ, GATEWAY],
    "the database in a VPC and out of it": [EXISTING_DATABASE, IN_VPC, EXISTING_DATABASE],
    "an organisation's rules and back": [EXISTING_DATABASE, {**EXISTING_DATABASE, **ORGANISATION}, EXISTING_DATABASE],
    "a domain and back": [GATEWAY, DOMAIN, GATEWAY],
    "a REST API and back": [EXISTING_DATABASE, {**EXISTING_DATABASE, **REST}, EXISTING_DATABASE],
    "drops and back": [EXISTING_DATABASE, {**EXISTING_DATABASE, "AcceptDrops": "true"}, EXISTING_DATABASE],
    "drops into another account's bucket and back": [EXISTING_DATABASE, {**EXISTING_DATABASE, **PARTNER}, EXISTING_DATABASE],
    "Kafka and back": [EXISTING_DATABASE, {**EXISTING_DATABASE, **MSK}, {**EXISTING_DATABASE, **OTHER_KAFKA}, EXISTING_DATABASE],
    "events over Kafka alone and back": [{**EXISTING_DATABASE, **MSK}, {**EXISTING_DATABASE, **MSK, **EVENTS}, {**EXISTING_DATABASE, **MSK}],
    "load tests and back": [GATEWAY, LOAD_TESTS, GATEWAY],
    "a reader and back": [NEW_DATABASE, {**NEW_DATABASE, "CreateDatabase": "with-reader"}, NEW_DATABASE],
}

# Parameters whose change takes a table or a cluster away, so that the stack policy has to refuse
# it.
FOR_CREATION_ONLY = {"CreateDatabase", "DatabaseKmsKeyArn", "DatabaseSnapshotIdentifier", "IdempotencyTableName"}

# Another value of each parameter that has no list or range of values, or several of one that says
# several things. One of Rollout is enough: SAM translates the template anew for each, which takes
# it seconds, and only the name of CodeDeploy's configuration differs.
OTHER = {
    "AcceptDrops": "other-files/777788889999",
    "AlarmTopicArn": "arn:aws:sns:us-east-1:111122223333:others",
    "ApiPrivateEndpoints": "vpce-99999999",
    "ApiWebAclArn": WEB_ACL.replace("integrahub", "other"),
    "CertificateArn": "arn:aws:acm:us-east-1:111122223333:certificate/99999999-2222-4333-8444-555555555555",
    "CorsOrigins": "https://third.example.com",
    "DatabaseCaSecretArn": OTHER_SECRET,
    "DatabaseAddress": ["other.example.com:5432/catalogue", "db.example.com:5433/catalogue", "db.example.com:5432/other"],
    "DatabaseEngineVersion": "17.5",
    "DatabaseKmsKeyArn": OTHER_KEY,
    "DatabaseRouteTableIds": "rtb-99999999",
    "DatabaseSecretArn": OTHER_SECRET,
    "DatabaseSecurityGroupIds": "sg-99999999",
    "DatabaseSnapshotIdentifier": "another",
    "DatabaseSubnetIds": "subnet-88888888,subnet-99999999",
    "DatabaseVpcId": "vpc-99999999",
    "DomainName": "other.example.com",
    "EventBusArn": "arn:aws:events:us-east-1:111122223333:event-bus/other",
    "EventTopicArn": "arn:aws:sns:us-east-1:111122223333:other",
    "FurtherKmsKeyArns": OTHER_KEY,
    "HostedZoneId": "Z9999",
    "IbmMqLayerArn": "arn:aws:lambda:us-east-1:111122223333:layer:integrahub-ibm-mq-client:2",
    "IdempotencyTableName": "another",
    "InlineTargets": "rabbitmq://b.example.com:5671/A",
    "JwtAudience": "integrahub,another",
    "JwtIssuer": "https://other.example.com",
    "JwtJwksUrl": "https://other.example.com/keys",
    "JwtScopesClaim": "roles",
    "JwtTenantClaim": "custom:tenant",
    "KafkaBootstrapServers": "b-9.example.com:9098",
    "KafkaCaSecretArn": OTHER_SECRET,
    "KafkaClusterArn": "arn:aws:kafka:us-east-1:111122223333:cluster/other/99999999-2222-4333-8444-555555555555-1",
    "KafkaSecretArn": SECRET,
    "KafkaTopicPrefix": "other.",
    "KeyRepositoryObjects": "arn:aws:s3:::other-keys/mq/*",
    "KmsKeyArn": OTHER_KEY,
    "LoadTestReservedConcurrency": "30",
    "MqAccessReservedConcurrency": "7",
    "MqAccessSecurityGroupIds": "sg-88888888",
    "MqAccessSubnetIds": "subnet-77777777",
    "MqAccessTenantConcurrency": "3",
    "PermissionsBoundaryArn": "arn:aws:iam::111122223333:policy/another",
    "PublicReservedConcurrency": "9",
    "RolePath": "/another/",
    "Rollout": "Canary10Percent5Minutes",
    "RouteTableIds": "rtb-88888888",
    "SecretNamePrefix": "another/",
    "TargetLimit": "messages=5",
    "TenantLimit": "requests=0.5/7",
    "VpcId": "vpc-88888888",
}

OVER_KAFKA = {**EXISTING_DATABASE, **OTHER_KAFKA}
BASES = {"gateway": GATEWAY, "Kafka": OVER_KAFKA, "existing database": ELSEWHERE, "new database": NEW_DATABASE, "everything": EVERYTHING, "organisation": ORGANISATION}


def others(name):
    """Values to change the parameter to."""
    parameter = source()["Parameters"][name]
    if name in OTHER:
        return [*(OTHER[name] if isinstance(OTHER[name], list) else [OTHER[name]]), str(parameter["Default"])]
    if "AllowedValues" in parameter:
        return [str(value) for value in parameter["AllowedValues"]]
    number = parameter["Default"] + 1
    assert parameter["Type"] == "Number", f"give OTHER a value of {name}"
    return [str(number if allowed(name, number) else parameter["Default"] - 1)]


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_transition_takes_nothing_that_holds_data(name):
    steps = TRANSITIONS[name]
    for before, after in zip(steps, steps[1:]):
        assert losses(deploy(before), deploy(after, release="2")) == []


@pytest.mark.parametrize("name", source()["Parameters"])
def test_a_changed_parameter_takes_nothing_that_holds_data(name):
    tried, lost = 0, []
    for base in BASES.values():
        for value in others(name):
            after = {**base, name: value}
            if after == base or refusals(after):
                continue
            tried += 1
            lost += losses(deploy(base), deploy(after))
    assert tried > 0, "no case changes it"
    if name in FOR_CREATION_ONLY:
        assert lost, f"{name} may be changed after all"
        assert all(denied(change) for change in lost), lost
    else:
        assert lost == []


def test_the_stack_policy_lets_every_other_change_through():
    for steps in TRANSITIONS.values():
        for before, after in zip(steps, steps[1:]):
            changes = change_set(deploy(before), deploy(after, release="2"))
            assert not [change for change in changes if change.action != "Add" and denied(change)]


def test_switching_the_ingest_off_leaves_its_stores_and_queues_and_takes_its_functions():
    before, after = deploy(NEW_DATABASE), deploy({**NEW_DATABASE, **OFF})
    gone = {change.name for change in change_set(before, after) if change.action == "Update:Delete"}
    assert {"ChunkerFunction", "UpsertFunction", "ReconcileFunctionSchedule", "IngestErrorsAlarm", "Migration"} <= gone
    kept = {"PayloadBucket", "BatchesTable", "BatchesReceivedQueue", "ChunksReadyQueue", "UnhandledQueue", "DatabaseCluster", "DatabaseInstance", "ChunkerLogs"}
    assert kept <= set(after.resources)


def test_code_alone_changes_functions_versions_aliases_and_what_watches_them_only():
    changes = change_set(deploy(EVERYTHING), deploy(EVERYTHING, release="2"))
    kinds = {"AWS::Lambda::Function", "AWS::Lambda::Version", "AWS::Lambda::Alias", "AWS::CloudFormation::CustomResource"}
    # What watches the newest version has another one to watch.
    assert {change.kind for change in changes if not change.name.endswith("RolloutAlarm")} <= kinds
    assert "MigrateFunction" in {change.name for change in changes}


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_holds_data_outlives_the_stack_and_a_failed_first_deployment_does_not_leave_it(name):
    for logical, resource in deploy(SCENARIOS[name]).resources.items():
        if resource["Type"] in STATEFUL or logical in STATEFUL_RESOURCES:
            assert resource["DeletionPolicy"] == "RetainExceptOnCreate", logical
            assert resource["UpdateReplacePolicy"] == "Retain", logical
        if resource["Type"] == "AWS::S3::BucketPolicy":
            assert resource["DeletionPolicy"] == "RetainExceptOnCreate", logical


def test_a_failed_first_deployment_can_remove_its_cluster():
    # RDS deletes no protected cluster, so that the rollback would fail.
    assert deploy(NEW_DATABASE).properties("DatabaseCluster")["DeletionProtection"] == "false"


def test_the_stack_policy_names_only_what_the_template_has():
    policy = json.loads((ROOT / "deploy/stack-policy.json").read_text())
    stack = deploy(EVERYTHING)
    for statement in policy["Statement"]:
        for kind in statement.get("Condition", {}).get("StringEquals", {}).get("ResourceType", []):
            assert stack.of(kind), kind
        if statement["Resource"] != "*":
            assert statement["Resource"].removeprefix("LogicalResourceId/") in stack.resources
