//! What happens in librdkafka's threads between records: errors, and requests for a token.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null;
use std::sync::{Mutex, MutexGuard};

use super::client::{Consumer, EVENT_ERROR, EVENT_TOKEN_REFRESH, SAID_BYTES};
use super::failure::{copied, text, Failure};
use super::symbols::Client;
use super::NO_ERROR;

/// The maximum number of errors that are kept until `event` takes them.
const MOST_HEARD: usize = 50;
/// The token says who it is for.
const NO_PRINCIPAL: &CStr = c"";

pub enum Happened {
    Error(Failure),
    TokenWanted,
}

/// Errors that librdkafka gives to a callback while it is asked for records.
#[derive(Default)]
pub(super) struct Heard(Mutex<VecDeque<Failure>>);

impl Heard {
    fn list(&self) -> MutexGuard<'_, VecDeque<Failure>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// librdkafka calls this with the pointer that `Consumer::start` sets, and with a text or null.
pub(super) unsafe extern "C" fn hear(_: *mut Client, code: c_int, said: *const c_char, heard: *mut c_void) {
    let mut list = (*heard.cast::<Heard>()).list();
    list.push_back(Failure { code, text: copied(said) });
    if list.len() > MOST_HEARD {
        list.pop_front();
    }
}

impl Consumer {
    /// Take what happened next, if anything has, without waiting.
    pub fn event(&mut self) -> Option<Happened> {
        if let Some(failure) = self.heard.list().pop_front() {
            return Some(Happened::Error(failure));
        }
        loop {
            // SAFETY: an event is valid until it is destroyed, and its text as long as it is.
            unsafe {
                let event = (self.lib.rd_kafka_queue_poll)(self.events.raw, 0);
                if event.is_null() {
                    return None;
                }
                let happened = match (self.lib.rd_kafka_event_type)(event) {
                    EVENT_ERROR => Some(Happened::Error(Failure {
                        code: (self.lib.rd_kafka_event_error)(event),
                        text: copied((self.lib.rd_kafka_event_error_string)(event)),
                    })),
                    EVENT_TOKEN_REFRESH => Some(Happened::TokenWanted),
                    _ => None,
                };
                (self.lib.rd_kafka_event_destroy)(event);
                if happened.is_some() {
                    return happened;
                }
            }
        }
    }

    /// Set the token that the next logins present, which ends at `ends_ms` since 1970.
    pub fn set_token(&mut self, token: &str, ends_ms: i64) -> Result<(), String> {
        let token = text(token)?;
        let mut said = [0 as c_char; SAID_BYTES];
        // SAFETY: the texts outlive the call, which copies them; there are no extensions; `said` is as long as its
        // length says.
        unsafe {
            let set = (self.lib.rd_kafka_oauthbearer_set_token)(
                self.client.raw,
                token.as_ptr(),
                ends_ms,
                NO_PRINCIPAL.as_ptr(),
                null(),
                0,
                said.as_mut_ptr(),
                SAID_BYTES,
            );
            if set == NO_ERROR {
                Ok(())
            } else {
                Err(copied(said.as_ptr()))
            }
        }
    }

    /// Report that there is no new token: librdkafka makes an error of it, and asks again after some seconds.
    pub fn fail_token(&mut self, why: &str) {
        let why = text(&why.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the text outlives the call, which copies it.
        unsafe { (self.lib.rd_kafka_oauthbearer_set_token_failure)(self.client.raw, why.as_ptr()) };
    }
}
