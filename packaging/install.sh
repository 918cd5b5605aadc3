#!/bin/sh
# Installs cyclometer from the unpacked archive that this file is in, or removes it.
#
#   ./install.sh [--prefix DIR] [--uninstall]
#
# DIR is /usr/local for root and ~/.local for others. Nothing outside of DIR is written. A file is put beside the old one
# and renamed, so that a running cyclometer goes on, and a full disk leaves the old version.
set -eu

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    exit 1
}

prefix= uninstall=no
while [ $# -gt 0 ]; do
    case $1 in
        --prefix)
            [ $# -ge 2 ] || fail 'a folder must follow --prefix'
            prefix=$2
            shift
            ;;
        --prefix=*) prefix=${1#--prefix=} ;;
        --uninstall) uninstall=yes ;;
        *) fail "'$1' is no option; there are --prefix DIR and --uninstall" ;;
    esac
    shift
done
if [ -z "$prefix" ]; then
    if [ "$(id -u)" -eq 0 ]; then
        prefix=/usr/local
    else
        prefix=${HOME:?install.sh: HOME is not set; use --prefix DIR}/.local
    fi
fi

case $prefix in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac
# Others may execute what root installs, whatever the mask of the shell.
umask 022

# Below the prefix: the names of the files that this script has installed there. Nothing else is removed.
list=share/doc/cyclometer/installed-files
suffix=.cyclometer-new.$$

# The files of the version that is installed. A name that leads out of the prefix is not taken.
listed() {
    [ ! -f "$prefix/$list" ] || grep -E '^(bin|share)/' "$prefix/$list" | grep -Ev '(^|/)\.\.(/|$)' || :
}

# Replaces the list by the lines of standard input.
write_list() {
    { LC_ALL=C sort -u | grep . >"$prefix/$list$suffix" && mv -f -- "$prefix/$list$suffix" "$prefix/$list"; } ||
        fail "$prefix/$list cannot be written"
}

if [ "$uninstall" = yes ]; then
    [ -f "$prefix/$list" ] || fail "nothing to remove: there is no $prefix/$list; name the folder with --prefix"
    listed | while IFS= read -r file; do
        rm -f -- "$prefix/$file" || fail "$prefix/$file cannot be removed"
    done
    rm -f -- "$prefix/$list" || fail "$prefix/$list cannot be removed"
    rmdir -- "$prefix/share/doc/cyclometer" 2>/dev/null || :
    printf 'removed from %s\n' "$prefix"
    exit 0
fi

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || fail 'the folder of this file cannot be read'
cd "$here"
[ -x bin/cyclometer ] || fail "there is no bin/cyclometer beside this file, in $here"
files=$(find bin share -type f | LC_ALL=C sort)

# All files are there under other names before the first old one is replaced.
discard() {
    printf '%s\n' "$files" "$list" | while IFS= read -r file; do rm -f -- "$prefix/$file$suffix"; done
}
trap discard EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
printf '%s\n' "$files" "$list" | while IFS= read -r file; do
    mkdir -p -- "$prefix/${file%/*}" || fail "$prefix/${file%/*} cannot be made; choose another folder with --prefix"
    [ "$file" != "$list" ] || continue
    cp -- "$file" "$prefix/$file$suffix" ||
        fail "$prefix/$file cannot be written; what was installed before is unchanged"
done
# The list names the files of both versions until the old ones are gone: an interrupted installation can be removed.
old=$(listed)
printf '%s\n' "$files" "$old" | write_list
printf '%s\n' "$files" | while IFS= read -r file; do
    mv -f -- "$prefix/$file$suffix" "$prefix/$file" || fail "$prefix/$file cannot be replaced"
done
newline='
'
printf '%s\n' "$old" | while IFS= read -r file; do
    case $newline$files$newline in
        *"$newline$file$newline"*) ;;
        *) [ -z "$file" ] || rm -f -- "$prefix/$file" || fail "$prefix/$file cannot be removed" ;;
    esac
done
printf '%s\n' "$files" | write_list
printf 'installed cyclometer in %s\n' "$prefix"
case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) printf 'note: %s/bin is not on your PATH\n' "$prefix" ;;
esac
