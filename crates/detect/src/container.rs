//! The kind of container that this process is in.

use cyclometer_core::machine::Os;

use crate::facts::FactSource;
use crate::text;

/// Words in the control group path of process 1, and what they mean; the first that fits wins.
const CGROUP_WORDS: [(&str, &str); 7] = [
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("containerd", "containerd"),
    ("crio", "cri-o"),
    ("lxc", "lxc"),
    ("machine.slice", "systemd-nspawn"),
];

/// The container's kind; `None` outside of containers.
///
/// # Source
///
/// `systemd-detect-virt(1)` and <https://systemd.io/CONTAINER_INTERFACE/> for `/run/systemd/container`;
/// Docker and Podman leave `/.dockerenv` and `/run/.containerenv` in every container.
pub(crate) fn detect(facts: &dyn FactSource) -> Option<String> {
    if facts.os() != Os::Linux {
        return None;
    }
    let kubernetes = !facts.list("/var/run/secrets/kubernetes.io/serviceaccount").is_empty();
    let named = || text::line(facts, "/run/systemd/container");
    let podman = || facts.read("/run/.containerenv").map(|_| "podman".to_owned());
    let docker = || facts.read("/.dockerenv").map(|_| "docker".to_owned());
    if kubernetes {
        return Some("kubernetes".to_owned());
    }
    named().or_else(|| by_cgroup(facts)).or_else(podman).or_else(docker)
}

fn by_cgroup(facts: &dyn FactSource) -> Option<String> {
    let cgroup = facts.read("/proc/1/cgroup")?;
    let (_, kind) = CGROUP_WORDS.iter().find(|(word, _)| cgroup.contains(word))?;
    Some((*kind).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedFacts;

    #[test]
    fn containers_are_told_by_what_they_leave() {
        let cases = [
            ("file /.dockerenv", Some("docker")),
            ("file /run/.containerenv engine=\"podman-5\"", Some("podman")),
            ("file /run/systemd/container lxc", Some("lxc")),
            ("file /proc/1/cgroup 0::/kubepods.slice/x\nfile /.dockerenv", Some("kubernetes")),
            ("list /var/run/secrets/kubernetes.io/serviceaccount token", Some("kubernetes")),
            ("file /proc/1/cgroup 0::/init.scope", None),
        ];
        for (body, kind) in cases {
            let facts = RecordedFacts::parse(&format!("note synthetic: x\nos linux\n{body}\n")).unwrap();
            assert_eq!(detect(&facts).as_deref(), kind, "{body}");
        }
    }
}
