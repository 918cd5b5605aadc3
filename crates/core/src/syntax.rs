//! The grammar of event lists: perf's, with `event@counter` for a pinned counter.
//!
//! ```text
//! list   = item { "," item }
//! item   = "{" event { "," event } "}" [ ":" modifiers ]  |  event
//! event  = ( name | "r" hex | pmu "/" [ term { "," term } ] "/" ) [ ":" ] [ modifiers ] [ "@" counter ]
//! name   = [ pmu "::" ] event { ":" ( unit-mask | attribute [ "=" number ] ) }
//! term   = name [ "=" ( number | name | "'" text "'" ) ]
//! ```
//!
//! After `pmu::`, libpfm4's grammar applies: there `e`, `i`, `t`, `c=N` are edge, inversion, any thread and
//! counter mask.
//!
//! # Source
//!
//! `perf-list(1)`; `perf-stat(1)`, option `-e`; `libpfm(3)`, "EVENT STRINGS"; `libpfm_intel_skl(3)`,
//! "MODIFIERS".

use crate::error::{Error, ErrorKind, Recovery, Result};
use crate::modes::{Modes, ModifierError, Modifiers};

/// Longest event list that is read, in bytes.
pub const MAX_LIST_BYTES: usize = 64 * 1024;

/// One event as typed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventRequest {
    /// The event's name as typed, without modifiers and pin.
    pub text: String,
    /// The display name that replaces it: the term `name=`.
    pub label: Option<String>,
    /// The selector.
    pub selector: Selector,
    /// The attributes of its name: `inv`, `cmask=2`, `ldlat=32`.
    pub attributes: Vec<Term>,
    /// Its modifiers, including those of its group.
    pub modifiers: Modifiers,
    /// Number of its `{group}` in the list, from 0.
    pub group: Option<u32>,
    /// The counter that it is pinned to.
    pub pin: Option<u8>,
}

impl EventRequest {
    /// An event of exactly this name, without attributes.
    pub fn named(name: &str) -> EventRequest {
        EventRequest {
            text: name.to_owned(),
            label: None,
            selector: Selector::Name(name.to_owned()),
            attributes: Vec::new(),
            modifiers: Modifiers::default(),
            group: None,
            pin: None,
        }
    }
}

/// The notation of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selector {
    /// By a name.
    Name(String),
    /// By a raw code of the core PMU: `r1c5`.
    Raw(u64),
    /// By a device and terms: `cpu/event=0xc5,umask=1/`, `msr/tsc/`.
    Pmu {
        /// The device.
        pmu: String,
        /// The terms, in order.
        terms: Vec<Term>,
    },
}

/// One term of a `pmu/…/` event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// Field or event name.
    pub name: String,
    /// Its value; `None` for a bare name.
    pub value: Option<u64>,
}

/// Parses a comma-separated list of events and groups.
///
/// # Errors
///
/// `ErrorKind::InvalidInput`, naming the part that is no event.
pub fn parse_events(list: &str) -> Result<Vec<EventRequest>> {
    if list.len() > MAX_LIST_BYTES {
        return Err(invalid(
            format!("the event list is {} bytes long", list.len()),
            "name fewer events at once",
        ));
    }
    let mut requests = Vec::new();
    let mut groups = 0;
    for item in split_outside(list)? {
        let item = item.trim();
        if item.is_empty() {
            return Err(invalid(
                format!("an event is missing in '{}'", shown(list)),
                "write at least one event, as in -e cycles,instructions",
            ));
        }
        match item.strip_prefix('{') {
            Some(rest) => {
                requests.extend(parse_group(rest, item, groups)?);
                groups += 1;
            }
            None => requests.push(parse_event(item)?),
        }
    }
    Ok(requests)
}

