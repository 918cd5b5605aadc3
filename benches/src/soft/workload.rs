//! The programs, and inputs for them that are the same on every machine.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::quiet;

/// Sizes that determine how long the programs run: somewhat more than 1 s natively on a server CPU of 2023.
const XZ_BYTES: usize = 20_000_000;
const GZIP_BYTES: usize = 36_000_000;
const SORT_LINES: usize = 4_200_000;
const PYTHON_ROUNDS: u32 = 20_000_000;
const PERL_ROUNDS: u32 = 9_000_000;
const AWK_ROUNDS: u32 = 14_000_000;
const SQL_ROWS: u32 = 2_300_000;
const C_FUNCTIONS: u32 = 260;
const INTERPRETED: u32 = 400_000_000;
const VIRTUAL_CALLS: u32 = 150_000_000;
const SWITCHES: u32 = 4_000_000;

/// Limit for short programs with much code, as a ratio to their native runs.
const GCC_LIMIT: f64 = 4.0;
const RUSTC_LIMIT: f64 = 6.0;

/// Limits for indirect branches without other work, and for 300 processes: 2 ms each beyond some 0.5 ms.
const INTERPRETER_LIMIT: f64 = 1.8;
const VIRTUAL_LIMIT: f64 = 1.15;
const COROUTINES_LIMIT: f64 = 1.15;
const SHELL_LIMIT: f64 = 5.0;

/// A program with its input.
pub(super) struct BenchProgram {
    pub(super) name: &'static str,
    pub(super) command: Vec<String>,
    /// Its own greatest ratio to the native run; `None` if it counts among the long runs.
    pub(super) limit: Option<f64>,
}

/// The folder of the inputs, which is deleted on drop, and the installed programs.
pub(super) struct BenchPrograms {
    _folder: TempDir,
    pub(super) programs: Vec<BenchProgram>,
}

/// Writes the inputs of the programs with these names, or of all without a name.
pub(super) fn make(names: &[String]) -> Result<BenchPrograms> {
    let folder = TempDir::with_prefix("cyclometer-benches-")?;
    let mut programs = Vec::new();
    for (name, file, limit, make) in PROGRAMS {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        let Some(file) = found(file) else {
            eprintln!("skipped: {file} is not installed");
            continue;
        };
        let command = make(file, folder.path())?;
        programs.push(BenchProgram { name, command, limit });
    }
    Ok(BenchPrograms { _folder: folder, programs })
}

/// Writes the input of a file into a folder; returns the command.
type Make = fn(String, &Path) -> Result<Vec<String>>;

/// Name, file, own limit, command. A compiler makes the program that is measured. Absolute paths are those of
/// the distribution: `PATH` may lead to a script that selects a version.
const PROGRAMS: [(&str, &str, Option<f64>, Make); 14] = [
    ("xz", "xz", None, |xz, folder| Ok(words(xz, "-1 -T1 -kc", &text(folder, "short.txt", XZ_BYTES)?))),
    ("sort", "sort", None, |sort, folder| Ok(words(sort, "--parallel=1 -S 512M", &numbers(folder)?))),
    ("gzip", "gzip", None, |gzip, folder| Ok(words(gzip, "-kc", &text(folder, "long.txt", GZIP_BYTES)?))),
    ("python", "/usr/bin/python3", None, |program, folder| {
        Ok(words(program, "-S", &file(folder, "loop.py", &python())?))
    }),
    ("perl", "/usr/bin/perl", None, |program, folder| {
        Ok(words(program, "", &file(folder, "hash.pl", &perl())?))
    }),
    ("awk", "mawk", None, |mawk, _| Ok(vec![mawk, awk()])),
    ("sqlite", "sqlite3", None, |sqlite3, folder| {
        let script = file(folder, "query.sql", &sql())?;
        Ok(vec![sqlite3, ":memory:".to_owned(), format!(".read {}", script.display())])
    }),
    ("cc1", "cc1", None, |cc1, folder| {
        let source = file(folder, "functions.i", &c())?;
        Ok(words(cc1, "-quiet -O2 -fpreprocessed -o /dev/null", &source))
    }),
    ("gcc", "gcc", Some(GCC_LIMIT), |gcc, folder| {
        let source = file(folder, "functions.c", &c())?;
        Ok(words(gcc, &format!("-O2 -c -o {}", folder.join("functions.o").display()), &source))
    }),
    ("rustc", "rustc", Some(RUSTC_LIMIT), |rustc, folder| {
        let source = file(folder, "words.rs", RUST)?;
        let output = folder.join("libwords.rlib");
        Ok(words(rustc, &format!("-O --edition 2021 --crate-type lib -o {}", output.display()), &source))
    }),
    ("switch", "gcc", Some(INTERPRETER_LIMIT), |gcc, folder| {
        compiled(&gcc, folder, "switch.c", INTERPRETER, INTERPRETED)
    }),
    ("virtual", "g++", Some(VIRTUAL_LIMIT), |gxx, folder| {
        compiled(&gxx, folder, "virtual.cpp", VIRTUAL, VIRTUAL_CALLS)
    }),
    ("coroutines", "gcc", Some(COROUTINES_LIMIT), |gcc, folder| {
        compiled(&gcc, folder, "coroutines.c", COROUTINES, SWITCHES)
    }),
    ("shell", "/bin/sh", Some(SHELL_LIMIT), |sh, _| {
        Ok([&sh, "-c", "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i + 1)); done"]
            .map(str::to_owned)
            .into())
    }),
];

