#![no_main]

use libfuzzer_sys::fuzz_target;
use tracebraid_fuzz::{dwarf, plant};

fuzz_target!(init: plant(dwarf::seeds), |data: &[u8]| dwarf::check(data));
