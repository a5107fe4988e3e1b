//! How fetch programs run: as instructions that are made for them, or step by step, which gives the same and
//! takes longer.

use std::fmt;

/// How the fetch programs of a session run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetching {
    /// Programs that have code of their own.
    pub coded: usize,
    /// Programs whose steps are followed, since their code found no room or is refused.
    pub followed: usize,
    /// The kernel's last word on the code, where it refused it for some of the programs that are attached.
    pub refused: Option<String>,
}

/// How fetch programs are to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchBy {
    /// By code of their own, where that finds room and the kernel accepts it.
    #[default]
    Code,
    /// Step by step. For tests, and for kernels that misjudge the code.
    Steps,
    /// By code that no kernel accepts, so that it must go on step by step. For tests.
    RefusedCode,
}

impl fmt::Display for Fetching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.refused {
            return write!(
                f,
                "arguments are fetched step by step, since the kernel refuses the code that is made for them: {why}"
            );
        }
        let all = self.coded + self.followed;
        write!(f, "arguments are fetched by code that is made for them")?;
        match self.followed {
            0 => Ok(()),
            others => write!(
                f,
                "; those of {others} of {all} programs, which found no room, step by step"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_fetched_by_code_is_said_with_the_reason() {
        let said = |coded, followed, refused: Option<&str>| {
            let refused = refused.map(str::to_owned);
            let fetching = Fetching {
                coded,
                followed,
                refused,
            };
            fetching.to_string()
        };
        assert_eq!(
            said(3, 0, None),
            "arguments are fetched by code that is made for them"
        );
        assert!(
            said(3, 2, None)
                .ends_with("; those of 2 of 5 programs, which found no room, step by step")
        );
        assert!(said(3, 0, Some("too many jumps")).contains("step by step, since"));
        assert!(said(3, 0, Some("too many jumps")).ends_with(": too many jumps"));
    }
}
