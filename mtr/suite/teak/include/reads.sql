-- Access methods: index conditions, rowid filters, multi-range reads, batched key access, index merges, loose scans,
-- descending scans, cursors, prepared statements. The counts of pushed conditions and of sorted reads are compared, too.
create table d (id int primary key, g int not null, name varchar(20));
insert into d select seq, seq % 10, concat('d', seq) from seq_1_to_100;
create table f (id int primary key, d_id int not null, a int, b int, c varchar(20), e int, t varchar(100), key d_id (d_id), key a_b (a, b), key c_e (c, e), key b (b), key e (e), key c_d (c, d_id));
insert into f select seq, seq % 100 + 1, seq % 50, seq % 77, concat('c', seq % 40), nullif(seq % 23, 3), repeat(char(97 + seq % 26), 50) from seq_1_to_4000;
create table p2 (x int, y varchar(10), z int, w int, primary key (x, y), key z (z), key w_z (w, z)) character set latin1 collate latin1_bin;
insert into p2 select seq % 40, concat('y', seq), seq % 30, seq % 7 from seq_1_to_2000;
create table n (a int, b int, t varchar(20), key a (a), key b_a (b, a));
insert into n select seq % 30, seq % 11, concat('n', seq) from seq_1_to_1500;
analyze table d, f, p2, n;

-- index condition pushdown
flush status;
select count(*), sum(id) from f force index (a_b) where a between 5 and 9 and b % 7 = 3 and t > 'c';
show status like 'Handler_icp%';
flush status;
select id from f force index (c_e) where c like 'c1%' and e = 5 and t > 'b' order by id;
select id from f force index (c_e) where c = 'c12' and e > 5 and id > 500 and t > 'b' order by id;
select id, t from f force index (a_b) where a > 45 and b in (3, 4) order by a desc, b desc, id desc limit 5;
select id, t from f force index (a_b) where a < 5 and b in (3, 4) order by a, b, id limit 5;
select id, t from f force index (a_b) where a = 7 and b > 70 order by a desc, b desc, id desc;
select x, y, z from p2 force index (w_z) where w = 3 and z > 20 and x % 5 = 0 order by x, y;
select x, y, z from p2 force index (w_z) where w > 4 and z = 20 and y like 'y1%' order by x, y;
select t from n force index (b_a) where b > 8 and a = 7 order by t;
flush status;
select count(*) from f force index (a_b) where a = 3 and b > 1000 and t = 'x';
show status like 'Handler_icp%';
start transaction;
select id, t from f force index (a_b) where a between 5 and 9 and b = 3 order by id for update;
select id, t from f force index (a_b) where a between 5 and 9 and b = 3 order by id lock in share mode;
update f force index (a_b) set t = 'changed' where a between 5 and 9 and b = 3;
delete from f where a = 11 and b in (1, 2) and t > 'a';
select count(*), sum(id) from f where t = 'changed';
rollback;
update f set b = b + 1 where a = 12 and b < 30 order by b desc;
select id, b from f where a = 12 order by id limit 7;
select f.id from d straight_join f force index (a_b) where f.a = d.g and f.b > d.id and d.id < 8 and f.t > 'c' order by f.id limit 9;

-- rowid filter
set optimizer_switch = 'rowid_filter=on';
select count(*), sum(f.id) from d join f on f.d_id = d.id where d.g = 4 and f.e between 1 and 3;
select count(*), sum(id) from f where a = 4 and e between 1 and 2 and t > 'b';
select count(*) from p2 where z = 7 and w = 2;

-- multi-range reads
set optimizer_switch = 'mrr=on,mrr_sort_keys=on,mrr_cost_based=off';
flush status;
select sum(length(t)), count(*) from f force index (b) where b in (1, 5, 9) or b between 60 and 64;
show status like 'Handler_mrr%';
select sum(length(t)), count(*) from f force index (a_b) where a between 3 and 20 and b % 2 = 0;
select sum(length(t)) from f force index (c_e) where c in ('c1', 'c2', 'c3') and e > 5;
select sum(length(t)) from f where id in (5, 99, 7, 1200);
select count(*), sum(w) from p2 force index (z) where z between 3 and 9;
select count(*), max(t) from n force index (a) where a between 3 and 9;
select count(*), max(t) from n force index (b_a) where b in (1, 3) and a > 7;
start transaction;
select sum(length(t)) from f force index (b) where b between 5 and 9 for update;
delete from f where b between 70 and 71;
select count(*) from f;
rollback;

