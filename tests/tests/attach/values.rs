//! What is printed is what the program passed, for every kind of field at its limits.

use std::fs;

use serde_json::Value;

use super::bridge::{Attached, Ran, Via};
use super::directory;
use super::target::Target;

/// A tracepoint's name, the body of its line, and its fields in JSON.
type Expected = (String, String, String);

pub(crate) fn text(via: Via) {
    let ran = hit_all(via, "text", &[]);
    let lines: Vec<_> = ran.lines().collect();
    for (line, (event, text, _)) in lines.iter().zip(expected(via)) {
        assert_eq!((line.event, line.body), (&*event, &*text));
    }
    assert_eq!(lines.len(), expected(via).len());
}

pub(crate) fn json(via: Via) {
    let ran = hit_all(via, "json", &[]);
    let lines: Vec<_> = ran.out.lines().collect();
    for (line, (event, _, json)) in lines.iter().zip(expected(via)) {
        let end = format!(r#","event":"{event}","origin":"application","fields":{json}}}"#);
        assert!(line.ends_with(&end), "{line}\nshould end in\n{end}");
    }
    assert_eq!(lines.len(), expected(via).len());
}

/// Without a word of ours, text longer than 256 bytes is cut by the kernel side, and says so.
pub(crate) fn cut() {
    let ran = hit_all(Via::Usdt, "text", &["--string-limit", "256"]);
    let long = ran
        .lines()
        .find(|line| line.event == "values:text" && line.body.contains("bytes)"))
        .expect("a text that was cut");
    let cut = format!("{}…(300 bytes)", "é".repeat(128));
    assert_eq!(long.body, format!("a={cut} b={cut} c={cut}"));
}

/// Texts that are too long are cut and say so; words are there, whatever stands before them.
pub(crate) fn too_long(via: Via) {
    let ran = hit_all(via, "json", &["--string-limit", "4096", "-e", "long:*"]);
    let events: Vec<Value> = ran
        .out
        .lines()
        .filter(|line| line.contains(r#""event":"long:"#))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let [words, texts] = &events[..] else {
        panic!("{events:?}")
    };
    let fields = &words["fields"];
    assert_eq!(fields["id"], u64::MAX);
    assert_eq!(fields["wide"], i128::MIN.to_string());
    assert_eq!(fields["user"], "ada");
    let kept = |fields: &Value, name: &str| {
        assert_eq!(fields[name]["full_length"], 5000, "{fields}");
        let text = fields[name]["text"].as_str().expect("a text");
        assert!(text.bytes().all(|byte| byte == b'y'));
        text.len()
    };
    assert!(kept(fields, "text") > 1000);
    let fields = &texts["fields"];
    assert_eq!(fields["d"], "d");
    // In a ring the first text may take what words leave: the others then say what they were.
    assert!(kept(fields, "a") > 250, "{fields}");
    kept(fields, "b");
    let formatted = fields["c"]["text"].as_str().or(fields["c"].as_str());
    assert!(formatted.is_some(), "{fields}");
}

fn hit_all(via: Via, format: &str, more: &[&str]) -> Ran {
    let file = directory().join("cold.txt");
    fs::write(&file, letters().take(20_000).collect::<String>()).expect("the file is written");
    let mut target = Target::start(&["values", file.to_str().expect("a path in UTF-8")]);
    let limit: &[&str] = if more.is_empty() {
        &["--string-limit", "1024"]
    } else {
        more
    };
    let arguments = [&["-e", "values:*", "--format", format], limit].concat();
    let attached = Attached::start(target.pid(), via, &arguments);
    target.say("go");
    let (status, _) = target.finish();
    assert!(status.success(), "{status}");
    let ran = attached.finish();
    ran.assert_well();
    ran
}

/// What the cold file holds: every place of it looks different.
fn letters() -> impl Iterator<Item = char> {
    (0_u32..).map(|n| char::from(b'a' + (n / 7 + n / 911) as u8 % 26))
}

fn expected(via: Via) -> Vec<Expected> {
    let mut expected = Vec::new();
    let mut add = |event: &str, text: &str, json: &str| {
        expected.push((format!("values:{event}"), text.to_owned(), json.to_owned()));
    };
    add(
        "unsigned",
        "a=0 b=0 c=0 d=0 e=0",
        r#"{"a":0,"b":0,"c":0,"d":0,"e":0}"#,
    );
    add(
        "unsigned",
        "a=255 b=65535 c=4294967295 d=18446744073709551615 e=18446744073709551615",
        r#"{"a":255,"b":65535,"c":4294967295,"d":18446744073709551615,"e":18446744073709551615}"#,
    );
    add(
        "signed",
        "a=-128 b=-32768 c=-2147483648 d=-9223372036854775808 e=-9223372036854775808",
        r#"{"a":-128,"b":-32768,"c":-2147483648,"d":-9223372036854775808,"e":-9223372036854775808}"#,
    );
    add(
        "signed",
        "a=127 b=32767 c=2147483647 d=9223372036854775807 e=9223372036854775807",
        r#"{"a":127,"b":32767,"c":2147483647,"d":9223372036854775807,"e":9223372036854775807}"#,
    );
    add(
        "signed",
        "a=-1 b=-1 c=-1 d=-1 e=-1",
        r#"{"a":-1,"b":-1,"c":-1,"d":-1,"e":-1}"#,
    );
    for (a, b) in [
        ("0", "0"),
        (
            "340282366920938463463374607431768211455",
            "170141183460469231731687303715884105727",
        ),
        (
            "18446744073709551616",
            "-170141183460469231731687303715884105728",
        ),
        ("18446744073709551615", "-1"),
    ] {
        add(
            "wide",
            &format!("a={a} b={b}"),
            &format!(r#"{{"a":"{a}","b":"{b}"}}"#),
        );
    }
    add("floats", "a=0.0 b=-0.0", r#"{"a":0.0,"b":-0.0}"#);
    add("floats", "a=NaN b=NaN", r#"{"a":"NaN","b":"NaN"}"#);
    add("floats", "a=inf b=-inf", r#"{"a":"inf","b":"-inf"}"#);
    add(
        "floats",
        "a=-3.4028235e38 b=1.7976931348623157e308",
        r#"{"a":-3.4028235e38,"b":1.7976931348623157e308}"#,
    );
    add("floats", "a=1e-45 b=5e-324", r#"{"a":1e-45,"b":5e-324}"#);
    add("floats", "a=0.1 b=0.1", r#"{"a":0.1,"b":0.1}"#);
    add(
        "nonzero",
        "a=255 b=-32768 c=18446744073709551615 d=-170141183460469231731687303715884105728 e=1",
        r#"{"a":255,"b":-32768,"c":18446744073709551615,"d":"-170141183460469231731687303715884105728","e":1}"#,
    );
    add(
        "atomic_unsigned",
        "a=255 b=65535 c=4294967295 d=18446744073709551615 e=18446744073709551615",
        r#"{"a":255,"b":65535,"c":4294967295,"d":18446744073709551615,"e":18446744073709551615}"#,
    );
    add(
        "atomic_signed",
        "a=-128 b=-32768 c=-2147483648 d=-9223372036854775808 e=-9223372036854775808",
        r#"{"a":-128,"b":-32768,"c":-2147483648,"d":-9223372036854775808,"e":-9223372036854775808}"#,
    );

    let plain = |truth: &str, text: &str, json: &str| {
        (
            format!("truth={truth} character={text}"),
            format!(r#"{{"truth":{truth},"character":"{json}"}}"#),
        )
    };
    for (text, json) in [
        plain("true", "ß", "ß"),
        plain("false", "\\0", "\\u0000"),
        plain("true", "\\n", "\\n"),
        plain("false", "\" \"", " "),
        plain("true", "\u{10ffff}", "\u{10ffff}"),
    ] {
        add("plain", &text, &json);
    }
    add("atomic_truth", "a=true", r#"{"a":true}"#);

    let long = "é".repeat(150);
    for (text, json) in [
        ("\"\"", ""),
        ("plain", "plain"),
        ("\"ünïcödé 🦀\"", "ünïcödé 🦀"),
        (r#""a=\"b\"""#, r#"a=\"b\""#),
        ("nul\\0within", "nul\\u0000within"),
        ("\\x1b[31m\\n\\u{202e}", "\\u001b[31m\\n\\u202e"),
        ("\"None\"", "None"),
        ("\"<fault>\"", "<fault>"),
        ("back\\\\slash", "back\\\\slash"),
        (&long, &long),
    ] {
        add(
            "text",
            &format!("a={text} b={text} c={text}"),
            &format!(r#"{{"a":"{json}","b":"{json}","c":"{json}"}}"#),
        );
    }

    let all: String = (0..300).map(|n| format!("{:02x}", n % 256)).collect();
    for hex in ["", "00", "fffe206e6f2074657874", &all] {
        let text = if hex.is_empty() { "\"\"" } else { hex };
        add(
            "bytes",
            &format!("a={text} b={text} c=666f7572"),
            &format!(r#"{{"a":{{"hex":"{hex}"}},"b":{{"hex":"{hex}"}},"c":{{"hex":"666f7572"}}}}"#),
        );
    }

    add(
        "pointers",
        "a=0x0 b=0x0 c=0x0 d=None",
        r#"{"a":"0x0","b":"0x0","c":"0x0","d":null}"#,
    );
    for address in ["0x7ffe0012", "0xffffffffffffffff"] {
        add(
            "pointers",
            &format!("a={address} b={address} c={address} d={address}"),
            &format!(r#"{{"a":"{address}","b":"{address}","c":"{address}","d":"{address}"}}"#),
        );
    }

    for (text, json) in [
        ("0ns", "0"),
        ("1ns", "1"),
        ("1.5ms", "1500000"),
        ("3.999999999s", "3999999999"),
        (
            "18446744073709551615.999999999s",
            "\"18446744073709551615999999999\"",
        ),
    ] {
        add(
            "span",
            &format!("span={text}"),
            &format!("{{\"span\":{json}}}"),
        );
    }

    add(
        "optional_numbers",
        "a=255 b=-32768 c=4294967295 d=-9223372036854775808 e=true f=🦀",
        r#"{"a":255,"b":-32768,"c":4294967295,"d":-9223372036854775808,"e":true,"f":"🦀"}"#,
    );
    add(
        "optional_numbers",
        "a=None b=None c=None d=None e=None f=None",
        r#"{"a":null,"b":null,"c":null,"d":null,"e":null,"f":null}"#,
    );
    add(
        "optional_wide",
        "a=340282366920938463463374607431768211455 b=-170141183460469231731687303715884105728 \
         c=18446744073709551615.999999999s d=-1.7976931348623157e308",
        r#"{"a":"340282366920938463463374607431768211455","b":"-170141183460469231731687303715884105728","c":"18446744073709551615999999999","d":-1.7976931348623157e308}"#,
    );
    add(
        "optional_wide",
        "a=None b=None c=None d=None",
        r#"{"a":null,"b":null,"c":null,"d":null}"#,
    );
    add(
        "optional_text",
        "a=\"\" b=ü c=\"\" d=00ff",
        r#"{"a":"","b":"ü","c":{"hex":""},"d":{"hex":"00ff"}}"#,
    );
    add(
        "optional_text",
        "a=None b=None c=None d=None",
        r#"{"a":null,"b":null,"c":null,"d":null}"#,
    );
    add(
        "optional_rest",
        "a=NaN b=0x0 c=7 d=\"None\"",
        r#"{"a":"NaN","b":"0x0","c":7,"d":"None"}"#,
    );
    add(
        "optional_rest",
        "a=None b=None c=None d=None",
        r#"{"a":null,"b":null,"c":null,"d":null}"#,
    );

    // Text that is made in the program has room for some 200 bytes a field: `…` is its mark.
    let longer = "x".repeat(300);
    add(
        "formatted",
        &format!(r#"number=7 list="[\"a\", \"b\\n\"]" empty="" width="   7" longer={longer}"#),
        &format!(
            r#"{{"number":"7","list":"[\"a\", \"b\\n\"]","empty":"","width":"   7","longer":"{longer}"}}"#
        ),
    );
    add(
        "in_a_print_format",
        "id=-1 {user}=[a b]",
        r#"{"id":-1,"user":"a b"}"#,
    );

    // Other readers see twelve slots; the bridge sees all of them.
    add(
        "slots",
        "a=1 b=two c=3 d=-170141183460469231731687303715884105728 e=five f=6 g=7 h=8 i=nine",
        r#"{"a":1,"b":"two","c":3,"d":"-170141183460469231731687303715884105728","e":"five","f":6,"g":7,"h":8,"i":"nine"}"#,
    );

    // 64 slots are copied through USDT, and each of these takes three.
    let captured = if via == Via::Ring { 24 } else { 21 };
    let number = i128::MIN;
    let field = |(at, name): (usize, char)| match at < captured {
        true => (
            format!("{name}={number}"),
            format!(r#""{name}":"{number}""#),
        ),
        false => (
            format!("{name}=<not captured>"),
            format!(r#""{name}":{{"error":"not_captured"}}"#),
        ),
    };
    let (text, json): (Vec<String>, Vec<String>) = ('a'..='x').enumerate().map(field).unzip();
    add(
        "most_slots",
        &text.join(" "),
        &format!("{{{}}}", json.join(",")),
    );

    let cold = |from: usize| letters().skip(from).take(20).collect::<String>();
    let (a, b) = (cold(8192), cold(12278));
    add(
        "cold",
        &format!("a={a} b={b}"),
        &format!(r#"{{"a":"{a}","b":"{b}"}}"#),
    );
    expected
}
