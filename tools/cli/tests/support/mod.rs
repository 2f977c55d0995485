//! Runs the command in this process, in a folder of its own.

#![allow(dead_code, reason = "each test file uses a part")]

use optc_cli::{Main, Streams};
use std::fs;
use std::path::{Path, PathBuf};

/// The outcome of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: u8,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Runs `optc` with these arguments.
pub(crate) fn optc<S: AsRef<str>>(args: &[S]) -> Ran {
    optc_with(args, "")
}

/// Runs `optc` with these arguments and this input.
pub(crate) fn optc_with<S: AsRef<str>>(args: &[S], input: &str) -> Ran {
    let args = std::iter::once("optc").chain(args.iter().map(AsRef::as_ref));
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let mut input = input.as_bytes();
    let mut streams = Streams {
        input: &mut input,
        output: &mut output,
        errors: &mut errors,
    };
    let status = Main::default().call(args, &mut streams);
    Ran {
        status,
        output: String::from_utf8(output).unwrap(),
        errors: String::from_utf8(errors).unwrap(),
    }
}

impl Ran {
    /// The output of a command that must succeed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.status, 0, "{}{}", self.output, self.errors);
        self.output
    }

    /// The error stream of a command that must end with this status, and with this text in the stream.
    #[track_caller]
    pub(crate) fn fails(self, status: u8, text: &str) -> String {
        assert_eq!(self.status, status, "{}{}", self.output, self.errors);
        assert!(
            self.errors.contains(text),
            "no `{text}` in\n{}",
            self.errors
        );
        self.errors
    }
}

/// An empty folder for one test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file and gives its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// The names of the files in it, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let name = |e: std::io::Result<fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
        let mut files: Vec<String> = fs::read_dir(&self.0).unwrap().map(name).collect();
        files.sort();
        files
    }
}

/// A transpose between two pinned boundaries: one conversion is unavoidable.
pub(crate) const TRANSPOSE: &str = r#"func.func @main(%x: tensor<2x3x5xf32>) -> (tensor<3x2x5xf32> {hbir.name = "y"}) {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0, 2]}> : (tensor<2x3x5xf32>) -> tensor<3x2x5xf32>
  return %0 : tensor<3x2x5xf32>
}
"#;

/// Two transposes that cancel around an element-wise operation: nothing has to move.
pub(crate) const CANCEL: &str = r#"func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32> {hbir.name = "y"}) {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "hbir.relu"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %2 = "hbir.transpose"(%1) <{perm = [1, 0]}> : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}
"#;
