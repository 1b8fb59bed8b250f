//! The librdkafka that confluent-kafka brings, behind a safe interface.
//!
//! This is the only module with `unsafe` code. What that code relies on:
//!
//! - **Function types.** A symbol is only an address; its type is written here, after librdkafka's header. Major version 2
//!   promises these signatures and the layout of the three public structs; `Library::open` refuses any other version.
//! - **Lifetimes.** librdkafka owns a message's key, value and headers until `rd_kafka_message_destroy`. `Messages` calls
//!   it once for each, when dropped; a `Message` borrows from its `Messages`, and what it returns borrows from it.
//! - **Lengths.** Bytes are read only where a pointer is not null, with the length that librdkafka gives beside it.
//! - **Threads.** A client may be used from any thread. The only callback, `hear`, keeps a text in memory and never enters
//!   Python: errors and requests for a token wait in queues until `event` takes them.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};
use std::slice::from_raw_parts;
use std::sync::{Mutex, MutexGuard};

pub const END_OF_PARTITION: i32 = -191;

const LEAST_VERSION: (i32, i32) = (2, 3);
const CONSUMER: c_int = 1;
const NO_ERROR: c_int = 0;
const NO_HEADERS: c_int = -156;
const EVENT_ERROR: c_int = 0x8;
const EVENT_TOKEN_REFRESH: c_int = 0x100;
const SAID_BYTES: usize = 512;
/// The maximum number of errors that are kept until `event` takes them.
const MOST_HEARD: usize = 50;
/// The token says who it is for.
const NO_PRINCIPAL: &CStr = c"";

type ErrorCallback = unsafe extern "C" fn(*mut Client, c_int, *const c_char, *mut c_void);

enum Conf {}
enum Client {}
enum Queue {}
enum Event {}
enum Headers {}

/// `rd_kafka_message_t`
#[repr(C)]
struct RawMessage {
    err: c_int,
    topic: *mut c_void,
    partition: i32,
    payload: *const u8,
    len: usize,
    key: *const u8,
    key_len: usize,
    offset: i64,
    private: *mut c_void,
}

/// `rd_kafka_topic_partition_t`
#[repr(C)]
struct RawPartition {
    topic: *mut c_char,
    partition: i32,
    offset: i64,
    metadata: *mut c_void,
    metadata_size: usize,
    opaque: *mut c_void,
    err: c_int,
    private: *mut c_void,
}

/// `rd_kafka_topic_partition_list_t`
#[repr(C)]
struct RawPartitions {
    cnt: c_int,
    size: c_int,
    elems: *mut RawPartition,
}

