# A load for an interpreter: words counted, sorted, and put together again.
use strict;
my ($rounds, $file) = @ARGV;
open my $in, '<', $file or die "$file: $!";
read $in, my $text, 150_000;
my $sum = 0;
for my $turn (1 .. $rounds) {
    my %counts;
    $counts{$1} += $turn while $text =~ /([a-z]+)/g;
    my @ordered = sort { $counts{$b} <=> $counts{$a} || $a cmp $b } keys %counts;
    $sum = ($sum * 31 + unpack '%32C*', join ' ', map { "$_=$counts{$_}" } @ordered) % 1_000_003;
}
print "$sum\n";
