//! The merge, on rings of made-up items: order, conservation, and what late and too many items do.

use bridge::merge::{Counts, Merge, Timed};
use proptest::prelude::*;

/// An item that knows where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    time: u64,
    ring: usize,
    number: usize,
    late: bool,
}

impl Timed for Item {
    fn time(&self) -> u64 {
        self.time
    }

    fn mark_late(&mut self) {
        self.late = true;
    }
}

fn item(time: u64, ring: usize, number: usize) -> Item {
    Item {
        time,
        ring,
        number,
        late: false,
    }
}

/// One ring's rounds: a promise, and the items given with it.
type Plan = Vec<(u64, Vec<Item>)>;

/// Items `steps` apart, cut into rounds; a round promises up to its slack less than the next item's time.
fn plan(ring: usize, steps: &[(u64, u64)], cuts: &[usize]) -> Plan {
    let mut time = 0;
    let mut items = Vec::new();
    for (number, (step, _)) in steps.iter().enumerate() {
        time += step;
        items.push(item(time, ring, number));
    }
    let mut rounds = Vec::new();
    let mut rest = items.as_slice();
    for (index, cut) in cuts.iter().enumerate() {
        let (round, after) = rest.split_at((*cut).min(rest.len()));
        let slack = steps[index % steps.len()].1;
        let promise = after
            .first()
            .map_or(time, |next| next.time.saturating_sub(slack));
        rounds.push((promise, round.to_vec()));
        rest = after;
    }
    rounds.push((u64::MAX, rest.to_vec()));
    rounds
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let ring = (
        proptest::collection::vec((0..4_u64, 0..3_u64), 1..60),
        proptest::collection::vec(0..12_usize, 1..10),
    );
    proptest::collection::vec(ring, 1..6).prop_map(|rings| {
        let each = rings.iter().enumerate();
        each.map(|(ring, (steps, cuts))| plan(ring, steps, cuts))
            .collect()
    })
}

/// What each round gives out, the end as a round of its own.
fn run(plans: &[Plan], limit: usize) -> (Vec<Vec<Item>>, Counts) {
    let mut merge = Merge::new(plans.len(), limit);
    let rounds = plans.iter().map(Vec::len).max().unwrap_or(0);
    let mut outputs = Vec::new();
    for round in 0..rounds {
        for (ring, plan) in plans.iter().enumerate() {
            if let Some((promise, items)) = plan.get(round) {
                assert!(merge.push(ring, *promise, &mut items.clone()));
            }
        }
        let mut out = Vec::new();
        merge.release(&mut out);
        assert!(merge.held() <= limit);
        outputs.push(out);
    }
    let mut out = Vec::new();
    let counts = merge.finish(&mut out);
    outputs.push(out);
    (outputs, counts)
}

proptest! {
    #[test]
    fn what_comes_out_is_in_order_and_is_what_went_in(plans in plans()) {
        let (outputs, counts) = run(&plans, usize::MAX);
        let out: Vec<Item> = outputs.concat();
        prop_assert!(out.is_sorted_by_key(|item| item.time));
        prop_assert!(out.iter().all(|item| !item.late));
        prop_assert_eq!((counts.late, counts.forced), (0, 0));
        prop_assert_eq!(counts.released as usize, out.len());
        for (ring, plan) in plans.iter().enumerate() {
            let came: Vec<Item> = out.iter().copied().filter(|item| item.ring == ring).collect();
            let went: Vec<Item> = plan.iter().flat_map(|round| round.1.clone()).collect();
            prop_assert_eq!(came, went, "each ring in the order in which it gave");
        }
    }

    #[test]
    fn items_of_one_time_keep_the_order_of_their_rings(plans in plans()) {
        for out in run(&plans, usize::MAX).0 {
            let kept = |pair: &[Item]| pair[0].time < pair[1].time || pair[0].ring <= pair[1].ring;
            prop_assert!(out.windows(2).all(kept));
        }
    }

    #[test]
    fn whatever_the_limit_nothing_is_lost_and_what_is_out_of_order_is_marked(
        plans in plans(), limit in 1..20_usize
    ) {
        let (outputs, counts) = run(&plans, limit);
        let out: Vec<Item> = outputs.concat();
        let total: usize = plans.iter().flatten().map(|round| round.1.len()).sum();
        prop_assert_eq!(out.len(), total);
        prop_assert_eq!(counts.released as usize, total);
        let mut passed = 0;
        for item in &out {
            prop_assert_eq!(item.late, item.time < passed);
            passed = passed.max(item.time);
        }
        prop_assert_eq!(counts.late as usize, out.iter().filter(|item| item.late).count());
    }

    #[test]
    fn a_batch_in_any_order_comes_out_in_order(mut times in proptest::collection::vec(0..50_u64, 0..80)) {
        let mut merge = Merge::new(1, usize::MAX);
        let items = times.iter().enumerate().map(|(number, time)| item(*time, 0, number));
        merge.push(0, 0, &mut items.collect());
        let mut out = Vec::new();
        merge.finish(&mut out);
        times.sort();
        prop_assert_eq!(out.iter().map(|item| item.time).collect::<Vec<_>>(), times);
        let kept = |pair: &[Item]| pair[0].time < pair[1].time || pair[0].number < pair[1].number;
        prop_assert!(out.windows(2).all(kept));
    }
}

