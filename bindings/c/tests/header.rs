//! The header is what the code says.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use std::path::Path;

#[test]
fn the_header_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut made = Vec::new();
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    cbindgen::Builder::new().with_crate(folder).with_config(config).generate().unwrap().write(&mut made);
    let (made, file) = (String::from_utf8(made).unwrap(), folder.join("include/cyclometer.h"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let header = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        header == made,
        "include/cyclometer.h is not what cbindgen makes; `cargo xtask golden` renews it"
    );
}
