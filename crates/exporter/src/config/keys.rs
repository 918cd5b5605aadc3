//! The keys of the configuration file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bcrypt::HashParts;
use glob::Pattern;

use super::tree::{PlacedValue, YamlContent, YamlEntry};
use super::{
    CgroupRules, ConfigError, ExporterConfig, GROUP_EVENTS, Limits, ProcessFinder, ProcessRule, TlsFiles,
};

/// A value with the path of its key.
struct KeyedValue<'a> {
    path: String,
    value: &'a PlacedValue,
}

type KeyResult<T> = Result<T, ConfigError>;

/// Reads the whole tree.
pub(super) fn read(root: &PlacedValue) -> KeyResult<ExporterConfig> {
    let root = KeyedValue { path: String::new(), value: root };
    let mut config = ExporterConfig::default();
    const KEYS: &[&str] = &[
        "listen",
        "max_age_ms",
        "deadline_ms",
        "rescan_seconds",
        "limits",
        "machine",
        "cgroups",
        "processes",
        "tls",
        "users",
    ];
    for (key, value) in root.entries(KEYS)? {
        match key {
            "listen" => config.listen = value.address()?,
            "max_age_ms" => config.max_age = Duration::from_millis(value.integer(0, 60_000)?),
            "deadline_ms" => config.deadline = Duration::from_millis(value.integer(10, 60_000)?),
            "rescan_seconds" => config.rescan = Duration::from_secs(value.integer(1, 3_600)?),
            "limits" => config.limits = limits(&value, config.limits)?,
            "machine" => {
                for (_, value) in value.entries(&["events"])? {
                    config.machine_events = value.events()?;
                }
            }
            "cgroups" => config.cgroups = cgroups(&value, config.cgroups)?,
            "processes" => config.processes = processes(&value)?,
            "tls" => config.tls = Some(tls(&value)?),
            _ => {
                for entry in value.mapping()? {
                    config.users.insert(entry.key.clone(), password_hash(entry, &value.below(entry))?);
                }
            }
        }
    }
    Ok(config)
}

/// The bcrypt hash of a user's password.
fn password_hash(entry: &YamlEntry, value: &KeyedValue<'_>) -> KeyResult<String> {
    if entry.key.is_empty() || entry.key.contains(':') {
        let message =
            "a user's name in the key users is not empty and has no ':', which ends it in a request";
        return Err(ConfigError { line: entry.line, column: entry.column, message: message.to_owned() });
    }
    let hash = value.word()?;
    let parts: HashParts =
        hash.parse().map_err(|_| value.wrong("takes a bcrypt hash, as `htpasswd -nB USER` prints"))?;
    match parts.get_cost() {
        4..=16 => Ok(hash.to_owned()),
        cost => Err(value.wrong(&format!(
            "takes a bcrypt hash of cost 4 to 16, and not {cost}: each check would take too long; \
             make another with `htpasswd -nB -C 12 USER`"
        ))),
    }
}

fn limits(value: &KeyedValue<'_>, mut limits: Limits) -> KeyResult<Limits> {
    for (key, value) in value.entries(&["descriptors", "series", "connections"])? {
        let number = value.integer(if key == "descriptors" { 0 } else { 1 }, 10_000_000)?;
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        match key {
            "descriptors" => limits.descriptors = Some(number),
            "series" => limits.series = number,
            _ => limits.connections = number,
        }
    }
    Ok(limits)
}

fn cgroups(value: &KeyedValue<'_>, mut rules: CgroupRules) -> KeyResult<CgroupRules> {
    for (key, value) in value.entries(&["events", "include", "exclude", "root"])? {
        match key {
            "events" => rules.events = value.events()?,
            "include" => rules.include = value.patterns()?,
            "exclude" => rules.exclude = value.patterns()?,
            _ => rules.root = Some(PathBuf::from(value.word()?)),
        }
    }
    Ok(rules)
}

fn processes(value: &KeyedValue<'_>) -> KeyResult<Vec<ProcessRule>> {
    value.list()?.iter().map(process).collect()
}

fn process(value: &KeyedValue<'_>) -> KeyResult<ProcessRule> {
    let (mut name, mut finder, mut events) = (None, None, GROUP_EVENTS.to_owned());
    for (key, value) in value.entries(&["name", "pid", "pid_file", "comm", "events"])? {
        let found = match key {
            "name" => {
                name = Some(value.word()?.to_owned());
                continue;
            }
            "events" => {
                events = value.events()?;
                continue;
            }
            "pid" => ProcessFinder::Pid(u32::try_from(value.integer(1, 1 << 22)?).unwrap_or(u32::MAX)),
            "pid_file" => ProcessFinder::PidFile(PathBuf::from(value.word()?)),
            _ => ProcessFinder::Comm(value.word()?.to_owned()),
        };
        if finder.replace(found).is_some() {
            return Err(
                value.wrong("is a second way to find the process: give one of pid, pid_file and comm")
            );
        }
    }
    match (name, finder) {
        (Some(name), Some(finder)) => Ok(ProcessRule { name, finder, events }),
        (None, _) => Err(value.wrong("lacks the key name")),
        (_, None) => Err(value.wrong("lacks one of the keys pid, pid_file and comm")),
    }
}

