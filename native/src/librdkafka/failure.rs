//! Errors and texts, to and from C.

use std::ffi::{c_char, c_int, CStr, CString};

use super::symbols::{Error, Symbols};
use super::NO_ERROR;

/// An error code of librdkafka with its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: i32,
    pub text: String,
}

impl Failure {
    /// A failure that librdkafka does not know of.
    pub(super) fn ours(text: impl Into<String>) -> Self {
        Self { code: -1, text: text.into() }
    }
}

pub(super) fn of_code(lib: &Symbols, code: c_int) -> Failure {
    // SAFETY: the text is a constant of the library.
    Failure { code, text: unsafe { copied((lib.rd_kafka_err2str)(code)) } }
}

pub(super) fn checked(lib: &Symbols, code: c_int) -> Result<(), Failure> {
    if code == NO_ERROR {
        Ok(())
    } else {
        Err(of_code(lib, code))
    }
}

/// Take over an error that librdkafka has made for its caller, or null.
pub(super) unsafe fn taken(lib: &Symbols, error: *mut Error) -> Result<(), Failure> {
    if error.is_null() {
        return Ok(());
    }
    let failure =
        Failure { code: (lib.rd_kafka_error_code)(error), text: copied((lib.rd_kafka_error_string)(error)) };
    (lib.rd_kafka_error_destroy)(error);
    Err(failure)
}

/// A text for C. The error does not repeat the text, which may be a secret.
pub(super) fn text(given: &str) -> Result<CString, String> {
    CString::new(given).map_err(|_| "a text contains a zero byte".to_owned())
}

/// Copy librdkafka's text, which has to end with a zero byte or be null.
pub(super) unsafe fn copied(given: *const c_char) -> String {
    if given.is_null() {
        return String::new();
    }
    CStr::from_ptr(given).to_string_lossy().into_owned()
}
