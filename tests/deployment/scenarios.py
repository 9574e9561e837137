"""Parameters of the deployments that docs/deploy.md describes."""

SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:catalogue-AbCdEf"
OTHER_SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:another-GhIjKl"
KEY = "arn:aws:kms:us-east-1:111122223333:key/11111111-2222-4333-8444-555555555555"
OTHER_KEY = "arn:aws:kms:us-east-1:111122223333:key/66666666-7777-4888-8999-000000000000"

GATEWAY = {}
BROKERS_VPC = {"MqAccessSubnetIds": "subnet-11111111,subnet-22222222", "MqAccessSecurityGroupIds": "sg-11111111"}
BROKERS_ENDPOINTS = {
    **BROKERS_VPC,
    "VpcId": "vpc-11111111",
    "RouteTableIds": "rtb-11111111",
    "CreateSecretsManagerEndpoint": "true",
}
EXISTING_DATABASE = {"DatabaseSecretArn": SECRET}
DATABASE_VPC = {"DatabaseSubnetIds": "subnet-33333333,subnet-44444444", "DatabaseSecurityGroupIds": "sg-33333333"}
DATABASE_ENDPOINTS = {
    **DATABASE_VPC,
    "DatabaseVpcId": "vpc-33333333",
    "DatabaseRouteTableIds": "rtb-33333333",
    "CreateDatabaseEndpoints": "true",
}
NEW_DATABASE = {**DATABASE_VPC, "DatabaseVpcId": "vpc-33333333", "CreateDatabase": "true"}
DOMAIN = {
    "DomainName": "api.example.com",
    "CertificateArn": "arn:aws:acm:us-east-1:111122223333:certificate/11111111-2222-4333-8444-555555555555",
    "HostedZoneId": "Z0123456789ABC",
    "DisableExecuteApiEndpoint": "true",
}
ORGANISATION = {
    "PermissionsBoundaryArn": "arn:aws:iam::111122223333:policy/boundary",
    "RolePath": "/applications/integrahub/",
    "KmsKeyArn": KEY,
    "FormerKmsKeyArns": OTHER_KEY,
    "SecretKmsKeyArns": f"{KEY},{OTHER_KEY}",
    "CorsOrigins": "https://app.example.com,https://other.example.com",
    "Rollout": "Linear10PercentEvery1Minute",
    "AlarmTopicArn": "arn:aws:sns:us-east-1:111122223333:alarms",
    "AuditDataEvents": "true",
    "CreateDashboards": "true",
    "PublicReservedConcurrency": "20",
    "MqAccessReservedConcurrency": "10",
}
EVERYTHING = {
    **BROKERS_ENDPOINTS,
    **DATABASE_ENDPOINTS,
    **NEW_DATABASE,
    **DOMAIN,
    **ORGANISATION,
    "DatabaseReader": "true",
    "DatabaseDeletionProtection": "true",
    "DatabaseLogExports": "true",
    "DatabaseInsights": "true",
    "DatabaseEngineVersion": "16.8",
    "DatabaseKmsKeyArn": KEY,
}

SCENARIOS = {
    "gateway": GATEWAY,
    "brokers in a VPC": BROKERS_VPC,
    "brokers in a VPC with endpoints": BROKERS_ENDPOINTS,
    "existing database": EXISTING_DATABASE,
    "existing database, host and name given": {**EXISTING_DATABASE, "DatabaseHost": "db.example.com", "DatabasePort": "5432", "DatabaseName": "catalogue"},
    "existing database in a VPC": {**EXISTING_DATABASE, **DATABASE_VPC},
    "existing database in a VPC with endpoints": {**EXISTING_DATABASE, **DATABASE_ENDPOINTS},
    "one VPC for both": {**EXISTING_DATABASE, **DATABASE_ENDPOINTS, **BROKERS_VPC, "VpcId": "vpc-33333333"},
    "new database": NEW_DATABASE,
    "new database with endpoints": {**NEW_DATABASE, **DATABASE_ENDPOINTS},
    "new database from a snapshot": {**NEW_DATABASE, "DatabaseSnapshotIdentifier": "integrahub-2026-11-22"},
    "ingest switched off": {**NEW_DATABASE, "IngestEnabled": "false"},
    "domain": DOMAIN,
    "organisation": ORGANISATION,
    "organisation with an existing database": {**ORGANISATION, **EXISTING_DATABASE},
    "everything": EVERYTHING,
}
