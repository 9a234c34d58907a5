import java.sql.Connection;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.List;
import javax.sql.XAConnection;
import javax.sql.XADataSource;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.mariadb.jdbc.MariaDbDataSource;

/** XA through XADataSource. */
final class Distributed {
    private record Id(String name) implements Xid {
        @Override
        public int getFormatId() {
            return 7;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return name.getBytes(java.nio.charset.StandardCharsets.UTF_8);
        }

        @Override
        public byte[] getBranchQualifier() {
            return new byte[] {0, 1, (byte) 0xFF};
        }
    }

    private Distributed() {}

    static void run(Checks checks) {
        for (Database database : Database.values()) {
            checks.part(database + ": XA", () -> branches(checks, database));
            checks.part(database + ": XA after its connection", () -> afterwards(checks, database));
        }
        checks.part("XA over both engines", () -> both(checks));
    }

    private static XAConnection open(Database database) throws SQLException {
        XADataSource source = new MariaDbDataSource(database.url());
        return source.getXAConnection();
    }

    private static String amount(Database database, String owner) throws SQLException {
        try (Connection connection = database.connect()) {
            return Database.value(connection, "SELECT amount FROM account WHERE owner = '" + owner + "'");
        }
    }

    private static void work(XAConnection connection, Xid id, String... statements) throws Exception {
        connection.getXAResource().start(id, XAResource.TMNOFLAGS);
        Connection session = connection.getConnection();
        Database.run(session, statements);
        connection.getXAResource().end(id, XAResource.TMSUCCESS);
    }

    private static boolean listed(XAResource resource, Xid id) throws XAException {
        for (Xid found : resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN))
            if (found.getFormatId() == id.getFormatId() && Arrays.equals(found.getGlobalTransactionId(), id.getGlobalTransactionId())
                    && Arrays.equals(found.getBranchQualifier(), id.getBranchQualifier()))
                return true;
        return false;
    }

    private static void branches(Checks checks, Database database) throws Exception {
        XAConnection connection = open(database);
        XAResource resource = connection.getXAResource();
        Xid one = new Id("one phase"), two = new Id("two phases"), back = new Id("rolled back");
        work(connection, one, "UPDATE account SET amount = 1 WHERE owner = 'ann'");
        resource.commit(one, true);
        checks.same(database + ": XA in one phase", amount(database, "ann"), "1.00");

        work(connection, two, "UPDATE account SET amount = 2 WHERE owner = 'ann'");
        checks.same(database + ": XA prepare", resource.prepare(two), XAResource.XA_OK);
        checks.same(database + ": prepared is not committed", amount(database, "ann"), "1.00");
        checks.check(database + ": prepared is listed", listed(resource, two), "XA RECOVER does not have it");
        resource.commit(two, false);
        checks.same(database + ": XA commit", amount(database, "ann"), "2.00");
        checks.check(database + ": committed is not listed", !listed(resource, two), "XA RECOVER still has it");

        work(connection, back, "UPDATE account SET amount = 3 WHERE owner = 'ann'", "DELETE FROM account WHERE owner = 'bob'");
        resource.prepare(back);
        resource.rollback(back);
        checks.same(database + ": XA rollback", List.of(amount(database, "ann"), amount(database, "bob")), List.of("2.00", "1000.00"));
        connection.close();
    }

    /** Closes the connection after XA PREPARE; another connection ends the branch. */
    private static void afterwards(Checks checks, Database database) throws Exception {
        for (boolean commit : new boolean[] {true, false}) {
            Xid id = new Id(commit ? "committed later" : "rolled back later");
            String before = amount(database, "cleo"), after = commit ? "77.00" : before;
            String change = "UPDATE account SET amount = amount + " + (commit ? "77 - amount" : "1") + " WHERE owner = 'cleo'";
            XAConnection connection = open(database);
            work(connection, id, change);
            connection.getXAResource().prepare(id);
            connection.close();
            connection.getConnection().close();

            XAConnection other = open(database);
            Connection session = other.getConnection();
            Database.run(session, "SET innodb_lock_wait_timeout = 1, teak_lock_timeout = 1000");
            checks.check(database + ": another connection lists the branch", listed(other.getXAResource(), id), "XA RECOVER does not have it");
            checks.raises(database + ": its rows stay locked", 1205,
                () -> Database.run(session, "UPDATE account SET amount = 0 WHERE owner = 'cleo'"));
            if (commit) other.getXAResource().commit(id, false);
            else other.getXAResource().rollback(id);
            checks.same(database + ": and ends it by " + (commit ? "commit" : "rollback"), amount(database, "cleo"), after);
            other.close();
        }
    }

    private static void both(Checks checks) throws Exception {
        XAConnection connection = open(Database.TEAK);
        Xid id = new Id("both engines");
        work(connection, id, "UPDATE clients_teak.account SET amount = 5 WHERE owner = 'bob'",
            "UPDATE clients_innodb.account SET amount = 6 WHERE owner = 'bob'");
        connection.getXAResource().prepare(id);
        checks.same("XA over both engines: prepared", List.of(amount(Database.TEAK, "bob"), amount(Database.INNODB, "bob")),
            List.of("1000.00", "1000.00"));
        connection.getXAResource().commit(id, false);
        checks.same("XA over both engines: committed", List.of(amount(Database.TEAK, "bob"), amount(Database.INNODB, "bob")),
            List.of("5.00", "6.00"));
        connection.close();
    }
}
