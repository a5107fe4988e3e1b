//! `-e` and the `--filter`s behind it, in the order in which they stand on the command line.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::error::{Error, ErrorKind, Result};
use crate::filter::{self, Refusals};
use crate::resolve::definitions::{Written, is_definition};
use crate::selector::Selector;

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct EventArgs {
    events: Vec<Event>,
    /// Filters that no `-e` stands before.
    lost: Vec<String>,
}

#[derive(Debug)]
struct Event {
    text: String,
    filters: Vec<String>,
}

const EVENT: &str = "event";
const FILTER: &str = "filter";

impl Args for EventArgs {
    fn augment_args(command: Command) -> Command {
        command
            .arg(
                Arg::new(EVENT)
                    .short('e')
                    .long("event")
                    .value_name("EVENT")
                    .action(ArgAction::Append)
                    .help(
                        "What is meant: PROVIDER:NAME, usdt:PATH:PROVIDER:NAME or \
                         tracepoint:CATEGORY:NAME, with * and ?; a probe such as \
                         uprobe:PATH:SYMBOL or 'p:NAME PATH:SYMBOL ARGUMENTS' (attach only); \
                         without it all tracepoints of the \
                         target, and sched and system calls of its threads",
                    ),
            )
            .arg(
                Arg::new(FILTER)
                    .long("filter")
                    .value_name("FILTER")
                    .action(ArgAction::Append)
                    .allow_hyphen_values(true)
                    .help("Of the -e before it only hits such as 'cents > 1000 && user ~ \"al*\"'"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        EventArgs::augment_args(command)
    }
}

impl FromArgMatches for EventArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<EventArgs, clap::Error> {
        let all = |id: &str| {
            let texts = matches.get_many::<String>(id).into_iter().flatten();
            let places = matches.indices_of(id).into_iter().flatten();
            places.zip(texts.cloned()).collect::<Vec<_>>()
        };
        let events = all(EVENT);
        let mut args = EventArgs::default();
        let mut places = Vec::with_capacity(events.len());
        for (place, text) in events {
            places.push(place);
            let filters = Vec::new();
            args.events.push(Event { text, filters });
        }
        for (place, text) in all(FILTER) {
            let before = places.partition_point(|event| *event < place);
            match before.checked_sub(1).and_then(|at| args.events.get_mut(at)) {
                Some(event) => event.filters.push(text),
                None => args.lost.push(text),
            }
        }
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = EventArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl EventArgs {
    /// Takes out what defines a probe, with the filters behind it.
    pub(super) fn take_definitions(&mut self) -> Vec<Written> {
        let events = std::mem::take(&mut self.events);
        let (definitions, names) = events
            .into_iter()
            .partition(|event| is_definition(&event.text));
        self.events = names;
        let written = |event: Event| Written {
            place: "-e".to_owned(),
            text: event.text,
            filters: event.filters,
        };
        Vec::into_iter(definitions).map(written).collect()
    }

    /// What the library works with.
    ///
    /// # Errors
    /// All that is wrong whatever tracepoints there are, in one [`Error::several`].
    pub(super) fn selectors(self) -> Result<Vec<Selector>> {
        let mut wrong = Vec::new();
        let mut selectors = Vec::with_capacity(self.events.len());
        let mut texts = Vec::new();
        let mut refusals = Refusals::default();
        for text in &self.lost {
            let message = format!("--filter {text:?} stands before every -e");
            let hint = "a filter stands behind the -e that it is for: -e orders:charge --filter 'cents > 1000'";
            wrong.push(Error::new(ErrorKind::Usage, message).hint(hint));
            filter::check(usize::MAX, text, &mut refusals);
        }
        for (index, Event { text, filters }) in self.events.into_iter().enumerate() {
            for filter in &filters {
                filter::check(index, filter, &mut refusals);
            }
            match Selector::parse(&text) {
                Ok(selector) => selectors.push(selector.with_filters(filters)),
                Err(error) => wrong.push(error),
            }
            texts.push(text);
        }
        if wrong.is_empty() {
            // What is wrong with filters is said with what is wrong with names, when these are looked up.
            return Ok(selectors);
        }
        wrong.extend(refusals.into_errors(|refusal| match texts.get(refusal.of) {
            Some(text) => format!("-e {text}"),
            None => "--filter".to_owned(),
        }));
        Error::several(wrong).map_or(Ok(selectors), Err)
    }
}
