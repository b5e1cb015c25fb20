//! The version of Kubernetes that is followed, and what chose it.

use std::time::Duration;

use framework::Level;
use serde_json::{Value, json};
use thiserror::Error;
use tracing::{info, warn};

use crate::api_client::{ApiClient, Version, VersionError};
use crate::config::Gates;

/// Time that the API server gets to tell its version, before the scheduler starts without it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Delay between two requests for the version.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The level that is followed, and what chose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// The level.
    pub level: Level,
    /// What chose the level.
    pub chosen_by: ChosenBy,
}

/// What chose the level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChosenBy {
    /// `--emulated-version`.
    Flag,
    /// The API server, which runs this version.
    Server(String),
    /// No API server told its version, so that it is the default level; the text says why.
    Default(String),
}

/// The level was chosen without the API server, which chooses another one.
#[derive(Debug, Error)]
#[error(
    "{server} runs Kubernetes {version}, and level {} was followed because {reason}: starting again at level {}",
    Level::default(),
    followed.level
)]
pub struct OtherLevel {
    server: String,
    version: String,
    reason: String,
    /// The level that the server chooses.
    pub followed: Followed,
}

/// The default level, chosen without an API server.
impl Default for Followed {
    fn default() -> Self {
        let chosen_by = ChosenBy::Default("no API server was asked".to_owned());
        Self { level: Level::default(), chosen_by }
    }
}

impl Followed {
    /// Returns the level of `--emulated-version`.
    pub const fn by_flag(level: Level) -> Self {
        Self { level, chosen_by: ChosenBy::Flag }
    }

    fn by_server(version: &Version) -> Self {
        let chosen_by = ChosenBy::Server(version.git_version.clone());
        match version.minor() {
            Some(minor) => Self { level: Level::of_server(minor), chosen_by },
            None => Self::by_default(format!(
                "the API server tells no minor version: {}",
                version.git_version
            )),
        }
    }

    fn by_default(reason: String) -> Self {
        Self { level: Level::default(), chosen_by: ChosenBy::Default(reason) }
    }

    /// Returns the level that the API server chooses. If the server cannot be asked within a few
    /// seconds, it is the default level, which is compared with the server once that answers.
    pub async fn ask(client: &ApiClient) -> Self {
        let asking = async {
            loop {
                match client.version().await {
                    Ok(version) => return Self::by_server(&version),
                    Err(error @ VersionError::Withheld(_)) => {
                        return Self::by_default(error.to_string());
                    }
                    // What is wrong is reported when the scheduler connects.
                    Err(error) if error.is_final() => return Self::by_default(error.to_string()),
                    Err(_) => tokio::time::sleep(RETRY_DELAY).await,
                }
            }
        };
        let asked = tokio::time::timeout(PATIENCE, asking).await;
        asked.unwrap_or_else(|_| {
            let seconds = PATIENCE.as_secs();
            Self::by_default(format!("the API server did not answer within {seconds} s"))
        })
    }

    /// Logs the level, and what chose it.
    pub fn log(&self) {
        let level = self.level.to_string();
        match &self.chosen_by {
            ChosenBy::Flag => info!(level, "Following the version of --emulated-version"),
            ChosenBy::Server(version) => {
                info!(level, version, "Following the version of the API server");
            }
            ChosenBy::Default(reason) => {
                warn!(level, reason, "Following the default version");
            }
        }
        if self.level.is_preview() {
            warn!(
                level,
                "Kubernetes {level} is not released: its level is a preview and may change"
            );
        }
    }

    /// Returns the level as `/configz` shows it.
    pub fn to_value(&self, gates: &Gates) -> Value {
        let chosen_by = match &self.chosen_by {
            ChosenBy::Flag => "--emulated-version".to_owned(),
            ChosenBy::Server(version) => format!("the API server, which runs {version}"),
            ChosenBy::Default(reason) => format!("the default: {reason}"),
        };
        json!({
            "emulatedVersion": self.level.to_string(),
            "minCompatibilityVersion": format!("1.{}", gates.min_compatibility()),
            "preview": self.level.is_preview(),
            "chosenBy": chosen_by,
        })
    }

