#!/bin/sh
# Compares the benchmark commands of two revisions of the repository in the current folder, and prints a summary in
# Markdown. Any CI can run it.
#
#   CYCLOMETER_COMMANDS  commands, one on each line; {tree} is the folder of a revision (needed)
#   CYCLOMETER_BASE      the revision to compare with (needed)
#   CYCLOMETER_HEAD      the revision that is judged; HEAD if it is not set
#   CYCLOMETER_BUILD     a shell command that builds a revision, in its folder
#   CYCLOMETER_EVENTS    events; instructions,branches,loads,stores if it is not set
#   CYCLOMETER_FAIL_IF   conditions, separated by semicolons; "instructions > +0.5%" if it is not set
#   CYCLOMETER_OPTIONS   further options of cyclometer compare
#
# Exit status: 0 no condition holds; 1 a condition holds; 125 a revision, a build or a measurement failed.
set -u

fail() {
    printf 'gate: %s\n' "$1" >&2
    exit 125
}

[ -n "${CYCLOMETER_COMMANDS:-}" ] || fail 'CYCLOMETER_COMMANDS is not set: name benchmark commands, one on each line'
[ -n "${CYCLOMETER_BASE:-}" ] || fail 'CYCLOMETER_BASE is not set: name the revision to compare with'
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
check_out base "$CYCLOMETER_BASE"
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

worst=0
base_name=$(git -C "$work/base" rev-parse --short HEAD)
head_name=$(git -C "$work/head" rev-parse --short HEAD)
printf '## Instructions of %s against %s\n' "$head_name" "$base_name"
printf '%s\n' "$CYCLOMETER_COMMANDS" >"$work/commands"
cr=$(printf '\r')
while IFS= read -r line || [ -n "$line" ]; do
    line=${line%"$cr"}
    [ -n "$(printf %s "$line" | tr -d ' \t')" ] || continue
    case $line in
        *'{tree}'*) ;;
        *) fail "no {tree} in the command: $line" ;;
    esac
    old=$(replaced "$line" '{tree}' "$work/base")
    new=$(replaced "$line" '{tree}' "$work/head")
    # The environment is an input, too, and differs from job to job. Options are words.
    # shellcheck disable=SC2086
    (cd "$work/head" && env -i PATH="$PATH" HOME="${HOME:-/}" cyclometer compare -q -e "$events" "$@" \
        --export-markdown "$work/table.md" ${CYCLOMETER_OPTIONS:-} "$old" "$new" 2>"$work/said" </dev/null)
    status=$?
    cat "$work/said" >&2
    printf '\n### `%s`\n\n' "$line"
    [ ! -s "$work/table.md" ] || replaced "$(cat "$work/table.md")" "$work/" ''
    case $status in
        0) [ $# -eq 0 ] || printf '\n\n%s\n' "$(passed)" ;;
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
            worst=125
            ;;
    esac
    rm -f "$work/table.md"
done <"$work/commands"
exit "$worst"
