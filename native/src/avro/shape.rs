//! The shape of a payload, which Python sends as JSON: the schema with every reference resolved.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use serde::Deserialize;

use crate::columns::Strings;

#[derive(Deserialize)]
pub struct Member {
    pub name: String,
    pub shape: Shape,
}

/// The size of an item of an array or a map: its least number of bytes, and the slots in columns that it fills.
#[derive(Deserialize)]
pub struct Item {
    pub least: u64,
    pub slots: u64,
}

/// A type of the schema.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Shape {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Date,
    TimeMillis,
    TimeMicros,
    TimestampMillis { utc: bool },
    TimestampMicros { utc: bool },
    TimestampNanos { utc: bool },
    Fixed { size: usize },
    Uuid,
    Decimal { precision: u8, scale: i8, size: Option<usize> },
    Enum { symbols: Vec<String> },
    Array { items: Box<Shape>, item: Item },
    Map { values: Box<Shape>, item: Item },
    Record { fields: Vec<Member> },
    Union { branches: Vec<Member> },
    /// A record in an optional column whose values are kept without the nulls, as a list of no or one record.
    Packed { of: Box<Shape> },
    /// Fields of a record that are read by the rules, and kept in no column: a record of them, without a name.
    Skipped { of: Box<Shape> },
}

/// How a table represents a union.
pub enum Variants<'a> {
    /// The union has one branch that is not null. The table has that branch's type; the number is its index.
    One(usize, &'a Shape),
    /// Any other union: a struct with one column per branch.
    Many,
}

pub fn variants(branches: &[Member]) -> Variants<'_> {
    let mut values = branches.iter().enumerate().filter(|(_, b)| !matches!(b.shape, Shape::Null));
    match (values.next(), values.next()) {
        (Some((index, only)), None) => Variants::One(index, &only.shape),
        _ => Variants::Many,
    }
}

impl Shape {
    /// The type of the converted column, the same as that of `arrow_type` in Python.
    pub fn arrow_type(&self) -> DataType {
        let utc = |utc: bool| DataType::Timestamp(TimeUnit::Microsecond, utc.then(|| "UTC".into()));
        match self {
            Self::Null | Self::Skipped { .. } => DataType::Null,
            Self::Boolean => DataType::Boolean,
            Self::Int => DataType::Int32,
            Self::Long => DataType::Int64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Bytes => DataType::LargeBinary,
            Self::String | Self::Enum { .. } => Strings::DATA_TYPE,
            Self::Date => DataType::Date32,
            Self::TimeMillis | Self::TimeMicros => DataType::Time64(TimeUnit::Microsecond),
            Self::TimestampMillis { utc: zone } => utc(*zone),
            Self::TimestampMicros { utc: zone } | Self::TimestampNanos { utc: zone } => utc(*zone),
            Self::Fixed { size } => DataType::FixedSizeBinary(*size as i32),
            Self::Uuid => DataType::FixedSizeBinary(16),
            Self::Decimal { precision, scale, .. } => DataType::Decimal128(*precision, *scale),
            Self::Array { items, .. } | Self::Packed { of: items } => DataType::LargeList(items.field("item")),
            Self::Map { values, .. } => DataType::Map(entries_field(values), false),
            Self::Record { fields } => DataType::Struct(kept_fields(fields)),
            Self::Union { branches } => match variants(branches) {
                Variants::One(_, only) => only.arrow_type(),
                Variants::Many => DataType::Struct(branch_fields(branches)),
            },
        }
    }

    pub fn field(&self, name: &str) -> FieldRef {
        let field = Field::new(name, self.arrow_type(), true);
        if self.is_uuid() {
            let marks = [("ARROW:extension:name", "arrow.uuid"), ("ARROW:extension:metadata", "")];
            let marks: HashMap<String, String> = marks.map(|(key, value)| (key.into(), value.into())).into();
            return Arc::new(field.with_metadata(marks));
        }
        Arc::new(field)
    }

    fn is_uuid(&self) -> bool {
        match self {
            Self::Uuid => true,
            Self::Union { branches } => matches!(variants(branches), Variants::One(_, only) if only.is_uuid()),
            _ => false,
        }
    }
}

impl Member {
    pub fn field(&self) -> FieldRef {
        self.shape.field(&self.name)
    }
}

/// The fields of a record that have a column.
pub fn kept_fields(fields: &[Member]) -> Fields {
    fields.iter().filter(|field| !matches!(field.shape, Shape::Skipped { .. })).map(Member::field).collect()
}

pub fn branch_fields(branches: &[Member]) -> Fields {
    branches.iter().filter(|branch| !matches!(branch.shape, Shape::Null)).map(Member::field).collect()
}

pub fn entry_fields(values: &Shape) -> Fields {
    vec![Arc::new(Field::new("key", Strings::DATA_TYPE, false)), values.field("value")].into()
}

pub fn entries_field(values: &Shape) -> FieldRef {
    Arc::new(Field::new("entries", DataType::Struct(entry_fields(values)), false))
}
