//! Tests of tokens whose issuer is a server on this machine.

mod callers;
mod issuer;

use std::time::Duration;

use serde_json::json;

use super::*;
use issuer::{AUDIENCE, ISSUER, Issuer, Key, TENANT, base64, claims, seconds, signed};

/// Age of the cached key set at which requests still use it, while it is fetched again.
const OLD: Duration = Duration::from_secs(1_800);
/// Age of the cached key set at which a request waits for a new one.
const OVERDUE: Duration = Duration::from_secs(3_600);

fn refusal(read: Result<Bearer, TokenError>) -> TokenError {
    read.unwrap_err()
}

#[tokio::test]
async fn a_token_of_the_issuer_says_who_the_caller_is() {
    let (rsa, ec) = (Key::rsa("a"), Key::ec("b"));
    let issuer = Issuer::of(&[&rsa, &ec]).await;
    let tokens = issuer.tokens();
    let expected = Bearer {
        tenant: TENANT.to_owned(),
        name: "token:service-7".to_owned(),
        scopes: [Scope::MqRead, Scope::MqWrite].into(),
    };
    for key in [&rsa, &ec] {
        assert_eq!(tokens.read(&key.token(&claims(json!({})))).await, Ok(expected.clone()));
    }
    // The issuer's clock may differ by a minute, and a token may have several audiences.
    let odd = json!({"exp": seconds(-30), "nbf": seconds(30), "aud": ["someone", AUDIENCE]});
    assert_eq!(tokens.read(&rsa.token(&claims(odd))).await, Ok(expected));
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn scopes_are_a_text_or_a_list_and_unknown_ones_permit_nothing() {
    let key = Key::rsa("a");
    let issuer = Issuer::of(&[&key]).await;
    let tokens = issuer.tokens();
    for (scope, expected) in [
        (json!("openid mq:read  mq:write mq:admins"), &[Scope::MqRead, Scope::MqWrite][..]),
        (json!(["products:write", "mq:read mq:write", 7, null]), &[Scope::ProductsWrite]),
        (json!(""), &[]),
        (json!({"mq:read": true}), &[]),
        (json!(null), &[]),
    ] {
        let read = tokens.read(&key.token(&claims(json!({ "scope": scope })))).await.unwrap();
        let expected: BTreeSet<_> = expected.iter().copied().collect();
        assert_eq!(read.scopes, expected, "{scope}");
    }
}

#[tokio::test]
async fn a_subject_is_named_in_sixty_four_printable_characters() {
    let key = Key::rsa("a");
    let issuer = Issuer::of(&[&key]).await;
    let tokens = issuer.tokens();
    let subject = format!("a\n\t\u{2028}b c{}", "é".repeat(100));
    let read = tokens.read(&key.token(&claims(json!({ "sub": subject })))).await.unwrap();
    assert_eq!(read.name, format!("token:ab c{}", "é".repeat(60)));
}

#[tokio::test]
async fn nobody_but_the_issuer_signs_tokens() {
    let (key, other, ec) = (Key::rsa("a"), Key::other_rsa("a"), Key::ec("b"));
    let issuer = Issuer::of(&[&key, &ec]).await;
    let tokens = issuer.tokens();
    let mine = claims(json!({}));
    let header = |algorithm: &str| json!({"alg": algorithm, "kid": "a"});
    let token = key.token(&mine);
    let (message, signature) = token.rsplit_once('.').unwrap();
    let (head, _) = message.split_once('.').unwrap();
    let theirs = base64(claims(json!({"tenant": "other"})).to_string());
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key.public());
    let by_secret = |message: &[u8]| ring::hmac::sign(&secret, message).as_ref().to_vec();
    let cases = [
        ("another payload", format!("{head}.{theirs}.{signature}"), TokenError::Signature),
        ("no signature", format!("{message}."), TokenError::Signature),
        ("another key", other.token(&mine), TokenError::Signature),
        ("none", signed(&header("none"), &mine, |_| Vec::new()), TokenError::Algorithm),
        ("None", signed(&header("None"), &mine, |_| Vec::new()), TokenError::Algorithm),
        ("the public key as a secret", signed(&header("HS256"), &mine, by_secret), TokenError::Algorithm),
        ("an algorithm that is not allowed", key.sign(&header("EdDSA"), &mine), TokenError::Algorithm),
        ("an algorithm of another kind of key", ec.sign(&header("ES256"), &mine), TokenError::Key),
        ("no id of a key", key.sign(&json!({"alg": "RS256"}), &mine), TokenError::KeyId),
        ("a key that nobody has", key.sign(&json!({"alg": "RS256", "kid": "c"}), &mine), TokenError::Key),
        (
            "an extension",
            key.sign(&json!({"alg": "RS256", "kid": "a", "crit": ["b64"]}), &mine),
            TokenError::Form,
        ),
        ("two parts", message.to_owned(), TokenError::Form),
        ("five parts", format!("{token}.a.b"), TokenError::Form),
        ("nothing", String::new(), TokenError::Form),
        ("too long", key.token(&claims(json!({"more": "x".repeat(LONGEST)}))), TokenError::Long),
    ];
    for (case, token, expected) in cases {
        assert_eq!(refusal(tokens.read(&token).await), expected, "{case}");
    }
    let brings_its_key = json!({"alg": "RS256", "kid": "a", "jku": "http://127.0.0.1:1/"});
    assert_eq!(refusal(tokens.read(&other.sign(&brings_its_key, &mine)).await), TokenError::Signature);
    assert!(tokens.read(&key.sign(&header("PS256"), &mine)).await.is_ok());
}