-- batched key access
set join_cache_level = 6, optimizer_switch = 'join_cache_bka=on,join_cache_hashed=on';
flush status;
select count(*), sum(f.e), max(f.t) from d join f on f.d_id = d.id where d.g < 4;
show status like 'Handler_mrr%';
select count(*), sum(f.e), max(f.t) from d join f force index (a_b) on f.a = d.g and f.b > 40 where d.id < 30;
select count(*), max(d.name) from f join d on d.id = f.d_id where f.a = 7;
select count(*), max(p2.w) from d join p2 on p2.z = d.g;
select count(*), max(n.t) from d left join n on n.a = d.id and n.b < 4;
set join_cache_level = 8;
select count(*), sum(f.e), max(f.t) from d join f on f.d_id = d.id where d.g < 4;
select count(*), sum(f.e), max(f.t) from d join f force index (a_b) on f.a = d.g and f.b > 40 where d.id < 30;
select count(*), max(d.name) from f join d on d.id = f.d_id where f.a = 7;
select count(*), max(n.t) from d left join n on n.a = d.id and n.b < 4;
select d.id, f.id from d join f on f.c = d.name and f.d_id = d.id order by 1, 2 limit 5;
set join_cache_level = default, optimizer_switch = default;

-- index merges
select count(*), sum(id), max(t) from f where a = 7 and e = 5;
select count(*), sum(id), max(t) from f use index (a_b, e, b) where b = 7 and e = 5;
select count(*), sum(id), max(t) from f where a = 7 or e = 5 or c = 'c9';
select count(*), sum(id), max(t) from f where b < 3 or e = 5 or c in ('c9', 'c8');
set optimizer_switch = 'index_merge_sort_intersection=on';
select count(*), sum(id), max(t) from f use index (b, e) where b < 9 and e < 5;
set optimizer_switch = default;
select count(*), sum(x), max(y) from p2 where z = 7 and w = 2;
select count(*), sum(x), max(y) from p2 where z = 7 or w = 2;
select count(*), max(t) from n where a = 7 or b = 3;
start transaction;
update f set t = 'merged' where a = 7 or e = 5;
delete from f where b = 7 and e = 5;
select count(*) from f where t = 'merged';
rollback;

-- loose scans, descending scans, extended keys
flush status;
select a, min(b), max(b) from f group by a;
select distinct a from f where a > 40;
select c, max(e) from f where c > 'c3' group by c;
select count(distinct a, b) from f;
select min(b) from f where a = 9;
select max(b) from f where a = 9;
select min(d_id), max(d_id) from f;
select max(id) from f where b = 7;
select id from f where b = 7 and id > 3900 order by id desc;
select b, id from f where b > 74 order by b desc, id desc limit 4;
select c, d_id from f where c = 'c5' and d_id < 20 order by d_id desc limit 3;
select * from p2 where x < 3 order by x desc, y desc limit 3;
select y from p2 where x = 5 and y > 'y1' order by y desc limit 3;

-- LIMIT ROWS EXAMINED, cursors, prepared statements, SELECT INTO
select count(*) > 0 from (select id from f where t like 'z%' limit rows examined 100) x;
delimiter //
create procedure walk()
begin
  declare done, i, total int default 0;
  declare c cursor for select id from f where a = 3 order by id;
  declare continue handler for not found set done = 1;
  open c;
  fetch c into i;
  while not done do
    set total = total + i;
    update f set e = e + 1 where id = i;
    if i % 500 = 3 then commit; end if;
    fetch c into i;
  end while;
  close c;
  select total;
end//
delimiter ;
call walk();
start transaction;
call walk();
rollback;
select sum(e) from f where a = 3;
prepare s from 'select count(*), max(t) from f where a between ? and ? and b % ? = 1';
set @a = 3, @b = 5, @c = 4;
execute s using @a, @b, @c;
set @b = 30;
execute s using @a, @b, @c;
analyze table f;
execute s using @a, @b, @c;
alter table f add column extra int default 3, drop index b, algorithm=copy;
execute s using @a, @b, @c;
deallocate prepare s;
drop procedure walk;

