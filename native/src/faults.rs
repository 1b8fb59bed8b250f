//! Faults of payloads, and the limits that bound the memory and the time that hostile payloads take.

pub type Checked<T = ()> = Result<T, Box<Fault>>;

/// The first rule that a payload breaks. `segments` are the path to the value, innermost first.
pub struct Fault {
    pub reason: &'static str,
    pub detail: String,
    segments: Vec<String>,
}

pub const MICROS_A_DAY: i64 = 86_400_000_000;
/// The maximum number of slots in columns per payload: a null takes 1 byte, but a slot in every column below it.
pub const MOST_SLOTS: u64 = 1 << 25;

/// Build a fault. The message is formatted only here, so valid payloads do not pay for it.
#[cold]
#[inline(never)]
pub fn broken<T>(reason: &'static str, detail: impl FnOnce() -> String) -> Checked<T> {
    Err(Box::new(Fault { reason, detail: detail(), segments: Vec::new() }))
}

impl Fault {
    #[cold]
    #[inline(never)]
    pub fn inside(mut self: Box<Self>, segment: &str) -> Box<Self> {
        self.segments.push(segment.to_string());
        self
    }

    pub fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.segments.iter().rev() {
            if !path.is_empty() && !segment.is_empty() && !segment.starts_with(['[', '{']) {
                path.push('.');
            }
            path.push_str(segment);
        }
        path
    }
}

/// `1 byte` or `2 bytes`.
pub fn counted(count: impl Into<i128>, noun: &str) -> String {
    let count = count.into();
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

pub fn within(value: i64, least: i64, most: i64, what: &str) -> Checked<i64> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    broken("out_of_range", || format!("expected a {what} from {least} to {most}, found {value}"))
}

/// Return the text if it is valid UTF-8.
#[inline]
pub fn utf8(text: &[u8]) -> Checked<&[u8]> {
    if is_ascii(text) {
        return Ok(text);
    }
    match std::str::from_utf8(text) {
        Ok(_) => Ok(text),
        Err(error) => broken("bad_utf8", || {
            format!("the string is not valid UTF-8 at byte {}", error.valid_up_to())
        }),
    }
}

/// Check eight bytes at a time. For short texts this beats the standard library, which first handles alignment.
#[inline]
pub fn is_ascii(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks::<8>();
    let high = words.iter().fold(0, |high, word| high | u64::from_ne_bytes(*word));
    let rest = rest.iter().fold(0, |high, byte| high | byte);
    high & 0x8080_8080_8080_8080 == 0 && rest < 0x80
}

/// Read a big-endian number in two's complement; None if it needs more than 128 bits.
pub fn unscaled(digits: &[u8]) -> Option<i128> {
    let sign = if digits.first().is_some_and(|byte| *byte >= 0x80) { 0xFF } else { 0 };
    let (extra, last) = digits.split_at(digits.len().saturating_sub(16));
    let mut whole = [sign; 16];
    whole[16 - last.len()..].copy_from_slice(last);
    let value = i128::from_be_bytes(whole);
    (extra.iter().all(|byte| *byte == sign) && (value < 0) == (sign != 0)).then_some(value)
}

/// What one payload has used of the limits so far.
pub struct Used {
    /// The slots in columns that the items of the payload fill.
    pub slots: u64,
    /// Timestamps that lost digits below the microsecond.
    pub truncated_nanos: u64,
    /// Fields that no shape declares.
    pub undeclared: u64,
    /// The slots that are left for the payloads of the call.
    room: u64,
    /// Whether the payload does not fit in the room that is left; the fault then says nothing of the payload.
    pub is_crowded: bool,
}

impl Used {
    pub fn new(room: u64) -> Self {
        Self { slots: 0, truncated_nanos: 0, undeclared: 0, room, is_crowded: false }
    }

    /// Count slots that are about to be filled.
    #[inline]
    pub fn reserve(&mut self, more: u64) -> Checked {
        let slots = self.slots.saturating_add(more);
        if slots > MOST_SLOTS {
            return broken("too_large", || {
                format!("the payload expands to more than {MOST_SLOTS} values in columns")
            });
        }
        if slots > self.room {
            self.is_crowded = true;
            return broken("too_large", || format!("{} slots are left for {slots} slots", self.room));
        }
        self.slots = slots;
        Ok(())
    }
}
