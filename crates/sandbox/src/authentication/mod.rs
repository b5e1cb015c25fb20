//! Authentication: tokens of ServiceAccounts and static tokens.

mod token;

pub(crate) use token::service_account;
pub use token::{AUDIENCE, ServiceAccountToken, TokenUser, authenticate_token};

/// The attribute of a user that identifies the credential.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