fn parse_group(rest: &str, item: &str, number: u32) -> Result<Vec<EventRequest>> {
    let (inner, tail) = rest.rsplit_once('}').ok_or_else(|| {
        invalid(format!("the group '{}' has no closing brace", shown(item)), "close it with }")
    })?;
    let outer = match tail.strip_prefix(':') {
        Some(letters) => modifiers(letters, item)?,
        None if tail.is_empty() => Modifiers::default(),
        None => {
            let hint = "only :modifiers may follow a group";
            return Err(invalid(format!("'{}' behind the group '{}'", shown(tail), shown(item)), hint));
        }
    };
    let mut members = Vec::new();
    for part in split_outside(inner)? {
        if part.trim().is_empty() || part.contains('{') {
            return Err(invalid(
                format!("the group '{}' is empty, nested or lacks an event", shown(item)),
                "write events inside the braces, as in {cycles,instructions}",
            ));
        }
        let mut event = parse_event(part.trim())?;
        event.modifiers = event.modifiers.with(outer).map_err(|error| no_modifiers(error, item))?;
        event.group = Some(number);
        members.push(event);
    }
    Ok(members)
}

/// Parses one event, without groups.
///
/// # Errors
///
/// `ErrorKind::InvalidInput`, naming the error in the text.
pub fn parse_event(text: &str) -> Result<EventRequest> {
    let (body, pin) = split_pin(text)?;
    let UnpinnedEvent { selector, name, label, attributes, modifiers } = match body.find('/') {
        Some(slash) => parse_pmu(body, slash)?,
        None => parse_plain(body)?,
    };
    // Quoted text may contain blanks.
    let is_shown = |c: char| !c.is_control() && (!c.is_whitespace() || name.contains('\''));
    if name.is_empty() || !name.chars().all(is_shown) {
        return Err(invalid(format!("'{}' is no event name", shown(text)), "`cyclometer list` shows names"));
    }
    Ok(EventRequest { text: name, label, selector, attributes, modifiers, group: None, pin })
}

/// An event without its pin.
struct UnpinnedEvent {
    selector: Selector,
    name: String,
    label: Option<String>,
    attributes: Vec<Term>,
    modifiers: Modifiers,
}

fn split_pin(text: &str) -> Result<(&str, Option<u8>)> {
    match text.rsplit_once('@') {
        None => Ok((text, None)),
        // A slash after the `@` means that the `@` belongs to a name between slashes.
        Some((_, behind)) if behind.contains('/') => Ok((text, None)),
        Some((body, counter)) => match counter.parse::<u8>() {
            Ok(counter) if counter < 64 => Ok((body, Some(counter))),
            _ => Err(invalid(
                format!("'{}' pins an event to '{}', which is no counter", shown(text), shown(counter)),
                "write a counter number from 0 to 63 behind @",
            )),
        },
    }
}

fn parse_pmu(body: &str, slash: usize) -> Result<UnpinnedEvent> {
    let close = body.rfind('/').filter(|close| *close > slash).ok_or_else(|| {
        invalid(format!("'{}' has no closing slash", shown(body)), "write pmu/term=value,…/")
    })?;
    let letters = &body[close + 1..];
    let letters = letters.strip_prefix(':').unwrap_or(letters);
    let Terms { of_pmu, label } = Terms::parse(&body[slash + 1..close], body)?;
    Ok(UnpinnedEvent {
        selector: Selector::Pmu { pmu: body[..slash].to_owned(), terms: of_pmu },
        name: body[..=close].to_owned(),
        label,
        attributes: Vec::new(),
        modifiers: modifiers(letters, body)?,
    })
}

/// The terms between slashes.
#[derive(Default)]
struct Terms {
    /// The terms that select the event.
    of_pmu: Vec<Term>,
    /// The value of `name=`.
    label: Option<String>,
}

impl Terms {
    fn parse(text: &str, body: &str) -> Result<Terms> {
        let mut terms = Terms::default();
        for term in split_terms(text).into_iter().map(str::trim).filter(|term| !term.is_empty()) {
            terms.add(term, body)?;
        }
        Ok(terms)
    }

