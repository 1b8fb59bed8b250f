//! The wire format: tags, varints, lengths, and values that are skipped.

use crate::faults::{broken, counted, utf8, Checked, Used};
use crate::protobuf::shape::Scalar;
use crate::varint::within_eight;

pub const VARINT: u32 = 0;
pub const FIXED64: u32 = 1;
pub const LENGTH: u32 = 2;
const GROUP: u32 = 3;
const END_GROUP: u32 = 4;
pub const FIXED32: u32 = 5;
const WIRE_NAMES: [&str; 6] = ["varint", "64-bit", "length-delimited", "start of a group", "end of a group", "32-bit"];
/// The maximum nesting of messages and groups in a payload, as in the libraries of Protobuf.
const MOST_LEVELS: u32 = 100;

/// Where bytes are in the payload.
#[derive(Clone, Copy, Default)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

/// A scalar that was read: its bits, or the place of its bytes.
#[derive(Clone, Copy, Default)]
pub struct Raw {
    pub bits: u64,
    pub end: usize,
}

impl Raw {
    #[inline]
    pub fn span(self) -> Span {
        Span { start: self.bits as usize, end: self.end }
    }
}

/// A field's number and the wire type of its value, in one word as on the wire: as two words of a tuple they would go
/// through memory, and be read again as one before they are written.
#[derive(Clone, Copy)]
pub struct Tag(u32);

impl Tag {
    #[inline]
    pub fn number(self) -> u32 {
        self.0 >> 3
    }

    #[inline]
    pub fn wire(self) -> u32 {
        self.0 & 7
    }
}

/// A payload, with readers for parts of it. Each reader returns the position after what it read.
pub struct Input<'a> {
    pub data: &'a [u8],
    pub used: &'a mut Used,
    levels: u32,
}

impl Scalar {
    #[inline]
    pub fn wire(self) -> u32 {
        match self {
            Self::String | Self::Bytes => LENGTH,
            Self::Float | Self::Fixed32 | Self::Sfixed32 => FIXED32,
            Self::Double | Self::Fixed64 | Self::Sfixed64 => FIXED64,
            _ => VARINT,
        }
    }
}

impl<'a> Input<'a> {
    pub fn new(data: &'a [u8], used: &'a mut Used) -> Self {
        Self { data, used, levels: 0 }
    }

