// mysql2 (Node.js): every type by the text and the binary protocol, rows written by prepared statements, streaming,
// transactions.
'use strict';

const assert = require('node:assert');
const mysql = require('mysql2/promise');
const callbacks = require('mysql2');
const { version } = require('mysql2/package.json');

const DATABASES = { TEAK: 'clients_teak', InnoDB: 'clients_innodb' };
const TYPE_TABLES = ['numbers', 'moments', 'texts', 'addresses', 'odd name`s'];
const DUPLICATE = 1062, LOCK_TIMEOUT = 1205;
let failed = 0;

function check(name, holds, detail) {
  if (!holds) failed++;
  console.log(`${holds ? 'PASS' : 'FAIL'} mysql2: ${name}` + (holds ? '' : `: ${String(detail).slice(0, 400)}`));
}

// Checks that both values are equal and not empty.
function same(name, left, right) {
  try {
    assert.ok(left !== undefined && left !== null && left.length !== 0, 'nothing');
    assert.deepStrictEqual(left, right);
    check(name, true);
  } catch (error) {
    check(name, false, error.message);
  }
}

async function raises(name, number, action) {
  try {
    await action();
    check(name, false, `expected error ${number}, got none`);
  } catch (error) {
    check(name, error.errno === number, `expected error ${number}, got ${error}`);
  }
}

async function part(name, action) {
  try {
    await action();
  } catch (error) {
    console.log(error.stack);
    check(name, false, error);
  }
}

function options(engine, more) {
  return { socketPath: process.env.CLIENTS_SOCKET, user: 'root', database: DATABASES[engine], charset: 'utf8mb4',
    supportBigNumbers: true, bigNumberStrings: true, dateStrings: true, timezone: 'Z', ...more };
}

async function connected(engine, more, action) {
  const connection = await mysql.createConnection(options(engine, more));
  try {
    await connection.query("SET time_zone = '+00:00'");
    return await action(connection);
  } finally {
    await connection.end();
  }
}

const quoted = (name) => '`' + name.replaceAll('`', '``') + '`';
const inspect = (row) => JSON.stringify(row, (key, value) =>
  typeof value === 'bigint' ? `${value}n` : value instanceof Date ? `date ${value.getTime()}` : value);
const ordered = (rows) => rows.map(inspect).sort();
const described = (fields) => fields.map((field) => [field.name, field.orgName, field.orgTable, field.columnType,
  field.characterSet, field.columnLength, field.decimals, field.flags]);

async function types() {
  for (const [protocol, method] of [['text', 'query'], ['binary', 'execute']]) {
    for (const more of [{}, { dateStrings: false, rowsAsArray: true }]) {
      for (const table of TYPE_TABLES) {
        const found = {};
        for (const engine of Object.keys(DATABASES)) {
          found[engine] = await connected(engine, more, (connection) => connection[method](`SELECT * FROM ${quoted(table)}`));
        }
        const name = `${table}: ${protocol}${more.rowsAsArray ? ' with Date' : ''}`;
        same(`${name}: rows`, ordered(found.TEAK[0]), ordered(found.InnoDB[0]));
        same(`${name}: metadata`, described(found.TEAK[1]), described(found.InnoDB[1]));
      }
    }
  }
}

