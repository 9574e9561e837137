//! Tests of the sources of a connection's configuration, and of values that are refused. They need
//! no broker.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use rabbitmq::long_running::{ConfigError, ConnectionArguments, ConnectionConfig, Host};
use secrecy::SecretString;

const NO_FILE: &str = "no-such-directory/config.toml";

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn load(
    arguments: &ConnectionArguments,
    environment: &[(&str, &str)],
    file: &Path,
) -> Result<ConnectionConfig, ConfigError> {
    let variable = |name: &str| {
        environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    arguments.load_from(variable, file)
}

fn of_environment(environment: &[(&str, &str)]) -> Result<ConnectionConfig, ConfigError> {
    load(&ConnectionArguments::default(), environment, Path::new(NO_FILE))
}

#[test]
fn the_defaults_are_those_of_the_model() {
    let config = of_environment(&[]).unwrap();
    assert_eq!((config.host(), config.port()), ("localhost", 5_672));
    assert_eq!((config.user(), config.vhost()), ("guest", "/"));
    assert_eq!((config.timeout(), config.heartbeat()), (Duration::from_secs(30), Duration::from_secs(60)));
    assert_eq!(config.get_connection_url(), "amqp://guest:***@localhost:5672/");
}

#[test]
fn the_sample_has_every_setting_with_its_default() {
    let sample = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/config.toml"));
    let (config, defaults) =
        (load(&ConnectionArguments::default(), &[], sample).unwrap(), of_environment(&[]).unwrap());
    let shown = |config: &ConnectionConfig| {
        (config.get_connection_url(), config.timeout(), config.heartbeat(), config.user().to_owned())
    };
    assert_eq!(shown(&config), shown(&defaults));
    let text = std::fs::read_to_string(sample).unwrap();
    let settings = [
        "host",
        "port",
        "user",
        "password",
        "vhost",
        "timeout",
        "heartbeat",
        "tls",
        "ca_file",
        "cert_file",
        "key_file",
    ];
    for setting in settings {
        assert!(
            text.lines().any(|line| line.trim_start_matches("# ").starts_with(&format!("{setting} = "))),
            "{setting}"
        );
    }
}

#[test]
fn arguments_precede_the_environment_and_that_the_file_and_that_the_defaults() {
    let file = file(
        "[amqp]\nhost = \"of-the-file\"\nport = 1111\nuser = \"of-the-file\"\npassword = \"pw-file\"\n\
         vhost = \"of-the-file\"\n[other]\nkey = 1\n",
    );
    let arguments = ConnectionArguments { host: Some("of-arguments".to_owned()), ..Default::default() };
    let environment = [("AMQP_HOST", "of-environment"), ("AMQP_PORT", "2222"), ("AMQP_HEARTBEAT", "0")];
    let config = load(&arguments, &environment, file.path()).unwrap();
    assert_eq!((config.host(), config.port()), ("of-arguments", 2_222));
    assert_eq!((config.user(), config.vhost()), ("of-the-file", "of-the-file"));
    assert_eq!((config.timeout(), config.heartbeat()), (Duration::from_secs(30), Duration::ZERO));
    assert_eq!(config.get_connection_url(), "amqp://of-the-file:***@of-arguments:2222/of-the-file");
}

#[test]
fn the_ends_of_every_range_are_accepted_and_what_is_past_them_is_not() {
    for (variable, least, most) in
        [("AMQP_PORT", 1, 65_535), ("AMQP_TIMEOUT", 1, 300), ("AMQP_HEARTBEAT", 0, 3_600)]
    {
        for good in [least, most] {
            assert!(of_environment(&[(variable, &good.to_string())]).is_ok(), "{variable}={good}");
        }
        for bad in [least - 1, most + 1] {
            let error = of_environment(&[(variable, &bad.to_string())]).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{variable} is {bad}, which is not within {least} to {most}")
            );
        }
    }
    for variable in ["AMQP_HOST", "AMQP_USER", "AMQP_PASSWORD", "AMQP_VHOST"] {
        let error = of_environment(&[(variable, "")]).unwrap_err();
        assert_eq!(error.to_string(), format!("{variable} is empty"));
    }
    assert!(of_environment(&[("AMQP_VHOST", &"v".repeat(256))]).is_err());
    assert!(of_environment(&[("AMQP_USER", "a\0b")]).is_err());
}

#[test]
fn every_fault_is_told_at_once_and_says_where_it_is() {
    let file = file("[amqp]\nuser = 7\nvhost = \"\"\nheartbeat = 9999\nhots = \"x\"\n");
    let arguments = ConnectionArguments { port: Some(70_000), ..Default::default() };
    let error = load(&arguments, &[("AMQP_TIMEOUT", "soon")], file.path()).unwrap_err();
    let faults: Vec<_> = error.0.iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "config.toml: amqp.hots is not a setting",
            "argument port is 70000, which is not within 1 to 65535",
            "config.toml: amqp.user is not text",
            "config.toml: amqp.vhost is empty",
            "AMQP_TIMEOUT is not a whole number",
            "config.toml: amqp.heartbeat is 9999, which is not within 0 to 3600",
        ]
    );
}

#[test]
fn a_password_is_shown_by_nothing() {
    let secret = "pw-that-nobody-sees";
    let arguments = ConnectionArguments { password: Some(SecretString::from(secret)), ..Default::default() };
    let config = load(&arguments, &[], Path::new(NO_FILE)).unwrap();
    for text in [format!("{config:?}"), format!("{arguments:?}"), config.get_connection_url()] {
        assert!(!text.contains(secret), "{text}");
    }
    for broken in [
        format!("[amqp]\npassword = \"{secret}"),
        format!("[amqp]\npassword = [\"{secret}\"]\n"),
        format!("amqp = \"{secret}\""),
    ] {
        let error = load(&ConnectionArguments::default(), &[], file(&broken).path()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(secret), "{error}");
    }
    let error = of_environment(&[("AMQP_PASSWORD", "pw-with\0nul")]).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("pw-with"));
}

