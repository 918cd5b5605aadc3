//! Gives the shared library the name that programs look for when they start.

/// The version of the binary interface: it changes when programs must be compiled anew.
const ABI: u32 = 0;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let name = match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos") => format!("-Wl,-install_name,@rpath/libcyclometer.{ABI}.dylib"),
        _ => format!("-Wl,-soname,libcyclometer.so.{ABI}"),
    };
    println!("cargo:rustc-cdylib-link-arg={name}");
}
