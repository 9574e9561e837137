"""What the review of the first template found, held for each resource that there is or will be."""

import json
import re
from fnmatch import fnmatchcase

import pytest
import yaml
from cloudformation import ROOT, Loader, behind_the_api, deploy, references, source
from scenarios import DATABASE_VPC, DOMAIN, EVERYTHING, EXISTING_DATABASE, GATEWAY, IBM_MQ, KEY, LOAD_TESTS, NEW_DATABASE, ORGANISATION, OTHER_KEY, SCENARIOS, TOKENS

INTERFACES = {"ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DeleteNetworkInterface"}


def test_lambda_s_own_filter_lets_through_what_the_functions_log():
    for name, function in deploy(EVERYTHING).of("AWS::Lambda::Function").items():
        logging = function["Properties"]["LoggingConfig"]
        assert logging["LogFormat"] == "JSON" and logging["ApplicationLogLevel"] == "TRACE", name
        assert logging["LogGroup"].startswith("«"), name


def test_no_function_keeps_large_buffers_on_its_heap():
    """The states of gzip, of 47 and 330 KB, left gaps there that nothing fitted into, and functions grew."""
    for name, function in deploy(EVERYTHING).of("AWS::Lambda::Function").items():
        assert function["Properties"]["Environment"]["Variables"]["MALLOC_MMAP_THRESHOLD_"] == "32768", name


def test_every_role_and_policy_has_the_boundary_and_the_path():
    stack = deploy(EVERYTHING)
    for name, role in stack.of("AWS::IAM::Role").items():
        assert role["Properties"]["PermissionsBoundary"] == ORGANISATION["PermissionsBoundaryArn"], name
        assert role["Properties"]["Path"] == ORGANISATION["RolePath"], name
    for name, policy in stack.of("AWS::IAM::ManagedPolicy").items():
        assert policy["Properties"]["Path"] == ORGANISATION["RolePath"], name
    for name, role in deploy().of("AWS::IAM::Role").items():
        assert "PermissionsBoundary" not in role["Properties"], name


def keys(stack):
    """Where each store, queue, log group and function says its key."""
    for name, resource in stack.resources.items():
        properties = resource["Properties"]
        match resource["Type"]:
            case "AWS::DynamoDB::Table":
                yield name, properties["SSESpecification"].get("KMSMasterKeyId")
            case "AWS::S3::Bucket":
                default = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"][0]
                yield name, default["ServerSideEncryptionByDefault"].get("KMSMasterKeyID")
            case "AWS::SQS::Queue":
                assert properties["SqsManagedSseEnabled"] is ("KmsMasterKeyId" not in properties), name
                yield name, properties.get("KmsMasterKeyId")
            case "AWS::Logs::LogGroup":
                yield name, properties.get("KmsKeyId")
            case "AWS::Lambda::Function":
                yield name, properties.get("KmsKeyArn")
            case "AWS::CloudTrail::Trail":
                yield name, properties.get("KMSKeyId")
            case "AWS::RDS::DBCluster":
                yield name, properties.get("KmsKeyId")


def test_one_key_encrypts_every_store_queue_log_and_environment():
    found = dict(keys(deploy(EVERYTHING)))
    assert len(found) > 30
    assert set(found.values()) == {KEY}, found
    assert set(dict(keys(deploy(EXISTING_DATABASE))).values()) == {None}


def test_functions_may_use_the_keys_of_what_they_use():
    stack = deploy(EVERYTHING)
    for name, role in stack.of("AWS::IAM::Role").items():
        # Neither reaches a store.
        if name in ("RolloutRole", "LoadTestMachineRole"):
            continue
        attached = role["Properties"]["ManagedPolicyArns"]
        assert "«KmsKeyAccess»" in attached, name
        assert "«FurtherKmsKeyAccess»" in attached, name
        shared = [stack.properties("KafkaEventsAccess")] if "«KafkaEventsAccess»" in attached else []
        reads_secrets = "secretsmanager:GetSecretValue" in json.dumps([role["Properties"]["Policies"], *shared])
        assert ("«SecretKmsKeyAccess»" in attached) == reads_secrets, name


