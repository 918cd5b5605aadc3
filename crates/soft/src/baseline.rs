//! A processor that is the same on every machine: the answers of `CPUID` and `XGETBV` under a baseline.
//!
//! Libraries choose their routines by the processor: the C library by features, by the sizes of caches, and
//! by vendor and model. Under a baseline the answers do not depend on the machine, so two machines execute
//! the same code. The exception is the layout of the area of `XSAVE`, because that instruction writes what
//! the machine has.
//!
//! The answers are those of an Intel processor of each level with one core. Features outside of the levels
//! are missing: no `RDTSCP`, no random numbers, no enhanced string instructions, no hypervisor.
//!
//! # Source
//!
//! System V ABI, AMD64 supplement, section 3.1.1: the levels. Intel SDM volume 2A, `CPUID`: leaves and bits.

/// The features that programs may see: a level of the x86-64 ABI.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProcessorBaseline {
    /// The features of every 64-bit processor: SSE2.
    X86_64,
    /// With SSE4.2 and POPCNT.
    X86_64V2,
    /// With AVX2, BMI and FMA.
    X86_64V3,
    /// With AVX-512.
    X86_64V4,
}

/// The question of an instruction to the processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuQuery {
    /// `cpuid`.
    Features,
    /// `xgetbv`.
    ExtendedState,
}

/// A feature: as Linux calls it in `/proc/cpuinfo`, and as manuals do.
type Feature = (&'static str, &'static str);

const OF_ALL: [Feature; 10] = [
    ("fpu", "FPU"),
    ("tsc", "TSC"),
    ("cx8", "CMPXCHG8B"),
    ("cmov", "CMOV"),
    ("mmx", "MMX"),
    ("fxsr", "FXSR"),
    ("sse", "SSE"),
    ("sse2", "SSE2"),
    ("syscall", "SYSCALL"),
    ("lm", "long mode"),
];
const OF_V2: [Feature; 7] = [
    ("cx16", "CMPXCHG16B"),
    ("lahf_lm", "LAHF in 64-bit mode"),
    ("popcnt", "POPCNT"),
    ("pni", "SSE3"),
    ("ssse3", "SSSE3"),
    ("sse4_1", "SSE4.1"),
    ("sse4_2", "SSE4.2"),
];
const OF_V3: [Feature; 9] = [
    ("xsave", "XSAVE"),
    ("avx", "AVX"),
    ("avx2", "AVX2"),
    ("bmi1", "BMI1"),
    ("bmi2", "BMI2"),
    ("f16c", "F16C"),
    ("fma", "FMA"),
    ("abm", "LZCNT"),
    ("movbe", "MOVBE"),
];
const OF_V4: [Feature; 5] = [
    ("avx512f", "AVX512F"),
    ("avx512bw", "AVX512BW"),
    ("avx512cd", "AVX512CD"),
    ("avx512dq", "AVX512DQ"),
    ("avx512vl", "AVX512VL"),
];

impl ProcessorBaseline {
    /// All levels, in ascending order: each has the features of those before.
    pub const ALL: [ProcessorBaseline; 4] = [
        ProcessorBaseline::X86_64,
        ProcessorBaseline::X86_64V2,
        ProcessorBaseline::X86_64V3,
        ProcessorBaseline::X86_64V4,
    ];

