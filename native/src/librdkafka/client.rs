//! A consumer, from its settings to its end.

use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::ptr::{null, null_mut};

use super::events::{hear, Heard};
use super::failure::{checked, copied, taken, text, Failure};
use super::messages::Messages;
use super::partitions::{PartitionList, Queue};
use super::symbols::{Client, Conf, Library, RawMessage, Symbols};
use super::NO_ERROR;

const CONSUMER: c_int = 1;
pub(super) const EVENT_ERROR: c_int = 0x8;
pub(super) const EVENT_TOKEN_REFRESH: c_int = 0x100;
pub(super) const SAID_BYTES: usize = 512;
/// Messages that are discarded at once.
const DISCARDED: usize = 1_000;

/// A topic and a partition.
pub type Place = (String, i32);

/// A consumer of partitions without a group. Each partition has a queue: what is fetched of one waits there while
/// another is read. Fields are dropped in their order: queues, the client, and what the client's callback writes to.
pub struct Consumer {
    queues: HashMap<Place, Queue>,
    client_errors: Queue,
    pub(super) events: Queue,
    pub(super) client: Handle,
    pub(super) heard: Box<Heard>,
    pub(super) lib: Symbols,
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
        let client = unsafe {
            let conf = (lib.rd_kafka_conf_new)();
            if let Err(problem) = set_all(&lib, conf, settings) {
                (lib.rd_kafka_conf_destroy)(conf);
                return Err(problem);
            }
            (lib.rd_kafka_conf_set_error_cb)(conf, hear);
            (lib.rd_kafka_conf_set_opaque)(conf, (&raw const *heard).cast_mut().cast());
            (lib.rd_kafka_conf_set_events)(conf, EVENT_ERROR | if takes_tokens { EVENT_TOKEN_REFRESH } else { 0 });
            let client = (lib.rd_kafka_new)(CONSUMER, conf, said.as_mut_ptr(), SAID_BYTES);
            if client.is_null() {
                (lib.rd_kafka_conf_destroy)(conf);
                return Err(copied(said.as_ptr()));
            }
            Handle { lib, raw: client }
        };
        // SAFETY: the client lives.
        let (client_errors, events) = unsafe {
            (
                Queue::taken(lib, (lib.rd_kafka_queue_get_consumer)(client.raw)),
                Queue::taken(lib, (lib.rd_kafka_queue_get_main)(client.raw)),
            )
        };
        let client_errors = client_errors.ok_or("librdkafka made no queue for the consumer: is group.id set?")?;
        let events = events.ok_or("librdkafka made no queue for events")?;
        Ok(Self { queues: HashMap::new(), client_errors, events, client, heard, lib, buffer: Vec::new() })
    }

    /// Read these partitions from these offsets on, and no others.
    pub fn assign(&mut self, starts: &[(Place, i64)]) -> Result<(), Failure> {
        self.unassign()?;
        let list = self.opened(starts)?;
        // SAFETY: both live; librdkafka copies the list.
        checked(&self.lib, unsafe { (self.lib.rd_kafka_assign)(self.client.raw, list.raw) })
    }

    /// Read these partitions as well.
    pub fn add(&mut self, starts: &[(Place, i64)]) -> Result<(), Failure> {
        let list = self.opened(starts)?;
        // SAFETY: as above; the error is taken over.
        unsafe { taken(&self.lib, (self.lib.rd_kafka_incremental_assign)(self.client.raw, list.raw)) }
    }

    /// Read these partitions no longer, and discard what was fetched of them.
    pub fn remove(&mut self, places: &[Place]) -> Result<(), Failure> {
        let list = PartitionList::of(self.lib, places.iter().map(|place| (place, 0)))?;
        // SAFETY: as above.
        unsafe { taken(&self.lib, (self.lib.rd_kafka_incremental_unassign)(self.client.raw, list.raw))? };
        for place in places {
            if let Some(queue) = self.queues.remove(place) {
                self.discard(&queue);
            }
        }
        Ok(())
    }

    pub fn unassign(&mut self) -> Result<(), Failure> {
        // SAFETY: a null list is librdkafka's way to assign nothing.
        checked(&self.lib, unsafe { (self.lib.rd_kafka_assign)(self.client.raw, null()) })?;
        for queue in std::mem::take(&mut self.queues).values() {
            self.discard(queue);
        }
        Ok(())
    }

    /// Return the offset after the last record or control record that was passed; negative before the first.
    pub fn position(&mut self, place: &Place) -> Result<i64, Failure> {
        let only = PartitionList::of(self.lib, std::iter::once((place, 0)))?;
        // SAFETY: both live; librdkafka writes the offset into the list.
        checked(&self.lib, unsafe { (self.lib.rd_kafka_position)(self.client.raw, only.raw) })?;
        Ok(only.only_offset())
    }

    /// Take up to `most` messages of a partition. If there are none, wait for one for up to `wait_ms` milliseconds.
    pub fn messages(&mut self, place: &Place, most: usize, wait_ms: i32) -> Result<Messages<'_>, Failure> {
        let unknown = || Failure::ours(format!("{} [{}] is not assigned", place.0, place.1));
        let queue = self.queues.get(place).ok_or_else(unknown)?;
        self.buffer.resize(most, null_mut());
        let mut came = queue.fill(&mut self.buffer, 0);
        if came == 0 && wait_ms > 0 {
            came = queue.fill(&mut self.buffer[..1], wait_ms);
        }
        self.buffer.truncate(came);
        Ok(Messages::new(self.lib, &mut self.buffer))
    }

    /// Return the next error that concerns no partition, if there is one, without waiting.
    pub fn failure(&mut self) -> Option<Failure> {
        self.buffer.resize(1, null_mut());
        let came = self.client_errors.fill(&mut self.buffer, 0);
        self.buffer.truncate(came);
        let found = Messages::new(self.lib, &mut self.buffer).iter().next()?.failure();
        found
    }

    /// The list of partitions to read, whose queues are open.
    fn opened(&mut self, starts: &[(Place, i64)]) -> Result<PartitionList, Failure> {
        for (place, _) in starts {
            let queue = Queue::of_partition(self.lib, self.client.raw, place)?;
            self.queues.insert(place.clone(), queue);
        }
        PartitionList::of(self.lib, starts.iter().map(|(place, offset)| (place, *offset)))
    }

    /// Destroy the messages of a partition that is not assigned any more: its queue keeps them otherwise.
    fn discard(&mut self, queue: &Queue) {
        loop {
            self.buffer.resize(DISCARDED, null_mut());
            let came = queue.fill(&mut self.buffer, 0);
            self.buffer.truncate(came);
            drop(Messages::new(self.lib, &mut self.buffer));
            if came == 0 {
                return;
            }
        }
    }
}

/// The settings have to be destroyed by the caller.
unsafe fn set_all(lib: &Symbols, conf: *mut Conf, settings: &[(String, String)]) -> Result<(), String> {
    let mut said = [0 as c_char; SAID_BYTES];
    for (name, value) in settings {
        let (name, value) = (text(name)?, text(value)?);
        let set = (lib.rd_kafka_conf_set)(conf, name.as_ptr(), value.as_ptr(), said.as_mut_ptr(), SAID_BYTES);
        if set != NO_ERROR {
            return Err(copied(said.as_ptr()));
        }
    }
    Ok(())
}

/// A client that leaves the cluster in order when dropped, and waits for librdkafka's threads.
pub(super) struct Handle {
    lib: Symbols,
    pub raw: *mut Client,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: no message is held, since `Messages` borrow the consumer, and no queue: they are dropped first.
        unsafe {
            (self.lib.rd_kafka_consumer_close)(self.raw);
            (self.lib.rd_kafka_destroy)(self.raw);
        }
    }
}
