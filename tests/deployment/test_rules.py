"""Combinations that cannot work are refused before anything is made, with a sentence that says what to give."""

import pytest
from cloudformation import deploy, refusals, source
from scenarios import BROKERS_ENDPOINTS, DATABASE_ENDPOINTS, DOMAIN, EXISTING_DATABASE, KEY, NEW_DATABASE, SCENARIOS, SECRET


def without(parameters, *names):
    return {name: value for name, value in parameters.items() if name not in names}


# Parameters that cannot work, and what the refusal has to name.
REFUSED = [
    ({"MqAccessSubnetIds": "subnet-1"}, "MqAccessSecurityGroupIds"),
    ({"MqAccessSecurityGroupIds": "sg-1"}, "MqAccessSubnetIds"),
    ({"RouteTableIds": "rtb-1"}, "VpcId"),
    (without(BROKERS_ENDPOINTS, "VpcId", "RouteTableIds"), "VpcId"),
    (without(BROKERS_ENDPOINTS, "MqAccessSubnetIds", "MqAccessSecurityGroupIds"), "MqAccessSubnetIds"),
    (without(BROKERS_ENDPOINTS, "MqAccessSecurityGroupIds"), "MqAccessSecurityGroupIds"),
    ({**EXISTING_DATABASE, "DatabaseSubnetIds": "subnet-1"}, "DatabaseSecurityGroupIds"),
    ({**EXISTING_DATABASE, "DatabaseSecurityGroupIds": "sg-1"}, "DatabaseSubnetIds"),
    (without(DATABASE_ENDPOINTS, "DatabaseVpcId"), "DatabaseVpcId"),
    (without(DATABASE_ENDPOINTS, "DatabaseRouteTableIds"), "DatabaseRouteTableIds"),
    (without(DATABASE_ENDPOINTS, "DatabaseSubnetIds", "DatabaseSecurityGroupIds"), "DatabaseSubnetIds"),
    (without(DATABASE_ENDPOINTS, "DatabaseSecurityGroupIds"), "DatabaseSecurityGroupIds"),
    ({**DATABASE_ENDPOINTS, **without(BROKERS_ENDPOINTS, "RouteTableIds"), "VpcId": "vpc-33333333"}, "CreateSecretsManagerEndpoint at false"),
    (
        {**DATABASE_ENDPOINTS, **BROKERS_ENDPOINTS, "CreateSecretsManagerEndpoint": "false", "VpcId": "vpc-33333333", "RouteTableIds": "rtb-33333333"},
        "RouteTableIds empty",
    ),
    ({"CreateDatabase": "true"}, "DatabaseVpcId"),
    (without(NEW_DATABASE, "DatabaseVpcId"), "DatabaseVpcId"),
    (without(NEW_DATABASE, "DatabaseSubnetIds", "DatabaseSecurityGroupIds"), "DatabaseSubnetIds"),
    (without(NEW_DATABASE, "DatabaseSecurityGroupIds"), "DatabaseSecurityGroupIds"),
    ({**NEW_DATABASE, "DatabaseSecretArn": SECRET}, "Either DatabaseSecretArn"),
    ({**NEW_DATABASE, "DatabaseTls": "off"}, "DatabaseTls=verify-full"),
    ({**NEW_DATABASE, "DatabaseHost": "db.example.com"}, "DatabaseHost"),
    ({**NEW_DATABASE, "DatabasePort": "5432"}, "DatabasePort"),
    ({**NEW_DATABASE, "DatabaseName": "catalogue"}, "integrahub"),
    ({"DatabaseHost": "db.example.com"}, "DatabaseSecretArn"),
    ({"DatabasePort": "5432"}, "DatabaseSecretArn"),
    ({"DatabaseName": "catalogue"}, "DatabaseSecretArn"),
    ({"DatabaseSnapshotIdentifier": "snapshot"}, "CreateDatabase=true"),
    ({"DatabaseKmsKeyArn": KEY}, "CreateDatabase=true"),
    ({**EXISTING_DATABASE, "DatabaseReader": "true"}, "CreateDatabase=true"),
    ({"DomainName": "api.example.com"}, "CertificateArn"),
    ({"CertificateArn": DOMAIN["CertificateArn"]}, "DomainName"),
    ({"HostedZoneId": "Z1"}, "DomainName"),
    ({"HistoryDays": "60", "PayloadRetentionDays": "60"}, "at least 15 more than PayloadRetentionDays"),
    ({"HistoryDays": "90", "PayloadRetentionDays": "90"}, "at least 15 more than PayloadRetentionDays"),
    ({"HistoryDays": "180", "PayloadRetentionDays": "180"}, "at least 15 more than PayloadRetentionDays"),
    ({"HistoryDays": "365", "PayloadRetentionDays": "365"}, "at least 15 more than PayloadRetentionDays"),
    ({"DisableExecuteApiEndpoint": "true"}, "DomainName"),
]


@pytest.mark.parametrize("parameters, sentence", REFUSED, ids=lambda value: value if isinstance(value, str) else ",".join(value))
def test_what_cannot_work_is_refused_with_what_to_give(parameters, sentence):
    assert any(sentence in refusal for refusal in refusals(parameters)), refusals(parameters)


def test_every_refusal_has_a_case():
    said = {refusal for parameters, _ in REFUSED for refusal in refusals(parameters)}
    bounds = {str(number) for number in source()["Parameters"]["IdempotencyExpiryDefaultSeconds"]["AllowedValues"]}
    for low in bounds:
        for high in bounds:
            said |= set(refusals({"IdempotencyExpiryMinSeconds": low, "IdempotencyExpiryMaxSeconds": high, "IdempotencyExpiryDefaultSeconds": "3600"}))
    for rule in source()["Rules"].values():
        for assertion in rule["Assertions"]:
            assert assertion["AssertDescription"].strip() in said


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_works_is_not_refused(name):
    assert refusals(SCENARIOS[name]) == []


def test_a_list_is_empty_with_no_member_and_with_an_empty_one():
    given = {**NEW_DATABASE, "DatabaseSubnetIds": ",", "DatabaseSecurityGroupIds": ""}
    assert any("DatabaseSubnetIds" in refusal for refusal in refusals(given))


def test_a_secret_s_arn_has_its_six_characters():
    for short in ["arn:aws:secretsmanager:us-east-1:111122223333:secret:catalogue", "arn:aws:secretsmanager:us-east-1:111122223333:secret:a-b"]:
        with pytest.raises(AssertionError, match="does not take"):
            deploy({"DatabaseSecretArn": short})
    deploy({"DatabaseSecretArn": SECRET})
