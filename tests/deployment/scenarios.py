"""Parameters of the deployments that the pages describe."""

SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:catalogue-AbCdEf"
OTHER_SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:another-GhIjKl"
KEY = "arn:aws:kms:us-east-1:111122223333:key/11111111-2222-4333-8444-555555555555"
OTHER_KEY = "arn:aws:kms:us-east-1:111122223333:key/66666666-7777-4888-8999-000000000000"
PARTNER_KEY = "arn:aws:kms:us-east-1:444455556666:key/77777777-8888-4999-8aaa-bbbbbbbbbbbb"

GATEWAY = {}
BROKERS_VPC = {"MqAccessSubnetIds": "subnet-11111111,subnet-22222222", "MqAccessSecurityGroupIds": "sg-11111111"}
BROKERS_ENDPOINTS = {
    **BROKERS_VPC,
    "VpcId": "vpc-11111111",
    "RouteTableIds": "rtb-11111111",
}
IBM_MQ = {"IbmMqLayerArn": "arn:aws:lambda:us-east-1:111122223333:layer:integrahub-ibm-mq-client:1"}
EXISTING_DATABASE = {"DatabaseSecretArn": SECRET}
DATABASE_VPC = {"DatabaseSubnetIds": "subnet-33333333,subnet-44444444", "DatabaseSecurityGroupIds": "sg-33333333"}
DATABASE_ENDPOINTS = {
    **DATABASE_VPC,
    "DatabaseVpcId": "vpc-33333333",
    "DatabaseRouteTableIds": "rtb-33333333",
}
NEW_DATABASE = {**DATABASE_VPC, "DatabaseVpcId": "vpc-33333333", "CreateDatabase": "true"}
DOMAIN = {
    "DomainName": "api.example.com",
    "CertificateArn": "arn:aws:acm:us-east-1:111122223333:certificate/11111111-2222-4333-8444-555555555555",
    "HostedZoneId": "Z0123456789ABC",
    "DisableExecuteApiEndpoint": "true",
}
TOKENS = {
    "JwtIssuer": "https://login.example.com/tenants",
    "JwtAudience": "integrahub",
    "JwtJwksUrl": "https://login.example.com/tenants/keys",
}
ORGANISATION = {
    **TOKENS,
    "PermissionsBoundaryArn": "arn:aws:iam::111122223333:policy/boundary",
    "RolePath": "/applications/integrahub/",
    "KmsKeyArn": KEY,
    "FurtherKmsKeyArns": f"{OTHER_KEY},{PARTNER_KEY}",
    "KeyRepositoryObjects": "arn:aws:s3:::acme-keys/mq/*",
    "CorsOrigins": "https://app.example.com,https://other.example.com",
    "Rollout": "Linear10PercentEvery1Minute",
    "AlarmTopicArn": "arn:aws:sns:us-east-1:111122223333:alarms",
    "AuditDataEvents": "true",
    "PublicReservedConcurrency": "20",
    "MqAccessReservedConcurrency": "10",
    "TenantLimit": "requests=100/200",
    "TargetLimit": "requests=50 messages=500/1000 bytes=10485760",
}
REST = {"ApiFront": "rest"}
WEB_ACL = "arn:aws:wafv2:us-east-1:111122223333:regional/webacl/integrahub/11111111-2222-4333-8444-555555555555"
PARTNER = {"AcceptDrops": "partner-files/444455556666", "FurtherKmsKeyArns": f"{OTHER_KEY},{PARTNER_KEY}"}
EVENTS = {
    "EventBusArn": "arn:aws:events:us-east-1:111122223333:event-bus/news",
    "EventTopicArn": "arn:aws:sns:us-east-1:111122223333:news",
    "FurtherKmsKeyArns": f"{OTHER_KEY},{PARTNER_KEY}",
}
MSK = {
    "KafkaBootstrapServers": "b-1.example.com:9098,b-2.example.com:9098",
    "KafkaClusterArn": "arn:aws:kafka:us-east-1:111122223333:cluster/catalogue/11111111-2222-4333-8444-555555555555-1",
}
MSK_SCRAM = {**MSK, "KafkaAuthentication": "scram", "KafkaSecretArn": OTHER_SECRET}
OTHER_KAFKA = {
    "KafkaBootstrapServers": "b-1.example.com:9093,b-2.example.com:9093",
    "KafkaAuthentication": "mtls",
    "KafkaSecretArn": OTHER_SECRET,
    "KafkaCaSecretArn": SECRET,
}
LOAD_TESTS = {"LoadTests": "true"}
EVERYTHING = {
    **BROKERS_ENDPOINTS,
    **IBM_MQ,
    **DATABASE_ENDPOINTS,
    **NEW_DATABASE,
    **DOMAIN,
    **ORGANISATION,
    "CreateDatabase": "with-reader",
    "DatabaseDeletionProtection": "true",
    "DatabaseEngineVersion": "16.8",
    "DatabaseKmsKeyArn": KEY,
    **PARTNER,
    **EVENTS,
    **MSK_SCRAM,
    **LOAD_TESTS,
    "LoadTestReservedConcurrency": "40",
}

