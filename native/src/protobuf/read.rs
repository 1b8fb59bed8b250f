//! Read Protobuf messages into columns.
//!
//! A message may have its fields in any order, and more than once: the last value of a scalar counts, messages are
//! merged, lists grow. So one pass over a message appends scalars and the items of lists and maps, and notes where
//! messages are; a scalar that comes again replaces the one before. Then the other columns get their values.

use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::DataType;

use crate::columns::{offsets, Column, Entries, Field, Texts, Values};
use crate::faults::{utf8, Checked};
use crate::protobuf::known;
use crate::protobuf::shape::{Member, Message, Scalar, Shape};
use crate::protobuf::wire::{expect, wrong, Input, Raw, Span, LENGTH};

/// How values of a column are read.
pub struct Reading<'s> {
    name: &'s str,
    shape: &'s Shape,
    is_optional: bool,
    /// Of a scalar that no other field of a oneof clears. Such fields are appended without further questions.
    plain: Option<Plain>,
    /// The number of the pass that has seen the field, so that nothing has to be cleared between two messages.
    seen: u64,
    /// Of a message.
    scratch: Scratch,
}

/// How a scalar is read without looking at the shape again.
#[derive(Clone, Copy)]
struct Plain {
    scalar: Scalar,
    wire: u32,
    /// Whether it is a varint of which the low bits are the value.
    is_direct: bool,
}

/// What one pass over a message found.
#[derive(Default)]
pub struct Scratch {
    /// The number of the pass.
    pass: u64,
    /// The first part of each message, and how many parts were in `more` before it.
    first: Vec<(Span, usize)>,
    /// The parts of messages after the first, with the index of their field. Those of a message that was cleared stay.
    more: Vec<(usize, Span)>,
}

impl Field for Reading<'_> {
    fn arrow_type(&self) -> DataType {
        self.shape.arrow_type()
    }
}

type ProtobufColumn<'s> = Column<'s, Reading<'s>>;

/// The columns of a message.
pub fn columns(message: &Message, capacity: usize) -> Vec<ProtobufColumn<'_>> {
    message.fields.iter().map(|member| member_column(member, capacity)).collect()
}

fn member_column(member: &Member, capacity: usize) -> ProtobufColumn<'_> {
    let mut column = new_column(&member.name, &member.shape, member.optional, capacity);
    column.field.plain = match member.shape {
        Shape::Scalar { scalar } if member.oneof.is_none() => {
            let is_direct = matches!(scalar, Scalar::Int32 | Scalar::Int64);
            Some(Plain { scalar, wire: scalar.wire(), is_direct })
        }
        _ => None,
    };
    column
}

fn new_column<'s>(name: &'s str, shape: &'s Shape, is_optional: bool, capacity: usize) -> ProtobufColumn<'s> {
    let reading = Reading { name, shape, is_optional, plain: None, seen: 0, scratch: Scratch::default() };
    Column::new(reading, values(shape, capacity), capacity)
}

fn values(shape: &Shape, capacity: usize) -> Values<'_, Reading<'_>> {
    match shape {
        Shape::Scalar { scalar } | Shape::Wrapper { scalar } => scalars(*scalar, capacity),
        Shape::Enum { .. } => Values::String(Texts::new(capacity)),
        Shape::Message { message } => Values::Struct(columns(message, capacity)),
        Shape::Empty => {
            let present = Values::Boolean(BooleanBufferBuilder::new(capacity));
            let mut column = new_column("present", &PRESENT, false, 0);
            column.values = present;
            Values::Struct(vec![column])
        }
        Shape::Timestamp | Shape::Duration | Shape::TimeOfDay => Values::Long(Vec::with_capacity(capacity)),
        Shape::Date => Values::Int(Vec::with_capacity(capacity)),
        Shape::Decimal { .. } => Values::Decimal(Vec::with_capacity(capacity)),
        Shape::List { element, .. } => {
            Values::List(offsets(capacity), Box::new(new_column("[]", element, false, 0)))
        }
        Shape::Map { key, value, .. } => {
            let entries = Entries::new(new_column("{key}", key, false, 0), new_column("{}", value, false, 0));
            Values::Map(offsets(capacity), Box::new(entries))
        }
    }
}

