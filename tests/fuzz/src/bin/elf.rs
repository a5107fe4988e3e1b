#![no_main]

use libfuzzer_sys::fuzz_target;
use tracebraid_fuzz::{elf, plant};

fuzz_target!(init: plant(elf::seeds), |data: &[u8]| elf::check(data));
