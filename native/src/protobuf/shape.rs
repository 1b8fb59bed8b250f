//! The shape of a payload, which Python sends as JSON: the message with every type resolved.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use serde::Deserialize;

use crate::columns::Strings;

/// Field numbers up to this one are looked up in a table.
const MOST_DIRECT: usize = 1 << 10;
const ABSENT: u32 = u32::MAX;

/// What Python sends for a writer schema.
#[derive(Deserialize)]
pub struct Root {
    pub message: Message,
    /// The path of indexes of the message that makes the rows.
    pub path: Vec<i32>,
    /// The full names of the file's messages by path.
    pub names: Vec<(Vec<i32>, String)>,
}

#[derive(Deserialize)]
#[serde(from = "Members")]
pub struct Message {
    pub fields: Vec<Member>,
    /// The indexes of the fields of each oneof.
    pub oneofs: Vec<Vec<usize>>,
    direct: Vec<u32>,
    others: Vec<(u32, usize)>,
}

#[derive(Deserialize)]
struct Members {
    fields: Vec<Member>,
}

#[derive(Deserialize)]
pub struct Member {
    pub name: String,
    pub number: u32,
    pub shape: Shape,
    /// Whether the column is null if the field is absent; otherwise it has the type's default value.
    pub optional: bool,
    pub oneof: Option<usize>,
}

/// A scalar type, by its name in `.proto` files.
#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Scalar {
    Int32,
    Sint32,
    Sfixed32,
    Uint32,
    Fixed32,
    Int64,
    Sint64,
    Sfixed64,
    Uint64,
    Fixed64,
    Float,
    Double,
    Bool,
    String,
    Bytes,
}

/// A type of the schema. `slots` are those in columns that an item of a list or a map fills.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Shape {
    Scalar { scalar: Scalar },
    Enum { symbols: Symbols, default: i32 },
    Message { message: Message },
    /// A message without fields: a struct that says whether it is present.
    Empty,
    /// A message with the one field `value`, of which only the value is kept.
    Wrapper { scalar: Scalar },
    Timestamp,
    Duration,
    Date,
    TimeOfDay,
    Decimal { precision: u8, scale: i8 },
    List { element: Box<Shape>, slots: u64 },
    Map { key: Box<Shape>, value: Box<Shape>, slots: u64 },
}

/// The symbols of an enum in the order of their numbers.
#[derive(Deserialize)]
pub struct Symbols(Vec<(i32, String)>);

impl Symbols {
    /// The symbol of a number: mostly it is at the number's own place.
    pub fn get(&self, number: i32) -> Option<&str> {
        let direct = usize::try_from(number).ok().and_then(|place| self.0.get(place)).filter(|(n, _)| *n == number);
        let found = direct.or_else(|| Some(&self.0[self.0.binary_search_by_key(&number, |(n, _)| *n).ok()?]));
        found.map(|(_, symbol)| symbol.as_str())
    }
}

/// Return the indexes of the fields of each oneof.
fn oneofs(fields: &[Member]) -> Vec<Vec<usize>> {
    let count = fields.iter().filter_map(|field| field.oneof).max().map_or(0, |most| most + 1);
    let mut oneofs = vec![Vec::new(); count];
    for (index, field) in fields.iter().enumerate() {
        if let Some(oneof) = field.oneof {
            oneofs[oneof].push(index);
        }
    }
    oneofs
}

impl From<Members> for Message {
    fn from(members: Members) -> Self {
        let mut fields = members.fields;
        let oneofs = oneofs(&fields);
        for field in &mut fields {
            // an optional field of proto3 has a oneof of its own, in which no other field is cleared
            field.oneof = field.oneof.filter(|&oneof| oneofs[oneof].len() > 1);
        }
        let (mut direct, mut others) = (Vec::new(), Vec::new());
        for (index, field) in fields.iter().enumerate() {
            let number = field.number as usize;
            if number > MOST_DIRECT {
                others.push((field.number, index));
                continue;
            }
            if direct.len() <= number {
                direct.resize(number + 1, ABSENT);
            }
            direct[number] = index as u32;
        }
        others.sort_unstable();
        Self { fields, oneofs, direct, others }
    }
}

impl Message {
    /// Return the index of the field with this number.
    #[inline]
    pub fn index_of(&self, number: u32) -> Option<usize> {
        match self.direct.get(number as usize) {
            Some(&index) if index != ABSENT => Some(index as usize),
            Some(_) => None,
            None => Some(self.others[self.others.binary_search_by_key(&number, |(n, _)| *n).ok()?].1),
        }
    }
}

impl Scalar {
    fn arrow_type(self) -> DataType {
        match self {
            Self::Int32 | Self::Sint32 | Self::Sfixed32 => DataType::Int32,
            Self::Uint32 | Self::Fixed32 | Self::Int64 | Self::Sint64 | Self::Sfixed64 => DataType::Int64,
            Self::Uint64 | Self::Fixed64 => DataType::Decimal128(20, 0),
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Bool => DataType::Boolean,
            Self::String => Strings::DATA_TYPE,
            Self::Bytes => DataType::LargeBinary,
        }
    }
}

impl Shape {
    /// The type of the column, the same as that of `arrow_type` in Python.
    pub fn arrow_type(&self) -> DataType {
        match self {
            Self::Scalar { scalar } | Self::Wrapper { scalar } => scalar.arrow_type(),
            Self::Enum { .. } => Strings::DATA_TYPE,
            Self::Message { message } => DataType::Struct(message.fields.iter().map(Member::field).collect()),
            Self::Empty => DataType::Struct(vec![Field::new("present", DataType::Boolean, true)].into()),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Duration => DataType::Int64,
            Self::Date => DataType::Date32,
            Self::TimeOfDay => DataType::Time64(TimeUnit::Microsecond),
            Self::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale),
            Self::List { element, .. } => DataType::LargeList(element.field("item", true)),
            Self::Map { key, value, .. } => {
                let entries = DataType::Struct(vec![key.field("key", false), value.field("value", true)].into());
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
        }
    }

    fn field(&self, name: &str, nullable: bool) -> FieldRef {
        Arc::new(Field::new(name, self.arrow_type(), nullable))
    }
}

impl Member {
    pub fn field(&self) -> FieldRef {
        self.shape.field(&self.name, true)
    }
}
