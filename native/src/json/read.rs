//! Read JSON values into columns.

use std::borrow::Cow;

use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::DataType;

use crate::columns::{offsets, Column, Entries, Field, Texts, Values};
use crate::faults::Checked;
use crate::json::shape::{Object, Shape};
use crate::json::walk::{duplicate, wrong, Seen, Walk};
use crate::json::{numbers, texts};

static KEY: Shape = Shape::String;

/// How values of a column are read.
pub struct Reading<'s> {
    pub shape: &'s Shape,
}

impl Field for Reading<'_> {
    fn arrow_type(&self) -> DataType {
        self.shape.arrow_type()
    }
}

pub type JsonColumn<'c, 's> = Column<'c, Reading<'s>>;

/// The columns of an object.
pub fn columns(object: &Object, capacity: usize) -> Vec<JsonColumn<'_, '_>> {
    object.with_columns().map(|member| column(&member.shape, capacity)).collect()
}

pub fn column(shape: &Shape, capacity: usize) -> JsonColumn<'_, '_> {
    Column::new(Reading { shape }, values(shape, capacity), capacity)
}

fn values(shape: &Shape, capacity: usize) -> Values<'_, Reading<'_>> {
    match shape {
        Shape::Nothing => Values::Null,
        Shape::Boolean => Values::Boolean(BooleanBufferBuilder::new(capacity)),
        Shape::Int | Shape::WholeInt | Shape::Date | Shape::DateDays => Values::Int(Vec::with_capacity(capacity)),
        Shape::Long | Shape::WholeLong => Values::Long(Vec::with_capacity(capacity)),
        Shape::Time | Shape::TimeMillis | Shape::Timestamp | Shape::TimestampMillis => {
            Values::Micros(Vec::with_capacity(capacity))
        }
        Shape::Float => Values::Float(Vec::with_capacity(capacity)),
        Shape::Double => Values::Double(Vec::with_capacity(capacity)),
        Shape::Decimal { .. } => Values::Decimal(Vec::with_capacity(capacity)),
        Shape::String | Shape::Json => Values::String(Texts::new(capacity)),
        Shape::Base64 => Values::Bytes(Texts::new(capacity)),
        Shape::Array { items, .. } => Values::List(offsets(capacity), Box::new(column(items, 0))),
        Shape::Map { values, .. } => {
            Values::Map(offsets(capacity), Box::new(Entries::new(column(&KEY, 0), column(values, 0))))
        }
        Shape::Object { fields } => Values::Struct(columns(fields, capacity)),
    }
}

/// Read one value. If it breaks a rule, the column has to be truncated.
#[inline]
pub fn read<'s: 'p, 'p>(column: &mut JsonColumn<'_, 's>, walk: &mut Walk<'p>) -> Checked {
    let first = walk.next()?;
    if first == b'n' {
        walk.literal(first)?;
        column.append_null();
        return Ok(());
    }
    column.nulls.append_non_null();
    match (&mut column.values, column.field.shape) {
        (Values::String(texts), Shape::String) => texts.append(&walk.text(first)?),
        (Values::Long(values), shape) => values.push(walk.integer(first, 64, matches!(shape, Shape::WholeLong))?),
        (Values::Double(values), _) => values.push(numbers::double(walk.float(first)?)?),
        (Values::Micros(values), Shape::Timestamp) => {
            let (micros, is_cut) = texts::timestamp(&walk.text(first)?)?;
            walk.used.truncated_nanos += u64::from(is_cut);
            values.push(micros);
        }
        (Values::Boolean(values), _) => {
            if first != b't' && first != b'f' {
                return wrong("true or false", first);
            }
            walk.literal(first)?;
            values.append(first == b't');
        }
        _ => read_other(column, first, walk)?,
    }
    Ok(())
}

#[inline(never)]
fn read_other<'s: 'p, 'p>(column: &mut JsonColumn<'_, 's>, first: u8, walk: &mut Walk<'p>) -> Checked {
    let shape = column.field.shape;
    match (&mut column.values, shape) {
        (Values::String(texts), _) => {
            let mut text = Vec::new();
            walk.json_text(&mut text)?;
            texts.append(&text);
        }
        (Values::Bytes(bytes), _) => bytes.append(&texts::base64(&walk.text(first)?)?),
        (Values::Int(values), Shape::Date) => values.push(texts::date(&walk.text(first)?)?),
        (Values::Int(values), _) => values.push(walk.integer(first, 32, !matches!(shape, Shape::Int))? as i32),
        (Values::Float(values), _) => values.push(numbers::single(walk.float(first)?)?),
        (Values::Micros(values), Shape::Time) => {
            let (micros, is_cut) = texts::time(&walk.text(first)?)?;
            walk.used.truncated_nanos += u64::from(is_cut);
            values.push(micros);
        }
        (Values::Micros(values), _) => {
            let millis = walk.integer(first, 64, true)?;
            let is_time = matches!(shape, Shape::TimeMillis);
            values.push(if is_time { numbers::time_of_millis(millis)? } else { numbers::timestamp_of_millis(millis)? });
        }
        (Values::Decimal(values), Shape::Decimal { precision, scale, takes_base64 }) => {
            let expected = if *takes_base64 { "a number or base64" } else { "a number" };
            values.push(match first {
                b'"' if *takes_base64 => texts::decimal(&walk.text(first)?, *precision, *scale)?,
                _ => numbers::decimal(walk.number(first, expected)?, *precision, *scale)?,
            })
        }
        (Values::List(ends, items), Shape::Array { slots, .. }) => {
            read_items(items, first, *slots, walk)?;
            ends.push(items.len() as i64);
        }
        (Values::Map(ends, entries), Shape::Map { slots, .. }) => {
            read_entries(entries, first, *slots, walk)?;
            ends.push(entries.values.len() as i32);
        }
        (Values::Struct(columns), Shape::Object { fields }) => {
            let before = column.nulls.len() - 1;
            read_members(fields, columns, before, first, walk)?;
        }
        _ => unreachable!("columns are made from their shapes"),
    }
    Ok(())
}

