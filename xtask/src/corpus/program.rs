//! The definition of a row of the corpus, and the size of its load.

/// A real program with a real load.
///
/// The three scripts are run by `/bin/sh -e` with a fixed environment. `$SHARED` is a folder with the corpus'
/// sources and `text`, a file of random words; `$N` says how often loads turn, `$PORT` is a port of the
/// loopback that was free, and `$TMPDIR`, a folder beside the load's, is for what nobody looks at.
#[derive(Debug)]
pub(super) struct CorpusProgram {
    /// Its name in the table and on the command line.
    pub(super) name: &'static str,
    /// The files that must exist.
    pub(super) needs: &'static [Needed],
    /// Prints its version; the first line counts.
    pub(super) version: &'static str,
    /// A short description of the program.
    pub(super) what: &'static str,
    /// Makes its input in an empty folder, always natively, once.
    pub(super) prepare: &'static str,
    /// The load, in a fresh copy of that folder. Its output and all files that it leaves are compared.
    pub(super) load: &'static str,
    /// The output that is not compared, and its replacement.
    pub(super) aside: Option<Aside>,
    /// Words of the reason for which its counts are lost; `None`: they are not.
    pub(super) loses: Option<&'static str>,
    /// As whom it runs.
    pub(super) user: User,
    /// Where else but in the whole corpus it runs.
    pub(super) also: &'static [ProgramUse],
}

/// A program that must be there, and where Debian has it.
#[derive(Debug)]
pub(super) struct Needed {
    pub(super) program: &'static str,
    pub(super) package: &'static str,
}

/// Output that is another in every run, natively too.
///
/// The load writes it below the folder `aside`, which is not compared.
#[derive(Debug)]
pub(super) struct Aside {
    /// The replacement, for the table.
    pub(super) compared: &'static str,
}

/// As whom a load runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum User {
    /// As whoever runs the corpus.
    Own,
    /// As nobody, where root runs the corpus: the program refuses to work for root.
    NotRoot,
}

/// Where a row is used beyond the whole corpus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProgramUse {
    /// In the small corpus that continuous integration runs.
    Small,
    /// Under random signals.
    Torture,
    /// Under random signals but SIGINT: natively, too, the program catches that and goes on with something
    /// else, or is a server that a script has started with `&`, which ignores it, or says something else when
    /// it comes while it starts (Java).
    TortureWithoutInterrupts,
}

/// How much the loads have to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoadScale {
    /// Seconds: for the table.
    Full,
    /// Fractions of a second.
    Small,
}

impl LoadScale {
    /// `$N`.
    pub(super) fn turns(self) -> u32 {
        match self {
            LoadScale::Full => 100,
            LoadScale::Small => 10,
        }
    }

    /// Words of the shared text.
    pub(super) fn words(self) -> u32 {
        match self {
            LoadScale::Full => 600_000,
            LoadScale::Small => 40_000,
        }
    }
}

impl CorpusProgram {
    /// A row of a program that is in a package of its own name; the methods below change the rest.
    pub(super) const fn new(name: &'static str, needs: &'static [Needed]) -> CorpusProgram {
        let (version, what, prepare, load) = ("", "", "", "");
        CorpusProgram {
            name,
            needs,
            version,
            what,
            prepare,
            load,
            aside: None,
            loses: None,
            user: User::Own,
            also: &[],
        }
    }

    pub(super) const fn version(self, version: &'static str) -> CorpusProgram {
        CorpusProgram { version, ..self }
    }

    pub(super) const fn prepare(self, prepare: &'static str) -> CorpusProgram {
        CorpusProgram { prepare, ..self }
    }

    pub(super) const fn load(self, what: &'static str, load: &'static str) -> CorpusProgram {
        CorpusProgram { what, load, ..self }
    }

    pub(super) const fn compared(self, compared: &'static str) -> CorpusProgram {
        CorpusProgram { aside: Some(Aside { compared }), ..self }
    }

    pub(super) const fn loses(self, reason: &'static str) -> CorpusProgram {
        CorpusProgram { loses: Some(reason), ..self }
    }

    pub(super) const fn not_as_root(self) -> CorpusProgram {
        CorpusProgram { user: User::NotRoot, ..self }
    }

    /// Whether it is for the torture, and whether that may interrupt it.
    pub(super) fn torture(&self) -> Option<bool> {
        match self.also.contains(&ProgramUse::Torture) {
            true => Some(true),
            false => self.also.contains(&ProgramUse::TortureWithoutInterrupts).then_some(false),
        }
    }

    pub(super) const fn also(self, also: &'static [ProgramUse]) -> CorpusProgram {
        CorpusProgram { also, ..self }
    }
}

/// The files that must exist.
pub(super) const fn needed(program: &'static str, package: &'static str) -> Needed {
    Needed { program, package }
}
