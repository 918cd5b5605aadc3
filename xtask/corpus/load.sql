create table t (id integer primary key, word text, n integer);
with recursive c(i) as (select 1 union all select i + 1 from c where i < 30000)
  insert into t select i, printf('%x', (i * 2654435761) % 65536), i % 977 from c;
create index by_word on t (word);
select count(*), count(distinct word), sum(n) from t;
select word, count(*) c, sum(n) s from t group by word order by c desc, word limit 5;
select count(*) from t a join t b on a.word = b.word and a.id < b.id;
update t set n = n + length(word) where id % 3 = 0;
delete from t where n % 5 = 0;
select count(*), sum(n) from t;
vacuum;
pragma integrity_check;
