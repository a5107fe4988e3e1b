//! What an event's fields are after they went through a ring: the SDK's encoder against the values
//! themselves.

use std::time::Duration;

use tracebraid::{FieldValue, Options, event};

/// Numbers without order, small ones among them.
struct Dice(u64);

impl Dice {
    fn throw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn number(&mut self) -> u64 {
        let bits = self.throw() % 64;
        self.throw() >> bits
    }
}

/// One of each form that a field can have.
#[derive(Clone, Debug)]
struct Values {
    tiny: u8,
    text: String,
    short: Option<i16>,
    wide: u128,
    bytes: Vec<u8>,
    word: Option<u64>,
    time: Duration,
    letter: char,
    maybe: Option<String>,
    huge: Option<i128>,
    real: f64,
    yes: bool,
}

const ALPHABET: &str = "äbcdefghijklmnöpqrstuvwxyz 0123456789";

impl Values {
    fn throw(dice: &mut Dice) -> Values {
        let half = |dice: &mut Dice| dice.throw().is_multiple_of(2);
        Values {
            tiny: dice.throw() as u8,
            text: text(dice, 70),
            short: half(dice).then(|| dice.throw() as i16),
            wide: u128::from(dice.number()) << 64 | u128::from(dice.throw()),
            bytes: (0..dice.throw() % 40).map(|_| dice.throw() as u8).collect(),
            word: half(dice).then(|| dice.number()),
            time: Duration::new(dice.number(), (dice.throw() % 1_000_000_000) as u32),
            letter: ALPHABET.chars().nth(dice.throw() as usize % 30).unwrap(),
            maybe: half(dice).then(|| text(dice, 20)),
            huge: half(dice).then(|| -i128::from(dice.number()) << (dice.throw() % 60)),
            real: f64::from_bits(dice.throw() >> 2),
            yes: half(dice),
        }
    }

    #[inline(never)]
    fn fire(&self) {
        event!(
            mixed,
            tiny = self.tiny,
            text = self.text.as_str(),
            short = self.short,
            wide = self.wide,
            bytes = self.bytes.as_slice(),
            word = self.word,
            time = self.time,
            letter = self.letter,
            maybe = self.maybe.as_deref(),
            huge = self.huge,
            real = self.real,
            yes = self.yes
        );
    }

    /// The fields as a reader ought to see them.
    fn expected(&self) -> [FieldValue<'_>; 12] {
        fn or_none<T>(
            value: Option<T>,
            make: impl Fn(T) -> FieldValue<'static>,
        ) -> FieldValue<'static> {
            value.map_or(FieldValue::None, make)
        }
        [
            FieldValue::Unsigned(self.tiny.into()),
            FieldValue::Str(&self.text),
            or_none(self.short, |short| FieldValue::Signed(short.into())),
            FieldValue::Unsigned128(self.wide),
            FieldValue::Bytes(&self.bytes),
            or_none(self.word, FieldValue::Unsigned),
            FieldValue::Duration(self.time),
            FieldValue::Char(self.letter),
            self.maybe
                .as_deref()
                .map_or(FieldValue::None, FieldValue::Str),
            or_none(self.huge, FieldValue::Signed128),
            FieldValue::F64(self.real),
            FieldValue::Bool(self.yes),
        ]
    }
}

fn text(dice: &mut Dice, most: u64) -> String {
    let length = dice.throw() % most;
    let letter = |_| ALPHABET.chars().nth(dice.throw() as usize % 37).unwrap();
    (0..length).map(letter).collect()
}

#[test]
fn fields_of_every_form_come_out_of_a_ring_as_they_went_in() {
    tracebraid::init_with(Options::new().ring(1 << 20)).unwrap();
    tracebraid::enable("mixed").unwrap();
    tracebraid::enable("long").unwrap();
    tracebraid::drain(|_| {}).unwrap();
    let rounds = match std::env::var_os("TRACEBRAID_SOAK") {
        Some(_) => 20_000,
        None => 50,
    };
    let mut dice = Dice(0x0dd5_eed5_0dd5_eed7);
    for _ in 0..rounds {
        let sent: Vec<Values> = (0..200).map(|_| Values::throw(&mut dice)).collect();
        sent.iter().for_each(Values::fire);
        let mut left = sent.iter();
        let read = tracebraid::drain(|event| {
            let values = left.next().expect("no more than were sent");
            let seen: Vec<_> = event.fields().map(|(_, value)| value).collect();
            assert_eq!(seen, values.expected(), "{values:?}");
        });
        assert_eq!(read.unwrap(), sent.len());
    }
    long_texts();
    assert_eq!(tracebraid::lost("mixed"), 0);
}

/// Texts that are longer than a record are cut, and what follows them is there.
fn long_texts() {
    let text: String = ('a'..='z').cycle().take(5_000).collect();
    for length in 0..text.len() {
        event!(
            long,
            first = &text[..length],
            second = &text[..length / 2],
            last = length as u64
        );
        let read = tracebraid::drain(|event| {
            let part = |name| match event.field(name) {
                Some(FieldValue::Str(part)) => part.len(),
                other => panic!("{name} is {other:?}"),
            };
            let (first, second) = (part("first"), part("second"));
            assert_eq!(event.field("first"), Some(FieldValue::Str(&text[..first])));
            assert_eq!(
                event.field("second"),
                Some(FieldValue::Str(&text[..second]))
            );
            assert_eq!(
                event.field("last"),
                Some(FieldValue::Unsigned(length as u64))
            );
            // A record has 160 words.
            if length < 800 {
                assert_eq!((first, second), (length, length / 2));
            } else {
                assert!(first >= 800 && first <= length && first + second < 1_280);
            }
        });
        assert_eq!(read.unwrap(), 1);
    }
}
