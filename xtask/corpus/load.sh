# A load for a shell: loops, arithmetic, strings, functions, here documents; no other program.
fold() {
    value=$(( ($1 * 31 + $2) % 1000003 ))
}
sum=1
i=0
while [ "$i" -lt "$1" ]; do
    word="item-$i"
    case $word in
    *7) fold "$sum" "${#word}" ;;
    *) fold "$sum" "$i" ;;
    esac
    sum=$value
    rest=${word#item-}
    [ "$rest" = "$i" ] || exit 1
    i=$((i + 1))
done
echo "$sum"
