-- Partitioned tables.
create table pr (id int, d date, v varchar(10), primary key (id, d), key (v)) partition by range columns (d) (
  partition p0 values less than ('2020-01-01'), partition p1 values less than ('2021-01-01'), partition p2 values less than maxvalue);
insert into pr select seq, date_add('2019-06-01', interval seq day), concat('v', seq % 7) from seq_1_to_600;
select count(*) from pr;
select count(*) from pr partition (p1);
select id, d from pr where d between '2019-12-30' and '2020-01-02' order by d;
select id, v from pr where v = 'v3' order by id limit 5;
select id from pr order by d desc, id limit 3;
select min(d), max(d), min(v), max(v) from pr;
update pr set d = '2025-01-01' where id = 1;
select partition_name, table_rows > 0 from information_schema.partitions where table_name = 'pr' and table_schema = 'twin' order by 1;
select count(*) from pr partition (p2);
delete from pr where v = 'v1';
alter table pr truncate partition p1;
select count(*) from pr;
alter table pr drop partition p0;
select count(*) from pr;
alter table pr reorganize partition p2 into (partition p2a values less than ('2022-01-01'), partition p2b values less than maxvalue);
insert into pr values (10000, '2023-01-01', 'x');
select count(*) from pr partition (p2b);
create table one (id int, d date, v varchar(10), primary key (id, d), key (v));
insert into one values (7, '2024-05-05', 'swap');
alter table pr exchange partition p2b with table one;
select * from pr partition (p2b);
select count(*) from one;
check table pr extended;
alter table pr remove partitioning;
select count(*) from pr;
drop table pr, one;

create table ph (a int auto_increment primary key, b varchar(20), key (b)) partition by hash (a) partitions 4;
insert into ph (b) select concat('b', seq) from seq_1_to_100;
select count(*), sum(a) from ph;
select a from ph where b = 'b50';
update ph set a = a + 1000 where a < 10 order by a;
select a, b from ph where a > 1000 order by a;
insert into ph (b) values ('next');
select a from ph where b = 'next';
alter table ph coalesce partition 2;
alter table ph add partition partitions 3;
select count(*), sum(a) from ph;
insert into ph values (50, 'dup');
replace into ph values (50, 'replaced');
insert into ph values (51, 'x') on duplicate key update b = 'odku';
select * from ph where a in (50, 51) order by a;
start transaction;
delete from ph;
rollback;
select count(*) from ph;
check table ph extended;
drop table ph;

create table pl (a int, b int, key (a)) partition by list (a) (partition odd values in (1, 3, 5), partition even values in (2, 4, 6), partition n values in (null));
insert into pl values (1, 1), (2, 2), (null, 3), (5, 5);
insert into pl values (7, 7);
insert ignore into pl values (7, 7), (6, 6);
update pl set a = 4 where a = 1;
select * from pl order by b;
select * from pl where a is null;
truncate table pl;
select count(*) from pl;
drop table pl;

create table pk (a varchar(10), b int, primary key (a, b)) partition by key (a) partitions 3 ;
insert into pk select concat('a', seq % 10), seq from seq_1_to_100;
select count(*) from pk where a = 'a3';
select a, b from pk where a > 'a7' order by a desc, b desc limit 4;
alter table pk rename to pk2;
select count(*) from pk2;
create table pk3 like pk2;
insert into pk3 select * from pk2;
select count(*) from pk3;
drop table pk2, pk3;

create table sub (a int, d date, key (a)) partition by range (year(d)) subpartition by hash (a) subpartitions 2 (
  partition p0 values less than (2020), partition p1 values less than maxvalue);
insert into sub select seq, date_add('2019-12-01', interval seq day) from seq_1_to_60;
select count(*) from sub partition (p0);
delete from sub where a = 5;
select count(*) from sub;
drop table sub;

# ALTER ... AUTO_INCREMENT sets the counter of every partition
create table t (id int auto_increment primary key, n int) partition by hash (id) partitions 4;
insert into t values (77, 1), (78, 2), (79, 3);
delete from t;
alter table t auto_increment = 1;
insert into t (n) values (4), (5);
alter table t auto_increment = 50;
insert into t (n) values (6), (7);
select * from t order by id;
drop table t;
