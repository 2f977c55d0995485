//! Calls with wrong arguments: errors with a code, and no crash.

use optc_c::{
    OptcError, optc_error_code, optc_error_column, optc_error_free, optc_error_line, optc_fold,
    optc_layout_parse, optc_program_read, optc_target_find,
};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr::null;

/// The code and the place of an error.
#[expect(unsafe_code, reason = "a text of the library is read")]
fn told(error: Option<Box<OptcError>>) -> (String, usize, usize) {
    let at = (
        optc_error_line(error.as_deref()),
        optc_error_column(error.as_deref()),
    );
    // SAFETY: the code is a text that lives as long as the error.
    let code = unsafe { CStr::from_ptr(optc_error_code(error.as_deref())) };
    let code = code.to_string_lossy().into_owned();
    optc_error_free(error);
    (code, at.0, at.1)
}

#[test]
fn wrong_arguments_are_errors() {
    let wrong = ("foreign-argument".to_owned(), 0, 0);
    let mut target = MaybeUninit::uninit();
    assert_eq!(told(optc_target_find(null(), Some(&mut target))), wrong);
    assert_eq!(told(optc_target_find(c"cpu".as_ptr(), None)), wrong);
    let found = optc_target_find(c"\xff".as_ptr(), Some(&mut target));
    assert_eq!(told(found), wrong);
    assert_eq!(told(optc_fold(None, None, None)), wrong);
    let mut program = MaybeUninit::uninit();
    let read = optc_program_read(null(), 3, c"a.ir".as_ptr(), null(), Some(&mut program));
    assert_eq!(told(read), wrong);
}

#[test]
fn mistakes_have_a_place() {
    let mut layout = MaybeUninit::uninit();
    let read = optc_layout_parse(c"f32[2,3]{0,0}".as_ptr(), Some(&mut layout));
    let (code, line, column) = told(read);
    assert_eq!((&*code, line, column), ("tensor-syntax", 1, 10));
    let (text, mut program) = (b"\n  %0 = ", MaybeUninit::uninit());
    let read = optc_program_read(
        text.as_ptr(),
        text.len(),
        c"a.ir".as_ptr(),
        null(),
        Some(&mut program),
    );
    let (_, line, column) = told(read);
    assert_eq!((line, column), (2, 7));
}