static PRESENT: Shape = Shape::Scalar { scalar: Scalar::Bool };

fn scalars<'s>(scalar: Scalar, capacity: usize) -> Values<'s, Reading<'s>> {
    match scalar {
        Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => Values::Int(Vec::with_capacity(capacity)),
        Scalar::Uint32 | Scalar::Fixed32 | Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => {
            Values::Long(Vec::with_capacity(capacity))
        }
        Scalar::Uint64 | Scalar::Fixed64 => Values::Decimal(Vec::with_capacity(capacity)),
        Scalar::Float => Values::Float(Vec::with_capacity(capacity)),
        Scalar::Double => Values::Double(Vec::with_capacity(capacity)),
        Scalar::Bool => Values::Boolean(BooleanBufferBuilder::new(capacity)),
        Scalar::String => Values::String(Texts::new(capacity)),
        Scalar::Bytes => Values::Bytes(Texts::new(capacity)),
    }
}

/// Read one message, whose parts are merged. If it breaks a rule, its columns have to be truncated.
pub fn read_message(
    message: &Message,
    columns: &mut [ProtobufColumn],
    scratch: &mut Scratch,
    parts: &[Span],
    input: &mut Input,
) -> Checked {
    input.enter()?;
    scratch.begin(columns.len());
    for part in parts {
        scan(message, columns, scratch, *part, input)?;
    }
    for (index, column) in columns.iter_mut().enumerate() {
        if column.field.plain.is_none() || column.field.seen != scratch.pass {
            column.end(index, scratch, input).map_err(|fault| fault.inside(column.field.name))?;
        }
    }
    input.leave();
    Ok(())
}

fn scan(
    message: &Message,
    columns: &mut [ProtobufColumn],
    scratch: &mut Scratch,
    part: Span,
    input: &mut Input,
) -> Checked {
    let mut at = part.start;
    while at < part.end {
        let (tag, next) = input.tag(at, part.end)?;
        let Some(index) = message.index_of(tag.number()) else {
            at = input.skip(tag, next, part.end)?;
            continue;
        };
        let (wire, column) = (tag.wire(), &mut columns[index]);
        if let Some(plain) = column.field.plain {
            if column.field.seen == scratch.pass {
                column.truncate(column.len() - 1);
            }
            column.field.seen = scratch.pass;
            let is_right = wire == plain.wire;
            let read = if is_right { column.append(plain, next, part.end, input) } else { wrong(wire, plain.wire) };
            at = read.map_err(|fault| fault.inside(column.field.name))?;
            continue;
        }
        if let Some(oneof) = message.fields[index].oneof {
            leave_others(&message.oneofs[oneof], index, columns, scratch, input)?;
        }
        let name = columns[index].field.name;
        at = columns[index].read(index, wire, Span { start: next, end: part.end }, scratch, input).map_err(|fault| fault.inside(name))?;
    }
    Ok(())
}

/// Clear the other fields of a oneof, of which the last one counts. What they held is checked nevertheless.
fn leave_others(
    oneof: &[usize],
    index: usize,
    columns: &mut [ProtobufColumn],
    scratch: &mut Scratch,
    input: &mut Input,
) -> Checked {
    for &other in oneof {
        let column = &mut columns[other];
        if other == index || column.field.seen != scratch.pass {
            continue;
        }
        let lost = input.used.truncated_nanos;
        column.end(other, scratch, input).map_err(|fault| fault.inside(column.field.name))?;
        column.truncate(column.len() - 1);
        input.used.truncated_nanos = lost;
        column.field.seen = 0;
    }
    Ok(())
}

impl Scratch {
    fn begin(&mut self, columns: usize) {
        self.pass += 1;
        if self.first.len() < columns {
            self.first.resize(columns, (Span::default(), 0));
        }
        self.more.clear();
    }