/// A small crate.
const RUST: &str = "use std::collections::HashMap;\n\
    pub fn words(text: &str) -> HashMap<String, usize> {\n\
        let mut counts = HashMap::new();\n\
        for word in text.split_whitespace() { *counts.entry(word.to_owned()).or_default() += 1; }\n\
        counts\n\
    }\n\
    pub fn most(text: &str) -> Vec<(String, usize)> {\n\
        let mut all: Vec<_> = words(text).into_iter().collect();\n\
        all.sort_by(|a, b| b.1.cmp(&a.1));\n\
        all\n\
    }\n";

/// An interpreter of 256 random instructions of a machine with 16 registers.
const INTERPRETER: &str = "#include <stdio.h>\n\
    int main(void) {\n\
      static unsigned char code[257][3]; unsigned r[16], seed = 1; long left = N;\n\
      for (int i = 0; i < 16; i++) r[i] = i * 2654435761u;\n\
      for (int i = 0; i < 256; i++) for (int j = 0; j < 3; j++) {\n\
        seed = seed * 1664525 + 1013904223; code[i][j] = (seed >> 16) % (j ? 16 : 12); }\n\
      code[256][0] = 12;\n\
      for (int pc = 0;; left--) {\n\
        unsigned char *at = code[pc++]; unsigned *a = r + at[1], b = r[at[2]];\n\
        switch (at[0]) {\n\
          case 0: *a += b; break; case 1: *a -= b; break; case 2: *a ^= b; break;\n\
          case 3: *a |= b >> 3; break; case 4: *a &= ~b; break; case 5: *a = *a * 33 + b; break;\n\
          case 6: *a = *a << 5 | *a >> 27; break; case 7: *a = b; break; case 8: *a += 7; break;\n\
          case 9: if (b & 1) *a = ~*a; break; case 10: *a >>= b & 7; break; case 11: *a = *a * b + 1; break;\n\
          case 12: pc = 0; if (left <= 0) { printf(\"%u\\n\", r[0] ^ r[7]); return 0; } break;\n\
        }\n\
      }\n\
    }\n";

/// Virtual calls of 200 classes in random order.
const VIRTUAL: &str = "#include <cstdio>\n\
    #include <utility>\n\
    struct Base { virtual unsigned f(unsigned n) = 0; };\n\
    template<unsigned K> struct Class : Base { unsigned f(unsigned n) override { return (n ^ K) * (2 * K + 1); } };\n\
    template<unsigned... K> void fill(Base **all, std::integer_sequence<unsigned, K...>) {\n\
      ((all[K] = new Class<K>), ...); }\n\
    int main() {\n\
      static Base *classes[200], *all[4096]; unsigned seed = 1, n = 0;\n\
      fill(classes, std::make_integer_sequence<unsigned, 200>());\n\
      for (auto &one : all) { seed = seed * 1664525 + 1013904223; one = classes[(seed >> 8) % 200]; }\n\
      for (unsigned i = 0; i < N; i++) n = all[i % 4096]->f(n);\n\
      std::printf(\"%u\\n\", n);\n\
    }\n";

/// Two stacks that switch to one another.
const COROUTINES: &str = "#include <stdio.h>\n\
    #include <ucontext.h>\n\
    static ucontext_t home, other; static long n;\n\
    static void work(void) { for (;;) { n += 3; swapcontext(&other, &home); } }\n\
    int main(void) {\n\
      static char stack[65536];\n\
      getcontext(&other); other.uc_stack.ss_sp = stack; other.uc_stack.ss_size = sizeof stack;\n\
      makecontext(&other, work, 0);\n\
      for (long i = 0; i < N / 2; i++) swapcontext(&home, &other);\n\
      printf(\"%ld\\n\", n);\n\
    }\n";

fn words(program: String, options: &str, file: &Path) -> Vec<String> {
    let options = options.split_whitespace().map(str::to_owned);
    [program].into_iter().chain(options).chain([file.display().to_string()]).collect()
}

/// The command that runs a source after a compiler has made a program of it, with the number of its rounds.
fn compiled(compiler: &str, folder: &Path, name: &str, source: &str, rounds: u32) -> Result<Vec<String>> {
    let (source, program) = (file(folder, name, source)?, folder.join(name).with_extension("out"));
    let mut command = quiet(compiler);
    command.args(["-O2", &format!("-DN={rounds}"), "-o"]).args([&program, &source]);
    ensure!(command.status()?.success(), "{compiler} refuses {name}");
    Ok(vec![program.display().to_string()])
}

