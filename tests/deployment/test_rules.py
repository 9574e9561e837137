"""Combinations that cannot work are refused before anything is made, with a sentence that says what to give."""

import pytest
from cloudformation import allowed, deploy, refusals, source
from scenarios import BROKERS_ENDPOINTS, DATABASE_ENDPOINTS, DOMAIN, EXISTING_DATABASE, KEY, MSK, MSK_SCRAM, NEW_DATABASE, OTHER_KAFKA, REST, SCENARIOS, SECRET, TOKENS, WEB_ACL


def without(parameters, *names):
    return {name: value for name, value in parameters.items() if name not in names}


# Brokers and the database in one VPC, whose endpoint to Secrets Manager both use.
ONE_VPC = {**BROKERS_ENDPOINTS, **DATABASE_ENDPOINTS, "VpcId": DATABASE_ENDPOINTS["DatabaseVpcId"]}

# Parameters that cannot work, and what the refusal has to name.
REFUSED = [
    ({"MqAccessSubnetIds": "subnet-1"}, "MqAccessSecurityGroupIds"),
    ({"MqAccessSecurityGroupIds": "sg-1"}, "MqAccessSubnetIds"),
    (without(BROKERS_ENDPOINTS, "VpcId"), "VpcId"),
    (without(BROKERS_ENDPOINTS, "MqAccessSubnetIds", "MqAccessSecurityGroupIds"), "MqAccessSubnetIds"),
    (without(BROKERS_ENDPOINTS, "MqAccessSecurityGroupIds"), "MqAccessSecurityGroupIds"),
    ({**EXISTING_DATABASE, "DatabaseSubnetIds": "subnet-1"}, "DatabaseSecurityGroupIds"),
    ({**EXISTING_DATABASE, "DatabaseSecurityGroupIds": "sg-1"}, "DatabaseSubnetIds"),
    (without(DATABASE_ENDPOINTS, "DatabaseVpcId"), "DatabaseVpcId"),
    (without(DATABASE_ENDPOINTS, "DatabaseSubnetIds", "DatabaseSecurityGroupIds"), "DatabaseSubnetIds"),
    (without(DATABASE_ENDPOINTS, "DatabaseSecurityGroupIds"), "DatabaseSecurityGroupIds"),
    ({**ONE_VPC, "RouteTableIds": "rtb-33333333"}, "none of these route tables"),
    ({**ONE_VPC, "RouteTableIds": "rtb-11111111,rtb-33333333"}, "none of these route tables"),
    ({**ONE_VPC, "RouteTableIds": "rtb-33333333", "DatabaseRouteTableIds": "rtb-33333333,rtb-44444444"}, "none of these route tables"),
    ({"CreateDatabase": "true"}, "DatabaseVpcId"),
    (without(NEW_DATABASE, "DatabaseVpcId"), "DatabaseVpcId"),
    (without(NEW_DATABASE, "DatabaseSubnetIds", "DatabaseSecurityGroupIds"), "DatabaseSubnetIds"),
    (without(NEW_DATABASE, "DatabaseSecurityGroupIds"), "DatabaseSecurityGroupIds"),
    ({**NEW_DATABASE, "DatabaseSecretArn": SECRET}, "Either DatabaseSecretArn"),
    ({**NEW_DATABASE, "DatabaseAddress": "db.example.com:5432/catalogue"}, "integrahub"),
    ({"DatabaseAddress": "db.example.com:5432/catalogue"}, "DatabaseSecretArn"),
    ({**NEW_DATABASE, "CreateDatabase": "with-reader", "DatabaseSecretArn": SECRET}, "Either DatabaseSecretArn"),
    ({"DatabaseSnapshotIdentifier": "snapshot"}, "CreateDatabase=true"),
    ({"DatabaseKmsKeyArn": KEY}, "CreateDatabase=true"),
    *((without({**MSK_SCRAM, **OTHER_KAFKA}, *({"KafkaBootstrapServers", "KafkaClusterArn", "KafkaSecretArn", "KafkaCaSecretArn", "KafkaAuthentication"} - {name})), f"{name} needs KafkaBootstrapServers") for name in ("KafkaClusterArn", "KafkaSecretArn", "KafkaCaSecretArn")),
    (without(MSK, "KafkaClusterArn"), "iam needs KafkaClusterArn"),
    ({**MSK, "KafkaSecretArn": SECRET}, "Leave KafkaSecretArn empty"),
    ({**without(OTHER_KAFKA, "KafkaCaSecretArn"), "KafkaAuthentication": "none"}, "none use no secret"),
    (without(MSK_SCRAM, "KafkaSecretArn"), "scram and mtls need KafkaSecretArn"),
    (without(OTHER_KAFKA, "KafkaSecretArn"), "scram and mtls need KafkaSecretArn"),
    ({**MSK_SCRAM, "KafkaCaSecretArn": SECRET}, "Leave it empty with KafkaClusterArn"),
    ({**without(OTHER_KAFKA, "KafkaSecretArn"), "KafkaAuthentication": "none"}, "KafkaCaSecretArn needs"),
    ({"DomainName": "api.example.com"}, "CertificateArn"),
    ({"CertificateArn": DOMAIN["CertificateArn"]}, "DomainName"),
    ({"HostedZoneId": "Z1"}, "DomainName"),
    ({"JwtIssuer": TOKENS["JwtIssuer"]}, "JwtIssuer needs JwtAudience"),
    ({"JwtAudience": TOKENS["JwtAudience"]}, "JwtAudience needs JwtIssuer"),
    (without(TOKENS, "JwtIssuer", "JwtAudience"), "JwtJwksUrl needs JwtIssuer"),
    ({"DisableExecuteApiEndpoint": "true"}, "DomainName"),
    ({"ApiWebAclArn": WEB_ACL}, "ApiWebAclArn needs ApiFront=rest"),
    ({"ApiPrivateEndpoints": "vpce-11111111"}, "ApiPrivateEndpoints needs ApiFront=rest"),
    ({**REST, **DOMAIN, "ApiPrivateEndpoints": "vpce-11111111"}, "Leave DomainName empty"),
    ({**REST, "CorsOrigins": "https://app.example.com"}, "CorsOrigins needs ApiFront=http"),
]