    /// Return all parts of a message.
    fn parts(&self, index: usize) -> Vec<Span> {
        let (first, before) = self.first[index];
        let more = self.more[before..].iter().filter(|(field, _)| *field == index).map(|(_, span)| *span);
        std::iter::once(first).chain(more).collect()
    }
}

impl<'s> ProtobufColumn<'s> {
    /// Read and append a scalar of the right wire type.
    #[inline]
    fn append(&mut self, plain: Plain, at: usize, end: usize, input: &Input) -> Checked<usize> {
        self.nulls.append_non_null();
        match &mut self.values {
            Values::String(texts) => {
                let span = input.length(at, end)?;
                texts.append(utf8(input.bytes(span))?);
                return Ok(span.end);
            }
            Values::Long(values) if plain.is_direct => {
                let (bits, next) = input.varint(at, end)?;
                values.push(bits as i64);
                return Ok(next);
            }
            Values::Double(values) => {
                let (bytes, next) = input.fixed(at, end)?;
                values.push(f64::from_le_bytes(bytes));
                return Ok(next);
            }
            Values::Int(values) if plain.is_direct => {
                let (bits, next) = input.varint(at, end)?;
                values.push(bits as i32);
                return Ok(next);
            }
            Values::Boolean(values) => {
                let (bits, next) = input.varint(at, end)?;
                values.append(bits != 0);
                return Ok(next);
            }
            _ => {}
        }
        self.append_other(plain.scalar, at, end, input)
    }

    #[inline(never)]
    fn append_other(&mut self, scalar: Scalar, at: usize, end: usize, input: &Input) -> Checked<usize> {
        let (raw, next) = input.scalar(scalar, at, end)?;
        push(&mut self.values, scalar, raw, input);
        Ok(next)
    }

    /// Read a value of the field `index` of a message: append it, or note where it is.
    fn read(
        &mut self,
        index: usize,
        wire: u32,
        span: Span,
        scratch: &mut Scratch,
        input: &mut Input,
    ) -> Checked<usize> {
        let Span { start: at, end } = span;
        match self.field.shape {
            Shape::Scalar { .. } | Shape::Enum { .. } => {
                if self.field.seen == scratch.pass {
                    self.truncate(self.len() - 1);
                }
                let scalar = self.scalar();
                expect(wire, scalar.wire())?;
                let (raw, next) = input.scalar(scalar, at, end)?;
                self.push_raw(raw, input);
                self.field.seen = scratch.pass;
                Ok(next)
            }
            Shape::List { element, slots } => self.read_items(element, *slots, wire, at, end, input),
            Shape::Map { value, slots, .. } => self.read_entry(value, *slots, wire, at, end, input),
            _ => {
                expect(wire, LENGTH)?;
                let span = input.length(at, end)?;
                if self.field.seen == scratch.pass {
                    scratch.more.push((index, span));
                } else {
                    scratch.first[index] = (span, scratch.more.len());
                    self.field.seen = scratch.pass;
                }
                Ok(span.end)
            }
        }
    }

    /// The type on the wire of a scalar or of an enum.
    fn scalar(&self) -> Scalar {
        match self.field.shape {
            Shape::Scalar { scalar } => *scalar,
            _ => Scalar::Int32,
        }
    }

    /// Append what the field `index` of a message has after the pass, or what an absent one becomes.
    fn end(&mut self, index: usize, scratch: &Scratch, input: &mut Input) -> Checked {
        match self.field.shape {
            Shape::Scalar { .. } | Shape::Enum { .. } => {
                if self.field.seen != scratch.pass {
                    self.append_absent(input);
                }
                Ok(())
            }
            Shape::List { .. } | Shape::Map { .. } => {
                self.end_items(input);
                Ok(())
            }
            _ if self.field.seen != scratch.pass => {
                self.append_null();
                Ok(())
            }
            _ if scratch.more.is_empty() => self.read_parts(&[scratch.first[index].0], input),
            _ => self.read_parts(&scratch.parts(index), input),
        }
    }

    fn append_absent(&mut self, input: &Input) {
        match self.field.shape {
            _ if self.field.is_optional => self.append_null(),
            Shape::Enum { default, .. } => self.push_symbol(*default),
            _ => self.push_raw(Raw::default(), input),
        }
    }

