#![no_main]

use libfuzzer_sys::fuzz_target;
use tracebraid_fuzz::{filter, plant};

fuzz_target!(init: plant(filter::seeds), |data: &[u8]| filter::check(data));
