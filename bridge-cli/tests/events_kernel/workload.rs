//! What the compared events come from.

use std::fs;
use std::io::{Read, Write};
use std::process::Command;
use std::time::Duration;

/// What of it there is only where the file is on a disk.
pub(crate) fn of_disks() -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt as _;

    let device = fs::metadata(std::env::temp_dir()).unwrap().dev();
    // Devices of file systems that are on none have the major number 0.
    (libc::major(device) != 0).then_some("block:block_rq_issue")
}

/// Some of everything: allocations, files, sockets, signals, timers, threads that take turns.
pub(crate) fn workload() {
    let file = std::env::temp_dir().join(format!("tracebraid-events-{}", std::process::id()));
    let rounds = match std::env::var_os("TRACEBRAID_SHORT") {
        Some(_) => 4,
        None => 20,
    };
    for round in 0..rounds {
        let mut output = fs::File::create(&file).unwrap();
        output.write_all(&vec![round; 20_000]).unwrap();
        output.sync_all().unwrap();
        let mut child = Command::new("sleep").arg("10").spawn().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(b"hello").unwrap();
        });
        let mut answer = Vec::new();
        listener
            .accept()
            .unwrap()
            .0
            .read_to_end(&mut answer)
            .unwrap();
        client.join().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::remove_file(file).unwrap();
}