    fn end_items(&mut self, input: &mut Input) {
        self.nulls.append_non_null();
        match &mut self.values {
            Values::List(offsets, items) => offsets.push(items.len() as i64),
            Values::Map(offsets, entries) => {
                input.used.truncated_nanos -= entries.lost_again(offsets[offsets.len() - 1] as usize);
                offsets.push(entries.values.len() as i32);
            }
            _ => unreachable!("only lists and maps have items"),
        }
    }

    /// Append a message, whose parts are merged.
    fn read_parts(&mut self, parts: &[Span], input: &mut Input) -> Checked {
        self.nulls.append_non_null();
        let shape = self.field.shape;
        match (&mut self.values, shape) {
            (Values::Struct(columns), Shape::Message { message }) => {
                read_message(message, columns, &mut self.field.scratch, parts, input)?;
            }
            (Values::Struct(columns), _) => {
                known::read_fields([], parts, input)?;
                columns[0].nulls.append_non_null();
                push(&mut columns[0].values, Scalar::Bool, Raw { bits: 1, end: 0 }, input);
            }
            (values, Shape::Wrapper { scalar }) => {
                let [value] = known::read_fields([("value", *scalar)], parts, input)?;
                push(values, *scalar, value, input);
            }
            (Values::Long(values), Shape::Timestamp) => values.push(known::timestamp(parts, input)?),
            (Values::Long(values), Shape::Duration) => values.push(known::duration(parts, input)?),
            (Values::Long(values), _) => values.push(known::time_of_day(parts, input)?),
            (Values::Int(values), _) => values.push(known::date(parts, input)?),
            (Values::Decimal(values), Shape::Decimal { precision, scale }) => {
                values.push(known::decimal(*precision, *scale, parts, input)?);
            }
            _ => unreachable!("the shape is not that of a message"),
        }
        Ok(())
    }

    /// Append an item, or the items of a packed list.
    fn read_items(
        &mut self,
        element: &Shape,
        slots: u64,
        wire: u32,
        at: usize,
        end: usize,
        input: &mut Input,
    ) -> Checked<usize> {
        let Values::List(_, items) = &mut self.values else { unreachable!("a list has items") };
        let scalar = match element {
            Shape::Scalar { scalar } => *scalar,
            Shape::Enum { .. } => Scalar::Int32,
            _ => {
                expect(wire, LENGTH)?;
                let span = input.length(at, end)?;
                input.used.reserve(slots)?;
                items.read_parts(&[span], input).map_err(|fault| fault.inside("[]"))?;
                return Ok(span.end);
            }
        };
        if wire != LENGTH || scalar.wire() == LENGTH {
            expect(wire, scalar.wire())?;
            return items.read_item(scalar, slots, at, end, input);
        }
        let span = input.length(at, end)?;
        let mut at = span.start;
        while at < span.end {
            at = items.read_item(scalar, slots, at, span.end, input)?;
        }
        Ok(at)
    }

    #[inline]
    fn read_item(&mut self, scalar: Scalar, slots: u64, at: usize, end: usize, input: &mut Input) -> Checked<usize> {
        input.used.reserve(slots)?;
        let (raw, next) = input.scalar(scalar, at, end).map_err(|fault| fault.inside("[]"))?;
        self.push_raw(raw, input);
        Ok(next)
    }

    fn push_raw(&mut self, raw: Raw, input: &Input) {
        match self.field.shape {
            Shape::Scalar { scalar } => {
                self.nulls.append_non_null();
                push(&mut self.values, *scalar, raw, input);
            }
            _ => self.push_symbol(raw.bits as i32),
        }
    }

    fn push_symbol(&mut self, number: i32) {
        self.nulls.append_non_null();
        let Shape::Enum { symbols, .. } = self.field.shape else { unreachable!("only enums have symbols") };
        let Values::String(texts) = &mut self.values else { unreachable!("symbols are text") };
        match symbols.get(number) {
            Some(symbol) => texts.append(symbol.as_bytes()),
            None => texts.append(number.to_string().as_bytes()),
        }
    }

