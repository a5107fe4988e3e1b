#![no_main]

use libfuzzer_sys::fuzz_target;
use tracebraid_fuzz::{definition, plant};

fuzz_target!(init: plant(definition::seeds), |data: &[u8]| definition::check(data));