    pub fn bytes(&self, span: Span) -> &'a [u8] {
        &self.data[span.start..span.end]
    }

    #[inline]
    pub fn enter(&mut self) -> Checked {
        self.levels += 1;
        if self.levels > MOST_LEVELS + 1 {
            return broken("too_large", || format!("the payload nests messages more than {MOST_LEVELS} levels deep"));
        }
        Ok(())
    }

    #[inline]
    pub fn leave(&mut self) {
        self.levels -= 1;
    }

    /// Read a tag. Its wire type exists.
    #[inline]
    pub fn tag(&self, at: usize, end: usize) -> Checked<(Tag, usize)> {
        let (tag, next) = match self.data[at..] {
            [byte @ ..0x80, ..] if at < end => (u32::from(byte), at + 1),
            [low, high @ ..0x80, ..] if at + 1 < end => (u32::from(low & 0x7F) | u32::from(high) << 7, at + 2),
            _ => {
                let (tag, next) = self.short_varint(at, end, "a tag")?;
                (tag as u32, next)
            }
        };
        let tag = Tag(tag);
        if tag.number() == 0 {
            return broken("bad_tag", || "the field number is 0".to_string());
        }
        if tag.wire() > FIXED32 {
            return broken("bad_tag", || {
                format!("the wire type {} of field {} does not exist", tag.wire(), tag.number())
            });
        }
        Ok((tag, next))
    }

    #[inline]
    pub fn varint(&self, at: usize, end: usize) -> Checked<(u64, usize)> {
        if at < end && self.data[at] < 0x80 {
            return Ok((u64::from(self.data[at]), at + 1));
        }
        if let Some((value, taken)) = self.data[at..].first_chunk().and_then(within_eight) {
            if at + taken <= end {
                return Ok((value, at + taken));
            }
        }
        self.long_varint(at, end, "a varint", 10, 64)
    }

    /// Read a varint of at most 5 bytes and 32 bits.
    pub fn short_varint(&self, at: usize, end: usize, name: &str) -> Checked<(u64, usize)> {
        self.long_varint(at, end, name, 5, 32)
    }

    #[inline(never)]
    fn long_varint(&self, at: usize, end: usize, name: &str, most_bytes: usize, bits: u32) -> Checked<(u64, usize)> {
        let mut value = 0u64;
        for (index, byte) in self.data[at..end].iter().take(most_bytes).enumerate() {
            value |= u64::from(byte & 0x7F) << (7 * index);
            if *byte < 0x80 {
                if index + 1 == most_bytes && u32::from(*byte) >> (bits - 7 * index as u32) != 0 {
                    return broken("bad_varint", || format!("{name} has more than {bits} bits"));
                }
                return Ok((value, at + index + 1));
            }
        }
        if end - at < most_bytes {
            return broken("truncated", || format!("the message ends inside {name}"));
        }
        broken("bad_varint", || format!("{name} takes more than {most_bytes} bytes"))
    }

    /// Read a length and return the place of the bytes after it.
    #[inline]
    pub fn length(&self, at: usize, end: usize) -> Checked<Span> {
        let (length, start) = match self.data.get(at) {
            Some(byte @ ..0x80) if at < end => (u64::from(*byte), at + 1),
            _ => self.short_varint(at, end, "a length")?,
        };
        if length as usize <= end - start {
            return Ok(Span { start, end: start + length as usize });
        }
        broken("bad_length", || {
            format!("the value is {} long, but the message has {} left", counted(length, "byte"), end - start)
        })
    }

    #[inline]
    pub fn fixed<const SIZE: usize>(&self, at: usize, end: usize) -> Checked<([u8; SIZE], usize)> {
        let mut taken = [0; SIZE];
        if end - at < SIZE {
            return broken("truncated", || {
                format!("expected {}, found {}", counted(SIZE as u64, "more byte"), end - at)
            });
        }
        taken.copy_from_slice(&self.data[at..at + SIZE]);
        Ok((taken, at + SIZE))
    }

    /// Read one value of a scalar type, without its tag.
    #[inline]
    pub fn scalar(&self, scalar: Scalar, at: usize, end: usize) -> Checked<(Raw, usize)> {
        match scalar.wire() {
            VARINT => {
                let (bits, next) = self.varint(at, end)?;
                Ok((Raw { bits, end: 0 }, next))
            }
            LENGTH => {
                let span = self.length(at, end)?;
                if scalar == Scalar::String {
                    utf8(self.bytes(span))?;
                }
                Ok((Raw { bits: span.start as u64, end: span.end }, span.end))
            }
            FIXED64 => {
                let (bytes, next) = self.fixed::<8>(at, end)?;
                Ok((Raw { bits: u64::from_le_bytes(bytes), end: 0 }, next))
            }
            _ => {
                let (bytes, next) = self.fixed::<4>(at, end)?;
                Ok((Raw { bits: u32::from_le_bytes(bytes).into(), end: 0 }, next))
            }
        }
    }

    /// Skip the value of an unknown field, which is well-formed nevertheless.
    pub fn skip(&mut self, tag: Tag, at: usize, end: usize) -> Checked<usize> {
        let number = tag.number();
        match tag.wire() {
            VARINT => Ok(self.varint(at, end)?.1),
            FIXED64 => Ok(self.fixed::<8>(at, end)?.1),
            LENGTH => Ok(self.length(at, end)?.end),
            FIXED32 => Ok(self.fixed::<4>(at, end)?.1),
            GROUP => self.skip_group(number, at, end),
            _ => broken("bad_tag", || format!("the end of a group {number} that did not begin")),
        }
    }

    fn skip_group(&mut self, number: u32, mut at: usize, end: usize) -> Checked<usize> {
        self.enter()?;
        while at < end {
            let (inner, next) = self.tag(at, end)?;
            if inner.wire() == END_GROUP && inner.number() == number {
                self.leave();
                return Ok(next);
            }
            at = self.skip(inner, next, end)?;
        }
        broken("truncated", || format!("the message ends inside the group {number}"))
    }
}

/// Check the wire type of a known field.
#[inline]
pub fn expect(wire: u32, expected: u32) -> Checked {
    if wire == expected {
        return Ok(());
    }
    wrong(wire, expected)
}

/// Return the fault of a wrong wire type.
#[cold]
pub fn wrong<T>(wire: u32, expected: u32) -> Checked<T> {
    broken("bad_tag", || {
        let [found, expected_name] = [wire, expected].map(|each| WIRE_NAMES[each as usize]);
        format!("expected the wire type {expected} ({expected_name}), found {wire} ({found})")
    })
}