#[test]
fn no_heartbeat_is_accepted_in_a_process_and_raised_in_a_function() {
    let config = of_environment(&[("AMQP_HEARTBEAT", "0")]).unwrap();
    assert_eq!(config.clone().running_in(Host::Process).heartbeat(), Duration::ZERO);
    assert_eq!(config.running_in(Host::Function).heartbeat(), Duration::from_secs(60));
    let low = of_environment(&[("AMQP_HEARTBEAT", "1")]).unwrap();
    assert_eq!(low.running_in(Host::Function).heartbeat(), Duration::from_secs(1));
}

/// Temporary PEM files: the certificate of a certificate authority, a client certificate that it
/// issued, and that certificate's private key.
struct Pem {
    authority: tempfile::NamedTempFile,
    certificate: tempfile::NamedTempFile,
    key: tempfile::NamedTempFile,
}

impl Pem {
    fn new() -> Self {
        let authority = crate::authority::Authority::new();
        let (certificate, key) = authority.issue("a-client");
        Self { authority: file(&authority.pem), certificate: file(&certificate), key: file(&key) }
    }
}

fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().unwrap()
}

#[test]
fn tls_is_set_by_every_source() {
    let pem = Pem::new();
    let arguments = ConnectionArguments { ca_file: Some(pem.authority.path().into()), ..Default::default() };
    let environment = [("AMQP_CERT_FILE", path(&pem.certificate)), ("AMQP_CA_FILE", "no-such-file")];
    let file = file(&format!("[amqp]\ntls = true\nkey_file = '{}'\nuser = \"app\"\n", path(&pem.key)));
    let config = load(&arguments, &environment, file.path()).unwrap();
    assert_eq!(config.get_connection_url(), "amqps://app:***@localhost:5671/");

    let config = load(&arguments, &[("AMQP_TLS", "false")], Path::new(NO_FILE)).unwrap_err();
    assert_eq!(config.to_string(), "argument ca_file is of no use without tls");
    let config = of_environment(&[("AMQP_TLS", "true"), ("AMQP_PORT", "5672")]).unwrap();
    assert_eq!(config.get_connection_url(), "amqps://guest:***@localhost:5672/");
    assert!(!of_environment(&[("AMQP_TLS", "false")]).unwrap().is_tls());
    assert!(of_environment(&[("AMQP_TLS", "yes")]).is_err());
}

#[test]
fn a_client_certificate_without_user_and_password_is_the_login() {
    let pem = Pem::new();
    let tls =
        [("AMQP_TLS", "true"), ("AMQP_CERT_FILE", path(&pem.certificate)), ("AMQP_KEY_FILE", path(&pem.key))];
    let config = of_environment(&tls).unwrap();
    assert_eq!((config.user(), config.get_connection_url().as_str()), ("", "amqps://localhost:5671/"));
    let with_user = [tls.as_slice(), &[("AMQP_USER", "app"), ("AMQP_PASSWORD", "pw-of-app")]].concat();
    let config = of_environment(&with_user).unwrap();
    assert_eq!(
        (config.user(), config.get_connection_url().as_str()),
        ("app", "amqps://app:***@localhost:5671/")
    );
}

#[test]
fn wrong_files_are_told_at_once_and_no_key_is_shown() {
    let pem = Pem::new();
    let key = std::fs::read_to_string(pem.key.path()).unwrap();
    let secret = key.lines().nth(1).unwrap();
    let fault = |more: &[(&str, &str)]| {
        let environment = [&[("AMQP_TLS", "true")], more].concat();
        let error = of_environment(&environment).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(secret), "{error}");
        error.to_string()
    };
    assert_eq!(
        fault(&[("AMQP_CERT_FILE", path(&pem.certificate))]),
        "AMQP_CERT_FILE needs key_file, the certificate's private key"
    );
    assert_eq!(
        fault(&[("AMQP_KEY_FILE", path(&pem.key))]),
        "AMQP_KEY_FILE needs cert_file, the key's certificate"
    );
    assert_eq!(
        fault(&[("AMQP_CA_FILE", path(&pem.key)), ("AMQP_PORT", "0")]),
        "AMQP_CA_FILE cannot be used: the trust store holds no certificate in PEM; AMQP_PORT is 0, which is not within 1 to 65535"
    );
    assert!(
        fault(&[("AMQP_CA_FILE", "no-such-file")])
            .starts_with("AMQP_CA_FILE names `no-such-file`, which cannot be read: ")
    );
    let of_another = Pem::new();
    let mixed = [("AMQP_CERT_FILE", path(&pem.certificate)), ("AMQP_KEY_FILE", path(&of_another.key))];
    let told = fault(&mixed);
    assert!(told.starts_with("AMQP_CERT_FILE cannot be used: "), "{told}");
    assert_eq!(fault(&[("AMQP_CA_FILE", "")]), "AMQP_CA_FILE is empty");

    let tls =
        [("AMQP_TLS", "true"), ("AMQP_CERT_FILE", path(&pem.certificate)), ("AMQP_KEY_FILE", path(&pem.key))];
    let config = of_environment(&tls).unwrap();
    assert!(!format!("{config:?}").contains(secret));
}
