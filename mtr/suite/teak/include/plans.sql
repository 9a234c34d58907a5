-- Schemas and queries whose plans in InnoDB and Teak plans.test compares. One statement a line. Lines before QUERIES are only
-- executed; each line after it is explained and executed.
create table day (id int primary key, d date not null, year int not null, month int not null, weekday int not null, key y_m (year, month), unique key d (d));
insert into day select seq, '2019-12-31' + interval seq day, year('2019-12-31' + interval seq day), month('2019-12-31' + interval seq day), weekday('2019-12-31' + interval seq day) from seq_1_to_1096;
create table customer (id int primary key, name varchar(30) not null, city varchar(20) not null, segment int not null, key city (city), key segment_city (segment, city)) character set latin1 collate latin1_bin;
insert into customer select seq, concat('customer ', seq), concat('city ', seq % 50), seq % 7 from seq_1_to_2000;
create table product (id int primary key, name varchar(30) not null, category int not null, price decimal(10,2), key category (category), key price (price));
insert into product select seq, concat('product ', seq), seq % 20, seq % 97 + 0.99 from seq_1_to_500;
create table sale (id int primary key, day_id int not null, customer_id int not null, product_id int not null, quantity int, amount decimal(10,2), note varchar(100), key day_id (day_id), key customer_day (customer_id, day_id), key product_id (product_id), key product_amount (product_id, amount));
insert into sale select seq, seq * 7919 % 1096 + 1, seq * 104729 % 2000 + 1, seq * 1299709 % 500 + 1, seq % 9 + 1, seq % 1000 / 10, repeat('n', 80) from seq_1_to_20000;
create table wide (id int primary key, a int, b int, c int, d int, e int, text varchar(200), key a (a), key b (b), key c (c), key d_e (d, e), key a_b_c (a, b, c));
insert into wide select seq, seq % 100, seq % 97, seq % 1000, seq % 10, seq % 1009, repeat('w', 150) from seq_1_to_10000;
create table small (id int primary key, x int, y int, key x (x));
insert into small select seq, seq % 5, seq from seq_1_to_20;
create table two (p int, q int, r int, s varchar(20), primary key (p, q), key r (r), key s (s)) character set latin1 collate latin1_bin;
insert into two select seq div 10, seq % 10, seq % 333, concat('s', seq % 500) from seq_1_to_5000;
create table uniq (id int primary key, u int, n int, v int, unique key u (u), unique key n_v (n, v));
insert into uniq select seq, seq * 3, nullif(seq % 50, 0), seq from seq_1_to_3000;
create table down (id int primary key, a int, b int, c int, key a_b (a, b desc), key c (c desc));
insert into down select seq, seq % 50, seq % 77, seq % 300 from seq_1_to_5000;
create table heap (a int, b int, t varchar(50), key a (a), key b (b));
insert into heap select seq % 200, seq % 31, repeat('h', 40) from seq_1_to_4000;
create table gen (id int primary key, a int, v int as (a % 100) virtual, s int as (a div 100) stored, w int, key v (v), key s (s), key v_w (v, w));
insert into gen (id, a, w) select seq, seq * 13 % 4000, seq % 11 from seq_1_to_4000;
analyze table day, customer, product, sale, wide, small, two, uniq, down, heap, gen;
-- QUERIES
select * from sale where id = 77
select * from sale where id in (1, 5, 9, 13)
select * from sale where id between 100 and 150
select count(*) from sale where id > 19990
select count(*) from sale
select count(*) from sale where day_id = 5
select sum(amount) from sale where day_id = 5
select sum(amount) from sale where day_id between 5 and 7
select sum(amount) from sale where day_id between 5 and 900
select sum(amount) from sale where customer_id = 5 and day_id > 500
select sum(amount) from sale where customer_id = 5 and day_id > 500 and quantity = 3
select sum(amount) from sale where product_id = 7
select max(amount) from sale where product_id = 7
select min(amount), max(amount) from sale where product_id = 9
select product_id, max(amount) from sale group by product_id
select product_id, min(amount) from sale where product_id < 20 group by product_id
select distinct product_id from sale
select distinct customer_id from sale where customer_id < 30
select customer_id, count(*) from sale where customer_id < 20 group by customer_id
select min(day_id), max(day_id) from sale
select count(distinct product_id) from sale
select id from sale order by id desc limit 5
select id, day_id from sale order by day_id, id limit 5
select id, amount from sale where customer_id = 9 order by day_id limit 3
select id, amount from sale where customer_id = 9 order by day_id desc, id desc limit 3
select id from sale where day_id > 1000 order by id limit 5
select id from sale where product_id = 3 order by id limit 4
select c.city, sum(s.amount) from customer c join sale s on s.customer_id = c.id where c.segment = 3 and c.city = 'city 3' group by c.city
select c.segment, count(*) from customer c join sale s on s.customer_id = c.id where c.city = 'city 9' group by c.segment
select d.month, sum(s.amount) from day d join sale s on s.day_id = d.id where d.year = 2021 and d.month = 3 group by d.month
select d.year, count(*) from day d join sale s on s.day_id = d.id group by d.year
select p.category, sum(s.amount) from product p join sale s on s.product_id = p.id where p.category = 4 group by p.category
select count(*) from sale s join customer c on c.id = s.customer_id join product p on p.id = s.product_id join day d on d.id = s.day_id where d.d = '2020-05-05' and p.category < 10
select count(*) from sale s join customer c on c.id = s.customer_id join day d on d.id = s.day_id where c.city = 'city 7' and d.year = 2020 and d.month = 2
select count(*) from sale s left join product p on p.id = s.product_id and p.price > 50 where s.day_id = 17
select count(*) from customer c where exists (select 1 from sale s where s.customer_id = c.id and s.day_id = 3)
select count(*) from customer c where c.id in (select s.customer_id from sale s where s.day_id between 3 and 4)
select count(*) from customer c where not exists (select 1 from sale s where s.customer_id = c.id)
select count(*) from product p where p.price > (select avg(q.price) from product q where q.category = 3)
select p.id from product p where p.id in (select product_id from sale where customer_id = 44) order by p.id
select * from wide where a = 5 and b = 7
select id from wide where a = 5 and b = 7
select a, b, c from wide where a = 5
select count(*) from wide where a = 5 or b = 7
select id from wide where a = 5 or c = 77
select * from wide where a = 5 or id = 77
select * from wide where c = 5 or e = 77
select count(*) from wide where a = 5 and c = 105
select count(*) from wide where b < 3 or c < 5
select count(*) from wide where c = 7 and d = 7
select count(*) from wide where b = 3 and c = 5
select id from wide where d = 3 and e between 5 and 20
select text from wide where d = 3 and e between 5 and 20
select count(*) from wide where c > 950 and text like 'x%'
select a, count(*) from wide group by a
select d, min(e), max(e) from wide group by d
select d from wide where d > 3 group by d
select count(*) from wide where a in (1, 3, 5, 7) and b in (2, 4)
select a, b from wide where a = 3 order by b, c limit 7
select id from wide where c between 10 and 12 order by c
select id from wide where c between 10 and 12 order by c desc
select x.id from small x join wide y on y.c = x.id where x.x = 2
select count(*) from small x join wide y on y.a = x.y
select count(*) from wide x join wide y on x.id = y.id where x.c < 5
select count(*) from wide x join wide y on x.c = y.e where x.id < 20
select * from two where p = 77
select * from two where p = 77 and q = 3
select q from two where p between 10 and 12
select p, q from two where r = 9
select count(*) from two where r = 9 and p > 100
select p, q from two where r = 9 order by p desc, q desc limit 3
select s from two where s like 's12%'
select p, q, s from two where s = 's12'
select r from two where s in ('s1', 's2', 's3')
select count(*) from two where r = 5 and s = 's5'
select * from uniq where u = 33
select u from uniq where u between 30 and 60
select * from uniq where n = 7 and v = 57
select * from uniq where n is null
select count(*) from uniq where n is null and v < 500
select v from uniq where n = 7 order by v desc limit 2
select x.v from uniq x join uniq y on x.u = y.id where y.v < 40
select a, b from down where a = 7 order by b desc limit 4
select a, b from down where a = 7 order by b limit 4
select c from down order by c desc limit 3
select c from down where c > 290 order by c limit 3
select id from down where a between 3 and 5 and b > 70
select * from heap where a = 7
select count(*) from heap where a = 7 and b = 3
select count(*) from heap where a = 7 or b = 3
select t from heap where a between 3 and 5
select a from heap where a > 195 order by a
select id from gen where v = 13
select id, v from gen where v between 13 and 15
select a from gen where v = 13 and w = 5
select v, w from gen where v = 13
select a from gen where s = 17
select id from gen where v = 13 and w > 8 order by w