/// The path of a program. Only its driver knows one compiler proper; the other may be behind a program that
/// selects a version.
fn found(program: &str) -> Option<String> {
    let said = |command: &mut Command| {
        let output = command.output().ok()?;
        let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        Path::new(&path).is_absolute().then_some(path)
    };
    match program {
        "cc1" => return said(Command::new("gcc").arg("-print-prog-name=cc1")),
        "rustc" => {
            let root = said(Command::new("rustc").args(["--print", "sysroot"]))?;
            return Some(format!("{root}/bin/rustc"));
        }
        _ => {}
    }
    // Not all programs print a version; it is enough that one can be started.
    let mut child = quiet(program).arg("--version").spawn().ok()?;
    child.wait().ok()?;
    Some(program.to_owned())
}

fn file(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Text with a few frequent words, many rare ones, and some numbers: gzip makes it less than half as long.
fn text(folder: &Path, name: &str, bytes: usize) -> Result<PathBuf> {
    let path = folder.join(name);
    let mut out = BufWriter::new(File::create(&path)?);
    let mut random = SplitMix64(1);
    let mut written = 0;
    while written < bytes {
        let word = word(&mut random);
        written += word.len();
        out.write_all(word.as_bytes())?;
    }
    out.flush()?;
    Ok(path)
}

/// One of 10000 words followed by a space or a newline, or a number.
fn word(random: &mut SplitMix64) -> String {
    let end = if random.below(12) == 0 { '\n' } else { ' ' };
    if random.below(10) == 0 {
        return format!("{}{end}", random.below(1_000_000));
    }
    let range = [20, 300, 10_000][random.below(3) as usize];
    let mut letters = SplitMix64(random.below(range) + 1);
    let length = 2 + letters.below(8);
    let mut word: String = (0..length).map(|_| char::from(b'a' + letters.below(26) as u8)).collect();
    word.push(end);
    word
}

fn numbers(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("numbers");
    let mut out = BufWriter::new(File::create(&path)?);
    let mut random = SplitMix64(2);
    for _ in 0..SORT_LINES {
        writeln!(out, "{}", random.below(1_000_000_000))?;
    }
    out.flush()?;
    Ok(path)
}

fn python() -> String {
    format!(
        "def f(n):\n d = {{}}\n s = 0\n for i in range(n):\n  s += i * i % 7\n  d[i % 1000] = s\n return s\n\
         print(f({PYTHON_ROUNDS}))\n"
    )
}

fn perl() -> String {
    format!(
        "my %h; my $s = 0; for my $i (1..{PERL_ROUNDS}) {{ $h{{$i % 5000}} += $i; $s++ if \"x$i\" =~ /7[0-3]/; }} \
         print \"$s \", scalar(keys %h), \"\\n\";\n"
    )
}

fn awk() -> String {
    format!("BEGIN {{ for (i = 0; i < {AWK_ROUNDS}; i++) {{ s += i % 7; a[i % 100] = s }} print s }}")
}

fn sql() -> String {
    format!(
        "create table t(a, b);\n\
         with recursive c(x) as (select 1 union all select x + 1 from c where x < {SQL_ROWS})\n\
         insert into t select x, x * 7919 % 10007 from c;\n\
         select count(*), sum(a) from t where b % 3 = 0;\n\
         select b, count(*) from t group by b order by 2 desc limit 3;\n"
    )
}

/// Functions of the same kind, each with its own numbers.
fn c() -> String {
    let mut random = SplitMix64(3);
    (0..C_FUNCTIONS).map(|i| function(i, &mut random)).collect()
}

fn function(i: u32, random: &mut SplitMix64) -> String {
    let (a, b, c) = (random.below(1000) + 1, random.below(5000) + 1, random.below(1000) + 1);
    format!(
        "int f{i}(int *a, int n) {{ int s = 0; for (int i = 0; i < n; i++) {{ s += a[i] * {a};\n\
         if (s > {b}) s -= a[i] ^ {c};\n\
         switch (s & 7) {{ case 1: s += 3; break; case 2: s *= 5; break; case 5: s ^= n; break; }} }} return s; }}\n"
    )
}

/// SplitMix64 (G. Steele, D. Lea, C. Flood: Fast Splittable Pseudorandom Number Generators, 2014).
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_are_those_of_the_published_generator() {
        // The first outputs for the seed 1234567, as in Rosetta Code's task "Pseudo-random
        // numbers/Splitmix64".
        let mut random = SplitMix64(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn inputs_are_the_same_each_time() {
        assert_eq!(c(), c());
        let mut first = SplitMix64(1);
        let mut second = SplitMix64(1);
        assert!((0..1000).all(|_| word(&mut first) == word(&mut second)));
    }

    #[test]
    fn only_the_programs_that_are_asked_for_get_inputs() {
        let workload = make(&["no such program".to_owned()]).unwrap();
        assert!(workload.programs.is_empty());
    }
}
