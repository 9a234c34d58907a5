import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** Every type, by the text and the binary protocol: rows, metadata, and rows written by batches. */
final class Types {
    /** Estimates, which differ between engines. */
    private static final Set<String> ESTIMATES = Set.of("CARDINALITY", "PAGES");

    private Types() {}

    static void run(Checks checks) throws Exception {
        for (String options : new String[] {"", "&useServerPrepStmts=true"}) {
            String protocol = options.isEmpty() ? "text" : "binary";
            try (Connection teak = Database.TEAK.connect(options); Connection innodb = Database.INNODB.connect(options)) {
                for (String table : Database.TYPE_TABLES) {
                    checks.same(table + ": rows, " + protocol, read(teak, table), read(innodb, table));
                    checks.same(table + ": result set's metadata, " + protocol, described(teak, table), described(innodb, table));
                }
            }
        }
        try (Connection teak = Database.TEAK.connect(); Connection innodb = Database.INNODB.connect()) {
            for (String table : Database.TYPE_TABLES) {
                checks.same(table + ": columns", columns(teak, table), columns(innodb, table));
                checks.same(table + ": indexes", indexes(teak, table), indexes(innodb, table));
                checks.same(table + ": exported", tables(teak, table), tables(innodb, table));
            }
            for (String table : new String[] {"numbers", "odd name`s", "account"})
                checks.same(table + ": primary key", keys(teak, table), keys(innodb, table));
        }
        for (String options : new String[] {"", "&useServerPrepStmts=true", "&useServerPrepStmts=true&useBulkStmts=true",
                "&rewriteBatchedStatements=true"})
            batches(checks, options);
    }

    private static List<String> read(Connection connection, String table) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("SELECT * FROM " + Database.quoted(table));
                ResultSet result = statement.executeQuery()) {
            return Database.rows(result);
        }
    }

    private static List<String> described(Connection connection, String table) throws SQLException {
        List<String> columns = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement("SELECT * FROM " + Database.quoted(table));
                ResultSet result = statement.executeQuery()) {
            ResultSetMetaData data = result.getMetaData();
            for (int i = 1; i <= data.getColumnCount(); i++)
                columns.add(String.join(" ", data.getColumnName(i), data.getColumnTypeName(i), "" + data.getColumnType(i),
                    data.getColumnClassName(i), "" + data.getPrecision(i), "" + data.getScale(i), "" + data.getColumnDisplaySize(i),
                    "" + data.isNullable(i), "" + data.isSigned(i), "" + data.isAutoIncrement(i), data.getTableName(i)));
        }
        return columns;
    }

    private static List<String> catalogue(ResultSet result) throws SQLException {
        List<String> rows = new ArrayList<>();
        ResultSetMetaData data = result.getMetaData();
        while (result.next()) {
            StringBuilder row = new StringBuilder();
            for (int i = 1; i <= data.getColumnCount(); i++) {
                String name = data.getColumnLabel(i);
                String value = ESTIMATES.contains(name) ? "-" : String.valueOf(result.getString(i));
                row.append(name).append('=').append(value.replaceAll("clients_(teak|innodb)", "clients")).append(' ');
            }
            rows.add(row.toString());
        }
        return rows;
    }

    private static List<String> columns(Connection connection, String table) throws SQLException {
        return catalogue(connection.getMetaData().getColumns(connection.getCatalog(), null, table, "%"));
    }

    private static List<String> indexes(Connection connection, String table) throws SQLException {
        List<String> rows = catalogue(connection.getMetaData().getIndexInfo(connection.getCatalog(), null, table, false, true));
        rows.add("end");
        return rows;
    }

    private static List<String> keys(Connection connection, String table) throws SQLException {
        return catalogue(connection.getMetaData().getPrimaryKeys(connection.getCatalog(), null, table));
    }

    private static List<String> tables(Connection connection, String table) throws SQLException {
        DatabaseMetaData data = connection.getMetaData();
        List<String> rows = catalogue(data.getTables(connection.getCatalog(), null, table, null));
        rows.addAll(catalogue(data.getBestRowIdentifier(connection.getCatalog(), null, table, DatabaseMetaData.bestRowSession, true)));
        return rows;
    }

    /** Writes the rows of InnoDB's tables into both engines, each table in one batch, and compares the results. */
    private static void batches(Checks checks, String options) throws Exception {
        for (String table : Database.TYPE_TABLES) {
            List<List<String>> found = new ArrayList<>();
            for (Database database : Database.values()) {
                try (Connection from = Database.INNODB.connect(); Connection to = database.connect(options)) {
                    Database.run(to, "DROP TABLE IF EXISTS written", "CREATE TABLE written LIKE " + Database.quoted(table));
                    int written = write(from, to, table);
                    List<String> rows = read(to, "written");
                    checks.check(table + ": batch into " + database + options, written == rows.size() && written > 0,
                        written + " written, " + rows.size() + " read");
                    found.add(rows);
                    Database.run(to, "DROP TABLE written");
                }
            }
            checks.same(table + ": rows of the batch" + options, found.get(0), found.get(1));
        }
    }

    private static int write(Connection from, Connection to, String table) throws SQLException {
        List<String> names = new ArrayList<>();
        try (PreparedStatement statement = from.prepareStatement("SELECT column_name FROM information_schema.columns "
                + "WHERE table_schema = 'clients_innodb' AND table_name = ? AND generation_expression IS NULL ORDER BY ordinal_position")) {
            statement.setString(1, table);
            try (ResultSet result = statement.executeQuery()) {
                while (result.next()) names.add(Database.quoted(result.getString(1)));
            }
        }
        String listed = String.join(", ", names);
        int rows = 0;
        to.setAutoCommit(false);
        try (Statement reader = from.createStatement();
                ResultSet result = reader.executeQuery("SELECT " + listed + " FROM " + Database.quoted(table));
                PreparedStatement writer = to.prepareStatement("INSERT INTO written (" + listed + ") VALUES ("
                    + String.join(", ", java.util.Collections.nCopies(names.size(), "?")) + ")")) {
            while (result.next()) {
                for (int i = 1; i <= names.size(); i++) set(writer, result, i);
                writer.addBatch();
                rows++;
            }
            writer.executeBatch();
        }
        to.commit();
        return rows;
    }

    private static void set(PreparedStatement writer, ResultSet result, int column) throws SQLException {
        String type = result.getMetaData().getColumnTypeName(column);
        if (Database.isBytes(result, column))
            writer.setBytes(column, result.getBytes(column));
        else if (type.startsWith("DECIMAL"))
            writer.setBigDecimal(column, result.getBigDecimal(column));
        else if (type.equals("DOUBLE"))
            writer.setObject(column, result.getObject(column));
        else
            writer.setString(column, result.getString(column));
    }
}