#[tokio::test]
async fn a_token_is_for_this_deployment_and_for_now() {
    let key = Key::rsa("a");
    let issuer = Issuer::of(&[&key]).await;
    let tokens = issuer.tokens();
    let cases = [
        (json!({"exp": seconds(-120)}), TokenError::Expired),
        (json!({"nbf": seconds(120)}), TokenError::Early),
        (json!({"iss": format!("{ISSUER}/")}), TokenError::Issuer),
        (json!({"aud": "someone"}), TokenError::Audience),
        (json!({"aud": ["someone", "nobody"]}), TokenError::Audience),
        (json!({"exp": null}), TokenError::Claims),
        (json!({"exp": "9999999999"}), TokenError::Claims),
        (json!({"nbf": "1"}), TokenError::Claims),
        (json!({"iss": null}), TokenError::Claims),
        (json!({"aud": null}), TokenError::Claims),
        (json!({"aud": []}), TokenError::Audience),
        (json!({"sub": null}), TokenError::Claims),
        (json!({"sub": 7}), TokenError::Claims),
        (json!({"tenant": null}), TokenError::Tenant),
        (json!({"tenant": ""}), TokenError::Tenant),
        (json!({"tenant": 7}), TokenError::Tenant),
        (json!({"tenant": [TENANT]}), TokenError::Tenant),
        (json!({"tenant": "acme#eu"}), TokenError::Tenant),
        // Another spelling of a tenant would have other items than the tenant.
        (json!({"tenant": "AAAAAAAA-1111-4111-8111-111111111111"}), TokenError::Tenant),
    ];
    for (other, expected) in cases {
        let read = tokens.read(&key.token(&claims(other.clone()))).await;
        assert_eq!(refusal(read), expected, "{other}");
    }
}

#[tokio::test]
async fn a_new_key_is_looked_for_at_most_once_a_minute() {
    let (old, new) = (Key::rsa("a"), Key::ec("b"));
    let issuer = Issuer::of(&[&old]).await;
    let tokens = issuer.tokens();
    let [of_old, of_new] = [&old, &new].map(|key| key.token(&claims(json!({}))));
    assert!(tokens.read(&of_old).await.is_ok());
    issuer.publish(&[&old, &new]);
    for _ in 0..3 {
        assert_eq!(refusal(tokens.read(&of_new).await), TokenError::Key);
    }
    assert_eq!(issuer.fetches(), 1, "the first fetch was less than a minute ago");
    tokens.jwks.age(Duration::from_secs(61));
    assert!(tokens.read(&of_new).await.is_ok(), "it waited for the set that has its key");
    assert!(tokens.read(&of_old).await.is_ok());
    assert_eq!(issuer.fetches(), 2);
}

