//! The hypervisor below us.

use cyclometer_core::machine::Os;

use crate::facts::FactSource;
use crate::{cpuid, has_cpuid, text};

/// Vendor strings of `CPUID` leaf 0x4000_0000.
///
/// # Source
///
/// Linux 7.2 `arch/x86/kernel/cpu/` (kvm, mshyperv, vmware, acrn), `arch/x86/include/asm/xen/cpuid.h`,
/// `arch/x86/kernel/jailhouse.c`; QEMU `target/i386/cpu.c`; systemd `src/basic/virt.c` for the rest.
const VENDORS: [(&str, &str); 10] = [
    ("KVMKVMKVM", "KVM"),
    ("Linux KVM Hv", "KVM"),
    ("Microsoft Hv", "Microsoft Hyper-V"),
    ("VMwareVMware", "VMware"),
    ("XenVMMXenVMM", "Xen"),
    ("bhyve bhyve", "bhyve"),
    ("TCGTCGTCGTCG", "QEMU TCG"),
    ("VBoxVBoxVBox", "VirtualBox"),
    ("ACRNACRNACRN", "ACRN"),
    ("Jailhouse", "Jailhouse"),
];

/// Words in the system vendor or product name of a virtual machine, and the hypervisor that writes them.
///
/// # Source
///
/// systemd `src/basic/virt.c`, `dmi_vendor_table`; the clouds' own documentation of DMI data.
const PRODUCTS: [(&str, &str); 9] = [
    ("Amazon EC2", "Amazon EC2"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("Firecracker", "Firecracker"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("Apple Virtualization", "Apple Virtualization"),
    ("KVM", "KVM"),
    ("QEMU", "QEMU"),
    ("Microsoft Corporation Virtual Machine", "Microsoft Hyper-V"),
];

/// The chassis asset tag of every virtual machine in Azure.
///
/// # Source
///
/// cloud-init `cloudinit/sources/azure/identity.py`, `ChassisAssetTag`.
const AZURE_ASSET_TAG: &str = "7783-7084-3265-9085-8269-3286-77";

/// The name of the hypervisor, behind the place where it is known (`Firecracker on KVM`); `None` on bare
/// metal.
pub(crate) fn detect(facts: &dyn FactSource) -> Option<String> {
    match facts.os() {
        Os::MacOs => (text::sysctl_number(facts, "kern.hv_vmm_present") == Some(1))
            .then(|| "Apple Virtualization".to_owned()),
        _ if has_cpuid(facts) => on_x86(facts),
        Os::Linux => elsewhere(facts),
        _ => None,
    }
}

fn on_x86(facts: &dyn FactSource) -> Option<String> {
    match cpuid::hypervisor_bit(facts) {
        Some(true) => Some(named_on_x86(facts)),
        Some(false) => None,
        None => elsewhere(facts),
    }
}

fn named_on_x86(facts: &dyn FactSource) -> String {
    let registers = facts.cpuid(None, 0x4000_0000, 0).unwrap_or_default();
    let letters = cpuid::letters(&registers[1..]);
    let known = VENDORS.iter().find(|(vendor, _)| *vendor == letters);
    let name = match known {
        Some((_, name)) => (*name).to_owned(),
        None if letters.is_empty() => product(facts).unwrap_or("unknown").to_owned(),
        None => letters,
    };
    match place(facts) {
        Some(place) if !name.contains(place) => format!("{place} on {name}"),
        _ => name,
    }
}

/// Where the virtual machine runs, as far as it tells.
fn place(facts: &dyn FactSource) -> Option<&'static str> {
    let release = facts.kernel_release().unwrap_or_default();
    if release.contains("WSL") || release.contains("Microsoft") {
        return Some("WSL");
    }
    // Firecracker has no DMI tables; its name is in the ACPI tables' headers, which only root may read.
    let header =
        || facts.read("/sys/firmware/acpi/tables/FACP").is_some_and(|table| table.contains("FIRECK"));
    product(facts).or_else(|| header().then_some("Firecracker"))
}

/// The hypervisor by the machine's product name.
fn product(facts: &dyn FactSource) -> Option<&'static str> {
    let field = |name: &str| text::line(facts, &format!("/sys/class/dmi/id/{name}")).unwrap_or_default();
    let product = field("product_name");
    if product.contains(".metal") {
        return None;
    }
    if field("chassis_asset_tag") == AZURE_ASSET_TAG {
        return Some("Azure");
    }
    let both = format!("{} {product}", field("sys_vendor"));
    PRODUCTS.iter().find(|(word, _)| both.contains(word)).map(|(_, name)| *name)
}

