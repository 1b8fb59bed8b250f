//! The librdkafka that confluent-kafka brings, behind a safe interface.
//!
//! Only this module has `unsafe` code. What that code relies on:
//!
//! - **Function types.** A symbol is only an address; its type is written in `symbols.rs`, after librdkafka's header.
//!   Major version 2 promises these signatures and the layout of the three public structs; `Library::open` refuses any
//!   other version.
//! - **Lifetimes.** librdkafka owns a message's key, value and headers until `rd_kafka_message_destroy`. `Messages` calls
//!   it once for each, when dropped; a `Message` borrows from its `Messages`, and what it returns borrows from it. A
//!   `Queue` is dropped before its client.
//! - **Lengths.** Bytes are read only where a pointer is not null, with the length that librdkafka gives beside it.
//! - **Threads.** A client may be used from any thread. The only callback, `hear`, keeps a text in memory and never enters
//!   Python: errors and requests for a token wait in queues until `event` takes them.

mod client;
mod events;
mod failure;
mod messages;
mod partitions;
mod symbols;

pub use client::{Consumer, Place};
pub use events::Happened;
pub use failure::Failure;
pub use messages::Message;
pub use symbols::Library;

pub const END_OF_PARTITION: i32 = -191;

const NO_ERROR: std::ffi::c_int = 0;
