//! Kafka records as columns of Arrow.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{
    ArrayBuilder, Int32Builder, Int64Builder, Int8Builder, LargeBinaryBuilder, LargeListBuilder,
    StringBuilder, StructBuilder,
};
use arrow_array::{Array, DictionaryArray, StringArray};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, Fields};

use crate::librdkafka::Message;

const TIMESTAMP_TYPES: [&str; 2] = ["CREATE_TIME", "LOG_APPEND_TIME"];
const NO_TIMESTAMP: i64 = -1;
/// The memory of a header without its key and value, about. `records.py` has the same constant.
const HEADER_MEMORY: usize = 64;

static HEADER: LazyLock<Fields> = LazyLock::new(|| {
    Fields::from(vec![
        Field::new("key", DataType::LargeBinary, false),
        Field::new("value", DataType::LargeBinary, true),
    ])
});

/// The columns of records. Keys, values and headers have 64-bit offsets, so that no batch is too large for them.
pub struct BatchBuilder {
    offsets: Int64Builder,
    timestamps_ms: Int64Builder,
    timestamp_types: Int8Builder,
    leader_epochs: Int32Builder,
    keys: LargeBinaryBuilder,
    values: LargeBinaryBuilder,
    headers: LargeListBuilder<StructBuilder>,
    headers_problems: StringBuilder,
    memory: usize,
}

impl BatchBuilder {
    /// With room for so many records, whose values have so many bytes together.
    pub fn new(records: usize, value_bytes: usize) -> Self {
        let header = StructBuilder::from_fields(HEADER.clone(), 0);
        Self {
            offsets: Int64Builder::with_capacity(records),
            timestamps_ms: Int64Builder::with_capacity(records),
            timestamp_types: Int8Builder::with_capacity(records),
            leader_epochs: Int32Builder::with_capacity(records),
            keys: LargeBinaryBuilder::with_capacity(records, 0),
            values: LargeBinaryBuilder::with_capacity(records, value_bytes),
            headers: LargeListBuilder::new(header).with_field(Field::new("item", DataType::Struct(HEADER.clone()), false)),
            headers_problems: StringBuilder::new(),
            memory: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// The memory of keys, values and headers, about.
    pub fn memory(&self) -> usize {
        self.memory
    }

    pub fn value_bytes(&self) -> usize {
        self.values.values_slice().len()
    }

    pub fn add(&mut self, message: &Message<'_>) {
        let (stamp, kind) = message.timestamp();
        self.offsets.append_value(message.offset());
        self.timestamps_ms.append_option((stamp != NO_TIMESTAMP).then_some(stamp));
        self.timestamp_types.append_option(i8::try_from(kind - 1).ok().filter(|kind| (0..2).contains(kind)));
        self.leader_epochs.append_option(message.leader_epoch());
        self.memory += message.key().map_or(0, <[u8]>::len) + message.value().map_or(0, <[u8]>::len);
        self.keys.append_option(message.key());
        self.values.append_option(message.value());
        self.add_headers(message);
    }

    fn add_headers(&mut self, message: &Message<'_>) {
        let (headers, problem) = match message.headers() {
            Ok(headers) => (headers, None),
            Err(failure) => (None, Some(failure.text)),
        };
        self.headers_problems.append_option(problem);
        let Some(headers) = headers else {
            self.headers.append_null();
            return;
        };
        let each = self.headers.values();
        for (key, value) in headers {
            self.memory += key.len() + value.map_or(0, <[u8]>::len) + HEADER_MEMORY;
            if let Some(keys) = each.field_builder::<LargeBinaryBuilder>(0) {
                keys.append_value(key);
            }
            if let Some(values) = each.field_builder::<LargeBinaryBuilder>(1) {
                values.append_option(value);
            }
            each.append(true);
        }
        self.headers.append(true);
    }

    /// Return offsets, timestamps in milliseconds, types of timestamps, leader epochs, keys, values, headers, and what
    /// is wrong with headers. They are apart: one that is kept must not keep the memory of the others.
    pub fn finish(mut self) -> Result<Vec<ArrayData>, ArrowError> {
        let names = Arc::new(StringArray::from(TIMESTAMP_TYPES.to_vec()));
        Ok(vec![
            self.offsets.finish().into_data(),
            self.timestamps_ms.finish().into_data(),
            DictionaryArray::try_new(self.timestamp_types.finish(), names)?.into_data(),
            self.leader_epochs.finish().into_data(),
            self.keys.finish().into_data(),
            self.values.finish().into_data(),
            self.headers.finish().into_data(),
            self.headers_problems.finish().into_data(),
        ])
    }
}