fn tls(value: &KeyedValue<'_>) -> KeyResult<TlsFiles> {
    let (mut certificate, mut key_file) = (None, None);
    for (key, value) in value.entries(&["certificate", "key"])? {
        let file = Some(PathBuf::from(value.word()?));
        if key == "key" { key_file = file } else { certificate = file }
    }
    match (certificate, key_file) {
        (Some(certificate), Some(key)) => Ok(TlsFiles { certificate, key }),
        _ => Err(value.wrong("takes both keys, certificate and key")),
    }
}

impl<'a> KeyedValue<'a> {
    fn below(&self, entry: &'a YamlEntry) -> KeyedValue<'a> {
        let path = match self.path.as_str() {
            "" => entry.key.clone(),
            path => format!("{path}.{}", entry.key),
        };
        KeyedValue { path, value: &entry.value }
    }

    fn wrong(&self, message: &str) -> ConfigError {
        let path = self.path.escape_debug();
        let message = if self.path.is_empty() { message.to_owned() } else { format!("{path} {message}") };
        ConfigError { line: self.value.line, column: self.value.column, message }
    }

    fn wrong_value(&self, wanted: &str) -> ConfigError {
        let given = match &self.value.content {
            _ if self.value.is_empty() => "nothing".to_owned(),
            YamlContent::Word { text, .. } => text.escape_debug().to_string(),
            YamlContent::List(_) => "a list".to_owned(),
            YamlContent::Mapping(_) => "a mapping".to_owned(),
        };
        self.wrong(&format!("takes {wanted}, and not {given}"))
    }

    fn mapping(&self) -> KeyResult<&'a [YamlEntry]> {
        match &self.value.content {
            YamlContent::Mapping(entries) => Ok(entries),
            _ if self.value.is_empty() => Ok(&[]),
            _ if self.path.is_empty() => Err(self.wrong("here must be a mapping of keys")),
            _ => Err(self.wrong_value("a mapping")),
        }
    }

    /// The entries of a mapping that has no other keys.
    fn entries(&self, known: &[&'static str]) -> KeyResult<Vec<(&'static str, KeyedValue<'a>)>> {
        let entry = |entry: &'a YamlEntry| match known.iter().find(|key| **key == entry.key) {
            Some(key) => Ok((*key, self.below(entry))),
            None => {
                let (path, there) = (self.below(entry).path, known.join(", "));
                let message = format!("there is no key '{}'; there are {there}", path.escape_debug());
                Err(ConfigError { line: entry.line, column: entry.column, message })
            }
        };
        self.mapping()?.iter().map(entry).collect()
    }

    fn list(&self) -> KeyResult<Vec<KeyedValue<'a>>> {
        let YamlContent::List(items) = &self.value.content else { return Err(self.wrong_value("a list")) };
        let item = |(i, value)| KeyedValue { path: format!("{}[{i}]", self.path), value };
        Ok(items.iter().enumerate().map(item).collect())
    }

    fn word(&self) -> KeyResult<&'a str> {
        match &self.value.content {
            YamlContent::Word { text, .. } if !self.value.is_empty() => Ok(text),
            _ => Err(self.wrong_value("a word")),
        }
    }

    fn integer(&self, least: u64, most: u64) -> KeyResult<u64> {
        let number = match &self.value.content {
            YamlContent::Word { text, quoted: false } => text.parse().ok(),
            _ => None,
        };
        let in_range = number.filter(|number| (least..=most).contains(number));
        in_range.ok_or_else(|| self.wrong_value(&format!("an integer from {least} to {most}")))
    }

    fn address(&self) -> KeyResult<SocketAddr> {
        self.word()?.parse().map_err(|_| self.wrong_value("an address with a port, such as 127.0.0.1:9753"))
    }

    /// A list of events: one text in the grammar of `cyclometer stat -e`, or a list of such texts.
    fn events(&self) -> KeyResult<String> {
        match &self.value.content {
            YamlContent::List(_) => {
                let words = self.list()?.iter().map(KeyedValue::word).collect::<KeyResult<Vec<_>>>()?;
                Ok(words.join(","))
            }
            _ => self.word().map(str::to_owned),
        }
    }

    fn patterns(&self) -> KeyResult<Vec<Pattern>> {
        let pattern = |item: &KeyedValue<'_>| {
            Pattern::new(item.word()?.trim_start_matches('/'))
                .map_err(|error| item.wrong(&format!("is no pattern: {}", error.msg)))
        };
        self.list()?.iter().map(pattern).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;

    const WHOLE: &str = "
listen: 0.0.0.0:9000
max_age_ms: 250
deadline_ms: 2000
rescan_seconds: 30
limits: {descriptors: 4096, series: 5000, connections: 64}
machine:
  events: cycles,instructions
