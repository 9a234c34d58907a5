import java.sql.SQLException;
import java.util.Collection;
import java.util.Map;

/** Prints PASS or FAIL for each check. */
final class Checks {
    interface Action {
        void run() throws Exception;
    }

    private int failed;

    int failed() {
        return failed;
    }

    void check(String name, boolean holds, String detail) {
        if (holds) {
            System.out.println("PASS jdbc: " + name);
        } else {
            failed++;
            System.out.println("FAIL jdbc: " + name + ": " + detail);
        }
    }

    /** Checks that both values are equal and not empty. */
    void same(String name, Object left, Object right) {
        boolean nothing = left == null || left instanceof Collection<?> c && c.isEmpty() || left instanceof Map<?, ?> m && m.isEmpty();
        check(name, !nothing && left.equals(right), difference(left, right));
    }

    /** Runs one part of the checks. An exception is a failure of this part. */
    void part(String name, Action action) {
        try {
            action.run();
        } catch (Exception error) {
            error.printStackTrace(System.out);
            check(name, false, error.toString());
        }
    }

    /** Checks that the action fails with the server's error number. */
    void raises(String name, int number, Action action) throws Exception {
        try {
            action.run();
            check(name, false, "expected error " + number + ", got none");
        } catch (SQLException error) {
            check(name, error.getErrorCode() == number, "expected error " + number + ", got " + error.getErrorCode() + ": " + error);
        }
    }

    private static String difference(Object left, Object right) {
        if (left instanceof java.util.List<?> a && right instanceof java.util.List<?> b) {
            for (int i = 0; i < Math.min(a.size(), b.size()); i++)
                if (!a.get(i).equals(b.get(i))) return "item " + i + ": " + difference(a.get(i), b.get(i));
            return a.size() + " and " + b.size() + " items";
        }
        return shortened(left) + " / " + shortened(right);
    }

    private static String shortened(Object value) {
        String text = String.valueOf(value);
        return text.length() <= 400 ? text : text.substring(0, 400) + "...";
    }
}
