import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Savepoint;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/** Generated keys, streaming, isolation levels, savepoints, locks. */
final class Transactions {
    private static final int DUPLICATE = 1062, LOCK_TIMEOUT = 1205;
    private static final String AMOUNT = "SELECT amount FROM account WHERE owner = ";

    private Transactions() {}

    static void run(Checks checks) throws Exception {
        for (Database database : Database.values()) {
            String name = database.name() + ": ";
            checks.part(name + "generated keys", () -> generatedKeys(checks, database));
            checks.part(name + "isolation levels", () -> isolation(checks, database));
            checks.part(name + "savepoints", () -> savepoints(checks, database));
            checks.part(name + "locks", () -> locks(checks, database));
            checks.part(name + "updatable result set", () -> updatable(checks, database));
        }
        streaming(checks);
    }

    private static void streaming(Checks checks) throws Exception {
        for (String options : new String[] {"", "&useServerPrepStmts=true"}) {
            List<List<String>> found = new ArrayList<>();
            for (Database database : Database.values()) {
                List<String> rows = new ArrayList<>();
                try (Connection connection = database.connect(options);
                        PreparedStatement statement = connection.prepareStatement("SELECT * FROM many WHERE grp <> ? ORDER BY grp, id DESC",
                            ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
                    statement.setFetchSize(100);
                    statement.setInt(1, 5);
                    try (ResultSet result = statement.executeQuery()) {
                        while (result.next()) rows.add(result.getInt(1) + " " + result.getInt(2) + " " + result.getString(3));
                    }
                }
                found.add(rows);
            }
            checks.check("streaming: all rows" + options, found.get(0).size() == 19793, "" + found.get(0).size());
            checks.same("streaming: rows" + options, found.get(0), found.get(1));
        }
    }

    private static void generatedKeys(Checks checks, Database database) throws Exception {
        try (Connection connection = database.connect();
                PreparedStatement statement = connection.prepareStatement("INSERT INTO account (owner, amount) VALUES (?, ?)",
                    Statement.RETURN_GENERATED_KEYS)) {
            connection.setAutoCommit(false);
            for (int i = 0; i < 5; i++) {
                statement.setString(1, "key " + i);
                statement.setBigDecimal(2, new java.math.BigDecimal(i));
                statement.addBatch();
            }
            int changed = statement.executeBatch().length;
            List<String> keys = Database.rows(statement.getGeneratedKeys());
            List<String> stored = Database.rows(connection, "SELECT id FROM account WHERE owner LIKE 'key %'");
            checks.same(database + ": generated keys of a batch", keys, stored);
            checks.same(database + ": rows of a batch", changed, 5);
            checks.same(database + ": INSERT ... RETURNING", Database.rows(connection,
                "INSERT INTO account (owner, amount) VALUES ('back', 1.25) RETURNING owner, amount, id > 107"), List.of("back|1.25|1|"));
            connection.rollback();
            checks.same(database + ": ROLLBACK of a batch", Database.value(connection, "SELECT COUNT(*) FROM account"), "3");
        }
    }

    private static void isolation(Checks checks, Database database) throws Exception {
        int[] levels = {Connection.TRANSACTION_READ_UNCOMMITTED, Connection.TRANSACTION_READ_COMMITTED,
            Connection.TRANSACTION_REPEATABLE_READ};
        String[] expected = {"1000.00 1.00 2.00", "1000.00 1000.00 2.00", "1000.00 1000.00 1000.00"};
        for (int i = 0; i < levels.length; i++) {
            try (Connection reader = database.connect(); Connection writer = database.connect()) {
                reader.setTransactionIsolation(levels[i]);
                reader.setAutoCommit(false);
                writer.setAutoCommit(false);
                checks.same(database + ": isolation level " + levels[i], reader.getTransactionIsolation(), levels[i]);
                String seen = Database.value(reader, AMOUNT + "'ann'");
                Database.run(writer, "UPDATE account SET amount = 1 WHERE owner = 'ann'");
                seen += " " + Database.value(reader, AMOUNT + "'ann'");
                Database.run(writer, "UPDATE account SET amount = 2 WHERE owner = 'ann'");
                writer.commit();
                seen += " " + Database.value(reader, AMOUNT + "'ann'");
                checks.same(database + ": what isolation level " + levels[i] + " sees", seen, expected[i]);
                reader.commit();
                Database.run(writer, "UPDATE account SET amount = 1000 WHERE owner = 'ann'");
                writer.commit();
            }
        }
        try (Connection reader = database.connect(); Connection writer = database.connect()) {
            reader.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            reader.setAutoCommit(false);
            Database.value(reader, AMOUNT + "'ann'");
            Database.run(writer, "SET innodb_lock_wait_timeout = 1, teak_lock_timeout = 1000");
            checks.raises(database + ": SERIALIZABLE reads lock", LOCK_TIMEOUT,
                () -> Database.run(writer, "UPDATE account SET amount = 1 WHERE owner = 'ann'"));
            reader.commit();
        }
        try (Connection reader = database.connect()) {
            Database.run(reader, "START TRANSACTION READ ONLY");
            checks.raises(database + ": READ ONLY", 1792, () -> Database.run(reader, "DELETE FROM account"));
        }
    }

    private static void savepoints(Checks checks, Database database) throws Exception {
        try (Connection connection = database.connect()) {
            connection.setAutoCommit(false);
            Database.run(connection, "UPDATE account SET amount = 1 WHERE owner = 'ann'");
            Savepoint first = connection.setSavepoint("first");
            Database.run(connection, "UPDATE account SET amount = 2 WHERE owner = 'ann'");
            Savepoint second = connection.setSavepoint();
            Database.run(connection, "DELETE FROM account WHERE owner = 'ann'");
            connection.rollback(second);
            String seen = Database.value(connection, AMOUNT + "'ann'");
            connection.rollback(first);
            seen += " " + Database.value(connection, AMOUNT + "'ann'");
            connection.releaseSavepoint(first);
            connection.rollback();
            seen += " " + Database.value(connection, AMOUNT + "'ann'");
            checks.same(database + ": savepoints", seen, "2.00 1.00 1000.00");
            checks.raises(database + ": duplicate within a batch", DUPLICATE, () -> {
                try (Statement statement = connection.createStatement()) {
                    statement.addBatch("INSERT INTO account (owner, amount) VALUES ('new', 1)");
                    statement.addBatch("INSERT INTO account (owner, amount) VALUES ('ann', 1)");
                    statement.executeBatch();
                }
            });
            connection.rollback();
            checks.same(database + ": ROLLBACK after it", Database.value(connection, "SELECT COUNT(*) FROM account"), "3");
        }
    }

    private static void locks(Checks checks, Database database) throws Exception {
        try (Connection holder = database.connect(); Connection other = database.connect()) {
            holder.setAutoCommit(false);
            other.setAutoCommit(false);
            Database.value(holder, AMOUNT + "'ann' FOR UPDATE");
            checks.raises(database + ": FOR UPDATE NOWAIT", LOCK_TIMEOUT,
                () -> Database.value(other, AMOUNT + "'ann' FOR UPDATE NOWAIT"));
            checks.same(database + ": FOR UPDATE of another row", Database.value(other, AMOUNT + "'bob' FOR UPDATE"), "1000.00");
            other.rollback();
            holder.rollback();
        }
    }

    private static void updatable(Checks checks, Database database) throws SQLException {
        try (Connection connection = database.connect()) {
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE);
                    ResultSet result = statement.executeQuery("SELECT id, owner, amount FROM account ORDER BY id")) {
                result.next();
                result.updateString("owner", "anna");
                result.updateRow();
                result.next();
                result.deleteRow();
                result.moveToInsertRow();
                result.updateString("owner", "zoe");
                result.updateString("amount", "3.5");
                result.insertRow();
            }
            checks.same(database + ": updatable result set", Database.rows(connection, "SELECT owner, amount FROM account"),
                List.of("anna|1000.00|", "cleo|1000.00|", "zoe|3.50|"));
            connection.rollback();
        }
    }
}