    /// # Source
    ///
    /// `perf-record(1)`, option `-e`, on `name`, `period`, `percore` and terms of sampling; Linux
    /// `tools/perf/util/parse-events.c`, `config_term_avail`: the terms that `perf stat` refuses.
    fn add(&mut self, term: &str, body: &str) -> Result<()> {
        let (name, value) = term.split_once('=').map_or((term, None), |(name, value)| (name, Some(value)));
        match (name, value) {
            ("name", Some(value)) => self.label = Some(label(value, body)?),
            // A term of perf's metrics, which does not affect counting.
            ("metric-id", Some(_)) => {}
            // Terms of sampling and of per-core output, which do not change a sum.
            ("period", Some(_)) => drop(parse_term(term, body)?),
            ("percore", None) => {}
            (name, _) if OF_SAMPLING.contains(&name) => {
                return Err(invalid(
                    format!("the term '{name}' of '{}' is for samples, and a count has none", shown(body)),
                    "leave it out",
                ));
            }
            _ => self.of_pmu.push(parse_term(term, body)?),
        }
        Ok(())
    }
}

/// Terms of perf's that control sampling.
const OF_SAMPLING: [&str; 14] = [
    "freq",
    "time",
    "branch_type",
    "call-graph",
    "stack-size",
    "max-stack",
    "nr",
    "overwrite",
    "no-overwrite",
    "driver-config",
    "aux-output",
    "aux-action",
    "aux-sample-size",
    "ratio-to-prev",
];

/// A name given by the user, in single quotes if it contains characters of the grammar.
fn label(value: &str, body: &str) -> Result<String> {
    let quoted = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
    let label = quoted.unwrap_or(value);
    if label.is_empty() || label.contains(|c: char| c.is_control() || c == '\'') {
        let message = format!("name= of '{}' gives no name", shown(body));
        return Err(invalid(message, "write name=ANY, or name='ANY:NAME' where it has signs in it"));
    }
    Ok(label.to_owned())
}

/// Splits at commas outside single quotes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut is_quoted = false;
    text.split(|c| {
        is_quoted ^= c == '\'';
        c == ',' && !is_quoted
    })
    .collect()
}

fn parse_term(term: &str, body: &str) -> Result<Term> {
    let Some((name, value)) = term.split_once('=') else {
        return Ok(Term { name: term.to_owned(), value: None });
    };
    match parse_number(value) {
        Some(value) if !name.is_empty() => Ok(Term { name: name.to_owned(), value: Some(value) }),
        _ => Err(invalid(
            format!("the term '{}' of '{}' has no number", shown(term), shown(body)),
            "write a decimal or 0x… number behind =",
        )),
    }
}

fn parse_plain(body: &str) -> Result<UnpinnedEvent> {
    if body.split_once("::").is_some_and(|(_, name)| name.is_empty()) {
        return Err(invalid(
            format!("an event is missing behind the colons of '{}'", shown(body)),
            "write the name of an event there",
        ));
    }
    if body.ends_with(':') {
        return Err(invalid(
            format!("no modifier behind the colon of '{}'", shown(body)),
            "write :u, :k or :uk",
        ));
    }
    let (prefix, rest) = match body.split_once("::") {
        Some((pmu, rest)) => (&body[..pmu.len() + 2], rest),
        None => ("", body),
    };
    // A breakpoint has an address and a length after its colons.
    let pieces: Vec<&str> = if rest.starts_with("mem:") { vec![rest] } else { rest.split(':').collect() };
    let mut named = UnpinnedEvent {
        selector: Selector::Raw(0),
        name: format!("{prefix}{}", pieces[0]),
        label: None,
        attributes: Vec::new(),
        modifiers: Modifiers::default(),
    };
    let libpfm = !prefix.is_empty() || named.name.starts_with("PERF_COUNT_");
    let mut has_modifiers = false;
    for (i, piece) in pieces.iter().enumerate().skip(1) {
        let last = i + 1 == pieces.len();
        has_modifiers |= refine(&mut named, piece, PartContext { libpfm, last, body, has_modifiers })?;
    }
    named.selector = raw_code(&named.name).unwrap_or_else(|| Selector::Name(named.name.clone()));
    Ok(named)
}

/// The context of a part after a colon.
struct PartContext<'a> {
    libpfm: bool,
    last: bool,
    body: &'a str,
    /// Whether modifiers stand before this part.
    has_modifiers: bool,
}