    /// The name that compilers give it.
    pub fn name(self) -> &'static str {
        match self {
            ProcessorBaseline::X86_64 => "x86-64",
            ProcessorBaseline::X86_64V2 => "x86-64-v2",
            ProcessorBaseline::X86_64V3 => "x86-64-v3",
            ProcessorBaseline::X86_64V4 => "x86-64-v4",
        }
    }

    /// The one with a name.
    pub fn named(name: &str) -> Option<ProcessorBaseline> {
        ProcessorBaseline::ALL.into_iter().find(|baseline| baseline.name() == name)
    }

    /// The first of its features that a machine lacks, by the text of its `/proc/cpuinfo`; `None` where it
    /// has them all.
    pub fn lacking(self, cpuinfo: &str) -> Option<&'static str> {
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
        let has = |name: &str| flags.split_ascii_whitespace().any(|flag| flag == name);
        let levels: [&[Feature]; 4] = [&OF_ALL, &OF_V2, &OF_V3, &OF_V4];
        let needed = levels.into_iter().take(self as usize + 1).flatten();
        needed.into_iter().find(|(flag, _)| !has(flag)).map(|(_, name)| *name)
    }

    /// The answer of `CPUID`: EAX, EBX, ECX, EDX. `native` is the answer of this machine.
    pub fn cpuid(self, leaf: u32, subleaf: u32, native: impl Fn(u32, u32) -> [u32; 4]) -> [u32; 4] {
        match leaf {
            0 => [LAST_LEAF, word(b"Genu"), word(b"ntel"), word(b"ineI")],
            1 => [self.signature(), 0x1_0800, self.features_ecx(), HWCAP],
            // Leaf 4 describes the caches.
            2 => [0x00fe_ff01, 0xf0, 0, 0],
            4 => cache(subleaf),
            7 if subleaf == 0 => [0, self.extended_features(), 0, 0],
            0xb => topology(subleaf),
            0xd => self.saved_state(subleaf, native),
            0x8000_0000 => [LAST_EXTENDED, 0, 0, 0],
            0x8000_0001 => [0, 0, self.amd_features(), SYSCALL | NO_EXECUTE | LONG_MODE],
            0x8000_0002..=0x8000_0004 => self.brand(leaf - 0x8000_0002),
            0x8000_0006 => [0, 0, 1024 << 16 | 8 << 12 | 64, 0],
            0x8000_0008 => [48 << 8 | 46, 0, 0, 0],
            _ => [0; 4],
        }
    }

    /// The extended control register 0: which state the system has switched on.
    ///
    /// # Source
    ///
    /// Intel SDM volume 1, section 13.3: x87, SSE, AVX; opmasks and the two parts of ZMM registers.
    pub fn xcr0(self) -> u64 {
        match self {
            ProcessorBaseline::X86_64 | ProcessorBaseline::X86_64V2 => 0b11,
            ProcessorBaseline::X86_64V3 => 0b111,
            ProcessorBaseline::X86_64V4 => 0b1110_0111,
        }
    }

    /// Family, model and stepping of a processor that has these features: Nocona, Nehalem, Haswell, Skylake
    /// for servers.
    fn signature(self) -> u32 {
        match self {
            ProcessorBaseline::X86_64 => 0xf41,
            ProcessorBaseline::X86_64V2 => 0x106a5,
            ProcessorBaseline::X86_64V3 => 0x306c3,
            ProcessorBaseline::X86_64V4 => 0x50654,
        }
    }

    fn features_ecx(self) -> u32 {
        const SSE3: u32 = 1;
        const SSSE3: u32 = 1 << 9;
        const FMA: u32 = 1 << 12;
        const CX16: u32 = 1 << 13;
        const SSE4_1: u32 = 1 << 19;
        const SSE4_2: u32 = 1 << 20;
        const MOVBE: u32 = 1 << 22;
        const POPCNT: u32 = 1 << 23;
        const XSAVE: u32 = 1 << 26;
        const OSXSAVE: u32 = 1 << 27;
        const AVX: u32 = 1 << 28;
        const F16C: u32 = 1 << 29;
        let second = SSE3 | SSSE3 | CX16 | SSE4_1 | SSE4_2 | POPCNT;
        match self {
            ProcessorBaseline::X86_64 => 0,
            ProcessorBaseline::X86_64V2 => second,
            ProcessorBaseline::X86_64V3 | ProcessorBaseline::X86_64V4 => {
                second | FMA | MOVBE | XSAVE | OSXSAVE | AVX | F16C
            }
        }
    }

    fn extended_features(self) -> u32 {
        const BMI1: u32 = 1 << 3;
        const AVX2: u32 = 1 << 5;
        const BMI2: u32 = 1 << 8;
        /// F, DQ, CD, BW, VL.
        const AVX512: u32 = 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31;
        match self {
            ProcessorBaseline::X86_64 | ProcessorBaseline::X86_64V2 => 0,
            ProcessorBaseline::X86_64V3 => BMI1 | AVX2 | BMI2,
            ProcessorBaseline::X86_64V4 => BMI1 | AVX2 | BMI2 | AVX512,
        }
    }

    fn amd_features(self) -> u32 {
        const LAHF: u32 = 1;
        const LZCNT: u32 = 1 << 5;
        match self {
            ProcessorBaseline::X86_64 => 0,
            ProcessorBaseline::X86_64V2 => LAHF,
            ProcessorBaseline::X86_64V3 | ProcessorBaseline::X86_64V4 => LAHF | LZCNT,
        }
    }

    /// Sizes are the machine's, because `XSAVE` writes the machine's layout.
    fn saved_state(self, subleaf: u32, native: impl Fn(u32, u32) -> [u32; 4]) -> [u32; 4] {
        let xcr0 = self.xcr0();
        match subleaf {
            _ if self < ProcessorBaseline::X86_64V3 => [0; 4],
            0 => {
                let [_, size, most, _] = native(0xd, 0);
                [xcr0 as u32, size, most, 0]
            }
            2..64 if xcr0 >> subleaf & 1 == 1 => native(0xd, subleaf),
            _ => [0; 4],
        }
    }

    fn brand(self, part: u32) -> [u32; 4] {
        let mut text = [0; 48];
        let name = format!("cyclometer baseline {}", self.name());
        text[..name.len()].copy_from_slice(name.as_bytes());
        let bytes = &text[16 * part as usize..][..16];
        [0, 4, 8, 12].map(|at| bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word)))
    }
}

