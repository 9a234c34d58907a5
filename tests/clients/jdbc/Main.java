import java.sql.Connection;

/** Connector/J against Teak and InnoDB. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = Database.TEAK.connect()) {
            System.out.println("-- MariaDB Connector/J " + connection.getMetaData().getDriverVersion() + ", Java "
                + System.getProperty("java.version"));
        }
        Checks checks = new Checks();
        checks.part("types", () -> Types.run(checks));
        checks.part("transactions", () -> Transactions.run(checks));
        Distributed.run(checks);
        System.exit(checks.failed() == 0 ? 0 : 1);
    }
}