macro_rules! symbols {
    ($($name:ident($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        #[derive(Clone, Copy)]
        struct Symbols { $($name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)* }

        impl Symbols {
            /// The types above must be those of the library, which the caller checks by its version.
            unsafe fn of(handle: *mut c_void) -> Result<Self, String> {
                Ok(Self {
                    $($name: std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(
                        symbol(handle, stringify!($name))?,
                    ),)*
                })
            }
        }
    };
}

symbols! {
    rd_kafka_assign(*mut Client, *const RawPartitions) -> c_int;
    rd_kafka_conf_destroy(*mut Conf);
    rd_kafka_conf_new() -> *mut Conf;
    rd_kafka_conf_set(*mut Conf, *const c_char, *const c_char, *mut c_char, usize) -> c_int;
    rd_kafka_conf_set_error_cb(*mut Conf, ErrorCallback);
    rd_kafka_conf_set_events(*mut Conf, c_int);
    rd_kafka_conf_set_opaque(*mut Conf, *mut c_void);
    rd_kafka_consume_batch_queue(*mut Queue, c_int, *mut *mut RawMessage, usize) -> isize;
    rd_kafka_consumer_close(*mut Client) -> c_int;
    rd_kafka_destroy(*mut Client);
    rd_kafka_err2str(c_int) -> *const c_char;
    rd_kafka_event_destroy(*mut Event);
    rd_kafka_event_error(*mut Event) -> c_int;
    rd_kafka_event_error_string(*mut Event) -> *const c_char;
    rd_kafka_event_type(*mut Event) -> c_int;
    rd_kafka_header_get_all(*const Headers, usize, *mut *const c_char, *mut *const u8, *mut usize) -> c_int;
    rd_kafka_message_destroy(*mut RawMessage);
    rd_kafka_message_errstr(*const RawMessage) -> *const c_char;
    rd_kafka_message_headers(*const RawMessage, *mut *mut Headers) -> c_int;
    rd_kafka_message_leader_epoch(*const RawMessage) -> i32;
    rd_kafka_message_timestamp(*const RawMessage, *mut c_int) -> i64;
    rd_kafka_new(c_int, *mut Conf, *mut c_char, usize) -> *mut Client;
    rd_kafka_oauthbearer_set_token(
        *mut Client, *const c_char, i64, *const c_char, *const *const c_char, usize, *mut c_char, usize
    ) -> c_int;
    rd_kafka_oauthbearer_set_token_failure(*mut Client, *const c_char) -> c_int;
    rd_kafka_position(*mut Client, *mut RawPartitions) -> c_int;
    rd_kafka_queue_destroy(*mut Queue);
    rd_kafka_queue_get_consumer(*mut Client) -> *mut Queue;
    rd_kafka_queue_get_main(*mut Client) -> *mut Queue;
    rd_kafka_queue_poll(*mut Queue, c_int) -> *mut Event;
    rd_kafka_topic_partition_list_add(*mut RawPartitions, *const c_char, i32) -> *mut RawPartition;
    rd_kafka_topic_partition_list_destroy(*mut RawPartitions);
    rd_kafka_topic_partition_list_new(c_int) -> *mut RawPartitions;
}

unsafe fn symbol(handle: *mut c_void, name: &str) -> Result<*mut c_void, String> {
    let found = libc::dlsym(handle, text(name)?.as_ptr());
    if found.is_null() {
        return Err(format!("{name} is not among its symbols"));
    }
    Ok(found)
}

/// A text for C. The error does not repeat the text, which may be a secret.
fn text(given: &str) -> Result<CString, String> {
    CString::new(given).map_err(|_| "a text contains a zero byte".to_owned())
}

/// Copy librdkafka's text, which has to end with a zero byte or be null.
unsafe fn copied(given: *const c_char) -> String {
    if given.is_null() {
        return String::new();
    }
    CStr::from_ptr(given).to_string_lossy().into_owned()
}

/// The functions of a librdkafka that is in this process already.
#[derive(Clone, Copy)]
pub struct Library {
    symbols: Symbols,
    pub version: i32,
}

impl Library {
    /// Find the functions through a module that is linked with librdkafka. The error says why they cannot be used.
    pub fn open(module: &str) -> Result<Self, String> {
        let path = text(module)?;
        // SAFETY: RTLD_NOLOAD returns a handle of what is loaded, and runs no code. The handle is never closed.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return Err(format!("{module} is not loaded"));
        }
        // SAFETY: `int rd_kafka_version(void)` is in every version of librdkafka. The types of the others are those of
        // the versions that `check_version` accepts.
        unsafe {
            let address = symbol(handle, "rd_kafka_version")?;
            let version = std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(address)();
            check_version(version)?;
            Ok(Self { symbols: Symbols::of(handle)?, version })
        }
    }
}

/// A version is 0xMMmmrrxx: major, minor, revision, pre-release.
fn check_version(version: i32) -> Result<(), String> {
    let (major, minor) = (version >> 24, version >> 16 & 0xff);
    if major != LEAST_VERSION.0 || minor < LEAST_VERSION.1 {
        let (least_major, least_minor) = LEAST_VERSION;
        return Err(format!("it has version {major}.{minor}, expected {least_major}.{least_minor} or a later {least_major}.x"));
    }
    Ok(())
}

/// An error code of librdkafka with its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: i32,
    pub text: String,
}

pub enum Happened {
    Error(Failure),
    TokenWanted,
}