/// The highest basic leaf, and the highest extended one.
const LAST_LEAF: u32 = 0xd;
const LAST_EXTENDED: u32 = 0x8000_0008;

const SYSCALL: u32 = 1 << 11;
const NO_EXECUTE: u32 = 1 << 20;
const LONG_MODE: u32 = 1 << 29;

/// EDX of leaf 1, which the kernel passes to programs as `AT_HWCAP`. It has the features of the first level,
/// and those that every 64-bit processor has beside it: VME, DE, PSE, MSR, PAE, MCE, APIC, SEP, MTRR, PGE,
/// MCA, PAT, PSE36, CLFLUSH.
pub const HWCAP: u32 = 0x078b_fbff;

fn word(text: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*text)
}

/// A cache of leaf 4: 32 KB of data and of instructions, 1 MB and 8 MB of both, with lines of 64 bytes.
fn cache(index: u32) -> [u32; 4] {
    let kind = |kind: u32, level: u32| 1 << 8 | level << 5 | kind;
    let shape = |ways: u32| (ways - 1) << 22 | 63;
    match index {
        0 => [kind(1, 1), shape(8), 64 - 1, 0],
        1 => [kind(2, 1), shape(8), 64 - 1, 0],
        2 => [kind(3, 2), shape(16), 1024 - 1, 0],
        3 => [kind(3, 3), shape(16), 8192 - 1, 0],
        _ => [0; 4],
    }
}