SCENARIOS = {
    "gateway": GATEWAY,
    "brokers in a VPC": BROKERS_VPC,
    "brokers in a VPC with endpoints": BROKERS_ENDPOINTS,
    "IBM MQ": IBM_MQ,
    "existing database": EXISTING_DATABASE,
    "existing database, address given": {**EXISTING_DATABASE, "DatabaseAddress": "db.example.com:5432/catalogue"},
    "existing database in a VPC": {**EXISTING_DATABASE, **DATABASE_VPC},
    "existing database in a VPC with endpoints": {**EXISTING_DATABASE, **DATABASE_ENDPOINTS},
    "one VPC for both": {**EXISTING_DATABASE, **DATABASE_ENDPOINTS, **BROKERS_VPC, "VpcId": "vpc-33333333"},
    "new database": NEW_DATABASE,
    "new database with endpoints": {**NEW_DATABASE, **DATABASE_ENDPOINTS},
    "new database from a snapshot": {**NEW_DATABASE, "DatabaseSnapshotIdentifier": "integrahub-2026-11-22"},
    "ingest switched off": {**NEW_DATABASE, "IngestEnabled": "false"},
    "drops": {**EXISTING_DATABASE, "AcceptDrops": "true"},
    "drops, ingest switched off": {**EXISTING_DATABASE, "AcceptDrops": "true", "IngestEnabled": "false"},
    "drops into a bucket of this account": {**EXISTING_DATABASE, "AcceptDrops": "own-files"},
    "drops into a bucket of another account": {**EXISTING_DATABASE, **PARTNER},
    "drops into a bucket, ingest switched off": {**EXISTING_DATABASE, **PARTNER, "IngestEnabled": "false"},
    "events on a bus": {**EXISTING_DATABASE, "EventBusArn": EVENTS["EventBusArn"]},
    "events on a topic, in a VPC with endpoints": {**EXISTING_DATABASE, **DATABASE_ENDPOINTS, "EventTopicArn": EVENTS["EventTopicArn"]},
    "events, ingest switched off": {**EXISTING_DATABASE, **EVENTS, "IngestEnabled": "false"},
    "MSK": {**EXISTING_DATABASE, **MSK},
    "MSK, with a prefix of the topics": {**EXISTING_DATABASE, **MSK, "KafkaTopicPrefix": "dev."},
    "MSK, with SCRAM": {**EXISTING_DATABASE, **MSK_SCRAM},
    "another Kafka": {**EXISTING_DATABASE, **OTHER_KAFKA},
    "another Kafka, in a VPC": {**EXISTING_DATABASE, **DATABASE_VPC, **OTHER_KAFKA},
    "another Kafka, without login": {**EXISTING_DATABASE, **DATABASE_VPC, "KafkaBootstrapServers": "kafka:9092", "KafkaAuthentication": "none"},
    "MSK, ingest switched off": {**EXISTING_DATABASE, **MSK, "IngestEnabled": "false"},
    "another Kafka and a bus, in a VPC": {**EXISTING_DATABASE, **DATABASE_VPC, **OTHER_KAFKA, "EventBusArn": EVENTS["EventBusArn"]},
    "load tests": LOAD_TESTS,
    "load tests in the brokers' network": {**LOAD_TESTS, **BROKERS_ENDPOINTS, **IBM_MQ},
    "domain": DOMAIN,
    "REST API": REST,
    "REST API with everything that it takes": {**REST, **EXISTING_DATABASE, **LOAD_TESTS, **DOMAIN, "AlarmTopicArn": ORGANISATION["AlarmTopicArn"], "ApiWebAclArn": WEB_ACL},
    "private REST API": {**REST, **EXISTING_DATABASE, "ApiPrivateEndpoints": "vpce-11111111,vpce-22222222"},
    "organisation": ORGANISATION,
    "organisation with an existing database": {**ORGANISATION, **EXISTING_DATABASE},
    "everything": EVERYTHING,
}
