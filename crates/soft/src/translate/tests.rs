//! The emitted code, instruction by instruction, and the program point of each.

mod blocks;
mod emitted;
mod loops;
mod placing;
mod profiles;
mod program_points;

use iced_x86::code_asm::*;
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, NasmFormatter};

use super::batch::BlockBatch;
use super::emit::{CodeEmitter, EmitState};
use super::instruction::DecodedInstruction;
use super::pages::CodePages;
use super::program_point::PcBits;
use super::*;
use crate::profile::{BlockHeat, FileProfile, Heat};

const AT: u64 = 0x40_0000;
const REGION_AT: u64 = 0x3000_0000;
const TABLE_AT: u64 = 0x7f00_0000;

/// Code at [`AT`], and nothing executable elsewhere.
struct TestProgram(Vec<u8>);

impl CodeSource for TestProgram {
    fn page(&mut self, address: u64) -> Option<Box<[u8; PAGE as usize]>> {
        let bytes = self.0.get(usize::try_from(address.checked_sub(AT)?).ok()?..)?;
        let mut page = Box::new([0xcc; PAGE as usize]);
        let count = bytes.len().min(PAGE as usize);
        page[..count].copy_from_slice(&bytes[..count]);
        Some(page)
    }
}

fn decoded(address: u64, bytes: &[u8]) -> Vec<Instruction> {
    Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).into_iter().collect()
}

fn text(instruction: &Instruction) -> String {
    let mut text = String::new();
    NasmFormatter::new().format(instruction, &mut text);
    text
}

/// An address of libraries, which no instruction can contain.
const FAR_AT: u64 = 0x7fff_fd00_0000;

fn shape(bytes: &[u8]) -> DecodedInstruction {
    DecodedInstruction::decode(bytes, AT).unwrap()
}

fn clean() -> EmitState {
    EmitState { subject: 0, done: 0, bits: PcBits::CLEAN }
}

/// The instructions that are emitted, up to the first stop behind them.
#[track_caller]
fn emits(emit: impl FnOnce(&mut CodeEmitter), expected: &[&str]) {
    let mut out = CodeEmitter::new(REGION_AT, 0, Default::default());
    emit(&mut out);
    let (address, bytes, marks, _) = out.finish();
    let all = decoded(address, &bytes);
    let marked = all.iter().filter(|i| marks.iter().any(|entry| REGION_AT + u64::from(entry.at) == i.ip()));
    assert_eq!(marked.map(text).collect::<Vec<_>>(), expected);
}

fn ret(out: &mut CodeEmitter, drops: u16, outside: Option<u32>) {
    let (at, after) = out.begin_return(clean(), clean(), outside);
    out.end_return(at, drops, after);
}

fn batch(program: &mut TestProgram, entry: u64) -> BlockBatch {
    let bounds = (REGION_AT, REGION_AT + REGION);
    BlockBatch::find(&mut CodePages::default(), program, entry, bounds, &|_| 0, Default::default())
}

/// A bit of everything: calls, tables, loops, strings, system calls, faults.
fn mixture() -> TestProgram {
    let mut a = CodeAssembler::new(64).unwrap();
    let (mut head, mut function, mut end) = (a.create_label(), a.create_label(), a.create_label());
    a.call(function).unwrap();
    a.mov(ecx, 5).unwrap();
    a.set_label(&mut head).unwrap();
    a.adc(rax, qword_ptr(AT + 0x2000)).unwrap();
    a.inc(r11).unwrap();
    a.rep().movsb().unwrap();
    a.repne().scasb().unwrap();
    a.jb(end).unwrap();
    a.call(qword_ptr(rbx + rcx * 8)).unwrap();
    a.inc(r11).unwrap();
    a.call(r11).unwrap();
    a.loop_(head).unwrap();
    a.inc(r11).unwrap();
    a.syscall().unwrap();
    a.jrcxz(end).unwrap();
    a.jmp(qword_ptr(rax * 8 + 0x60_0000)).unwrap();
    a.set_label(&mut end).unwrap();
    a.inc(r11).unwrap();
    a.int3().unwrap();
    a.ud2().unwrap();
    a.set_label(&mut function).unwrap();
    a.add(qword_ptr(rsp), 0).unwrap();
    a.ret_1(8).unwrap();
    a.mov(gs, eax).unwrap();
    TestProgram(a.assemble(AT).unwrap())
}

/// All writes of code that a translation makes until everything is linked.
fn translated(program: &mut TestProgram) -> (Translation, Vec<CodeWrite>) {
    let mut translation = Translation::new(TABLE_AT, TranslationSettings::default());
    translation.add_region(REGION_AT, 16);
    translation.enter(program, AT).unwrap();
    let mut writes = translation.take_writes();
    for address in [AT + 5, AT + 10] {
        translation.indirect(program, address).unwrap();
    }
    let stops: Vec<u64> = translation.exit_stubs.keys().copied().collect();
    for stop in stops {
        translation.link(program, stop).unwrap();
    }
    writes.extend(translation.take_writes());
    (translation, writes)
}

fn entered(code: &mut dyn CodeSource) -> Translation {
    let mut translation = Translation::new(TABLE_AT, TranslationSettings::default());
    translation.add_region(REGION_AT, 16);
    translation.enter(code, AT).unwrap();
    translation
}

/// The last instruction before an address in the written code.
fn before(writes: &[CodeWrite], address: u64) -> String {
    let inside =
        |write: &&CodeWrite| write.address < address && write.address + write.bytes.len() as u64 > address;
    let write = writes.iter().find(inside).unwrap();
    let code = decoded(write.address, &write.bytes[..(address - write.address) as usize]);
    code.last().map_or_else(String::new, text)
}

/// The same code with a profile.
struct Hinted {
    program: TestProgram,
    profile: FileProfile,
}

impl Hinted {
    fn new(program: TestProgram, blocks: &[(u64, bool)]) -> Hinted {
        let mut profile = FileProfile::default();
        for (address, entrance) in blocks {
            let heats = BlockHeat { block: Heat::of(64), ..BlockHeat::default() };
            profile.learn(((address - AT) / PAGE) as u32, (address % PAGE) as u16, heats, *entrance);
        }
        Hinted { program, profile }
    }
}

impl CodeSource for Hinted {
    fn page(&mut self, address: u64) -> Option<Box<[u8; PAGE as usize]>> {
        self.program.page(address)
    }

    fn origin(&mut self, address: u64) -> Option<FilePage> {
        let page = ((address - AT) / PAGE) as u32;
        Some(FilePage { file: 0, page, profile: self.profile.page(page) })
    }
}
