//! Pictures of terminal sessions for the documentation: the tool in a terminal of 80 columns, drawn as SVG.

use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anstyle::RgbColor;
use anstyle_svg::{Palette, Term};
use anyhow::{Context, Result, bail, ensure};
use vt100::{Cell, Color, Parser, Screen};

use crate::command::{cargo, step};
use crate::root;

/// Where the pictures are, from the root.
const FOLDER: &str = "docs/pictures";
/// Columns of the terminal.
const COLUMNS: u16 = 80;
/// Lines of it: more than any session has.
const LINES: u16 = 100;
/// Colours that can be read on light and dark pages.
const TEXT: RgbColor = RgbColor(0xd8, 0xdb, 0xe0);
const BEHIND: RgbColor = RgbColor(0x1d, 0x20, 0x26);
/// The colour of text that the tool shows dimmed. A share of the opacity would be hard to read.
const DIMMED: RgbColor = RgbColor(0x9a, 0xa0, 0xaa);
/// The sixteen colours of a terminal, of a brightness that can be read on [`BEHIND`].
const PALETTE: Palette = Palette([
    RgbColor(0x3a, 0x3f, 0x48),
    RgbColor(0xec, 0x72, 0x72),
    RgbColor(0x7c, 0xc7, 0x7c),
    RgbColor(0xdd, 0xb4, 0x5f),
    RgbColor(0x74, 0xa8, 0xee),
    RgbColor(0xc9, 0x8f, 0xe3),
    RgbColor(0x62, 0xc2, 0xc4),
    TEXT,
    RgbColor(0x7b, 0x82, 0x8d),
    RgbColor(0xff, 0x93, 0x93),
    RgbColor(0x9b, 0xe3, 0x9b),
    RgbColor(0xf3, 0xcf, 0x7f),
    RgbColor(0x98, 0xc2, 0xff),
    RgbColor(0xe0, 0xb0, 0xf6),
    RgbColor(0x86, 0xdf, 0xe1),
    RgbColor(0xff, 0xff, 0xff),
]);
/// Pixels of 80 columns, so that all pictures are drawn at one scale.
const WIDTH: usize = 672;

/// Files that the commands read, from the root.
const FILES: [&str; 2] = ["Cargo.lock", "docs/tutorial/matrix.c"];
/// A command that is typed beforehand, and not shown.
const PREPARED: &str = "gcc -O1 -o matrix matrix.c";

/// A picture.
struct Picture {
    /// Its file without the ending.
    name: &'static str,
    /// Commands that are typed in a folder with [`FILES`].
    commands: &'static [&'static str],
}

const PICTURES: [Picture; 3] = [
    Picture {
        name: "compare",
        commands: &[
            "cyclometer compare -e instructions,branches \\\n    'gzip -1 -kc Cargo.lock' 'gzip -2 -kc Cargo.lock'",
        ],
    },
    Picture {
        name: "where",
        commands: &["cyclometer stat --by function --top 6 -e instructions,loads -- ./matrix 48 ikj"],
    },
    Picture { name: "doctor", commands: &["cyclometer doctor"] },
];

/// Draws the pictures that are named, or all.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let (tool, chosen) = chosen(arguments)?;
    let tool = match tool {
        Some(tool) => tool,
        None => built()?,
    };
    let place = prepared()?;
    let folder = root().join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| FOLDER.to_owned())?;
    for picture in chosen {
        let session = session(&tool, &place, picture.commands)?;
        let file = folder.join(format!("{}.svg", picture.name));
        fs::write(&file, drawn(&session)).with_context(|| file.display().to_string())?;
        eprintln!("==> {}", file.display());
    }
    Ok(())
}

fn chosen(mut arguments: impl Iterator<Item = String>) -> Result<(Option<PathBuf>, Vec<&'static Picture>)> {
    let (mut tool, mut chosen) = (None, Vec::new());
    while let Some(argument) = arguments.next() {
        if argument == "--tool" {
            let file = arguments.next().context("a file must follow --tool")?;
            tool = Some(fs::canonicalize(&file).with_context(|| file.clone())?);
            continue;
        }
        let Some(picture) = PICTURES.iter().find(|picture| picture.name == argument) else {
            let names: Vec<&str> = PICTURES.iter().map(|picture| picture.name).collect();
            bail!("there is no picture '{argument}'; there are {}", names.join(", "));
        };
        chosen.push(picture);
    }
    Ok((tool, if chosen.is_empty() { PICTURES.iter().collect() } else { chosen }))
}

