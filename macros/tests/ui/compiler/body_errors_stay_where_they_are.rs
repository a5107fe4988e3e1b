use tracebraid::tracepoint;

#[tracepoint]
fn wrong_type(id: u64) -> String {
    id
}

#[tracepoint]
async fn wrong_type_async(id: u64) -> String {
    if id == 3 {
        return 4;
    }
    id.to_string()
}

#[tracepoint]
fn unused(id: u64) {
    let unused = id;
    undefined();
}

fn main() {}
