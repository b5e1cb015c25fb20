//! Quotas of teams: how much the pods of each quota use, whether a pod fits into its quota, and how
//! what is not used is shared.
//!
//! [`Books`] has the ElasticQuotas as a tree and follows the pods. Values go in, values come out:
//! there is no clock, no I/O and no plugin here. [`divide`] shares an amount out.

mod amounts;
mod books;
mod choice;
mod claims;
mod node;
mod shares;
mod standing;
mod verdict;

pub use self::amounts::{Amounts, ResourceIx};
pub use self::books::Books;
pub use self::node::{QuotaIx, QuotaView};
pub use self::shares::{Claim, divide};
pub use self::standing::Standing;
pub use self::verdict::{Reading, Refusal, Request, Sums};
