//! Fake token issuer of the tests: its keys, and a server on this machine with its key set.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaEncoding, RsaKeyPair,
};
use serde_json::{Value, json};
use test_support::http_server::{Server, response};

use super::*;

pub(super) const ISSUER: &str = "https://issuer.example.com";
pub(super) const AUDIENCE: &str = "integrahub";
pub(super) const TENANT: &str = "acme";
const RSA_1: &[u8] = include_bytes!("rsa-1.pk8");
const RSA_2: &[u8] = include_bytes!("rsa-2.pk8");

/// Private key of the fake issuer, with its id.
pub(super) struct Key {
    id: &'static str,
    pair: Pair,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec(Box<EcdsaKeyPair>),
}

pub(super) struct Issuer {
    server: Server,
    answer: Arc<Mutex<(u16, String)>>,
    fetches: Arc<AtomicUsize>,
}

impl Key {
    pub(super) fn rsa(id: &'static str) -> Self {
        Self { id, pair: Pair::Rsa(Box::new(RsaKeyPair::from_pkcs8(RSA_1).unwrap())) }
    }

    pub(super) fn other_rsa(id: &'static str) -> Self {
        Self { id, pair: Pair::Rsa(Box::new(RsaKeyPair::from_pkcs8(RSA_2).unwrap())) }
    }

    pub(super) fn ec(id: &'static str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
        Self { id, pair: Pair::Ec(Box::new(pair)) }
    }

    /// Returns the public key: as DER for RSA, or as a point of the elliptic curve.
    pub(super) fn public(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Rsa(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Ec(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Rsa(pair) => {
                let key = PublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({"kty": "RSA", "use": "sig", "kid": self.id, "n": base64(key.n), "e": base64(key.e)})
            }
            Pair::Ec(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": self.id, "x": x, "y": y})
            }
        }
    }

    /// Returns a token with these claims and the usual header.
    pub(super) fn token(&self, claims: &Value) -> String {
        let algorithm = if matches!(self.pair, Pair::Rsa(_)) { "RS256" } else { "ES256" };
        self.sign(&json!({"alg": algorithm, "kid": self.id, "typ": "JWT"}), claims)
    }

    /// Returns a signed token with any header. It is signed with the algorithm of the key, or with
    /// `PS256` if the header says so.
    pub(super) fn sign(&self, header: &Value, claims: &Value) -> String {
        let encoding: &'static dyn RsaEncoding =
            if header["alg"] == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
        signed(header, claims, |message| match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(encoding, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
            Pair::Ec(pair) => pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
        })
    }
}

impl Issuer {
    pub(super) async fn of(keys: &[&Key]) -> Self {
        let (answer, fetches) = (Arc::new(Mutex::new((200, set(keys)))), Arc::new(AtomicUsize::new(0)));
        let (answered, counted) = (Arc::clone(&answer), Arc::clone(&fetches));
        let server = Server::start(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let (status, body) = answered.lock().unwrap().clone();
            async move { Some(response(status, body)) }
        });
        Self { server: server.await, answer, fetches }
    }

    pub(super) fn publish(&self, keys: &[&Key]) {
        self.answer(200, set(keys));
    }

    pub(super) fn answer(&self, status: u16, body: impl Into<String>) {
        *self.answer.lock().unwrap() = (status, body.into());
    }

    pub(super) fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    pub(super) fn settings(&self) -> TokenSettings {
        TokenSettings {
            issuer: ISSUER.to_owned(),
            audiences: format!("other,{AUDIENCE}").parse().unwrap(),
            jwks_url: self.server.url().parse().unwrap(),
            tenant_claim: "tenant".to_owned(),
            scopes_claim: "scope".to_owned(),
        }
    }

    pub(super) fn tokens(&self) -> Tokens {
        Tokens::new(self.settings())
    }
}

fn set(keys: &[&Key]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

pub(super) fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(super) fn signed(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
    let signature = base64(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

/// Returns the time `after` seconds from now, in seconds since 1970.
pub(super) fn seconds(after: i64) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap() + after
}

/// Returns the usual claims of a token. Each member of `other` replaces the claim of its name, and
/// a null removes the claim.
pub(super) fn claims(other: Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "service-7", "exp": seconds(300), "iat": seconds(0),
        "tenant": TENANT, "scope": "mq:read mq:write",
    });
    let Value::Object(other) = other else { panic!("claims are an object") };
    let known = claims.as_object_mut().unwrap();
    for (name, value) in other {
        match value {
            Value::Null => known.remove(&name),
            value => known.insert(name, value),
        };
    }
    claims
}
