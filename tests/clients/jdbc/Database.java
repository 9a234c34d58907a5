import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** The two databases, and queries that every part needs. */
enum Database {
    TEAK, INNODB;

    static final String[] TYPE_TABLES = {"numbers", "moments", "texts", "addresses", "odd name`s"};

    private static final Set<String> SHAPES = Set.of("GEOMETRY", "POINT", "LINESTRING", "POLYGON", "GEOMETRYCOLLECTION");

    String schema() {
        return "clients_" + name().toLowerCase();
    }

    String url() {
        return "jdbc:mariadb://127.0.0.1:" + System.getenv("CLIENTS_PORT") + "/" + schema()
            + "?user=root&connectionTimeZone=UTC&forceConnectionTimeZoneToSession=true";
    }

    Connection connect(String options) throws SQLException {
        return DriverManager.getConnection(url() + options);
    }

    Connection connect() throws SQLException {
        return connect("");
    }

    static String quoted(String name) {
        return "`" + name.replace("`", "``") + "`";
    }

    static void run(Connection connection, String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String text : statements) statement.execute(text);
        }
    }

    /** Every row as text, sorted. */
    static List<String> rows(Connection connection, String query) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet result = statement.executeQuery(query)) {
            return rows(result);
        }
    }

    static List<String> rows(ResultSet result) throws SQLException {
        List<String> rows = new ArrayList<>();
        int columns = result.getMetaData().getColumnCount();
        while (result.next()) {
            StringBuilder row = new StringBuilder();
            for (int i = 1; i <= columns; i++) row.append(text(result, i)).append('|');
            rows.add(row.toString());
        }
        rows.sort(null);
        return rows;
    }

    /** The value as the driver's text, or its bytes if it is binary. */
    private static String text(ResultSet result, int column) throws SQLException {
        if (isBytes(result, column)) {
            byte[] bytes = result.getBytes(column);
            return bytes == null ? "NULL" : bytes.length + ":" + java.util.HexFormat.of().formatHex(bytes);
        }
        String text = result.getString(column);
        return text == null ? "NULL" : text;
    }

    static boolean isBytes(ResultSet result, int column) throws SQLException {
        String type = result.getMetaData().getColumnTypeName(column);
        return type.contains("BLOB") || type.contains("BINARY") || type.equals("BIT") || SHAPES.contains(type);
    }

    static String value(Connection connection, String query) throws SQLException {
        List<String> rows = rows(connection, query);
        if (rows.isEmpty()) return "no row";
        return rows.get(0).substring(0, rows.get(0).length() - 1);
    }
}
