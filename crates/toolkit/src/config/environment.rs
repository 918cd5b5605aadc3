//! Settings of the environment.

use std::ffi::OsString;
use std::path::Path;

use cyclometer_core::{ErrorKind, Result};
use cyclometer_monitor::LadderStep;
use cyclometer_sys::host;

use super::keys::{CONFIG_KEYS, WrittenValue, set};
use super::{Config, invalid};

/// The variable that names a file.
const FILE: &str = "CYCLOMETER_CONFIG";

/// The variable of a key: `CYCLOMETER_X86_REQUIRE_ROOT`.
fn variable(path: &str) -> String {
    format!("CYCLOMETER_{}", path.replace('.', "_").to_uppercase())
}

/// Whether the environment may decide anything: not for processes with more rights than their caller.
pub(super) fn is_trusted() -> bool {
    !host::is_privileged()
}

/// Reads the file and the variables that `get` knows.
pub(super) fn load(
    file: Option<&Path>,
    get: impl Fn(&str) -> Option<OsString>,
    trusted: bool,
) -> Result<Config> {
    if !trusted {
        let config = file.map(Config::from_file).transpose()?.unwrap_or_default();
        return Ok(Config { steps: ignored(get), ..config });
    }
    let named = get(FILE).filter(|name| !name.is_empty());
    let file = file.map(Path::to_path_buf).or_else(|| named.map(Into::into));
    let below = file.as_deref().map(Config::from_file).transpose()?.unwrap_or_default();
    Ok(variables(get)?.or(below))
}

fn variables(get: impl Fn(&str) -> Option<OsString>) -> Result<Config> {
    let mut config = Config::default();
    for key in CONFIG_KEYS {
        let name = variable(key.path);
        let Some(text) = get(&name) else { continue };
        let text = text.to_string_lossy().into_owned();
        let given = match key.is_list() {
            true => WrittenValue::List(text.split(',').map(|item| item.trim().to_owned()).collect()),
            false => WrittenValue::Word { text: text.trim().to_owned(), quoted: false },
        };
        set(&mut config, key.path, &given)
            .map_err(|e| invalid(format!("the variable {name}: {e}"), "correct the variable, or unset it"))?;
    }
    Ok(config)
}

/// A step for each variable that is ignored.
fn ignored(get: impl Fn(&str) -> Option<OsString>) -> Vec<LadderStep> {
    let names = CONFIG_KEYS.iter().map(|key| variable(key.path)).chain([FILE.to_owned()]);
    let step = |name: String| {
        let reason =
            "the environment of a program with more rights than its caller decides nothing".to_owned();
        LadderStep::refused(
            None,
            format!("the variable {name}"),
            (ErrorKind::PermissionDenied, reason),
            "ignored",
        )
    };
    names.filter(|name| get(name).is_some()).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
    }

    #[test]
    fn every_key_has_a_variable() {
        let config = load(
            None,
            env(&[
                ("CYCLOMETER_SAMPLING_INTERVAL_MS", "25"),
                ("CYCLOMETER_BUFFER_SIZE", "7"),
                ("CYCLOMETER_MAX_COUNTERS", "3"),
                ("CYCLOMETER_APPLE_SILICON_KERNEL_PATCH_REQUIRED", "false"),
                ("CYCLOMETER_APPLE_SILICON_MAX_MONITOR_DURATION_US", "50"),
                ("CYCLOMETER_APPLE_SILICON_SUPPORTED_CHIPS", "M1, M2 Pro/Max"),
                ("CYCLOMETER_X86_REQUIRE_ROOT", "true"),
                ("CYCLOMETER_X86_PCE_FLAG_CHECK", "false"),
                ("CYCLOMETER_X86_SUPPORTED_VENDORS", "Intel"),
            ]),
            true,
        )
        .unwrap();
        assert_eq!(
            (config.sampling_interval_ms, config.buffer_size, config.max_counters),
            (Some(25), Some(7), Some(3))
        );
        let (apple, x86) = (config.apple_silicon, config.x86);
        assert_eq!((apple.kernel_patch_required, apple.max_monitor_duration_us), (Some(false), Some(50)));
        assert_eq!(apple.supported_chips.unwrap(), ["M1", "M2 Pro/Max"]);
        assert_eq!((x86.require_root, x86.pce_flag_check), (Some(true), Some(false)));
        assert_eq!(x86.supported_vendors.unwrap(), ["Intel"]);
    }

    #[test]
    fn a_variable_that_makes_no_sense_is_an_error_that_names_it() {
        let error = load(None, env(&[("CYCLOMETER_BUFFER_SIZE", "many")]), true).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the variable CYCLOMETER_BUFFER_SIZE: buffer_size takes an integer from 1 to 1048576, and not many"
        );
    }

    #[test]
    fn for_root_the_environment_decides_nothing_and_that_is_told() {
        let config = load(
            None,
            env(&[("CYCLOMETER_CONFIG", "/no/such/file"), ("CYCLOMETER_BUFFER_SIZE", "many")]),
            false,
        )
        .unwrap();
        assert_eq!(config.buffer_size, None);
        let told: Vec<&str> = config.steps.iter().map(|step| step.tried.as_str()).collect();
        assert_eq!(told, ["the variable CYCLOMETER_BUFFER_SIZE", "the variable CYCLOMETER_CONFIG"]);
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error_that_names_it() {
        let error = load(None, env(&[("CYCLOMETER_CONFIG", "/no/such/file")]), true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("/no/such/file"), "{error}");
    }
}