/// One thread of one core.
fn topology(level: u32) -> [u32; 4] {
    match level {
        0 | 1 => [0, 1, (level + 1) << 8 | level, 0],
        _ => [0, 0, level & 0xff, 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with features that no program may see.
    fn everything(_: u32, _: u32) -> [u32; 4] {
        [u32::MAX; 4]
    }

    #[test]
    fn names_lead_back() {
        for baseline in ProcessorBaseline::ALL {
            assert_eq!(ProcessorBaseline::named(baseline.name()), Some(baseline));
        }
        assert_eq!(ProcessorBaseline::named("x86-64-v5"), None);
    }

    #[test]
    fn nothing_of_the_machine_is_seen_but_sizes_of_saved_state() {
        let leaves = (0..0x40).chain(0x4000_0000..0x4000_0010).chain(0x8000_0000..0x8000_0030);
        for (leaf, subleaf) in leaves.flat_map(|leaf| (0..70).map(move |subleaf| (leaf, subleaf))) {
            for baseline in ProcessorBaseline::ALL {
                let other = baseline.cpuid(leaf, subleaf, |_, _| [0; 4]);
                let seen = baseline.cpuid(leaf, subleaf, everything) != other;
                let part =
                    subleaf == 0 || (subleaf > 1 && subleaf < 64 && baseline.xcr0() >> subleaf & 1 == 1);
                let sizes = leaf == 0xd && part && baseline >= ProcessorBaseline::X86_64V3;
                assert_eq!(seen, sizes, "{baseline:?} {leaf:#x} {subleaf}");
            }
        }
    }

    #[test]
    fn each_level_shows_more_than_the_one_before() {
        let bits = |baseline: ProcessorBaseline| {
            let leaf = |leaf| baseline.cpuid(leaf, 0, everything);
            let ([_, _, a, b], [_, c, _, _], [_, _, d, e]) = (leaf(1), leaf(7), leaf(0x8000_0001));
            [a, b, c, d, e]
        };
        for pair in ProcessorBaseline::ALL.windows(2) {
            let (fewer, more) = (bits(pair[0]), bits(pair[1]));
            assert!(fewer.iter().zip(&more).all(|(fewer, more)| fewer & !more == 0), "{pair:?}");
            assert_ne!(fewer, more);
            assert!(pair[0].xcr0() & !pair[1].xcr0() == 0);
        }
        // As many bits as the ABI names: 7 (of which one is in an extended leaf) and 9 with OSXSAVE, then 5.
        let count = |baseline| bits(baseline).iter().map(|word| word.count_ones()).sum::<u32>();
        let counts = ProcessorBaseline::ALL.map(count);
        assert_eq!([counts[1] - counts[0], counts[2] - counts[1], counts[3] - counts[2]], [7, 10, 5]);
    }

    #[test]
    fn a_machine_that_lacks_something_is_told_what() {
        let first =
            "flags\t\t: fpu tsc cx8 cmov mmx fxsr sse sse2 syscall lm pni ssse3 cx16 sse4_1 popcnt lahf_lm\n";
        assert_eq!(ProcessorBaseline::X86_64.lacking(first), None);
        assert_eq!(ProcessorBaseline::X86_64V2.lacking(first), Some("SSE4.2"));
        assert_eq!(ProcessorBaseline::X86_64V4.lacking(first), Some("SSE4.2"));
        assert_eq!(ProcessorBaseline::X86_64.lacking(""), Some("FPU"));
    }

    #[test]
    fn the_brand_is_the_name() {
        let parts = (2..5).flat_map(|i| ProcessorBaseline::X86_64V3.cpuid(0x8000_0000 + i, 0, everything));
        let text: Vec<u8> = parts.flat_map(u32::to_le_bytes).filter(|byte| *byte != 0).collect();
        assert_eq!(text, b"cyclometer baseline x86-64-v3");
        let [_, b, c, d] = ProcessorBaseline::X86_64.cpuid(0, 0, everything);
        let vendor: Vec<u8> = [b, d, c].into_iter().flat_map(u32::to_le_bytes).collect();
        assert_eq!(vendor, b"GenuineIntel");
    }

    #[test]
    fn caches_have_the_sizes_that_they_are_said_to_have() {
        let size = |index| {
            let [_, b, c, _] = cache(index);
            ((b >> 22) + 1) * ((b & 0xfff) + 1) * (c + 1)
        };
        assert_eq!([0, 1, 2, 3].map(size), [32 << 10, 32 << 10, 1 << 20, 8 << 20]);
    }
}