-- INSERT and DELETE ... RETURNING; CHECKSUM TABLE
insert into d values (201, 1, 'new'), (202, 2, 'newer') returning id, concat(name, '!');
replace into d values (201, 3, 'again') returning *;
delete from d where id > 200 returning name, g;
insert into d select 300, 1, 'sel' returning id;
checksum table d, f, p2, n;
checksum table d, f, p2, n extended;
create table ck (id int primary key, a int, b varchar(10), c char(10), t text, v int as (a + 1) virtual, d decimal(5,2), dt datetime(3), e enum('x','y'));
insert into ck (id, a, b, c, t, d, dt, e) values (1, 1, 'b', 'c', 't', 1.5, '2020-01-01 00:00:00.123', 'x'), (2, null, null, null, null, null, null, null), (3, -3, '', '', '', 0, '0000-00-00', 'y');
checksum table ck;
drop table ck, d, f, p2, n;

-- covering reads of keys with virtual columns
create table g (id int primary key, a int, v int as (a * 2) virtual, s varchar(20) as (concat('s', a)) virtual, w int as (if(a % 5 = 0, null, a)) virtual, x int, key v (v), key v_x (v, x), key s_v (s, v), key w (w), unique key u (v, id), key x_v (x, v)) character set latin1 collate latin1_bin;
insert into g (id, a, x) select seq, seq % 97, seq % 10 from seq_1_to_1000;
select v from g force index (v) where v between 10 and 14 order by v;
select v, x, id from g force index (v_x) where v = 40 order by x, id;
select count(*), sum(v), min(x) from g force index (v_x) where v > 100;
select s, v from g force index (s_v) where s = 's7' limit 2;
select w, count(*) from g force index (w) where w < 12 or w is null group by w;
select v, count(*), max(x) from g group by v limit 3;
select distinct v from g force index (v) where v < 20 order by v desc;
select x, max(v) from g group by x;
select id, v, s, w from g where v = 14 order by id limit 3;
select id, a, v, x from g force index (x_v) where x = 3 and v > 180 order by id;
select g1.v, g2.v, g2.id from g g1 join g g2 force index (v) on g2.v = g1.v where g1.id = 77 order by 3;
start transaction;
select v, x from g force index (v_x) where v = 40 for update;
update g set a = a + 1 where v = 40;
select count(*) from g force index (v) where v = 42;
delete from g where v = 42;
select count(*), sum(v) from g force index (v);
rollback;
select count(*), sum(v), sum(w), sum(x) from g;
-- No batched key access through a virtual column: the server loses rows nondeterministically in every engine.
select id from g where v = 14 or w = 33 order by id limit 5;
handler g open;
handler g read v = (40) limit 2;
handler g read v next;
handler g read v_x last;
handler g read v_x prev;
handler g close;
drop table g;