#[tokio::test]
async fn requests_for_a_new_key_at_once_share_one_fetch() {
    let (old, new) = (Key::rsa("a"), Key::ec("b"));
    let issuer = Issuer::of(&[&old]).await;
    let tokens = issuer.tokens();
    let [of_old, of_new] = [&old, &new].map(|key| key.token(&claims(json!({}))));
    assert!(tokens.read(&of_old).await.is_ok());
    issuer.publish(&[&new]);
    tokens.jwks.age(Duration::from_secs(61));
    let (one, other) = tokio::join!(tokens.read(&of_new), tokens.read(&of_new));
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(issuer.fetches(), 2);
}

#[tokio::test]
async fn an_old_set_serves_while_it_is_fetched_again() {
    let (old, new) = (Key::rsa("a"), Key::ec("b"));
    let issuer = Issuer::of(&[&old]).await;
    let tokens = issuer.tokens();
    let [of_old, of_new] = [&old, &new].map(|key| key.token(&claims(json!({}))));
    assert!(tokens.read(&of_old).await.is_ok());
    issuer.publish(&[&new]);
    tokens.jwks.age(OLD);
    assert!(tokens.read(&of_old).await.is_ok());
    assert_eq!(issuer.fetches(), 1, "the request did not wait");
    // Who needs another key waits for the fetch that is underway.
    assert!(tokens.read(&of_new).await.is_ok());
    assert_eq!(refusal(tokens.read(&of_old).await), TokenError::Key, "the key was withdrawn");
    assert_eq!(issuer.fetches(), 2);
}

#[tokio::test]
async fn an_overdue_set_is_waited_for_and_serves_if_the_issuer_does_not_answer() {
    let (old, new) = (Key::rsa("a"), Key::ec("b"));
    let issuer = Issuer::of(&[&old]).await;
    let tokens = issuer.tokens();
    let token = old.token(&claims(json!({})));
    assert!(tokens.read(&token).await.is_ok());
    issuer.answer(503, "");
    tokens.jwks.age(OVERDUE);
    for _ in 0..3 {
        assert!(tokens.read(&token).await.is_ok());
    }
    assert_eq!(issuer.fetches(), 2, "one fetch a minute");
    issuer.publish(&[&new]);
    tokens.jwks.age(OVERDUE);
    assert_eq!(refusal(tokens.read(&token).await), TokenError::Key, "the key was withdrawn");
}

#[tokio::test]
async fn a_set_outlives_an_issuer_that_does_not_answer() {
    let key = Key::rsa("a");
    let issuer = Issuer::of(&[&key]).await;
    let tokens = issuer.tokens();
    let token = key.token(&claims(json!({})));
    assert!(tokens.read(&token).await.is_ok());
    let large = json!({"keys": [], "more": "x".repeat(256 * 1024)}).to_string();
    for (status, body) in
        [(503, String::new()), (200, "<html>".to_owned()), (200, large), (302, String::new())]
    {
        issuer.answer(status, body);
        tokens.jwks.age(OLD);
        assert!(tokens.read(&token).await.is_ok(), "{status}");
        let unknown = key.sign(&json!({"alg": "RS256", "kid": "c"}), &claims(json!({})));
        assert_eq!(refusal(tokens.read(&unknown).await), TokenError::Key, "{status}");
        assert!(tokens.read(&token).await.is_ok(), "{status}");
    }
    tokens.jwks.age(Duration::from_secs(86_400));
    assert_eq!(refusal(tokens.read(&token).await), TokenError::Unavailable, "it is a day old");
}

#[tokio::test]
async fn without_a_set_no_token_can_be_checked_and_a_failure_is_remembered() {
    let key = Key::rsa("a");
    let issuer = Issuer::of(&[&key]).await;
    issuer.answer(503, "");
    let tokens = issuer.tokens();
    let token = key.token(&claims(json!({})));
    for _ in 0..3 {
        assert_eq!(refusal(tokens.read(&token).await), TokenError::Unavailable);
    }
    assert_eq!(issuer.fetches(), 1);
    issuer.publish(&[&key]);
    tokens.jwks.age(Duration::from_secs(5));
    assert!(tokens.read(&token).await.is_ok());
}
