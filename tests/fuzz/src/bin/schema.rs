#![no_main]

use libfuzzer_sys::fuzz_target;
use tracebraid_fuzz::{plant, schema};

fuzz_target!(init: plant(schema::seeds), |data: &[u8]| schema::check(data));
