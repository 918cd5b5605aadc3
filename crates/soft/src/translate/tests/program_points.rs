//! The program point of each emitted instruction.

use iced_x86::Instruction;
use iced_x86::code_asm::*;

use super::*;

#[test]
fn every_emitted_instruction_has_a_program_point() {
    let mut program = mixture();
    let (translation, writes) = translated(&mut program);
    let starts: Vec<u64> = decoded(AT, &program.0).iter().map(Instruction::ip).collect();
    let mut seen = 0;
    for write in writes.iter().filter(|write| write.bytes.len() > 8) {
        for instruction in decoded(write.address, &write.bytes) {
            let Some(place) = translation.point_at(instruction.ip()) else { continue };
            seen += 1;
            if let NextAddress::Known(address) = place.next {
                let known = starts.contains(&address) || address == AT + program.0.len() as u64;
                assert!(known, "{} leads to {address:#x}", text(&instruction));
            }
        }
    }
    let marks: usize = translation.regions.iter().map(|region| region.pc_entries().count()).sum();
    assert!(marks > 100, "{marks}");
    assert_eq!(seen, marks, "marks that are at no instruction");
    let resolved = translation.regions[0].pc_entries().filter(|entry| translation.resolve(entry).is_some());
    assert_eq!(resolved.count(), marks, "marks that lead nowhere");
}

#[test]
fn an_instruction_that_changes_r11_is_done_where_it_goes_to_the_slot() {
    let mut program = mixture();
    let behind: Vec<u64> =
        decoded(AT, &program.0).iter().filter(|i| text(i) == "inc r11").map(Instruction::next_ip).collect();
    let (translation, writes) = translated(&mut program);
    let mut stores = Vec::new();
    for write in writes.iter().filter(|write| write.bytes.len() > 8) {
        for store in decoded(write.address, &write.bytes).iter().filter(|i| text(i) == "mov [gs:10h],r11") {
            let place = translation.point_at(store.ip()).unwrap();
            assert!(!place.repair.r11, "{:x}", store.ip());
            let NextAddress::Known(address) = place.next else { panic!("{:x}", store.ip()) };
            stores.push(address);
        }
    }
    assert!(behind.iter().all(|address| stores.contains(address)), "{behind:x?} {stores:x?}");
}

#[test]
fn an_indirect_call_takes_r11_where_the_program_has_it() {
    let mut a = CodeAssembler::new(64).unwrap();
    a.inc(r11).unwrap();
    a.call(r11).unwrap();
    let mut program = TestProgram(a.assemble(AT).unwrap());
    let writes = entered(&mut program).take_writes();
    let all: Vec<String> =
        writes.iter().flat_map(|write| decoded(write.address, &write.bytes)).map(|i| text(&i)).collect();
    let start = all.iter().position(|text| text == "inc r11").unwrap();
    assert_eq!(all[start + 1..start + 4], ["mov [gs:10h],r11", "mov [gs:8],rcx", "mov rcx,r11"]);
}

#[test]
fn an_address_without_code_has_no_program_point() {
    let mut program = mixture();
    let (translation, _) = translated(&mut program);
    let body = translation.blocks[0].body;
    assert!(translation.point_at(body).is_some());
    assert_eq!(translation.point_at(body + 1), None, "the middle of an instruction");
    assert_eq!(translation.point_at(AT), None);
    assert_eq!(translation.point_at(REGION_AT + REGION - 1), None);
}
