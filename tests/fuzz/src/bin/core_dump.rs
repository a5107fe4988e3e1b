#![no_main]

use libfuzzer_sys::fuzz_target;
use tracebraid_fuzz::{core_dump, plant};

fuzz_target!(init: plant(core_dump::seeds), |data: &[u8]| core_dump::check(data));