    /// Append an entry of a map, which is a message with a key and a value.
    fn read_entry(
        &mut self,
        value: &Shape,
        slots: u64,
        wire: u32,
        at: usize,
        end: usize,
        input: &mut Input,
    ) -> Checked<usize> {
        expect(wire, LENGTH)?;
        let span = input.length(at, end)?;
        input.used.reserve(slots)?;
        input.enter()?;
        let Values::Map(_, entries) = &mut self.values else { unreachable!("a map has entries") };
        let Shape::Scalar { scalar: key } = entries.keys.field.shape else { unreachable!("a key is a scalar") };
        let before = input.used.truncated_nanos;
        let (mut key_found, mut value_found, mut parts) = (Raw::default(), None, Vec::new());
        let mut at = span.start;
        while at < span.end {
            let (tag, next) = input.tag(at, span.end)?;
            let wire = tag.wire();
            at = match tag.number() {
                1 => {
                    let read = expect(wire, key.wire()).and_then(|()| input.scalar(*key, next, span.end));
                    let end;
                    (key_found, end) = read.map_err(|fault| fault.inside("{key}"))?;
                    end
                }
                2 => {
                    let read = read_value(value, wire, next, span.end, &mut value_found, &mut parts, input);
                    read.map_err(|fault| fault.inside("{}"))?
                }
                _ => input.skip(tag, next, span.end)?,
            };
        }
        entries.keys.push_raw(key_found, input);
        entries.values.end_value(value_found, &parts, input).map_err(|fault| fault.inside("{}"))?;
        entries.note_lost(input.used.truncated_nanos - before);
        input.leave();
        Ok(span.end)
    }

    /// Append the value of a map's entry; an absent one has the type's default.
    fn end_value(&mut self, found: Option<Raw>, parts: &[Span], input: &mut Input) -> Checked {
        match self.field.shape {
            Shape::Scalar { .. } => self.push_raw(found.unwrap_or_default(), input),
            Shape::Enum { default, .. } => self.push_symbol(found.map_or(*default, |raw| raw.bits as i32)),
            _ => self.read_parts(parts, input)?,
        }
        Ok(())
    }
}

/// Note the value of a map's entry, or one part of it.
fn read_value(
    shape: &Shape,
    wire: u32,
    at: usize,
    end: usize,
    found: &mut Option<Raw>,
    parts: &mut Vec<Span>,
    input: &mut Input,
) -> Checked<usize> {
    let scalar = match shape {
        Shape::Scalar { scalar } => *scalar,
        Shape::Enum { .. } => Scalar::Int32,
        _ => {
            expect(wire, LENGTH)?;
            let span = input.length(at, end)?;
            parts.push(span);
            return Ok(span.end);
        }
    };
    expect(wire, scalar.wire())?;
    let (raw, next) = input.scalar(scalar, at, end)?;
    *found = Some(raw);
    Ok(next)
}

/// Append a scalar. The default `Raw` is the type's default value.
#[inline]
fn push(values: &mut Values<Reading>, scalar: Scalar, raw: Raw, input: &Input) {
    let bits = raw.bits;
    match values {
        Values::String(texts) | Values::Bytes(texts) => texts.append(input.bytes(raw.span())),
        Values::Long(values) => values.push(match scalar {
            Scalar::Sint64 => (bits >> 1) as i64 ^ -((bits & 1) as i64),
            Scalar::Uint32 => i64::from(bits as u32),
            _ => bits as i64,
        }),
        Values::Double(values) => values.push(f64::from_bits(bits)),
        Values::Int(values) => values.push(match scalar {
            Scalar::Sint32 => (bits as u32 >> 1) as i32 ^ -((bits & 1) as i32),
            _ => bits as i32,
        }),
        Values::Boolean(values) => values.append(bits != 0),
        Values::Float(values) => values.push(f32::from_bits(bits as u32)),
        Values::Decimal(values) => values.push(bits.into()),
        _ => unreachable!("scalars have no such column"),
    }
}