/// Errors between records, which librdkafka gives to a callback while it is asked for records.
#[derive(Default)]
struct Heard(Mutex<VecDeque<Failure>>);

impl Heard {
    fn list(&self) -> MutexGuard<'_, VecDeque<Failure>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// librdkafka calls this with the pointer that `Consumer::start` sets, and with a text or null.
unsafe extern "C" fn hear(_: *mut Client, code: c_int, said: *const c_char, heard: *mut c_void) {
    let mut list = (*heard.cast::<Heard>()).list();
    list.push_back(Failure { code, text: copied(said) });
    if list.len() > MOST_HEARD {
        list.pop_front();
    }
}

/// A consumer of one partition at a time, without a group.
pub struct Consumer {
    lib: Symbols,
    heard: Box<Heard>,
    client: *mut Client,
    records: *mut Queue,
    events: *mut Queue,
    buffer: Vec<*mut RawMessage>,
}

// SAFETY: librdkafka's functions may be called from any thread; `buffer` is empty between calls.
unsafe impl Send for Consumer {}

impl Consumer {
    /// Start a client with librdkafka's settings. With `takes_tokens`, `event` tells when a token is wanted.
    pub fn start(library: &Library, settings: &[(String, String)], takes_tokens: bool) -> Result<Self, String> {
        let lib = library.symbols;
        let heard = Box::<Heard>::default();
        let mut said = [0 as c_char; SAID_BYTES];
        // SAFETY: `conf` is owned here until `rd_kafka_new` succeeds, and destroyed on every other way out. `said` is
        // as long as its length says, and librdkafka ends what it writes with a zero byte. `heard` stays where it is,
        // and is dropped after the client.
        unsafe {
            let conf = (lib.rd_kafka_conf_new)();
            for (name, value) in settings {
                let set = text(name).and_then(|name| Ok((name, text(value)?)));
                let result = set.and_then(|(name, value)| {
                    match (lib.rd_kafka_conf_set)(conf, name.as_ptr(), value.as_ptr(), said.as_mut_ptr(), SAID_BYTES) {
                        NO_ERROR => Ok(()),
                        _ => Err(copied(said.as_ptr())),
                    }
                });
                if let Err(problem) = result {
                    (lib.rd_kafka_conf_destroy)(conf);
                    return Err(problem);
                }
            }
            (lib.rd_kafka_conf_set_error_cb)(conf, hear);
            (lib.rd_kafka_conf_set_opaque)(conf, (&raw const *heard).cast_mut().cast());
            (lib.rd_kafka_conf_set_events)(conf, EVENT_ERROR | if takes_tokens { EVENT_TOKEN_REFRESH } else { 0 });
            let client = (lib.rd_kafka_new)(CONSUMER, conf, said.as_mut_ptr(), SAID_BYTES);
            if client.is_null() {
                (lib.rd_kafka_conf_destroy)(conf);
                return Err(copied(said.as_ptr()));
            }
            let (records, events) = ((lib.rd_kafka_queue_get_consumer)(client), (lib.rd_kafka_queue_get_main)(client));
            Ok(Self { lib, heard, client, records, events, buffer: Vec::new() })
        }
    }

    /// Read a partition from an offset on, and no other.
    pub fn assign(&mut self, topic: &str, partition: i32, offset: i64) -> Result<(), Failure> {
        let only = Partitions::of_one(self.lib, topic, partition, offset)?;
        // SAFETY: both live; librdkafka copies the list.
        self.result(unsafe { (self.lib.rd_kafka_assign)(self.client, only.list) })
    }

    pub fn unassign(&mut self) -> Result<(), Failure> {
        // SAFETY: a null list is librdkafka's way to assign nothing.
        self.result(unsafe { (self.lib.rd_kafka_assign)(self.client, null()) })
    }

