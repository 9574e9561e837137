"""Chunks over Kafka: the mapping, who may do what, and that nothing of it is there with SQS."""

import json

import pytest
from cloudformation import deploy, watched
from scenarios import DATABASE_VPC, EVENTS, EVERYTHING, EXISTING_DATABASE, KEY, MSK, MSK_SCRAM, OTHER_KAFKA, OTHER_SECRET, SCENARIOS, SECRET

OVER_MSK = {**EXISTING_DATABASE, **MSK}
OVER_OTHERS = {**EXISTING_DATABASE, **OTHER_KAFKA}
CLUSTER = MSK["KafkaClusterArn"]
TOPIC = CLUSTER.replace(":cluster/", ":topic/") + "/chunks.ready"
EVENT_TOPICS = [CLUSTER.replace(":cluster/", ":topic/") + name for name in ("/batches.received", "/chunks.failed")]
PUBLISHERS = {"Chunker", "Upsert", "DeadLetter", "Receipts", "Reconcile"}
GROUP = CLUSTER.replace(":cluster/", ":group/") + "/integrahub-upsert"


def kafka_resources(stack):
    return {name for name in stack.resources if "Kafka" in name or "Msk" in name}


def variables(stack):
    found = {}
    for name, function in stack.of("AWS::Lambda::Function").items():
        given = function["Properties"].get("Environment", {}).get("Variables", {})
        ours = {variable: value for variable, value in given.items() if "KAFKA" in variable or variable == "CHUNK_TRANSPORT"}
        if ours:
            found[name.removesuffix("Function")] = ours
    return found


def statements(stack, policy):
    given = stack.properties(policy)["PolicyDocument"]["Statement"]
    several = lambda value: [value] if isinstance(value, str) else value
    return {(action, resource) for each in given if each["Effect"] == "Allow" for action in several(each["Action"]) for resource in several(each["Resource"])}


def attached(stack, policy):
    return {name.removesuffix("Role") for name, role in stack.of("AWS::IAM::Role").items() if f"«{policy}»" in role["Properties"].get("ManagedPolicyArns", [])}


@pytest.mark.parametrize("parameters", [EXISTING_DATABASE, SCENARIOS["MSK, ingest switched off"]], ids=["sqs", "no ingest"])
def test_nothing_is_there_without_kafka(parameters):
    stack = deploy(parameters)
    assert kafka_resources(stack) == set() and variables(stack) == {}
    assert "kafka" not in json.dumps(stack.resources).lower()


def test_a_mapping_reads_from_the_beginning_and_never_gives_up():
    for parameters, name, other in [(OVER_MSK, "UpsertFromMsk", "UpsertFromKafka"), (OVER_OTHERS, "UpsertFromKafka", "UpsertFromMsk")]:
        stack = deploy(parameters)
        assert other not in stack.resources
        mapping = stack.properties(name)
        assert mapping["StartingPosition"] == "TRIM_HORIZON"
        assert mapping["Topics"] == ["chunks.ready"] and int(mapping["BatchSize"]) == 10
        # With a destination Lambda gives up after ten attempts, and sends it offsets alone.
        assert not {"DestinationConfig", "MaximumRetryAttempts", "MaximumRecordAgeInSeconds", "FunctionResponseTypes"} & set(mapping)
        assert "UpsertFunctionReady" in stack.resources, "what is parked is read too"


def test_a_mapping_finds_its_cluster_and_group():
    msk = deploy(OVER_MSK).properties("UpsertFromMsk")
    assert msk["EventSourceArn"] == CLUSTER and "SourceAccessConfigurations" not in msk
    assert msk["AmazonManagedKafkaEventSourceConfig"] == {"ConsumerGroupId": "integrahub-upsert"}
    other = deploy(OVER_OTHERS).properties("UpsertFromKafka")
    assert other["SelfManagedEventSource"]["Endpoints"]["KafkaBootstrapServers"] == OTHER_KAFKA["KafkaBootstrapServers"].split(",")
    assert other["SelfManagedKafkaEventSourceConfig"] == {"ConsumerGroupId": "integrahub-upsert"}


