//! Sockets that stand for devices, for tests of whole programs.
//!
//! A request has 13 bytes: 0 to read or 1 to write, the register's number, the value. An answer has 12 bytes:
//! an error number, 0 without one, and the value. Numbers are little-endian.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::cpu_msrs::CpuMsrs;

/// How long a server may take: a simulated chip has to catch up with elapsed time.
const PATIENCE: Duration = Duration::from_secs(20);

/// A CPU's registers at the other end of a socket.
#[derive(Debug)]
pub(super) struct FakeDevice(RefCell<UnixStream>);

impl FakeDevice {
    pub(super) fn open(folder: &Path, cpu: u32) -> io::Result<FakeDevice> {
        let socket = UnixStream::connect(folder.join(format!("msr.{cpu}")))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(FakeDevice(RefCell::new(socket)))
    }

    fn ask(&self, writes: bool, address: u32, value: u64) -> io::Result<u64> {
        let mut request = vec![u8::from(writes)];
        request.extend(address.to_le_bytes());
        request.extend(value.to_le_bytes());
        let mut socket = self.0.borrow_mut();
        socket.write_all(&request)?;
        let (mut errno, mut value) = ([0; 4], [0; 8]);
        socket.read_exact(&mut errno)?;
        socket.read_exact(&mut value)?;
        match i32::from_le_bytes(errno) {
            0 => Ok(u64::from_le_bytes(value)),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl CpuMsrs for FakeDevice {
    fn read(&self, address: u32) -> io::Result<u64> {
        self.ask(false, address, 0)
    }

    fn write(&self, address: u32, value: u64) -> io::Result<()> {
        self.ask(true, address, value).map(drop)
    }
}
