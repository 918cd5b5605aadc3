//! Loads and stores of random instructions, against two other views of the decoder's tables.
//!
//! Where the conventions agree, the counts are the sum over the accesses that the tables list ([`listed`]).
//! They are also the sum over explicit operands and the stack pointer's movement ([`by_operands`]).
//! [`exception`] lists all others.

use iced_x86::{InstructionInfo, MemorySize, OpAccess};

use super::*;

/// Loads, stores, bytes loaded, bytes stored.
type Accesses = [u32; 4];

fn ours(class: &InstructionCounts) -> Accesses {
    [ExecutionEvent::Loads, ExecutionEvent::Stores, ExecutionEvent::BytesLoaded, ExecutionEvent::BytesStored]
        .map(|event| class.events.of(event))
}

fn add(sum: &mut Accesses, access: OpAccess, bytes: usize) {
    use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
    if matches!(access, Read | CondRead | ReadWrite | ReadCondWrite) {
        sum[0] += 1;
        sum[2] += bytes as u32;
    }
    if matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite) {
        sum[1] += 1;
        sum[3] += bytes as u32;
    }
}

/// As the tables list them.
fn listed(info: &InstructionInfo) -> Accesses {
    let mut sum = [0; 4];
    for used in info.used_memory() {
        add(&mut sum, used.access(), used.memory_size().size());
    }
    sum
}

/// From the operands that are in memory, and by how much the stack pointer moves.
fn by_operands(instruction: &Instruction, info: &InstructionInfo) -> Accesses {
    let mut sum = [0; 4];
    for i in 0..instruction.op_count() {
        let string = (OpKind::MemorySegSI..=OpKind::MemoryESRDI).contains(&instruction.op_kind(i));
        if string || instruction.op_kind(i) == OpKind::Memory {
            add(&mut sum, info.op_access(i), instruction.memory_size().size());
        }
    }
    if instruction.is_stack_instruction() {
        let moved = instruction.stack_pointer_increment();
        let access = if moved < 0 { OpAccess::Write } else { OpAccess::Read };
        add(&mut sum, access, moved.unsigned_abs() as usize);
    }
    sum
}

/// The reason why the counts differ from the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exception {
    /// Flushes of cache lines are listed as reads.
    Flush,
    /// The size of saved state is not listed, and a save counts as a store only.
    SavedState,
    /// Repeated string instructions are counted by iterations.
    Repeated,
    /// Bytes under a mask are counted by elements.
    Masked,
    /// The size of tiles is not listed.
    Tile,
    /// Never retires.
    Undefined,
}

fn exception(instruction: &Instruction) -> Option<Exception> {
    match instruction.mnemonic() {
        M::Clflush | M::Clflushopt | M::Clwb => return Some(Exception::Flush),
        M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu => return Some(Exception::Masked),
        M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq => return Some(Exception::Masked),
        M::Ud0 | M::Ud1 | M::Ud2 => return Some(Exception::Undefined),
        _ => {}
    }
    match instruction.memory_size() {
        MemorySize::Xsave | MemorySize::Xsave64 => return Some(Exception::SavedState),
        MemorySize::Tile => return Some(Exception::Tile),
        _ => {}
    }
    if instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
    {
        return Some(Exception::Repeated);
    }
    let memory = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    (memory && (instruction.has_op_mask() || instruction.is_vsib())).then_some(Exception::Masked)
}

/// Accesses that the view by operands does not include: through registers and frames, and drops of the stack.
fn is_implied(instruction: &Instruction) -> bool {
    let drops = instruction.mnemonic() == M::Ret && instruction.op_count() > 0;
    let far = instruction.is_call_far() || instruction.is_call_far_indirect();
    drops || far || is_implied_by_mnemonic(instruction.mnemonic())
}