def test_the_keys_are_used_through_the_stores_alone():
    stack = deploy(EVERYTHING)
    services = [f"{service}.us-east-1.amazonaws.com" for service in ("dynamodb", "lambda", "s3", "sqs")]
    for policy in ("KmsKeyAccess", "FurtherKmsKeyAccess"):
        for statement in stack.properties(policy)["PolicyDocument"]["Statement"]:
            assert statement["Condition"] == {"StringEquals": {"kms:ViaService": services}}, policy


def test_every_listing_of_a_bucket_is_bounded_by_a_prefix():
    stack = deploy(EVERYTHING)
    found = 0
    for name, resource in stack.of("AWS::IAM::Role", "AWS::IAM::ManagedPolicy").items():
        policies = resource["Properties"].get("Policies") or [resource["Properties"]]
        for statement in [each for policy in policies for each in policy.get("PolicyDocument", {}).get("Statement", [])]:
            if "s3:ListBucket" in statement["Action"]:
                prefixes = statement["Condition"]["StringLikeIfExists"]["s3:prefix"]
                assert "*" not in ([prefixes] if isinstance(prefixes, str) else prefixes), name
                found += 1
    assert found > 10


def test_the_backup_of_records_can_be_switched_off_and_that_of_keys_and_batches_cannot():
    def recovered(stack):
        return {name: table["Properties"]["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] for name, table in stack.of("AWS::DynamoDB::Table").items()}

    assert set(map(str, recovered(deploy()).values())) <= {"true", "True"}
    without = recovered(deploy({"IdempotencyRecovery": "false"}))
    assert without.pop("IdempotencyTable") == "false"
    assert set(map(str, without.values())) <= {"true", "True"}


def test_mq_access_reads_key_repositories_from_s3_where_it_is_told_to_and_nowhere_else():
    without = deploy()
    assert "KeyRepositoryAccess" not in without.resources
    assert "«KeyRepositoryAccess»" not in without.properties("MqAccessRole")["ManagedPolicyArns"]
    objects = {"KeyRepositoryObjects": "arn:aws:s3:::acme-keys/mq/*"}
    stack = deploy(objects)
    holders = [name for name, role in stack.of("AWS::IAM::Role").items() if "«KeyRepositoryAccess»" in role["Properties"]["ManagedPolicyArns"]]
    assert holders == ["MqAccessRole"]
    [read] = stack.properties("KeyRepositoryAccess")["PolicyDocument"]["Statement"]
    assert read == {
        "Effect": "Allow",
        "Action": ["s3:GetObject", "s3:GetObjectVersion"],
        "Resource": objects["KeyRepositoryObjects"],
        "Condition": {"StringEquals": {"aws:ResourceAccount": "111122223333"}},
    }
    encrypted = deploy({**objects, "FurtherKmsKeyArns": f"{KEY},{OTHER_KEY}"})
    [decrypt] = encrypted.properties("FurtherKmsKeyAccess")["PolicyDocument"]["Statement"]
    assert (decrypt["Action"], decrypt["Resource"]) == ("kms:Decrypt", [KEY, OTHER_KEY])
    assert "s3.us-east-1.amazonaws.com" in decrypt["Condition"]["StringEquals"]["kms:ViaService"]


def test_mq_access_alone_gets_the_layer_and_the_way_to_its_libraries():
    without, stack = deploy(), deploy(IBM_MQ)
    for name, function in stack.of("AWS::Lambda::Function").items():
        has = name == "MqAccessFunction"
        assert function["Properties"].get("Layers", []) == ([IBM_MQ["IbmMqLayerArn"]] if has else []), name
        assert without.properties(name).get("Layers", []) == [], name
        for variable, value in [("LD_LIBRARY_PATH", "/opt/mqm/lib64"), ("MQCLNTCF", "/opt/mqm/files/mqclient.ini")]:
            assert function["Properties"]["Environment"]["Variables"].get(variable) == (value if has else None), name
            assert variable not in without.properties(name)["Environment"]["Variables"], name
    assert stack.properties("MqAccessFunction")["Architectures"] == ["x86_64"]


@pytest.mark.parametrize("arn", ["*", "arn:aws:s3:::acme-keys", "arn:aws:s3:::acme-keys/", "arn:aws:s3:::*/mq/*", "arn:aws:s3:::acme-keys/*/key.kdb"])
def test_key_repositories_are_named_with_their_bucket(arn):
    pattern = source()["Parameters"]["KeyRepositoryObjects"]["AllowedPattern"]
    assert not re.fullmatch(pattern, arn)
    assert all(re.fullmatch(pattern, fine) for fine in ["", "arn:aws:s3:::acme-keys/*", "arn:aws-cn:s3:::acme.keys/mq/key.kdb"])


TRAIL = "arn:aws:cloudtrail:us-east-1:111122223333:trail/integrahub-AuditTrail-1"
LOG_CONTEXT = {"kms:EncryptionContext:aws:logs:arn": "arn:aws:logs:us-east-1:111122223333:log-group:/aws/lambda/integrahub"}
TRAIL_CONTEXT = {"kms:EncryptionContext:aws:cloudtrail:arn": TRAIL, "aws:SourceArn": TRAIL}


def admits(service, action, context):
    """Whether deploy/key-policy.json lets a service call with these condition keys, as IAM decides."""

    def holds(operator, key, pattern):
        assert operator in ("ArnLike", "StringEquals", "StringLike"), operator
        return key in context and fnmatchcase(context[key], pattern)

    for statement in json.loads((ROOT / "deploy/key-policy.json").read_text())["Statement"]:
        actions = [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        conditions = [(operator, key, value) for operator, keys in statement.get("Condition", {}).items() for key, value in keys.items()]
        is_meant = statement["Principal"].get("Service") == service and any(fnmatchcase(action, each) for each in actions)
        if statement["Effect"] == "Allow" and is_meant and all(holds(*condition) for condition in conditions):
            return True
    return False


@pytest.mark.parametrize(
    "service, actions, context",
    [
        ("logs.us-east-1.amazonaws.com", ["Encrypt", "Decrypt", "ReEncryptFrom", "GenerateDataKey", "DescribeKey"], LOG_CONTEXT),
        ("s3.amazonaws.com", ["Decrypt", "GenerateDataKey"], {"aws:SourceAccount": "111122223333"}),
        ("events.amazonaws.com", ["Decrypt", "GenerateDataKey"], {"aws:SourceAccount": "111122223333"}),
        ("cloudtrail.amazonaws.com", ["GenerateDataKey"], TRAIL_CONTEXT),
        # CreateTrail asks for these without an encryption context: for Decrypt, because the bucket
        # has a bucket key.
        ("cloudtrail.amazonaws.com", ["Decrypt", "DescribeKey"], {"aws:SourceArn": TRAIL}),
    ],
)
def test_the_key_s_policy_admits_every_service_that_uses_it_and_for_this_account_alone(service, actions, context):
    stack = deploy({**EXISTING_DATABASE, "KmsKeyArn": KEY, "AuditDataEvents": "true"})
    assert stack.properties("AuditTrail")["KMSKeyId"] == KEY
    assert stack.properties("AuditBucket")["BucketEncryption"]["ServerSideEncryptionConfiguration"][0]["BucketKeyEnabled"] is True
    elsewhere = {key: value.replace("111122223333", "444455556666") for key, value in context.items()}
    for action in actions:
        assert admits(service, f"kms:{action}", context), action
        assert not admits(service, f"kms:{action}", elsewhere) and not admits(service, f"kms:{action}", {}), action


@pytest.mark.parametrize("parameters", [GATEWAY, EXISTING_DATABASE], ids=["brokers", "database"])
def test_network_interfaces_can_be_removed_after_the_vpc_was_left_and_not_by_code(parameters):
    stack = deploy(parameters)
    allow, deny = stack.properties("NetworkInterfaces")["PolicyDocument"]["Statement"]
    assert allow["Effect"] == "Allow" and INTERFACES <= set(allow["Action"]) and "Condition" not in allow
    assert deny["Effect"] == "Deny" and deny["Action"] in ("ec2:*", ["ec2:*"])
    assert deny["Condition"] == {"ArnLike": {"lambda:SourceFunctionArn": "arn:aws:lambda:*:*:function:*"}}
    for name, function in source()["Resources"].items():
        if "VpcConfig" in function.get("Properties", {}) and name in stack.resources:
            role = stack.properties(name)["Role"].strip("«»").split(".")[0]
            assert "«NetworkInterfaces»" in stack.properties(role)["ManagedPolicyArns"], name


def test_the_api_is_bounded_and_what_needs_no_key_more_so():
    stage = deploy({"ApiRateLimit": "70"}).properties("ApiApiGatewayDefaultStage")
    assert stage["DefaultRouteSettings"] == {"ThrottlingRateLimit": "70", "ThrottlingBurstLimit": 1000}
    pages = {f"GET /{page}{file}" for page in ("docs", "console") for file in ("", "/{file}")}
    assert {"$default", "GET /health/ready", "GET /health/live", "GET /openapi.json", *pages} == set(stage["RouteSettings"])
    # API Gateway refuses settings of a route that it does not have.
    paths = deploy().properties("Api")["Body"]["paths"]
    routes = {path if path == "$default" else f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(stage["RouteSettings"]) <= routes
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] <= 1250, "the burst that some regions give an account"


def test_the_console_can_be_switched_off_and_its_bucket_takes_uploads_of_pages_then_only_from_listed_ones():
    def rules(parameters):
        stack = deploy({**EXISTING_DATABASE, **parameters})
        return stack.properties("StatusFunction")["Environment"]["Variables"]["CONSOLE"], [
            (rule["AllowedMethods"], rule["AllowedOrigins"]) for rule in stack.properties("PayloadBucket").get("CorsConfiguration", {}).get("CorsRules", [])
        ]

    listed = (["GET", "PUT"], ["https://app.example.com"])
    assert rules({}) == ("true", [(["PUT"], ["*"])])
    assert rules({"CorsOrigins": "https://app.example.com"}) == ("true", [listed, (["PUT"], ["*"])])
    assert rules({"Console": "false", "CorsOrigins": "https://app.example.com"}) == ("false", [listed])
    assert rules({"Console": "false"}) == ("false", [])
    assert rules(DOMAIN) == ("true", [(["PUT"], ["https://api.example.com"])])
    assert "CONSOLE_UPLOADS" not in deploy().properties("StatusFunction")["Environment"]["Variables"]


def test_public_functions_can_be_kept_from_taking_the_account_s_concurrency():
    stack = deploy(EVERYTHING)
    reserved = {name for name, function in stack.of("AWS::Lambda::Function").items() if function["Properties"].get("ReservedConcurrentExecutions") == "20"}
    assert reserved == behind_the_api()
    assert not [name for name, f in deploy().of("AWS::Lambda::Function").items() if "ReservedConcurrentExecutions" in f["Properties"]]


def test_every_function_behind_the_api_knows_the_issuer_of_tokens_and_no_other_does():
    functions = deploy({**EVERYTHING, **TOKENS}).of("AWS::Lambda::Function")
    variables = {name: function["Properties"].get("Environment", {}).get("Variables", {}) for name, function in functions.items()}
    knowing = {name: given for name, given in variables.items() if "JWT_ISSUER" in given}
    assert set(knowing) == behind_the_api()
    for given in knowing.values():
        assert (given["JWT_ISSUER"], given["JWT_AUDIENCE"], given["JWT_JWKS_URL"]) == tuple(TOKENS.values())
        assert (given["JWT_TENANT_CLAIM"], given["JWT_SCOPES_CLAIM"]) == ("tenant", "scope")


def test_a_new_account_s_ten_executions_suffice_for_the_defaults_of_the_queues():
    mappings = [mapping["Properties"] for mapping in deploy(EXISTING_DATABASE).of("AWS::Lambda::EventSourceMapping").values()]
    # dead-letter works only after failures. Two is the least that Lambda allows.
    usual = [mapping for mapping in mappings if "DeadLetter" not in str(mapping["FunctionName"])]
    assert sum(int(mapping["ScalingConfig"]["MaximumConcurrency"]) for mapping in usual) <= 6


def test_browsers_are_let_in_from_the_given_origins_only():
    assert "x-amazon-apigateway-cors" not in deploy().properties("Api")["Body"]
    cors = deploy(EVERYTHING).properties("Api")["Body"]["x-amazon-apigateway-cors"]
    assert cors["allowOrigins"] == ["https://app.example.com", "https://other.example.com"]
    contract = yaml.load((ROOT / "openapi.yaml").read_text(), Loader)
    components = contract["components"]
    sent = {parameter["name"].lower() for parameter in components["parameters"].values() if parameter["in"] == "header"}
    sent |= {scheme.get("name", "authorization").lower() for scheme in components["securitySchemes"].values()} | {"content-type"}
    # Instrumentation sends it, no caller: the contract has it in the description of X-Trace-Id.
    sent.add("traceparent")
    assert set(cors["allowHeaders"]) == sent
    # Those that responses share. One header may have several descriptions, by names of their own.
    operations = [operation for path in contract["paths"].values() for operation in path.values() if "responses" in operation]
    responses = [*components["responses"].values(), *(response for operation in operations for response in operation["responses"].values())]
    returned = {name.lower() for response in responses for name, header in response.get("headers", {}).items() if "$ref" in header}
    assert set(cors["exposeHeaders"]) == returned
    methods = {method.upper() for path in contract["paths"].values() for method in path if method in ("get", "post", "put", "delete", "patch")}
    assert set(cors["allowMethods"]) == methods


def test_a_domain_maps_its_root_and_may_be_the_only_address():
    stack = deploy(EVERYTHING)
    assert "ApiMappingKey" not in stack.properties("ApiDomainMapping")
    for given, is_closed in [(stack, True), (deploy(), False)]:
        (server,) = given.properties("Api")["Body"]["servers"]
        assert server["x-amazon-apigateway-endpoint-configuration"] == {"disableExecuteApiEndpoint": is_closed}


def test_a_cluster_s_name_of_its_database_is_fixed_and_a_snapshot_brings_its_own():
    assert deploy(NEW_DATABASE).properties("DatabaseCluster")["DatabaseName"] == "integrahub"
    restored = deploy({**NEW_DATABASE, "DatabaseSnapshotIdentifier": "snapshot"}).properties("DatabaseCluster")
    assert not {"DatabaseName", "MasterUsername", "StorageEncrypted"} & set(restored)


def test_the_functions_reach_their_database_before_anything_uses_it():
    stack = deploy({**EVERYTHING})
    migration = json.dumps(stack.properties("Migration"))
    for needed in ("DatabaseInstance", "DatabaseS3Endpoint", "DatabaseSecretsManagerEndpoint"):
        assert f"\\u00ab{needed}" in migration, needed


def test_what_speaks_to_brokers_is_what_ibm_s_client_exists_for():
    for architecture in ("arm64", "x86_64"):
        stack = deploy({**LOAD_TESTS, "Architecture": architecture})
        for name, function in stack.of("AWS::Lambda::Function").items():
            speaks_to_brokers = name in ("MqAccessFunction", "LoadStepFunction")
            assert function["Properties"]["Architectures"] == (["x86_64"] if speaks_to_brokers else [architecture]), name


def test_brokers_and_database_in_one_vpc_share_its_endpoints():
    one_vpc = deploy(SCENARIOS["one VPC for both"])
    assert one_vpc.properties("DatabaseEndpointsForMqAccess")["SourceSecurityGroupId"] == "sg-11111111"
    two_vpcs = deploy({**SCENARIOS["existing database in a VPC with endpoints"], **SCENARIOS["brokers in a VPC with endpoints"]})
    assert "DatabaseEndpointsForMqAccess" not in two_vpcs.resources


def test_every_exception_of_the_security_linter_says_its_reason():
    lines = (ROOT / ".checkov.yaml").read_text().splitlines()
    exceptions = [number for number, line in enumerate(lines) if line.startswith("  - CKV_")]
    assert exceptions
    for number in exceptions:
        assert lines[number - 1].startswith("  # "), lines[number]


def widgets(stack):
    (dashboard,) = stack.of("AWS::CloudWatch::Dashboard").values()
    return json.loads(dashboard["Properties"]["DashboardBody"])["widgets"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_dashboard_has_a_row_for_each_question_and_metrics_of_what_is_there(name):
    stack, width = deploy(SCENARIOS[name]), 24
    for widget in widgets(stack):
        if widget["type"] == "text":
            assert width == 24, "a row is as wide as the dashboard"
            assert "?" in widget["properties"]["markdown"]
            width = 0
            continue
        width += widget["width"]
        properties = widget["properties"]
        assert properties["title"] and (properties.get("alarms") or properties.get("query") or properties["metrics"])
        for metric in properties.get("metrics", []):
            of_function = metric[0] == "IntegraHub" and f"{metric[5].title().replace('-', '')}Function" in stack.resources
            of_resource = references(metric[3]) and references(metric[3]) <= set(stack.resources)
            assert of_function or of_resource or metric[2] == "ApiName", metric
    assert width == 24


def test_the_dashboard_shows_all_alarms():
    for parameters in (GATEWAY, EVERYTHING):
        (alarms,) = [widget["properties"]["alarms"] for widget in widgets(deploy(parameters)) if widget["type"] == "alarm"]
        assert sorted(alarms) == sorted(f"«{name}.Arn»" for name in deploy(parameters).of("AWS::CloudWatch::Alarm"))
        assert len(alarms) <= 100


def test_the_dashboard_tells_noisy_tenants_from_the_others_on_each_fair_queue():
    stack = deploy(EVERYTHING)
    shown = {(metric[1], metric[3]) for widget in widgets(stack) for metric in widget["properties"].get("metrics", [])}
    # The queues into which functions send messages in the group of their tenant.
    for queue in ["DropsReceivedQueue", "BatchesReceivedQueue", "ChunksReadyQueue"]:
        for metric in ["NumberOfNoisyGroups", "NumberOfMessagesVisibleInQuietGroups", "AgeOfOldestMessageInQuietGroups"]:
            assert (f"Approximate{metric}", f"«{queue}.QueueName»") in shown
    assert not {name for name, queue in shown if name.endswith("QuietGroups") and "NotificationsQueue" in queue}


@pytest.mark.parametrize("policy", ["warn", "refuse"])
def test_both_ways_in_say_what_becomes_of_items_that_lack_members(policy):
    functions = deploy({**EVERYTHING, "PartialItems": policy}).of("AWS::Lambda::Function")
    variables = {name: function["Properties"]["Environment"]["Variables"] for name, function in functions.items()}
    found = {name: given["PARTIAL_ITEMS"] for name, given in variables.items() if "PARTIAL_ITEMS" in given}
    assert found == {"ProductIngestFunction": policy, "DropIntakeFunction": policy}


@pytest.mark.parametrize("rule", ["entry", "first"])
def test_what_writes_products_knows_whose_a_new_establishment_becomes(rule):
    functions = deploy({**EVERYTHING, "EstablishmentOwners": rule}).of("AWS::Lambda::Function")
    variables = {name: function["Properties"]["Environment"]["Variables"] for name, function in functions.items()}
    assert {name: given["ESTABLISHMENT_OWNERS"] for name, given in variables.items() if "ESTABLISHMENT_OWNERS" in given} == {"UpsertFunction": rule}


def test_the_function_that_changes_owners_is_in_the_database_s_network_and_has_no_trigger():
    stack = deploy({**EXISTING_DATABASE, **DATABASE_VPC})
    function = stack.properties("EstablishmentsFunction")
    assert function["VpcConfig"]["SubnetIds"] == DATABASE_VPC["DatabaseSubnetIds"].split(",")
    assert "EstablishmentsFunctionName" in stack.outputs
    invoking = [name for name, resource in stack.resources.items() if resource["Type"] in ("AWS::Lambda::Permission", "AWS::Lambda::EventSourceMapping")]
    assert invoking and not [name for name in invoking if "Establishments" in str(stack.properties(name))]