fn read_items<'s: 'p, 'p>(
    items: &mut JsonColumn<'_, 's>,
    first: u8,
    slots: u64,
    walk: &mut Walk<'p>,
) -> Checked {
    if first != b'[' {
        return wrong("an array", first);
    }
    let mut more = walk.enter(b']')?;
    let mut index = 0;
    while more {
        walk.used.reserve(slots)?;
        walk.step_to(index);
        read(items, walk).map_err(|fault| fault.inside("[]"))?;
        walk.step_back();
        index += 1;
        more = walk.separator(b']')?;
    }
    walk.leave();
    Ok(())
}

fn read_entries<'s: 'p, 'p>(
    entries: &mut Entries<'_, Reading<'s>>,
    first: u8,
    slots: u64,
    walk: &mut Walk<'p>,
) -> Checked {
    if first != b'{' {
        return wrong("an object", first);
    }
    let mut seen = Seen::default();
    let mut more = walk.enter(b'}')?;
    while more {
        walk.used.reserve(slots)?;
        let key = read_key(&mut entries.keys, &mut seen, walk).map_err(|fault| fault.inside("{key}"))?;
        walk.step_into(key);
        walk.colon().and_then(|()| read(&mut entries.values, walk)).map_err(|fault| fault.inside("{}"))?;
        walk.step_back();
        more = walk.separator(b'}')?;
    }
    walk.leave();
    Ok(())
}

fn read_key<'p>(keys: &mut JsonColumn<'_, '_>, seen: &mut Seen<'p>, walk: &mut Walk<'p>) -> Checked<Cow<'p, str>> {
    walk.space();
    let at = walk.at;
    let key = walk.key()?;
    if let Values::String(texts) = &mut keys.values {
        keys.nulls.append_non_null();
        texts.append(&key);
    }
    let name = match &key {
        Cow::Borrowed(key) => String::from_utf8_lossy(key),
        Cow::Owned(key) => Cow::Owned(String::from_utf8_lossy(key).into_owned()),
    };
    if seen.insert(key) { Ok(name) } else { duplicate(at) }
}

/// Read the properties of an object into the columns, which have `before` values. Properties that it lacks are null.
pub fn read_members<'s: 'p, 'p>(
    object: &'s Object,
    columns: &mut [JsonColumn<'_, 's>],
    before: usize,
    first: u8,
    walk: &mut Walk<'p>,
) -> Checked {
    if first != b'{' {
        return wrong("an object", first);
    }
    let (mut expected, mut filled, mut seen) = (0, 0, Seen::default());
    let mut more = walk.enter(b'}')?;
    while more {
        walk.space();
        let at = walk.at;
        let predicted = object.begins_with(&walk.data[at..], expected);
        let found = match predicted {
            Some(length) => {
                walk.at += length;
                Some(expected)
            }
            None => find_member(object, &mut seen, walk)?,
        };
        if let Some(index) = found {
            let member = &object.members[index];
            let column = object.places[index].map(|place| &mut columns[place]);
            filled += usize::from(column.is_some());
            let read_member = || {
                let is_new = match &column {
                    Some(column) => column.len() == before,
                    None => seen.insert(Cow::Borrowed(member.key.as_bytes())),
                };
                if !is_new {
                    return duplicate(at);
                }
                if predicted.is_none() {
                    walk.colon()?;
                }
                match column {
                    Some(column) if member.shape.has_parts() => {
                        walk.step_into(Cow::Borrowed(&member.key));
                        read(column, walk)?;
                        walk.step_back();
                        Ok(())
                    }
                    Some(column) => read(column, walk),
                    None => read_nothing(walk),
                }
            };
            read_member().map_err(|fault| fault.inside(&member.key))?;
            expected = index + 1;
        }
        more = walk.separator(b'}')?;
    }
    walk.leave();
    if filled < columns.len() {
        columns.iter_mut().filter(|column| column.len() == before).for_each(Column::append_null);
    }
    Ok(())
}

/// Read a key and return its member. An undeclared field is read whole; None is returned.
#[inline(never)]
fn find_member<'p>(object: &Object, seen: &mut Seen<'p>, walk: &mut Walk<'p>) -> Checked<Option<usize>> {
    let at = walk.at;
    let key = walk.key()?;
    let found = object.member(&key);
    if found.is_none() {
        if !seen.insert(key.clone()) {
            return duplicate(at);
        }
        walk.undeclared(&key)?;
    }
    Ok(found)
}

fn read_nothing(walk: &mut Walk) -> Checked {
    match walk.next()? {
        b'n' => walk.literal(b'n'),
        first => wrong("null", first),
    }
}