fn built() -> Result<PathBuf> {
    cargo(&["build", "--release", "--locked", "--package", "cyclometer-cli"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release").join("cyclometer"))
}

/// The folder in which commands are typed.
fn prepared() -> Result<PathBuf> {
    let place = root().join("target").join("pictures");
    fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    for file in FILES {
        let name = Path::new(file).file_name().unwrap_or_default();
        fs::copy(root().join(file), place.join(name)).with_context(|| file.to_owned())?;
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", PREPARED]).current_dir(&place);
    step(PREPARED, shell)?;
    Ok(place)
}

/// The session as text with colours: prompts, commands, and what they leave on the screen.
fn session(tool: &Path, place: &Path, commands: &[&str]) -> Result<String> {
    let mut session = String::new();
    for command in commands {
        let _ = writeln!(session, "\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m");
        let mut screen = terminal(LINES, COLUMNS);
        screen.process(&typed(tool, place, command)?);
        let shown = lines(screen.screen());
        ensure!(!shown.trim().is_empty(), "`{command}` prints nothing");
        session.push_str(&shown);
    }
    Ok(session)
}

/// An empty terminal.
fn terminal(lines: u16, columns: u16) -> Parser {
    let size = |cells| NonZeroU16::new(cells).unwrap_or(NonZeroU16::MIN);
    Parser::new(size(lines), size(columns), 0)
}

/// The bytes that a command sends to its terminal. `script` (util-linux) gives it one.
fn typed(tool: &Path, place: &Path, command: &str) -> Result<Vec<u8>> {
    let folder = tool.parent().context("the tool is in a folder")?;
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--echo", "never", "--command"]);
    script.arg(format!("stty cols {COLUMNS} rows {LINES}; {command}")).arg("/dev/null");
    let path = std::env::var("PATH").unwrap_or_default();
    script.current_dir(place).env("PATH", format!("{}:{path}", folder.display()));
    script.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR").stdin(Stdio::null());
    let out = script.output().context("starting script, of the package bsdutils")?;
    ensure!(out.status.success(), "`{command}`: {}\n{}", out.status, String::from_utf8_lossy(&out.stdout));
    Ok(out.stdout)
}

/// The lines of a screen with the colours of their cells, without the empty ones at its end.
fn lines(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let mut text = String::new();
    for row in 0..rows.get() {
        let mut style = String::new();
        for column in 0..columns.get() {
            let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else {
                continue;
            };
            let own = style_of(cell);
            if own != style {
                let _ = write!(text, "\x1b[0m{own}");
                style = own;
            }
            text.push_str(if cell.has_contents() { cell.contents() } else { " " });
        }
        if !style.is_empty() {
            text.push_str("\x1b[0m");
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// The escape sequence for a cell's style; empty for a plain one.
fn style_of(cell: &Cell) -> String {
    let flags = [(cell.bold(), "1"), (cell.italic(), "3"), (cell.underline(), "4"), (cell.inverse(), "7")];
    let mut codes: Vec<String> =
        flags.iter().filter(|(on, _)| *on).map(|(_, code)| (*code).to_owned()).collect();
    let text = match cell.fgcolor() {
        Color::Default if cell.dim() => Color::Rgb(DIMMED.r(), DIMMED.g(), DIMMED.b()),
        other => other,
    };
    codes.extend(color(text, 38));
    codes.extend(color(cell.bgcolor(), 48));
    if codes.is_empty() { String::new() } else { format!("\x1b[{}m", codes.join(";")) }
}

/// The code of a colour; `base` is 38 for the text and 48 for what is behind it.
fn color(color: Color, base: u8) -> Option<String> {
    match color {
        Color::Default => None,
        Color::Idx(index @ 0..8) => Some((base - 8 + index).to_string()),
        Color::Idx(index) => Some(format!("{base};5;{index}")),
        Color::Rgb(red, green, blue) => Some(format!("{base};2;{red};{green};{blue}")),
    }
}

fn drawn(session: &str) -> String {
    let term = Term::new().fg_color(TEXT.into()).bg_color(BEHIND.into()).palette(PALETTE);
    term.min_width_px(WIDTH).render_svg(session.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(bytes: &str) -> String {
        let mut screen = terminal(6, 20);
        screen.process(bytes.as_bytes());
        lines(screen.screen())
    }

    #[test]
    fn a_session_is_what_is_left_on_the_screen() {
        assert_eq!(screen("progress 50 %\r\x1b[2Kdone\r\n\r\n  two\r\n"), "done\n\n  two\n");
        assert_eq!(screen("\x1b[1;31mred\x1b[0m é ≡"), "\x1b[0m\x1b[1;31mred\x1b[0m é ≡\n");
    }

    #[test]
    fn a_picture_escapes_what_is_markup() {
        let svg = drawn("a < b && c\n\x1b[32mgreen\x1b[0m\n");
        assert!(svg.starts_with("<svg") && svg.contains("a &lt; b &amp;&amp; c"), "{svg}");
        assert!(svg.contains("green"), "{svg}");
    }

    #[test]
    fn an_unknown_picture_is_refused_with_the_names_of_those_there_are() {
        let refused = chosen(["compared".to_owned()].into_iter()).err().unwrap().to_string();
        assert!(refused.contains("compare, where"), "{refused}");
        assert!(chosen(["--tool".to_owned()].into_iter()).is_err());
        assert_eq!(chosen(std::iter::empty()).unwrap().1.len(), PICTURES.len());
    }

    #[test]
    fn every_picture_is_committed_and_shown_by_a_page() {
        let pages = crate::tidy::documents(&root()).unwrap();
        for picture in PICTURES {
            let file = format!("pictures/{}.svg", picture.name);
            assert!(root().join("docs").join(&file).is_file(), "{file}: cargo xtask pictures");
            assert!(pages.values().any(|text| text.contains(&file)), "{file}");
        }
    }
}