-- covering reads of texts that cannot be decoded from the key order: the entry stores them
create table tx (id int primary key, v varchar(20) character set utf8mb4 collate utf8mb4_general_ci, c char(10) character set latin1, u varchar(20) character set utf8mb4 collate utf8mb4_unicode_ci not null, w char(5) character set ucs2, b varchar(10) character set latin1 collate latin1_bin, f float, d double not null, t text, n int, key v (v), key c_v (c, v), unique key u (u), key w_n (w, n), key b_d (b desc, d), key f (f), unique key d_v (d, v), key t (t(5)), key n_v (n, v));
insert into tx select seq, elt(seq % 7 + 1, 'abc', 'ABC', 'abc ', 'Äbc', null, '', concat('z', seq)), elt(seq % 5 + 1, 'x', 'X', 'y  ', null, ''), concat(if(seq % 2, 'U', 'u'), seq), elt(seq % 4 + 1, 'w', 'W ', null, 'ŵ'), elt(seq % 5 + 1, 'b', 'b ', 'B', null, ''), if(seq % 9 = 0, null, -seq / 3), seq / 7, repeat('t', seq % 10), seq % 10 from seq_1_to_400;
insert into tx values (500, null, null, 'zero', null, null, -0e0, -0e0, null, null), (501, 'trail   ', 'trail', 'trail  ', 'tr', 'tr ', 0e0, 1e300, null, null);
select v, hex(v), count(*) from tx force index (v) where v = 'abc' group by hex(v) order by 2;
select hex(v) from tx force index (v) where v like 'z1%' order by v;
select count(*) from tx force index (v) where v is null;
select distinct hex(c), hex(v) from tx force index (c_v) where c = 'X' order by 1, 2;
select hex(c), count(*) from tx force index (c_v) where c < 'Y' group by hex(c) order by 1;
select u from tx force index (u) where u between 'u10' and 'u12' order by u;
select u from tx where u = 'U7';
select hex(w), n from tx force index (w_n) where w = 'w' and n < 3 order by 1, 2 limit 5;
select hex(w), count(*) from tx force index (w_n) group by hex(w) order by 1;
select hex(b), count(*), max(d) from tx force index (b_d) group by hex(b) order by 1;
select f from tx force index (f) where f > -3 order by f;
select d, v from tx force index (d_v) where d < 0.5 order by d;
select d from tx force index (d_v) order by d desc limit 3;
select n, v from tx force index (n_v) where n = 3 and v like 'z%' order by v desc;
select max(v), min(v) from tx force index (n_v) where n = 3;
select id, t from tx force index (n_v) where n = 4 and v like 'A%' and t > 'tt' order by id limit 4;
select id from tx force index (c_v) where c = 'x' and v not like 'z%' and t like 'ttt%' order by id limit 4;
-- an update that does not change the order
update tx set v = 'aBc' where id = 7;
update tx set v = upper(v), c = lower(c), u = upper(u) where id between 1 and 50;
update tx set b = concat(b, ' '), w = upper(w) where n = 2;
update tx set f = 0, d = 0 where id = 500;
select f, d from tx force index (f) where f = 0 order by id;
select hex(v), count(*) from tx force index (v) where v = 'abc' group by hex(v) order by 1;
select u from tx force index (u) where u between 'u10' and 'u12' order by u;
select hex(b) from tx force index (b_d) where b = 'b' order by d limit 6;
insert into tx (id, u, d) values (600, 'u7', 7e7);
insert into tx (id, u, d) values (600, 'u7', 7e7) on duplicate key update u = 'U7x', v = 'odku';
replace into tx (id, u, d, v) values (601, 'u8', 8e8, 'Replaced');
insert ignore into tx (id, u, d) values (602, 'U9', 9e9);
select id, u, v from tx force index (u) where u like 'u7%' or u like 'u8%' order by u;
select u from tx force index (u) where u like 'u8%' order by u;
start transaction;
update tx set v = lower(v) where v is not null;
select hex(v), count(*) from tx force index (v) where v = 'abc' group by hex(v) order by 1;
select v from tx force index (v) where v = 'abc' order by id limit 3 for update;
rollback;
select hex(v), count(*) from tx force index (v) where v = 'abc' group by hex(v) order by 1;
delete from tx where v = 'ABC' and id < 100;
select count(*), sum(crc32(v)) from tx force index (v);
select count(*), sum(crc32(v)) from tx ignore index (v, c_v, n_v, d_v);
check table tx extended;
alter table tx add key new_v (v, n), algorithm=copy;
select hex(v), n from tx force index (new_v) where v = 'abc' and n < 3 order by 1, 2 limit 3;
handler tx open;
handler tx read v = ('abc') where n = 3 limit 2;
handler tx read v next limit 2;
handler tx close;
drop table tx;
create table hidden (a varchar(10), b int, key a (a), unique key b_a (b, a)) character set utf8mb4;
insert into hidden select elt(seq % 3 + 1, 'p', 'P', 'p '), seq from seq_1_to_50;
select hex(a), count(*) from hidden force index (a) where a = 'P' group by hex(a) order by 1;
select hex(a), b from hidden force index (b_a) where b < 6 order by b;
update hidden set a = 'Q' where b = 3;
update hidden set a = 'q' where b = 3;
select a from hidden force index (b_a) where b = 3;
replace into hidden values ('p', 3);
select hex(a), b from hidden where b = 3;
drop table hidden;
create table part (id int, s varchar(20), n int, primary key (id), key s (s), key n_s (n, s)) character set utf8mb4 partition by hash (id) partitions 4;
insert into part select seq, elt(seq % 4 + 1, 'a', 'A', 'b', 'B'), seq % 5 from seq_1_to_200;
select hex(s), count(*) from part force index (s) where s = 'a' group by hex(s) order by 1;
select s, n, id from part force index (n_s) where n = 2 and s > 'a' order by s, id limit 5;
select s, id from part force index (s) where s >= 'a' order by s desc, id desc limit 5;
set optimizer_switch = 'mrr=on,mrr_cost_based=off', join_cache_level = 6;
select count(*), max(p2.s) from part p1 join part p2 force index (n_s) on p2.n = p1.n and p2.s = p1.s where p1.id < 20;
set optimizer_switch = default, join_cache_level = default;
drop table part;
