// A load for a compiler at run time: objects, strings, numbers.
const rounds = Number(process.argv[2]);
let sum = 0;
for (let turn = 0; turn < rounds; turn++) {
  const counts = new Map();
  for (let i = 0; i < 20000; i++) {
    const word = ((i * 2654435761) >>> 12).toString(36).slice(0, 3);
    counts.set(word, (counts.get(word) ?? 0) + i);
  }
  const ordered = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  for (const [word, count] of ordered) sum = (sum * 31 + word.length * count) % 1000003;
}
console.log(sum);