/// Handles one part after a colon: an attribute, modifiers, or a unit mask, which belongs to the name.
/// Returns whether the part contains modifiers.
///
/// libpfm4 takes each modifier after its own colon; perf takes one list of letters.
fn refine(named: &mut UnpinnedEvent, piece: &str, place: PartContext<'_>) -> Result<bool> {
    if let (true, Some((mode, counted))) = (place.libpfm, mode(piece)) {
        let modes =
            named.modifiers.modes.get_or_insert(if counted { Modes::NONE } else { Modes::USER_KERNEL });
        match mode {
            'u' => modes.user = counted,
            'k' => modes.kernel = counted,
            _ => modes.hypervisor = counted,
        }
        return Ok(false);
    }
    if let Some(attribute) = attribute(piece, place.libpfm) {
        let term = parse_term(&attribute, place.body)?;
        if named.attributes.iter().any(|other| other.name == term.name) {
            return Err(repeated(&term.name, place.body));
        }
        named.attributes.push(term);
        return Ok(false);
    }
    match Modifiers::parse(piece) {
        Ok(_) if !piece.is_empty() && place.has_modifiers && !place.libpfm => {
            return Err(two_lists(place.body));
        }
        Ok(more) if !piece.is_empty() => {
            named.modifiers = more.with(named.modifiers).map_err(|error| no_modifiers(error, place.body))?;
        }
        Err(error @ ModifierError::Repeated(_)) if place.last && !place.libpfm => {
            return Err(no_modifiers(error, place.body));
        }
        // Modifiers contain no underscores and no digits, and few capitals: this part belongs to the name.
        _ if piece.contains(|c: char| c == '_' || c.is_ascii_digit() || c.is_ascii_uppercase())
            || !place.last =>
        {
            named.name.push(':');
            named.name.push_str(piece);
            return Ok(false);
        }
        _ => named.modifiers = modifiers(piece, place.body)?,
    }
    Ok(true)
}

/// Parses libpfm4's notation for including or excluding a mode: `u=1`, `k=0`, `h=1`.
fn mode(piece: &str) -> Option<(char, bool)> {
    let (letter, value) = piece.split_once('=')?;
    let counted = match value {
        "1" | "y" | "t" => true,
        "0" | "n" | "f" => false,
        _ => return None,
    };
    ["u", "k", "h"].contains(&letter).then(|| (letter.chars().next().unwrap_or('u'), counted))
}

/// The term for a part after a colon, if it is one.
fn attribute(piece: &str, libpfm: bool) -> Option<String> {
    const WORDS: [&str; 5] = ["inv", "edge", "any", "eq", "intx"];
    let long = |letter: &str| match letter {
        "c" => Some("cmask"),
        "e" => Some("edge"),
        "i" => Some("inv"),
        "t" => Some("any"),
        _ => None,
    };
    match piece.split_once('=') {
        Some((key, value)) => Some(format!("{}={value}", long(key).unwrap_or(key))),
        None if WORDS.contains(&piece) => Some(piece.to_owned()),
        None if libpfm => long(piece).filter(|word| *word != "cmask").map(str::to_owned),
        None => None,
    }
}

/// The selector of a raw code, `r1c5` or `r0x1c5`; `None` for other names.
pub fn raw_code(name: &str) -> Option<Selector> {
    let digits = name.strip_prefix('r')?;
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let hex = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
    if hex { u64::from_str_radix(digits, 16).ok().map(Selector::Raw) } else { None }
}

fn modifiers(letters: &str, text: &str) -> Result<Modifiers> {
    if letters.contains(':') {
        return Err(two_lists(text));
    }
    Modifiers::parse(letters).map_err(|error| no_modifiers(error, text))
}

fn two_lists(text: &str) -> Error {
    let message = format!("'{}' has two lists of modifiers", shown(text));
    invalid(message, "write all letters after one colon, as in cycles:uk")
}

fn no_modifiers(error: ModifierError, text: &str) -> Error {
    match error {
        ModifierError::Unknown(letter) => invalid(
            format!("'{}' in '{}' is no modifier", letter.escape_default(), shown(text)),
            "modifiers are u k h (modes), G H (guest, host), I, p (up to three), P S D W e b",
        ),
        ModifierError::Repeated('p') => {
            invalid(format!("'{}' has more than three p", shown(text)), "write three of them at most")
        }
        ModifierError::Repeated(letter) => repeated(&letter.to_string(), text),
    }
}

