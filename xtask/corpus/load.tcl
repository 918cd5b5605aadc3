# A load for an interpreter: words counted, sorted, and put together again.
lassign $argv rounds file
set in [open $file]
set text [read $in 30000]
set sum 0
for {set turn 1} {$turn <= $rounds} {incr turn} {
    set counts [dict create]
    foreach word [split $text " \n.,"] { dict incr counts $word $turn }
    foreach word [lsort [dict keys $counts]] {
        set sum [expr {($sum * 31 + [string length $word] * [dict get $counts $word]) % 1000003}]
    }
}
puts $sum
