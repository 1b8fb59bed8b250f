//! Strings of JSON: where they end, and what their escapes mean. Positions are bytes of the JSON text.

use std::borrow::Cow;

use crate::faults::{broken, Checked};
use crate::json::walk::unexpected;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Return a word whose lowest non-zero byte is that of the first byte that is a quotation mark, a backslash, a control
/// character, or not ASCII.
#[inline]
fn special(word: u64) -> u64 {
    let zero_in = |word: u64| word.wrapping_sub(ONES) & !word;
    let quote = zero_in(word ^ (ONES * u64::from(b'"')));
    let backslash = zero_in(word ^ (ONES * u64::from(b'\\')));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control | word) & HIGH
}

/// Return the number of bytes before the first special one.
#[inline]
fn plain_length(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let found = special(u64::from_le_bytes(*word));
        if found != 0 {
            return index * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let is_special = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < 0x20 || *byte >= 0x80;
    words.len() * 8 + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// Read the string whose quotation mark is at `at`. Return it and the position after it.
#[inline]
pub fn read_string(data: &[u8], at: usize) -> Checked<(Cow<'_, [u8]>, usize)> {
    let start = at + 1;
    let end = start + plain_length(&data[start..]);
    if data.get(end) == Some(&b'"') {
        return Ok((Cow::Borrowed(&data[start..end]), end + 1));
    }
    read_special(data, start, end)
}

#[inline(never)]
fn read_special(data: &[u8], start: usize, mut at: usize) -> Checked<(Cow<'_, [u8]>, usize)> {
    let mut is_escaped = false;
    loop {
        match data.get(at) {
            Some(b'"') => break,
            Some(b'\\') => {
                is_escaped = true;
                at = end_of_escape(data, at)?;
            }
            Some(0..0x20) => {
                return broken("bad_json", || format!("the control character at byte {at} is not escaped"));
            }
            Some(_) => at += 1,
            None => return unexpected(data, at, "the end of a string"),
        }
    }
    let raw = &data[start..at];
    if let Err(error) = std::str::from_utf8(raw) {
        return broken("bad_utf8", || {
            format!("the string is not valid UTF-8 at byte {}", start + error.valid_up_to())
        });
    }
    let text = if is_escaped { Cow::Owned(unescaped(raw, start)?) } else { Cow::Borrowed(raw) };
    Ok((text, at + 1))
}

fn end_of_escape(data: &[u8], at: usize) -> Checked<usize> {
    match data.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => return Ok(at + 2),
        Some(b'u') => {
            let digits = data[at + 2..].iter().take(4).take_while(|byte| byte.is_ascii_hexdigit()).count();
            if digits == 4 {
                return Ok(at + 6);
            }
            if at + 2 + digits == data.len() {
                return unexpected(data, data.len(), "the end of a string");
            }
        }
        Some(_) => {}
        None => return unexpected(data, data.len(), "the end of a string"),
    }
    broken("bad_json", || format!("the escape at byte {at} is not one of JSON's"))
}

/// Replace the escapes of a text, which are well-formed; `start` is its position.
fn unescaped(raw: &[u8], start: usize) -> Checked<Vec<u8>> {
    let mut text = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(byte) = raw.get(at) {
        if *byte != b'\\' {
            text.push(*byte);
            at += 1;
            continue;
        }
        let short = match raw[at + 1] {
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (character, length) = character(raw, at, start)?;
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                at += length;
                continue;
            }
            other => other,
        };
        text.push(short);
        at += 2;
    }
    Ok(text)
}

/// Return the character of the escape `\u....` at `at`, and the length of the escape, or of both escapes of a pair.
fn character(raw: &[u8], at: usize, start: usize) -> Checked<(char, usize)> {
    let code = code_at(raw, at).unwrap_or_default();
    if let Some(character) = char::from_u32(code) {
        return Ok((character, 6));
    }
    let pair = match code_at(raw, at + 6) {
        Some(low @ 0xDC00..0xE000) if code < 0xDC00 => char::from_u32(0x10000 + ((code - 0xD800) << 10) + low - 0xDC00),
        _ => None,
    };
    match pair {
        Some(character) => Ok((character, 12)),
        None => broken("bad_utf8", || format!("the escape at byte {} is half of a surrogate pair", start + at)),
    }
}

/// Return the number of the escape `\u....` at `at`; None if there is another one, or none.
fn code_at(raw: &[u8], at: usize) -> Option<u32> {
    let digits = raw.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Append a text as a JSON string, as Python's `json.dumps(…, ensure_ascii=False)` writes it.
pub fn append_quoted(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a text can be written to memory");
}

/// Append valid JSON without the white space between its tokens.
pub fn append_without_space(out: &mut Vec<u8>, text: &[u8]) {
    if !text.iter().any(|byte| *byte <= b' ') {
        return out.extend_from_slice(text);
    }
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in text {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' if !in_string => continue,
            b'"' if !is_escaped => in_string = !in_string,
            _ => {}
        }
        is_escaped = *byte == b'\\' && !is_escaped;
        out.push(*byte);
    }
}
