//! The kernel log: records of `/dev/kmsg`, one per read, or a recording of it, one per line.
//!
//! A record is `priority,sequence,microseconds,flags[,..];text`; continuation lines start with a space
//! (Linux, Documentation/ABI/testing/dev-kmsg).

use std::{io::Read as _, os::unix::fs::OpenOptionsExt as _, path::Path};

use crate::sandbox::bindings::fettle::facts::facts::KernelMessage;

const MESSAGES: usize = 4096;

/// Everything the log holds now, oldest first, the last 4,096 at most.
pub(super) fn read(path: &Path) -> Result<Vec<KernelMessage>, String> {
    let cannot = |error: std::io::Error| format!("the kernel log {} cannot be read: {error}", path.display());
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(cannot)?;
    let mut text = String::new();
    let mut buffer = vec![0; 16 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => text.push_str(&String::from_utf8_lossy(buffer.get(..count).unwrap_or_default())),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            // The record was overwritten before it was read; the next read goes on with a newer one.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(cannot(error)),
        }
    }
    let mut messages: Vec<KernelMessage> = text.lines().filter_map(parse).collect();
    let over = messages.len().saturating_sub(MESSAGES);
    messages.drain(..over);
    Ok(messages)
}

fn parse(line: &str) -> Option<KernelMessage> {
    let (prefix, text) = line.split_once(';')?;
    let mut fields = prefix.split(',');
    let priority: u64 = fields.next()?.parse().ok()?;
    let sequence = fields.next()?.parse().ok()?;
    let since_boot_us = fields.next()?.parse().ok()?;
    // The low three bits are the level, the rest the facility.
    let priority = u8::try_from(priority & 7).ok()?;
    Some(KernelMessage { sequence, priority, since_boot_us, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_continuations_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kmsg");
        std::fs::write(
            &path,
            "6,1,100,-;hello; world\n SUBSYSTEM=pci\n3,2,200,-,caller=T1;NVRM: Xid (PCI:0000:65:00): 79\nodd\n",
        )
        .unwrap();
        let messages = read(&path).unwrap();
        let seen: Vec<_> =
            messages.iter().map(|m| (m.sequence, m.priority, m.since_boot_us, m.text.as_str())).collect();
        assert_eq!(seen, [(1, 6, 100, "hello; world"), (2, 3, 200, "NVRM: Xid (PCI:0000:65:00): 79")]);
        assert!(read(&directory.path().join("none")).unwrap_err().contains("cannot be read"));
    }
}