# Values that no function, broker or database takes.
IMPOSSIBLE = [
    ("PublicReservedConcurrency", "00"),
    ("ApiFront", "websocket"),
    ("ApiWebAclArn", "arn:aws:wafv2:us-east-1:111122223333:global/webacl/integrahub/1"),
    ("MqAccessReservedConcurrency", "000"),
    ("DatabaseAddress", "db.example.com"),
    ("DatabaseAddress", "db.example.com:5432"),
    ("DatabaseAddress", "db.example.com/catalogue"),
    ("DatabaseAddress", "db.example.com:0/catalogue"),
    ("DatabaseAddress", "db.example.com:65536/catalogue"),
    ("DatabaseAddress", "db.example.com:99999/catalogue"),
    ("DatabaseAddress", "db.example.com:5432/1"),
    ("DatabaseEngineVersion", "14.9"),
    ("DatabaseEngineVersion", "15.3"),
    ("IbmMqLayerArn", "arn:aws:lambda:us-east-1:111122223333:layer:integrahub-ibm-mq-client"),
    ("AcceptDrops", ""),
    ("AcceptDrops", "off"),
    ("AcceptDrops", "none"),
    ("AcceptDrops", "Partner"),
    ("AcceptDrops", "arn:aws:s3:::partner-files"),
    ("AcceptDrops", "partner-files/4444-5555-6666"),
    ("AcceptDrops", "444455556666/partner-files"),
    ("FurtherKmsKeyArns", "alias/partner"),
    ("IbmMqLayerArn", "integrahub-ibm-mq-client:1"),
    ("IbmMqLayerArn", "arn:aws:lambda:us-east-1:111122223333:function:integrahub-ibm-mq-client:1"),
    ("JwtIssuer", "login.example.com"),
    ("JwtJwksUrl", "http://login.example.com/keys"),
    ("JwtTenantClaim", ""),
    ("KafkaBootstrapServers", "b-1.example.com"),
    ("KafkaBootstrapServers", "b-1.example.com:0"),
    ("KafkaBootstrapServers", "b-1.example.com:9092, b-2.example.com:9092"),
    ("KafkaClusterArn", "arn:aws:kafka:us-east-1:111122223333:cluster/catalogue"),
    ("TenantLimit", "messages=5"),
    ("TenantLimit", "100"),
    ("TargetLimit", "requests=many"),
    ("TargetLimit", "requests=5, bytes=5"),
    ("KafkaTopicPrefix", "dev "),
    ("KafkaTopicPrefix", "."),
    ("KafkaTopicPrefix", "t" * 234),
    ("InlineTargets", "hello"),
    ("InlineTargets", "rabbitmq://a.example.com:5671/"),
    ("InlineTargets", "rabbitmq://a.example.com:5671/ORDERS, rabbitmq://b.example.com:5671/STOCK"),
    ("InlineTargets", "rabbitmq://a.example.com:5671/ORDERS,rabbitmq://b.example.com:5671/STOCK"),
]
POSSIBLE = [
    ("TenantLimit", "requests=0.5/1"),
    ("TargetLimit", "requests=5/1 messages=2.5 bytes=10485760/20971520"),
    ("KafkaTopicPrefix", ""),
    ("KafkaTopicPrefix", "t" * (249 - len("batches.received") - 1)),
    ("AcceptDrops", "partner-files"),
    ("AcceptDrops", "partner.files/444455556666"),
    ("PublicReservedConcurrency", "0"),
    ("PublicReservedConcurrency", "100"),
    ("DatabaseAddress", "10.0.0.1:5432/my-catalogue"),
    ("DatabaseAddress", "db.example.com:65535/_catalogue2"),
    ("DatabaseEngineVersion", "15.10"),
    ("DatabaseEngineVersion", "17.4"),
    ("IbmMqLayerArn", "arn:aws-us-gov:lambda:us-gov-west-1:111122223333:layer:integrahub-ibm-mq-client:12"),
    ("InlineTargets", "rabbitmq://mq.example.com:5671/?exchanges=orders&routingKeys=eu.*"),
    ("InlineTargets", "rabbitmq://mq.example.com:5671/ORDER?.*?tenant=1111 rabbitmq://[::1]:5672/*"),
    ("InlineTargets", " rabbitmq://*.mq.example.com:*/ORDERS.*?tenant=1111,2222&vhost=/&secrets=secret://mq/orders-*; ibmmq://b:1414/Q?channel=APP.*&login=none; rabbitmq://10.0.0.0/8:5672/Q "),
]


