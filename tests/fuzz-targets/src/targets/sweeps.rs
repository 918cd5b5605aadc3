//! Journals of sweeps.

use cyclometer_sweep::SweepJournal;

/// Codes that were swept, or an error. The second reading has right checksums, which random changes do not
/// find.
pub(super) fn journal(bytes: &[u8]) {
    let _ = SweepJournal::read(bytes);
    let (mut whole, mut hasher) = (String::new(), crc32fast::Hasher::new());
    for line in String::from_utf8_lossy(bytes).lines() {
        let text = line.rsplit_once(' ').map_or(line, |(text, _)| text);
        hasher.update(text.as_bytes());
        let checksum = hasher.clone().finalize();
        hasher = crc32fast::Hasher::new_with_initial(checksum);
        whole += &format!("{text} {checksum:08x}\n");
    }
    if let Ok(journal) = SweepJournal::read(whole.as_bytes()) {
        assert!(journal.whole_bytes <= whole.len());
    }
}
