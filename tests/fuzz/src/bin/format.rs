#![no_main]

use libfuzzer_sys::fuzz_target;
use tracebraid_fuzz::{format, plant};

fuzz_target!(init: plant(format::seeds), |data: &[u8]| format::check(data));
