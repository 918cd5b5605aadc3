# A load for an interpreter: words counted, sorted, and put together again.
rounds, file = ARGV[0].to_i, ARGV[1]
text = File.read(file, 60_000)
sum = 0
rounds.times do |turn|
  counts = Hash.new(0)
  text.scan(/[a-z]+/) { |word| counts[word] += turn + 1 }
  ordered = counts.sort_by { |word, count| [-count, word] }
  sum = (sum * 31 + ordered.map { |word, count| "#{word}=#{count}" }.join(" ").sum(32)) % 1_000_003
end
puts sum
