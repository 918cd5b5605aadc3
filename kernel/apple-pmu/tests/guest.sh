#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# guest.sh grant|grant16|vm-on-mac|level|core|plain BUILD: boots an emulated machine and tests the module in it.
#   grant      Apple's machine, level, core and registers: everything works
#   grant16    the same with an M3's core
#   vm-on-mac  Apple's core only, without the registers: -ENODEV
#   level      Apple's machine and core, the kernel at EL1: -ENODEV
#   core       Apple's machine, the kernel at EL2, another vendor's core: -ENODEV
#   plain      none of them: -ENODEV
# BUILD has apple_pmu_el0.ko and tests/apple_pmu_test.ko, made with TESTS=1.
# Environment: KERNEL (the image that BUILD is for), QEMU (a command that takes the emulator's name and arguments; default:
# env), PLUGIN (for grant: a TCG plugin that emulates Apple's registers), CROSS_COMPILE, LIMIT (seconds), QOPTS.
# Exit: 0 passed, 1 failed, 77 something is missing.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
missing() { echo "guest.sh: $*: not tested" >&2; exit 77; }
[ $# = 2 ] || { sed -n '3,15p' "$0" >&2; exit 2; }
kind=$1 build=$2
read -ra qemu <<< "${QEMU:-env}"
cc=${CROSS_COMPILE-aarch64-linux-gnu-}gcc
[ -f "${KERNEL:-}" ] || missing "KERNEL names no kernel image"
[ -f "$build/apple_pmu_el0.ko" ] || missing "no module in $build"
for tool in "$cc" cpio gzip dtc "${qemu[0]}"; do command -v "$tool" > /dev/null || missing "no $tool"; done

work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root/"{dev,modules}
"$cc" -O2 -Wall -Wextra -static -o "$work/root/init" "$here/guest.c"
find "$build" -name '*.ko' -exec cp {} "$work/root/modules/" \;
(cd "$work/root"; find . | cpio -o -H newc --quiet | gzip -1) > "$work/initrd"

apple=max,pauth-impdef=on,midr=0x611f0221
el2=virt,gic-version=3,virtualization=on el1=virt,gic-version=3
case $kind in
grant)     machine=$el2 cpu=$apple tree=apple test=grant ;;
grant16)   machine=$el2 cpu=${apple%0x*}0x611f0430 tree=apple test=grant16 ;;
vm-on-mac) machine=$el1 cpu=$apple tree=plain test=refuse ;;
level)     machine=$el1 cpu=$apple tree=apple test=refuse ;;
core)      machine=$el2 cpu=max,pauth-impdef=on tree=apple test=refuse ;;
plain)     machine=$el1 cpu=cortex-a76 tree=plain test=refuse ;;
*)         echo "guest.sh: unknown kind: $kind" >&2; exit 2 ;;
esac
run=("${qemu[@]}" qemu-system-aarch64 -M "$machine" -cpu "$cpu" -smp 2 -m 512 -nographic)
if [ $tree = apple ]; then
	"${run[@]}" -machine dumpdtb="$work/plain.dtb" > /dev/null 2>&1
	dtc -q -I dtb -O dts "$work/plain.dtb" |
		sed 's/compatible = "linux,dummy-virt"/compatible = "apple,arm-platform", "linux,dummy-virt"/' |
		dtc -q -I dts -O dtb -o "$work/apple.dtb"
	run+=(-dtb "$work/apple.dtb")
fi
if [ $test = refuse ]; then
	run+=(-no-reboot)
else
	[ -f "${PLUGIN:-}" ] || missing "PLUGIN names no plugin"
	run+=(-plugin "$PLUGIN")
fi
read -ra more <<< "${QOPTS:-}"
# The emulator ends when this script does, however that ends.
with_us=(); command -v setpriv > /dev/null && with_us=(setpriv --pdeathsig TERM)
"${with_us[@]}" timeout -k 5 "${LIMIT:-300}" "${run[@]}" "${more[@]}" -kernel "$KERNEL" -initrd "$work/initrd" \
	-append "console=ttyAMA0 panic=-1 quiet test=$test" < /dev/null > "$work/log" 2>&1 || true
tr -d '\r' < "$work/log" > "$work/text"
sed -n '/^begin:/,/^\(so far\|done\):/p' "$work/text"
if ! grep -q '^done:' "$work/text"; then
	echo "guest.sh: the machine ended early:" >&2
	tail -40 "$work/text" >&2
	exit 1
fi
! grep -q '^NOT OK\|Kernel panic' "$work/text"
