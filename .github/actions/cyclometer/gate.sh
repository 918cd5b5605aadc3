#!/bin/sh
# Compares the benchmark commands of two revisions of the repository in the current folder, or of one revision with a
# baseline that a run on the target branch has saved. Prints a summary in Markdown. Any CI can run it.
#
#   CYCLOMETER_COMMANDS  commands, one on each line; {tree} is the folder of a revision (needed)
#   CYCLOMETER_BASE      the revision to compare with (needed without CYCLOMETER_BASELINE)
#   CYCLOMETER_BASELINE  a folder with the baselines of all commands, which is compared with instead of a revision
#   CYCLOMETER_SAVE      not empty: saves the baselines of the revision in that folder, and judges nothing
#   CYCLOMETER_HEAD      the revision that is judged or saved; HEAD if it is not set
#   CYCLOMETER_BUILD     a shell command that builds a revision, in its folder
#   CYCLOMETER_EVENTS    events; instructions,branches,loads,stores if it is not set
#   CYCLOMETER_FAIL_IF   conditions, separated by semicolons; "instructions > +0.5%" if it is not set
#   CYCLOMETER_OPTIONS   further options of cyclometer compare
#
# Exit status: 0 no condition holds, or there is no baseline yet; 1 a condition holds; 125 a revision, a build or a
# measurement failed, or the baseline is of another machine or version.
set -u

fail() {
    printf 'gate: %s\n' "$1" >&2
    exit 125
}

[ -n "${CYCLOMETER_COMMANDS:-}" ] || fail 'CYCLOMETER_COMMANDS is not set: name benchmark commands, one on each line'
baseline=${CYCLOMETER_BASELINE:-} save=${CYCLOMETER_SAVE:-}
[ -n "${CYCLOMETER_BASE:-}$baseline" ] ||
    fail 'CYCLOMETER_BASE is not set: name the revision to compare with, or the folder of a baseline in CYCLOMETER_BASELINE'
[ -z "$save" ] || [ -n "$baseline" ] || fail 'CYCLOMETER_SAVE needs the folder of the baseline in CYCLOMETER_BASELINE'
case $baseline in
    '' | /*) ;;
    *) baseline=$PWD/$baseline ;;
esac
command -v cyclometer >/dev/null || fail 'the command cyclometer is not on the PATH'
events=${CYCLOMETER_EVENTS:-instructions,branches,loads,stores}
conditions=${CYCLOMETER_FAIL_IF-instructions > +0.5%}
repository=$(git rev-parse --show-toplevel) || fail 'the current folder is in no git repository'
# A hook of git sets them, and they would hold for the checkouts, too.
unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE

work=$(mktemp -d) || fail 'no temporary folder can be made'
case $work in
    *[!A-Za-z0-9/._-]*) fail "the temporary folder has characters that commands would have to quote: $work; set TMPDIR" ;;
esac
clean_up() {
    for tree in base head; do
        git -C "$repository" worktree remove --force "$work/$tree" 2>/dev/null
    done
    rm -rf "$work"
    [ -z "$save" ] || rm -rf "$baseline.new"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
trap 'exit 141' PIPE

# Both names have one length: arguments are an input of a program, and longer ones cost instructions.
check_out() {
    git -C "$repository" worktree add --quiet --detach "$work/$1" "$2" >&2 ||
        fail "revision $2 cannot be checked out; a shallow clone needs fetch-depth: 0"
    [ -n "${CYCLOMETER_BUILD:-}" ] || return 0
    (cd "$work/$1" && sh -c "$CYCLOMETER_BUILD" >&2) || fail "revision $2 cannot be built by: $CYCLOMETER_BUILD"
}

# A baseline is a folder: the version of cyclometer in "version", the revision in "revision", the temporary folder of
# its commands in "folder", and the results of a command in a file that its checksum and length name.
version=$(cyclometer --version) || fail 'cyclometer --version failed'
if [ -n "$save" ]; then
    # Nothing but a baseline is replaced.
    [ ! -e "$baseline" ] || [ -f "$baseline/version" ] || rmdir "$baseline" 2>/dev/null ||
        fail "$baseline exists and is no baseline; name another folder in CYCLOMETER_BASELINE"
    rm -rf "$baseline.new"
    mkdir -p "$baseline.new" || fail "$baseline.new cannot be made; name another folder in CYCLOMETER_BASELINE"
elif [ -n "$baseline" ]; then
    if [ ! -f "$baseline/version" ]; then
        printf '## Instructions: no baseline yet\n\n'
        printf 'Nothing is compared: no run on the target branch has saved a baseline yet, or it was not fetched.\n'
        printf 'gate: there is no baseline in %s: nothing is compared\n' "$baseline" >&2
        exit 0
    fi
    saved=$(cat "$baseline/version")
    if [ "$saved" != "$version" ]; then
        reason="the baseline was saved by $saved, and this is $version"
        printf '## Instructions: not compared\n\n**Not measured:** %s.\n' "$reason"
        fail "$reason; run the job of the target branch again with this version, or install the version of the baseline"
    fi
fi
[ -n "$baseline" ] || check_out base "$CYCLOMETER_BASE"
check_out head "${CYCLOMETER_HEAD:-HEAD}"

# The conditions become arguments.
set --
rest=$conditions
while [ -n "$rest" ]; do
    condition=${rest%%;*}
    case $rest in
        *';'*) rest=${rest#*;} ;;
        *) rest= ;;
    esac
    condition=$(printf %s "$condition" | sed 's/^[[:blank:]]*//; s/[[:blank:]]*$//')
    [ -z "$condition" ] || set -- "$@" --fail-if "$condition"
