//! Names as their language writes them.

/// The longest name that is demangled, in bytes. Templates have names of megabytes.
const LONGEST: usize = 8192;

/// The name of a symbol as the source code writes it: of C++ without types of return values, of Rust without
/// the hash of the compiler. A name of another language stays as it is. Control characters become `?`.
pub(crate) fn demangled(symbol: &[u8]) -> String {
    let symbol = String::from_utf8_lossy(symbol);
    // A version stands behind the name: memcpy@@GLIBC_2.14.
    let name =
        symbol.split_once('@').map_or(&*symbol, |(name, _)| if name.is_empty() { &symbol } else { name });
    let name = if name.len() > LONGEST { None } else { rust(name).or_else(|| cpp(name)) }
        .unwrap_or_else(|| name.to_owned());
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
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
    use super::demangled;

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

    proptest::proptest! {
        #[test]
        fn any_bytes_have_a_name_without_control_characters(bytes: Vec<u8>, tail in "(_Z|_R|__Z)[a-zA-Z0-9_]{0,80}") {
            for symbol in [bytes.as_slice(), tail.as_bytes()] {
                proptest::prop_assert!(!demangled(symbol).chars().any(char::is_control));
            }
        }
    }
}