    /// Return the offset after the last record or control record that was passed; negative before the first.
    pub fn position(&mut self, topic: &str, partition: i32) -> Result<i64, Failure> {
        let only = Partitions::of_one(self.lib, topic, partition, 0)?;
        // SAFETY: both live; the list has one element, which librdkafka writes the offset into.
        unsafe {
            self.result((self.lib.rd_kafka_position)(self.client, only.list))?;
            Ok((*(*only.list).elems).offset)
        }
    }

    /// Take up to `most` messages, and wait for them for up to `wait_ms` milliseconds.
    pub fn messages(&mut self, most: usize, wait_ms: i32) -> Messages<'_> {
        self.buffer.resize(most, null_mut());
        // SAFETY: the buffer has room for `most` pointers; librdkafka writes as many as it returns, or returns -1.
        let came = unsafe {
            (self.lib.rd_kafka_consume_batch_queue)(self.records, wait_ms, self.buffer.as_mut_ptr(), self.buffer.len())
        };
        self.buffer.truncate(usize::try_from(came).unwrap_or(0));
        Messages { lib: self.lib, held: &mut self.buffer }
    }

    /// Take what happened next, if anything has, without waiting.
    pub fn event(&mut self) -> Option<Happened> {
        if let Some(failure) = self.heard.list().pop_front() {
            return Some(Happened::Error(failure));
        }
        loop {
            // SAFETY: an event is valid until it is destroyed, and its text as long as it is.
            unsafe {
                let event = (self.lib.rd_kafka_queue_poll)(self.events, 0);
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
                self.client,
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
        unsafe { (self.lib.rd_kafka_oauthbearer_set_token_failure)(self.client, why.as_ptr()) };
    }

    fn result(&self, code: c_int) -> Result<(), Failure> {
        match code {
            NO_ERROR => Ok(()),
            // SAFETY: the text is a constant of the library.
            _ => Err(Failure { code, text: unsafe { copied((self.lib.rd_kafka_err2str)(code)) } }),
        }
    }
}

impl Drop for Consumer {
    /// Leave the cluster in order, and wait for librdkafka's threads.
    fn drop(&mut self) {
        // SAFETY: no message is held, since `Messages` borrow the consumer. Queues have to go before their client.
        unsafe {
            (self.lib.rd_kafka_consumer_close)(self.client);
            (self.lib.rd_kafka_queue_destroy)(self.records);
            (self.lib.rd_kafka_queue_destroy)(self.events);
            (self.lib.rd_kafka_destroy)(self.client);
        }
    }
}

/// A list of partitions that is destroyed when dropped.
struct Partitions {
    lib: Symbols,
    list: *mut RawPartitions,
}

impl Partitions {
    fn of_one(lib: Symbols, topic: &str, partition: i32, offset: i64) -> Result<Self, Failure> {
        let topic = text(topic).map_err(|text| Failure { code: -1, text })?;
        // SAFETY: the new element is valid until the list is destroyed; librdkafka copies the name.
        unsafe {
            let list = (lib.rd_kafka_topic_partition_list_new)(1);
            (*(lib.rd_kafka_topic_partition_list_add)(list, topic.as_ptr(), partition)).offset = offset;
            Ok(Self { lib, list })
        }
    }
}

impl Drop for Partitions {
    fn drop(&mut self) {
        // SAFETY: the list is destroyed once.
        unsafe { (self.lib.rd_kafka_topic_partition_list_destroy)(self.list) };
    }
}

/// Messages that are destroyed when dropped.
pub struct Messages<'a> {
    lib: Symbols,
    held: &'a mut Vec<*mut RawMessage>,
}

impl Messages<'_> {
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
    pub fn headers(&self) -> Result<Option<impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + 'a>, Failure> {
        let mut found = null_mut();
        // SAFETY: the message is valid and owns its headers, which live as long as it does.
        match unsafe { (self.lib.rd_kafka_message_headers)(self.raw, &mut found) } {
            NO_ERROR => {}
            NO_HEADERS => return Ok(None),
            // SAFETY: the text is a constant of the library.
            code => return Err(Failure { code, text: unsafe { copied((self.lib.rd_kafka_err2str)(code)) } }),
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
