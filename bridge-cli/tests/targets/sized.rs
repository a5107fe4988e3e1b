//! Calls of a function with texts that know their length: with zero bytes in them, empty ones, long ones.

#[inline(never)]
pub fn says(text: &str, bytes: &[u8]) -> usize {
    std::hint::black_box(text).len() + std::hint::black_box(bytes).len()
}

fn main() {
    let long = "x\0".repeat(200);
    let calls: [(&str, &[u8]); 4] = [
        ("a\0b", b"\0\0x"),
        ("", b""),
        ("plain", b"\0"),
        (&long, b"end"),
    ];
    let mut sum = 0;
    for (text, bytes) in calls {
        sum += says(std::hint::black_box(text), std::hint::black_box(bytes));
    }
    assert_eq!(sum, 3 + 3 + 5 + 1 + 400 + 3);
}
