//! The walk through one payload: tokens, limits, and the fields that no shape declares.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::faults::{broken, Checked, Used};
use crate::json::numbers;
use crate::json::strings::{append_quoted, append_without_space, read_string};

/// The maximum nesting of objects and arrays in a payload.
const MOST_LEVELS: u32 = 128;
const SLOT_BYTES: usize = 8;
/// The powers of ten that a double holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Return the fault of a token other than the expected one.
#[cold]
#[inline(never)]
pub fn unexpected<T>(data: &[u8], at: usize, what: &str) -> Checked<T> {
    match data.get(at) {
        None => broken("truncated", || format!("expected {what}, found the end of the payload")),
        Some(byte @ 0x20..0x7F) => {
            broken("bad_json", || format!("expected {what} at byte {at}, found \"{}\"", char::from(*byte)))
        }
        Some(byte) => broken("bad_json", || format!("expected {what} at byte {at}, found the byte {byte}")),
    }
}

#[cold]
#[inline(never)]
pub fn wrong<T>(expected: &str, first: u8) -> Checked<T> {
    let found = match first {
        b'{' => "an object",
        b'[' => "an array",
        b'"' => "a text",
        b't' => "true",
        b'f' => "false",
        b'n' => "null",
        _ => "a number",
    };
    broken("wrong_type", || format!("expected {expected}, found {found}"))
}

#[cold]
#[inline(never)]
pub fn duplicate<T>(at: usize) -> Checked<T> {
    broken("duplicate_key", || format!("the key at byte {at} is there twice"))
}

/// A step of the path to a value, for undeclared fields.
enum Step<'p> {
    Name(Cow<'p, str>),
    Index(usize),
}

/// The unread rest of a payload.
pub struct Walk<'p> {
    pub data: &'p [u8],
    pub at: usize,
    pub used: &'p mut Used,
    depth: u32,
    path: Vec<Step<'p>>,
    /// The entries of `_extra`; None if undeclared fields are not kept.
    extra: Option<Vec<u8>>,
}

impl<'p> Walk<'p> {
    pub fn new(data: &'p [u8], used: &'p mut Used, keeps_extra: bool) -> Self {
        Self { data, at: 0, used, depth: 0, path: Vec::new(), extra: keeps_extra.then(Vec::new) }
    }

    pub fn end(&mut self) -> Checked {
        self.space();
        if self.at == self.data.len() {
            return Ok(());
        }
        broken("trailing_bytes", || format!("expected the end of the payload at byte {}", self.at))
    }

    /// Return the text of `_extra`; None if there are no undeclared fields.
    pub fn extra(&mut self) -> Option<Vec<u8>> {
        let mut extra = self.extra.take().filter(|extra| !extra.is_empty())?;
        extra.push(b'}');
        Some(extra)
    }

    // --- tokens

