//! Lists of partitions, and the queues that their records wait in.

use std::ptr::null_mut;

use super::client::Place;
use super::failure::{text, Failure};
use super::symbols::{Client, RawMessage, RawPartitions, RawQueue, Symbols};

/// A list of partitions that is destroyed when dropped.
pub(super) struct PartitionList {
    lib: Symbols,
    pub raw: *mut RawPartitions,
}

impl PartitionList {
    pub fn of<'a>(lib: Symbols, places: impl Iterator<Item = (&'a Place, i64)>) -> Result<Self, Failure> {
        // SAFETY: an empty list; the size is a hint.
        let list = Self { lib, raw: unsafe { (lib.rd_kafka_topic_partition_list_new)(1) } };
        for ((topic, partition), offset) in places {
            let topic = text(topic).map_err(Failure::ours)?;
            // SAFETY: librdkafka copies the name; the new element is valid until the list grows or is destroyed.
            unsafe {
                let added = (lib.rd_kafka_topic_partition_list_add)(list.raw, topic.as_ptr(), *partition);
                (*added).offset = offset;
            }
        }
        Ok(list)
    }

    /// The offset of the only partition.
    pub fn only_offset(&self) -> i64 {
        // SAFETY: the list has one element, until it is destroyed.
        unsafe { (*(*self.raw).elems).offset }
    }
}

impl Drop for PartitionList {
    fn drop(&mut self) {
        // SAFETY: the list is destroyed once.
        unsafe { (self.lib.rd_kafka_topic_partition_list_destroy)(self.raw) };
    }
}

/// A queue of a client, which has to be dropped before the client.
pub(super) struct Queue {
    lib: Symbols,
    pub raw: *mut RawQueue,
}

impl Queue {
    /// The pointer has to be one that librdkafka has just returned, or null.
    pub unsafe fn taken(lib: Symbols, raw: *mut RawQueue) -> Option<Self> {
        (!raw.is_null()).then_some(Self { lib, raw })
    }

    /// The records of one partition, which from now on do not come through the queue of the whole client.
    pub fn of_partition(lib: Symbols, client: *mut Client, place: &Place) -> Result<Self, Failure> {
        let topic = text(&place.0).map_err(Failure::ours)?;
        // SAFETY: the client lives, the name outlives the call; forwarding to null ends any forwarding.
        unsafe {
            let found = Self::taken(lib, (lib.rd_kafka_queue_get_partition)(client, topic.as_ptr(), place.1));
            let queue = found.ok_or_else(|| Failure::ours(format!("{} [{}] has no queue", place.0, place.1)))?;
            (lib.rd_kafka_queue_forward)(queue.raw, null_mut());
            Ok(queue)
        }
    }

    /// Put messages into the buffer, as many as it has room for, and wait for them for so many milliseconds.
    ///
    /// Returns how many there are. They have to be destroyed.
    pub fn fill(&self, buffer: &mut [*mut RawMessage], wait_ms: i32) -> usize {
        // SAFETY: librdkafka writes at most so many pointers; it returns how many, or -1.
        let came = unsafe {
            (self.lib.rd_kafka_consume_batch_queue)(self.raw, wait_ms, buffer.as_mut_ptr(), buffer.len())
        };
        usize::try_from(came).unwrap_or(0)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue is given back once.
        unsafe { (self.lib.rd_kafka_queue_destroy)(self.raw) };
    }
}