// Writes the rows of InnoDB's tables into both engines, each table by one prepared statement, and compares the results.
async function roundTrip() {
  for (const table of TYPE_TABLES) {
    const { names, rows } = await connected('InnoDB', { rowsAsArray: true }, async (connection) => {
      const [columns] = await connection.execute('SELECT column_name FROM information_schema.columns WHERE ' +
        'table_schema = DATABASE() AND table_name = ? AND generation_expression IS NULL ORDER BY ordinal_position', [table]);
      const names = columns.map((column) => quoted(column[0]));
      // Geometries are objects in mysql2; only their bytes can be written.
      const [rows] = await connection.query({ sql: `SELECT ${names.join(', ')} FROM ${quoted(table)}`,
        typeCast: (field, next) => (field.type === 'GEOMETRY' ? field.buffer() : next()) });
      return { names, rows };
    });
    const found = {};
    for (const engine of Object.keys(DATABASES)) {
      found[engine] = await connected(engine, {}, async (connection) => {
        await connection.query(`CREATE TABLE written LIKE ${quoted(table)}`);
        const statement = await connection.prepare(
          `INSERT INTO written (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`);
        await connection.beginTransaction();
        for (const row of rows) await statement.execute(row);
        await connection.commit();
        await statement.close();
        const [written] = await connection.query('SELECT * FROM written');
        await connection.query('DROP TABLE written');
        return ordered(written);
      });
    }
    check(`${table}: all rows written`, found.TEAK.length === rows.length, `${found.TEAK.length} of ${rows.length}`);
    same(`${table}: rows written`, found.TEAK, found.InnoDB);
  }
}

function stream(engine, method) {
  return new Promise((resolve, reject) => {
    const connection = callbacks.createConnection(options(engine));
    const rows = [];
    connection[method]('SELECT * FROM many WHERE grp <> ? ORDER BY grp, id DESC', [5]).stream({ highWaterMark: 10 })
      .on('data', (row) => rows.push(inspect(row)))
      .on('error', reject)
      .on('end', () => connection.end(() => resolve(rows)));
  });
}

async function streaming() {
  for (const method of ['query', 'execute']) {
    const teak = await stream('TEAK', method);
    check(`streaming by ${method}: all rows`, teak.length === 19793, teak.length);
    same(`streaming by ${method}: rows`, teak, await stream('InnoDB', method));
  }
}

async function transactions(engine) {
  const amount = async (connection, owner) => {
    const [rows] = await connection.execute('SELECT amount FROM account WHERE owner = ?', [owner]);
    return rows.length ? rows[0].amount : 'none';
  };
  await connected(engine, {}, (first) => connected(engine, {}, async (second) => {
    await first.beginTransaction();
    const [inserted] = await first.query('INSERT INTO account (owner, amount) VALUES ?', [[['dora', 1], ['eve', 2]]]);
    same(`${engine}: insertId and affectedRows`, [inserted.insertId, inserted.affectedRows], [103, 2]);
    same(`${engine}: nobody else sees them`, await amount(second, 'eve'), 'none');
    await first.rollback();
    same(`${engine}: nor anybody after rollback`, await amount(first, 'eve'), 'none');

    await first.beginTransaction();
    const [updated] = await first.execute("UPDATE account SET amount = amount - ? WHERE owner IN ('ann', 'nobody')", ['10.25']);
    same(`${engine}: rows changed`, [updated.affectedRows, updated.changedRows], [1, 1]);
    await first.query('SAVEPOINT half');
    await first.execute('DELETE FROM account');
    await first.query('ROLLBACK TO SAVEPOINT half');
    await second.query('SET innodb_lock_wait_timeout = 1, teak_lock_timeout = 1000');
    await raises(`${engine}: a written row is locked`, LOCK_TIMEOUT,
      () => second.execute("UPDATE account SET amount = 0 WHERE owner = 'ann'"));
    await first.commit();
    same(`${engine}: commit`, [await amount(second, 'ann'), await amount(second, 'bob')], ['989.75', '1000.00']);
    await raises(`${engine}: duplicate`, DUPLICATE, () => first.execute("INSERT INTO account (owner, amount) VALUES ('ann', 1)"));
  }));
}

async function main() {
  console.log(`-- mysql2 ${version}, Node.js ${process.version}`);
  await part('types', types);
  await part('round trip', roundTrip);
  await part('streaming', streaming);
  for (const engine of Object.keys(DATABASES)) await part(`${engine}: transactions`, () => transactions(engine));
  process.exitCode = failed ? 1 : 0;
}

main();
