#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# check.sh [HEADERS...]: builds the module and its tests against arm64 kernel headers, warnings being errors.
# HEADERS: folders of kernel headers; default: all of /usr/src/linux-headers-*-arm64*, or those of the running kernel on arm64.
# Builds in a temporary folder. Where something is missing it says what, and succeeds, unless CYCLOMETER_REQUIRE_PEERS is set.
# Environment: CROSS_COMPILE (default: aarch64-linux-gnu-, empty on arm64), KEEP (a folder for what was built).
set -euo pipefail
here=$(dirname "$(realpath "$0")")

missing() {
	echo "kernel/apple-pmu: not built: $*"
	[ -z "${CYCLOMETER_REQUIRE_PEERS:-}" ] && exit 0
	exit 1
}

failed() {
	echo "kernel/apple-pmu: $*" >&2
	exit 1
}

text() {
	local file
	for file in "$here"/*.c "$here"/uapi/*.h "$here"/tests/*.[ch] "$here"/Kbuild "$here"/Makefile "$here"/*.sh "$here"/tests/*.sh; do
		head -2 "$file" | grep -q 'SPDX-License-Identifier: ' || failed "$file names no licence"
		! grep -nE '[[:blank:]]$|^ {8}' "$file" || failed "$file has blanks at an end, or blanks for a tab"
	done
}

headers() {
	local found=(/usr/src/linux-headers-*-arm64*)
	[ -d "${found[0]}" ] || found=("/lib/modules/$(uname -r)/build")
	[ "$(uname -m)" = aarch64 ] || [ "${found[0]#/usr/src}" != "${found[0]}" ] || return 0
	[ -d "${found[0]}" ] && printf '%s\n' "${found[@]}"
	return 0
}

build() {
	local from=$1 folder=$2
	mkdir -p "$folder"
	cp -r "$here"/{Kbuild,Makefile,apple_pmu_el0.c,uapi,tests} "$folder/"
	# Without pahole there is no BTF for modules: it is not needed.
	make -s -C "$folder" KDIR="$from" CROSS_COMPILE="$cross" TESTS=1 KCFLAGS=-Werror \
		CONFIG_DEBUG_INFO_BTF_MODULES= modules || failed "does not build against $from"
	"${cross}"readelf -h "$folder/apple_pmu_el0.ko" | grep -q AArch64 || failed "not a module for arm64"
	"${cross}"gcc -O2 -Wall -Wextra -Werror -static -o "$folder/guest" "$here/tests/guest.c" ||
		failed "the test program does not build"
	if [ -f "$from/scripts/checkpatch.pl" ]; then
		perl "$from/scripts/checkpatch.pl" --no-tree --terse --file --max-line-length=110 "$here"/apple_pmu_el0.c \
			"$here"/uapi/*.h || failed "checkpatch.pl objects"
	fi
	echo "kernel/apple-pmu: built against $from"
}

text
case $(uname -m) in
aarch64) cross=${CROSS_COMPILE-} ;;
*) cross=${CROSS_COMPILE-aarch64-linux-gnu-} ;;
esac
for tool in make "${cross}gcc" "${cross}readelf"; do
	command -v "$tool" > /dev/null || missing "no $tool (Debian: make, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross)"
done
[ $# -gt 0 ] || mapfile -t found < <(headers)
[ $# -gt 0 ] || set -- "${found[@]}"
[ $# -gt 0 ] || missing "no arm64 kernel headers (Debian: linux-headers-arm64 of arm64, linux-kbuild and -common of this machine)"
work=${KEEP:-$(mktemp -d)}
[ -n "${KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
for from; do
	[ -f "$from/Makefile" ] || missing "$from has no kernel headers"
	build "$from" "$work/$(basename "$from")"
done