@pytest.mark.parametrize(
    "parameters, name, access",
    [
        ({**EXISTING_DATABASE, **MSK_SCRAM}, "UpsertFromMsk", [("SASL_SCRAM_512_AUTH", OTHER_SECRET)]),
        ({**EXISTING_DATABASE, **MSK_SCRAM, "KafkaAuthentication": "mtls"}, "UpsertFromMsk", [("CLIENT_CERTIFICATE_TLS_AUTH", OTHER_SECRET)]),
        (OVER_OTHERS, "UpsertFromKafka", [("CLIENT_CERTIFICATE_TLS_AUTH", OTHER_SECRET), ("SERVER_ROOT_CA_CERTIFICATE", SECRET)]),
        (
            SCENARIOS["another Kafka, without login"],
            "UpsertFromKafka",
            [("VPC_SUBNET", "subnet:subnet-33333333"), ("VPC_SECURITY_GROUP", "security_group:sg-33333333")],
        ),
    ],
    ids=["SCRAM", "mTLS", "an authority", "a network"],
)
def test_a_mapping_logs_in_as_the_functions_do(parameters, name, access):
    given = deploy(parameters).properties(name)["SourceAccessConfigurations"]
    assert [(each["Type"], each["URI"]) for each in given] == access


def test_each_role_may_do_what_its_function_does():
    stack = deploy(OVER_MSK)
    assert attached(stack, "KafkaProduceAccess") == {"Chunker"}
    assert attached(stack, "KafkaTopicsAccess") == {"Migrate"}
    assert attached(stack, "KafkaConsumeAccess") == {"Upsert"}
    assert attached(stack, "KafkaStateAccess") == {"Batches"}
    assert statements(stack, "KafkaProduceAccess") == {
        ("kafka-cluster:Connect", CLUSTER),
        ("kafka-cluster:WriteDataIdempotently", CLUSTER),
        ("kafka-cluster:DescribeTopic", TOPIC),
        ("kafka-cluster:WriteData", TOPIC),
    }
    assert statements(stack, "KafkaTopicsAccess") == {
        ("kafka-cluster:Connect", CLUSTER),
        *((f"kafka-cluster:{action}", topic) for action in ("CreateTopic", "DescribeTopic") for topic in (TOPIC, *EVENT_TOPICS)),
    }
    assert statements(stack, "KafkaConsumeAccess") == {
        ("kafka:DescribeCluster", CLUSTER),
        ("kafka:DescribeClusterV2", CLUSTER),
        ("kafka:GetBootstrapBrokers", CLUSTER),
        ("kafka-cluster:Connect", CLUSTER),
        ("kafka-cluster:DescribeClusterDynamicConfiguration", CLUSTER),
        ("kafka-cluster:DescribeTopic", TOPIC),
        ("kafka-cluster:ReadData", TOPIC),
        ("kafka-cluster:DescribeGroup", GROUP),
        ("kafka-cluster:AlterGroup", GROUP),
    }
    assert statements(stack, "KafkaStateAccess") == {
        ("kafka-cluster:Connect", CLUSTER),
        ("kafka-cluster:DescribeTopic", TOPIC),
        ("kafka-cluster:DescribeGroup", GROUP),
    }


def test_secrets_are_read_by_those_who_log_in_with_them():
    stack = deploy(OVER_OTHERS)
    assert statements(stack, "KafkaProduceAccess") == {("secretsmanager:GetSecretValue", OTHER_SECRET)}
    assert statements(stack, "KafkaTopicsAccess") == {("secretsmanager:GetSecretValue", OTHER_SECRET)}
    assert statements(stack, "KafkaStateAccess") == {("secretsmanager:GetSecretValue", OTHER_SECRET)}
    assert statements(stack, "KafkaConsumeAccess") == {("secretsmanager:GetSecretValue", OTHER_SECRET), ("secretsmanager:GetSecretValue", SECRET)}
    scram = statements(deploy({**EXISTING_DATABASE, **MSK_SCRAM}), "KafkaConsumeAccess")
    assert ("kafka:ListScramSecrets", CLUSTER) in scram and ("secretsmanager:GetSecretValue", OTHER_SECRET) in scram


