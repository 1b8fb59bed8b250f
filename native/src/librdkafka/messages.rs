//! Messages: records, or errors in place of records.

use std::ffi::{c_int, CStr};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};
use std::slice::from_raw_parts;

use super::failure::{copied, of_code, Failure};
use super::symbols::{RawMessage, Symbols};
use super::NO_ERROR;

const NO_HEADERS: c_int = -156;

/// Messages that are destroyed when dropped.
pub struct Messages<'a> {
    lib: Symbols,
    held: &'a mut Vec<*mut RawMessage>,
}

impl<'a> Messages<'a> {
    /// All pointers have to be messages that librdkafka has just returned.
    pub(super) fn new(lib: Symbols, held: &'a mut Vec<*mut RawMessage>) -> Self {
        Self { lib, held }
    }

    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = Message<'_>> {
        self.held.iter().map(|&raw| Message { lib: &self.lib, raw, lives: PhantomData })
    }
}

impl Drop for Messages<'_> {
    fn drop(&mut self) {
        for raw in self.held.drain(..) {
            // SAFETY: each came from librdkafka, is destroyed once, and no `Message` outlives `self`.
            unsafe { (self.lib.rd_kafka_message_destroy)(raw) };
        }
    }
}

/// The key and the value of a header.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// A record, or an error in place of one.
pub struct Message<'a> {
    lib: &'a Symbols,
    raw: *const RawMessage,
    lives: PhantomData<&'a RawMessage>,
}

impl<'a> Message<'a> {
    fn raw(&self) -> &'a RawMessage {
        // SAFETY: librdkafka gave the pointer, and `Messages` keeps it valid for 'a.
        unsafe { &*self.raw }
    }

    pub fn failure(&self) -> Option<Failure> {
        match self.raw().err {
            NO_ERROR => None,
            // SAFETY: the text lives as long as the message.
            code => Some(Failure { code, text: unsafe { copied((self.lib.rd_kafka_message_errstr)(self.raw)) } }),
        }
    }

    pub fn partition(&self) -> i32 {
        self.raw().partition
    }

    pub fn offset(&self) -> i64 {
        self.raw().offset
    }

    pub fn key(&self) -> Option<&'a [u8]> {
        // SAFETY: librdkafka's bytes live as long as the message.
        unsafe { bytes(self.raw().key, self.raw().key_len) }
    }

    pub fn value(&self) -> Option<&'a [u8]> {
        // SAFETY: as above.
        unsafe { bytes(self.raw().payload, self.raw().len) }
    }

    /// Return milliseconds and the type: 0 none, 1 set by the producer, 2 set by the broker. No timestamp is -1.
    pub fn timestamp(&self) -> (i64, i32) {
        let mut kind = 0;
        // SAFETY: the message is valid.
        let stamp = unsafe { (self.lib.rd_kafka_message_timestamp)(self.raw, &mut kind) };
        (stamp, kind)
    }

    pub fn leader_epoch(&self) -> Option<i32> {
        // SAFETY: the message is valid.
        let epoch = unsafe { (self.lib.rd_kafka_message_leader_epoch)(self.raw) };
        (epoch >= 0).then_some(epoch)
    }

    /// Return keys, up to a first zero byte, and values in order; None if the record has no headers. librdkafka refuses
    /// records with more than 100,000.
    pub fn headers(&self) -> Result<Option<impl Iterator<Item = Header<'a>> + 'a>, Failure> {
        let mut found = null_mut();
        // SAFETY: the message is valid and owns its headers, which live as long as it does.
        match unsafe { (self.lib.rd_kafka_message_headers)(self.raw, &mut found) } {
            NO_ERROR => {}
            NO_HEADERS => return Ok(None),
            code => return Err(of_code(self.lib, code)),
        }
        let lib = self.lib;
        Ok(Some((0..).map_while(move |index| {
            let (mut key, mut value, mut len) = (null(), null(), 0);
            // SAFETY: an index beyond the last one is answered with an error, and the others with texts that live as
            // long as the headers; a key ends with a zero byte.
            unsafe {
                match (lib.rd_kafka_header_get_all)(found, index, &mut key, &mut value, &mut len) {
                    NO_ERROR => Some((CStr::from_ptr(key).to_bytes(), bytes(value, len))),
                    _ => None,
                }
            }
        })))
    }
}

/// The pointer has to be null, or to be valid for so many bytes during 'a.
unsafe fn bytes<'a>(start: *const u8, len: usize) -> Option<&'a [u8]> {
    (!start.is_null()).then(|| from_raw_parts(start, len))
}
