//! Names as their language writes them.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;

/// The longest name that is demangled, in bytes. Templates have names of megabytes.
const LONGEST: usize = 8192;

/// The name of a symbol as the source code writes it: of C++ without types of return values, of Rust without
/// the hash of the compiler. A name of another language stays as it is. Control characters become `?`.
pub(crate) fn demangled(symbol: &[u8]) -> String {
    let symbol = String::from_utf8_lossy(symbol);
    let name = without_version(&symbol);
    let name = if name.len() > LONGEST { None } else { rust(name).or_else(|| cpp(name)) }
        .unwrap_or_else(|| name.to_owned());
    match has_control(&name) {
        true => name.chars().map(|c| if c.is_control() { '?' } else { c }).collect(),
        false => name,
    }
}

/// A symbol without its version, which stands behind the name: `memcpy@@GLIBC_2.14`.
fn without_version(symbol: &str) -> &str {
    symbol.split_once('@').map_or(symbol, |(name, _)| if name.is_empty() { symbol } else { name })
}

fn has_control(text: &str) -> bool {
    // Bytes decide for nearly all names.
    text.bytes().any(|byte| byte.is_ascii_control() || !byte.is_ascii()) && text.chars().any(char::is_control)
}

/// A number that is the same for symbols of the same name, and seldom for others. It takes a small part of
/// the time of [`demangled`].
///
/// The key of Rust and C is that of the whole name. That of C++ is the key of the first identifiers of
/// the name, up to the first template, parameter or operator: equal names begin with equal identifiers.
pub(crate) fn name_key(symbol: &[u8]) -> u64 {
    let symbol = String::from_utf8_lossy(symbol);
    let name = without_version(&symbol);
    let mut key = NameKey::default();
    let is_mangled = name.len() <= LONGEST;
    match rustc_demangle::try_demangle(name).ok().filter(|_| is_mangled) {
        Some(rust) => {
            // A name that cannot be written is as long as it is everywhere.
            let _ = write!(key, "{rust:#}");
        }
        None => match first_identifiers(name).filter(|_| is_mangled) {
            Some(identifiers) => identifiers.into_iter().for_each(|identifier| key.part(identifier)),
            None => key.part(&demangled(symbol.as_bytes())),
        },
    }
    key.0
}

/// The hash FNV-1a of a text, whose control characters are `?`.
struct NameKey(u64);

impl Default for NameKey {
    fn default() -> NameKey {
        NameKey(0xcbf2_9ce4_8422_2325)
    }
}

impl NameKey {
    fn part(&mut self, text: &str) {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl fmt::Write for NameKey {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let clean: Cow<'_, str> = match has_control(text) {
            true => text.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>().into(),
            false => text.into(),
        };
        self.part(&clean);
        Ok(())
    }
}

/// The identifiers that the name of a function of C++ begins with, as far as they are simple ones; `None` if
/// it has no such beginning, or nothing behind it: then it may be equal to the name of another language.
///
/// # Source
///
/// Itanium C++ ABI, section 5.1, "External Names (a.k.a. Mangling)".
fn first_identifiers(name: &str) -> Option<Vec<&str>> {
    let rest = name.strip_prefix("_Z").or_else(|| name.strip_prefix("__Z"))?;
    let rest = match rest.strip_prefix('N') {
        Some(nested) => nested.trim_start_matches(['r', 'V', 'K', 'R', 'O']),
        None => rest.strip_prefix('L').unwrap_or(rest),
    };
    let (mut found, mut rest) = match rest.strip_prefix("St") {
        Some(rest) => (vec!["std"], rest),
        None => (Vec::new(), rest),
    };
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Ok(len) = rest[..digits].parse::<usize>() else { break };
        let Some(identifier) = rest[digits..].get(..len).filter(|identifier| is_simple(identifier)) else {
            break;
        };
        found.push(identifier);
        rest = &rest[digits + len..];
    }
    // A constructor has the name of its class.
    let kind = |kind: char| kind.is_ascii_digit();
    let constructor = rest.strip_prefix('C').and_then(|behind| behind.strip_prefix(kind));
    if let (Some(class), Some(behind)) = (found.last().copied(), constructor) {
        found.push(class);
        rest = behind;
    }
    let has_short_form = matches!(*found, ["std", class, ..] if SHORT_FORMS.contains(&class));
    (!found.is_empty() && !has_short_form && !matches!(rest, "" | "E")).then_some(found)
}

/// The classes of `std` that symbols write as `Sa`, `Ss` and so on.
///
/// # Source
///
/// Itanium C++ ABI, section 5.1.10, "Compression".
const SHORT_FORMS: [&str; 6] = ["allocator", "basic_string", "string", "istream", "ostream", "iostream"];