def test_a_prefix_is_that_of_every_topic():
    stack = deploy(SCENARIOS["MSK, with a prefix of the topics"])
    given = variables(stack)
    of_chunks = {"KAFKA_CHUNKS_TOPIC": "dev.chunks.ready"}
    of_events = {"KAFKA_EVENTS_TOPIC": "dev.batches.received", "KAFKA_FAILURES_TOPIC": "dev.chunks.failed"}
    assert given["Chunker"].items() >= {**of_chunks, **of_events}.items()
    assert given["Migrate"].items() >= {**of_chunks, **of_events}.items()
    assert given["Upsert"].items() >= of_events.items()
    assert given["Batches"].items() >= of_chunks.items()
    assert stack.properties("UpsertFromMsk")["Topics"] == ["dev.chunks.ready"]
    named = {resource.rsplit("/", 1)[1] for policy in ("KafkaProduceAccess", "KafkaTopicsAccess", "KafkaEventsAccess", "KafkaStateAccess", "KafkaConsumeAccess") for _, resource in statements(stack, policy) if ":topic/" in resource}
    assert named == {"dev.chunks.ready", "dev.batches.received", "dev.chunks.failed"}
    assert stack.properties("Migration")["Topics"] != deploy(OVER_MSK).properties("Migration")["Topics"], "new topics are created"


def test_those_who_publish_events_may_write_to_their_topics_and_to_no_other():
    stack = deploy(SCENARIOS["MSK"])
    assert attached(stack, "KafkaEventsAccess") == PUBLISHERS
    assert statements(stack, "KafkaEventsAccess") == {
        ("kafka-cluster:Connect", CLUSTER),
        ("kafka-cluster:WriteDataIdempotently", CLUSTER),
        *((f"kafka-cluster:{action}", topic) for action in ("DescribeTopic", "WriteData") for topic in EVENT_TOPICS),
    }
    for topic in EVENT_TOPICS:
        created = {action for action, resource in statements(stack, "KafkaTopicsAccess") if resource == topic}
        assert created == {"kafka-cluster:CreateTopic", "kafka-cluster:DescribeTopic"}
    over_others = deploy(SCENARIOS["another Kafka and a bus, in a VPC"])
    assert statements(over_others, "KafkaEventsAccess") == {("secretsmanager:GetSecretValue", OTHER_SECRET)}
    assert "kafka-cluster:CreateTopic" not in json.dumps(over_others.resources)


def test_those_who_publish_events_learn_the_topics_and_reach_the_cluster():
    stack = deploy(SCENARIOS["another Kafka and a bus, in a VPC"])
    given = variables(stack)
    connection = {
        "KAFKA_AUTHENTICATION": "mtls",
        "KAFKA_BOOTSTRAP_SERVERS": OTHER_KAFKA["KafkaBootstrapServers"],
        "KAFKA_EVENTS_TOPIC": "batches.received",
        "KAFKA_FAILURES_TOPIC": "chunks.failed",
        "KAFKA_SECRET_ARN": OTHER_SECRET,
    }
    assert set(given) == {*PUBLISHERS, "Batches", "Migrate"}
    chunks = {"CHUNK_TRANSPORT": "kafka", "KAFKA_CHUNKS_TOPIC": "chunks.ready"}
    assert given["Chunker"] == {**connection, **chunks}
    assert all(given[name] == connection for name in PUBLISHERS - {"Chunker"})
    assert given["Migrate"].items() >= {**connection, **chunks}.items()
    network = stack.properties("ChunkerFunction")["VpcConfig"]
    assert all(stack.properties(f"{name}Function")["VpcConfig"] == network for name in given)
    assert "KAFKA_SECRET_ARN" not in variables(deploy(SCENARIOS["MSK"]))["Upsert"]