    #[inline]
    pub fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.data.get(self.at) {
            self.at += 1;
        }
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.data.get(self.at).copied()
    }

    /// Return the first byte of the next value.
    #[inline]
    pub fn next(&mut self) -> Checked<u8> {
        self.space();
        match self.peek() {
            Some(first @ (b'"' | b'0'..=b'9' | b'-' | b't' | b'f' | b'n' | b'{' | b'[')) => Ok(first),
            _ => unexpected(self.data, self.at, "a value"),
        }
    }

    /// Skip true, false or null, of which the first byte is known.
    #[inline]
    pub fn literal(&mut self, first: u8) -> Checked {
        let expected: &[u8] = match first {
            b't' => b"true",
            b'f' => b"false",
            _ => b"null",
        };
        if self.data[self.at..].starts_with(expected) {
            self.at += expected.len();
            return Ok(());
        }
        let rest = &self.data[self.at..];
        let same = rest.iter().zip(expected).take_while(|(one, other)| one == other).count();
        unexpected(self.data, self.at + same, "true, false or null")
    }

    #[inline]
    pub fn text(&mut self, first: u8) -> Checked<Cow<'p, [u8]>> {
        if first != b'"' {
            return wrong("a text", first);
        }
        let (text, end) = read_string(self.data, self.at)?;
        self.at = end;
        Ok(text)
    }

    /// Read the key of a member.
    #[inline]
    pub fn key(&mut self) -> Checked<Cow<'p, [u8]>> {
        if self.peek() != Some(b'"') {
            return unexpected(self.data, self.at, "a key");
        }
        self.text(b'"')
    }

    #[inline]
    pub fn colon(&mut self) -> Checked {
        self.space();
        if self.peek() != Some(b':') {
            return unexpected(self.data, self.at, "\":\"");
        }
        self.at += 1;
        Ok(())
    }

    /// Skip what is after an item or a member; return whether another one follows.
    #[inline]
    pub fn separator(&mut self, end: u8) -> Checked<bool> {
        self.space();
        match self.peek() {
            Some(b',') => {}
            Some(byte) if byte == end => {}
            _ => return unexpected(self.data, self.at, if end == b'}' { "\",\" or \"}\"" } else { "\",\" or \"]\"" }),
        }
        self.at += 1;
        Ok(self.data[self.at - 1] == b',')
    }

    /// Skip the bracket of an array or an object; return whether it has items or members.
    #[inline]
    pub fn enter(&mut self, end: u8) -> Checked<bool> {
        self.depth += 1;
        if self.depth > MOST_LEVELS {
            return broken("too_large", || format!("the payload nests values more than {MOST_LEVELS} levels deep"));
        }
        self.at += 1;
        self.space();
        let is_empty = self.peek() == Some(end);
        self.at += usize::from(is_empty);
        Ok(!is_empty)
    }

    #[inline]
    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    // --- numbers

    /// Read a number as its text.
    pub fn number(&mut self, first: u8, what: &str) -> Checked<&'p [u8]> {
        if first != b'-' && !first.is_ascii_digit() {
            return wrong(what, first);
        }
        let start = self.at;
        self.at += usize::from(first == b'-');
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(&self.data[start..self.at])
    }

    fn digits(&mut self) -> Checked {
        let count = self.data[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return unexpected(self.data, self.at, "a digit");
        }
        self.at += count;
        Ok(())
    }

    /// Read up to 18 digits, a decimal point among them if `takes_point`. Return the number without the point, how many
    /// digits are after it, and where it ends; None for all other numbers.
    #[inline]
    fn short_number(&self, takes_point: bool) -> Option<(u64, usize, usize)> {
        let start = self.at + usize::from(self.data[self.at] == b'-');
        let (mut value, mut at, mut point) = (0u64, start, None);
        loop {
            match self.data.get(at) {
                Some(byte @ b'0'..=b'9') => value = value.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')),
                Some(b'.') if takes_point && point.is_none() => point = Some(at),
                Some(b'.' | b'e' | b'E') => return None,
                _ => break,
            }
            at += 1;
        }
        let whole = point.unwrap_or(at) - start;
        let fraction = point.map_or(0, |point| at - point - 1);
        let has_leading_zero = whole > 1 && self.data[start] == b'0';
        let is_complete = whole > 0 && !has_leading_zero && (point.is_none() || fraction > 0);
        (is_complete && whole + fraction <= 18).then_some((value, fraction, at))
    }

    /// Read an integer of so many bits.
    #[inline]
    pub fn integer(&mut self, first: u8, bits: u32, whole: bool) -> Checked<i64> {
        if first == b'-' || first.is_ascii_digit() {
            if let Some((value, _, end)) = self.short_number(false) {
                let value = if first == b'-' { -(value as i64) } else { value as i64 };
                if bits == 64 || i32::try_from(value).is_ok() {
                    self.at = end;
                    return Ok(value);
                }
            }
        }
        numbers::integer(self.number(first, "an integer")?, bits, whole)
    }

    /// Read a number as the nearest double, which may be infinite.
    #[inline]
    pub fn float(&mut self, first: u8) -> Checked<f64> {
        if first == b'-' || first.is_ascii_digit() {
            if let Some((value, fraction, end)) = self.short_number(true).filter(|(value, ..)| *value < 1 << 53) {
                self.at = end;
                let double = value as f64 / EXACT_POWERS[fraction];
                return Ok(if first == b'-' { -double } else { double });
            }
        }
        Ok(numbers::nearest(self.number(first, "a number")?))
    }

    // --- undeclared fields and JSON text

    #[inline]
    pub fn step_into(&mut self, name: Cow<'p, str>) {
        self.path.push(Step::Name(name));
    }

    #[inline]
    pub fn step_to(&mut self, index: usize) {
        self.path.push(Step::Index(index));
    }

    #[inline]
    pub fn step_back(&mut self) {
        self.path.pop();
    }

    /// Keep an undeclared field: its path and its text become an entry of `_extra`.
    pub fn undeclared(&mut self, name: &[u8]) -> Checked {
        self.colon()?;
        let Some(mut extra) = self.extra.take() else {
            self.next()?;
            return self.skip();
        };
        let before = extra.len();
        extra.push(if before == 0 { b'{' } else { b',' });
        append_quoted(&mut extra, &self.path_to(&String::from_utf8_lossy(name)));
        self.used.reserve((extra.len() - before - 1).div_ceil(SLOT_BYTES) as u64)?;
        extra.push(b':');
        self.next()?;
        self.json_text(&mut extra)?;
        self.used.undeclared += 1;
        self.extra = Some(extra);
        Ok(())
    }

    fn path_to(&self, name: &str) -> String {
        let mut path = String::new();
        for step in self.path.iter() {
            match step {
                Step::Name(name) => append_step(&mut path, name),
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        append_step(&mut path, name);
        path
    }

    /// Append the text of the next value, which begins at `at`, without the white space between its tokens.
    pub fn json_text(&mut self, out: &mut Vec<u8>) -> Checked {
        let start = self.at;
        self.skip()?;
        append_without_space(out, &self.data[start..self.at]);
        Ok(())
    }

    /// Skip any value. Its rules are those of JSON.
    fn skip(&mut self) -> Checked {
        match self.next()? {
            b'{' => {
                let mut seen = Seen::default();
                let mut more = self.enter(b'}')?;
                while more {
                    self.space();
                    let at = self.at;
                    if !seen.insert(self.key()?) {
                        return duplicate(at);
                    }
                    self.colon()?;
                    self.skip()?;
                    more = self.separator(b'}')?;
                }
                self.leave();
            }
            b'[' => {
                let mut more = self.enter(b']')?;
                while more {
                    self.skip()?;
                    more = self.separator(b']')?;
                }
                self.leave();
            }
            b'"' => self.at = read_string(self.data, self.at)?.1,
            first @ (b't' | b'f' | b'n') => self.literal(first)?,
            first => {
                self.number(first, "a number")?;
            }
        }
        Ok(())
    }
}

/// Append a name to a path, in quotes if it could be read as several steps.
fn append_step(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    if name.is_empty() || name.contains(['.', '[', '"']) {
        let mut quoted = Vec::new();
        append_quoted(&mut quoted, name);
        path.push_str(&String::from_utf8_lossy(&quoted));
    } else {
        path.push_str(name);
    }
}

/// The keys of one object so far.
#[derive(Default)]
pub struct Seen<'p> {
    few: Vec<Cow<'p, [u8]>>,
    many: HashSet<Cow<'p, [u8]>>,
}

const FEW: usize = 16;

impl<'p> Seen<'p> {
    /// Return whether the key is new.
    pub fn insert(&mut self, key: Cow<'p, [u8]>) -> bool {
        if self.few.len() < FEW {
            let is_new = !self.few.contains(&key);
            self.few.push(key);
            return is_new;
        }
        if self.many.is_empty() {
            self.many.extend(self.few.iter().cloned());
        }
        self.many.insert(key)
    }
}
