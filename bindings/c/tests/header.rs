//! The committed header is the one that cbindgen makes of this crate.

use std::path::Path;

#[test]
fn the_header_is_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config =
        cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a configuration");
    let made = cbindgen::Builder::new()
        .with_config(config)
        .with_src(folder.join("src/lib.rs"))
        .generate()
        .expect("the sources are read");
    let mut header = Vec::new();
    made.write(&mut header);
    let path = folder.join("include/optc.h");
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        std::fs::write(&path, &header).expect("the header is written");
    }
    let committed = std::fs::read(&path).unwrap_or_default();
    assert!(
        committed == header,
        "include/optc.h: run `INSTA_UPDATE=always cargo test -p optc-c`"
    );
}
