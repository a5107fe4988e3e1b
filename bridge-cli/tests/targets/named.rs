//! Functions whose arguments a probe names, in Rust. It prints them as a probe should, one line a call.

use std::hint::black_box;

pub struct Line {
    pub sku: u32,
    pub count: i16,
}

pub struct Cart<'a> {
    pub id: u64,
    pub owner: &'a str,
    pub note: String,
    pub first: Line,
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn charge(cents: i64, user: &str, cart: &Cart, express: bool, grade: u8) -> i64 {
    println!(
        "charge cents={cents} user=\"{user}\" id={} owner=\"{}\" note=\"{}\" sku={} count={} express={} grade={grade}",
        cart.id,
        cart.owner,
        cart.note,
        cart.first.sku,
        cart.first.count,
        u8::from(express)
    );
    cents + 1
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn whole(cart: Cart, line: Line) -> u64 {
    println!("whole id={} owner=\"{}\" sku={}", cart.id, cart.owner, line.sku);
    black_box(cart).id
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(1, |text| text.parse().unwrap());
    for round in 0..rounds {
        // Not the whole literal: what follows in memory is no part of it.
        let user = &black_box("grace hopper")[..5];
        let cart = || Cart {
            id: 900 + round,
            owner: &black_box("ada lovelace")[..3],
            note: String::from("by noon"),
            first: Line { sku: 77, count: -3 },
        };
        black_box(charge(-4200, user, &black_box(cart()), true, 9));
        black_box(whole(black_box(cart()), black_box(Line { sku: 78, count: 1 })));
    }
}
