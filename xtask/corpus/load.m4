define(`loop', `ifelse(eval($1 > $2), 1, , `$3($1)loop(incr($1), $2, `$3')')')dnl
define(`line', `translit(`item $1 of many', `a-z', `b-za') eval(($1 * 7919) % 10007) len(`item $1')
')dnl
loop(1, 3000, `line')dnl