    /// Compares the level with the version of the API server, and warns if they do not go together.
    ///
    /// # Errors
    /// The level was chosen without the server, which chooses another one.
    pub(super) fn compare(&self, server: &str, version: &Version) -> Result<(), OtherLevel> {
        let Some(minor) = version.minor() else { return Ok(()) };
        let (level, git_version) = (self.level, &version.git_version);
        let by_server = Level::of_server(minor);
        if let ChosenBy::Default(reason) = &self.chosen_by
            && by_server != level
        {
            return Err(OtherLevel {
                server: server.to_owned(),
                version: git_version.clone(),
                reason: reason.clone(),
                followed: Self::by_server(version),
            });
        }
        let newest = Level::ALL[Level::ALL.len() - 1];
        if minor > newest.minor() {
            warn!(
                server,
                version = git_version,
                "The API server is newer than every version that Loadmaster knows; following {level}"
            );
        } else if level == Level::ALL[0] && minor < level.minor() {
            warn!(
                server,
                version = git_version,
                "The API server is older than every version that Loadmaster follows; following {level}, \
                 the oldest one"
            );
        } else if level.minor() > minor {
            warn!(
                server,
                version = git_version,
                "The scheduler follows Kubernetes {level}, which is newer than the API server; a scheduler \
                 must not be newer, so use --emulated-version={by_server}, or omit the flag"
            );
        } else if level.minor() < minor {
            info!(
                server,
                version = git_version,
                "The scheduler follows Kubernetes {level}, which is older than the API server"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::Capture;

    fn version(text: &str) -> Version {
        let minor = text.split('.').nth(1).unwrap();
        let version = json!({"major": "1", "minor": minor, "gitVersion": text});
        serde_json::from_value(version).unwrap()
    }

    #[test]
    fn server_chooses_the_nearest_released_level() {
        let rows = [
            ("v1.33.4", Level::V1_36),
            ("v1.36.2", Level::V1_36),
            ("v1.37.0", Level::V1_37),
            ("v1.38.0-alpha.2", Level::V1_37),
            ("v1.45.0", Level::V1_37),
        ];
        for (text, level) in rows {
            let followed = Followed::by_server(&version(text));
            assert_eq!(followed, Followed { level, chosen_by: ChosenBy::Server(text.to_owned()) });
        }
    }

    #[test]
    fn configz_says_what_chose_the_level() {
        let shown = |followed: &Followed| followed.to_value(&Gates::at(followed.level));
        let by_server = shown(&Followed::by_server(&version("v1.36.2")));
        let expected = json!({
            "emulatedVersion": "1.36", "minCompatibilityVersion": "1.35", "preview": false,
            "chosenBy": "the API server, which runs v1.36.2",
        });
        assert_eq!(by_server, expected);
        let by_flag = shown(&Followed::by_flag(Level::V1_38));
        assert_eq!(
            (&by_flag["chosenBy"], &by_flag["preview"]),
            (&json!("--emulated-version"), &json!(true))
        );
    }

    #[test]
    fn default_level_gives_way_to_the_level_of_the_server() {
        let unasked = Followed::by_default("the API server did not answer within 5 s".to_owned());
        let error = unasked.compare("s", &version("v1.36.2")).unwrap_err();
        assert_eq!(error.followed, Followed::by_server(&version("v1.36.2")));
        let expected = "s runs Kubernetes v1.36.2, and level 1.37 was followed because the API server did not \
             answer within 5 s: starting again at level 1.36";
        assert_eq!(error.to_string(), expected);
        assert!(unasked.compare("s", &version("v1.37.3")).is_ok());
    }

    #[test]
    fn level_and_server_that_do_not_go_together_are_logged() {
        let rows = [
            (Level::V1_37, "v1.36.2", "must not be newer, so use --emulated-version=1.36"),
            (
                Level::V1_36,
                "v1.37.1",
                "follows Kubernetes 1.36, which is older than the API server",
            ),
            (
                Level::V1_36,
                "v1.33.1",
                "older than every version that Loadmaster follows; following 1.36, the oldest one",
            ),
            (
                Level::V1_37,
                "v1.41.0",
                "newer than every version that Loadmaster knows; following 1.37",
            ),
        ];
        for (level, text, expected) in rows {
            let capture = Capture::start();
            Followed::by_flag(level).compare("s", &version(text)).unwrap();
            assert!(capture.text().contains(expected), "{}", capture.text());
        }
        let capture = Capture::start();
        Followed::by_flag(Level::V1_36).compare("s", &version("v1.36.9")).unwrap();
        assert_eq!(capture.text(), "");
    }
}
