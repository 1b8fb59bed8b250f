//! The functions of librdkafka, found by name, and its public structs.

use std::ffi::{c_char, c_int, c_void};

use super::failure::text;

const LEAST_VERSION: (i32, i32) = (2, 3);

pub(super) type ErrorCallback = unsafe extern "C" fn(*mut Client, c_int, *const c_char, *mut c_void);

pub(super) enum Conf {}
pub(super) enum Client {}
pub(super) enum RawQueue {}
pub(super) enum Event {}
pub(super) enum Error {}
pub(super) enum Headers {}

/// `rd_kafka_message_t`
#[repr(C)]
pub(super) struct RawMessage {
    pub(super) err: c_int,
    topic: *mut c_void,
    pub(super) partition: i32,
    pub(super) payload: *const u8,
    pub(super) len: usize,
    pub(super) key: *const u8,
    pub(super) key_len: usize,
    pub(super) offset: i64,
    private: *mut c_void,
}

/// `rd_kafka_topic_partition_t`
#[repr(C)]
pub(super) struct RawPartition {
    topic: *mut c_char,
    pub(super) partition: i32,
    pub(super) offset: i64,
    metadata: *mut c_void,
    metadata_size: usize,
    opaque: *mut c_void,
    pub(super) err: c_int,
    private: *mut c_void,
}

/// `rd_kafka_topic_partition_list_t`
#[repr(C)]
pub(super) struct RawPartitions {
    cnt: c_int,
    size: c_int,
    pub(super) elems: *mut RawPartition,
}

macro_rules! symbols {
    ($($name:ident($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        #[derive(Clone, Copy)]
        pub(super) struct Symbols { $(pub(super) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)* }

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
    rd_kafka_consume_batch_queue(*mut RawQueue, c_int, *mut *mut RawMessage, usize) -> isize;
    rd_kafka_consumer_close(*mut Client) -> c_int;
    rd_kafka_destroy(*mut Client);
    rd_kafka_err2str(c_int) -> *const c_char;
    rd_kafka_error_code(*const Error) -> c_int;
    rd_kafka_error_destroy(*mut Error);
    rd_kafka_error_string(*const Error) -> *const c_char;
    rd_kafka_event_destroy(*mut Event);
    rd_kafka_event_error(*mut Event) -> c_int;
    rd_kafka_event_error_string(*mut Event) -> *const c_char;
    rd_kafka_event_type(*mut Event) -> c_int;
    rd_kafka_header_get_all(*const Headers, usize, *mut *const c_char, *mut *const u8, *mut usize) -> c_int;
    rd_kafka_incremental_assign(*mut Client, *const RawPartitions) -> *mut Error;
    rd_kafka_incremental_unassign(*mut Client, *const RawPartitions) -> *mut Error;
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
    rd_kafka_queue_destroy(*mut RawQueue);
    rd_kafka_queue_forward(*mut RawQueue, *mut RawQueue);
    rd_kafka_queue_get_consumer(*mut Client) -> *mut RawQueue;
    rd_kafka_queue_get_main(*mut Client) -> *mut RawQueue;
    rd_kafka_queue_get_partition(*mut Client, *const c_char, i32) -> *mut RawQueue;
    rd_kafka_queue_poll(*mut RawQueue, c_int) -> *mut Event;
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

/// The functions of a librdkafka that is in this process already.
#[derive(Clone, Copy)]
pub struct Library {
    pub(super) symbols: Symbols,
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