done

# The text $2 of $1, everywhere replaced by $3.
replaced() {
    text=$1 out=
    while :; do
        case $text in
            *"$2"*)
                out=$out${text%%"$2"*}$3
                text=${text#*"$2"}
                ;;
            *) break ;;
        esac
    done
    printf '%s' "$out$text"
}

# The sentence for a comparison that failed no condition, by its table and what was told.
passed() {
    case $(cat "$work/table.md" "$work/said" 2>/dev/null) in
        *': inconclusive'*) printf '**Undecided:** the runs do not decide a condition; the option --fail-inconclusive makes that a failure.' ;;
        *) printf 'No condition holds.' ;;
    esac
}

# Options are words. --any-machine is about a baseline that is read, and both jobs may have it.
options=
for word in ${CYCLOMETER_OPTIONS:-}; do
    { [ -n "$save" ] && [ "$word" = --any-machine ]; } || options="$options $word"
done

# Measures with arguments. The environment is an input, too, and differs from job to job.
measure() {
    # shellcheck disable=SC2086
    (cd "$work/head" && env -i PATH="$PATH" HOME="${HOME:-/}" cyclometer compare -q -e "$events" \
        --export-markdown "$work/table.md" $options "$@" 2>"$work/said" </dev/null)
}

# The remedy for runners of several kinds.
advise_machine() {
    printf '\nRun the job of the target branch on a runner of this kind, compare both revisions in one job (without '
    printf 'CYCLOMETER_BASELINE), or add `--any-machine --cpu-baseline x86-64-v2` to CYCLOMETER_OPTIONS of both jobs.\n'
}

# The results of the command $1 in a baseline.
file_of() {
    printf %s "$1" | cksum | sed 's/ /-/; s/$/.json/'
}

worst=0 former=$work
[ -z "$baseline" ] || [ -n "$save" ] || former=$(cat "$baseline/folder")
head_name=$(git -C "$work/head" rev-parse --short HEAD)
if [ -n "$save" ]; then
    printf '## Baseline of %s\n' "$head_name"
elif [ -n "$baseline" ]; then
    printf '## Instructions of %s against the baseline of %s\n' "$head_name" "$(cat "$baseline/revision")"
else
    printf '## Instructions of %s against %s\n' "$head_name" "$(git -C "$work/base" rev-parse --short HEAD)"
fi
printf '%s\n' "$CYCLOMETER_COMMANDS" >"$work/commands"
cr=$(printf '\r')
while IFS= read -r line || [ -n "$line" ]; do
    line=${line%"$cr"}
    [ -n "$(printf %s "$line" | tr -d ' \t')" ] || continue
    case $line in
        *'{tree}'*) ;;
        *) fail "no {tree} in the command: $line" ;;
    esac
    new=$(replaced "$line" '{tree}' "$work/head")
    printf '\n### `%s`\n\n' "$line"
    if [ -n "$save" ]; then
        measure --save-baseline "$baseline.new/$(file_of "$line")" "$new"
    elif [ -z "$baseline" ]; then
        measure "$@" "$(replaced "$line" '{tree}' "$work/base")" "$new"
    elif [ -f "$baseline/$(file_of "$line")" ]; then
        measure "$@" --baseline "$baseline/$(file_of "$line")" "$new"
    else
        printf 'Nothing is compared: the baseline does not have this command yet.\n'
        continue
    fi
    status=$?
    cat "$work/said" >&2
    if [ -s "$work/table.md" ]; then
        # The second command, and the first one, which was in the folder of another job if it is of a baseline.
        table=$(replaced "$(cat "$work/table.md")" "$work/" '')
        table=$(replaced "$table" "$former/" '')
        replaced "$table" "${baseline:-$work}/" ''
    fi
    case $status in
        0)
            if [ -n "$save" ]; then
                printf 'Saved.\n'
            elif [ $# -gt 0 ]; then
                printf '\n\n%s\n' "$(passed)"
            fi
            ;;
        1)
            printf '\n\n**Failed:**\n\n```text\n'
            cat "$work/said"
            printf '```\n'
            [ "$worst" -ne 0 ] || worst=1
            ;;
        *)
            printf '\n\n**Not measured** (exit status %s):\n\n```text\n' "$status"
            cat "$work/said"
            printf '```\n'
            case $(cat "$work/said") in
                *'is of another machine'*) advise_machine ;;
            esac
            worst=125
            ;;
    esac
    rm -f "$work/table.md"
done <"$work/commands"
if [ -n "$save" ] && [ "$worst" -eq 0 ]; then
    printf '%s\n' "$head_name" >"$baseline.new/revision" && printf '%s\n' "$work" >"$baseline.new/folder" &&
        printf '%s\n' "$version" >"$baseline.new/version" && rm -rf "$baseline" && mv "$baseline.new" "$baseline" || fail "the baseline cannot be written to $baseline"
fi
exit "$worst"
