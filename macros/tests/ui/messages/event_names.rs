use tracebraid::event;

fn main() {
    event!();
    event!("name");
    event!(a::b::c);
    event!(a b);
    event!(a::);
    event!(level: 3, a);
    event!(gate: "nop", a);
    event!(print: 3, a);
}