@pytest.mark.parametrize("parameters, sentence", REFUSED, ids=lambda value: value if isinstance(value, str) else ",".join(value))
def test_what_cannot_work_is_refused_with_what_to_give(parameters, sentence):
    assert any(sentence in refusal for refusal in refusals(parameters)), refusals(parameters)


@pytest.mark.parametrize("name, value", IMPOSSIBLE)
def test_values_that_nothing_takes_are_refused(name, value):
    assert not allowed(name, value)


@pytest.mark.parametrize("name, value", POSSIBLE)
def test_values_that_work_are_not_refused(name, value):
    assert allowed(name, value)


def test_every_refusal_has_a_case():
    said = {refusal for parameters, _ in REFUSED for refusal in refusals(parameters)}
    bounds = {str(number) for number in source()["Parameters"]["IdempotencyExpiryDefaultSeconds"]["AllowedValues"]}
    for usual in bounds:
        for most in bounds:
            said |= set(refusals({"IdempotencyExpiryDefaultSeconds": usual, "IdempotencyExpiryMaxSeconds": most}))
    for rule in source()["Rules"].values():
        for assertion in rule["Assertions"]:
            assert assertion["AssertDescription"].strip() in said


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_works_is_not_refused(name):
    assert refusals(SCENARIOS[name]) == []


def test_brokers_and_database_in_one_vpc_may_have_route_tables_of_their_own():
    for tables in ("rtb-11111111", "rtb-11111111,rtb-22222222", ""):
        assert refusals({**ONE_VPC, "RouteTableIds": tables}) == [], tables
    stack = deploy(ONE_VPC)
    gateways = [endpoint["Properties"] for endpoint in stack.of("AWS::EC2::VPCEndpoint").values() if endpoint["Properties"]["VpcEndpointType"] == "Gateway"]
    pairs = [(str(endpoint["ServiceName"]), table) for endpoint in gateways for table in endpoint["RouteTableIds"]]
    assert len(pairs) == len(set(pairs)) == 4, "EC2 takes one endpoint for a service and a route table"


def test_a_list_is_empty_with_no_member_and_with_an_empty_one():
    given = {**NEW_DATABASE, "DatabaseSubnetIds": ",", "DatabaseSecurityGroupIds": ""}
    assert any("DatabaseSubnetIds" in refusal for refusal in refusals(given))


def test_a_secret_s_arn_has_its_six_characters():
    for short in ["arn:aws:secretsmanager:us-east-1:111122223333:secret:catalogue", "arn:aws:secretsmanager:us-east-1:111122223333:secret:a-b"]:
        with pytest.raises(AssertionError, match="does not take"):
            deploy({"DatabaseSecretArn": short})
    deploy({"DatabaseSecretArn": SECRET})
