//! HMAC-SHA-256 (RFC 2104, FIPS 180-4) of 16 short values at once, with the vectors of 512 bits that AVX-512 has.
//!
//! A vector has the same word of each message. That takes half the time of the instructions for SHA-256, which work on
//! one message.

#[cfg(target_arch = "x86_64")]
use crate::keyed_hashes::MOST_IN_ONE_BLOCK;

/// How many values are hashed at once.
pub const LANES: usize = 16;

type State = [u32; 8];
type Digits = [u8; 32];

#[cfg(not(target_arch = "x86_64"))]
pub fn is_available() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
pub fn digits(_: &State, _: &State, _: &[&[u8]; LANES]) -> [Digits; LANES] {
    unreachable!("is_available() is false")
}

/// Return whether `digits` may be called.
#[cfg(target_arch = "x86_64")]
pub fn is_available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
}

/// Return the first half of each hash as hexadecimal digits. `inner` and `outer` are the states after the key. A value
/// has at most `MOST_IN_ONE_BLOCK` bytes.
#[cfg(target_arch = "x86_64")]
pub fn digits(inner: &State, outer: &State, values: &[&[u8]; LANES]) -> [Digits; LANES] {
    assert!(is_available(), "the processor has no AVX-512");
    assert!(values.iter().all(|value| value.len() <= MOST_IN_ONE_BLOCK), "a value takes more than one block");
    // SAFETY: the processor has the instructions that the function is compiled with, and no value is too long.
    unsafe { x86::digits(inner, outer, values) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m128i, __m512i, _mm512_add_epi32, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_mask_mov_epi8,
        _mm512_maskz_loadu_epi8, _mm512_ror_epi32, _mm512_set1_epi32, _mm512_set1_epi8, _mm512_setzero_si512,
        _mm512_shuffle_epi8, _mm512_shuffle_i32x4, _mm512_srli_epi16, _mm512_srli_epi32, _mm512_ternarylogic_epi32,
        _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpackhi_epi8, _mm512_unpacklo_epi32,
        _mm512_unpacklo_epi64, _mm512_unpacklo_epi8, _mm_loadu_si128, _mm_set_epi64x, _mm_storeu_si128,
    };

    use super::{Digits, State, LANES};
    use crate::sha256_pairs::ROUNDS;

    /// Bits of the key's block, which come before each message.
    const KEY_BITS: usize = 8 * 64;
    /// Bits of the key's block and of the inner hash, of which the outer message consists.
    const OUTER_BITS: usize = KEY_BITS + 8 * 32;

    // What the bits of a result are, for each combination of bits of three vectors.
    const XOR: i32 = 0b1001_0110;
    const CHOICE: i32 = 0b1100_1010;
    const MAJORITY: i32 = 0b1110_1000;

    /// The same word of each message.
    type Word = __m512i;

    #[target_feature(enable = "avx512f,avx512bw")]
    pub unsafe fn digits(inner: &State, outer: &State, values: &[&[u8]; LANES]) -> [Digits; LANES] {
        let inner = after(inner, words(values));
        let mut message = [_mm512_setzero_si512(); 16];
        message[..8].copy_from_slice(&inner);
        message[8] = _mm512_set1_epi32(i32::MIN);
        message[15] = _mm512_set1_epi32(OUTER_BITS as i32);
        in_digits(after(outer, message))
    }

    /// Return the words of the block that each value and its end make.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn words(values: &[&[u8]; LANES]) -> [Word; 16] {
        let (mut rows, mut lengths) = ([_mm512_setzero_si512(); LANES], [0u32; LANES]);
        for (place, value) in values.iter().enumerate() {
            let after = 1u64 << value.len();
            let row = _mm512_maskz_loadu_epi8(after - 1, value.as_ptr().cast());
            rows[place] = big_endian(_mm512_mask_mov_epi8(row, after, _mm512_set1_epi8(i8::MIN)));
            lengths[place] = (KEY_BITS + 8 * value.len()) as u32;
        }
        let mut words = transposed(rows);
        words[15] = std::mem::transmute::<[u32; LANES], Word>(lengths);
        words
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn big_endian(words: __m512i) -> __m512i {
        let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(order))
    }

    /// Return the columns of 16 rows of 16 words.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn transposed(mut rows: [__m512i; 16]) -> [__m512i; 16] {
        for four in rows.chunks_exact_mut(4) {
            let [a, b, c, d] = [four[0], four[1], four[2], four[3]];
            four.copy_from_slice(&in_fours([a, b, c, d]));
        }
        let mut columns = rows;
        for place in 0..4 {
            let [a, b, c, d] = [rows[place], rows[place + 4], rows[place + 8], rows[place + 12]];
            let (low, high) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
            let (other_low, other_high) = (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
            columns[place] = _mm512_shuffle_i32x4::<0x88>(low, other_low);
            columns[place + 4] = _mm512_shuffle_i32x4::<0xdd>(low, other_low);
            columns[place + 8] = _mm512_shuffle_i32x4::<0x88>(high, other_high);
            columns[place + 12] = _mm512_shuffle_i32x4::<0xdd>(high, other_high);
        }
        columns
    }

    /// Transpose the four squares of four words that four rows have.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn in_fours([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
        let (low, high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (other_low, other_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(low, other_low),
            _mm512_unpackhi_epi64(low, other_low),
            _mm512_unpacklo_epi64(high, other_high),
            _mm512_unpackhi_epi64(high, other_high),
        ]
    }

    /// Repeat a block for each place of 16 words. A loop would be left as one, and keep the words in memory.
    macro_rules! for_each_word {
        ($place:ident, $block:block) => {
            for_each_word!($place, $block, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
        };
        ($place:ident, $block:block, $($number:literal)*) => {
            $(
                let $place: usize = $number;
                $block
            )*
        };
    }

    /// Return the states after one more block of each message.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn after(begun: &State, mut words: [Word; 16]) -> [Word; 8] {
        let mut state = [_mm512_setzero_si512(); 8];
        for (word, begun) in state.iter_mut().zip(begun) {
            *word = _mm512_set1_epi32(*begun as i32);
        }
        let [scheduled @ .., last] = ROUNDS.as_chunks::<16>().0 else { unreachable!("there are 64 rounds") };
        for constants in scheduled {
            for_each_word!(place, {
                state = round(state, with_constant(words[place], constants[place]));
                words[place] = next_word(&words, place);
            });
        }
        for_each_word!(place, {
            state = round(state, with_constant(words[place], last[place]));
        });
        for (word, begun) in state.iter_mut().zip(begun) {
            *word = _mm512_add_epi32(*word, _mm512_set1_epi32(*begun as i32));
        }
        state
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn with_constant(word: Word, constant: u32) -> Word {
        _mm512_add_epi32(word, _mm512_set1_epi32(constant as i32))
    }

    /// One round. The next one waits for the new `e`, which waits for `of_e`: that comes last in the sums.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn round([a, b, c, d, e, f, g, h]: [Word; 8], word: Word) -> [Word; 8] {
        let early = add(h, word);
        let of_e = xor(_mm512_ror_epi32::<6>(e), _mm512_ror_epi32::<11>(e), _mm512_ror_epi32::<25>(e));
        let choice = _mm512_ternarylogic_epi32::<CHOICE>(e, f, g);
        let of_a = xor(_mm512_ror_epi32::<2>(a), _mm512_ror_epi32::<13>(a), _mm512_ror_epi32::<22>(a));
        let majority = _mm512_ternarylogic_epi32::<MAJORITY>(a, b, c);
        let next_e = _mm512_add_epi32(add(add(early, d), choice), of_e);
        let next_a = _mm512_add_epi32(_mm512_add_epi32(add(early, choice), add(of_a, majority)), of_e);
        [next_a, a, b, c, next_e, e, f, g]
    }

    /// Return the word that takes this place 16 rounds later.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn next_word(words: &[Word; 16], place: usize) -> Word {
        let (one, nine, fourteen) = (words[(place + 1) % 16], words[(place + 9) % 16], words[(place + 14) % 16]);
        let low = xor(_mm512_ror_epi32::<7>(one), _mm512_ror_epi32::<18>(one), _mm512_srli_epi32::<3>(one));
        let (early, late) = (_mm512_ror_epi32::<17>(fourteen), _mm512_ror_epi32::<19>(fourteen));
        let high = xor(early, late, _mm512_srli_epi32::<10>(fourteen));
        _mm512_add_epi32(_mm512_add_epi32(_mm512_add_epi32(words[place], nine), low), high)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn xor(one: Word, two: Word, three: Word) -> Word {
        _mm512_ternarylogic_epi32::<XOR>(one, two, three)
    }

    /// Add two words. The compiler keeps the order of such sums: its own order makes the next round wait longer.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn add(one: Word, other: Word) -> Word {
        let mut sum = _mm512_add_epi32(one, other);
        asm!("/* {0} */", inout(zmm_reg) sum, options(pure, nomem, nostack, preserves_flags));
        sum
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn in_digits([a, b, c, d, ..]: [Word; 8]) -> [Digits; LANES] {
        let digit = _mm512_broadcast_i32x4(_mm_loadu_si128(b"0123456789abcdef".as_ptr().cast()));
        let low_half = _mm512_set1_epi8(15);
        let mut digits = [[0; 32]; LANES];
        // each of the four has the hashes of every fourth message
        for (first, four) in in_fours([a, b, c, d]).into_iter().enumerate() {
            let bytes = big_endian(four);
            let high = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low_half);
            let low = _mm512_and_si512(bytes, low_half);
            let left = _mm512_shuffle_epi8(digit, _mm512_unpacklo_epi8(high, low));
            let right = _mm512_shuffle_epi8(digit, _mm512_unpackhi_epi8(high, low));
            let lefts = std::mem::transmute::<__m512i, [__m128i; 4]>(left);
            let rights = std::mem::transmute::<__m512i, [__m128i; 4]>(right);
            for part in 0..4 {
                let to: *mut __m128i = digits[first + 4 * part].as_mut_ptr().cast();
                _mm_storeu_si128(to, lefts[part]);
                _mm_storeu_si128(to.add(1), rights[part]);
            }
        }
        digits
    }
}
