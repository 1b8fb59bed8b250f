//! HMAC-SHA-256 (RFC 2104, FIPS 180-4) of two short values at once.
//!
//! A processor with instructions for SHA-256 waits for each result before the next round of the same message. Rounds of a
//! second message fit into that time. All words stay in registers from the first block to the digits.

type State = [u32; 8];
type Block = [u8; 64];
type Digits = [u8; 32];

/// The round constants (FIPS 180-4, 4.2.2).
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub const ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

#[cfg(not(target_arch = "x86_64"))]
pub fn is_available() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
pub fn digits(_: &State, _: &State, _: &[Block; 2]) -> [Digits; 2] {
    unreachable!("is_available() is false")
}

/// Return whether `digits` may be called.
#[cfg(target_arch = "x86_64")]
pub fn is_available() -> bool {
    is_x86_feature_detected!("sha") && is_x86_feature_detected!("ssse3") && is_x86_feature_detected!("sse4.1")
}

/// Return the first half of each hash as hexadecimal digits. `inner` and `outer` are the states after the key, and the
/// blocks are those of the values, with their ends.
#[cfg(target_arch = "x86_64")]
pub fn digits(inner: &State, outer: &State, blocks: &[Block; 2]) -> [Digits; 2] {
    assert!(is_available(), "the processor has no instructions for SHA-256");
    // SAFETY: the processor has the instructions that the function is compiled with.
    unsafe { x86::digits(inner, outer, blocks) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_set_epi32,
        _mm_set_epi64x, _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32,
        _mm_shuffle_epi32, _mm_shuffle_epi8, _mm_srli_epi16, _mm_storeu_si128, _mm_unpackhi_epi64, _mm_unpackhi_epi8,
        _mm_unpacklo_epi64, _mm_unpacklo_epi8,
    };

    use super::{Block, Digits, State, ROUNDS};

    /// Bits of the key's block and of the inner hash, of which the outer message consists.
    const OUTER_BITS: i32 = 8 * (64 + 32);

    /// The state of a message: the words A B E F and C D G H, highest first.
    #[derive(Clone, Copy)]
    struct Halves {
        abef: __m128i,
        cdgh: __m128i,
    }

    /// The next 16 words of a message's schedule, lowest first.
    type Words = [__m128i; 4];

    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    pub unsafe fn digits(inner: &State, outer: &State, blocks: &[Block; 2]) -> [Digits; 2] {
        let [one, two] = after(halves(inner), [words(&blocks[0]), words(&blocks[1])]);
        let [one, two] = after(halves(outer), [outer_words(one), outer_words(two)]);
        [in_digits(one), in_digits(two)]
    }

    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn halves(state: &State) -> Halves {
        let [a, b, c, d, e, f, g, h] = *state;
        Halves {
            abef: _mm_set_epi32(a as i32, b as i32, e as i32, f as i32),
            cdgh: _mm_set_epi32(c as i32, d as i32, g as i32, h as i32),
        }
    }

    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn words(block: &Block) -> Words {
        let start: *const __m128i = block.as_ptr().cast();
        [
            big_endian(_mm_loadu_si128(start)),
            big_endian(_mm_loadu_si128(start.add(1))),
            big_endian(_mm_loadu_si128(start.add(2))),
            big_endian(_mm_loadu_si128(start.add(3))),
        ]
    }

    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn big_endian(words: __m128i) -> __m128i {
        _mm_shuffle_epi8(words, _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203))
    }

    /// Return the states after one more block of each message.
    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn after(begun: Halves, words: [Words; 2]) -> [Halves; 2] {
        let ([mut one, mut two], [mut one_words, mut two_words]) = ([begun; 2], words);
        for four in 0..16 {
            let constants = _mm_loadu_si128(ROUNDS.as_ptr().add(4 * four).cast());
            (one, one_words) = four_rounds(one, one_words, constants);
            (two, two_words) = four_rounds(two, two_words, constants);
        }
        [sum(begun, one), sum(begun, two)]
    }

    /// Four rounds, and the words that 16 rounds later take.
    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn four_rounds(begun: Halves, [w0, w1, w2, w3]: Words, constants: __m128i) -> (Halves, Words) {
        let sum = _mm_add_epi32(w0, constants);
        let cdgh = _mm_sha256rnds2_epu32(begun.cdgh, begun.abef, sum);
        let abef = _mm_sha256rnds2_epu32(begun.abef, cdgh, _mm_shuffle_epi32::<0x0e>(sum));
        let partly = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8::<4>(w3, w2));
        (Halves { abef, cdgh }, [w1, w2, w3, _mm_sha256msg2_epu32(partly, w3)])
    }

    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn sum(one: Halves, other: Halves) -> Halves {
        Halves { abef: _mm_add_epi32(one.abef, other.abef), cdgh: _mm_add_epi32(one.cdgh, other.cdgh) }
    }

    /// Return the words A B C D and E F G H, lowest first.
    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn in_order(state: Halves) -> [__m128i; 2] {
        let (abef, cdgh) = (_mm_shuffle_epi32::<0x1b>(state.abef), _mm_shuffle_epi32::<0x1b>(state.cdgh));
        [_mm_unpacklo_epi64(abef, cdgh), _mm_unpackhi_epi64(abef, cdgh)]
    }

    /// The block of an inner hash, with its end.
    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn outer_words(inner: Halves) -> Words {
        let [low, high] = in_order(inner);
        [low, high, _mm_set_epi32(0, 0, 0, i32::MIN), _mm_set_epi32(OUTER_BITS, 0, 0, 0)]
    }

    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn in_digits(state: Halves) -> Digits {
        let (bytes, low_half) = (big_endian(in_order(state)[0]), _mm_set1_epi8(15));
        let (high, low) = (_mm_and_si128(_mm_srli_epi16::<4>(bytes), low_half), _mm_and_si128(bytes, low_half));
        let each = _mm_loadu_si128(b"0123456789abcdef".as_ptr().cast());
        let mut digits = [0; 32];
        let to: *mut __m128i = digits.as_mut_ptr().cast();
        _mm_storeu_si128(to, _mm_shuffle_epi8(each, _mm_unpacklo_epi8(high, low)));
        _mm_storeu_si128(to.add(1), _mm_shuffle_epi8(each, _mm_unpackhi_epi8(high, low)));
        digits
    }
}