#[rustfmt::skip]
fn is_implied_by_mnemonic(mnemonic: M) -> bool {
    // Frames; far and interrupt returns; two operands of 64 bytes; lists, tables and ranges in registers.
    matches!(
        mnemonic,
        M::Enter | M::Leave | M::Retf | M::Iret | M::Iretd | M::Iretq | M::Uiret | M::Eretu | M::Erets
        | M::Movdir64b | M::Enqcmd | M::Enqcmds | M::Umonitor | M::Rdmsrlist | M::Wrmsrlist
        | M::Pbndkb | M::Rmpupdate | M::Rmpquery
        | M::Xstore | M::Xstore_alt | M::Xcryptecb | M::Xcryptcbc | M::Xcryptctr | M::Xcryptcfb | M::Xcryptofb
        | M::Montmul | M::Xsha1 | M::Xsha256 | M::Xsha512 | M::Xsha512_alt | M::Ccs_hash | M::Ccs_encrypt
    )
}

/// Random bytes behind the beginnings of every encoding.
pub(crate) fn encodings() -> impl Strategy<Value = Vec<u8>> {
    let beginning = prop::sample::select(vec![
        vec![],
        vec![0x66],
        vec![0xf2],
        vec![0xf3],
        vec![0x48],
        vec![0xf0],
        vec![0x0f],
        vec![0x66, 0x0f],
        vec![0xf2, 0x0f],
        vec![0xf3, 0x0f],
        vec![0x48, 0x0f],
        vec![0x66, 0x0f, 0x38],
        vec![0x0f, 0x38],
        vec![0xf3, 0x0f, 0x38],
        vec![0x66, 0x0f, 0x3a],
        vec![0xc5],
        vec![0xc5, 0xfd],
        vec![0xc4, 0xe1],
        vec![0xc4, 0xe2],
        vec![0xc4, 0xe2, 0x7d],
        vec![0xc4, 0xe3],
        vec![0x62, 0xf1],
        vec![0x62, 0xf1, 0x7c, 0x48],
        vec![0x62, 0xf2],
        vec![0x62, 0xf2, 0x7d, 0x49],
        vec![0x62, 0xf3],
        vec![0x62, 0xf5],
        vec![0x62, 0xf6],
    ]);
    (beginning, prop::collection::vec(any::<u8>(), 15)).prop_map(|(mut bytes, rest)| {
        bytes.extend(rest);
        bytes
    })
}

/// Many cases, as each is short; no file of failures, as those become short cases of their own.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 30_000, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn random_instructions_access_what_the_tables_list_but_for_known_exceptions() {
    let agreed = Cell::new(0);
    let with_access = Cell::new(0);
    let mut runner = TestRunner::new(config());
    let outcome = runner.run(&encodings(), |bytes| {
        let instruction = decode(&bytes);
        if instruction.is_invalid() || exception(&instruction).is_some() {
            return Ok(());
        }
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&instruction);
        let ours = ours(&classify(&instruction, info));
        prop_assert_eq!(ours, listed(info), "{:?}", instruction.code());
        if !is_implied(&instruction) {
            prop_assert_eq!(ours, by_operands(&instruction, info), "{:?}", instruction.code());
        }
        agreed.set(agreed.get() + 1);
        with_access.set(with_access.get() + u32::from(ours != [0; 4]));
        Ok(())
    });
    outcome.unwrap();
    assert!(agreed.get() > 5_000 && with_access.get() > 2_000, "{} {}", agreed.get(), with_access.get());
}

#[test]
fn exceptions_differ_in_what_they_say_only() {
    let mut runner = TestRunner::new(config());
    let outcome = runner.run(&encodings(), |bytes| {
        let instruction = decode(&bytes);
        let Some(exception) = exception(&instruction) else { return Ok(()) };
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&instruction);
        let class = classify(&instruction, info);
        let ([loads, stores, read, written], [tables_loads, tables_stores, tables_read, tables_written]) =
            (ours(&class), listed(info));
        let numbers = (loads, stores) == (tables_loads, tables_stores);
        let agrees = match exception {
            Exception::Flush | Exception::Repeated | Exception::Undefined => ours(&class) == [0; 4],
            Exception::SavedState => loads + stores == 1 && read + written == 576,
            Exception::Tile => numbers && read + written == 0,
            Exception::Masked => {
                numbers && {
                    let whole = (read, written) == (tables_read, tables_written);
                    let open = matches!(class.addend, Some(Addend::Elements(_))) && read + written == 0;
                    whole || open
                }
            }
        };
        prop_assert!(agrees, "{:?} {:?} {:?}", instruction.code(), exception, class);
        Ok(())
    });
    outcome.unwrap();
}
