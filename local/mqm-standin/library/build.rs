//! Gives the library the name under which clients of IBM's look for it.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmqm_r.so");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
