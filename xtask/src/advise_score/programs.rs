//! The programs, with sizes and other work drawn by a seed.

/// A program with one fault or none.
#[derive(Clone, Debug)]
pub struct ScoreProgram {
    /// Its name: the file and the variant.
    pub name: String,
    /// Its source.
    pub file: &'static str,
    /// The rule that should name it first.
    pub fault: Option<&'static str>,
    variant: u64,
    size: u64,
    rounds: u64,
    seed: u64,
    other_work: u64,
}

/// A family of programs: a file, its variants with the fault of each, sizes, rounds.
struct ProgramFamily {
    file: &'static str,
    faults: &'static [Option<&'static str>],
    size: (u64, u64),
    rounds: (u64, u64),
}

const CACHE: Option<&str> = Some("cache-misses");
const BRANCHES: Option<&str> = Some("branch-mispredictions");
const FALSE_SHARING: Option<&str> = Some("false-sharing");
const SHARED: Option<&str> = Some("contended-data");
const CALLS: Option<&str> = Some("system-calls");
const FAULTS: Option<&str> = Some("page-faults");
const SCALAR: Option<&str> = Some("scalar-loops");
const CONVOY: Option<&str> = Some("lock-convoy");
const HANDOVERS: Option<&str> = Some("handovers");
const DEVICE: Option<&str> = Some("io-wait");
const WAITS: Option<&str> = Some("mostly-waiting");
const IDLE: Option<&str> = Some("idle-cpus");
const ALLOCATION: Option<&str> = Some("allocation");

const FAMILIES: &[ProgramFamily] = &[
    ProgramFamily { file: "cache.c", faults: &[CACHE; 5], size: (32, 96), rounds: (160, 240) },
    ProgramFamily { file: "branches.c", faults: &[BRANCHES; 5], size: (8, 20), rounds: (300, 500) },
    ProgramFamily {
        file: "sharing.c",
        faults: &[FALSE_SHARING, FALSE_SHARING, FALSE_SHARING, FALSE_SHARING, SHARED, SHARED],
        size: (1, 2),
        rounds: (1500, 2500),
    },
    ProgramFamily { file: "calls.c", faults: &[CALLS; 5], size: (4, 64), rounds: (60, 120) },
    ProgramFamily { file: "faults.c", faults: &[FAULTS; 4], size: (512, 4096), rounds: (80, 160) },
    ProgramFamily { file: "scalar.c", faults: &[SCALAR; 5], size: (8, 48), rounds: (1500, 2500) },
    ProgramFamily {
        file: "waits.c",
        faults: &[CONVOY, CONVOY, HANDOVERS, DEVICE, WAITS, WAITS, IDLE],
        size: (8, 64),
        rounds: (60, 100),
    },
    ProgramFamily { file: "allocation.c", faults: &[ALLOCATION; 3], size: (32, 512), rounds: (250, 400) },
    ProgramFamily { file: "healthy.c", faults: &[None; 12], size: (8, 28), rounds: (300, 600) },
];

/// The programs of a seed.
pub fn programs(seed: u64) -> Vec<ScoreProgram> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |(from, to): (u64, u64)| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        from + (random >> 16) % (to - from + 1)
    };
    let mut all = Vec::new();
    for family in FAMILIES {
        for (variant, fault) in family.faults.iter().enumerate() {
            all.push(ScoreProgram {
                name: format!("{}-{variant}", family.file.trim_end_matches(".c")),
                file: family.file,
                fault: *fault,
                variant: variant as u64,
                size: draw(family.size),
                rounds: draw(family.rounds),
                seed: draw((1, 1 << 30)),
                other_work: draw((0, 4)),
            });
        }
    }
    all
}

impl ScoreProgram {
    /// The definitions for the compiler.
    pub fn definitions(&self) -> [String; 5] {
        [
            format!("-DVARIANT={}", self.variant),
            format!("-DSIZE={}", self.size),
            format!("-DROUNDS={}", self.rounds),
            format!("-DSEED={}ul", self.seed),
            format!("-DOTHER_WORK={}", self.other_work),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_programs_and_another_gives_others() {
        let definitions = |seed| programs(seed).iter().map(ScoreProgram::definitions).collect::<Vec<_>>();
        assert_eq!(definitions(1), definitions(1));
        assert_ne!(definitions(1), definitions(2));
    }

    #[test]
    fn there_are_at_least_forty_programs_and_a_fifth_is_healthy() {
        let all = programs(1);
        let healthy = all.iter().filter(|program| program.fault.is_none()).count();
        assert!(all.len() >= 40 && healthy * 5 >= all.len(), "{healthy} of {}", all.len());
    }
}
