//! One block of SHA-256 (FIPS 180-4) for two messages at once.
//!
//! A processor with instructions for SHA-256 waits for each result before the next round of the same message. Rounds of a
//! second message fit into that time.

type State = [u32; 8];
type Block = [u8; 64];

#[cfg(not(target_arch = "x86_64"))]
pub fn is_available() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
pub fn after(_: [State; 2], _: &[Block; 2]) -> [State; 2] {
    unreachable!("is_available() is false")
}

/// Return whether `after` may be called.
#[cfg(target_arch = "x86_64")]
pub fn is_available() -> bool {
    is_x86_feature_detected!("sha") && is_x86_feature_detected!("ssse3") && is_x86_feature_detected!("sse4.1")
}

/// Return the states after one more block of each message.
#[cfg(target_arch = "x86_64")]
pub fn after(states: [State; 2], blocks: &[Block; 2]) -> [State; 2] {
    assert!(is_available(), "the processor has no instructions for SHA-256");
    // SAFETY: the processor has the instructions that the function is compiled with.
    unsafe { x86::after(states, blocks) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_loadu_si128, _mm_set_epi32, _mm_set_epi64x, _mm_sha256msg1_epu32,
        _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi32, _mm_shuffle_epi8, _mm_storeu_si128,
    };

    use super::{Block, State};

    /// The round constants (FIPS 180-4, 4.2.2).
    #[rustfmt::skip]
    const ROUNDS: [u32; 64] = [
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
    ];

    /// A message in the middle of a block: the words A B E F and C D G H, and the next 16 words of the schedule.
    #[derive(Clone, Copy)]
    struct Half {
        abef: __m128i,
        cdgh: __m128i,
        words: [__m128i; 4],
    }

    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    pub unsafe fn after(states: [State; 2], blocks: &[Block; 2]) -> [State; 2] {
        let begun = [begin(&states[0], &blocks[0]), begin(&states[1], &blocks[1])];
        let [mut one, mut two] = begun;
        for four in 0..16 {
            let constants = _mm_loadu_si128(ROUNDS.as_ptr().add(4 * four).cast());
            one = four_rounds(one, constants);
            two = four_rounds(two, constants);
        }
        [end(&begun[0], &one), end(&begun[1], &two)]
    }

    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn begin(state: &State, block: &Block) -> Half {
        let [a, b, c, d, e, f, g, h] = state.map(|word| word as i32);
        let big_endian = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        let mut words = [big_endian; 4];
        for (place, word) in words.iter_mut().enumerate() {
            *word = _mm_shuffle_epi8(_mm_loadu_si128(block.as_ptr().add(16 * place).cast()), big_endian);
        }
        Half { abef: _mm_set_epi32(a, b, e, f), cdgh: _mm_set_epi32(c, d, g, h), words }
    }

    /// Four rounds, and the words that 16 rounds later take.
    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn four_rounds(half: Half, constants: __m128i) -> Half {
        let [w0, w1, w2, w3] = half.words;
        let sum = _mm_add_epi32(w0, constants);
        let cdgh = _mm_sha256rnds2_epu32(half.cdgh, half.abef, sum);
        let abef = _mm_sha256rnds2_epu32(half.abef, cdgh, _mm_shuffle_epi32::<0x0e>(sum));
        let partly = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8::<4>(w3, w2));
        Half { abef, cdgh, words: [w1, w2, w3, _mm_sha256msg2_epu32(partly, w3)] }
    }

    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn end(begun: &Half, done: &Half) -> State {
        let (mut feba, mut hgdc) = ([0u32; 4], [0u32; 4]);
        _mm_storeu_si128(feba.as_mut_ptr().cast(), _mm_add_epi32(begun.abef, done.abef));
        _mm_storeu_si128(hgdc.as_mut_ptr().cast(), _mm_add_epi32(begun.cdgh, done.cdgh));
        [feba[3], feba[2], hgdc[3], hgdc[2], feba[1], feba[0], hgdc[1], hgdc[0]]
    }
}
