use tracebraid::event;

fn main() {
    let (x, y) = (1, (2, 3));
    event!(a, "a message {}", x);
    event!(a, x + 1);
    event!(a, 3);
    event!(a, y.(0));
    event!(a, x = );
    event!(a, x = %);
    event!(a, %f(x));
    event!(a, ?x = 3);
    event!(a, { x } = 3);
    event!(a, x, y = 1, x = 2);
    event!(a, "" = 2);
    event!(a, "nul\0" = 2);
    event!(a, x x);
}
