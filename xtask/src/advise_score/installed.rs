//! Programs of the system, of medium and large size, most of which have no known fault.
//!
//! They are what people run all day, on data that is drawn by the seed. A program that is not installed is
//! named and left out.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::root;

/// A program with its arguments.
#[derive(Clone, Debug)]
pub struct InstalledProgram {
    /// Its name in the table.
    pub name: &'static str,
    /// The words of its command.
    pub command: Vec<String>,
    /// The fault that it has by an independent simulation.
    pub fault: Option<&'static str>,
}

/// Branches on data without a pattern: compression, comparing, numbers in software.
///
/// # Source
///
/// Cachegrind's simulation of branches for these commands (`valgrind --branch-sim=yes`): 8.4 (sort), 10.2
/// (bc), 12.1 (xz), 13.3 (bzip2), 13.4 (gzip) and 13.8 (grep) mispredictions in 1,000 instructions. Its
/// two-bit counters also mispredict 8.9 in perl and 11.9 in awk; a longer history learns those.
const UNPREDICTABLE: [&str; 7] =
    ["sort-numbers", "grep-pattern", "gzip-text", "xz-text", "bzip2-text", "tar-text", "bc-digits"];

impl InstalledProgram {
    /// Whether it is installed.
    pub fn is_installed(&self) -> bool {
        let version = Command::new(&self.command[0])
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        version.is_ok()
    }
}

/// The programs, with work drawn by a seed. The files that they read are those of [`write_inputs`].
pub fn installed(seed: u64) -> Vec<InstalledProgram> {
    let part = |from: u64, to: u64| from + seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (to - from + 1);
    let sum = format!("x = sum(i * i for i in range({}))", part(2_500_000, 4_000_000));
    let queens = format!(
        "def solve(n, row, left, right, across):\n \
         return 1 if row == n else sum(solve(n, row + 1, left | 1 << row + c, right | 1 << row - c + n, across | 1 << c)\n  \
         for c in range(n) if not (left >> row + c | right >> row - c + n | across >> c) & 1)\n\
         for _ in range({}): solve(8, 0, 0, 0, 0)",
        part(4, 7)
    );
    let query = format!(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < {}) \
         select sum(i * 7 % 13), count(distinct i % 101), max(abs(i - 5)) from n",
        part(1_000_000, 1_600_000)
    );
    let node = format!(
        "let a = 0; for (let i = 0; i < {}; i++) a = (a * 31 + i) % 65521; console.log(a)",
        part(150_000_000, 250_000_000)
    );
    let digits =
        format!("e='scale={}; 4*a(1)'; for i in 1 2; do echo \"$e\" | bc -lq; done", part(1500, 2200));
    let checkout = root().to_string_lossy().into_owned();
    let table: &[(&str, &[&str])] = &[
        ("python-sum", &["python3", "-c", &sum]),
        ("python-calls", &["python3", "-c", &queens]),
        (
            "perl-pattern",
            &["perl", "-ne", "$n++ if /(\\w+)en (\\d+)$/ && length($1) > 4; END { print $n }", "text"],
        ),
        ("awk-sums", &["awk", "{ n[$1] += $3 } END { for (k in n) print k, n[k] }", "text"]),
        ("sort-numbers", &["sort", "-n", "-k3", "numbers"]),
        ("grep-pattern", &["grep", "-c", "-E", "(ab|cd)[e-k]+ [0-9]*7$", "text"]),
        ("sed-replace", &["sed", "-E", "s/([a-f]+) ([a-z]+)/\\2 \\1/g", "text"]),
        ("gcc-file", &["gcc", "-O2", "-c", "-o", "file.o", "file.c"]),
        ("sqlite-query", &["sqlite3", ":memory:", &query]),
        ("gzip-text", &["gzip", "-c", "text"]),
        ("xz-text", &["xz", "-0", "-c", "text"]),
        ("bzip2-text", &["bzip2", "-c", "numbers"]),
        ("tar-text", &["tar", "-b", "2048", "-czf", "text.tgz", "text"]),
        ("jq-sums", &["jq", "[.[] | .a * 2 + (.b | length)] | add", "rows.json"]),
        ("git-log", &["git", "-C", &checkout, "log", "--stat", "-n", "150"]),
        ("node-loop", &["node", "-e", &node]),
        ("bc-digits", &["sh", "-c", &digits]),
        ("openssl-hash", &["openssl", "dgst", "-sha512", "text"]),
    ];
    table
        .iter()
        .map(|(name, words)| InstalledProgram {
            name,
            command: words.iter().map(|word| (*word).to_owned()).collect(),
            fault: UNPREDICTABLE.contains(name).then_some("branch-mispredictions"),
        })
        .collect()
}

/// Writes the files that the programs read into a folder.
///
/// # Errors
///
/// The operating system's.
pub fn write_inputs(folder: &Path, seed: u64) -> Result<()> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = move |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) % limit
    };
    let words: Vec<String> = (0..2_000)
        .map(|_| (0..3 + draw(8)).map(|_| char::from(b'a' + u8::try_from(draw(20)).unwrap_or(0))).collect())
        .collect();
    let mut line = |text: &mut String| {
        // Some words are more frequent than others.
        let [one, other] = [0, 1].map(|_| draw(2_000).min(draw(2_000)));
        let _ = writeln!(text, "{} {} {}", words[one as usize], words[other as usize], draw(100_000));
    };
    let (mut text, mut numbers) = (String::new(), String::new());
    (0..400_000).for_each(|_| line(&mut text));
    (0..120_000).for_each(|_| line(&mut numbers));
    let rows: Vec<String> =
        (0..120_000).map(|n| format!("{{\"a\":{n},\"b\":\"{}\"}}", "x".repeat(n % 17))).collect();
    let functions: String = (0..250)
        .map(|n| {
            format!(
                "int f{n}(const int *a, int n) {{ int s = {n}; for (int i = 0; i < n; i++) {{\n\
                 switch (a[i] % 7) {{ case 0: s += a[i]; break; case 1: s ^= i * {n}; break; case 2: s -= a[i] >> 3;\n\
                 break; case 3: if (s > {n}) s /= 3; else s *= 5; break; default: s += i; }} }} return s; }}\n"
            )
        })
        .collect();
    for (name, content) in [
        ("text", text),
        ("numbers", numbers),
        ("rows.json", format!("[{}]", rows.join(",\n"))),
        ("file.c", functions),
    ] {
        fs::write(folder.join(name), content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_at_least_eleven_healthy_programs_and_a_seed_changes_their_work() {
        let commands = |seed| installed(seed).into_iter().map(|one| one.command).collect::<Vec<_>>();
        assert!(installed(1).iter().filter(|one| one.fault.is_none()).count() >= 11);
        assert_eq!(commands(1), commands(1));
        assert_ne!(commands(1), commands(2));
    }
}