def test_the_function_that_reaches_the_database_asks_about_the_topic_and_its_reader():
    stack = deploy(OVER_OTHERS)
    assert variables(stack)["Batches"] == {
        "CHUNK_TRANSPORT": "kafka",
        "KAFKA_AUTHENTICATION": "mtls",
        "KAFKA_BOOTSTRAP_SERVERS": OTHER_KAFKA["KafkaBootstrapServers"],
        "KAFKA_CA_SECRET_ARN": SECRET,
        "KAFKA_CHUNKS_TOPIC": "chunks.ready",
        "KAFKA_GROUP": stack.properties("UpsertFromKafka")["SelfManagedKafkaEventSourceConfig"]["ConsumerGroupId"],
        "KAFKA_SECRET_ARN": OTHER_SECRET,
    }


def test_the_secrets_that_parameters_name_are_described_by_the_same_function():
    def described(stack):
        given = [each for policy in stack.properties("BatchesRole")["Policies"] for each in policy["PolicyDocument"]["Statement"]]
        [statement] = [each for each in given if each["Action"] == "secretsmanager:DescribeSecret"]
        return set(statement["Resource"])

    assert described(deploy(EXISTING_DATABASE)) == {SECRET}
    assert described(deploy({**OVER_OTHERS, "DatabaseCaSecretArn": OTHER_SECRET})) == {SECRET, OTHER_SECRET}


def test_the_function_that_refuses_dropped_files_is_in_the_network_only_for_the_topic():
    drops = {"AcceptDrops": "true"}
    with_topic = deploy({**SCENARIOS["another Kafka and a bus, in a VPC"], **drops})
    assert attached(with_topic, "KafkaEventsAccess") == {*PUBLISHERS, "DropIntake"}
    function = with_topic.properties("DropIntakeFunction")
    assert function["VpcConfig"] == with_topic.properties("ChunkerFunction")["VpcConfig"]
    assert variables(with_topic)["DropIntake"] == variables(with_topic)["Upsert"]
    with_keys = deploy({**SCENARIOS["another Kafka and a bus, in a VPC"], **drops, "FurtherKmsKeyArns": KEY})
    assert "«SecretKmsKeyAccess»" in with_keys.properties("DropIntakeRole")["ManagedPolicyArns"]
    without = deploy({**EXISTING_DATABASE, **DATABASE_VPC, **drops})
    assert "VpcConfig" not in without.properties("DropIntakeFunction") and "DropIntake" not in variables(without)


def test_a_topic_of_kafka_is_watched_and_brings_no_function_of_the_gateway():
    stack = deploy(SCENARIOS["MSK"])
    assert "EventsBehindAlarm" in stack.resources
    assert not {"EventAccess", "DoubtsFunction", "DoubtsRole"} & set(stack.resources)
    beside = deploy({**SCENARIOS["MSK"], **EVENTS})
    assert "Doubts" not in variables(beside) and "DoubtsFunction" in beside.resources


def test_nothing_publishes_over_kafka_without_an_ingest():
    stack = deploy(SCENARIOS["MSK, ingest switched off"])
    assert not {"KafkaEventsAccess", "EventsBehindAlarm"} & set(stack.resources)
    assert variables(stack) == {}


def test_chunks_that_nothing_polls_raise_an_alarm_and_the_lag_is_on_the_dashboard():
    stack = deploy(EVERYTHING)
    # Lambda has no metric of a topic that it cannot poll. PostgreSQL knows the chunks.
    assert {metric["MetricName"] for metric in watched(stack.properties("ChunksBehindAlarm"))} == {"ChunksBehindMinutes", "ChunksWritten"}
    assert "OffsetLag" in json.dumps(json.loads(stack.properties("OperationsDashboard")["DashboardBody"]))
    over_sqs = deploy({name: value for name, value in EVERYTHING.items() if "Kafka" not in name})
    assert "OffsetLag" not in json.dumps(json.loads(over_sqs.properties("OperationsDashboard")["DashboardBody"]))
