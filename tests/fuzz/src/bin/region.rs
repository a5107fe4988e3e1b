#![no_main]

use libfuzzer_sys::fuzz_target;
use tracebraid_fuzz::{plant, region};

fuzz_target!(init: plant(region::seeds), |data: &[u8]| region::check(data));
