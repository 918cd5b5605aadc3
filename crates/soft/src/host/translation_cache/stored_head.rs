//! The part of a stored translation before the translation: its version, and the files that it is from.

use crate::host::claims::CodeClaims;
use crate::host::restartable::FilePart;
use crate::host::writers::FileId;
use crate::pack::{ChunkReader, ChunkWriter};

/// The version of the code: a stored translation can be used by the same code only.
pub(in crate::host) const VERSION: &str = env!("CYCLOMETER_SOFT_CODE");

/// The files of a stored translation, as they were when it was written.
pub(in crate::host) struct StoredHead {
    pub(in crate::host) claims: CodeClaims,
    /// For each file of the claims its name by content, and its identity.
    pub(in crate::host) stamps: Vec<(String, Option<FileId>)>,
    /// Parts of files that have no restartable sequences.
    pub(in crate::host) without_sequences: Vec<FilePart>,
    /// The numbers of files with execution profiles, and their names by content.
    pub(in crate::host) names: Vec<(u32, String)>,
}

impl StoredHead {
    /// Reads it. `None` where it is damaged, or of another version.
    pub(in crate::host) fn unpack(from: &mut ChunkReader<'_>) -> Option<StoredHead> {
        if from.text()? != VERSION {
            return None;
        }
        Some(StoredHead {
            claims: CodeClaims::unpack(from)?,
            stamps: from.list(|from| Some((from.text()?, FileId::unpack(from)?)))?,
            without_sequences: from.list(FilePart::unpack)?,
            names: from.list(|from| Some((from.u32()?, from.text()?)))?,
        })
    }
}

/// Writes what [`StoredHead::unpack`] reads.
pub(in crate::host) fn pack_head(
    claims: &CodeClaims,
    stamps: &[(String, Option<FileId>)],
    without_sequences: &[&FilePart],
    names: &[(u32, &str)],
    to: &mut ChunkWriter<'_>,
) {
    to.counted(VERSION.as_bytes());
    claims.pack(to);
    to.count(stamps.len());
    for (stamp, file) in stamps {
        to.counted(stamp.as_bytes());
        FileId::pack(*file, to);
    }
    to.count(without_sequences.len());
    without_sequences.iter().for_each(|part| part.pack(to));
    to.count(names.len());
    for (number, name) in names {
        to.u32(*number);
        to.counted(name.as_bytes());
    }
}
