//! Build script that gives the shared library the soname of IBM's client library.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmqm_r.so");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