/// Whether an identifier is written as it is.
fn is_simple(identifier: &str) -> bool {
    let is_word = identifier.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_word && !identifier.is_empty() && !identifier.starts_with("_GLOBAL_")
}

/// The name of a symbol of Rust with the hash of the compiler; `None`: the symbol is of another language.
pub(crate) fn rust_with_hash(symbol: &[u8]) -> Option<String> {
    let symbol = std::str::from_utf8(symbol).ok().filter(|symbol| symbol.len() <= LONGEST)?;
    rustc_demangle::try_demangle(symbol).ok().map(|name| name.to_string())
}

fn rust(name: &str) -> Option<String> {
    rustc_demangle::try_demangle(name).ok().map(|name| format!("{name:#}"))
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") && !name.starts_with("__Z") {
        return None;
    }
    let options = cpp_demangle::DemangleOptions::new().no_return_type().recursion_limit(192);
    cpp_demangle::Symbol::new(name).ok()?.demangle_with_options(&options).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use proptest::prelude::*;

    use super::{demangled, name_key};

    #[test]
    fn names_are_those_of_their_language() {
        for (symbol, name) in [
            ("main", "main"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("_ZN3foo3barEi", "foo::bar(int)"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvCskwGfYPst2Cb_3foo3bar", "foo::bar"),
            ("_Znonsense", "_Znonsense"),
            ("_Z", "_Z"),
            ("a\x1b[31mb", "a?[31mb"),
            ("", ""),
            ("@plt", "@plt"),
        ] {
            assert_eq!(demangled(symbol.as_bytes()), name);
        }
        let long = format!("_ZN{}E", "3foo".repeat(4000));
        assert_eq!(demangled(long.as_bytes()), long);
    }

    #[test]
    fn symbols_of_one_name_have_one_key() {
        for alike in [
            &["_ZN1SC1Ev", "_ZN1SC2Ev", "_ZN1SC1Ev@@V2"][..],
            &["_Z1fIiEiT_", "_Z1fIiElT_"],
            &["_ZL1fi", "_Z1fi"],
            &["_ZNSs4swapERSs", "_ZNSs4swapERSs@V1"],
            &["_ZN3foo3barE", "_ZN3foo3bar17h0123456789abcdefE", "_RNvCskwGfYPst2Cb_3foo3bar"],
            &["_ZN1r1f17h0123456789abcdefE", "_ZN1r1f17hfedcba9876543210E"],
            &["_RNvCskwGfYPst2Cb_3foo3bar", "_RNvCs9ltgdHTiPiY_3foo3bar"],
            &["memcpy", "memcpy@@GLIBC_2.14", "memcpy@GLIBC_2.2.5"],
            &["a\x01b", "a?b"],
        ] {
            let names = alike.iter().map(|symbol| demangled(symbol.as_bytes()));
            let keys = alike.iter().map(|symbol| name_key(symbol.as_bytes()));
            assert!(names.clone().all(|name| Some(name) == names.clone().next()), "{alike:?}");
            assert!(keys.clone().all(|key| Some(key) == keys.clone().next()), "{alike:?}");
        }
        let others = ["_ZN1S1fEv", "_ZN1S1gEv", "_ZN1T1fEv", "f", "g", "_RNvCskwGfYPst2Cb_3foo3bar"];
        let keys: BTreeSet<u64> = others.iter().map(|symbol| name_key(symbol.as_bytes())).collect();
        assert_eq!(keys.len(), others.len(), "they are as good as different");
    }

    /// Encodings of C++ that often have equal names.
    fn encodings() -> impl Strategy<Value = Vec<String>> {
        let nested = "_ZN(K|VK|)(St|Sa|Ss|S_|)(1f|3std|9allocator|1gB5cxx11|12_GLOBAL__N_1){1,3}(I[il]E|)(C[12]|D0|)E[ilv](\\.cold|)";
        let plain = "_Z(L|St|)(1f|1g|3std|pl)(I[il]E[il]|)[ilv](T_|)";
        prop::collection::vec(prop_oneof![nested, plain], 2..60)
    }

    proptest! {
        #[test]
        fn equal_names_have_equal_keys(symbols in encodings()) {
            let mut keys = HashMap::new();
            for symbol in symbols {
                let (name, key) = (demangled(symbol.as_bytes()), name_key(symbol.as_bytes()));
                let (first, other) = keys.entry(name).or_insert((key, symbol.clone()));
                prop_assert_eq!(*first, key, "{} {}", other, symbol);
            }
        }

        #[test]
        fn any_bytes_have_a_name_without_control_characters(bytes: Vec<u8>, tail in "(_Z|_R|__Z)[a-zA-Z0-9_]{0,80}") {
            for symbol in [bytes.as_slice(), tail.as_bytes()] {
                proptest::prop_assert!(!demangled(symbol).chars().any(char::is_control));
            }
        }
    }
}
