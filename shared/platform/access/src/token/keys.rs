//! Public keys of an issuer, as its key set has them (RFC 7517).

use attempt::Malformed;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// Maximum number of keys in a key set (JWKS).
const MOST_KEYS: usize = 100;
const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// Public keys of a key set (JWKS) that can verify signatures of tokens.
#[derive(Debug)]
pub(super) struct KeySet(Vec<PublicKey>);

/// Public key, with the signature algorithms that it may be used with.
#[derive(Debug)]
struct PublicKey {
    id: String,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// Fault of a key set (JWKS).
#[derive(Debug, thiserror::Error)]
pub(super) enum KeySetError {
    /// The document is not a key set.
    #[error("it is malformed")]
    Form(#[from] Malformed),
    /// The key set has more than 100 keys.
    #[error("it has more than {MOST_KEYS} keys")]
    TooMany,
    /// The key set has no key that can verify a token.
    #[error("none of its keys is an RSA or EC key for signatures with an id")]
    Useless,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

impl KeySet {
    /// Parses a key set (JWKS). Keys of unknown kinds, or for other uses than signatures, are left
    /// out.
    pub(super) fn read(json: &[u8]) -> Result<Self, KeySetError> {
        let Document { keys } = attempt::malformed::from_slice(json)?;
        if keys.len() > MOST_KEYS {
            return Err(KeySetError::TooMany);
        }
        let keys: Vec<_> = keys.into_iter().filter_map(PublicKey::read).collect();
        if keys.is_empty() { Err(KeySetError::Useless) } else { Ok(Self(keys)) }
    }

    /// Finds the public key with this id, if it may be used with this algorithm.
    pub(super) fn find(&self, id: &str, algorithm: Algorithm) -> Option<DecodingKey> {
        let fits = |key: &&PublicKey| key.id == id && key.algorithms.contains(&algorithm);
        self.0.iter().find(fits).map(|key| key.key.clone())
    }
}

impl PublicKey {
    fn read(json: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(json).ok()?;
        let of_kind: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => RSA,
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 => &[Algorithm::ES256],
                EllipticCurve::P384 => &[Algorithm::ES384],
                EllipticCurve::P521 | EllipticCurve::Ed25519 => return None,
            },
            AlgorithmParameters::OctetKey(_) | AlgorithmParameters::OctetKeyPair(_) => return None,
        };
        let says = &jwk.common;
        let is_to_verify = says.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature)
            && says.key_operations.as_ref().is_none_or(|may| may.contains(&KeyOperations::Verify));
        if !is_to_verify {
            return None;
        }
        let only = says.key_algorithm.map(|only| only.to_string());
        let is_meant =
            |algorithm: &Algorithm| only.as_ref().is_none_or(|only| *only == format!("{algorithm:?}"));
        let algorithms = of_kind.iter().copied().filter(is_meant).collect();
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        Some(Self { id: jwk.common.key_id?, algorithms, key })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(keys: &Value) -> Result<KeySet, KeySetError> {
        KeySet::read(json!({ "keys": keys }).to_string().as_bytes())
    }

    fn rsa(members: &Value) -> Value {
        let mut key = json!({"kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB"});
        key.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        key
    }

    #[test]
    fn a_key_is_for_the_algorithms_of_its_kind_or_for_the_one_that_it_names() {
        let any = read(&json!([rsa(&json!({}))])).unwrap();
        assert!(RSA.iter().all(|algorithm| any.find("a", *algorithm).is_some()));
        for other in [Algorithm::ES256, Algorithm::HS256, Algorithm::EdDSA] {
            assert!(any.find("a", other).is_none(), "{other:?}");
        }
        assert!(any.find("b", Algorithm::RS256).is_none());
        let one = read(&json!([rsa(&json!({"alg": "PS256", "use": "sig"}))])).unwrap();
        assert!(one.find("a", Algorithm::PS256).is_some());
        assert!(one.find("a", Algorithm::RS256).is_none());
        let curve = json!({"kty": "EC", "crv": "P-256", "kid": "a", "x": "AQAB", "y": "AQAB"});
        let curve = read(&json!([curve])).unwrap();
        assert!(curve.find("a", Algorithm::ES256).is_some());
        assert!(curve.find("a", Algorithm::ES384).is_none() && curve.find("a", Algorithm::RS256).is_none());
    }

    #[test]
    fn keys_that_check_no_signature_are_left_out() {
        let others = [
            rsa(&json!({"use": "enc"})),
            rsa(&json!({"key_ops": ["encrypt"]})),
            rsa(&json!({"kid": null})),
            json!({"kty": "oct", "kid": "a", "k": "c2VjcmV0"}),
            json!({"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "AQAB"}),
            json!({"kty": "EC", "crv": "secp256k1", "kid": "a", "x": "AQAB", "y": "AQAB"}),
            json!({"kty": "AKP", "kid": "a"}),
            json!("no key"),
        ];
        let error = read(&json!(others)).unwrap_err();
        assert!(matches!(error, KeySetError::Useless), "{error}");
        let mut keys = others.to_vec();
        keys.push(rsa(&json!({"kid": "b"})));
        assert!(read(&json!(keys)).unwrap().find("b", Algorithm::RS256).is_some());
    }

    #[test]
    fn a_set_has_a_bound_and_a_form() {
        let keys = vec![rsa(&json!({})); MOST_KEYS + 1];
        assert!(matches!(read(&json!(keys)), Err(KeySetError::TooMany)));
        assert!(read(&json!(keys[1..])).is_ok());
        for other in ["", "[]", "{}", r#"{"keys": {}}"#, "<html>"] {
            assert!(matches!(KeySet::read(other.as_bytes()), Err(KeySetError::Form(_))), "{other}");
        }
    }
}
