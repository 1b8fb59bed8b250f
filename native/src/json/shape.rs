//! The shape of a payload, which Python sends as JSON.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use serde::Deserialize;

use crate::columns::Strings;

/// The shape of a payload: an object, or any other value, which becomes the column of its only member.
#[derive(Deserialize)]
pub struct Row {
    pub fields: Object,
    pub is_object: bool,
    pub keeps_extra: bool,
    pub slots: u64,
}

/// A declared property: `key` is its name in JSON, `name` that of its column.
#[derive(Deserialize)]
pub struct Member {
    pub key: String,
    pub name: String,
    pub shape: Shape,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Shape {
    Nothing,
    Boolean,
    Int,
    Long,
    WholeInt,
    WholeLong,
    Float,
    Double,
    String,
    Base64,
    Date,
    Time,
    Timestamp,
    DateDays,
    TimeMillis,
    TimestampMillis,
    Json,
    Decimal { precision: u8, scale: i8, takes_base64: bool },
    Array { items: Box<Shape>, slots: u64 },
    Map { values: Box<Shape>, slots: u64 },
    Object { fields: Object },
}

/// An object with declared properties.
#[derive(Deserialize)]
#[serde(from = "Vec<Member>")]
pub struct Object {
    pub members: Vec<Member>,
    /// The place of each member among the columns; None for a member without one.
    pub places: Vec<Option<usize>>,
    /// Each key as most writers write it, with the colon; empty if it needs escapes.
    written: Vec<Vec<u8>>,
    by_key: HashMap<Vec<u8>, usize>,
}

impl From<Vec<Member>> for Object {
    fn from(members: Vec<Member>) -> Self {
        let mut columns = 0..;
        let places = members.iter().map(|each| each.has_column().then(|| columns.next()).flatten()).collect();
        let written = members.iter().map(|each| written(&each.key)).collect();
        let by_key = members.iter().enumerate().map(|(index, each)| (each.key.as_bytes().to_vec(), index)).collect();
        Self { members, places, written, by_key }
    }
}

fn written(key: &str) -> Vec<u8> {
    let is_plain = key.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    if is_plain { format!("\"{key}\":").into_bytes() } else { Vec::new() }
}

impl Object {
    /// Return the length of the key and the colon that the text begins with, if they are those of this member.
    #[inline]
    pub fn begins_with(&self, text: &[u8], member: usize) -> Option<usize> {
        let written = self.written.get(member)?;
        (!written.is_empty() && text.starts_with(written)).then_some(written.len())
    }

    pub fn member(&self, key: &[u8]) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    pub fn with_columns(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.has_column())
    }

    pub fn arrow_fields(&self) -> Vec<FieldRef> {
        self.with_columns().map(|member| member.shape.field(&member.name)).collect()
    }
}

impl Member {
    fn has_column(&self) -> bool {
        !matches!(self.shape, Shape::Nothing)
    }
}

impl Shape {
    /// Return whether undeclared fields may be inside.
    pub fn has_parts(&self) -> bool {
        matches!(self, Self::Array { .. } | Self::Map { .. } | Self::Object { .. })
    }

    /// The type of the column, the same as that of `arrow_type` in Python.
    pub fn arrow_type(&self) -> DataType {
        match self {
            Self::Nothing => DataType::Null,
            Self::Boolean => DataType::Boolean,
            Self::Int | Self::WholeInt => DataType::Int32,
            Self::Long | Self::WholeLong => DataType::Int64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::String | Self::Json => Strings::DATA_TYPE,
            Self::Base64 => DataType::LargeBinary,
            Self::Date | Self::DateDays => DataType::Date32,
            Self::Time | Self::TimeMillis => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp | Self::TimestampMillis => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Decimal { precision, scale, .. } => DataType::Decimal128(*precision, *scale),
            Self::Array { items, .. } => DataType::LargeList(items.field("item")),
            Self::Map { values, .. } => DataType::Map(entries_field(values), false),
            Self::Object { fields } => DataType::Struct(fields.arrow_fields().into()),
        }
    }

    pub fn field(&self, name: &str) -> FieldRef {
        Arc::new(Field::new(name, self.arrow_type(), true))
    }
}

fn entries_field(values: &Shape) -> FieldRef {
    let entries: Fields = vec![Arc::new(Field::new("key", Strings::DATA_TYPE, false)), values.field("value")].into();
    Arc::new(Field::new("entries", DataType::Struct(entries), false))
}
