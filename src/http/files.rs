//! Files that are read again when their content changes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// Interval between checks. A check reads the files, because a modification time can repeat, and a
/// Secret volume changes a symbolic link above the files.
const INTERVAL: Duration = Duration::from_secs(5);

/// An error of reading a file.
#[derive(Debug, thiserror::Error)]
#[error("open {}: {error}", file.display())]
pub struct ReadError {
    /// Path of the file.
    pub file: PathBuf,
    /// The reason.
    #[source]
    pub error: io::Error,
}

/// Files and their contents.
#[derive(Clone)]
pub(super) struct Files<const N: usize> {
    paths: [PathBuf; N],
    contents: [Vec<u8>; N],
}

impl<const N: usize> Files<N> {
    /// Reads the files.
    pub(super) fn read(paths: [PathBuf; N]) -> Result<Self, ReadError> {
        let mut contents = [const { Vec::new() }; N];
        for (content, file) in contents.iter_mut().zip(&paths) {
            *content =
                std::fs::read(file).map_err(|error| ReadError { file: file.clone(), error })?;
        }
        Ok(Self { paths, contents })
    }

    /// Returns the paths.
    pub(super) const fn paths(&self) -> &[PathBuf; N] {
        &self.paths
    }

    /// Returns the contents, in the order of the paths.
    pub(super) const fn contents(&self) -> &[Vec<u8>; N] {
        &self.contents
    }

    /// Waits until a content has changed and all files can be read. A file that is missing may be
    /// in the middle of its replacement.
    pub(super) async fn changed(&mut self) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Ok(contents) = self.read_again().await else { continue };
            if contents != self.contents {
                self.contents = contents;
                return;
            }
        }
    }

    async fn read_again(&self) -> io::Result<[Vec<u8>; N]> {
        let mut contents = [const { Vec::new() }; N];
        for (content, file) in contents.iter_mut().zip(&self.paths) {
            *content = tokio::fs::read(file).await?;
        }
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn change_of_each_file_counts_once_all_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        let write = |file: usize, text: &str| std::fs::write(&paths[file], text).unwrap();
        write(0, "1");
        write(1, "1");
        let mut files = Files::read(paths.clone()).unwrap();
        for file in [0, 1] {
            assert!(timeout(INTERVAL * 3, files.changed()).await.is_err(), "no change");
            write(file, "2");
            timeout(INTERVAL * 3, files.changed()).await.unwrap();
        }
        std::fs::remove_file(&paths[1]).unwrap();
        write(0, "3");
        assert!(timeout(INTERVAL * 3, files.changed()).await.is_err(), "a file is missing");
        write(1, "3");
        timeout(INTERVAL * 3, files.changed()).await.unwrap();
        assert_eq!(files.contents(), &[b"3".to_vec(), b"3".to_vec()]);
    }
}
