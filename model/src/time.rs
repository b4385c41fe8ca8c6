//! Durations in documents: `1s`, `5m`, `2h 30m`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

/// Writes a duration as people do.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*duration))
}

/// Reads a duration as people write it.
///
/// # Errors
/// When the text is no duration.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map_err(|_| D::Error::custom(format!("`{text}` is not a duration; write one like `30s`, `5m` or `2h`")))
}

/// The same for a duration that may be absent.
pub mod optional {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the duration, or null.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a duration, or nothing.
    ///
    /// # Errors
    /// When there is a text and it is no duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        #[derive(Deserialize)]
        struct Wrapped(#[serde(with = "super")] Duration);
        Ok(Option::<Wrapped>::deserialize(deserializer)?.map(|Wrapped(duration)| duration))
    }
}
