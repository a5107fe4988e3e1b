//! What texts are compared with, as the words that `bpf/filter.bpf.h` reads.

use super::Step;
use crate::abi;
use crate::hit_filter::{Like, Part, Shape as TextShape};

/// The words of a pattern, and how many.
pub(super) fn text_test(like: &Like) -> Step<abi::TextTest> {
    let (shape, length, words): (u32, usize, Vec<u64>) = match like {
        Like::Bytes(shape, bytes) => {
            let shape = match shape {
                TextShape::Whole => abi::SHAPE_WHOLE,
                TextShape::Front => abi::SHAPE_FRONT,
                TextShape::End => abi::SHAPE_END,
                TextShape::Middle => abi::SHAPE_MIDDLE,
            };
            let word = |part: &[u8]| {
                let mut word = [0; 8];
                word[..part.len()].copy_from_slice(part);
                u64::from_ne_bytes(word)
            };
            (shape, bytes.len(), bytes.chunks(8).map(word).collect())
        }
        Like::Parts(parts) => {
            let words: Vec<u64> = parts.iter().flat_map(part_words).collect();
            (abi::SHAPE_PARTS, words.len(), words)
        }
    };
    if length >= abi::PATTERN {
        return Err(format!("compares text with a pattern of {length} parts"));
    }
    let mut test = abi::TextTest {
        shape,
        length: length as u32,
        words: [0; abi::PATTERN],
    };
    test.words[..words.len()].copy_from_slice(&words);
    Ok(test)
}

/// One word a range.
fn part_words(part: &Part) -> Vec<u64> {
    const LARGEST: u32 = 0xff_ffff;
    match part {
        Part::Run => vec![abi::PART_RUN],
        Part::Character { ranges, negated } => {
            let last = ranges.len().saturating_sub(1);
            let word = |(index, &(low, high)): (usize, &(u32, u32))| {
                let mut word = u64::from(low.min(LARGEST)) | u64::from(high.min(LARGEST)) << 24;
                if *negated {
                    word |= abi::PART_NEGATED;
                }
                if index < last {
                    word |= abi::PART_MORE;
                }
                word
            };
            ranges.iter().enumerate().map(word).collect()
        }
    }
}
