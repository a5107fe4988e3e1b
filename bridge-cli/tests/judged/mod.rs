//! Definitions as this machine judges them.

#![allow(dead_code, reason = "each test binary uses a part")]

use bridge::definition::files_here::FilesHere;
use bridge::definition::kernel_here::KernelHere;
use bridge::definition::knowledge::Knowledge;
use bridge::definition::{Definition, Language, Line, Place, Reader};

fn read(text: &str) -> Vec<Line> {
    let kernel = KernelHere::new(None);
    let files = FilesHere::new();
    let knowledge = Knowledge {
        kernel: &kernel,
        files: &files,
    };
    let mut reader = Reader::new(knowledge, Language::Dynamic);
    let lines = reader.read(text);
    lines.into_iter().map(|(_, line)| line).collect()
}

pub(crate) fn defined(text: &str) -> Vec<Definition> {
    let lines = read(text).into_iter().map(|line| match line {
        Line::Defined(definition) => *definition,
        other => panic!("{other:?}"),
    });
    lines.collect()
}

pub(crate) fn refused(text: &str) -> String {
    match &read(text)[..] {
        [Line::Refused(rejection)] => rejection.render(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn offset(definition: &Definition) -> u64 {
    match definition.place {
        Place::File { offset, .. } => offset,
        ref other => panic!("{other:?}"),
    }
}
