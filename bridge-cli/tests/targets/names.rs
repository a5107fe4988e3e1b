//! Functions with names of every sort, all on the way to `reached`.

use std::fmt::Debug;
use std::hint::black_box;

pub struct Store<T>(Vec<T>);

impl<T: Debug + Clone> Store<T> {
    #[inline(never)]
    pub fn put(&mut self, value: T) -> usize {
        self.0.push(black_box(value));
        black_box(between(self.0.len()))
    }
}

#[inline(always)]
fn between(count: usize) -> usize {
    black_box(inner::helper(count)) + 1
}

mod inner {
    #[inline(never)]
    pub fn helper(count: usize) -> usize {
        std::hint::black_box(super::reached(count)) * 3
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn reached(count: usize) -> usize {
    black_box(count) + 1
}

fn main() {
    let mut numbers = Store(vec![1_u8]);
    let mut texts = Store(vec![String::new()]);
    black_box(numbers.put(2));
    black_box(texts.put("two".to_owned()));
}