cgroups:
  events: [task-clock, '{cycles,instructions}']
  include: ['/kubepods*/**', system.slice/*]
  exclude: ['**/*.mount']
  root: /sys/fs/cgroup
processes:
  - name: database
    comm: postgres
  - {name: proxy, pid_file: /run/proxy.pid, events: page-faults}
tls: {certificate: /etc/c.pem, key: /etc/k.pem}
users:
  prometheus: $2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay
";

    #[test]
    fn the_whole_configuration_is_read() {
        let config = ExporterConfig::parse(WHOLE).unwrap();
        assert_eq!(config.listen.to_string(), "0.0.0.0:9000");
        assert_eq!((config.max_age.as_millis(), config.rescan.as_secs()), (250, 30));
        let limits = Limits { descriptors: Some(4096), series: 5000, connections: 64 };
        assert_eq!((config.limits, config.machine_events.as_str()), (limits, "cycles,instructions"));
        assert_eq!(config.cgroups.events, "task-clock,{cycles,instructions}");
        let include: Vec<_> = config.cgroups.include.iter().map(Pattern::as_str).collect();
        assert_eq!(include, ["kubepods*/**", "system.slice/*"]);
        assert_eq!(config.processes[0].finder, ProcessFinder::Comm("postgres".into()));
        assert_eq!(config.processes[0].events, GROUP_EVENTS);
        assert_eq!(config.processes[1].events, "page-faults");
        assert!(config.tls.is_some() && config.users.contains_key("prometheus"));
    }

    #[test]
    fn nothing_is_a_configuration_too_and_listens_on_loopback() {
        for text in ["", "# nothing\n", "---\n", "~"] {
            let config = ExporterConfig::parse(text).unwrap();
            assert_eq!(config, ExporterConfig::default(), "{text:?}");
            assert!(config.listen.ip().is_loopback());
        }
    }

    #[test]
    fn mistakes_are_named_with_line_and_key() {
        let cases = [
            ("lisen: 1", "line 1, column 1: there is no key 'lisen'; there are listen, max_age_ms"),
            (
                "limits:\n  serie: 3",
                "line 2, column 3: there is no key 'limits.serie'; there are descriptors, series",
            ),
            (
                "limits:\n  series: many",
                "line 2, column 11: limits.series takes an integer from 1 to 10000000, and not many",
            ),
            ("limits: [1]", "line 1, column 9: limits takes a mapping, and not a list"),
            (
                "rescan_seconds: 0",
                "line 1, column 17: rescan_seconds takes an integer from 1 to 3600, and not 0",
            ),
            ("rescan_seconds: '9'", "rescan_seconds takes an integer"),
            (
                "listen: 9753",
                "line 1, column 9: listen takes an address with a port, such as 127.0.0.1:9753, and not 9753",
            ),
            ("cgroups:\n  include: a", "line 2, column 12: cgroups.include takes a list, and not a"),
            ("cgroups:\n  include: ['a/***']", "line 2, column 13: cgroups.include[0] is no pattern"),
            ("cgroups:\n  events:\n", "cgroups.events takes a word, and not nothing"),
            (
                "processes:\n- name: a",
                "line 2, column 3: processes[0] lacks one of the keys pid, pid_file and comm",
            ),
            ("processes:\n- pid: 1", "processes[0] lacks the key name"),
            (
                "processes:\n- {name: a, pid: 1, comm: b}",
                "processes[0].comm is a second way to find the process: give one of pid, pid_file and comm",
            ),
            ("tls: {key: a}", "line 1, column 6: tls takes both keys, certificate and key"),
            ("users:\n  a: secret", "line 2, column 6: users.a takes a bcrypt hash"),
            (
                "users:\n  a: $2b$31$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay",
                "line 2, column 6: users.a takes a bcrypt hash of cost 4 to 16, and not 31",
            ),
            (
                "users:\n  a: $2b$12$hNf2lSsxfm0.i4a!1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay",
                "line 2, column 6: users.a takes a bcrypt hash, as",
            ),
            (
                "users:\n  'a:b': $2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay",
                "line 2, column 3: a user's name in the key users is not empty and has no ':'",
            ),
            ("users:\n  a: x\n  a: y", "line 3, column 3: the key 'a' is there twice"),
            ("- a", "line 1, column 1: here must be a mapping of keys"),
            ("listen: [1", "this is no YAML"),
            ("listen: &a 1\nmax_age_ms: *a", "aliases are not read here"),
            ("---\nlisten: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2", "a second document"),
        ];
        for (text, expected) in cases {
            let error = ExporterConfig::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn no_prefix_of_a_file_panics_and_depth_is_bounded() {
        for end in (0..WHOLE.len()).filter(|end| WHOLE.is_char_boundary(*end)) {
            let _ = ExporterConfig::parse(&WHOLE[..end]);
        }
        let deep = format!("limits: {}1{}", "[".repeat(200), "]".repeat(200));
        assert!(ExporterConfig::parse(&deep).unwrap_err().message.contains("nested too deeply"));
    }
}
