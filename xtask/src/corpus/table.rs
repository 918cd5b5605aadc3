//! The programs of the corpus.
//!
//! A row is added here and nowhere else. Its load should run for about a second natively at full scale, write
//! its results to standard output or files, and print nothing that changes from run to run: what does goes to
//! the folder `aside`.

use super::program::ProgramUse::{Small, Torture, TortureWithoutInterrupts};
use super::program::{CorpusProgram, needed};

/// All rows, in the order of the table.
pub(super) const PROGRAMS: &[CorpusProgram] = &[
    // Programs that every system has.
    CorpusProgram::new("coreutils", &[needed("sha256sum", "coreutils")])
        .version("sha256sum --version")
        .load(
            "digests, cut, tr, uniq, od, base64, join over 4 MB, in pipes",
            "sha256sum \"$SHARED/text\" | cut -c 1-64; b2sum <\"$SHARED/text\"; cksum <\"$SHARED/text\"
             tr a-z b-za <\"$SHARED/text\" | cut -d ' ' -f 2-4 | uniq -c | tail -n 3
             od -A d -t x1z \"$SHARED/text\" | tail -n 2; base64 \"$SHARED/text\" | md5sum
             nl \"$SHARED/text\" >numbered; head -n 2000 numbered | tac | wc; ls -l numbered | cut -c 1-10; rm numbered",
        )
        .also(&[Torture]),
    CorpusProgram::new("sort", &[needed("sort", "coreutils")])
        .version("sort --version")
        .load("4 MB by two keys", "tr ' ' '\\n' <\"$SHARED/text\" >words; LC_ALL=C exec sort -k 1.2,1.5 -k 1r -u -o sorted words")
        .also(&[]),
    CorpusProgram::new("sort, one thread", &[needed("sort", "coreutils")])
        .version("sort --version")
        .load(
            "4 MB by two keys",
            "tr ' ' '\\n' <\"$SHARED/text\" >words; LC_ALL=C exec sort --parallel=1 -k 1.2,1.5 -k 1r -u -o sorted words",
        )
        .also(&[Small, Torture]),
    CorpusProgram::new("findutils and tar", &[needed("find", "findutils"), needed("tar", "tar")])
        .version("tar --version")
        .load(
            "500 files made, found, packed, unpacked, compared",
            "mkdir files; cd files; i=0; while [ $i -lt $((N * 5)) ]; do echo $i >file$i; i=$((i + 1)); done; cd ..
             find files -name '*7*' | xargs -n 20 wc -c | tail -n 1
             tar --sort=name --mtime=@0 --owner=0 --group=0 -cf all.tar files; mkdir other; tar -C other -xf all.tar
             diff -r files other/files; rm -r files other",
        )
        .also(&[Torture]),
    CorpusProgram::new("dash", &[needed("dash", "dash")])
        .version("dpkg-query -W -f '${Version}' dash")
        .load("loops, strings, arithmetic", "exec dash \"$SHARED/load.sh\" $((N * 1000))")
        .also(&[Torture]),
    CorpusProgram::new("bash", &[needed("bash", "bash")])
        .version("bash --version")
        .load(
            "loops, strings, arithmetic; then subshells in pipes",
            "bash \"$SHARED/load.sh\" $((N * 200)); exec bash -c 'trap \"exit 130\" INT; for i in {1..60}; do (echo $i; echo x) | { read a && echo $a; }; done'",
        )
        .also(&[Small, Torture]),
    CorpusProgram::new("busybox", &[needed("busybox", "busybox")])
        .version("busybox")
        .load(
            "its shell, gzip, sort and awk",
            "busybox sh \"$SHARED/load.sh\" $((N * 200)); busybox gzip -c \"$SHARED/text\" | busybox sha256sum
             busybox awk '{ n[$1]++ } END { for (w in n) print w, n[w] }' \"$SHARED/text\" | busybox sort | busybox md5sum",
        )
        .also(&[Torture]),
    CorpusProgram::new("grep", &[needed("grep", "grep")])
        .version("grep --version")
        .load(
            "basic, extended and fixed expressions over 4 MB",
            "grep -c -E '(ab|ba)+[c-f]?(x|yy)' \"$SHARED/text\"; grep -c '\\(a[^ ]*\\) \\1' \"$SHARED/text\" || true
             printf 'abca\\nxyzz\\nggg\\n' >words; exec grep -n -o -F -f words \"$SHARED/text\"",
        )
        .also(&[Small, Torture]),
    CorpusProgram::new("grep -P", &[needed("grep", "grep")])
        .version("grep --version")
        .load(
            "a Perl expression over 4 MB; PCRE compiles it at run time",
            "exec grep -o -P '\\b\\w*(\\w)\\1\\w*\\b' \"$SHARED/text\"",
        )
        .also(&[Torture]),
    CorpusProgram::new("sed", &[needed("sed", "sed")])
        .version("sed --version")
        .load(
            "substitutions and the hold space over 4 MB",
            "exec sed -n -E 's/([a-z]+) ([a-z]+)/\\2 \\1/g; /q/{H;x;s/\\n/|/g;s/^(.{60}).*/\\1/;x}; s/e+/E/gp; ${x;p}' \"$SHARED/text\"",
        )
        .also(&[Small, Torture]),
    CorpusProgram::new("mawk", &[needed("mawk", "mawk")])
        .version("mawk -W version 2>&1")
        .load(
            "words counted over 4 MB",
            "exec mawk '{ for (i = 1; i <= NF; i++) n[substr($i, 1, 3)] += length($i) } END { for (w in n) print w, n[w] }' \
             \"$SHARED/text\"",
        )
        .also(&[Small, Torture]),
    CorpusProgram::new("gawk", &[needed("gawk", "gawk")])
        .version("gawk --version")
        .load(
            "words counted over 4 MB",
            "exec gawk '{ for (i = 1; i <= NF; i++) n[substr($i, 1, 3)] += length($i) } END { for (w in n) print w, n[w] }' \
             \"$SHARED/text\"",
        )
        .also(&[Torture]),
    CorpusProgram::new("bc", &[needed("bc", "bc")])
        .version("bc --version")
        .load("π to 600 digits", "echo \"scale=$((N * 6)); 4*a(1)\" | bc -l")
        .also(&[Torture]),
    // Compression, cryptography, sound.
    CorpusProgram::new("gzip", &[needed("gzip", "gzip")])
        .version("gzip --version")
        .load(
            "4 MB and back",
            "gzip -9 -n -c \"$SHARED/text\" >text.gz; exec gzip -dc text.gz >back",
        )
        .also(&[Small, Torture]),
    CorpusProgram::new("bzip2", &[needed("bzip2", "bzip2")])
        .version("bzip2 --help 2>&1 </dev/null")
        .load(
            "4 MB and back",
            "bzip2 -c \"$SHARED/text\" >text.bz2; exec bzip2 -dc text.bz2 >back",
        )
        .also(&[Torture]),
    CorpusProgram::new("xz", &[needed("xz", "xz-utils")])
        .version("xz --version")
        .load(
            "1 MB and back",
            "head -c 1000000 \"$SHARED/text\" >text; xz -6 -c text >text.xz; exec xz -dc text.xz >back",
        )
        .also(&[Torture]),
    CorpusProgram::new("zstd", &[needed("zstd", "zstd")])
        .version("zstd --version")
        .load(
            "4 MB and back, with its threads",
            "zstd -q -15 \"$SHARED/text\" -o text.zst; exec zstd -q -dc text.zst >back",
        )
        .also(&[Torture]),
    CorpusProgram::new("zstd, one thread", &[needed("zstd", "zstd")]).version("zstd --version").load(
        "4 MB and back",
        "zstd -q --single-thread --no-asyncio -15 -c <\"$SHARED/text\" >text.zst; exec zstd -q --single-thread --no-asyncio -dc <text.zst >back",
    ),
    CorpusProgram::new("brotli", &[needed("brotli", "brotli")])
        .version("brotli --version")
        .load(
            "1 MB and back",
            "head -c 1000000 \"$SHARED/text\" >text; brotli -q 9 -c text >text.br; exec brotli -dc text.br >back",
        )
        .also(&[Torture]),
    CorpusProgram::new("openssl", &[needed("openssl", "openssl")])
        .version("openssl version")
        .load(
            "digests, AES-256 both ways, PBKDF2, a prime",
            "for digest in md5 sha1 sha512 sha3-256 blake2b512; do openssl dgst -r -$digest <\"$SHARED/text\"; done
             openssl enc -aes-256-cbc -K 0011 -iv 2233 -in \"$SHARED/text\" -out text.aes 2>/dev/null
             openssl enc -d -aes-256-cbc -K 0011 -iv 2233 -in text.aes -out back 2>/dev/null
             openssl enc -aes-128-ctr -pbkdf2 -iter $((N * 5000)) -pass pass:word -S 0011223344556677 -in \"$SHARED/text\" -out text.key
             openssl prime -hex FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A63A3620FFFFFFFFFFFFFFFF",
        )
        .also(&[Torture]),
    CorpusProgram::new("flac", &[needed("flac", "flac")])
        .version("flac --version")
        .load(
            "sound of 20 s encoded and decoded",
            "flac --totally-silent -8 --force-raw-format --endian=little --channels=1 --bps=16 --sample-rate=44100 --sign=signed \
             -o sound.flac \"$SHARED/text\"; flac --totally-silent -d -c --force-raw-format --endian=little --sign=signed sound.flac >back",
        )
        .also(&[Torture]),
    // Interpreters.
    CorpusProgram::new("perl", &[needed("perl", "perl")])
        .version("perl -e 'print $^V'")
        .load(
            "words counted, sorted, joined",
            "PERL_HASH_SEED=0 exec perl \"$SHARED/load.pl\" $((N / 10)) \"$SHARED/text\"",
        )
        .also(&[Small, Torture]),
    CorpusProgram::new("python", &[needed("python3", "python3")])
        .version("python3 --version")
        .load(
            "words counted, sorted, hashed",
            "trap '' INT; PYTHONHASHSEED=0 exec python3 \"$SHARED/load.py\" $((N / 5)) \"$SHARED/text\"",
        )
        .also(&[Small, Torture]),
    CorpusProgram::new("python, threads", &[needed("python3", "python3")])
        .version("python3 --version")
        .load("four threads, a queue and a lock", "trap '' INT; PYTHONHASHSEED=0 exec python3 \"$SHARED/threads.py\" $N")
        .also(&[Torture]),
    CorpusProgram::new("python, subprocess", &[needed("python3", "python3")])
        .version("python3 --version")
        .load(
            "pipes to 50 children, and 50 killed by a signal",
            "trap '' INT; PYTHONHASHSEED=0 exec python3 \"$SHARED/children.py\" $((N / 2))",
        )
        .also(&[Torture]),
    CorpusProgram::new("ruby", &[needed("ruby", "ruby")])
        .version("ruby --version")
        .load("words counted, sorted, joined", "exec ruby \"$SHARED/load.rb\" $((N / 10)) \"$SHARED/text\"")
        .also(&[Torture]),
    CorpusProgram::new("lua", &[needed("lua5.4", "lua5.4")])
        .version("lua5.4 -v")
        .load("words counted, sorted", "exec lua5.4 \"$SHARED/load.lua\" $((N / 4)) \"$SHARED/text\"")
        .also(&[Torture]),
    CorpusProgram::new("luajit", &[needed("luajit", "luajit")])
        .version("luajit -v")
        .load("words counted, sorted; compiled at run time", "exec luajit \"$SHARED/load.lua\" $((N * 2)) \"$SHARED/text\"")
        .also(&[Torture]),
    CorpusProgram::new("tcl", &[needed("tclsh", "tcl")])
        .version("echo 'puts $tcl_patchLevel' | tclsh")
        .load("words counted, sorted", "exec tclsh \"$SHARED/load.tcl\" $((N / 4)) \"$SHARED/text\"")
        .also(&[Torture]),
    CorpusProgram::new("ocaml", &[needed("ocaml", "ocaml-nox")])
        .version("ocaml -version")
        .load("a sieve and a tree, as byte code", "exec ocaml \"$SHARED/load.ml\" $((N / 2))")
        .also(&[Torture]),
    CorpusProgram::new("jq", &[needed("jq", "jq")])
        .version("jq --version")
        .load(
            "groups 5000 objects",
            "seq 1 $((N * 50)) | jq -c '{n: ., k: (. * 7919 % 101)}' | jq -s -S 'group_by(.k) | map({k: .[0].k, s: (map(.n) | add)})'",
        )
        .also(&[Torture]),
    CorpusProgram::new("m4", &[needed("m4", "m4")])
        .version("m4 --version")
        .load("3000 expansions, each inside the other", "for i in 1 2 3 4 5; do m4 -L 10000 \"$SHARED/load.m4\"; done")
        .also(&[Torture]),
    CorpusProgram::new("node", &[needed("node", "nodejs")])
        .version("node --version")
        .load("maps, sorting, strings; V8's compilers", "exec node \"$SHARED/load.js\" $((N / 2))")
        .also(&[Torture]),
    CorpusProgram::new("java -Xint", &[needed("java", "default-jre-headless"), needed("javac", "default-jdk-headless")])
        .version("java -version 2>&1")
        .prepare("javac -d . \"$SHARED/Load.java\"")
        .load("strings, maps, floating point; interpreted", "exec java -Xint Load $((N / 20))")
        .also(&[TortureWithoutInterrupts]),
    CorpusProgram::new("java", &[needed("java", "default-jre-headless"), needed("javac", "default-jdk-headless")])
        .version("java -version 2>&1")
        .prepare("javac -d . \"$SHARED/Load.java\"")
        .load("strings, maps, floating point; compiled at run time", "exec java Load $N")
        .also(&[TortureWithoutInterrupts]),
    CorpusProgram::new("php", &[needed("php", "php-cli")])
        .version("php --version")
        .load(
            "words counted; expressions and functions are compiled at run time",
            "exec php -d opcache.enable_cli=1 -d opcache.jit=tracing -d opcache.jit_buffer_size=32M -r '
                $n = []; $sum = 0;
                foreach (file($argv[1]) as $line) foreach (explode(\" \", trim($line)) as $w) $n[$w] = ($n[$w] ?? 0) + preg_match(\"/(.)\\\\1/\", $w);
                ksort($n); foreach ($n as $w => $k) for ($i = 0; $i < 100; $i++) $sum = ($sum * 31 + $k + $i) % 1000003;
                echo count($n), \" \", $sum, \"\\n\";' \"$SHARED/text\"",
        ),
    CorpusProgram::new("pypy", &[needed("pypy3", "pypy3")])
        .version("pypy3 --version 2>&1")
        .load("words counted, sorted, hashed; compiled at run time", "exec pypy3 \"$SHARED/load.py\" $N \"$SHARED/text\""),
    CorpusProgram::new("erlang", &[needed("erl", "erlang-base")])
        .version("erl -noshell -eval 'io:format(\"~s~n\", [erlang:system_info(otp_release)]), halt().'")
        .load(
            "lists and a dictionary; compiled at load time",
            "exec erl -noshell +S 1 -eval 'D = lists:foldl(fun(X, A) -> maps:update_with(X rem 1009, fun(C) -> C + X end, X, A) end, #{}, lists:seq(1, 300000)), io:format(\"~p~n\", [lists:sum(maps:values(D))]), halt().'",
        ),
    CorpusProgram::new("qemu-user", &[needed("qemu-x86_64", "qemu-user")])
        .version("qemu-x86_64 --version")
        .load("an emulated sha256sum over 4 MB; translated at run time", "exec qemu-x86_64 /usr/bin/sha256sum \"$SHARED/text\""),
    // Compilers.
    CorpusProgram::new("gcc", &[needed("gcc", "gcc")])
        .version("gcc --version")
        .prepare("awk -v functions=$N -v name=part -f \"$SHARED/source.awk\" >part.c")
        .load("-O2 of 100 functions", "exec gcc -O2 -c -o part.o part.c")
        .also(&[Torture]),
    CorpusProgram::new("g++", &[needed("g++", "g++")])
        .version("g++ --version")
        .load(
            "-O1 with regular expressions of the standard library; the program runs",
            "g++ -O1 -o load \"$SHARED/load.cpp\"; exec ./load $((N * 2))",
        )
        .also(&[Torture]),
    CorpusProgram::new("tcc", &[needed("tcc", "tcc")])
        .version("tcc -v")
        .prepare("awk -v functions=$((N * 30)) -v name=part -f \"$SHARED/source.awk\" >part.c")
        .load("3000 functions", "exec tcc -c -o part.o part.c")
        .also(&[Torture]),
    CorpusProgram::new("tcc -run", &[needed("tcc", "tcc")])
        .version("tcc -v")
        .prepare("awk -v functions=$((N * 10)) -v name=part -f \"$SHARED/source.awk\" >part.c; echo 'int main(void) { printf(\"%jd%c\", (intmax_t)part(\"words\"), 10); return 0; }' >>part.c")
        .load("1000 functions, executed where they were compiled", "exec tcc -run part.c")
        .also(&[Torture]),
    CorpusProgram::new("nasm", &[needed("nasm", "nasm")])
        .version("nasm --version")
        .prepare("awk -v n=$((N * 300)) 'BEGIN { for (i = 0; i < n; i++) print \"l\" i \": mov eax,\", i, \"\\n jne l\" int(i / 2), \"\\n imul rax, [rbx+\" i \"], 3\" }' >load.asm")
        .load("90000 lines", "exec nasm -f elf64 -o load.o load.asm")
        .also(&[Torture]),
    CorpusProgram::new("binutils", &[needed("objdump", "binutils"), needed("gcc", "gcc")])
        .version("objdump --version")
        .prepare("awk -v functions=$N -v name=part -f \"$SHARED/source.awk\" >part.c; gcc -g -O1 -c -o part.o part.c; rm part.c")
        .load(
            "as, objdump, nm, objcopy, ar, strip",
            "objdump -d -r part.o | md5sum; nm -S part.o | sort | md5sum; objcopy --compress-debug-sections part.o other.o
             ar rD all.a part.o other.o 2>/dev/null; strip -g -o small.o part.o; readelf -a part.o | md5sum",
        )
        .also(&[Torture]),
    CorpusProgram::new("make -j2", &[needed("make", "make"), needed("gcc", "gcc")])
        .version("make --version")
        .prepare(
            "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do awk -v functions=$((N / 10)) -v name=part$i -f \"$SHARED/source.awk\" >part$i.c; done
             { echo '#include <stdint.h>'; echo '#include <stdio.h>'
               for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo \"int64_t part$i(const char *);\"; done
               echo 'int main(int n, char **words) { int64_t sum = 0; while (--n) {'
               for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo \"sum += part$i(words[n]);\"; done
               echo '} printf(\"%jd%c\", (intmax_t)sum, 10); }'; } >main.c
             cp \"$SHARED/Makefile.load\" Makefile",
        )
        .load("13 files compiled, two at a time, and linked; the program runs", "exec make -j2 --output-sync=none -s")
        .also(&[Torture]),
    CorpusProgram::new("rustc", &[needed("rustc", "rustc")])
        .version("rustc --version")
        .load("a small program with -O", "exec rustc --edition 2021 -O -o load \"$SHARED/load.rs\"")
        .also(&[Torture]),
    CorpusProgram::new("cargo build", &[needed("cargo", "cargo"), needed("rustc", "rustc")])
        .version("cargo --version")
        .prepare("cp -R \"$SHARED/crate/.\" .")
        .load(
            "a small crate; the program runs",
            "mkdir aside; CARGO_TARGET_DIR=aside/target cargo build -q --offline; exec aside/target/debug/small",
        )
        .compared("what the built program prints; cargo's folder holds times")
        .also(&[Torture]),
    CorpusProgram::new("code overwritten", &[needed("gcc", "gcc")])
        .version("gcc --version")
        .prepare(
            "gcc -O2 -o load \"$SHARED/overwritten.c\" -ldl
             for i in 2 3; do gcc -O2 -shared -fPIC -DLIBRARY=$i -o part$i.so \"$SHARED/overwritten.c\"; done",
        )
        .load(
            "a C program that writes over a function 20 times, and loads 30 libraries, each where the one before it was",
            "exec ./load $((N * 60000)) ./part2.so ./part3.so",
        )
        .also(&[Small, Torture]),
    CorpusProgram::new("a Rust program", &[needed("rustc", "rustc")])
        .version("rustc --version")
        .prepare("rustc --edition 2021 -O -o load \"$SHARED/load.rs\"")
        .load("hash maps, trees, strings, floating point", "exec ./load $((N * 3))")
        .also(&[Torture]),
    CorpusProgram::new("a Go program", &[needed("go", "golang-go")])
        .version("go version")
        .prepare("GOCACHE=\"$TMPDIR/go\" go build -o load \"$SHARED/load.go\"; rm -rf \"$TMPDIR/go\"")
        .load("goroutines, channels, maps", "exec ./load $((N * 2))")
        .also(&[Torture]),
    CorpusProgram::new("go build", &[needed("go", "golang-go")])
        .version("go version")
        .prepare("GOCACHE=$PWD/cache go build -o load \"$SHARED/load.go\"; rm load; cp \"$SHARED/load.go\" .; echo '// changed' >>load.go")
        .load(
            "a changed program, with its library cached",
            "mkdir aside; mv cache aside; GOCACHE=$PWD/aside/cache go build -o load load.go; exec ./load 5",
        )
        .compared("the program that it builds, and what that prints; the cache holds times"),
    // Tools and servers.
    CorpusProgram::new("git", &[needed("git", "git")])
        .version("git --version")
        .load(
            "10 commits, branches, a merge, log, repack, fsck",
            "export GIT_AUTHOR_DATE='@1700000000 +0000' GIT_COMMITTER_DATE='@1700000000 +0000' GIT_CONFIG_NOSYSTEM=1
             export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
             mkdir aside; git init -q -b main aside/tree; cd aside/tree
             for i in 1 2 3 4 5 6 7 8 9 10; do split -l $((N * 20)) -d \"$SHARED/text\" f; echo $i >>f0$((i % 3)); git add .; git commit -q -m \"$i\"; done
             git checkout -q -b side HEAD~5; echo side >side; git add side; git commit -q -m side; git checkout -q main; git merge -q -m both side
             git log --stat --format='%H %s'; git repack -q -a -d; git fsck --full --no-progress; git diff HEAD~4 | md5sum",
        )
        .compared("what git prints, the ids of commits among it; the index holds times and inode numbers")
        .also(&[Torture]),
    CorpusProgram::new("sqlite", &[needed("sqlite3", "sqlite3")])
        .version("sqlite3 --version")
        .load("30000 rows inserted, indexed, joined, vacuumed", "exec sqlite3 load.db \".read $SHARED/load.sql\"")
        .also(&[TortureWithoutInterrupts]),
    CorpusProgram::new("vim", &[needed("vim", "vim")])
        .version("vim --version")
        .load(
            "substitutions, sorting and a macro, without a terminal",
            "head -n $((N * 200)) \"$SHARED/text\" >text; exec vim -es -u NONE -i NONE -n \
             -c '%s/\\v(a+)(b)/\\2\\1/ge' -c 'sort /[a-z]* /' -c 'g/zz/move 0' -c 'wq' text",
        ),
    CorpusProgram::new("gdb", &[needed("gdb", "gdb"), needed("gcc", "gcc")])
        .version("gdb --version")
        .prepare("printf 'int f(int n) { return n ? n * f(n - 1) : 1; }\\nint main(void) { return f(5); }\\n' >load.c; gcc -g -o load load.c")
        .load(
            "a breakpoint, a backtrace, steps",
            "mkdir aside; gdb -nx -batch -ex 'set startup-with-shell off' -ex 'break f if n == 0' -ex run -ex backtrace -ex finish \
             -ex 'p $rax' -ex continue load >aside/log 2>&1; sed 's/process [0-9]*/process/' aside/log",
        )
        .compared("all that gdb says but process ids")
        .loses("after another process traced it"),
    CorpusProgram::new("strace", &[needed("strace", "strace")])
        .version("strace --version")
        .load(
            "system calls of ls",
            "mkdir aside; strace -o aside/calls ls \"$SHARED\"; exec sed 's/(.*//' aside/calls",
        )
        .compared("the names of all system calls that it shows, in order; not addresses and times")
        .loses("after another process traced it"),
    CorpusProgram::new("curl", &[needed("curl", "curl"), needed("busybox", "busybox")])
        .version("curl --version")
        .load(
            "40 files of 1 MB from a loopback server, in parallel and one by one",
            "head -c $((N * 10000)) \"$SHARED/text\" >file; busybox httpd -f -p 127.0.0.1:$PORT & server=$!
             until curl -s -o /dev/null http://127.0.0.1:$PORT/file; do sleep 0.05; done
             i=0; while [ $i -lt 20 ]; do curl -s http://127.0.0.1:$PORT/file | md5sum; i=$((i + 1)); done
             curl -s -Z --no-progress-meter -o 'got#1' \"http://127.0.0.1:$PORT/file?[1-20]\"; md5sum got*; rm got*; { kill $server; wait $server; } 2>/dev/null || true",
        )
        .also(&[TortureWithoutInterrupts]),
    CorpusProgram::new("nginx", &[needed("nginx", "nginx-light"), needed("ab", "apache2-utils"), needed("curl", "curl")])
        .version("nginx -v 2>&1")
        .prepare(
            "mkdir www; head -c 20000 \"$SHARED/text\" >www/page
             echo \"daemon off; worker_processes 2; pid aside/pid; error_log aside/errors;
             events {} http { access_log aside/log; server { listen 127.0.0.1:$PORT; root www; }
             client_body_temp_path aside/a; proxy_temp_path aside/b; fastcgi_temp_path aside/c; uwsgi_temp_path aside/d; scgi_temp_path aside/e; }\" >conf",
        )
        .load(
            "two workers, 5000 requests of ab, 8 at a time",
            "mkdir aside; nginx -p . -c conf -e aside/errors & server=$!; until [ -s aside/pid ]; do sleep 0.05; done
             ab -q -n $((N * 50)) -c 8 http://127.0.0.1:$PORT/page >aside/ab
             grep -E '^(Complete|Failed|Document)' aside/ab; curl -s http://127.0.0.1:$PORT/page; kill $server; wait $server",
        )
        .compared("how many requests were made and failed, and a page; not the times, nor the sums that ab makes while the last requests are still under way")
        .also(&[TortureWithoutInterrupts]),
    CorpusProgram::new("redis", &[needed("redis-server", "redis-server"), needed("redis-benchmark", "redis-tools")])
        .version("redis-server --version")
        .load(
            "redis-benchmark: 5 commands, 5000 times each",
            "mkdir aside; redis-server --port 0 --unixsocket $PWD/aside/socket --save '' --dir aside --enable-debug-command yes \
             --logfile log & server=$!; until redis-cli -s aside/socket ping 2>/dev/null; do sleep 0.05; done
             redis-benchmark -s aside/socket -n $((N * 50)) -c 10 -t set,incr,lpush,sadd,hset --csv >aside/times
             redis-cli -s aside/socket dbsize; redis-cli -s aside/socket debug digest; redis-cli -s aside/socket llen mylist
             kill $server; wait $server",
        )
        .compared("the digest of the data base after it; not the times")
        .also(&[TortureWithoutInterrupts]),
    CorpusProgram::new("postgres", &[needed("initdb", "postgresql"), needed("pgbench", "postgresql-contrib")])
        .version("postgres --version")
        .load(
            "initdb, pgbench: 2 clients, 200 transactions each",
            "mkdir aside; initdb -D aside/data -A trust -U corpus --no-sync >aside/initdb
             postgres -D aside/data -c listen_addresses= -c unix_socket_directories=\"$PWD/aside\" -c fsync=off >aside/log 2>&1 & server=$!
             until psql -q -h \"$PWD/aside\" -U corpus -d postgres -c 'select 1' >/dev/null 2>&1; do sleep 0.1; done
             pgbench -q -i -s 1 -h \"$PWD/aside\" -U corpus postgres >aside/init 2>&1
             pgbench -n --random-seed=7 -c 2 -t $((N * 2)) -h \"$PWD/aside\" -U corpus postgres >aside/bench 2>&1
             psql -h \"$PWD/aside\" -U corpus -d postgres -At -c 'select count(*), sum(delta) from pgbench_history; select sum(abalance) from pgbench_accounts; select sum(bbalance) from pgbench_branches'
             kill $server; wait $server",
        )
        .not_as_root()
        .compared("sums over the tables after it; not the times, nor the cluster's files"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_says_what_it_needs_and_does() {
        for program in PROGRAMS {
            let said = [program.version, program.what, program.load];
            assert!(said.iter().all(|text| !text.is_empty()), "{program:?}");
            assert!(!program.needs.is_empty(), "{program:?}");
        }
    }

    #[test]
    fn names_are_unique_and_there_are_thirty_at_least() {
        let names: BTreeSet<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        assert_eq!(names.len(), PROGRAMS.len());
        assert!(names.len() >= 30);
    }

    #[test]
    fn who_writes_aside_says_what_is_compared_instead() {
        for program in PROGRAMS {
            assert!(
                !program.load.contains("mkdir aside") || program.aside.is_some(),
                "{} has no word about what is compared",
                program.name
            );
        }
    }

    #[test]
    fn the_small_corpus_and_the_torture_have_rows() {
        for used in [Small, Torture] {
            assert!(PROGRAMS.iter().filter(|program| program.also.contains(&used)).count() >= 8, "{used:?}");
        }
    }
}
