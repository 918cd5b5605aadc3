//! Labels of control groups: what their paths say about containers, pods and units.
//!
//! # Source
//!
//! Kubernetes `pkg/kubelet/cm/cgroup_manager_linux.go` (`ToSystemd`, `ToCgroupfs`) and
//! `pkg/kubelet/cm/pod_container_manager_linux.go` (`podCgroupNamePrefix`); containerd, CRI-O, Docker and
//! Podman name a container's group `RUNTIME-ID.scope` (systemd) or `ID`, with ids of 64 hexadecimal
//! digits.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use crate::families::{LabelSet, TargetKind};

/// The labels of a control group by its path below the root.
pub fn of_cgroup(path: &Path) -> LabelSet {
    let parts: Vec<String> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(shown(name)),
            _ => None,
        })
        .collect();
    let mut labels = vec![TargetKind::Cgroup.label(), ("cgroup", format!("/{}", parts.join("/")))];
    let last = parts.last().map(String::as_str).unwrap_or_default();
    let pod = parts.iter().rev().find_map(|part| pod_uid(part));
    match container(last) {
        Some((runtime, id)) => {
            labels.push(("container_id", id.to_owned()));
            let runtime = runtime
                .or_else(|| parts.iter().rev().nth(1).map(String::as_str).filter(|name| is_runtime(name)));
            labels.extend(runtime.map(|runtime| ("runtime", runtime.to_owned())));
        }
        None if pod.is_none() && is_unit(last) => labels.push(("unit", last.to_owned())),
        None => {}
    }
    labels.extend(pod.map(|uid| ("pod_uid", uid)));
    labels
}

/// A name of a file as text: control characters but line ends, and bytes that are no UTF-8, as `\xNN`.
pub fn shown(name: &OsStr) -> String {
    let mut out = String::with_capacity(name.len());
    for chunk in name.as_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\n' => out.push('\n'),
                letter if letter.is_control() => {
                    let mut bytes = [0; 4];
                    letter.encode_utf8(&mut bytes).bytes().for_each(|byte| hex(byte, &mut out));
                }
                letter => out.push(letter),
            }
        }
        chunk.invalid().iter().for_each(|byte| hex(*byte, &mut out));
    }
    out
}

fn hex(byte: u8, out: &mut String) {
    let _ = write!(out, "\\x{byte:02x}");
}

/// Runtime, where the name has one, and id of a container.
fn container(name: &str) -> Option<(Option<&str>, &str)> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let (runtime, id) = match name.rsplit_once('-') {
        Some((runtime, id)) => (Some(runtime), id),
        None => (None, name),
    };
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some((runtime, id))
}

fn is_runtime(name: &str) -> bool {
    matches!(name, "docker" | "containerd" | "crio" | "libpod" | "podman")
}

fn is_unit(name: &str) -> bool {
    [".service", ".scope", ".slice", ".socket", ".mount"]
        .iter()
        .any(|end| name.len() > end.len() && name.ends_with(end))
}

/// The UID of a pod, as the API server writes it. Pods that a file on the node defines have a hash of 32
/// digits.
fn pod_uid(name: &str) -> Option<String> {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let uid = match name.strip_prefix("pod") {
        Some(uid) => uid.to_owned(),
        None => name.strip_prefix("kubepods").and_then(|rest| rest.rsplit_once("-pod"))?.1.replace('_', "-"),
    };
    let digits = uid.bytes().filter(|byte| *byte != b'-');
    (digits.clone().count() == 32 && digits.clone().all(|byte| byte.is_ascii_hexdigit())).then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "8f2d3c4b5a69788796a5b4c3d2e1f00f8f2d3c4b5a69788796a5b4c3d2e1f00f";
    const UID: &str = "2d9f3a3e-1c1c-4a6f-9d7e-0b2f6f1f9e55";

    fn labels(path: &str) -> String {
        let text = |(name, value): &(&str, String)| format!("{name}={}", value.replace(ID, "ID"));
        of_cgroup(Path::new(path)).iter().skip(2).map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pods_and_containers_are_told_by_their_paths() {
        let systemd = UID.replace('-', "_");
        let slice = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{systemd}.slice");
        let expected = format!("container_id=ID runtime=cri-containerd pod_uid={UID}");
        assert_eq!(labels(&format!("{slice}/cri-containerd-{ID}.scope")), expected);
        assert_eq!(labels(&slice), format!("pod_uid={UID}"));
        assert_eq!(labels(&format!("/kubepods.slice/kubepods-pod{systemd}.slice")), format!("pod_uid={UID}"));
        let cgroupfs = format!("/kubepods/besteffort/pod{UID}/{ID}");
        assert_eq!(labels(&cgroupfs), format!("container_id=ID pod_uid={UID}"));
        let hash = "0123456789abcdef0123456789abcdef";
        assert_eq!(labels(&format!("/kubepods/pod{hash}")), format!("pod_uid={hash}"));
    }

    #[test]
    fn containers_without_kubernetes_and_units_have_labels_too() {
        assert_eq!(labels(&format!("docker/{ID}")), "container_id=ID runtime=docker");
        assert_eq!(labels(&format!("/system.slice/docker-{ID}.scope")), "container_id=ID runtime=docker");
        assert_eq!(labels(&format!("/machine.slice/libpod-{ID}.scope/container")), "");
        assert_eq!(labels("/system.slice/cron.service"), "unit=cron.service");
        assert_eq!(labels("/kubepods.slice/kubepods-besteffort.slice"), "unit=kubepods-besteffort.slice");
        for other in ["/", "/a/b", "/podium", "/.slice", "/pod12", "/kubepods"] {
            assert_eq!(labels(other), "", "{other}");
        }
    }

    #[test]
    fn names_that_are_no_text_are_shown_byte_by_byte() {
        let shown = |bytes: &[u8]| shown(OsStr::from_bytes(bytes));
        assert_eq!(shown(b"a\xff\xfeb"), "a\\xff\\xfeb");
        assert_eq!(shown("ä\"\n".as_bytes()), "ä\"\n");
        assert_eq!(shown(b"a\x1b[31m\t"), "a\\x1b[31m\\x09");
        let path = Path::new(OsStr::from_bytes(b"/x/\xff"));
        assert_eq!(of_cgroup(path)[1], ("cgroup", "/x/\\xff".to_owned()));
    }
}
