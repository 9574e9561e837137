//! Cryptography for `jsonwebtoken`, by `ring`, which TLS uses already. Algorithms with a shared
//! secret are left out, so that no token can use a public key as such a secret.

use jsonwebtoken::crypto::{CryptoProvider, JwkUtils, JwtSigner, JwtVerifier};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, EcdsaVerificationAlgorithm, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey,
};

/// Signature algorithms that are accepted: RSA and elliptic curves. A public key may be used with
/// all algorithms of its kind, unless the key set names a single one for the key.
pub(super) const ALGORITHMS: [Algorithm; 8] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
];

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    // Of keys to sign with, which there are none of.
    jwk_utils: JwkUtils::new_unimplemented(),
};

/// Makes `jsonwebtoken` use the algorithms of this module. It must be called before a token is
/// verified.
pub(super) fn install() {
    // A second call finds the same one.
    let _: Result<(), &CryptoProvider> = PROVIDER.install_default();
}

fn signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::Provider("tokens are checked here, and not made".to_owned()).into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    match Check::of(*algorithm) {
        Some(check) if key.family() == algorithm.family() => {
            Ok(Box::new(Signed { algorithm: *algorithm, check, key: key.clone() }))
        }
        Some(_) => Err(ErrorKind::InvalidKeyFormat.into()),
        None => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

/// Algorithm of `ring` that verifies a signature.
#[derive(Clone, Copy)]
enum Check {
    Rsa(&'static RsaParameters),
    Ec(&'static EcdsaVerificationAlgorithm),
}

impl Check {
    fn of(algorithm: Algorithm) -> Option<Self> {
        match algorithm {
            Algorithm::RS256 => Some(Self::Rsa(&RSA_PKCS1_2048_8192_SHA256)),
            Algorithm::RS384 => Some(Self::Rsa(&RSA_PKCS1_2048_8192_SHA384)),
            Algorithm::RS512 => Some(Self::Rsa(&RSA_PKCS1_2048_8192_SHA512)),
            Algorithm::PS256 => Some(Self::Rsa(&RSA_PSS_2048_8192_SHA256)),
            Algorithm::PS384 => Some(Self::Rsa(&RSA_PSS_2048_8192_SHA384)),
            Algorithm::PS512 => Some(Self::Rsa(&RSA_PSS_2048_8192_SHA512)),
            Algorithm::ES256 => Some(Self::Ec(&ECDSA_P256_SHA256_FIXED)),
            Algorithm::ES384 => Some(Self::Ec(&ECDSA_P384_SHA384_FIXED)),
            Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 | Algorithm::EdDSA => None,
        }
    }
}

/// Verifier of signatures with one key and one algorithm.
struct Signed {
    algorithm: Algorithm,
    check: Check,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for Signed {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), SignatureError> {
        let checked = match (self.check, self.key.kind()) {
            (Check::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Check::Ec(algorithm), DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(algorithm, point).verify(message, signature)
            }
            _ => return Err(SignatureError::new()),
        };
        checked.map_err(|_| SignatureError::new())
    }
}

impl JwtVerifier for Signed {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_that_is_allowed_can_be_checked() {
        for algorithm in ALGORITHMS {
            assert!(Check::of(algorithm).is_some(), "{algorithm:?}");
        }
    }
}
