//! Bearer tokens in files, read as client-go reads them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use kube::client::AuthError;

use crate::clock::Clock;

/// Time after which a file is read again.
const FRESH: Duration = Duration::from_secs(50);

/// A file with a token, which another program may replace.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    last: Mutex<Read>,
}

/// What was read last.
#[derive(Debug)]
struct Read {
    header: HeaderValue,
    since: Clock,
}

impl TokenFile {
    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or holds no token.
    pub(super) fn open(path: &Path) -> Result<Self, kube::Error> {
        let last = Read { header: read(path)?, since: Clock::start() };
        Ok(Self { path: path.to_owned(), last: Mutex::new(last) })
    }

    /// Returns the header with the token. While the file cannot be read, the last token stays in
    /// use.
    pub(super) fn header(&self) -> HeaderValue {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.since.elapsed() >= FRESH {
            if let Ok(header) = read(&self.path) {
                last.header = header;
            }
            last.since = Clock::start();
        }
        last.header.clone()
    }
}

/// Spaces and the end of a line around the token are no part of it.
fn read(path: &Path) -> Result<HeaderValue, kube::Error> {
    let text = fs::read_to_string(path)
        .map_err(|error| kube::Error::Auth(AuthError::ReadTokenFile(error, path.to_owned())))?;
    let token = text.trim();
    if token.is_empty() {
        let text = format!("the token file {} is empty", path.display());
        return Err(kube::Error::Service(text.into()));
    }
    let header = HeaderValue::try_from(format!("Bearer {token}"));
    let mut header =
        header.map_err(|error| kube::Error::Auth(AuthError::InvalidBearerToken(error)))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_around_the_token_is_no_part_of_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in ["abc", "abc\n", " abc\r\n"] {
            fs::write(file.path(), text).unwrap();
            let header = TokenFile::open(file.path()).unwrap().header();
            assert_eq!((header.to_str().unwrap(), header.is_sensitive()), ("Bearer abc", true));
        }
        fs::write(file.path(), "\n").unwrap();
        let error = TokenFile::open(file.path()).unwrap_err().to_string();
        assert!(error.ends_with(" is empty"), "{error}");
        assert!(TokenFile::open(Path::new("/nowhere/token")).is_err());
    }

    #[test]
    fn token_is_read_again_and_stays_while_the_file_is_gone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "old").unwrap();
        let token = TokenFile::open(file.path()).unwrap();
        fs::write(file.path(), "new").unwrap();
        assert_eq!(token.header(), "Bearer old", "it is fresh");
        let stale = || token.last.lock().unwrap().since = Clock::started_before(FRESH);
        stale();
        assert_eq!(token.header(), "Bearer new");
        file.close().unwrap();
        stale();
        assert_eq!(token.header(), "Bearer new");
    }
}