#[test]
fn nothing_is_given_out_that_another_ring_could_still_precede() {
    let mut merge = Merge::new(2, 100);
    let mut out = Vec::new();
    merge.push(0, 10, &mut vec![item(3, 0, 0), item(8, 0, 1)]);
    merge.release(&mut out);
    assert_eq!(out, [], "ring 1 has promised nothing");
    merge.push(1, 8, &mut vec![item(5, 1, 0)]);
    merge.release(&mut out);
    assert_eq!(out.iter().map(|item| item.time).collect::<Vec<_>>(), [3, 5]);
    assert_eq!(merge.watermark(), 8);
    merge.push(1, 9, &mut vec![]);
    merge.release(&mut out);
    assert_eq!(out.last().map(|item| item.time), Some(8));
}

#[test]
fn a_silent_ring_that_keeps_promising_holds_nobody_back() {
    let mut merge = Merge::new(3, 10);
    let mut out = Vec::new();
    for time in 1..1000 {
        merge.push(0, time, &mut vec![item(time - 1, 0, 0)]);
        merge.push(1, time, &mut vec![]);
        merge.push(2, time, &mut vec![]);
        merge.release(&mut out);
        assert_eq!(merge.held(), 0);
    }
    assert_eq!(out.len(), 999);
}

#[test]
fn an_ended_ring_holds_nobody_back() {
    let mut merge = Merge::new(2, 10);
    let mut out = Vec::new();
    merge.push(0, 100, &mut vec![item(50, 0, 0)]);
    merge.end(1);
    merge.release(&mut out);
    assert_eq!(out.len(), 1);
    assert_eq!(merge.watermark(), 100);
}

#[test]
fn a_late_item_is_marked_and_one_that_still_finds_its_place_is_not() {
    let mut merge = Merge::new(1, 10);
    let mut out = Vec::new();
    merge.push(0, 5, &mut vec![item(4, 0, 0), item(9, 0, 1)]);
    merge.release(&mut out);
    merge.push(
        0,
        10,
        &mut vec![item(4, 0, 2), item(6, 0, 3), item(3, 0, 4)],
    );
    merge.release(&mut out);
    let shown: Vec<(u64, bool)> = out.iter().map(|item| (item.time, item.late)).collect();
    assert_eq!(
        shown,
        [(4, false), (3, true), (4, false), (6, false), (9, false)]
    );
    assert_eq!(merge.counts().late, 1);
}

#[test]
fn a_ring_that_stands_still_costs_order_and_not_memory() {
    let mut merge = Merge::new(2, 100);
    let mut out = Vec::new();
    for number in 0..10_000 {
        merge.push(0, number, &mut vec![item(number, 0, number as usize)]);
        merge.release(&mut out);
        assert!(merge.held() <= 100);
    }
    assert!(merge.counts().forced > 9_000);
    merge.push(1, 10_000, &mut vec![item(20, 1, 0)]);
    merge.push(0, 10_000, &mut vec![]);
    merge.release(&mut out);
    assert_eq!(merge.counts().late, 1);
    assert_eq!(out.len(), 10_001);
    assert!(out.iter().all(|item| item.late == (item.ring == 1)));
}

#[test]
fn a_ring_that_does_not_exist_takes_nothing() {
    let mut merge = Merge::new(1, 10);
    assert!(!merge.push(1, 5, &mut vec![item(1, 1, 0)]));
    assert_eq!(merge.held(), 0);
}
