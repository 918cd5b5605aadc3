//! Programs that make code while they run: natively, under the software PMU, and under valgrind, which
//! compares the program's bytes as well.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use super::measure::{KeptStreams, RunCost, run, run_kept};
use super::{load, median, ratio};
use crate::{build_cyclometer, installed, quiet};

/// Measurements of each program, alternating; under valgrind, which is slow, there is one.
const ROUNDS: usize = 3;

/// The greatest ratio to the native run, as the median of all programs.
const NATIVE_LIMIT: f64 = 3.0;
/// The greatest ratio to valgrind's run.
const VALGRIND_LIMIT: f64 = 0.25;

/// Name, program, arguments. Each takes some seconds natively on a server CPU of 2023.
const PROGRAMS: [(&str, &str, &str); 5] = [
    ("node", "node", "load.js"),
    ("java", "java", "-Xmx256m -cp . Load 600"),
    ("java-Xint", "java", "-Xmx256m -Xint -cp . Load 15"),
    ("luajit", "luajit", "load.lua"),
    ("php", "php", "-d opcache.enable_cli=1 -d opcache.jit=tracing -d opcache.jit_buffer_size=64M load.php"),
];

const NODE: &str = "class P { constructor(x) { this.x = x } f(n) { return this.x + n } }\n\
    class Q extends P { f(n) { return this.x * n % 1000 } }\n\
    let total = 0, words = new Map()\n\
    for (let round = 0; round < 400; round++) {\n\
      const all = Array.from({ length: 2e4 }, (_, i) => i % 3 ? new P(i) : new Q(i))\n\
      total += all.map((p, i) => p.f(i)).filter(n => n % 7).reduce((a, b) => (a + b) % 1e9, 0)\n\
      for (const p of all) { const w = 'w' + p.x % 977; words.set(w, (words.get(w) || 0) + 1) }\n\
      total += Function('a', `let s = 0; for (let i = 0; i < 1e5; i++) s = (s + i * ${round}) % a; return s`)(9973)\n\
      total += JSON.stringify([...words]).replace(/w(\\d)/g, '$1').length\n\
    }\n\
    console.log(total)\n";

const JAVA: &str = "import java.util.*;\n\
    public class Load {\n\
      interface F { long f(long n); }\n\
      public static void main(String[] a) {\n\
        long total = 0; Map<String, Integer> words = new HashMap<>();\n\
        F[] fs = { n -> n * 31 % 1009, n -> n ^ (n >> 3), n -> n + 7 };\n\
        for (int round = 0; round < Integer.parseInt(a[0]); round++) {\n\
          for (int i = 0; i < 300000; i++) total = (total + fs[i % 3].f(i)) % 1000000007L;\n\
          for (int i = 0; i < 60000; i++) words.merge(\"w\" + i % 977, 1, Integer::sum);\n\
          List<Integer> all = new ArrayList<>(words.values()); Collections.sort(all);\n\
          total += all.get(5);\n\
        }\n\
        System.out.println(total);\n\
      }\n\
    }\n";

const LUA: &str = "local t, total = {}, 0\n\
    for round = 1, 450 do\n\
      for i = 1, 1000000 do t[i % 5000] = (t[i % 5000] or 0) + i * round % 7 end\n\
      local f = loadstring('local n = 0 for i = 1, 1000000 do n = (n + i * ' .. round .. ') % 9973 end return n')\n\
      total = total + f() + #table.concat(t, ' ', 1, 4999)\n\
    end\n\
    print(total)\n";

const PHP: &str = "<?php $total = 0; $t = [];\n\
    for ($round = 1; $round <= 400; $round++) {\n\
      for ($i = 0; $i < 1000000; $i++) { $t[$i % 5000] = ($t[$i % 5000] ?? 0) + $i * $round % 7; }\n\
      $total += preg_match_all('/1[0-4]+/', implode(' ', $t));\n\
    }\n\
    echo $total + array_sum($t), \"\\n\";\n";

/// Measures the programs with these names, or all without a name; fails when a limit does not hold.
pub(crate) fn main(names: &[String]) -> Result<()> {
    let ours = build_cyclometer()?.display().to_string();
    let folder = TempDir::with_prefix("cyclometer-benches-")?;
    inputs(folder.path())?;
    std::env::set_current_dir(folder.path())?;
    let soft =
        [&ours, "stat", "--backend", "soft", "--strict", "-e", "instructions", "--output", "null", "--"];
    let valgrind = ["valgrind", "-q", "--tool=none", "--smc-check=all-non-file"];
    let has_valgrind = installed("valgrind");
    println!(
        "load average at the start: {}; medians of {ROUNDS} runs in turn (valgrind: one), wall time",
        load()
    );
    println!(
        "{:<10} {:>9} {:>13} {:>15} {:>16}",
        "program", "native s", "soft / native", "valgrind / nat.", "soft / valgrind"
    );
    let mut over_native = Vec::new();
    let mut slow = Vec::new();
    for (name, program, arguments) in PROGRAMS {
        let is_wanted = names.is_empty() || names.iter().any(|wanted| wanted == name);
        if !is_wanted || !installed_in_any_way(program) {
            continue;
        }
        let command: Vec<&str> = [program].into_iter().chain(arguments.split(' ')).collect();
        let under =
            |prefix: &[&str]| [prefix, &command].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
        let (native, counted, peer) = (under(&[]), under(&soft), under(&valgrind));
        // A run that fills the caches of the machine and of the tool.
        run(&native, KeptStreams::Errors)?;
        run_kept(&counted)?;
        let mut walls = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            walls[0].push(run(&native, KeptStreams::Errors)?.wall_s);
            walls[1].push(run_kept(&counted)?.wall_s);
            if round == 0 {
                let peer = if has_valgrind { run(&peer, KeptStreams::Errors).ok() } else { None };
                walls[2].push(peer.map_or(f64::NAN, |cost: RunCost| cost.wall_s));
            }
        }
        let [native, counted, peer] = &walls;
        let (ours, theirs, beside) = (ratio(counted, native), ratio(peer, native), ratio(counted, peer));
        println!("{name:<10} {:>9.2} {ours:>13.2} {theirs:>15.2} {beside:>16.2}", median(native));
        over_native.push(ours);
        if beside > VALGRIND_LIMIT {
            slow.push(name);
        }
    }
    ensure!(!over_native.is_empty(), "none of the programs is installed");
    let middle = median(&over_native);
    println!("median of the ratios to native runs: {middle:.2}; load average at the end: {}", load());
    ensure!(middle <= NATIVE_LIMIT, "the median is above {NATIVE_LIMIT}");
    ensure!(slow.is_empty(), "more than {VALGRIND_LIMIT} of valgrind's time: {}", slow.join(", "));
    Ok(())
}

/// Writes the sources into a folder, and compiles what must be.
fn inputs(folder: &Path) -> Result<()> {
    for (name, text) in [("load.js", NODE), ("Load.java", JAVA), ("load.lua", LUA), ("load.php", PHP)] {
        fs::write(folder.join(name), text)?;
    }
    if installed_in_any_way("javac") {
        let compiled = quiet("javac").arg("Load.java").current_dir(folder).status()?;
        ensure!(compiled.success(), "javac refuses Load.java");
    }
    Ok(())
}

/// Whether a program can be started; prints a note if not. Some know no `--version`.
fn installed_in_any_way(program: &str) -> bool {
    let started = quiet(program).arg("--version").spawn().and_then(|mut child| child.wait());
    if started.is_err() {
        eprintln!("skipped: {program} is not installed");
    }
    started.is_ok()
}
