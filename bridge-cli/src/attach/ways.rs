//! How probes of kernel functions were attached, in words.

use std::collections::HashMap;

use tracebraid_bpf::spec::ProbeId;
use tracebraid_bpf::{Chosen, Mechanism};

/// Names of one line.
const SHOWN: usize = 4;

/// One line for each way and reason: `through fexit: 2 probes (kprobes:a, kprobes:b)`.
pub(super) fn describe(chosen: &[Chosen], names: &HashMap<ProbeId, String>) -> Vec<String> {
    let mut groups: Vec<(Mechanism, Option<&str>, Vec<&str>)> = Vec::new();
    for one in chosen {
        let name = names.get(&one.probe).map_or("?", String::as_str);
        let because = one.because.as_deref();
        let is_it = |group: &&mut (Mechanism, Option<&str>, Vec<&str>)| {
            (group.0, group.1) == (one.mechanism, because)
        };
        match groups.iter_mut().find(is_it) {
            Some((.., all)) => all.push(name),
            None => groups.push((one.mechanism, because, vec![name])),
        }
    }
    groups.iter().map(line).collect()
}

fn line((mechanism, because, names): &(Mechanism, Option<&str>, Vec<&str>)) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let mut shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN {
        shown.push_str(", …");
    }
    let because = because.map_or(String::new(), |because| format!("; {because}"));
    format!(
        "through {mechanism}: {} probe{plural} ({shown}){because}",
        names.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_of_one_way_and_reason_are_one_line() {
        let names = (0..6)
            .map(|id| (ProbeId(id), format!("kprobes:p{id}")))
            .collect();
        let one = |id, mechanism, because: Option<&str>| Chosen {
            probe: ProbeId(id),
            mechanism,
            because: because.map(str::to_owned),
        };
        let kprobe = Mechanism::Kprobe { at_return: false };
        let many = Mechanism::KprobeMulti { at_return: true };
        let mut chosen: Vec<Chosen> = (0..5).map(|id| one(id, many, None)).collect();
        chosen.push(one(5, kprobe, Some("ftrace cannot trace it")));
        assert_eq!(
            describe(&chosen, &names),
            [
                "through kprobe_multi at the return: 5 probes (kprobes:p0, kprobes:p1, kprobes:p2, \
                 kprobes:p3, …)",
                "through kprobe: 1 probe (kprobes:p5); ftrace cannot trace it",
            ]
        );
    }
}