/// Where no instruction tells: the kernel's own word, the device tree, the product name.
///
/// # Source
///
/// `Documentation/ABI/stable/sysfs-hypervisor-xen`; the device tree bindings `linux,kvm` and `xen,xen`;
/// QEMU's `virt` board is `linux,dummy-virt`.
fn elsewhere(facts: &dyn FactSource) -> Option<String> {
    let by_kernel = || match text::line(facts, "/sys/hypervisor/type")?.as_str() {
        "xen" => Some("Xen"),
        _ => None,
    };
    let by_tree = || {
        let compatible = facts.read("/proc/device-tree/hypervisor/compatible")?;
        let known = [("kvm", "KVM"), ("xen", "Xen"), ("gunyah", "Gunyah")];
        Some(known.iter().find(|(word, _)| compatible.contains(word)).map_or("unknown", |(_, name)| *name))
    };
    let by_board = || {
        let board = facts.read("/proc/device-tree/compatible")?;
        board.contains("linux,dummy-virt").then_some("QEMU")
    };
    by_kernel().or_else(by_tree).or_else(|| product(facts)).or_else(by_board).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedFacts;

    fn check(body: &str, expected: Option<&str>) {
        let facts = RecordedFacts::parse(&format!("note synthetic: x\nos linux\n{body}\n")).unwrap();
        assert_eq!(detect(&facts).as_deref(), expected, "{body}");
    }

    const GUEST: &str = "architecture x86_64\ncpuid * 0 0 13 0 0 0\ncpuid * 1 0 0 0 0x80000000 0\n";
    const KVM: &str = "cpuid * 0x40000000 0 0x40000001 0x4b4d564b 0x564b4d56 0x4d\n";
    const HYPER_V: &str = "cpuid * 0x40000000 0 0x4000000c 0x7263694d 0x666f736f 0x76482074\n";

    #[test]
    fn without_the_bit_there_is_no_hypervisor() {
        check(&format!("{KVM}architecture x86_64\ncpuid * 0 0 13 0 0 0\ncpuid * 1 0 0 0 0 0"), None);
    }

    #[test]
    fn the_vendor_string_names_it_and_the_product_the_place() {
        check(&format!("{GUEST}{KVM}"), Some("KVM"));
        check(
            &format!("{GUEST}{KVM}file /sys/class/dmi/id/sys_vendor Amazon EC2"),
            Some("Amazon EC2 on KVM"),
        );
        check(
            &format!("{GUEST}{KVM}file /sys/firmware/acpi/tables/FACP\n| FACP FIRECK"),
            Some("Firecracker on KVM"),
        );
        check(
            &format!("{GUEST}{HYPER_V}release 6.6.87.2-microsoft-standard-WSL2"),
            Some("WSL on Microsoft Hyper-V"),
        );
        let azure = "file /sys/class/dmi/id/chassis_asset_tag 7783-7084-3265-9085-8269-3286-77";
        check(&format!("{GUEST}{HYPER_V}{azure}"), Some("Azure on Microsoft Hyper-V"));
        check(&format!("{GUEST}cpuid * 0x40000000 0 0 0x41414141 0 0"), Some("AAAA"));
        check(GUEST, Some("unknown"));
    }

    #[test]
    fn arm_guests_are_told_by_device_tree_and_product() {
        let arm = "architecture aarch64\n";
        check(&format!("{arm}file /proc/device-tree/hypervisor/compatible\n| linux,kvm\\x00"), Some("KVM"));
        check(&format!("{arm}file /sys/hypervisor/type xen"), Some("Xen"));
        check(&format!("{arm}file /proc/device-tree/compatible linux,dummy-virt"), Some("QEMU"));
        let ec2 = "file /sys/class/dmi/id/sys_vendor Amazon EC2\nfile /sys/class/dmi/id/product_name";
        check(&format!("{arm}{ec2} m7g.large"), Some("Amazon EC2"));
        check(&format!("{arm}{ec2} m7g.metal"), None);
        check(arm, None);
    }
}