fn repeated(what: &str, text: &str) -> Error {
    invalid(format!("'{what}' is repeated in '{}'", shown(text)), "write it once")
}

/// Parses a decimal number, or a hexadecimal one after `0x`.
pub fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Splits at commas outside braces and slashes.
fn split_outside(list: &str) -> Result<Vec<&str>> {
    let (mut parts, mut start, mut depth, mut in_terms) = (Vec::new(), 0usize, 0u32, false);
    let mut is_quoted = false;
    for (i, c) in list.char_indices() {
        is_quoted ^= in_terms && c == '\'';
        match c {
            _ if is_quoted => {}
            '/' => in_terms = !in_terms,
            '{' if !in_terms => depth += 1,
            '}' if !in_terms => {
                depth = depth.checked_sub(1).ok_or_else(|| {
                    invalid(format!("'{}' closes a group that was not opened", shown(list)), "remove the }")
                })?;
            }
            ',' if !in_terms && depth == 0 => {
                parts.push(&list[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    Ok(parts)
}

/// The form of an input in messages: control characters escaped, at most 80 characters.
fn shown(text: &str) -> String {
    let mut out: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        out.push('…');
    }
    out
}

fn invalid(message: String, hint: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> EventRequest {
        let mut events = parse_events(text).unwrap();
        assert_eq!(events.len(), 1, "{text}");
        events.remove(0)
    }

    #[test]
    fn names_raw_codes_and_devices_are_told_apart() {
        assert_eq!(one("cycles").selector, Selector::Name("cycles".into()));
        assert_eq!(one("r1c5").selector, Selector::Raw(0x1c5));
        assert_eq!(one("r0x1c5:u").selector, Selector::Raw(0x1c5));
        assert_eq!(one("ref-cycles").selector, Selector::Name("ref-cycles".into()));
        let term = |name: &str, value| Term { name: name.into(), value };
        assert_eq!(
            one("cpu/event=0xc5,umask=1,edge/").selector,
            Selector::Pmu {
                pmu: "cpu".into(),
                terms: vec![term("event", Some(0xc5)), term("umask", Some(1)), term("edge", None)]
            }
        );
    }

    #[test]
    fn modifiers_follow_a_colon_or_a_slash() {
        for text in ["cycles:u", "cpu/cycles/u", "cpu/cycles/:u", "{cycles}:u"] {
            assert_eq!(one(text).modifiers.modes, Some(Modes::USER), "{text}");
        }
        assert_eq!(one("cpu/cycles/u").text, "cpu/cycles/");
        assert_eq!(one("cycles:u").text, "cycles");
    }

    #[test]
    fn names_with_dots_and_colons_inside_keep_their_last_colon_for_modifiers() {
        assert_eq!(one("BR_MISP_RETIRED.ALL_BRANCHES:uk").text, "BR_MISP_RETIRED.ALL_BRANCHES");
        assert_eq!(one("sched:sched_switch:u").text, "sched:sched_switch");
        assert_eq!(one("sched:sched_switch").text, "sched:sched_switch");
        assert_eq!(one("mem:0x1000/8:rw".trim_end_matches("/8:rw")).text, "mem:0x1000");
    }

    #[test]
    fn unit_masks_and_attributes_follow_colons() {
        let term = |name: &str, value| Term { name: name.into(), value };
        let event = one("intel::UOPS_ISSUED:ANY:c=1:i:u");
        assert_eq!(event.text, "intel::UOPS_ISSUED:ANY");
        assert_eq!(event.attributes, [term("cmask", Some(1)), term("inv", None)]);
        assert_eq!(event.modifiers.modes, Some(Modes::USER));
        let event = one("UOPS_ISSUED.ANY:cmask=0x2:inv:edge:uk");
        assert_eq!(event.attributes, [term("cmask", Some(2)), term("inv", None), term("edge", None)]);
        assert_eq!(event.modifiers.modes, Some(Modes::USER_KERNEL));
        // Without a PMU before it, e is perf's modifier: alone on the PMU.
        let event = one("cycles:e");
        assert!(event.modifiers.exclusive && event.attributes.is_empty());
        assert_eq!(one("skl::L2_RQSTS:MISS:e").attributes, [term("edge", None)]);
        assert_eq!(one("skl::L2_RQSTS:MISS:u=1:k=0").modifiers.modes, Some(Modes::USER));
        assert_eq!(one("skl::L2_RQSTS:MISS:u=0").modifiers.modes, Some(Modes::KERNEL));
    }

    #[test]
    fn groups_number_their_members() {
        let events = parse_events("{cycles,instructions:k}:u,branches,{cpu/a=1,b=2/,faults}").unwrap();
        let groups: Vec<_> = events.iter().map(|event| event.group).collect();
        assert_eq!(groups, [Some(0), Some(0), None, Some(1), Some(1)]);
        assert_eq!(events[0].modifiers.modes, Some(Modes::USER));
        assert_eq!(events[1].modifiers.modes, Some(Modes::USER_KERNEL));
    }

    #[test]
    fn modes_add_up_wherever_they_stand() {
        for text in ["cycles:uk", "cpu/cycles/ku", "{cycles:u}:k", "perf::cycles:k:u=1", "skl::X:u:k"] {
            assert_eq!(one(text).modifiers.modes, Some(Modes::USER_KERNEL), "{text}");
        }
        assert_eq!(one("PERF_COUNT_HW_CPU_CYCLES:u:k").modifiers.modes, Some(Modes::USER_KERNEL));
    }

    /// The modifiers after a colon or a slash, or the error, of the first event of a list.
    fn first(list: &str) -> std::result::Result<Modifiers, String> {
        parse_events(list).map(|events| events[0].modifiers).map_err(|error| error.to_string())
    }

    /// # Source
    ///
    /// `perf stat -vv -e LIST` of perf 6.1: `exclude_user`, `exclude_kernel`, `exclude_hv`, `exclude_guest`,
    /// `exclude_host` and `precise_ip` of the attributes.
    #[test]
    fn modifiers_of_events_and_groups_are_taken_as_perf_takes_them() {
        let of = |modes| Modifiers { modes, ..Modifiers::default() };
        let (user, both) = (of(Some(Modes::USER)), of(Some(Modes::USER_KERNEL)));
        let p = |precise, modifiers| Modifiers { precise, ..modifiers };
        for (list, expected) in [
            ("instructions:uk", both),
            ("instructions:ku", both),
            ("{instructions:u,cycles}:k", both),
            ("{instructions:u}:k", both),
            ("{cycles,instructions:u}:k", of(Some(Modes::KERNEL))),
            ("{instructions:u,cycles:k}:uk", both),
            ("{cycles:u}:u", user),
            ("instructions:H", Modifiers { host_only: true, ..of(None) }),
            ("instructions:G", Modifiers { guest_only: true, ..of(None) }),
            ("{cycles:u}:G", Modifiers { guest_only: true, ..user }),
            ("instructions:GH", of(None)),
            ("{cycles:G}:H", of(None)),
            ("instructions:uppp", p(3, user)),
            ("instructions:pup", p(2, user)),
            ("{cycles:p,instructions}:pp", p(3, of(None))),
            ("{instructions,cycles:p}:pp", p(2, of(None))),
            ("{cycles:P}:p", Modifiers { most_precise: true, ..p(1, of(None)) }),
        ] {
            assert_eq!(first(list), Ok(expected), "{list}");
        }
    }

    /// # Source
    ///
    /// `perf stat -e LIST` of perf 6.1, which refuses each of these with a syntax error.
    #[test]
    fn modifiers_that_perf_refuses_are_refused() {
        for (list, message) in [
            ("instructions:uu", "'u' is repeated in 'instructions:uu'"),
            ("cycles:GG", "'G' is repeated in 'cycles:GG'"),
            ("{cycles}:SS", "'S' is repeated in '{cycles}:SS'"),
            ("instructions:u:k", "'instructions:u:k' has two lists of modifiers"),
            ("cycles:GH:u", "'cycles:GH:u' has two lists of modifiers"),
            ("cpu/cycles/u:k", "'cpu/cycles/u:k' has two lists of modifiers"),
            ("{cycles}:u:k", "'{cycles}:u:k' has two lists of modifiers"),
            ("UOPS_ISSUED.ANY:cmask=1:u:k", "'UOPS_ISSUED.ANY:cmask=1:u:k' has two lists of modifiers"),
            ("instructions:pppp", "'instructions:pppp' has more than three p"),
            ("{cycles:pp}:pp", "'{cycles:pp}:pp' has more than three p"),
            ("{cycles:ppp}:p", "'{cycles:ppp}:p' has more than three p"),
        ] {
            assert_eq!(first(list), Err(message.to_owned()), "{list}");
        }
    }

    #[test]
    fn a_term_gives_a_name_and_those_of_samples_are_not_counted() {
        let terms = |text: &str| match one(text).selector {
            Selector::Pmu { terms, .. } => terms.into_iter().map(|term| term.name).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        for (text, label) in [
            ("cpu/event=0xc0,name=retired/u", Some("retired")),
            ("cpu/name='INST:cmask=0x1,a/b @ 1',event=0xc0/", Some("INST:cmask=0x1,a/b @ 1")),
            ("cpu/event=0xc0,metric-id=cpu!3cycles!3,period=1000,percore/", None),
        ] {
            assert_eq!(
                (one(text).label.as_deref(), terms(text)),
                (label, vec!["event".to_owned()]),
                "{text}"
            );
        }
        assert_eq!(one("cpu/event=1,name='a'/@3").pin, Some(3));
        let two = parse_events("cpu/name='a,b',event=1/,cycles").unwrap();
        assert_eq!(two.len(), 2);
    }

    #[test]
    fn a_pin_names_a_counter() {
        assert_eq!(one("INST_LDST@7").pin, Some(7));
        assert_eq!(one("cycles:u@1").pin, Some(1));
    }

    #[test]
    fn bad_lists_name_the_bad_part() {
        let cases = [
            ("", "an event is missing in ''"),
            ("cycles,", "an event is missing in 'cycles,'"),
            ("cycles:z", "'z' in 'cycles:z' is no modifier"),
            ("cycles:", "no modifier behind the colon of 'cycles:'"),
            ("perf::", "an event is missing behind the colons of 'perf::'"),
            ("skl::X:", "no modifier behind the colon of 'skl::X:'"),
            ("{cycles", "the group '{cycles' has no closing brace"),
            ("{}", "the group '{}' is empty, nested or lacks an event"),
            ("cycles}", "'cycles}' closes a group that was not opened"),
            ("{cycles}x", "'x' behind the group '{cycles}x'"),
            ("cpu/event=1", "'cpu/event=1' has no closing slash"),
            ("cpu/event=q/", "the term 'event=q' of 'cpu/event=q/' has no number"),
            ("cycles@x", "'cycles@x' pins an event to 'x', which is no counter"),
            ("a b", "'a b' is no event name"),
            ("cycles:uu", "'u' is repeated in 'cycles:uu'"),
            ("cpu/cycles/pppp", "'cpu/cycles/pppp' has more than three p"),
            ("skl::X:Y:c=1:c=2", "'cmask' is repeated in 'skl::X:Y:c=1:c=2'"),
            ("cpu/event=1,name=/", "name= of 'cpu/event=1,name=/' gives no name"),
            (
                "cpu/event=1,period=often/",
                "the term 'period=often' of 'cpu/event=1,period=often/' has no number",
            ),
            (
                "cpu/event=1,call-graph=dwarf/",
                "the term 'call-graph' of 'cpu/event=1,call-graph=dwarf/' is for samples, and a count has none",
            ),
        ];
        for (list, message) in cases {
            let error = parse_events(list).unwrap_err();
            assert_eq!(error.to_string(), message);
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert_ne!(error.recovery().to_string(), "");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics_or_echoes_control_characters(list in ".{0,60}") {
            if let Err(error) = parse_events(&list) {
                prop_assert!(!error.to_string().chars().any(char::is_control));
            }
        }

        #[test]
        fn a_number_is_read_back_in_both_notations(n: u64) {
            prop_assert_eq!(parse_number(&n.to_string()), Some(n));
            prop_assert_eq!(parse_number(&format!("{n:#x}")), Some(n));
        }
    }
}
