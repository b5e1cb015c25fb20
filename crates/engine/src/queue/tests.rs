//! The queue as a whole: stories first, then random histories against a naive model.

mod kit;
mod model;
mod story;

pub(crate) use self::kit::profiles;
