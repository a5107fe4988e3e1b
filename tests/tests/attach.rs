//! The whole way of an event: a program with tracepoints, the bridge attached to it, and what it prints,
//! through the program's rings and through USDT.

use std::path::Path;

use libtest_mimic::{Completion, Trial};
use tracebraid_tests::requirement::{self, Need, trial};

#[path = "attach/bridge.rs"]
mod bridge;
#[path = "attach/command.rs"]
mod command;
#[path = "attach/copies.rs"]
mod copies;
#[path = "attach/counts.rs"]
mod counts;
#[path = "attach/ending.rs"]
mod ending;
#[path = "attach/library.rs"]
mod library;
#[path = "attach/many.rs"]
mod many;
#[path = "attach/order.rs"]
mod order;
#[path = "attach/outside.rs"]
mod outside;
#[path = "attach/rights.rs"]
mod rights;
#[path = "attach/sessions.rs"]
mod sessions;
#[path = "attach/target.rs"]
mod target;
#[path = "attach/values.rs"]
mod values;

use bridge::Via;

const BPF: &[Need] = &[Need::Root, Need::Uprobe];

const TRACEFS: &[Need] = &[
    Need::Root,
    Need::Uprobe,
    Need::Tracefs,
    Need::Tool("readelf"),
];

/// What is linked for the test alone.
const LAID_OUT: &[Need] = &[
    Need::Root,
    Need::Uprobe,
    Need::Tracefs,
    Need::Tool("readelf"),
    Need::Tool("cargo"),
];

/// A sentence, and what proves it for one way.
type OfWay = (&'static str, fn(Via));

/// Tests of one way, and of the other.
const BOTH: &[OfWay] = &[
    ("values_of_every_kind_are_printed_as_passed", values::text),
    ("values_of_every_kind_are_json_as_passed", values::json),
    (
        "text_that_is_too_long_leaves_room_for_the_others",
        values::too_long,
    ),
    (
        "system_calls_stand_between_the_events_around_them",
        order::calls_stand_between,
    ),
    ("every_hit_is_printed_or_counted", counts::exact),
    (
        "every_hit_is_printed_or_counted_while_the_reader_is_slow",
        counts::exact_with_a_slow_reader,
    ),
    (
        "every_hit_is_printed_filtered_out_or_counted",
        counts::exact_with_filters,
    ),
    (
        "ctrl_c_leaves_no_hit_behind",
        counts::exact_when_interrupted,
    ),
    ("ctrl_c_leaves_all_as_it_was", ending::by_ctrl_c),
    ("its_duration_leaves_all_as_it_was", ending::by_its_duration),
    ("kill_9_leaves_all_as_it_was", ending::by_kill_9),
    (
        "what_a_killed_target_committed_is_printed",
        ending::of_the_target_by_kill_9,
    ),
    (
        "sessions_that_come_and_go_see_whole_pieces",
        sessions::whole_pieces,
    ),
    ("a_thousand_tracepoints_are_seen", many::all_seen),
    (
        "a_library_that_uses_the_programs_sdk_is_attached_each_time_it_is_loaded",
        library::with_the_programs_copy_of_the_sdk,
    ),
];

/// Tests of what may come by either way: by USDT, and as the bridge chooses.
const EITHER: &[OfWay] = &[
    ("a_daemon_may_close_all_descriptors", ending::of_descriptors),
    (
        "a_library_is_attached_each_time_it_is_loaded",
        library::loaded_twice,
    ),
    (
        "a_library_may_share_a_tracepoint_with_the_program",
        library::with_a_name_that_the_program_has_too,
    ),
];

/// Tests of one way only.
const ALONE: &[(&str, fn())] = &[
    ("text_that_was_cut_says_how_long_it_was", values::cut),
    (
        "every_hit_is_printed_or_counted_with_an_rseq_area_of_our_own",
        counts::exact_with_an_area_of_our_own,
    ),
    (
        "every_hit_is_printed_or_counted_in_locked_rings",
        counts::exact_under_a_lock,
    ),
    (
        "a_user_reads_the_rings_of_own_programs_without_any_right",
        rights::rings_need_none,
    ),
    (
        "a_library_of_a_program_without_init_is_switched_from_outside_each_time_it_is_loaded",
        outside::of_a_library,
    ),
    (
        "a_static_program_without_init_is_switched_from_outside",
        outside::of_a_static_program,
    ),
    ("rings_have_one_owner", ending::rings_have_one_owner),
    (
        "a_library_may_have_rings_of_its_own",
        library::with_rings_of_its_own,
    ),
    (
        "a_command_is_attached_from_its_first_statement_on",
        command::started_by_the_bridge,
    ),
];

fn main() {
    let mut trials = Vec::new();
    let of_way = |via: Via| {
        move |&(name, run): &OfWay| trial(format!("{name}_{}", via.suffix()), BPF, move || run(via))
    };
    for via in [Via::Usdt, Via::Ring] {
        trials.extend(BOTH.iter().map(of_way(via)));
    }
    for via in [Via::Usdt, Via::Auto] {
        trials.extend(EITHER.iter().map(of_way(via)));
    }
    trials.extend(ALONE.iter().map(|&(name, run)| trial(name, BPF, run)));
    trials.extend([
        trial(
            "a_tool_that_was_there_first_is_seen_from_the_first_statement_on",
            TRACEFS,
            command::probed_before_start,
        ),
        trial(
            "a_program_with_two_copies_of_tracing_is_two_in_one_stream",
            BPF,
            copies::of_tracing,
        ),
        trial(
            "a_semaphore_is_in_a_page_that_is_mapped_once",
            &[Need::Tool("readelf")],
            command::semaphores_are_mapped_once,
        ),
        trial(
            "a_tool_that_was_there_first_is_seen_by_a_small_program",
            TRACEFS,
            command::probed_before_start_in_a_small_program,
        ),
        trial(
            "a_tool_that_was_there_first_is_seen_where_all_data_begin_on_a_page_that_is_mapped_twice",
            LAID_OUT,
            command::probed_before_start_where_all_data_begin_on_a_page_that_is_mapped_twice,
        ),
    ]);
    let name = "a_set_user_id_program_does_not_ask_its_environment";
    trials.push(match rights::no_set_user_id() {
        Some(reason) => Trial::ignorable_test(name, || Ok(Completion::ignored_with(reason))),
        None => trial(name, BPF, rights::environment_of_a_set_user_id_program),
    });
    requirement::run(trials);
}

/// A directory for what tests leave from run to run.
fn directory() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}
